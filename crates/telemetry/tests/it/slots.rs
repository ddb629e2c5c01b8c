//! Full reads, windows, work items, and slots that follow the wall clock.

use std::collections::BTreeSet;
use std::time::Duration;

use selvedge_telemetry::{
    Assignment, Config, Event, Group, How, In, Metric, PortSet, SampleKey, SamplingClass, Slot, WorkItem,
};

use crate::agents::{host, switch};
use crate::world::{DOWN, HOSTS, SWITCHES, UP, World};

pub fn every_second(groups: &[Group]) -> Config {
    Config::new(vec![SamplingClass::new("data", Duration::from_secs(1), groups)])
}

#[test]
fn a_full_read_has_every_port_and_no_request_too_many() {
    let mut world = World::new(every_second(&[Group::Base, Group::Extended]));
    world.slot();
    world.slot();
    let [first, second] = &world.reports[..] else {
        panic!("{:?}", world.reports)
    };
    assert_eq!((first.read, first.down), (2 * UP, 2 * DOWN));
    assert_eq!(
        first.requests,
        2 * UP + (SWITCHES + HOSTS) as u32,
        "and ClassPortInfo of each node"
    );
    assert_eq!((second.read, second.requests), (2 * UP, 2 * UP));
    assert!(
        second.missing.is_empty() && world.events.is_empty(),
        "{:?}",
        world.events
    );
    let down = world.samples.iter().find(|sample| sample.how == How::Down).unwrap();
    assert_eq!((down.key.port, down.known), (7, 0), "a port that is down is data");
    world.invariants();
}

#[test]
fn a_sample_says_when_it_was_read_and_by_which_sampler() {
    let mut config = every_second(&[Group::Extended]);
    config.agent = 17;
    let mut world = World::new(config);
    world.count(host(3), 1, Metric::XmitData, 1234);
    world.slot();
    let key = SampleKey {
        node: host(3),
        port: 1,
        group: Group::Extended,
    };
    let sample = *world.last(key);
    assert_eq!(
        sample.slot,
        Slot {
            epoch: 0,
            number: 1_000_001
        }
    );
    assert!(sample.rtt_us > 0 && sample.offset_us > sample.rtt_us, "{sample:?}");
    assert!(sample.offset_us < 10_000, "{sample:?}");
    assert_eq!((sample.agent, sample.how), (17, How::Read));
    assert_eq!(sample.totals[Metric::XmitData as usize], 1234);
}

#[test]
fn windows_hold() {
    let mut config = every_second(&[Group::Base, Group::Extended]);
    (config.window, config.node_window) = (5, 2);
    let mut world = World::new(config);
    world.slot();
    world.slot();
    assert_eq!(world.most, (5, 2));
    assert_eq!(world.last_report().read, 2 * UP);
}

#[test]
fn two_samplers_share_a_switch() {
    let item = |node, ports: &[u8]| WorkItem {
        node,
        ports: ports.iter().copied().collect::<PortSet>(),
        group: Group::Extended,
    };
    let mut seen = BTreeSet::new();
    for items in [
        vec![item(switch(0), &[1, 2, 5]), item(host(0), &[1])],
        vec![item(switch(0), &[3, 4, 6]), item(switch(1), &[1])],
    ] {
        let mut world = World::new(every_second(&[Group::Extended]));
        world.assign(Assignment::of(&items));
        world.slot();
        assert_eq!(world.last_report().read, 4);
        for sample in &world.samples {
            assert!(seen.insert((sample.key.node, sample.key.port)), "{} twice", sample.key);
        }
    }
    assert_eq!(seen.len(), 8);
}

#[test]
fn nothing_is_sampled_before_the_time_is_known() {
    let mut sampler = selvedge_telemetry::Sampler::new(every_second(&[Group::Base]));
    let mut out = Vec::new();
    sampler.handle(selvedge_sim::Time::from_secs(9), In::Wake, &mut out);
    assert!(out.is_empty());
    assert_eq!(sampler.next_wake(), None);
}

#[test]
fn classes_have_intervals_of_their_own() {
    let class = |name, seconds, group| SamplingClass::new(name, Duration::from_secs(seconds), &[group]);
    let classes = vec![class("data", 1, Group::Extended), class("errors", 3, Group::Base)];
    let mut world = World::new(Config::new(classes));
    world.pass(Duration::from_secs(6));
    let of_class = |class| world.reports.iter().filter(|report| report.class == class).count();
    assert_eq!((of_class(0), of_class(1)), (6, 2));
    let errors = world.reports.iter().find(|report| report.class == 1).unwrap();
    assert_eq!(errors.slot.number * 3 % 3, 0);
    assert_eq!(errors.read, UP);
    world.invariants();
}

#[test]
fn slots_that_the_clock_skipped_are_said() {
    let mut world = World::new(every_second(&[Group::Extended]));
    world.slot();
    world.step_clock(5_000);
    world.slot();
    assert!(
        world.events.contains(&Event::ClockSet { by_ns: 5_000_000_000 }),
        "{:?}",
        world.events
    );
    let skipped: Vec<u64> = world.reports.iter().map(|report| report.skipped).collect();
    assert_eq!(skipped, [0, 4, 0]);
    world.invariants();
}

#[test]
fn a_clock_that_was_set_back_uses_no_slot_twice() {
    let mut world = World::new(every_second(&[Group::Extended]));
    world.pass(Duration::from_secs(10));
    world.step_clock(-3_000);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.reports.len(), 10, "it waits");
    world.pass(Duration::from_secs(2));
    assert_eq!(world.reports.len(), 12);
    // An hour back is too long to wait.
    world.step_clock(-3_600_000);
    world.pass(Duration::from_secs(2));
    assert!(
        world.events.contains(&Event::Renumbered { class: 0 }),
        "{:?}",
        world.events
    );
    assert_eq!((world.reports.len(), world.last_report().slot.epoch), (14, 1));
    world.invariants();
}

#[test]
fn a_restart_continues_totals_and_never_repeats_a_slot() {
    let config = every_second(&[Group::Extended]);
    let key = SampleKey {
        node: switch(0),
        port: 1,
        group: Group::Extended,
    };
    let mut world = World::new(config.clone());
    world.count(switch(0), 1, Metric::XmitWait, 40);
    world.slot();
    // The device is reset, counts on, and is read; then the process is killed.
    world.agent(switch(0)).ports.get_mut(&1).unwrap().reset();
    world.count(switch(0), 1, Metric::XmitWait, 3);
    world.slot();
    world.count(switch(0), 1, Metric::XmitWait, 4);
    world.restart(config);
    world.slot();
    world.slot();
    let sample = world.last(key);
    assert_eq!(sample.totals[Metric::XmitWait as usize], 47);
    assert_eq!(sample.resets, 1);
    world.invariants();
}

#[test]
fn a_slot_that_is_not_complete_ends_with_the_next() {
    let mut config = every_second(&[Group::Extended]);
    (config.timeout, config.retries) = (Duration::from_secs(5), 0);
    let mut world = World::new(config);
    world.agent(host(2)).is_silent = true;
    world.slot();
    world.slot();
    let report = &world.reports[0];
    assert_eq!((report.read, report.missing.len()), (UP - 1, 1));
    let late = |event: &&Event| matches!(event, Event::Overrun { missing: 1, .. });
    assert_eq!(world.events.iter().filter(late).count(), 1, "{:?}", world.events);
    world.invariants();
}
