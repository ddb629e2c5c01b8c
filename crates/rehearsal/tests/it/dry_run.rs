//! Dry runs: the Sets that a preview lists are those that the fabric receives when the change is made, multicast tables
//! and alias GUIDs included.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_plan::aliases::PortAliases;
use selvedge_plan::multicast::{Member, MulticastGroup};
use selvedge_plan::out_of_service::{Notice, Place, Service};
use selvedge_plan::partition::{Partition, Rule, Who};
use selvedge_plan::{EngineName, Op, OutOfService, PartEnforce, Policy, RebalanceWhen};
use selvedge_planner::Inventory;
use selvedge_planner::out_of_service::{ends_of, port_id};
use selvedge_planner::preview::{Step, StepSets};
use selvedge_rehearsal::{ManagerId, Options, Rehearsal, Tamper};
use selvedge_sim::{Par, Seed, Time};
use selvedge_sm::{Input, Output};
use selvedge_types::{Guid, Lid, Lmc, Mtu, NodeKind, PortNum, Sl};
use selvedge_wire::{AttributeId, Class, Mad, Method};

use crate::common;

/// Four leaf switches with four hosts each, and four spines. Hosts have room for alias GUIDs.
const SPEC: &str = "pgft:m=4x4,w=1x4,p=1x1,guidcap=20";

