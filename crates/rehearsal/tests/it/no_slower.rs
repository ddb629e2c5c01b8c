//! Sampling does not slow the manager down: fail-over takes as long with samples of every port each second as without,
//! in virtual time.

use std::time::Duration;

use selvedge_coordinator::Sampled;
use selvedge_fabric::Fabric;
use selvedge_plan::Policy;
use selvedge_rehearsal::{Options, Rehearsal};
use selvedge_sim::Time;
use selvedge_telemetry::{Config, Group, SamplingClass};

use crate::common;

/// 324 hosts, 1,296 ends of links.
const SPEC: &str = "sx6536";
const SECOND: Duration = Duration::from_secs(1);
/// Links that fail, one after the other.
const FAULTS: usize = 8;
/// With samples things take at most so many times as long.
const TIMES_MAX: f64 = 1.05;

struct Stage {
    world: Rehearsal,
    fabric: Fabric,
}

impl Stage {
    /// A manager, with a sampler of all counters each second or without one.
    fn new(samples: bool) -> Self {
        let fabric = common::fabric(SPEC);
        let mut world = Rehearsal::new(&fabric, Options::default());
        let mut hosts = fabric.nodes().iter().filter(|node| !node.is_switch());
        let seat = format!("\"{}\"", hosts.next().unwrap().description);
        let manager = common::add_manager(&mut world, "a", &seat, 1, Policy::default());
        if samples {
            let class = SamplingClass::new("data", SECOND, &[Group::Extended, Group::Base]);
            world.give_sampler(manager, Config::new(vec![class]));
        }
        world.start(manager).unwrap();
        world.run_for(4 * SECOND).unwrap();
        Self { world, fabric }
    }

    /// Returns how many samples were taken since the last call.
    fn samples(&mut self) -> usize {
        let sampled = self.world.take_sampled().into_iter();
        sampled
            .filter(|(_, sampled)| matches!(sampled, Sampled::Sample(_)))
            .count()
    }

    /// Runs to this time after the begin of the next slot.
    fn run_into_a_slot(&mut self, after: Duration) {
        let slot = Time::from_secs(self.world.now().0 / 1_000_000_000 + 1);
        let span = (slot + after).since(self.world.now());
        self.world.run_for(span).unwrap();
    }

    /// Cuts links between switches while counters are read. Returns from each cut to SUBNET UP.
    fn fail_overs(&mut self) -> Vec<Duration> {
        let is_inner = |node| self.fabric.switch_index(node).is_some();
        let links = self
            .fabric
            .links()
            .filter(|link| is_inner(link.a.node) && is_inner(link.b.node));
        let names: Vec<String> = links.map(|link| self.fabric.port_name(link.a)).collect();
        let step = names.len() / FAULTS;
        let mut times = Vec::new();
        for (at, name) in names.iter().step_by(step).take(FAULTS).enumerate() {
            self.run_into_a_slot(Duration::from_micros(50 * at as u64));
            let cut = self.world.now();
            self.world.fault(&format!("cut {name}").parse().unwrap()).unwrap();
            self.world.run_for(SECOND).unwrap();
            let mut log = self.world.log().iter();
            let up = log.find(|entry| entry.at > cut && entry.event.code() == "SLV-SM-0007");
            times.push(up.expect("the link is replaced").at.since(cut));
            self.world.fault(&format!("restore {name}").parse().unwrap()).unwrap();
            self.world.run_for(4 * SECOND).unwrap();
        }
        times
    }
}

#[test]
fn fail_over_takes_as_long_with_samples_as_without() {
    let [without, with] = [false, true].map(|samples| {
        let mut stage = Stage::new(samples);
        let times = stage.fail_overs();
        assert_eq!(stage.samples() > 50_000, samples);
        println!("samples {samples}: {times:?}");
        times.iter().sum::<Duration>().as_secs_f64()
    });
    assert!(
        with / without <= TIMES_MAX,
        "fail-over takes {:.3} times as long",
        with / without
    );
}
