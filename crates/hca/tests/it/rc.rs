//! Reliable and unreliable connections: operations, repeats, refusals, flushes.

use selvedge_hca::{
    Access, Atomic, AtomicOp, AttrMask as M, Body, EventType, PS_PER_US, QpAttr, QpState, RecvWr, Request, SendOp,
    SendWr, Sge, Syndrome, Transport, VerbsError, WcOpcode, WcStatus, ack_timeout, rnr_timer,
};
use selvedge_sim::Ratio;
use selvedge_types::{PKey, PortState};

use crate::net::{Net, attributes, connect, path, port_attr, to_rts};

const MS: u64 = 1_000 * PS_PER_US;

fn wr(net: &Net, wr_id: u64, bytes: u32) -> SendWr {
    SendWr {
        tag: wr_id,
        ..SendWr::send(wr_id, net.hosts[0].sge(bytes))
    }
}

fn remote(net: &Net, host: usize) -> u32 {
    net.hosts[host].keys().rkey
}

#[test]
fn every_operation_completes_at_both_ends() {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Rc, |_| {});
    net.post_receives(1, qps[1], 3, 10_000);
    let rkey = remote(&net, 1);
    let add = |value| {
        SendOp::Atomic(Atomic {
            addr: 64,
            rkey,
            op: AtomicOp::FetchAdd(value),
        })
    };
    let swap = Atomic {
        addr: 64,
        rkey,
        op: AtomicOp::CompareSwap { compare: 12, swap: 99 },
    };
    let ops = [
        (SendOp::Send { immediate: None }, 5_000),
        (SendOp::Send { immediate: Some(7) }, 0),
        (
            SendOp::Write {
                addr: 8,
                rkey,
                immediate: None,
            },
            3_000,
        ),
        (
            SendOp::Write {
                addr: 8,
                rkey,
                immediate: Some(9),
            },
            3_000,
        ),
        (SendOp::Read { addr: 8, rkey }, 70_000),
        (add(12), 8),
        (SendOp::Atomic(swap), 8),
        (add(1), 8),
    ];
    for (wr_id, (op, bytes)) in (0..).zip(ops) {
        let wr = SendWr {
            op,
            ..wr(&net, wr_id, bytes)
        };
        net.send_wr(0, qps[0], &wr);
    }
    net.settle();
    let sent: Vec<_> = net.hosts[0]
        .done
        .iter()
        .map(|wc| (wc.wr_id, wc.opcode, wc.bytes))
        .collect();
    let want = [
        (0, WcOpcode::Send, 5_000),
        (1, WcOpcode::Send, 0),
        (2, WcOpcode::RdmaWrite, 3_000),
        (3, WcOpcode::RdmaWrite, 3_000),
        (4, WcOpcode::RdmaRead, 70_000),
        (5, WcOpcode::Atomic(0), 8),
        (6, WcOpcode::Atomic(12), 8),
        (7, WcOpcode::Atomic(99), 8),
    ];
    assert_eq!(sent, want);
    assert_receives_of_every_operation(&net);
    assert_eq!(net.hosts[1].hca.read_word(net.hosts[1].mr, 64), Ok(100));
    assert_eq!(net.hosts[1].event_kinds(), [], "the receiver was in RTS");
}

fn assert_receives_of_every_operation(net: &Net) {
    let done = net.hosts[1].done.iter();
    let received: Vec<_> = done
        .map(|wc| (wc.wr_id, wc.opcode, wc.bytes, wc.immediate, wc.tag))
        .collect();
    let want = [
        (0, WcOpcode::Recv, 5_000, None, 0),
        (1, WcOpcode::Recv, 0, Some(7), 1),
        (2, WcOpcode::RecvRdmaWithImm, 3_000, Some(9), 3),
    ];
    assert_eq!(received, want);
}

