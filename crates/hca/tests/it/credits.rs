//! End-to-end credits: a sender sends no message for which the other end has no receive.

use std::cell::Cell;
use std::rc::Rc;

use selvedge_hca::{Atomic, AtomicOp, Body, Costs, PS_PER_US, Qp, SendOp, SendWr, Syndrome, Transport};

use crate::net::{MS, Net, connect, connect_qps, remote, wr};

/// Two hosts without costs, with or without credits. A packet has 1,024 bytes.
fn net(credits: [bool; 2]) -> Net {
    let with = |credits: bool| {
        Net::new(1, 2, 2, |config| {
            config.costs = Costs::FREE;
            config.end_to_end_credits = credits;
        })
    };
    let mut net = with(credits[0]);
    // All hosts of a net have the same settings, so the other one is that of another net.
    net.hosts[1] = with(credits[1]).hosts.remove(1);
    net
}

/// Host 0 sends messages of three packets; host 1 has posted some receives.
fn sending(credits: bool, messages: u64, receives: u64) -> (Net, [Qp; 2]) {
    let mut net = net([credits; 2]);
    let qps = connect(&mut net, Transport::Rc, |_| {});
    net.post_receives(1, qps[1], receives, 3_000);
    for wr_id in 0..messages {
        let wr = wr(&net, wr_id, 3_000);
        net.send_wr(0, qps[0], &wr);
    }
    (net, qps)
}

fn sent(net: &Net) -> usize {
    net.hosts[0].done.len()
}

#[test]
fn a_sender_waits_at_its_limit_until_a_receive_is_posted() {
    let (mut net, qps) = sending(true, 6, 3);
    let beyond = Rc::new(Cell::new(0));
    let seen = beyond.clone();
    net.filter = Some(Box::new(move |packet| {
        seen.set(seen.get() + u32::from(packet.tag > 2));
        true
    }));
    net.run(500 * PS_PER_US);
    assert_eq!((sent(&net), beyond.get()), (3, 0), "three credits were told of");
    net.post_receives(1, qps[1], 1, 3_000);
    net.run(500 * PS_PER_US);
    assert_eq!((sent(&net), beyond.get()), (4, 3), "one more, without a request for it");
    net.post_receives(1, qps[1], 2, 3_000);
    net.run(500 * PS_PER_US);
    assert_eq!(sent(&net), 6);
    let counts = net.hosts[0].hca.qp_counts(qps[0]).unwrap().send;
    assert_eq!((counts.rnr_naks, counts.repeated, counts.timeouts), (0, 0, 0));
    assert!(net.hosts[0].statuses().iter().all(|(_, status)| *status == "SUCCESS"));
}

#[test]
fn without_credits_the_same_messages_meet_rnr_naks() {
    let (mut net, qps) = sending(false, 6, 3);
    net.run(500 * PS_PER_US);
    let counts = net.hosts[0].hca.qp_counts(qps[0]).unwrap().send;
    assert!(counts.rnr_naks > 0 && counts.repeated > 0, "{counts:?}");
    net.post_receives(1, qps[1], 3, 3_000);
    net.settle();
    assert_eq!(sent(&net), 6);
}

#[test]
fn a_credit_that_was_lost_is_made_up_for_by_one_packet_beyond_the_limit() {
    let (mut net, qps) = sending(true, 6, 3);
    net.run(500 * PS_PER_US);
    net.filter = Some(Box::new(|packet| !matches!(packet.body, Body::Ack(Syndrome::Ack))));
    net.post_receives(1, qps[1], 3, 3_000);
    net.run(500 * PS_PER_US);
    assert_eq!((sent(&net), net.lost), (3, 1));
    net.filter = None;
    net.run(MS);
    assert_eq!(sent(&net), 6);
    let counts = net.hosts[0].hca.qp_counts(qps[0]).unwrap().send;
    assert_eq!((counts.rnr_naks, counts.repeated, counts.timeouts), (0, 0, 0));
}

