//! What users ask of telemetry, each with the test that shows its symptom gone. The asks are those of issue trackers:
//! exporters for Prometheus (treydock, guilbaults), LDMS, node_exporter, infiniband-radar.
//!
//! Not here, with the reasons in docs/telemetry.md: power supplies and fans of unmanaged switches, cables of real
//! hardware, the leaf of which jobs hang, and encryption of `/metrics`, which needs a proxy in front of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use selvedge_sim::Time;
use selvedge_telemetry::prometheus::{TextFormat, write};
use selvedge_telemetry::{
    Config, End, Group, In, Inventory, Latest, Metric, NodeEntry, Out, PortEntry, Sampler, SlotReport, Wall,
};
use selvedge_types::{Guid, Lid, LinkSpeed, LinkWidth, NodeKind, PortState, Rate};
use selvedge_wire::{Datagram, Method};

use crate::agents::{Agent, switch};
use crate::slots::every_second;
use crate::world::{DOWN, UP, World};

/// The ask with its issue, and the test that shows it: file and function.
const ASKS: [(&str, &str, &str); 27] = [
    (
        "LDMS #896, guilbaults #12: a dead host must not block the sweep",
        "crates/telemetry/tests/it/faults.rs",
        "a_silent_host_costs_only_its_own_port",
    ),
    (
        "guilbaults #22, #25: one failure must not end the scrape",
        "crates/telemetry/tests/it/faults.rs",
        "a_port_without_an_answer_does_not_end_the_sweep",
    ),
    (
        "guilbaults #12, #25: hosts that are off cost 25 s a scrape",
        "crates/telemetry/tests/it/asks.rs",
        "hosts_that_are_off_do_not_lengthen_a_slot",
    ),
    (
        "guilbaults #50: one second at 60 switches and 900 nodes",
        "crates/telemetry/tests/it/asks.rs",
        "a_second_is_enough_for_sixty_switches_and_nine_hundred_hosts",
    ),
    (
        "LDMS #2315: ports of another kind are skipped quietly",
        "crates/daemon/src/telemetry/host_counters.rs",
        "counters_of_devices_and_virtual_functions",
    ),
    (
        "LDMS #1080: what is new while it runs is read",
        "crates/telemetry/tests/it/faults.rs",
        "a_node_that_moved_is_asked_at_its_new_lid",
    ),
    (
        "LDMS #1533: an error must not stop the sampler",
        "crates/telemetry/tests/it/faults.rs",
        "answers_that_belong_to_something_else_are_dropped",
    ),
    (
        "LDMS #696: fail-over that works",
        "crates/rehearsal/tests/it/sampling.rs",
        "the_successor_samples_on_and_no_slot_is_sampled_twice",
    ),
    (
        "treydock #33, guilbaults #51, node_exporter #573: words of four bytes are not bytes",
        "crates/telemetry/tests/it/formats.rs",
        "values_and_labels",
    ),
    (
        "guilbaults #51: its own family stays in words",
        "crates/telemetry/tests/it/exposition.rs",
        "data_is_in_words_there_and_in_bytes_in_influx",
    ),
    (
        "treydock #31: the rate of each port",
        "crates/telemetry/tests/it/asks.rs",
        "every_port_has_its_rate",
    ),
    (
        "treydock #22, guilbaults #32: failures of each node as a metric",
        "crates/telemetry/tests/it/formats.rs",
        "dashboards_find_every_name",
    ),
    (
        "guilbaults #48: ports without errors vanish",
        "crates/telemetry/tests/it/asks.rs",
        "ports_without_errors_and_ports_that_are_down_are_there",
    ),
    (
        "guilbaults #26: ports that are down as data",
        "crates/telemetry/tests/it/asks.rs",
        "ports_without_errors_and_ports_that_are_down_are_there",
    ),
    (
        "guilbaults #26, #48: what is derived of ports that are down, in every output",
        "crates/daemon/tests/it/down.rs",
        "a_link_that_is_down_is_data_in_every_output",
    ),
    (
        "guilbaults #20, #46, #49: a counter with a new name breaks the scrape",
        "crates/telemetry/src/host_counters.rs",
        "files_of_the_system",
    ),
    (
        "ufm_sdk #33: labels stay when other nodes come and go",
        "crates/telemetry/tests/it/asks.rs",
        "labels_of_a_port_stay_when_other_nodes_leave",
    ),
    (
        "treydock #12: dashboards that show something",
        "crates/telemetry/tests/it/peer/mod.rs",
        "every_expression_returns_data",
    ),
    (
        "infiniband-radar #22: a monitor must not reset counters",
        "crates/telemetry/tests/it/asks.rs",
        "nothing_is_ever_set",
    ),
    (
        "infiniband-radar #19: nodes with one name break the map",
        "crates/telemetry/tests/it/asks.rs",
        "nodes_with_the_same_name_stay_apart",
    ),
    (
        "telegraf #16334, netdata #2620: hw_counters of hosts",
        "crates/daemon/tests/it/telemetry_choices.rs",
        "attributes_are_chosen_and_counters_of_the_host_shown",
    ),
    (
        "network-operator #1711: virtual functions",
        "crates/daemon/src/telemetry/host_counters.rs",
        "counters_of_devices_and_virtual_functions",
    ),
    (
        "NVSentinel #1236, soperator #481, gpud #1011: links that flap, before jobs hang",
        "crates/telemetry/tests/it/alarms.rs",
        "flaps_are_counted_once_whoever_counts_them",
    ),
    (
        "infra-controller #4762: the age of each fact",
        "crates/daemon/tests/it/telemetry.rs",
        "a_silent_host_delays_no_other",
    ),
    (
        "the seed: brand and type of each port are checked",
        "crates/daemon/tests/it/telemetry_choices.rs",
        "hardware_of_another_type_is_reported",
    ),
    (
        "the seed: lost synchronisation is reported",
        "crates/daemon/tests/it/telemetry_choices.rs",
        "slots_that_end_late_are_said",
    ),
    (
        "the seed: a selection of metrics",
        "crates/daemon/tests/it/telemetry_choices.rs",
        "a_selection_file_is_the_default_of_every_set",
    ),
];

