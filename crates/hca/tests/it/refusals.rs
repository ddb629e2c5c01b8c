//! Requests and packets that are refused, and what is flushed then.

use selvedge_hca::{
    Access, Atomic, AtomicOp, AttrMask as M, EventType, PS_PER_US, QpAttr, QpState, RecvWr, SendOp, SendWr, Sge,
    Transport, VerbsError, WcStatus,
};
use selvedge_types::{PKey, PortState};

use crate::net::{Net, attributes, connect, path, port_attr, remote, to_rts, wr};

/// Posts one request that is refused and two behind it; returns both ends' completions, states and events.
type Ends = [(Vec<(u64, &'static str)>, QpState, Vec<EventType>); 2];

fn refused(change: impl Fn(&mut Net, &mut SendWr), attributes: impl Fn(&mut QpAttr)) -> Ends {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Rc, attributes);
    net.post_receives(1, qps[1], 2, 100);
    let mut bad = wr(&net, 0, 64);
    change(&mut net, &mut bad);
    net.send_wr(0, qps[0], &bad);
    for wr_id in 1..3 {
        let wr = SendWr {
            op: SendOp::Write {
                addr: 0,
                rkey: remote(&net, 1),
                immediate: None,
            },
            ..wr(&net, wr_id, 64)
        };
        net.send_wr(0, qps[0], &wr);
    }
    net.settle();
    [0, 1].map(|host| {
        let events = net.hosts[host].event_kinds();
        (net.hosts[host].statuses(), net.state(host, qps[host]), events)
    })
}

#[test]
fn refused_requests_fail_with_their_reason_and_flush_in_order() {
    let check = |[a, b]: Ends, status: &'static str, receives: &[&str], event: &[EventType]| {
        assert_eq!(a.0, [(0, status), (1, "WR_FLUSH_ERR"), (2, "WR_FLUSH_ERR")]);
        assert_eq!((a.1, b.1), (QpState::Err, QpState::Err));
        assert_eq!(b.0.iter().map(|(_, status)| *status).collect::<Vec<_>>(), receives);
        assert_eq!(
            b.0.iter().map(|(wr_id, _)| *wr_id).collect::<Vec<_>>(),
            [0, 1],
            "{status}"
        );
        assert_eq!((a.2.as_slice(), b.2.as_slice()), ([].as_slice(), event));
    };
    let flushed = ["WR_FLUSH_ERR", "WR_FLUSH_ERR"];
    let access = [EventType::QpAccessErr];
    let foreign = |_: &mut Net, wr: &mut SendWr| {
        wr.op = SendOp::Write {
            addr: 0,
            rkey: 5,
            immediate: None,
        }
    };
    check(refused(foreign, |_| {}), "REM_ACCESS_ERR", &flushed, &access);
    let read = |net: &mut Net, wr: &mut SendWr| {
        wr.op = SendOp::Read {
            addr: 0,
            rkey: remote(net, 1),
        }
    };
    check(
        refused(read, |a| a.access = Access::REMOTE_WRITE),
        "REM_ACCESS_ERR",
        &flushed,
        &access,
    );
    let border = |net: &mut Net, wr: &mut SendWr| {
        wr.op = SendOp::Read {
            addr: crate::net::MEMORY - 63,
            rkey: remote(net, 1),
        };
    };
    check(refused(border, |_| {}), "REM_ACCESS_ERR", &flushed, &access);
    let odd = |net: &mut Net, wr: &mut SendWr| {
        wr.op = SendOp::Atomic(Atomic {
            addr: 4,
            rkey: remote(net, 1),
            op: AtomicOp::FetchAdd(1),
        });
        wr.sge.bytes = 8;
    };
    check(refused(odd, |_| {}), "REM_INV_REQ_ERR", &flushed, &[EventType::QpFatal]);
    let long = |_: &mut Net, wr: &mut SendWr| wr.sge.bytes = 101;
    check(
        refused(long, |_| {}),
        "REM_INV_REQ_ERR",
        &["LOC_LEN_ERR", "WR_FLUSH_ERR"],
        &[],
    );
    let gone = |net: &mut Net, _: &mut SendWr| {
        // The region of the posted receives goes away; the writes behind need none.
        let host = &mut net.hosts[1];
        host.hca.dereg_mr(host.mr).unwrap();
        host.mr = host.hca.reg_mr(host.pd, 0, 1 << 20, Access::ALL).unwrap();
    };
    check(
        refused(gone, |_| {}),
        "REM_OP_ERR",
        &["LOC_PROT_ERR", "WR_FLUSH_ERR"],
        &[],
    );
}

#[test]
fn a_local_range_without_a_region_fails_after_the_requests_before_it() {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Rc, |_| {});
    net.post_receives(1, qps[1], 3, 100);
    let good = wr(&net, 0, 100);
    let mut bad = wr(&net, 1, 100);
    bad.sge.lkey += 1;
    for wr in [good, bad, SendWr { wr_id: 2, ..good }] {
        net.send_wr(0, qps[0], &wr);
    }
    net.settle();
    assert_eq!(
        net.hosts[0].statuses(),
        [(0, "SUCCESS"), (1, "LOC_PROT_ERR"), (2, "WR_FLUSH_ERR")]
    );
    assert_eq!(net.hosts[1].statuses(), [(0, "SUCCESS")]);
    // A message in the work request itself needs no key.
    let [a, b] = connect(&mut net, Transport::Rc, |_| {});
    net.post_receives(1, b, 1, 100);
    net.send_wr(
        0,
        a,
        &SendWr {
            wr_id: 9,
            inline: true,
            ..bad
        },
    );
    net.settle();
    assert_eq!(net.hosts[0].statuses().last(), Some(&(9, "SUCCESS")));
}

