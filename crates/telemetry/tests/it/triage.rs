//! Errors by the sum of all ports: a healthy switch costs one request.

use std::time::Duration;

use selvedge_telemetry::{Config, Group, How, Metric, SampleKey, SamplingClass, Triage};

use crate::agents::switch;
use crate::world::{HOSTS, SWITCHES, UP, World};

fn by_sum(full_read_every: u32) -> Config {
    let class = SamplingClass {
        triage: Triage::BySum { full_read_every },
        ..SamplingClass::new("errors", Duration::from_secs(1), &[Group::Base])
    };
    Config::new(vec![class])
}

fn symbols(world: &World, node: u64, port: u8) -> (u64, How) {
    let key = SampleKey {
        node: switch(node),
        port,
        group: Group::Base,
    };
    let sample = world.last(key);
    (sample.totals[0], sample.how)
}

#[test]
fn a_healthy_switch_costs_one_request() {
    let mut world = World::new(by_sum(100));
    world.slot();
    // Data move all the time; they say nothing of errors.
    world.count(switch(0), 1, Metric::XmitData, 10_000);
    world.slot();
    let report = world.last_report();
    assert_eq!(report.requests, (SWITCHES + HOSTS) as u32);
    assert_eq!((report.unchanged, report.read), (12, HOSTS as u32));
    assert_eq!(symbols(&world, 0, 1), (0, How::Unchanged));
    world.invariants();
}

#[test]
fn ports_are_asked_where_the_sum_moved() {
    let mut world = World::new(by_sum(100));
    world.slot();
    world.count(switch(1), 6, Metric::SymbolErrors, 3);
    world.slot();
    let report = world.last_report();
    assert_eq!(report.requests, (SWITCHES + HOSTS) as u32 + 6);
    assert_eq!((report.unchanged, report.read), (6, 6 + HOSTS as u32));
    assert_eq!(symbols(&world, 1, 6), (3, How::Read));
    assert_eq!(symbols(&world, 0, 6), (0, How::Unchanged));
    world.slot();
    assert_eq!(world.last_report().unchanged, 12);
    assert_eq!(symbols(&world, 1, 6), (3, How::Unchanged));
}

#[test]
fn a_full_sum_proves_nothing() {
    let mut world = World::new(by_sum(100));
    world.count(switch(0), 1, Metric::LinkDowned, 255);
    world.slot();
    world.count(switch(0), 2, Metric::LinkDowned, 1);
    world.slot();
    assert_eq!(world.last_report().unchanged, 6, "only the other switch");
    let key = SampleKey {
        node: switch(0),
        port: 2,
        group: Group::Base,
    };
    assert_eq!(world.last(key).totals[2], 1);
}

#[test]
fn every_port_is_read_now_and_then() {
    let mut world = World::new(by_sum(4));
    world.pass(Duration::from_secs(9));
    let unchanged: Vec<u32> = world.reports.iter().map(|report| report.unchanged).collect();
    assert_eq!(unchanged, [0, 12, 12, 12, 0, 12, 12, 12, 0]);
    // A reset hides errors of another port from the sum, until then.
    world.count(switch(0), 1, Metric::SymbolErrors, 5);
    world.slot();
    world.agent(switch(0)).ports.get_mut(&1).unwrap().reset();
    world.count(switch(0), 2, Metric::SymbolErrors, 5);
    world.pass(Duration::from_secs(4));
    assert_eq!(symbols(&world, 0, 2).0, 5);
    world.invariants();
}

/// What a port counted is in the sum, even if its own answer was lost: the sum must not hide it afterwards.
#[test]
fn a_lost_answer_is_not_hidden_by_the_sum() {
    let mut world = World::new(by_sum(100));
    world.slot();
    world.count(switch(0), 4, Metric::SymbolErrors, 9);
    world.agent(switch(0)).silent_ports.insert(4);
    world.slot();
    assert_eq!(symbols(&world, 0, 4).0, 0);
    world.agent(switch(0)).silent_ports.clear();
    world.pass(Duration::from_secs(8));
    assert_eq!(symbols(&world, 0, 4).0, 9);
    world.invariants();
}

#[test]
fn a_switch_without_a_sum_is_read_port_by_port() {
    let mut world = World::new(by_sum(100));
    world.agent(switch(0)).mask &= !0x0100;
    world.slot();
    world.slot();
    assert_eq!(world.last_report().unchanged, 6);
    assert_eq!(world.last_report().read, UP - 6);
    // The other one says that it sums up, and refuses.
    world.agent(switch(1)).silent_ports.insert(255);
    world.pass(Duration::from_secs(3));
    assert_eq!((world.last_report().read, world.last_report().missing.len()), (UP, 0));
}