/// A Set: the node, the attribute, the port, and the block or position.
type Key = (String, &'static str, u8, u32);

/// How often each Set was listed or sent.
type Count = BTreeMap<Key, u32>;

/// Notes all Sets that a manager sends.
#[derive(Debug)]
struct Recorder(Arc<Mutex<Vec<Mad>>>);

impl Tamper for Recorder {
    fn output(&mut self, _now: Time, output: Output, out: &mut Vec<Output>, _back: &mut Vec<Input>) {
        if let Output::Send { datagram, .. } = &output {
            let is_smp = matches!(datagram.mad.class(), Class::SubnDirected | Class::SubnLid);
            if is_smp && datagram.mad.method() == Method::Set {
                self.0.lock().unwrap().push(datagram.mad);
            }
        }
        out.push(output);
    }
}

struct World {
    fabric: Fabric,
    rehearsal: Rehearsal,
    manager: ManagerId,
    sent: Arc<Mutex<Vec<Mad>>>,
    policy: Policy,
}

impl World {
    fn up(policy: Policy) -> Self {
        Self::on(SPEC, policy)
    }

    fn on(spec: &str, policy: Policy) -> Self {
        let fabric = common::fabric(spec);
        let options = Options {
            seed: Seed(7),
            ..Options::default()
        };
        let mut rehearsal = Rehearsal::new(&fabric, options);
        rehearsal.watch();
        let manager = common::add_manager(&mut rehearsal, "a", "\"H-0\"", 1, policy.clone());
        let sent = Arc::default();
        rehearsal.tamper(manager, Box::new(Recorder(Arc::clone(&sent))));
        rehearsal.start(manager).unwrap();
        let mut world = Self {
            fabric,
            rehearsal,
            manager,
            sent,
            policy,
        };
        world.quiet();
        world.register();
        world.quiet();
        world
    }

    /// Runs until all plans that follow from a change are in force, and nothing is left to be done.
    fn quiet(&mut self) {
        self.rehearsal.run_for(Duration::from_secs(40)).unwrap();
        self.rehearsal.run_until_quiet(Duration::from_secs(60)).unwrap();
    }

    /// GUIDs of the ports of hosts.
    fn hosts(&self) -> Vec<Guid> {
        let ports = self.fabric.end_ports();
        let hosts = ports.filter(|(at, _)| self.fabric.node(at.node).kind == NodeKind::Ca);
        hosts.map(|(_, port)| port.guid).collect()
    }

    /// Hosts join groups and get alias GUIDs. Two hosts want one alias: the second waits for it.
    fn register(&mut self) {
        let hosts = self.hosts();
        let group = |(number, every): (u16, usize)| MulticastGroup {
            mlid: Lid(Lid::MULTICAST_MIN.0 + number),
            mtu: Mtu::B2048,
            sl: Sl::default(),
            members: hosts
                .iter()
                .step_by(every)
                .map(|&guid| Member { guid, receives: true })
                .collect(),
        };
        let groups = [(0, 1), (1, 2), (40, 3), (41, 5)].map(group);
        self.rehearsal.groups(self.manager, groups.into()).unwrap();
        self.quiet();
        let aliases = |host: usize, guids: &[(u8, u64)]| PortAliases {
            port: hosts[host],
            guids: guids.iter().map(|&(entry, guid)| (entry, Guid(guid))).collect(),
        };
        let first = vec![aliases(3, &[(1, 0x31), (9, 0x39)]), aliases(5, &[(2, 0x52)])];
        self.rehearsal.aliases(self.manager, first).unwrap();
        self.quiet();
        let second = vec![aliases(6, &[(1, 0x31)])];
        self.rehearsal.aliases(self.manager, second).unwrap();
    }

    /// Returns the Sets that a dry run lists.
    fn listed(&mut self, policy: &Policy) -> Count {
        let preview = self.rehearsal.preview(self.manager, Arc::new(policy.clone())).unwrap();
        let previewed = preview.run(Par::Sequential);
        assert!(previewed.first.outcome.is_some(), "{:?}", previewed.first.events);
        let mut count = Count::new();
        for key in previewed.steps.iter().flat_map(keys_of) {
            *count.entry(key).or_default() += 1;
        }
        count
    }

    /// Makes a change, and returns the Sets that the fabric gets for it.
    fn sent(&mut self, policy: &Policy) -> Count {
        self.sent.lock().unwrap().clear();
        self.rehearsal.reload(self.manager, Arc::new(policy.clone())).unwrap();
        self.quiet();
        let local = self.fabric.find_port(self.hosts()[0]).unwrap();
        let mut count = Count::new();
        for mad in self.sent.lock().unwrap().iter() {
            *count.entry(key_of(&self.fabric, local, mad)).or_default() += 1;
        }
        count
    }

    /// A dry run of a change lists what is sent then. Returns the number of Sets by attribute.
    fn check(&mut self, told: &str, change: impl FnOnce(&mut Policy)) -> BTreeMap<&'static str, u32> {
        let (listed_only, by_attribute) = self.compare(told, change);
        assert_eq!(listed_only, Vec::new(), "{told}\n{}", self.rehearsal.log_text());
        by_attribute
    }

    /// Everything that a change sends is listed by a dry run of it. Returns what is listed and not sent, and the number
    /// of Sets by attribute.
    fn compare(&mut self, told: &str, change: impl FnOnce(&mut Policy)) -> (Vec<Key>, BTreeMap<&'static str, u32>) {
        let mut policy = self.policy.clone();
        // What the manager has noted about places is in the list that the operator changes.
        let in_force = self.rehearsal.view(self.manager).unwrap().policy.unwrap();
        policy.out_of_service = Arc::clone(&in_force.out_of_service);
        change(&mut policy);
        let listed = self.listed(&policy);
        let sent = self.sent(&policy);
        let more = |a: &Count, b: &Count| -> Vec<Key> {
            let more = |key: &&Key| a[*key] > b.get(*key).copied().unwrap_or(0);
            a.keys().filter(more).cloned().collect()
        };
        let not_listed = more(&sent, &listed);
        assert_eq!(not_listed, Vec::new(), "{told}\n{}", self.rehearsal.log_text());
        let listed_only = more(&listed, &sent);
        self.policy = policy;
        let mut by_attribute = BTreeMap::new();
        for ((_, attribute, ..), number) in sent {
            *by_attribute.entry(attribute).or_default() += number;
        }
        (listed_only, by_attribute)
    }

    fn place(&self, name: &str) -> Place {
        let (node, port) = match name.split_once('[') {
            Some((node, port)) => (node, port.strip_suffix(']').unwrap().parse().ok()),
            None => (name, None),
        };
        let nodes = self.fabric.nodes().iter_enumerated();
        let mut found = nodes.filter(|(_, of)| of.description == node).map(|(node, _)| node);
        let node: NodeIdx = found.next().unwrap_or_else(|| panic!("no {name}"));
        let at = |port| PortRef {
            node,
            port: PortNum::new(port).unwrap(),
        };
        match (port, self.fabric.node(node).is_switch()) {
            (Some(port), _) => {
                let near = at(port);
                let far = self.fabric.peer(near).unwrap();
                Place::link(port_id(&self.fabric, near), port_id(&self.fabric, far))
            }
            (None, true) => Place::Switch(self.fabric.node(node).guid),
            (None, false) => Place::Port(port_id(&self.fabric, at(1))),
        }
    }

    /// Puts a place into a list as an operator's command does.
    fn list(&self, list: &mut Arc<OutOfService>, name: &str, service: Service) {
        let place = self.place(name);
        let near = ends_of(&self.fabric, place).into_iter();
        let near = near.map(|(near, _)| port_id(&self.fabric, near)).collect();
        let disabled = match service {
            Service::Isolate => near,
            Service::Drain | Service::Enable => BTreeSet::new(),
        };
        let notice = Notice {
            service,
            since_ms: 1,
            disabled,
            reason: String::new(),
        };
        Arc::make_mut(list).insert(place, notice);
    }
}

