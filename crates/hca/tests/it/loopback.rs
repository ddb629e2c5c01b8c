//! Packets of a port to itself, and paths with a static rate.

use selvedge_hca::{
    Access, AttrMask as M, PS_PER_NS, PS_PER_US, Path, Ps, Qp, QpAttr, SendOp, SendWr, Transport, VerbsError,
};
use selvedge_types::PortState;

use crate::net::{Net, attributes, connect, path, to_rts};

/// Two queue pairs of host 0 that are connected with each other by port 1, or one that is connected with itself.
fn own_pair(net: &mut Net, with_itself: bool) -> [Qp; 2] {
    let first = net.hosts[0].create_qp(Transport::Rc, None);
    let second = match with_itself {
        true => first,
        false => net.hosts[0].create_qp(Transport::Rc, None),
    };
    let own = path(1, (0, 1), 0);
    let number = |net: &Net, qp| net.hosts[0].hca.qp_num(qp).unwrap();
    let (a, b) = (number(net, first), number(net, second));
    to_rts(net, 0, first, Transport::Rc, &attributes(b, own));
    if !with_itself {
        to_rts(net, 0, second, Transport::Rc, &attributes(a, own));
    }
    [first, second]
}

#[test]
fn packets_to_the_own_port_come_back_inside_the_adapter() {
    for with_itself in [false, true] {
        let mut net = Net::free(1);
        let [from, to] = own_pair(&mut net, with_itself);
        net.post_receives(0, to, 3, 8_192);
        for id in 0..3 {
            let wr = SendWr::send(10 + id, net.hosts[0].sge(8_192));
            net.send_wr(0, from, &wr);
        }
        net.settle();
        let mut done = net.hosts[0].statuses();
        done.sort_unstable();
        assert_eq!(done.len(), 6, "{with_itself}: {done:?}");
        assert!(done.iter().all(|(_, status)| *status == "SUCCESS"), "{done:?}");
        let counts = net.hosts[0].hca.port_counts(1).unwrap();
        assert_eq!((net.carried, counts.sent, counts.received), (0, 0, 0), "{with_itself}");
    }
}

#[test]
fn a_port_hands_itself_one_packet_at_a_time() {
    let mut net = Net::new(1, 2, 1, |config| {
        config.costs.loopback_ps = 5 * PS_PER_US;
        config.costs.ack_ps = 0;
    });
    let [from, to] = own_pair(&mut net, false);
    net.run(1_000 * PS_PER_US);
    net.post_receives(0, to, 1, 4_096);
    let begin = net.now;
    let wr = SendWr::send(1, net.hosts[0].sge(4_096));
    net.send_wr(0, from, &wr);
    // Doorbell and DMA reads take 1.15 µs, four packets and the acknowledgement 5 µs each.
    let costs = 1_150 * PS_PER_NS;
    net.run(costs + 5 * 5 * PS_PER_US - 1);
    let count = |net: &Net| net.hosts[0].done.len();
    assert_eq!(count(&net), 1, "the receive");
    net.run(1 + 250 * PS_PER_NS);
    assert_eq!(
        (count(&net), net.now - begin),
        (2, costs + 25 * PS_PER_US + 250 * PS_PER_NS)
    );
}

#[test]
fn a_port_that_is_down_hands_itself_nothing() {
    let mut net = Net::free(1);
    let [from, to] = own_pair(&mut net, false);
    net.post_receives(0, to, 1, 64);
    net.set_port(0, 1, PortState::Down);
    let wr = SendWr::send(1, net.hosts[0].sge(64));
    net.send_wr(0, from, &wr);
    net.settle();
    let done = net.hosts[0].statuses();
    assert!(done.contains(&(1, "RETRY_EXC_ERR")), "{done:?}");
    assert!(net.hosts[0].hca.port_counts(1).unwrap().sent_down > 0);
}

/// Time until a WRITE of 16 packets is acknowledged, with a static rate.
fn write_time(static_rate: u8) -> Ps {
    let mut net = Net::free(1);
    let change = |attr: &mut QpAttr| attr.primary.ah.static_rate = static_rate;
    let qps = connect(&mut net, Transport::Rc, change);
    let keys = net.hosts[1].keys();
    let sge = net.hosts[0].sge(16_384);
    let op = SendOp::Write {
        addr: keys.addr,
        rkey: keys.rkey,
        immediate: None,
    };
    let begin = net.now;
    net.send_wr(
        0,
        qps[0],
        &SendWr {
            op,
            ..SendWr::send(1, sge)
        },
    );
    while net.hosts[0].done.is_empty() {
        assert!(net.step(Ps::MAX));
    }
    net.now - begin
}

#[test]
fn a_static_rate_keeps_packets_apart() {
    // The link takes 40 ps a byte (200 Gbit/s), 4x SDR 1,000 ps. The first of 16 packets has 42 bytes of headers,
    // the others 26; the last one is not slower, only later.
    let bytes = (1_024 + 42) + 14 * (1_024 + 26);
    let apart = write_time(3) - write_time(0);
    assert_eq!(apart, bytes * 1_000 - bytes * 40);
    assert_eq!(write_time(17), write_time(0), "the rate of the link");
    assert!(write_time(2) > write_time(3));
}

#[test]
fn a_static_rate_that_is_no_code_is_refused() {
    let mut net = Net::free(1);
    let qp = net.hosts[0].create_qp(Transport::Rc, None);
    let mut wrong: Path = path(1, (1, 1), 0);
    wrong.ah.static_rate = 25;
    let attr = QpAttr {
        access: Access::ALL,
        ..attributes(2, wrong)
    };
    let steps = crate::net::steps(Transport::Rc);
    for (state, mask) in &steps[..1] {
        let attr = QpAttr { state: *state, ..attr };
        net.modify(0, qp, &attr, *mask).unwrap();
    }
    let (state, mask) = steps[1];
    let error = net.modify(0, qp, &QpAttr { state, ..attr }, mask).unwrap_err();
    let want = VerbsError::OutOfRange {
        what: "static_rate",
        value: 25,
        least: 0,
        most: 24,
    };
    assert_eq!(error, want, "{}", M::AV);
}
