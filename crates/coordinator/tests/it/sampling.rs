//! The sampler beside the manager: what it reads, and when it reads nothing.

use std::time::Duration;

use selvedge_chassis::PortIdx;
use selvedge_coordinator::{In, Sampled};
use selvedge_sm::{Milestone, Role};
use selvedge_telemetry::{Config, Group, How, Metric, Sample, SamplingClass, SlotReport};
use selvedge_types::{PortNum, PortState};

use crate::bench::Bench;

/// Ports of the fabric of the bench: four hosts, and on the two switches one to each of them and a link between them.
const UP: u32 = 4 + 4 + 2;

fn every_second() -> Config {
    Config::new(vec![SamplingClass::new(
        "data",
        Duration::from_secs(1),
        &[Group::Extended],
    )])
}

fn ended(bench: &Bench) -> Vec<&SlotReport> {
    let sampled = bench.sampled.iter();
    let ended = sampled.filter_map(|sampled| match sampled {
        Sampled::Ended(report) => Some(&**report),
        _ => None,
    });
    ended.collect()
}

fn samples(bench: &Bench) -> impl Iterator<Item = &Sample> {
    bench.sampled.iter().filter_map(|sampled| match sampled {
        Sampled::Sample(sample) => Some(&**sample),
        _ => None,
    })
}

#[test]
fn a_master_reads_every_port_in_every_slot() {
    let mut bench = Bench::sampling(every_second());
    bench.run_for(Duration::from_millis(4_500));
    let reports = ended(&bench);
    assert!(reports.len() >= 3, "{reports:?}");
    for report in reports {
        assert_eq!((report.read, report.missing.len()), (UP, 0), "{report:?}");
    }
    assert!(bench.coordinator.is_sampling());
    let counters = bench.coordinator.sampler().expect("it has one").counters();
    assert_eq!(counters.failed, 0);
    assert!(counters.sent >= u64::from(3 * UP));
}

#[test]
fn counters_that_move_are_seen() {
    let mut bench = Bench::sampling(every_second());
    bench.run_for(Duration::from_millis(1_500));
    let fabric = bench.emulator.chassis().fabric();
    let host = fabric
        .nodes()
        .iter_enumerated()
        .find(|(_, node)| node.description == "H-1");
    let (idx, node) = host.expect("it has four hosts");
    let guid = node.guid;
    let port = PortNum::new(1).expect("below 255");
    let at: PortIdx = bench
        .emulator
        .chassis()
        .port_idx(selvedge_fabric::PortRef { node: idx, port })
        .expect("it has one");
    // Requests and answers of the sampler move data and packets.
    bench.emulator.counters_mut(at).symbol_errors += 7;
    bench.run_for(Duration::from_secs(1));
    let last = samples(&bench)
        .filter(|sample| sample.key.node == guid && sample.how == How::Read)
        .last()
        .expect("it is read");
    assert_eq!(last.totals[Metric::SymbolErrors as usize], 7);
    assert!(last.totals[Metric::XmitData as usize] > 0);
}

#[test]
fn a_standby_reads_nothing() {
    let mut bench = Bench::sampling(every_second());
    bench.run_for(Duration::from_millis(2_500));
    let before = ended(&bench).len();
    assert!(before > 0);
    bench.hand(In::Milestone(Milestone::RoleChanged { role: Role::Standby }));
    let Some(Sampled::Inventory(none)) = bench.sampled.last() else {
        panic!("{:?}", bench.sampled.last())
    };
    assert!(none.nodes.is_empty());
    assert!(!bench.coordinator.is_sampling());
    bench.run_for(Duration::from_secs(3));
    assert_eq!(ended(&bench).len(), before);
}

#[test]
fn a_link_that_is_lost_is_down_in_the_next_slot() {
    let mut bench = Bench::sampling(every_second());
    bench.run_for(Duration::from_millis(2_500));
    let fault = "cut \"H-3\"[1]".parse().expect("a fault");
    bench.emulator.apply(bench.now, &fault).expect("a link");
    bench.run_for(Duration::from_secs(3));
    let last = ended(&bench).pop().expect("slots go on");
    assert_eq!(last.read, UP - 2, "{last:?}");
    let inventory = bench.sampled.iter().rev().find_map(|sampled| match sampled {
        Sampled::Inventory(inventory) => Some(inventory),
        _ => None,
    });
    let ports = inventory
        .expect("there is one")
        .nodes
        .values()
        .flat_map(|node| &node.ports);
    let down = ports.filter(|port| port.state == PortState::Down);
    assert_eq!(down.count() as u32, last.down);
}

#[test]
fn hosts_are_answered_at_once_while_counters_are_read() {
    // Requests follow each other, so a slot takes longer than a moment.
    let mut bench = Bench::sampling(Config {
        window: 2,
        ..every_second()
    });
    bench.run_for(Duration::from_millis(2_500));
    let before = ended(&bench).len();
    let sent = |bench: &Bench| bench.coordinator.sampler().expect("it has one").counters().sent;
    // From before a slot until after it, a microsecond further each time: the answer takes no time, as without samples.
    let mut moments = 0;
    bench.run_for(Duration::from_millis(499));
    for _ in 0..2_000 {
        let requests = sent(&bench);
        let now = bench.now;
        assert_eq!(bench.join(moments % 2).len(), 1, "at {now}");
        assert_eq!(bench.now, now);
        bench.run_for(Duration::from_micros(1));
        moments += usize::from(sent(&bench) > requests);
    }
    assert!(ended(&bench).len() > before && moments > 3, "{moments}");
}