fn keys_of(step: &Step) -> Vec<Key> {
    let inventory: &Inventory = &step.inventory;
    let fabric = &inventory.fabric;
    let name = |node: NodeIdx| fabric.node(node).description.clone();
    match &step.sets {
        StepSets::Plan(outcome) => {
            let ops = outcome.changes.value().phases.iter().flat_map(|phase| &phase.ops);
            ops.map(|op| {
                let (attribute, port, block) = match op {
                    Op::Lft { block, .. } => ("LFT", 0, u32::from(*block)),
                    Op::Switch { .. } => ("SwitchInfo", 0, 0),
                    Op::PKeys { port, block, .. } => ("P_KeyTable", port.port.get(), u32::from(*block)),
                    Op::SlToVl { .. } => ("SL2VL", 0, 0),
                    Op::Arbitration { port, block, .. } => ("VLArb", port.port.get(), u32::from(*block)),
                    Op::Port { port, .. } | Op::Link { port, .. } => ("PortInfo", port.port.get(), 0),
                };
                (name(op.node()), attribute, port, block)
            })
            .collect()
        }
        StepSets::Multicast(change, _) => {
            let sets = change.phases.iter().flatten();
            sets.map(|set| {
                let node = fabric.switches()[set.switch];
                (name(node), "MFT", set.position, u32::from(set.block))
            })
            .collect()
        }
        StepSets::Aliases(change) => {
            let sets = change.phases.iter().flatten();
            sets.map(|set| (name(set.port.node), "GUIDInfo", set.port.port.get(), set.block.into()))
                .collect()
        }
    }
}

/// Returns what a Set is for. `local` is the port of the manager.
fn key_of(fabric: &Fabric, local: PortRef, mad: &Mad) -> Key {
    let (mut node, mut entry) = (local.node, local.port.get());
    for &port in mad.route().unwrap().ports() {
        let port = PortNum::new(port).unwrap();
        let far = fabric.peer(PortRef { node, port }).unwrap();
        (node, entry) = (far.node, far.port.get());
    }
    let is_switch = fabric.node(node).is_switch();
    let modifier = mad.modifier();
    let low = (modifier & 0xFF) as u8;
    let (attribute, port, block) = match mad.attribute() {
        AttributeId::LINEAR_FORWARDING => ("LFT", 0, modifier),
        AttributeId::MULTICAST_FORWARDING => ("MFT", (modifier >> 28) as u8, modifier & 0x1FF),
        AttributeId::SWITCH_INFO => ("SwitchInfo", 0, 0),
        AttributeId::PKEY_TABLE => {
            let port = if is_switch { (modifier >> 16) as u8 } else { entry };
            ("P_KeyTable", port, modifier & 0xFFFF)
        }
        AttributeId::SL_TO_VL => ("SL2VL", 0, 0),
        AttributeId::VL_ARBITRATION => ("VLArb", if is_switch { low } else { entry }, modifier >> 16),
        AttributeId::PORT_INFO => ("PortInfo", low, 0),
        AttributeId::GUID_INFO => ("GUIDInfo", entry, modifier),
        other => panic!("{other:?}"),
    };
    (fabric.node(node).description.clone(), attribute, port, block)
}

#[test]
fn what_a_change_of_the_policy_sends_is_listed() {
    let mut world = World::up(Policy::default());
    let names: Vec<&str> = world.fabric.nodes().iter().map(|node| &*node.description).collect();
    assert!(names.contains(&"S-L2-0") && names.contains(&"H-5"), "{names:?}");
    let sets = world.check("hoq_life", |policy| policy.hoq_life = 15);
    assert!(sets.contains_key("PortInfo"), "{sets:?}");
    let sets = world.check("packet_life", |policy| policy.packet_life = 17);
    assert!(sets.contains_key("SwitchInfo"), "{sets:?}");
    let sets = world.check("lmc", |policy| policy.lmc = Lmc::new(1).unwrap());
    assert!(sets.contains_key("PortInfo") && sets.contains_key("LFT"), "{sets:?}");
    let hosts = world.hosts();
    let partition = |policy: &mut Policy| {
        let rules = hosts.iter().step_by(3).map(|&guid| Rule {
            who: Who::Port(guid),
            is_full: true,
            is_first: false,
        });
        let partition = Partition {
            name: "storage".to_owned(),
            key: 0x11,
            sl: selvedge_types::Sl::default(),
            rules: rules.collect(),
        };
        Arc::make_mut(&mut policy.partitions)
            .partitions
            .insert(partition.key, partition);
    };
    let sets = world.check("partitions", partition);
    assert!(sets.contains_key("P_KeyTable"), "{sets:?}");
    // The manager has not read the tables of switch ports so far: some hold what they shall.
    let (listed_only, sets) = world.compare("enforcement", |policy| policy.part_enforce = PartEnforce::Both);
    assert!(
        sets.contains_key("P_KeyTable") && sets.contains_key("PortInfo"),
        "{sets:?}"
    );
    let is_of_switch = |key: &Key| key.0.starts_with("S-") && key.1 == "P_KeyTable";
    assert!(listed_only.iter().all(is_of_switch), "{listed_only:?}");
    let sets = world.check("fewer members", |policy| {
        let partitions = &mut Arc::make_mut(&mut policy.partitions).partitions;
        partitions.get_mut(&0x11).unwrap().rules.truncate(2);
    });
    assert!(sets.contains_key("P_KeyTable"), "{sets:?}");
    let sets = world.check("M_Key", |policy| policy.m_key = 0xfeed);
    assert!(sets.contains_key("PortInfo"), "{sets:?}");
    world.check("M_Key and MTU", |policy| {
        (policy.m_key, policy.mtu_max) = (0xca11, Mtu::B2048);
    });
}

