//! Datagrams: service level per message, keys, multicast, global route headers.

use selvedge_hca::{
    Ah, AhAttr, AttrMask as M, Datagram, Gid, MULTICAST_QP, Qp, QpAttr, QpState, SendOp, SendWr, Transport, VerbsError,
};
use selvedge_types::{Lid, Sl};

use crate::net::{Net, attributes, lid, path, to_rts};

const GROUP: (Gid, Lid) = (Gid(0xFF12 << 112 | 5), Lid(0xC005));

fn queue_pair(net: &mut Net, host: usize, qkey: u32) -> Qp {
    let qp = net.hosts[host].create_qp(Transport::Ud, None);
    let attr = QpAttr {
        qkey,
        ..attributes(0, path(1, (1 - host.min(1), 1), 0))
    };
    to_rts(net, host, qp, Transport::Ud, &attr);
    qp
}

fn address(net: &mut Net, host: usize, to: Lid, sl: u8, grh: Option<Gid>) -> Ah {
    let attr = AhAttr {
        sl: Sl::new(sl).unwrap(),
        grh,
        ..AhAttr::lid(to)
    };
    let pd = net.hosts[host].pd;
    net.hosts[host].hca.create_ah(pd, 1, &attr).unwrap()
}

fn message(net: &Net, wr_id: u64, bytes: u32, ah: Ah, remote_qpn: u32, remote_qkey: u32) -> SendWr {
    let datagram = Some(Datagram {
        ah,
        remote_qpn,
        remote_qkey,
    });
    let op = SendOp::Send {
        immediate: Some(wr_id as u32),
    };
    SendWr {
        op,
        datagram,
        ..SendWr::send(wr_id, net.hosts[0].sge(bytes))
    }
}

#[test]
fn each_message_has_its_own_service_level() {
    let mut net = Net::free(1);
    let (a, b) = (queue_pair(&mut net, 0, 1), queue_pair(&mut net, 1, 1));
    net.post_receives(1, b, 20, 3_000);
    let number = net.hosts[1].hca.qp_num(b).unwrap();
    let levels = [0, 5, 3, 15, 3];
    for (wr_id, sl) in (0..).zip(levels) {
        let ah = address(&mut net, 0, Lid(lid(1, 1)), sl, None);
        let wr = message(&net, wr_id, 2_000, ah, number, 1);
        net.send_wr(0, a, &wr);
    }
    net.settle();
    let got: Vec<_> = net.hosts[1]
        .done
        .iter()
        .map(|wc| (wc.immediate, wc.sl, wc.bytes))
        .collect();
    let want: Vec<_> = (0..).zip(levels).map(|(id, sl)| (Some(id), sl, 2_040)).collect();
    assert_eq!(got, want, "one send queue keeps its order over all levels");
    let from = net.hosts[0].hca.qp_num(a).unwrap();
    assert!(
        net.hosts[1]
            .done
            .iter()
            .all(|wc| (wc.src_qp, wc.slid) == (from, lid(0, 1)))
    );
}

#[test]
fn datagrams_with_another_q_key_are_counted_and_dropped() {
    let mut net = Net::free(1);
    let (a, b) = (queue_pair(&mut net, 0, 7), queue_pair(&mut net, 1, 7));
    net.post_receives(1, b, 20, 3_000);
    let number = net.hosts[1].hca.qp_num(b).unwrap();
    let ah = address(&mut net, 0, Lid(lid(1, 1)), 0, None);
    // Bit 31 chooses the queue pair's own key, which is 7.
    for (wr_id, qkey) in [(0, 7), (1, 8), (2, 0x8000_0000)] {
        let wr = message(&net, wr_id, 8, ah, number, qkey);
        net.send_wr(0, a, &wr);
    }
    net.settle();
    let got: Vec<_> = net.hosts[1].done.iter().filter_map(|wc| wc.immediate).collect();
    assert_eq!(got, [0, 2]);
    assert_eq!(net.hosts[1].hca.port_counts(1).unwrap().qkey_violations, 1);
    assert_eq!(net.hosts[0].done.len(), 3, "the sender is not told");
}

