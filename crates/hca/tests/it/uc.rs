//! Unreliable connections.

use selvedge_hca::{AttrMask as M, Body, QpAttr, QpState, SendOp, SendWr, Sge, Transport};

use crate::net::{Net, attributes, connect, path, wr};

#[test]
fn an_unreliable_connection_loses_whole_messages() {
    let mut net = Net::free(5);
    let qps = connect(&mut net, Transport::Uc, |_| {});
    net.post_receives(1, qps[1], 300, 10_000);
    let mut count = 0;
    net.filter = Some(Box::new(move |packet| {
        count += 1;
        // Every 7th packet: firsts, middles and lasts of messages of 5 packets.
        matches!(packet.body, Body::Request { .. }) && count % 7 != 0
    }));
    for wr_id in 0..200 {
        let op = SendOp::Send { immediate: Some(wr_id) };
        let wr = SendWr {
            op,
            ..wr(&net, u64::from(wr_id), 5_000)
        };
        net.send_wr(0, qps[0], &wr);
    }
    net.settle();
    assert_eq!(net.hosts[0].done.len(), 200, "sent means complete");
    let got: Vec<u32> = net.hosts[1].done.iter().filter_map(|wc| wc.immediate).collect();
    // Of 7 messages in 35 packets, 5 lose one.
    let want: Vec<u32> = (0..200).filter(|id| (1..=5).all(|at| (id * 5 + at) % 7 != 0)).collect();
    assert_eq!(got, want);
    let receives: Vec<u64> = net.hosts[1].done.iter().map(|wc| wc.wr_id).collect();
    assert_eq!(
        receives,
        (0..want.len() as u64).collect::<Vec<_>>(),
        "a broken message costs no receive"
    );
    let op = SendOp::Read { addr: 0, rkey: 1 };
    let refused = net.hosts[0].hca.post_send(
        net.now,
        qps[0],
        &SendWr {
            op,
            ..SendWr::send(0, Sge::default())
        },
    );
    assert_eq!(refused.unwrap_err().to_string(), "SLV-HCA-0013: UC has no RDMA READ");
}

#[test]
fn an_unreliable_connection_with_a_bad_request_can_go_on() {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Uc, |_| {});
    net.post_receives(1, qps[1], 3, 100);
    let good = wr(&net, 1, 100);
    let bad = SendWr {
        sge: Sge { lkey: 5, ..good.sge },
        wr_id: 0,
        ..good
    };
    net.send_wr(0, qps[0], &bad);
    net.send_wr(0, qps[0], &good);
    net.settle();
    assert_eq!(net.hosts[0].statuses(), [(0, "LOC_PROT_ERR"), (1, "WR_FLUSH_ERR")]);
    assert_eq!(net.state(0, qps[0]), QpState::Sqe);
    let attr = QpAttr {
        state: QpState::Rts,
        ..attributes(2, path(1, (1, 1), 0))
    };
    net.modify(0, qps[0], &attr, M::STATE).unwrap();
    net.send_wr(0, qps[0], &good);
    net.settle();
    assert_eq!(net.hosts[1].statuses(), [(0, "SUCCESS")]);
}