/// Entries that are right stay, whichever engine made them. Load is balanced at once.
#[test]
fn what_a_change_of_the_engine_sends_is_listed() {
    let policy = |engine: &str, rebalance| Policy {
        engines: vec![EngineName(engine.to_owned())],
        rebalance,
        ..Policy::default()
    };
    let mut entries = 0;
    for (spec, first, second) in [
        (SPEC, "updn", "fat-tree"),
        ("random:switches=8,degree=3,hosts=2,seed=4,guidcap=20", "updn", "weave"),
        ("ring:switches=5,hosts=2,guidcap=20", "updn", "weave"),
    ] {
        for rebalance in [RebalanceWhen::Later, RebalanceWhen::AtOnce] {
            let mut world = World::on(spec, policy(first, rebalance));
            let sets = world.check(spec, |policy| policy.engines = vec![EngineName(second.to_owned())]);
            entries += sets.get("LFT").copied().unwrap_or(0);
        }
    }
    assert!(entries > 0, "no engine changes an entry");
}

#[test]
fn what_lanes_send_is_listed() {
    let mut world = World::up(Policy::default());
    let (listed_only, sets) = world.compare("lanes", |policy| {
        policy.assume_sl_aware = true;
        policy.used_lanes = 4;
        policy.lanes = 4;
        policy.engines = vec![EngineName("weave".to_owned())];
    });
    assert!(sets.contains_key("SL2VL") && sets.contains_key("VLArb"), "{sets:?}");
    // The manager has not read these tables so far, and reads them when it makes the change: some hold what they shall.
    let is_of_lanes = |key: &Key| matches!(key.1, "SL2VL" | "VLArb");
    assert!(listed_only.iter().all(is_of_lanes), "{listed_only:?}");
    let sets = world.check("other lanes", |policy| policy.used_lanes = 2);
    assert!(sets.contains_key("SL2VL"), "{sets:?}");
}

#[test]
fn what_places_out_of_service_send_is_listed() {
    for rebalance in [RebalanceWhen::Later, RebalanceWhen::AtOnce] {
        let mut world = World::up(Policy {
            rebalance,
            ..Policy::default()
        });
        let mut check = |told: &str, name: &str, service: Service, want: &[&str]| {
            let mut list = world
                .rehearsal
                .view(world.manager)
                .unwrap()
                .policy
                .unwrap()
                .out_of_service
                .clone();
            match service {
                Service::Enable => drop(Arc::make_mut(&mut list).remove(world.place(name))),
                Service::Drain | Service::Isolate => world.list(&mut list, name, service),
            }
            let sets = world.check(told, |policy| policy.out_of_service = list);
            for attribute in want {
                assert!(sets.contains_key(attribute), "{told}: {sets:?}");
            }
        };
        check("drain a link", "S-L1-1[5]", Service::Drain, &["LFT", "MFT"]);
        check("enable it", "S-L1-1[5]", Service::Enable, &["LFT"]);
        check("isolate a link", "S-L1-1[5]", Service::Isolate, &["LFT", "PortInfo"]);
        check("drain a spine", "S-L2-0", Service::Drain, &["LFT"]);
        check("isolate the drained spine", "S-L2-0", Service::Isolate, &["PortInfo"]);
        check(
            "isolate another spine",
            "S-L2-1",
            Service::Isolate,
            &["LFT", "MFT", "PortInfo"],
        );
        // The alias that it holds is free for the host that waits for it.
        check(
            "isolate a host",
            "H-3",
            Service::Isolate,
            &["PortInfo", "MFT", "GUIDInfo"],
        );
        check("drain a host", "H-9", Service::Drain, &["PortInfo", "MFT"]);
    }
}