#[test]
fn members_get_one_copy_and_the_sender_none() {
    let mut net = Net::new(1, 3, 1, |_| {});
    let sender = queue_pair(&mut net, 0, 1);
    let others = [
        (0, queue_pair(&mut net, 0, 1)),
        (1, queue_pair(&mut net, 1, 1)),
        (2, queue_pair(&mut net, 2, 1)),
    ];
    for (host, qp) in others.into_iter().chain([(0, sender)]) {
        net.post_receives(host, qp, 5, 3_000);
        if host != 2 {
            net.hosts[host].hca.attach_mcast(qp, GROUP.0, GROUP.1).unwrap();
        }
    }
    let ah = address(&mut net, 0, GROUP.1, 0, Some(GROUP.0));
    let wr = message(&net, 1, 100, ah, MULTICAST_QP, 1);
    net.send_wr(0, sender, &wr);
    net.settle();
    let received = |net: &Net, host: usize| net.hosts[host].done.iter().filter(|wc| wc.immediate.is_some()).count();
    assert_eq!([0, 1, 2].map(|host| received(&net, host)), [1, 1, 0]);
    let in_use = net.hosts[1].hca.destroy_qp(others[1].1).unwrap_err();
    assert_eq!(
        in_use,
        VerbsError::InUse {
            what: "queue pair",
            by: "multicast group"
        }
    );
    assert_eq!(net.hosts[1].hca.detach_mcast(others[1].1, GROUP.0, GROUP.1), Ok(true));
    net.send_wr(0, sender, &wr);
    net.settle();
    assert_eq!([0, 1, 2].map(|host| received(&net, host)), [2, 1, 0]);
}

#[test]
fn a_datagram_without_a_receive_is_dropped_and_a_long_one_fails_its_receive() {
    let mut net = Net::free(1);
    let (a, b) = (queue_pair(&mut net, 0, 1), queue_pair(&mut net, 1, 1));
    let number = net.hosts[1].hca.qp_num(b).unwrap();
    let ah = address(&mut net, 0, Lid(lid(1, 1)), 0, None);
    let wr = message(&net, 0, 100, ah, number, 1);
    net.send_wr(0, a, &wr);
    net.settle();
    assert_eq!(net.hosts[1].hca.port_counts(1).unwrap().no_receive, 1);
    assert_eq!(net.state(1, b), QpState::Rts);
    // 40 bytes are for the global route header, whether there is one or not.
    net.post_receives(1, b, 2, 139);
    net.send_wr(0, a, &wr);
    net.settle();
    assert_eq!(net.hosts[1].statuses(), [(0, "LOC_LEN_ERR"), (1, "WR_FLUSH_ERR")]);
    assert_eq!(net.state(1, b), QpState::Err);
}

#[test]
fn addresses_and_messages_that_cannot_be_are_refused() {
    let mut net = Net::free(1);
    let qp = queue_pair(&mut net, 0, 1);
    let pd = net.hosts[0].pd;
    let refused = |net: &mut Net, port: u8, attr: AhAttr| net.hosts[0].hca.create_ah(pd, port, &attr).unwrap_err();
    let texts = [
        refused(&mut net, 3, AhAttr::lid(Lid(1))).to_string(),
        refused(&mut net, 1, AhAttr::lid(Lid(0))).to_string(),
        refused(&mut net, 1, AhAttr::lid(Lid(0xC005))).to_string(),
    ];
    let want = [
        "port number is 3",
        "destination LID is 0",
        "destination LID of an address without a GID is 49157",
    ];
    for (text, want) in texts.iter().zip(want) {
        assert!(text.contains(want), "{text}");
    }
    let other_port = net.hosts[0].hca.create_ah(pd, 2, &AhAttr::lid(Lid(1))).unwrap();
    let ah = address(&mut net, 0, Lid(1), 0, None);
    let good = message(&net, 0, 64, ah, 2, 1);
    let hca = &mut net.hosts[0].hca;
    let no_address = SendWr { datagram: None, ..good };
    assert!(matches!(
        hca.post_send(0, qp, &no_address),
        Err(VerbsError::NoSuchOperation { .. })
    ));
    let to_port_2 = Some(Datagram {
        ah: other_port,
        ..good.datagram.unwrap()
    });
    assert!(matches!(
        hca.post_send(
            0,
            qp,
            &SendWr {
                datagram: to_port_2,
                ..good
            }
        ),
        Err(VerbsError::OutOfRange { .. })
    ));
    let mut long = good;
    long.sge.bytes = 4_097;
    assert!(matches!(
        hca.post_send(0, qp, &long),
        Err(VerbsError::TooLong { most: 4_096, .. })
    ));
    hca.destroy_ah(ah).unwrap();
    assert!(matches!(
        hca.post_send(0, qp, &good),
        Err(VerbsError::UnknownHandle { .. })
    ));
    let attr = QpAttr {
        qkey: 5,
        ..QpAttr::default()
    };
    hca.modify_qp(0, qp, &attr, M::QKEY).unwrap();
    assert_eq!(hca.query_qp(qp).unwrap().qkey, 5);
}