#[test]
fn requests_in_err_are_flushed_and_the_state_stays() {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Rc, |_| {});
    net.post_receives(0, qps[0], 2, 100);
    let attr = QpAttr {
        state: QpState::Err,
        ..attributes(2, path(1, (1, 1), 0))
    };
    net.modify(0, qps[0], &attr, M::STATE).unwrap();
    let first = wr(&net, 7, 64);
    net.send_wr(0, qps[0], &first);
    let sge = net.hosts[0].sge(64);
    net.hosts[0]
        .hca
        .post_recv(net.now, qps[0], &RecvWr { wr_id: 8, sge })
        .unwrap();
    net.settle();
    let flushed = |ids: &[u64]| ids.iter().map(|id| (*id, "WR_FLUSH_ERR")).collect::<Vec<_>>();
    assert_eq!(net.hosts[0].statuses(), flushed(&[0, 1, 7, 8]));
    net.set_port(0, 1, PortState::Down);
    net.set_port(0, 1, PortState::Active);
    net.settle();
    assert_eq!(net.state(0, qps[0]), QpState::Err);
    let rts = QpAttr {
        state: QpState::Rts,
        ..attr
    };
    assert!(net.modify(0, qps[0], &rts, M::STATE).is_err());
    net.modify(
        0,
        qps[0],
        &QpAttr {
            state: QpState::Reset,
            ..attr
        },
        M::STATE,
    )
    .unwrap();
    // The same queue pairs communicate again.
    net.modify(
        1,
        qps[1],
        &QpAttr {
            state: QpState::Reset,
            ..attr
        },
        M::STATE,
    )
    .unwrap();
    crate::net::connect_qps(&mut net, Transport::Rc, qps, |_| {});
    net.post_receives(1, qps[1], 1, 64);
    net.send_wr(0, qps[0], &first);
    net.settle();
    assert_eq!(net.hosts[0].statuses().last(), Some(&(7, "SUCCESS")));
}

#[test]
fn a_send_queue_drains_before_its_attributes_change() {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Rc, |_| {});
    net.post_receives(1, qps[1], 4, 100_000);
    let attr = QpAttr {
        state: QpState::Sqd,
        en_sqd_async_notify: true,
        ..attributes(2, path(1, (1, 1), 0))
    };
    for wr_id in 0..2 {
        let wr = wr(&net, wr_id, 100_000);
        net.send_wr(0, qps[0], &wr);
    }
    net.run(PS_PER_US);
    net.modify(0, qps[0], &attr, M::STATE.with(M::EN_SQD_ASYNC_NOTIFY))
        .unwrap();
    assert!(net.hosts[0].hca.query_qp(qps[0]).unwrap().sq_draining);
    assert_eq!(net.modify(0, qps[0], &attr, M::RETRY_CNT), Err(VerbsError::Draining));
    net.settle();
    assert_eq!(net.hosts[0].event_kinds(), [EventType::SqDrained]);
    assert_eq!(
        net.hosts[0].statuses(),
        [(0, "SUCCESS")],
        "the second message has not begun"
    );
    assert!(!net.hosts[0].hca.query_qp(qps[0]).unwrap().sq_draining);
    net.modify(0, qps[0], &attr, M::RETRY_CNT).unwrap();
    net.modify(
        0,
        qps[0],
        &QpAttr {
            state: QpState::Rts,
            ..attr
        },
        M::STATE,
    )
    .unwrap();
    net.settle();
    assert_eq!(net.hosts[0].statuses(), [(0, "SUCCESS"), (1, "SUCCESS")]);
}

