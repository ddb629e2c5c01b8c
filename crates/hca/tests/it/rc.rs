//! Reliable connections: operations, acknowledgements, repeats, RNR NAKs.

use selvedge_hca::{
    Atomic, AtomicOp, Body, EventType, PS_PER_US, QpAttr, QpState, Request, SendOp, SendWr, Sge, Syndrome, Transport,
    VerbsError, WcOpcode, ack_timeout, rnr_timer,
};
use selvedge_sim::Ratio;
use selvedge_types::PortState;

use crate::net::{MS, Net, attributes, connect, path, remote, wr};

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
