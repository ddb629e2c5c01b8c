//! A sampler, its fabric, and the time that both share.
//!
//! Two switches with four hosts each (ports 1–4), two links between them (ports 5, 6), and a port that is down (7).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_sim::{Rng, Seed, Time};
use selvedge_telemetry::cable::CableReading;
use selvedge_telemetry::{
    Assignment, Config, End, Event, In, Inventory, Metric, NodeEntry, Out, PortEntry, Sample, SampleKey, Sampler, Slot,
    SlotReport, Wall,
};
use selvedge_types::{Guid, Lid, LinkSpeed, LinkWidth, NodeKind, PortState, Rate};
use selvedge_wire::Datagram;

use crate::agents::{Agent, host, switch};

pub const HOSTS: u64 = 8;
pub const SWITCHES: u64 = 2;
/// Ports that are up, and ports that are down.
pub const UP: u32 = 20;
pub const DOWN: u32 = 2;

/// Wall time at time zero: a slot of one second begins 0.1 s later.
const START: u64 = 1_000_000_900_000_000;

pub struct World {
    pub sampler: Sampler,
    pub now: Time,
    /// What the wall clock is ahead of `START`, in nanoseconds.
    pub wall: i64,
    pub inventory: Inventory,
    pub agents: BTreeMap<Guid, Agent>,
    /// The LIDs as they are; the inventory may not know them yet.
    pub lids: BTreeMap<Guid, Lid>,
    pub samples: Vec<Sample>,
    pub cables: Vec<(Time, CableReading)>,
    pub reports: Vec<SlotReport>,
    pub events: Vec<Event>,
    /// Most requests without an answer at once: of all nodes, of one node.
    pub most: (usize, usize),
    flying: BTreeMap<(Time, u64), Datagram>,
    waiting: BTreeMap<u64, Lid>,
    sequence: u64,
    rng: Rng,
}

const fn end(node: Guid, port: u8) -> End {
    End { node, port }
}

/// The links: both ends.
pub fn links() -> Vec<(End, End)> {
    let to_hosts = (0..HOSTS).map(|h| (end(switch(h / 4), (h % 4) as u8 + 1), end(host(h), 1)));
    let between = [5, 6].map(|port| (end(switch(0), port), end(switch(1), port)));
    to_hosts.chain(between).collect()
}

fn entry(kind: NodeKind, node: Guid, lid: Lid) -> NodeEntry {
    let rate = Rate {
        width: LinkWidth::X4,
        speed: LinkSpeed::Edr,
    };
    let ends = links().into_iter().flat_map(|(a, b)| [(a, b), (b, a)]);
    let mut ports: Vec<PortEntry> = ends
        .filter(|(own, _)| own.node == node)
        .map(|(own, peer)| PortEntry {
            num: own.port,
            lid,
            state: PortState::Active,
            peer: Some(peer),
            rate: Some(rate),
        })
        .collect();
    if kind == NodeKind::Switch {
        ports.push(PortEntry {
            num: 7,
            lid,
            state: PortState::Down,
            peer: None,
            rate: None,
        });
    }
    NodeEntry {
        kind,
        description: format!("{node}"),
        ports,
    }
}

impl World {
    pub fn new(config: Config) -> Self {
        Self::seeded(config, 1)
    }

    pub fn seeded(config: Config, seed: u64) -> Self {
        let nodes = (0..SWITCHES).map(|s| (NodeKind::Switch, switch(s)));
        let nodes = nodes.chain((0..HOSTS).map(|h| (NodeKind::Ca, host(h))));
        let (mut inventory, mut agents, mut lids) = (Inventory::default(), BTreeMap::new(), BTreeMap::new());
        for (at, (kind, node)) in nodes.enumerate() {
            let lid = Lid(at as u16 + 1);
            let entry = entry(kind, node, lid);
            let mut agent = Agent::new(entry.ports.iter().map(|port| port.num));
            if kind == NodeKind::Ca {
                // Source: IBA vol 1 §16.1.3.1: a host has no sum of all ports.
                agent.mask &= !0x0100;
            }
            agents.insert(node, agent);
            lids.insert(node, lid);
            inventory.nodes.insert(node, entry);
        }
        let mut world = Self {
            sampler: Sampler::new(config),
            now: Time::ZERO,
            wall: 0,
            inventory,
            agents,
            lids,
            samples: Vec::new(),
            cables: Vec::new(),
            reports: Vec::new(),
            events: Vec::new(),
            most: (0, 0),
            flying: BTreeMap::new(),
            waiting: BTreeMap::new(),
            sequence: 0,
            rng: Seed(seed).child("delays").rng(),
        };
        world.show_clock();
        world.show_inventory();
        world
    }

    pub fn wall_now(&self) -> Wall {
        let shown = i128::from(START) + i128::from(self.now.0) + i128::from(self.wall);
        Wall(u64::try_from(shown).unwrap())
    }

    pub fn show_clock(&mut self) {
        self.handle(In::Clock(self.wall_now()));
    }

    pub fn assign(&mut self, assignment: Assignment) {
        self.handle(In::Assign(assignment));
    }

    pub fn show_inventory(&mut self) {
        self.handle(In::Inventory(Arc::new(self.inventory.clone())));
    }

    /// Sets the wall clock by some milliseconds, and lets the sampler see it.
    pub fn step_clock(&mut self, millis: i64) {
        self.wall += millis * 1_000_000;
        self.show_clock();
    }

    /// Gives a node another LID. The sampler learns it with the next inventory.
    pub fn move_lid(&mut self, node: Guid, lid: Lid) {
        self.lids.insert(node, lid);
        let ports = &mut self.inventory.nodes.get_mut(&node).unwrap().ports;
        ports.iter_mut().for_each(|port| port.lid = lid);
    }

