//! What takes how long, and which events reach which context.

use selvedge_hca::{
    AttrMask as M, Costs, EventType, Notice, PS_PER_NS, PS_PER_US, QpAttr, QpState, SendWr, Transport, VerbsError,
};
use selvedge_types::{Lid, PortState};

use crate::net::{Net, attributes, connect, path, port_attr};

#[test]
fn a_message_takes_the_sum_of_its_costs() {
    let check = |inline: bool, sender_ns: u64| {
        let mut net = Net::new(1, 2, 1, |config| config.notices = true);
        let qps = connect(&mut net, Transport::Rc, |_| {});
        net.post_receives(1, qps[1], 1, 8);
        net.run(1_000 * PS_PER_US);
        let mut notices = Vec::new();
        net.hosts
            .iter_mut()
            .for_each(|host| host.hca.take_notices(&mut notices));
        notices.clear();
        let begin = net.now;
        let sge = net.hosts[0].sge(8);
        net.send_wr(
            0,
            qps[0],
            &SendWr {
                inline,
                ..SendWr::send(1, sge)
            },
        );
        net.settle();
        // The receiver sees it after the wire (34 bytes of 40 ps), the cable (2.8 µs) and one DMA write.
        let wire = 34 * 40 + 2_800 * PS_PER_NS;
        let received = begin + sender_ns * PS_PER_NS + wire + 250 * PS_PER_NS;
        // The sender after 200 ns for the acknowledgement of 30 bytes, its way, and one DMA write.
        let sent = received - 250 * PS_PER_NS + 200 * PS_PER_NS + 30 * 40 + 2_800 * PS_PER_NS + 250 * PS_PER_NS;
        for (host, want) in [(0, sent), (1, received)] {
            net.hosts[host].hca.take_notices(&mut notices);
            assert_eq!(
                notices,
                [Notice::Completion(want, net.hosts[host].cq)],
                "{host} {inline}"
            );
            notices.clear();
        }
    };
    check(false, 150 + 500 + 500);
    check(true, 150);
}

#[test]
fn contexts_beyond_the_cache_are_loaded_for_each_turn() {
    let run = |cache: u32| {
        let mut net = Net::new(1, 2, 1, |config| {
            config.costs = Costs {
                context_load_ps: 10 * PS_PER_US,
                ..Costs::FREE
            };
            config.context_cache = cache;
        });
        let pairs = [0, 1, 2].map(|_| connect(&mut net, Transport::Rc, |_| {}));
        for round in 0..4 {
            for pair in pairs {
                net.post_receives(1, pair[1], 1, 8);
                let wr = SendWr::send(round, net.hosts[0].sge(8));
                net.send_wr(0, pair[0], &wr);
                // One message at a time, with its acknowledgement.
                net.run(200 * PS_PER_US);
            }
        }
        assert_eq!(net.hosts[0].done.len(), 12);
        net.hosts[0].hca.context_loads()
    };
    assert_eq!([run(0), run(3), run(2)], [0, 3, 12]);
}

#[test]
fn commands_follow_each_other_and_hold_up_their_queue_pair() {
    let mut net = Net::new(1, 2, 1, |_| {});
    let qps = [0, 1].map(|_| net.hosts[0].create_qp(Transport::Rc, None));
    let attr = QpAttr {
        state: QpState::Init,
        ..attributes(2, path(1, (1, 1), 0))
    };
    let mask = M::STATE.with(M::PKEY_INDEX).with(M::PORT).with(M::ACCESS_FLAGS);
    // 10 µs for a command, 2 µs for port and P_Key, 0.5 µs for the access flags.
    let ends = qps.map(|qp| net.modify(0, qp, &attr, mask).unwrap());
    assert_eq!(ends, [12_500 * PS_PER_NS, 25_000 * PS_PER_NS]);
}

