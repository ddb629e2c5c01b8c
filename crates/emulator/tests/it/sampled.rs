//! A sampler reads the counters of an emulated fabric, from a host in it.

use std::sync::Arc;
use std::time::Duration;

use selvedge_chassis::{DetailRow, ExtendedCounters, PmaAbilities};
use selvedge_telemetry::{
    Config, End, Group, How, In, Inventory, Metric, NodeEntry, Out, PortEntry, Sample, SampleKey, Sampler,
    SamplingClass, SlotReport, Triage, Wall,
};
use selvedge_types::Guid;

use crate::common::World;

const SWITCH_S: Guid = Guid(0x10);
const SWITCH_T: Guid = Guid(0x20);
/// Ends of the six links.
const UP: u32 = 12;
/// Ports without a cable: port 5 of both switches.
const DOWN: u32 = 2;

/// What a manager would know of the fabric.
fn inventory(world: &World) -> Inventory {
    let chassis = world.emu.chassis();
    let nodes = chassis.fabric().nodes().iter_enumerated();
    let nodes = nodes.map(|(idx, node)| {
        let ports = (1..=node.port_count()).filter_map(|num| {
            let port = chassis.port_at(idx, num)?;
            let wire = chassis.wire(port);
            let peer = wire.peer().map(|peer| chassis.wire(peer));
            Some(PortEntry {
                num,
                lid: chassis.port(chassis.end_port(port)).settings().lids.base,
                state: wire.state(),
                peer: peer.map(|peer| End {
                    node: chassis.fabric().node(peer.node()).guid,
                    port: peer.num().get(),
                }),
                rate: Some(chassis.port(port).rate),
            })
        });
        let entry = NodeEntry {
            kind: node.kind,
            description: node.description.clone(),
            ports: ports.collect(),
        };
        (node.guid, entry)
    });
    Inventory { nodes: nodes.collect() }
}

struct Sampled {
    world: World,
    sampler: Sampler,
    samples: Vec<Sample>,
    reports: Vec<SlotReport>,
}

impl Sampled {
    fn new(classes: Vec<SamplingClass>, world: World) -> Self {
        let mut sampled = Self {
            sampler: Sampler::new(Config::new(classes)),
            samples: Vec::new(),
            reports: Vec::new(),
            world,
        };
        // A slot begins 0.1 s later.
        sampled.handle(In::Clock(Wall(1_000_900_000_000)));
        sampled.show_inventory();
        sampled
    }

    fn show_inventory(&mut self) {
        let inventory = Arc::new(inventory(&self.world));
        self.handle(In::Inventory(inventory));
    }

    fn handle(&mut self, input: In) {
        let mut out = Vec::new();
        let now = self.world.now;
        self.sampler.handle(now, input, &mut out);
        for output in out {
            match output {
                Out::Send(datagram, _) => self.world.emu.send(now, self.world.sm, &datagram),
                Out::Sample(sample) => self.samples.push(*sample),
                Out::Cable(reading) => println!("{reading:?}"),
                Out::Ended(report) => self.reports.push(report),
                Out::Event(event) => println!("{event}"),
            }
        }
    }

    /// Lets a second pass, event by event.
    fn slot(&mut self) {
        let until = self.world.now + Duration::from_secs(1);
        loop {
            let next = [self.world.emu.next_event(), self.sampler.next_wake()];
            let Some(at) = next.into_iter().flatten().min().filter(|at| *at <= until) else {
                break;
            };
            self.world.now = at.max(self.world.now);
            let mut arrived = Vec::new();
            self.world.emu.advance(self.world.now, &mut arrived);
            for delivery in arrived {
                self.handle(In::Received(delivery.datagram));
            }
            self.handle(In::Wake);
        }
        self.world.now = until;
        self.world.emu.advance(until, &mut Vec::new());
    }