#[test]
fn every_ask_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (ask, file, function) in ASKS {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let test = format!("#[test]\nfn {function}()");
        let inner = format!("#[test]\n    fn {function}()");
        assert!(
            text.contains(&test) || text.contains(&inner),
            "{ask}: no test {function} in {file}"
        );
    }
}

fn page(world: &World) -> String {
    let mut latest = Latest::default();
    world.samples.iter().for_each(|sample| latest.take(sample));
    let mut text = String::new();
    write(&mut text, TextFormat::Prometheus, &world.inventory, &latest).unwrap();
    text
}

fn series<'a>(page: &'a str, start: &str) -> Vec<&'a str> {
    page.lines().filter(|line| line.starts_with(start)).collect()
}

#[test]
fn ports_without_errors_and_ports_that_are_down_are_there() {
    let mut world = World::new(every_second(&[Group::Extended]));
    world.slot();
    let page = page(&world);
    let errors = [
        series(&page, "infiniband_switch_port_symbol_error_total{"),
        series(&page, "infiniband_hca_port_symbol_error_total{"),
    ]
    .concat();
    assert_eq!(errors.len() as u32, UP);
    assert!(errors.iter().all(|line| line.ends_with(" 0")), "{errors:?}");
    assert_eq!(series(&page, "infiniband_port_state{").len() as u32, UP + DOWN);
}

#[test]
fn every_port_has_its_rate() {
    let mut world = World::new(every_second(&[Group::Extended]));
    world.slot();
    let page = page(&world);
    // Each port of a switch, and each host, as the exporter has them: 4x EDR.
    let rates = [
        series(&page, "infiniband_switch_port_rate_bytes_per_second{"),
        series(&page, "infiniband_hca_rate_bytes_per_second{"),
    ]
    .concat();
    assert_eq!(rates.len() as u32, UP);
    assert!(rates.iter().all(|line| line.ends_with(" 12500000000")), "{rates:?}");
}