#[test]
fn a_receiver_in_rtr_is_told_that_communication_began() {
    let mut net = Net::free(1);
    let qps = [0, 1].map(|host| net.hosts[host].create_qp(Transport::Rc, None));
    for host in [0, 1] {
        let number = net.hosts[1 - host].hca.qp_num(qps[1 - host]).unwrap();
        let attr = attributes(number, path(1, (1 - host, 1), 0));
        for (state, mask) in crate::net::steps(Transport::Rc) {
            if (host, state) != (1, QpState::Rts) {
                net.modify(host, qps[host], &QpAttr { state, ..attr }, mask).unwrap();
            }
        }
    }
    net.post_receives(1, qps[1], 2, 64);
    for wr_id in 0..2 {
        let wr = wr(&net, wr_id, 64);
        net.send_wr(0, qps[0], &wr);
    }
    net.settle();
    assert_eq!(net.hosts[1].event_kinds(), [EventType::CommEst]);
    assert_eq!(net.hosts[0].statuses(), [(0, "SUCCESS"), (1, "SUCCESS")]);
    let refused = net.hosts[1]
        .hca
        .post_send(net.now, qps[1], &SendWr::send(0, Sge::default()));
    assert_eq!(
        refused,
        Err(VerbsError::WrongState {
            verb: "post_send",
            state: QpState::Rtr
        })
    );
}

#[test]
fn lost_packets_are_repeated_and_nothing_is_doubled() {
    let mut net = Net::free(3);
    net.loss = Ratio {
        numerator: 1,
        denominator: 20,
    };
    let qps = connect(&mut net, Transport::Rc, |_| {});
    net.post_receives(1, qps[1], 200, 10_000);
    let rkey = remote(&net, 1);
    for wr_id in 0..600_u64 {
        let op = match wr_id % 3 {
            0 => SendOp::Send {
                immediate: Some(wr_id as u32),
            },
            1 => SendOp::Atomic(Atomic {
                addr: 8,
                rkey,
                op: AtomicOp::FetchAdd(1),
            }),
            _ => SendOp::Read { addr: 0, rkey },
        };
        let bytes = [5_000, 8, 9_000][wr_id as usize % 3];
        let wr = SendWr {
            op,
            ..wr(&net, wr_id, bytes)
        };
        net.send_wr(0, qps[0], &wr);
    }
    net.settle();
    assert!(net.lost > 100, "{}", net.lost);
    let statuses: Vec<u64> = net.hosts[0].done.iter().map(|wc| wc.wr_id).collect();
    assert_eq!(statuses, (0..600).collect::<Vec<_>>());
    let values = net.hosts[0].done.iter().filter_map(|wc| match wc.opcode {
        WcOpcode::Atomic(value) => Some(value),
        _ => None,
    });
    assert_eq!(
        values.collect::<Vec<_>>(),
        (0..200).collect::<Vec<_>>(),
        "no atomic was carried out twice"
    );
    assert_eq!(net.hosts[1].hca.read_word(net.hosts[1].mr, 8), Ok(200));
    let immediates: Vec<_> = net.hosts[1].done.iter().filter_map(|wc| wc.immediate).collect();
    assert_eq!(immediates, (0..600).step_by(3).collect::<Vec<u32>>());
    assert!(net.hosts[1].hca.qp_counts(qps[1]).unwrap().recv.duplicates > 0);
}

#[test]
fn a_duplicate_atomic_is_answered_from_the_cache() {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Rc, |_| {});
    let rkey = remote(&net, 1);
    let mut first = true;
    net.filter = Some(Box::new(move |packet| match packet.body {
        Body::AtomicAck(_) => !core::mem::replace(&mut first, false),
        _ => true,
    }));
    let op = SendOp::Atomic(Atomic {
        addr: 0,
        rkey,
        op: AtomicOp::FetchAdd(5),
    });
    let wr = SendWr { op, ..wr(&net, 1, 8) };
    net.send_wr(0, qps[0], &wr);
    net.settle();
    assert_eq!(net.lost, 1);
    assert_eq!(net.hosts[0].done[0].opcode, WcOpcode::Atomic(0));
    assert_eq!(
        net.hosts[1].hca.read_word(net.hosts[1].mr, 0),
        Ok(5),
        "carried out once"
    );
    assert_eq!(net.hosts[1].hca.qp_counts(qps[1]).unwrap().recv.duplicates, 1);
}