#[test]
fn without_any_receive_one_packet_is_sent_and_refused() {
    let run = |credits: bool| {
        let (mut net, qps) = sending(credits, 2, 0);
        let requests = Rc::new(Cell::new(0));
        let seen = requests.clone();
        net.filter = Some(Box::new(move |packet| {
            seen.set(seen.get() + u32::from(matches!(packet.body, Body::Request { .. })));
            true
        }));
        // Shorter than the time of the RNR timer, 10 µs.
        net.run(9 * PS_PER_US);
        let counts = net.hosts[0].hca.qp_counts(qps[0]).unwrap().send;
        assert_eq!(counts.rnr_naks, 1);
        net.post_receives(1, qps[1], 2, 3_000);
        let first = requests.get();
        net.settle();
        assert_eq!(sent(&net), 2);
        first
    };
    assert_eq!((run(true), run(false)), (1, 6));
}

#[test]
fn requests_without_receives_are_as_without_credits() {
    let run = |credits: bool| {
        let mut net = net([credits; 2]);
        let qps = connect(&mut net, Transport::Rc, |_| {});
        let rkey = remote(&net, 1);
        let atomic = Atomic {
            addr: 0,
            rkey,
            op: AtomicOp::FetchAdd(1),
        };
        let write = SendOp::Write {
            addr: 0,
            rkey,
            immediate: None,
        };
        let ops = [
            (write, 5_000),
            (SendOp::Read { addr: 0, rkey }, 5_000),
            (SendOp::Atomic(atomic), 8),
            (write, 5_000),
        ];
        for (wr_id, (op, bytes)) in (0..).zip(ops) {
            let wr = SendWr {
                op,
                ..wr(&net, wr_id, bytes)
            };
            net.send_wr(0, qps[0], &wr);
        }
        net.settle();
        (net.now, net.carried, std::mem::take(&mut net.hosts[0].done))
    };
    let with = run(true);
    assert_eq!(with, run(false));
    assert_eq!(with.2.len(), 4);
}

#[test]
fn immediate_data_takes_a_credit() {
    let mut net = net([true; 2]);
    let qps = connect(&mut net, Transport::Rc, |_| {});
    net.post_receives(1, qps[1], 2, 100);
    let rkey = remote(&net, 1);
    for wr_id in 0..4 {
        let op = SendOp::Write {
            addr: 0,
            rkey,
            immediate: Some(7),
        };
        let wr = SendWr {
            op,
            ..wr(&net, wr_id, 3_000)
        };
        net.send_wr(0, qps[0], &wr);
    }
    net.run(500 * PS_PER_US);
    assert_eq!(sent(&net), 2);
    net.post_receives(1, qps[1], 2, 100);
    net.run(500 * PS_PER_US);
    assert_eq!(sent(&net), 4);
    assert_eq!(net.hosts[0].hca.qp_counts(qps[0]).unwrap().send.rnr_naks, 0);
}

#[test]
fn an_end_that_tells_nothing_sets_no_limit() {
    let check = |credits: [bool; 2], shared: bool| {
        let mut net = net(credits);
        let pd = net.hosts[1].pd;
        let srq = shared.then(|| net.hosts[1].hca.create_srq(pd, 10, 0).unwrap());
        let qps = [
            net.hosts[0].create_qp(Transport::Rc, None),
            net.hosts[1].create_qp(Transport::Rc, srq),
        ];
        connect_qps(&mut net, Transport::Rc, qps, |_| {});
        for wr_id in 0..2 {
            let sge = net.hosts[1].sge(3_000);
            let receive = selvedge_hca::RecvWr { wr_id, sge };
            let hca = &mut net.hosts[1].hca;
            let posted = match srq {
                Some(srq) => hca.post_srq_recv(srq, &receive),
                None => hca.post_recv(net.now, qps[1], &receive),
            };
            posted.unwrap();
        }
        for wr_id in 0..4 {
            let wr = wr(&net, wr_id, 3_000);
            net.send_wr(0, qps[0], &wr);
        }
        net.run(100 * PS_PER_US);
        let counts = net.hosts[0].hca.qp_counts(qps[0]).unwrap().send;
        assert!(counts.rnr_naks > 0, "{credits:?} {shared}");
    };
    check([true, true], true);
    check([true, false], false);
    check([false, true], false);
}