    /// Ends the process and begins another one, which knows the samples that were handed out.
    pub fn restart(&mut self, config: Config) {
        self.sampler = Sampler::new(config);
        let mut last: BTreeMap<(SampleKey, u8), usize> = BTreeMap::new();
        for (at, sample) in self.samples.iter().enumerate() {
            last.insert((sample.key, sample.class), at);
        }
        let mut last: Vec<usize> = last.into_values().collect();
        last.sort_unstable();
        last.iter().for_each(|at| self.sampler.resume(&self.samples[*at]));
        self.flying.clear();
        self.waiting.clear();
        self.show_clock();
        self.show_inventory();
    }

    pub fn agent(&mut self, node: Guid) -> &mut Agent {
        self.agents.get_mut(&node).unwrap()
    }

    /// Both ends of a link count the same packets.
    pub fn carry(&mut self, from: End, to: End, packets: u64) {
        for (end, data, count) in [
            (from, Metric::XmitData, Metric::XmitPackets),
            (to, Metric::RcvData, Metric::RcvPackets),
        ] {
            let device = self.agent(end.node).ports.get_mut(&end.port).unwrap();
            device.count(data, packets * 72);
            device.count(count, packets);
        }
    }

    pub fn count(&mut self, node: Guid, port: u8, metric: Metric, by: u64) {
        self.agent(node).ports.get_mut(&port).unwrap().count(metric, by);
    }

    fn handle(&mut self, input: In) {
        let mut out = Vec::new();
        self.sampler.handle(self.now, input, &mut out);
        for output in out {
            match output {
                Out::Send(datagram, _) => self.send(datagram),
                Out::Sample(sample) => self.samples.push(*sample),
                Out::Cable(reading) => self.cables.push((self.now, *reading)),
                Out::Ended(report) => self.reports.push(report),
                Out::Event(event) => self.events.push(event),
            }
        }
    }

    fn send(&mut self, request: Datagram) {
        let lid = request.address.lid;
        self.waiting.insert(request.mad.transaction().0, lid);
        let of_node = self.waiting.values().filter(|at| **at == lid).count();
        self.most = (self.most.0.max(self.waiting.len()), self.most.1.max(of_node));
        let Some((&node, _)) = self.lids.iter().find(|(_, at)| **at == lid) else {
            return;
        };
        let Some(answer) = self.agent(node).answer(lid, &request.mad) else {
            return;
        };
        self.sequence += 1;
        let at = self.now + Duration::from_nanos(2_000 + self.rng.below(50_000));
        self.flying.insert((at, self.sequence), answer);
    }

    /// Lets time pass, event by event.
    pub fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        for _ in 0..1_000_000 {
            let arrival = self.flying.keys().next().copied();
            let wake = self.sampler.next_wake().map(|at| at.max(self.now));
            let arrival_at = arrival.map(|(at, _)| at);
            let Some(at) = [arrival_at, wake].into_iter().flatten().min().filter(|at| *at <= until) else {
                self.now = until;
                return;
            };
            let is_same = at == self.now;
            self.now = at;
            match arrival.filter(|(due, _)| *due == at) {
                Some(key) => {
                    let answer = self.flying.remove(&key).unwrap();
                    self.waiting.remove(&answer.mad.transaction().0);
                    self.handle(In::Received(answer));
                }
                None => {
                    self.handle(In::Wake);
                    let again = self.sampler.next_wake();
                    assert!(
                        !is_same || again > Some(self.now),
                        "it wants to be woken again at once: {again:?}"
                    );
                }
            }
            if self.waiting.len() > 10_000 {
                self.waiting.clear();
            }
        }
        panic!("it never becomes idle");
    }

    /// Lets a slot of one second begin and end.
    pub fn slot(&mut self) {
        self.pass(Duration::from_secs(1));
    }

    /// The last sample of a port and group.
    pub fn last(&self, key: SampleKey) -> &Sample {
        self.samples.iter().rev().find(|sample| sample.key == key).unwrap()
    }

    pub fn last_report(&self) -> &SlotReport {
        self.reports.last().unwrap()
    }

    /// No port has two samples in a slot, and no total goes back.
    pub fn invariants(&self) {
        let mut seen: BTreeSet<(SampleKey, u8, Slot)> = BTreeSet::new();
        let mut totals: BTreeMap<SampleKey, [u64; 22]> = BTreeMap::new();
        for sample in &self.samples {
            let is_new = seen.insert((sample.key, sample.class, sample.slot));
            assert!(
                is_new,
                "twice: {} of class {} in slot {}",
                sample.key, sample.class, sample.slot
            );
            let before = totals.insert(sample.key, sample.totals).unwrap_or([0; 22]);
            for (at, (was, is)) in before.iter().zip(sample.totals).enumerate() {
                assert!(*was <= is, "{} counter {at} went back from {was} to {is}", sample.key);
            }
        }
        let mut by_slot: BTreeMap<(u8, Slot), BTreeSet<SampleKey>> = BTreeMap::new();
        for sample in &self.samples {
            by_slot
                .entry((sample.class, sample.slot))
                .or_default()
                .insert(sample.key);
        }
        for report in &self.reports {
            let keys = by_slot.remove(&(report.class, report.slot)).unwrap_or_default();
            let counted = report.read + report.unchanged + report.derived + report.down;
            assert_eq!(counted as usize, keys.len(), "{report:?}");
            let missing: BTreeSet<SampleKey> = report.missing.iter().map(|missing| missing.key).collect();
            assert_eq!(missing.len(), report.missing.len(), "missing twice: {report:?}");
            assert!(missing.is_disjoint(&keys), "missing and there: {report:?}");
        }
    }
}