#[test]
fn a_receiver_that_is_not_ready_is_waited_for() {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Rc, |a| a.min_rnr_timer = 12);
    for wr_id in 0..3 {
        let wr = wr(&net, wr_id, 2_000);
        net.send_wr(0, qps[0], &wr);
    }
    net.run(2 * MS);
    assert_eq!(net.hosts[0].done, []);
    net.post_receives(1, qps[1], 3, 2_000);
    net.settle();
    assert_eq!(
        net.hosts[0].statuses(),
        [(0, "SUCCESS"), (1, "SUCCESS"), (2, "SUCCESS")]
    );
    let counts = net.hosts[0].hca.qp_counts(qps[0]).unwrap().send;
    // 2 ms in steps of 0.64 ms and a round trip.
    assert_eq!(counts.rnr_naks, 4);
    assert_eq!(
        (counts.timeouts, counts.naks),
        (0, 0),
        "the other end has answered all the time"
    );
}

#[test]
fn rnr_retries_are_used_up() {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Rc, |a| (a.rnr_retry, a.min_rnr_timer) = (2, 1));
    for wr_id in 0..3 {
        let wr = SendWr {
            signaled: false,
            ..wr(&net, wr_id, 100)
        };
        net.send_wr(0, qps[0], &wr);
    }
    net.settle();
    let want = [(0, "RNR_RETRY_EXC_ERR"), (1, "WR_FLUSH_ERR"), (2, "WR_FLUSH_ERR")];
    assert_eq!(net.hosts[0].statuses(), want, "errors complete even if not signaled");
    assert_eq!(net.state(0, qps[0]), QpState::Err);
    assert_eq!(net.hosts[0].hca.qp_counts(qps[0]).unwrap().send.rnr_naks, 3);
    assert_eq!(net.state(1, qps[1]), QpState::Rts, "the other end has no error");
}

#[test]
fn retries_take_the_time_that_the_standard_says() {
    let run = |timeout: u8, retry_cnt: u8| {
        let mut net = Net::free(1);
        let qps = connect(&mut net, Transport::Rc, |a| {
            (a.primary.timeout, a.retry_cnt) = (timeout, retry_cnt)
        });
        net.black_holes.push(((0, 1), (1, 1)));
        let wr = wr(&net, 1, 100);
        net.send_wr(0, qps[0], &wr);
        net.settle();
        (net.hosts[0].statuses(), net.state(0, qps[0]), net.now)
    };
    for (timeout, retries) in [(8, 0), (8, 7), (14, 3)] {
        let (statuses, state, end) = run(timeout, retries);
        assert_eq!(statuses, [(1, "RETRY_EXC_ERR")]);
        assert_eq!(state, QpState::Err);
        let want = ack_timeout(timeout).unwrap() * (u64::from(retries) + 1);
        assert!((want..want + 12 * PS_PER_US).contains(&end), "{end} {want}");
    }
    assert_eq!(run(0, 7).0, [], "0: never");
}

#[test]
fn a_port_that_is_down_sends_nowhere_and_time_outs_go_on() {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Rc, |a| (a.primary.timeout, a.retry_cnt) = (10, 7));
    net.post_receives(1, qps[1], 4, 5_000);
    net.set_port(0, 1, PortState::Down);
    for wr_id in 0..4 {
        let wr = wr(&net, wr_id, 5_000);
        net.send_wr(0, qps[0], &wr);
    }
    net.run(10 * MS);
    assert_eq!(net.hosts[0].done, []);
    net.set_port(0, 1, PortState::Active);
    net.settle();
    assert_eq!(
        net.hosts[0].statuses(),
        [(0, "SUCCESS"), (1, "SUCCESS"), (2, "SUCCESS"), (3, "SUCCESS")]
    );
    assert_eq!(net.hosts[0].event_kinds(), [EventType::PortErr, EventType::PortActive]);
    assert!(net.hosts[0].hca.port_counts(1).unwrap().sent_down > 20);
}

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

