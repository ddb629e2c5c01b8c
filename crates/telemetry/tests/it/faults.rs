//! Agents that are silent, refuse, answer for others or count from zero.

use std::time::Duration;

use selvedge_telemetry::{Event, Group, Metric, SampleKey, Why};
use selvedge_types::Lid;
use selvedge_wire::ClassPortInfo;

use crate::agents::{Garble, host, switch};
use crate::slots::every_second;
use crate::world::{UP, World};

fn key(node: selvedge_types::Guid, port: u8, group: Group) -> SampleKey {
    SampleKey { node, port, group }
}

/// The reasons of the ports that miss in the last slot.
fn missing(world: &World) -> Vec<(SampleKey, Why)> {
    let report = world.last_report();
    report
        .missing
        .iter()
        .map(|missing| (missing.key, missing.why))
        .collect()
}

#[test]
fn a_silent_host_costs_only_its_own_port() {
    let mut world = World::new(every_second(&[Group::Extended]));
    world.slot();
    world.agent(host(5)).is_silent = true;
    world.slot();
    let at = key(host(5), 1, Group::Extended);
    assert_eq!(missing(&world), [(at, Why::Silent)]);
    assert_eq!(world.last_report().read, UP - 1);
    // It is left alone, so the next slot needs no time-out.
    let asked = world.agent(host(5)).requests(Group::Extended);
    world.slot();
    assert_eq!(missing(&world), [(at, Why::BackOff)]);
    assert!(world.last_report().took < Duration::from_millis(50));
    assert_eq!(world.agent(host(5)).requests(Group::Extended), asked);
    let silent = |event: &&Event| matches!(event, Event::Silent { node, .. } if *node == host(5));
    world.pass(Duration::from_secs(60));
    assert_eq!(world.events.iter().filter(silent).count(), 1, "said once");
    // After a pause it is asked one request, and when it answers, all of them.
    world.agent(host(5)).is_silent = false;
    world.pass(Duration::from_secs(80));
    assert!(world.events.contains(&Event::Answers { node: host(5) }));
    assert_eq!(world.last_report().read, UP);
    world.invariants();
}

#[test]
fn a_silent_switch_in_front_of_hosts_delays_nothing() {
    let mut world = World::new(every_second(&[Group::Extended]));
    world.agent(switch(1)).is_silent = true;
    world.pass(Duration::from_secs(4));
    for report in &world.reports {
        assert_eq!((report.read, report.missing.len()), (UP - 6, 6), "{report:?}");
    }
    // ClassPortInfo, once repeated, in the first slot alone.
    let asked = world.agent(switch(1)).asked.values().sum::<u64>();
    assert_eq!(asked, 2);
}

#[test]
fn a_port_without_an_answer_does_not_end_the_sweep() {
    let mut world = World::new(every_second(&[Group::Extended]));
    world.agent(switch(0)).silent_ports.insert(3);
    world.slot();
    let at = key(switch(0), 3, Group::Extended);
    assert_eq!(missing(&world), [(at, Why::Silent)]);
    world.slot();
    assert_eq!(missing(&world), [(at, Why::BackOff)]);
    assert_eq!(world.last_report().read, UP - 1);
    world.agent(switch(0)).silent_ports.clear();
    world.pass(Duration::from_secs(10));
    assert_eq!(world.last_report().read, UP);
    world.invariants();
}

#[test]
fn an_agent_without_64_bits_is_asked_for_narrow_counters() {
    let mut world = World::new(every_second(&[Group::Extended]));
    world.agent(host(1)).mask = 0;
    world.agent(host(2)).mask = ClassPortInfo::EXTENDED_WIDTH_NO_IETF;
    world.agent(host(3)).refused.insert(Group::Extended.attribute().code());
    world.slot();
    world.slot();
    assert_eq!(world.last_report().read, UP, "{:?}", world.last_report());
    for (node, group, known) in [
        (1, Group::Base, 0xFFFF),
        (2, Group::Extended, 0xF),
        (3, Group::Base, 0x3_FFFF),
    ] {
        let sample = world.last(key(host(node), 1, group));
        assert_eq!(sample.known, known & group.mask(), "{}", sample.key);
    }
    assert_eq!(world.agent(host(3)).requests(Group::Extended), 1, "asked once");
    let unsupported = |event: &&Event| matches!(event, Event::Unsupported { .. });
    assert_eq!(world.events.iter().filter(unsupported).count(), 1);
    world.invariants();
}

