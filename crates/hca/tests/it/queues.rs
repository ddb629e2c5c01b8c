//! Shared receive queues, completion queues and their channels.

use selvedge_hca::{AttrMask as M, EventType, QpAttr, QpState, RecvWr, SendWr, Transport, VerbsError};

use crate::net::{Net, connect, wr};

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