#[test]
fn packets_with_another_p_key_are_counted_and_dropped() {
    let mut net = Net::free(1);
    let with_keys = |net: &mut Net, host: usize, keys: &[PKey]| {
        let attr = selvedge_hca::PortAttr {
            pkeys: keys.to_vec(),
            ..port_attr(host, 1, PortState::Active)
        };
        net.hosts[host].hca.set_port(0, 1, attr).unwrap();
    };
    with_keys(&mut net, 0, &[PKey(0xFFFF), PKey(0x8001)]);
    with_keys(&mut net, 1, &[PKey(0xFFFF), PKey(0x0001)]);
    let qps = connect(&mut net, Transport::Rc, |a| {
        (a.primary.pkey_index, a.retry_cnt) = (1, 1)
    });
    net.post_receives(1, qps[1], 2, 64);
    let first = wr(&net, 1, 64);
    net.send_wr(0, qps[0], &first);
    net.settle();
    assert_eq!(
        net.hosts[0].statuses(),
        [(1, "SUCCESS")],
        "full and limited member of one partition"
    );
    with_keys(&mut net, 0, &[PKey(0xFFFF), PKey(0x8002)]);
    net.send_wr(0, qps[0], &first);
    net.settle();
    assert_eq!(net.hosts[0].statuses().last(), Some(&(1, "RETRY_EXC_ERR")));
    assert_eq!(net.hosts[1].hca.port_counts(1).unwrap().pkey_violations, 2);
}

#[test]
fn limits_of_queues_and_messages_are_errors() {
    let mut net = Net::free(1);
    let qp = connect(&mut net, Transport::Rc, |a| a.max_rd_atomic = 0)[0];
    let hca = &mut net.hosts[0].hca;
    let wr = SendWr::send(
        0,
        Sge {
            addr: 0,
            bytes: (1 << 31) + 1,
            lkey: 0,
        },
    );
    assert!(matches!(hca.post_send(0, qp, &wr), Err(VerbsError::TooLong { .. })));
    let read = SendWr {
        op: SendOp::Read { addr: 0, rkey: 0 },
        ..SendWr::send(0, Sge::default())
    };
    assert!(matches!(
        hca.post_send(0, qp, &read),
        Err(VerbsError::OutOfRange { value: 0, .. })
    ));
    let inline = SendWr {
        inline: true,
        ..SendWr::send(
            0,
            Sge {
                addr: 0,
                bytes: 257,
                lkey: 0,
            },
        )
    };
    assert!(matches!(
        hca.post_send(0, qp, &inline),
        Err(VerbsError::OutOfRange { most: 256, .. })
    ));
    for _ in 0..1_000 {
        hca.post_send(0, qp, &SendWr::send(0, Sge::default())).unwrap();
    }
    let full = hca.post_send(0, qp, &SendWr::send(0, Sge::default()));
    assert_eq!(
        full,
        Err(VerbsError::QueueFull {
            what: "send queue",
            limit: 1_000
        })
    );
    let reset = net.hosts[0].create_qp(Transport::Rc, None);
    let refused = net.hosts[0].hca.post_recv(
        0,
        reset,
        &RecvWr {
            wr_id: 0,
            sge: Sge::default(),
        },
    );
    assert!(matches!(refused, Err(VerbsError::WrongState { .. })));
    to_rts(&mut net, 0, reset, Transport::Rc, &attributes(2, path(1, (1, 1), 0)));
    assert_eq!(WcStatus::Success.name(), "SUCCESS");
}