#[test]
fn a_group_that_no_agent_has_is_no_gap() {
    let mut world = World::new(every_second(&[Group::VlXmitWait, Group::RcvErrors]));
    world
        .agent(switch(0))
        .ports
        .get_mut(&2)
        .unwrap()
        .count(Metric::RcvErrors, 6);
    world.slot();
    world.slot();
    let report = world.last_report();
    assert_eq!((report.read, report.requests, report.missing.len()), (UP, UP, 0));
    assert_eq!(world.last(key(switch(0), 2, Group::RcvErrors)).totals[0], 6);
}

#[test]
fn answers_that_belong_to_something_else_are_dropped() {
    let check = |garble: Garble, why: Why, is_stranger: bool| {
        let mut world = World::new(every_second(&[Group::Extended]));
        world.count(host(0), 1, Metric::XmitData, 500);
        world.slot();
        world.agent(host(0)).garble = Some(garble);
        world.slot();
        let at = key(host(0), 1, Group::Extended);
        assert_eq!(missing(&world), [(at, why)], "{garble:?}");
        let stranger = |event: &Event| matches!(event, Event::Stranger { .. });
        assert_eq!(
            world.events.iter().any(stranger),
            is_stranger,
            "{garble:?}: {:?}",
            world.events
        );
        world.agent(host(0)).garble = None;
        world.count(host(0), 1, Metric::XmitData, 30);
        world.pass(Duration::from_secs(8));
        assert_eq!(world.last(at).totals[0], 530, "{garble:?}");
        world.invariants();
    };
    check(Garble::NextPort, Why::Refused, true);
    // Without the attribute that was asked for it is no answer at all.
    check(Garble::Attribute, Why::Silent, false);
    check(Garble::Sender, Why::Refused, true);
    check(Garble::Busy, Why::Status(1), false);
    check(Garble::TooMuch, Why::Refused, false);
}

#[test]
fn resets_and_full_counters_are_said() {
    let mut world = World::new(every_second(&[Group::Base]));
    let at = key(switch(0), 2, Group::Base);
    let symbols = 0;
    world.count(switch(0), 2, Metric::SymbolErrors, 65_530);
    world.slot();
    world.count(switch(0), 2, Metric::SymbolErrors, 100);
    world.slot();
    world.slot();
    assert_eq!((world.last(at).totals[symbols], world.last(at).full), (65_535, 1));
    let full = Event::Full { key: at, counters: 1 };
    assert_eq!(world.events.iter().filter(|event| **event == full).count(), 1);
    world.agent(switch(0)).ports.get_mut(&2).unwrap().reset();
    world.count(switch(0), 2, Metric::SymbolErrors, 7);
    world.slot();
    assert!(world.events.contains(&Event::Reset { key: at, counters: 1 }));
    let sample = world.last(at);
    assert_eq!((sample.totals[symbols], sample.full, sample.resets), (65_542, 0, 1));
    world.invariants();
}

#[test]
fn a_node_that_moved_is_asked_at_its_new_lid() {
    let mut world = World::new(every_second(&[Group::Extended]));
    world.slot();
    world.move_lid(host(4), Lid(300));
    world.show_inventory();
    world.slot();
    assert_eq!(world.last_report().read, UP);
    // It moves while a request is on its way to the old LID: whatever comes back is not taken.
    world.pass(Duration::from_micros(100_010));
    world.move_lid(host(4), Lid(301));
    world.show_inventory();
    world.slot();
    world.slot();
    assert_eq!(world.last_report().read, UP);
    world.invariants();
}

#[test]
fn a_node_that_left_is_a_gap_of_one_slot() {
    let mut world = World::new(every_second(&[Group::Extended]));
    world.slot();
    world.inventory.nodes.remove(&host(7));
    world.agent(host(7)).is_silent = true;
    world.slot();
    world.show_inventory();
    world.slot();
    let report = world.last_report();
    assert_eq!((report.read, report.missing.len()), (UP - 1, 0));
    world.invariants();
}

#[test]
fn events_say_what_and_where() {
    let at = key(host(0), 1, Group::Extended);
    let check = |event: Event, want: &str| assert_eq!(event.to_string(), want);
    check(
        Event::Stranger {
            key: at,
            lid: Lid(5),
            from: Lid(6),
        },
        "SLV-TELEMETRY-0003: LID 5 was asked for PortCountersExtended of port 1 of node 0x0000000000002000, but LID 6 \
         answered with another attribute or port; the answer was dropped",
    );
    check(
        Event::ClockSet { by_ns: -1_500_000_000 },
        "SLV-TELEMETRY-0007: the clock was set by -1.500 s; slots are missing, or sampling waits until the \
         clock has passed the last slot",
    );
}