    fn last(&self, node: Guid, port: u8, group: Group) -> &Sample {
        let key = SampleKey { node, port, group };
        self.samples.iter().rev().find(|sample| sample.key == key).unwrap()
    }

    fn report(&self) -> &SlotReport {
        self.reports.last().unwrap()
    }
}

fn class(groups: &[Group]) -> SamplingClass {
    SamplingClass::new("data", Duration::from_secs(1), groups)
}

#[test]
fn every_port_of_an_emulated_fabric() {
    let groups = [Group::Base, Group::Extended, Group::RcvErrors, Group::VlXmitWait];
    let mut sampled = Sampled::new(vec![class(&groups)], World::configured());
    let port = sampled.world.port("T", 3);
    sampled.world.emu.counters_mut(port).symbol_errors = 70_000;
    sampled.world.emu.detail_mut(port, DetailRow::VlXmitWait)[2] = 9;
    sampled.slot();
    sampled.slot();
    let report = sampled.report();
    assert_eq!(
        (report.read, report.down, report.missing.len()),
        (4 * UP, 4 * DOWN, 0),
        "{report:?}"
    );
    assert_eq!(report.requests, 4 * UP);
    let symbols = |group: Group| sampled.last(SWITCH_T, 3, group).totals[group.place(Metric::SymbolErrors).unwrap()];
    assert_eq!(
        (symbols(Group::Extended), symbols(Group::Base)),
        (70_000, 65_535),
        "64 bits, and 16 that are full"
    );
    assert_eq!(sampled.last(SWITCH_T, 3, Group::VlXmitWait).totals[2], 9);
    // The requests themselves move the counters of the ports on their way.
    let data: Vec<u64> = sampled
        .samples
        .iter()
        .filter(|at| at.key == sampled.last(SWITCH_T, 3, Group::Extended).key)
        .map(|at| at.totals[Metric::RcvPackets as usize])
        .collect();
    assert!(data.is_sorted() && data[0] < data[1], "{data:?}");
    assert!(
        sampled
            .samples
            .iter()
            .filter(|at| at.how == How::Read)
            .all(|at| at.rtt_us > 0)
    );
}

#[test]
fn agents_of_all_kinds() {
    let mut world = World::configured();
    let node = world.emu.chassis().wire(world.port("T", 1)).node();
    let abilities = PmaAbilities {
        extended: ExtendedCounters::None,
        all_port_select: false,
        details: false,
        ..PmaAbilities::default()
    };
    world.emu.set_pma(node, abilities);
    let mut sampled = Sampled::new(vec![class(&[Group::Extended, Group::RcvErrors])], world);
    sampled.slot();
    sampled.slot();
    let report = sampled.report();
    // Switch T has four links: narrow counters instead of wide ones, and no causes of errors.
    assert_eq!((report.read, report.missing.len()), (2 * UP - 4, 0), "{report:?}");
    assert_eq!(sampled.last(SWITCH_T, 1, Group::Base).how, How::Read);
}

#[test]
fn triage_and_a_link_that_goes_down() {
    let errors = SamplingClass {
        triage: Triage::BySum { full_read_every: 50 },
        ..class(&[Group::Base])
    };
    let mut sampled = Sampled::new(vec![errors], World::configured());
    sampled.slot();
    sampled.slot();
    // Two switches with a sum each; hosts H0, H1 (two ports), H2.
    assert_eq!((sampled.report().requests, sampled.report().unchanged), (2 + 4, 8));
    sampled.world.fault(r#"cut "S"[2]"#);
    sampled.show_inventory();
    sampled.slot();
    let report = sampled.report();
    assert_eq!((report.down, report.missing.len()), (DOWN + 2, 0), "{report:?}");
    assert_eq!(sampled.last(SWITCH_S, 2, Group::Base).how, How::Down);
    // LinkDowned moved the sum of switch S alone, so its three other links were asked.
    assert_eq!((report.unchanged, report.read), (4, 3 + 3));
}
