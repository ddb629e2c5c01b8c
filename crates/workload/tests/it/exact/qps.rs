//! Connections: their cost, and their behaviour after losses.

use std::cell::RefCell;
use std::rc::Rc;

use selvedge_dataplane::{Arrival, Change, Host, Message, Ps, Timed, Transport, Workload};

use super::support::{Flows, Lab, near};

const US: u64 = 1_000_000;

/// Host 0 posts numbered messages to host 3; arrivals are recorded.
struct Numbered {
    next: u64,
    count: u64,
    gap: Ps,
    bytes: u32,
    got: Rc<RefCell<Vec<(u64, bool)>>>,
}

impl Workload for Numbered {
    fn next(&mut self, host: Host, _now: Ps) -> Option<Message> {
        if host != 0 || self.next == self.count {
            return None;
        }
        self.next += 1;
        Some(Message {
            at: self.next * self.gap,
            to: 3,
            bytes: self.bytes,
            tag: self.next - 1,
            sl: None,
        })
    }

    fn arrived(&mut self, arrival: Arrival, _now: Ps, _ready: &mut Vec<Host>) {
        self.got.borrow_mut().push((arrival.tag, arrival.whole));
    }
}

fn lab(transport: Transport) -> Lab {
    Lab::new("karytree:k=2,n=2", "fat-tree").with(|s| {
        s.transport = transport;
        s.source_queue = 1_000_000;
        // 4.096 µs · 8.
        s.qp.ack_timeout = 3;
        (s.warmup_ns, s.duration_ns) = (0, 1_000_000);
    })
}

/// Messages of 5,000 bytes, one each microsecond, over a link that may break for a while.
fn numbered(lab: &mut Lab, cut: Option<(u64, u64)>) -> (Vec<(u64, bool)>, selvedge_dataplane::Results) {
    let (leaf, _) = lab.leaf_of(0);
    let to = lab.lids.base(lab.host(3).unwrap()).unwrap();
    let switch = lab.fabric.switch_index(leaf).unwrap();
    let up = lab.at(leaf, lab.routed.tables.get(switch, to));
    if let Some((from, until)) = cut {
        lab.changes = [(from, Change::Cut(up)), (until, Change::Mend(up))]
            .map(|(us, change)| Timed { at: us * US, change })
            .into();
    }
    let got = Rc::new(RefCell::new(Vec::new()));
    let traffic = Numbered {
        next: 0,
        count: 500,
        gap: US,
        bytes: 5_000,
        got: Rc::clone(&got),
    };
    let found = lab.run_traffic(traffic, None);
    (got.take(), found.results)
}

#[test]
fn without_losses_everything_arrives_once_and_in_order() {
    for transport in [Transport::None, Transport::Uc, Transport::Rc] {
        let (got, results) = numbered(&mut lab(transport), None);
        let want: Vec<_> = (0..500).map(|tag| (tag, true)).collect();
        assert_eq!(got, want, "{transport:?}");
        assert_eq!(results.packets_delivered, 1_500);
        assert_eq!(
            (results.qps.repeated, results.qps.discarded, results.qps.errors),
            (0, 0, 0)
        );
        assert_eq!(results.qps.acks, if transport == Transport::Rc { 500 } else { 0 });
    }
}

#[test]
fn a_reliable_connection_repeats_what_was_lost() {
    let (got, results) = numbered(&mut lab(Transport::Rc), Some((100, 180)));
    let want: Vec<_> = (0..500).map(|tag| (tag, true)).collect();
    assert_eq!(got, want, "each message once and in order");
    assert!(
        results.qps.repeated > 0 && results.qps.timeouts > 0,
        "{:?}",
        results.qps
    );
    assert_eq!(results.qps.errors, 0);
    assert!(results.drops.total() > 0);
}

#[test]
fn an_unreliable_connection_loses_messages() {
    let (got, results) = numbered(&mut lab(Transport::Uc), Some((100, 180)));
    let whole: Vec<_> = got.iter().filter(|(_, whole)| *whole).collect();
    // 80 µs of 500.
    assert!((415..=422).contains(&whole.len()), "{}", whole.len());
    assert_eq!(got.len(), 500, "each message is heard of");
    assert_eq!(results.messages_lost, 500 - whole.len() as u64);
}

#[test]
fn a_pair_whose_retries_are_used_up_goes_to_error() {
    let mut lab = lab(Transport::Rc);
    lab.settings.qp.retry_count = 2;
    let (got, results) = numbered(&mut lab, Some((100, 900)));
    assert_eq!(results.qps.errors, 1);
    // The first time-out and two repeats, 33 µs each.
    assert_eq!(results.qps.timeouts, 3, "{:?}", results.qps);
    let whole = got.iter().filter(|(_, whole)| *whole).count();
    assert!((97..=101).contains(&whole), "{whole}");
}

/// A window of n packets: n packets in the time of one packet, its path, an acknowledgement, and the path back.
#[test]
fn a_small_window_limits() {
    for window in [1_u32, 2, 4] {
        let mut lab = Lab::new("single:ports=4,hosts=2", "minhop").with(|s| {
            s.transport = Transport::Rc;
            s.qp.window_packets = window;
            s.qp.ack_every = window;
            s.cable_delay_ns = 1_000;
            s.buffers.per_vl_blocks = Some(1_000);
            (s.warmup_ns, s.duration_ns) = (0, 4_000_000);
        });
        lab.settings.qp.ack_delay_ns = 500;
        let found = lab.run_traffic(Flows::new(&[(0, 1, 0)], 2_048 * window), None);
        // Two cables and a switch each way, the acknowledgement of 30 bytes, and its delay.
        let cycle_ns = f64::from(window) * 82.96 + 2.0 * (2.0 * 1_000.0 + 100.0) + 500.0 + 30.0 * 0.04;
        let want = 4_000_000.0 / cycle_ns * 2_048.0 * f64::from(window);
        near(found.received[1] as f64, want, 0.005, &format!("window {window}"));
    }
}

#[test]
fn acknowledged_traffic_of_many_pairs_keeps_the_account() {
    let lab = Lab::new("karytree:k=4,n=2", "fat-tree").with(|s| {
        s.transport = Transport::Rc;
        (s.warmup_ns, s.duration_ns) = (20_000, 200_000);
    });
    let found = lab.run("uniform", "poisson", 0.4).results;
    near(found.accepted_load, 0.4, 0.03, "accepted");
    assert_eq!(found.qps.pairs, 16 * 15);
    assert_eq!(found.qps.repeated, 0);
}