#[test]
fn nodes_with_the_same_name_stay_apart() {
    let mut world = World::new(every_second(&[Group::Extended]));
    for node in world.inventory.nodes.values_mut() {
        node.description = "MT4119 ConnectX5 Mellanox Technologies".to_owned();
    }
    world.show_inventory();
    world.slot();
    let page = page(&world);
    let all: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
    let names: BTreeSet<&str> = all.iter().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
    assert_eq!(names.len(), all.len(), "a series is there twice");
    assert_eq!(series(&page, "infiniband_hca_port_symbol_error_total{").len(), 8);
}

#[test]
fn labels_of_a_port_stay_when_other_nodes_leave() {
    let mut world = World::new(every_second(&[Group::Extended]));
    world.slot();
    let labels = |world: &World| -> BTreeSet<String> {
        let page = page(world);
        let own = page.lines().filter(|line| line.contains(&switch(1).to_string()));
        own.filter(|line| line.contains("_total{"))
            .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()))
            .collect()
    };
    let before = labels(&world);
    assert!(before.len() > 20, "{before:?}");
    // The first two hosts leave, so all others move up in any list.
    let gone: Vec<Guid> = world
        .inventory
        .nodes
        .keys()
        .copied()
        .filter(|node| *node > switch(1))
        .take(2)
        .collect();
    for node in gone {
        world.inventory.nodes.remove(&node);
    }
    world.show_inventory();
    world.slot();
    assert_eq!(labels(&world), before);
}

/// A fabric behind a sampler: an agent serves one request after the other, 133 µs each, as the seed measured.
struct Plant {
    sampler: Sampler,
    agents: BTreeMap<Lid, (Agent, Time)>,
    now: Time,
    answers: BTreeMap<(Time, u64), Datagram>,
    sequence: u64,
    /// Methods of all requests.
    methods: BTreeSet<Method>,
}

/// What an agent takes for a request. Source: the seed, 533 µs for four ports.
const SERVICE: Duration = Duration::from_micros(133);

impl Plant {
    /// 60 switches with 15 hosts each and 14 links to other switches.
    fn new(config: Config) -> Self {
        let mut inventory = Inventory::default();
        let mut agents = BTreeMap::new();
        let entry = |num: u8, lid: Lid, peer: End| PortEntry {
            num,
            lid,
            state: PortState::Active,
            peer: Some(peer),
            rate: Some(Rate {
                width: LinkWidth::X4,
                speed: LinkSpeed::Edr,
            }),
        };
        let (leaf, host) = (|at: u64| Guid(0x1_0000 + at), |at: u64| Guid(0x2_0000 + at));
        let mut add = |guid: Guid, kind: NodeKind, lid: Lid, ports: Vec<PortEntry>| {
            let mut agent = Agent::new(ports.iter().map(|port| port.num));
            if kind == NodeKind::Ca {
                agent.mask &= !0x0100;
            }
            agents.insert(lid, (agent, Time::ZERO));
            let node = NodeEntry {
                kind,
                description: guid.to_string(),
                ports,
            };
            inventory.nodes.insert(guid, node);
        };
        for at in 0..60_u64 {
            let lid = Lid(at as u16 + 1);
            let hosts = (0..15).map(|port| (port as u8 + 1, host(at * 15 + port), 1));
            // Port 16 + i leads to the i-th next switch of a ring, port 23 + i to the i-th before.
            let ahead = (0..7).map(|i| (16 + i as u8, leaf((at + i + 1) % 60), 23 + i as u8));
            let back = (0..7).map(|i| (23 + i as u8, leaf((at + 59 - i) % 60), 16 + i as u8));
            let links = hosts.chain(ahead).chain(back);
            let ports = links.map(|(num, node, port)| entry(num, lid, End { node, port }));
            add(leaf(at), NodeKind::Switch, lid, ports.collect());
        }
        for at in 0..900_u64 {
            let lid = Lid(at as u16 + 101);
            let peer = End {
                node: leaf(at / 15),
                port: (at % 15) as u8 + 1,
            };
            add(host(at), NodeKind::Ca, lid, vec![entry(1, lid, peer)]);
        }
        let mut plant = Self {
            sampler: Sampler::new(config),
            agents,
            now: Time::ZERO,
            answers: BTreeMap::new(),
            sequence: 0,
            methods: BTreeSet::new(),
        };
        plant.handle(In::Clock(Wall::from_secs(1_000)));
        plant.handle(In::Inventory(Arc::new(inventory)));
        plant
    }

