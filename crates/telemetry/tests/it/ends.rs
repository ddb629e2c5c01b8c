//! One end of each link: half of the requests, the other end derived, both while either had errors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_telemetry::{Config, Ends, Group, How, Metric, Sample, SampleKey, SamplingClass};
use selvedge_types::{Guid, PortState};

use crate::agents::{Agent, host, switch};
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

/// Slots of half a minute in a day.
const SLOTS: u32 = 2_880;
const INTERVAL: Duration = Duration::from_secs(30);

/// The same day with the same faults, read in two ways.
struct Day {
    one: World,
    both: World,
    rng: selvedge_sim::Rng,
    /// The link that is down.
    down: Option<usize>,
}

impl Day {
    fn new() -> Self {
        let class = |ends: Ends| {
            let data = SamplingClass::new("data", INTERVAL, &[Group::Extended]);
            Config::new(vec![SamplingClass { ends, ..data }])
        };
        let both_after_error = Duration::from_secs(600);
        Self {
            one: World::new(class(Ends::One { both_after_error })),
            both: World::new(class(Ends::Both)),
            rng: selvedge_sim::Seed(9).rng(),
            down: None,
        }
    }

    fn worlds(&mut self) -> [&mut World; 2] {
        [&mut self.one, &mut self.both]
    }

    /// Packets on every link that is up.
    fn traffic(&mut self) {
        for (at, (a, b)) in links().into_iter().enumerate() {
            let (there, back) = (self.rng.below(1_000_000), self.rng.below(1_000_000));
            if self.down != Some(at) {
                for world in self.worlds() {
                    world.carry(a, b, there);
                    world.carry(b, a, back);
                }
            }
        }
    }

    /// Errors every ten minutes; an agent that is silent for a quarter of an hour, and a link that is down for one,
    /// every hour.
    fn faults(&mut self, slot: u32) {
        if slot % 20 == 10 {
            let at = links()[self.rng.below(10) as usize];
            let end = if self.rng.below(2) == 0 { at.0 } else { at.1 };
            for world in self.worlds() {
                world.count(end.node, end.port, Metric::SymbolErrors, 2);
            }
        }
        match slot % 120 {
            30 => {
                let at = self.rng.below(10);
                let node = if at < 2 { switch(at) } else { host(at - 2) };
                self.silence(|guid, agent| agent.is_silent |= guid == node);
            }
            60 => self.silence(|_, agent| agent.is_silent = false),
            75 => self.link(PortState::Down),
            105 => self.link(PortState::Active),
            _ => {}
        }
    }

    fn silence(&mut self, change: impl Fn(Guid, &mut Agent)) {
        for world in self.worlds() {
            world.agents.iter_mut().for_each(|(guid, agent)| change(*guid, agent));
        }
    }

    /// Takes a link down, or brings the one back that is down. The manager sees it at once.
    fn link(&mut self, state: PortState) {
        let fresh = self.rng.below(10) as usize;
        let at = self.down.take().unwrap_or(fresh);
        self.down = (state == PortState::Down).then_some(at);
        let (a, b) = links()[at];
        for world in self.worlds() {
            for end in [a, b] {
                let node = world.inventory.nodes.get_mut(&end.node).unwrap();
                node.ports
                    .iter_mut()
                    .filter(|port| port.num == end.port)
                    .for_each(|port| port.state = state);
            }
            world.show_inventory();
        }
    }
}

/// What one end shows is what both ends show, except for values that are marked as derived.
#[test]
fn one_end_equals_both_ends_for_a_day_with_faults() {
    let mut day = Day::new();
    for slot in 0..SLOTS {
        day.traffic();
        day.faults(slot);
        day.worlds().into_iter().for_each(|world| world.pass(INTERVAL));
    }
    let place = |sample: &Sample| (sample.key, sample.slot);
    let twins: BTreeMap<_, _> = day.both.samples.iter().map(|sample| (place(sample), sample)).collect();
    let mut seen: BTreeMap<(How, Option<How>), u32> = BTreeMap::new();
    let mut derived: BTreeSet<SampleKey> = BTreeSet::new();
    for sample in &day.one.samples {
        let twin = twins.get(&place(sample));
        *seen.entry((sample.how, twin.map(|twin| twin.how))).or_default() += 1;
        // A port that is down repeats its last sample.
        match sample.how {
            How::Derived => drop(derived.insert(sample.key)),
            How::Read => drop(derived.remove(&sample.key)),
            How::Unchanged | How::Down => {}
        }
        let Some(twin) = twin else { continue };
        let known = (0..22).filter(|i| sample.known >> i & 1 != 0);
        for i in known {
            let (one, both) = (sample.totals[i], twin.totals[i]);
            let is_right = if derived.contains(&sample.key) {
                one <= both
            } else {
                one == both
            };
            assert!(is_right, "{} counter {i} in {}: {one}, {both}", sample.key, sample.slot);
        }
    }
    let count = |how: How, twin: Option<How>| seen.get(&(how, twin)).copied().unwrap_or(0);
    // Half of the ports are derived, if no error is near; a silent agent has an end that answers.
    let (half, read) = (count(How::Derived, Some(How::Read)), count(How::Read, Some(How::Read)));
    assert!(half > 15_000 && read > half, "{seen:?}");
    assert!(
        count(How::Derived, None) > 500 && count(How::Down, Some(How::Down)) > 1_000,
        "{seen:?}"
    );
    // An agent that answers again is asked a moment earlier.
    assert!(count(How::Read, None) < 20, "{seen:?}");
    day.one.invariants();
    day.both.invariants();
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
