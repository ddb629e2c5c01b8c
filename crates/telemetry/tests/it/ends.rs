//! One end of each link: half of the requests, the other end derived, both while either had errors.

use std::time::Duration;

use selvedge_telemetry::{Config, Ends, Group, How, Metric, SampleKey, SamplingClass};

use crate::agents::{host, switch};
use crate::world::{UP, World, links};

fn one_end(groups: &[Group]) -> Config {
    let class = SamplingClass {
        ends: Ends::One {
            both_after_error: Duration::from_secs(5),
        },
        ..SamplingClass::new("data", Duration::from_secs(1), groups)
    };
    Config::new(vec![class])
}

fn both_ends(groups: &[Group]) -> Config {
    Config::new(vec![SamplingClass::new("data", Duration::from_secs(1), groups)])
}

#[test]
fn half_of_the_requests_and_every_port() {
    let mut world = World::new(one_end(&[Group::Extended]));
    world.slot();
    world.slot();
    let report = world.last_report();
    assert_eq!((report.read, report.derived, report.requests), (UP / 2, UP / 2, UP / 2));
    let host_port = SampleKey {
        node: host(0),
        port: 1,
        group: Group::Extended,
    };
    let sample = world.last(host_port);
    assert_eq!(sample.how, How::Derived);
    assert_eq!(sample.known, 0xFF, "traffic alone: nothing is known of its errors");
    world.invariants();
}

/// A day of traffic with faults: what one end shows is what both ends show, except for values that are marked.
#[test]
fn one_end_equals_both_ends() {
    let mut one = World::new(one_end(&[Group::Extended]));
    let mut both = World::new(both_ends(&[Group::Extended]));
    let mut rng = selvedge_sim::Seed(9).rng();
    for step in 0..200 {
        for (a, b) in links() {
            let (there, back) = (rng.below(1000), rng.below(1000));
            for world in [&mut one, &mut both] {
                world.carry(a, b, there);
                world.carry(b, a, back);
            }
        }
        if step % 20 == 10 {
            let at = links()[rng.below(10) as usize];
            let end = if rng.below(2) == 0 { at.0 } else { at.1 };
            for world in [&mut one, &mut both] {
                world.count(end.node, end.port, Metric::SymbolErrors, 2);
            }
        }
        one.slot();
        both.slot();
    }
    let traffic = 0xFF_u32;
    let (mut derived, mut read) = (0, 0);
    for sample in &one.samples {
        let twin = both
            .samples
            .iter()
            .find(|twin| (twin.key, twin.slot) == (sample.key, sample.slot))
            .unwrap();
        let compared = match sample.how {
            How::Derived => sample.known & traffic,
            How::Read | How::Unchanged | How::Down => sample.known,
        };
        assert_eq!(
            sample.how == How::Derived,
            sample.how != twin.how,
            "only derived ones differ"
        );
        for i in (0..22).filter(|i| compared >> i & 1 != 0) {
            assert_eq!(
                sample.totals[i], twin.totals[i],
                "{} counter {i} in {}",
                sample.key, sample.slot
            );
        }
        derived += u32::from(sample.how == How::Derived);
        read += u32::from(sample.how == How::Read);
    }
    assert!(derived > 1500 && read > derived, "{derived} {read}");
    one.invariants();
    both.invariants();
}

#[test]
fn both_ends_while_one_has_errors() {
    let mut world = World::new(one_end(&[Group::Extended]));
    world.slot();
    world.count(switch(0), 1, Metric::SymbolErrors, 1);
    world.slot();
    world.slot();
    assert_eq!(world.last_report().read, UP / 2 + 1);
    world.pass(Duration::from_secs(5));
    assert_eq!(world.last_report().read, UP / 2);
}

#[test]
fn the_other_end_speaks_for_a_silent_switch() {
    let mut world = World::new(one_end(&[Group::Extended]));
    world.slot();
    world.agent(switch(1)).is_silent = true;
    world.pass(Duration::from_secs(3));
    let report = world.last_report();
    // Four hosts and the other switch are read instead, so no port is missing.
    assert_eq!((report.read, report.derived, report.missing.len()), (UP / 2, UP / 2, 0));
    world.invariants();
}

#[test]
fn ends_with_different_attributes() {
    let mut world = World::new(one_end(&[Group::Extended]));
    world.agent(switch(0)).mask = 0x1100;
    let (switch_end, host_end) = links()[0];
    world.carry(host_end, switch_end, 10);
    world.slot();
    world.slot();
    let report = world.last_report();
    assert_eq!((report.read, report.derived, report.missing.len()), (UP / 2, UP / 2, 0));
    let key = SampleKey {
        node: host_end.node,
        port: 1,
        group: Group::Base,
    };
    let sample = world.last(key);
    let xmit = Group::Base.place(Metric::XmitPackets).unwrap();
    assert_eq!((sample.totals[xmit], sample.how), (10, How::Derived));
    world.invariants();
}