    fn handle(&mut self, input: In) -> Option<SlotReport> {
        let (mut out, mut ended) = (Vec::new(), None);
        self.sampler.handle(self.now, input, &mut out);
        for output in out {
            match output {
                Out::Send(request, _) => self.send(&request),
                Out::Ended(report) => ended = Some(report),
                Out::Sample(_) | Out::Cable(_) | Out::Event(_) => {}
            }
        }
        ended
    }

    fn send(&mut self, request: &Datagram) {
        self.methods.insert(request.mad.method());
        let lid = request.address.lid;
        let Some((agent, busy_until)) = self.agents.get_mut(&lid) else {
            return;
        };
        let Some(answer) = agent.answer(lid, &request.mad) else {
            return;
        };
        *busy_until = self.now.max(*busy_until) + SERVICE;
        self.sequence += 1;
        self.answers.insert((*busy_until, self.sequence), answer);
    }

    /// Lets a slot begin and end.
    fn slot(&mut self) -> SlotReport {
        loop {
            let arrival = self.answers.keys().next().copied();
            let wake = self.sampler.next_wake().map(|at| at.max(self.now));
            let at = [arrival.map(|(at, _)| at), wake].into_iter().flatten().min();
            self.now = at.expect("a sampler with a clock wants to be woken");
            let input = match arrival.filter(|(due, _)| *due == self.now) {
                Some(key) => In::Received(self.answers.remove(&key).unwrap()),
                None => In::Wake,
            };
            if let Some(report) = self.handle(input) {
                return report;
            }
        }
    }
}

#[test]
fn a_second_is_enough_for_sixty_switches_and_nine_hundred_hosts() {
    let mut plant = Plant::new(every_second(&[Group::Extended]));
    plant.slot();
    let report = plant.slot();
    let ports = 60 * 29 + 900;
    assert_eq!((report.read, report.requests, report.missing.len()), (ports, ports, 0));
    // 29 requests one after the other at each switch.
    assert!(report.took < Duration::from_millis(100), "{:?}", report.took);
}

#[test]
fn hosts_that_are_off_do_not_lengthen_a_slot() {
    let mut plant = Plant::new(every_second(&[Group::Extended]));
    plant.slot();
    let before = plant.slot().took;
    // A rack is switched off, and the manager has not noticed it yet.
    for lid in 101..141 {
        plant.agents.get_mut(&Lid(lid)).unwrap().0.is_silent = true;
    }
    let first = plant.slot();
    assert_eq!((first.missing.len(), first.read), (40, 60 * 29 + 860));
    assert!(first.took < Duration::from_secs(1), "{:?}", first.took);
    // From then on they are left alone, and the slot is as short as before.
    let second = plant.slot();
    assert_eq!((second.missing.len(), second.read), (40, 60 * 29 + 860));
    assert!(second.took <= before, "{:?}, {before:?} before", second.took);
}

#[test]
fn nothing_is_ever_set() {
    let mut plant = Plant::new(every_second(&Group::ALL));
    for (agent, _) in plant.agents.values_mut() {
        for device in agent.ports.values_mut() {
            // Counters that are full miss further events. The sampler does not reset them even then.
            device.count(Metric::LinkDowned, 1_000);
        }
    }
    for _ in 0..3 {
        plant.slot();
    }
    assert_eq!(plant.methods, [Method::Get].into());
}