/// Commands are 10.5 µs each. Doorbell and DMA reads take 1.15 µs, so a message is under way before its queue pair's
/// command has its turn at 10.5 µs; one that is posted at 10 µs waits for the end at 21 µs.
#[test]
fn a_queue_pair_works_while_its_command_waits_for_another_one() {
    let mut net = Net::new(1, 2, 1, |_| {});
    let pairs = [0, 1].map(|_| connect(&mut net, Transport::Rc, |_| {}));
    net.post_receives(1, pairs[0][1], 1, 8);
    net.post_receives(1, pairs[1][1], 2, 8);
    net.run(1_000 * PS_PER_US);
    let begin = net.now;
    let attr = QpAttr {
        min_rnr_timer: 3,
        ..QpAttr::default()
    };
    let ends = pairs.map(|pair| net.modify(0, pair[0], &attr, M::MIN_RNR_TIMER).unwrap() - begin);
    assert_eq!(ends, [10_500 * PS_PER_NS, 21_000 * PS_PER_NS]);
    let wr = |id, net: &Net| SendWr::send(id, net.hosts[0].sge(8));
    for (id, pair) in (0..).zip(pairs) {
        let wr = wr(id, &net);
        net.send_wr(0, pair[0], &wr);
    }
    net.run(10 * PS_PER_US);
    let order = |net: &Net| net.hosts[0].done.iter().map(|wc| wc.wr_id).collect::<Vec<_>>();
    assert_eq!(order(&net), [1], "the first command holds its own queue pair up only");
    let late = wr(2, &net);
    net.send_wr(0, pairs[1][0], &late);
    net.run(10 * PS_PER_US);
    assert_eq!(order(&net), [1, 0]);
    net.run(10 * PS_PER_US);
    assert_eq!(order(&net), [1, 0, 2]);
}

#[test]
fn port_events_reach_every_context_and_events_hold_their_object() {
    let mut net = Net::free(1);
    let hca = &mut net.hosts[0].hca;
    let other = hca.open().unwrap();
    let mut attr = port_attr(0, 2, PortState::Active);
    (attr.sm_lid, attr.lids.base) = (Lid(7), Lid(500));
    hca.set_port(0, 2, attr).unwrap();
    hca.client_reregister(0, 2).unwrap();
    for context in [net.hosts[0].context, other] {
        let mut kinds = Vec::new();
        while let Some(event) = net.hosts[0].hca.get_async_event(0, context).unwrap() {
            assert_eq!(event.element, selvedge_hca::Element::Port(2));
            kinds.push(event.kind);
        }
        let want = [EventType::LidChange, EventType::SmChange, EventType::ClientReregister];
        assert_eq!(kinds, want);
    }
    assert!(net.hosts[0].hca.client_reregister(0, 3).is_err());
    let qps = connect(&mut net, Transport::Rc, |_| {});
    let attr = QpAttr {
        state: QpState::Sqd,
        en_sqd_async_notify: true,
        ..QpAttr::default()
    };
    net.modify(0, qps[0], &attr, M::STATE.with(M::EN_SQD_ASYNC_NOTIFY))
        .unwrap();
    let (context, hca) = (net.hosts[0].context, &mut net.hosts[0].hca);
    let event = hca.get_async_event(0, context).unwrap().unwrap();
    assert_eq!(event.kind, EventType::SqDrained);
    let pending = VerbsError::EventsPending {
        what: "queue pair",
        count: 1,
    };
    assert_eq!(hca.destroy_qp(qps[0]), Err(pending));
    hca.ack_async_event(&event);
    hca.destroy_qp(qps[0]).unwrap();
}

#[test]
fn two_contexts_of_one_adapter_keep_their_events_and_objects_apart() {
    let mut net = Net::free(1);
    let hca = &mut net.hosts[0].hca;
    let other = hca.open().unwrap();
    let pd = hca.alloc_pd(other).unwrap();
    let init = selvedge_hca::QpInit {
        transport: Transport::Rc,
        send_cq: net.hosts[0].cq,
        recv_cq: net.hosts[0].cq,
        srq: None,
        cap: Default::default(),
        sq_sig_all: true,
    };
    let foreign = VerbsError::Foreign {
        what: "completion queue",
        owner: "context",
    };
    assert_eq!(net.hosts[0].hca.create_qp(pd, &init), Err(foreign));
    net.hosts[0].hca.dealloc_pd(pd).unwrap();
    net.hosts[0].hca.close(other).unwrap();
}