#[test]
fn shared_receives_have_a_limit_event_and_a_last_one() {
    let mut net = Net::free(1);
    let pd = net.hosts[1].pd;
    let srq = net.hosts[1].hca.create_srq(pd, 10, 0).unwrap();
    let sge = net.hosts[1].sge(64);
    for wr_id in 0..4 {
        net.hosts[1].hca.post_srq_recv(srq, &RecvWr { wr_id, sge }).unwrap();
    }
    net.hosts[1].hca.modify_srq(srq, 3).unwrap();
    let qps = [
        net.hosts[0].create_qp(Transport::Rc, None),
        net.hosts[1].create_qp(Transport::Rc, Some(srq)),
    ];
    crate::net::connect_qps(&mut net, Transport::Rc, qps, |_| {});
    for wr_id in 0..3 {
        let wr = wr(&net, wr_id, 64);
        net.send_wr(0, qps[0], &wr);
    }
    net.settle();
    assert_eq!(net.hosts[1].event_kinds(), [EventType::SrqLimitReached], "once");
    assert_eq!(net.hosts[1].hca.query_srq(srq), Ok((0, 1)));
    let refused = net.hosts[1].hca.post_recv(net.now, qps[1], &RecvWr { wr_id: 0, sge });
    assert!(refused.is_err());
    let attr = QpAttr {
        state: QpState::Err,
        ..QpAttr::default()
    };
    net.modify(1, qps[1], &attr, M::STATE).unwrap();
    net.settle();
    assert_eq!(
        net.hosts[1].event_kinds(),
        [EventType::SrqLimitReached, EventType::QpLastWqeReached]
    );
    assert_eq!(net.hosts[1].done.len(), 3, "the shared queue keeps its receive");
}

#[test]
fn an_overrun_completion_queue_fails_its_queue_pairs() {
    let mut net = Net::free(1);
    let context = net.hosts[0].context;
    net.hosts[0].cq = net.hosts[0].hca.create_cq(context, 2, None).unwrap();
    let qps = connect(&mut net, Transport::Rc, |_| {});
    net.post_receives(1, qps[1], 9, 64);
    for wr_id in 0..3 {
        let wr = wr(&net, wr_id, 64);
        net.hosts[0].hca.post_send(net.now, qps[0], &wr).unwrap();
    }
    // The program does not poll while all three complete.
    let unused = net.hosts[0].hca.create_cq(context, 2, None).unwrap();
    let cq = core::mem::replace(&mut net.hosts[0].cq, unused);
    net.settle();
    assert_eq!(net.hosts[0].event_kinds(), [EventType::CqErr, EventType::QpFatal]);
    assert_eq!(net.state(0, qps[0]), QpState::Err);
    assert_eq!(net.hosts[0].hca.is_overrun(cq), Ok(true));
}

#[test]
fn a_channel_wakes_for_the_solicited_message() {
    let mut net = Net::free(1);
    let context = net.hosts[1].context;
    let channel = net.hosts[1].hca.create_comp_channel(context).unwrap();
    net.hosts[1].cq = net.hosts[1].hca.create_cq(context, 10, Some(channel)).unwrap();
    let qps = connect(&mut net, Transport::Rc, |_| {});
    net.post_receives(1, qps[1], 3, 64);
    let cq = net.hosts[1].cq;
    net.hosts[1].hca.req_notify_cq(cq, true).unwrap();
    let plain = wr(&net, 0, 64);
    net.send_wr(0, qps[0], &plain);
    net.settle();
    assert_eq!(net.hosts[1].hca.get_cq_event(net.now, channel), Ok(None));
    net.send_wr(
        0,
        qps[0],
        &SendWr {
            solicited: true,
            ..plain
        },
    );
    net.settle();
    assert_eq!(net.hosts[1].hca.get_cq_event(net.now, channel), Ok(Some(cq)));
    assert_eq!(net.hosts[1].hca.get_cq_event(net.now, channel), Ok(None));
    net.hosts[1].hca.destroy_qp(qps[1]).unwrap();
    let pending = net.hosts[1].hca.destroy_cq(cq).unwrap_err();
    assert!(
        matches!(pending, VerbsError::EventsPending { count: 1, .. }),
        "{pending}"
    );
    net.hosts[1].hca.ack_cq_events(cq, 1).unwrap();
    net.hosts[1].hca.destroy_cq(cq).unwrap();
}

#[test]
fn reads_wait_for_each_other_and_fences_for_reads() {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Rc, |a| {
        (a.max_rd_atomic, a.max_dest_rd_atomic) = (1, 1)
    });
    net.post_receives(1, qps[1], 9, 64);
    let rkey = remote(&net, 1);
    let read = SendWr {
        op: SendOp::Read { addr: 0, rkey },
        ..wr(&net, 0, 500_000)
    };
    net.send_wr(0, qps[0], &read);
    net.send_wr(0, qps[0], &SendWr { wr_id: 1, ..read });
    let send = wr(&net, 2, 64);
    net.send_wr(0, qps[0], &SendWr { fence: true, ..send });
    net.run(15 * PS_PER_US);
    assert_eq!(net.hosts[1].done, [], "fenced");
    net.settle();
    assert_eq!(
        net.hosts[0].statuses(),
        [(0, "SUCCESS"), (1, "SUCCESS"), (2, "SUCCESS")]
    );
    assert_eq!(net.hosts[1].done.len(), 1);
    // A requester that ignores the agreed number is refused.
    let [a, b] = connect(&mut net, Transport::Rc, |a| {
        (a.max_rd_atomic, a.max_dest_rd_atomic) = (2, 1)
    });
    net.send_wr(0, a, &read);
    net.send_wr(0, a, &read);
    net.settle();
    assert_eq!(net.state(1, b), QpState::Err);
}

#[test]
fn acknowledgements_are_coalesced() {
    let mut net = Net::new(1, 2, 1, |config| config.ack_every = 8);
    let qps = connect(&mut net, Transport::Rc, |_| {});
    net.post_receives(1, qps[1], 1, 200_000);
    let mut acks = 0_u32;
    let seen = std::rc::Rc::new(std::cell::Cell::new(0));
    let counter = seen.clone();
    net.filter = Some(Box::new(move |packet| {
        acks += u32::from(packet.body == Body::Ack(Syndrome::Ack));
        counter.set(acks);
        true
    }));
    let wr = wr(&net, 0, 1_024 * 64);
    net.send_wr(0, qps[0], &wr);
    net.settle();
    assert_eq!(net.hosts[0].statuses(), [(0, "SUCCESS")]);
    // 64 packets from number 0xFFFFF0: every 8th, and the last one is an 8th too.
    assert_eq!(seen.get(), 8);
}

#[test]
fn a_read_goes_on_where_its_answer_was_lost() {
    let mut net = Net::free(1);
    let qps = connect(&mut net, Transport::Rc, |_| {});
    let rkey = remote(&net, 1);
    let requests = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let log = requests.clone();
    let mut answers = 0;
    net.filter = Some(Box::new(move |packet| {
        if let Body::Request {
            request: Request::Read(range),
            ..
        } = packet.body
        {
            log.borrow_mut().push((range.addr, range.bytes));
        }
        answers += u32::from(matches!(packet.body, Body::ReadResponse { .. }));
        answers != 4
    }));
    let wr = SendWr {
        op: SendOp::Read { addr: 4_096, rkey },
        ..wr(&net, 0, 8 * 1_024)
    };
    net.send_wr(0, qps[0], &wr);
    net.settle();
    assert_eq!(net.hosts[0].statuses(), [(0, "SUCCESS")]);
    assert_eq!(*requests.borrow(), [(4_096, 8_192), (4_096 + 3 * 1_024, 5 * 1_024)]);
}

#[test]
fn rnr_timers_differ_by_their_code() {
    for code in [1, 5, 13] {
        let mut net = Net::free(1);
        let qps = connect(&mut net, Transport::Rc, |a| {
            (a.primary.timeout, a.rnr_retry, a.min_rnr_timer) = (0, 1, code)
        });
        let wr = wr(&net, 0, 64);
        net.send_wr(0, qps[0], &wr);
        net.settle();
        let end = net.now - 10 * PS_PER_US;
        assert!(
            end > rnr_timer(code) && end < rnr_timer(code) + 20 * PS_PER_US,
            "{code} {end}"
        );
    }
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
