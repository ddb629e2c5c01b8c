//! Ports in more partitions than a block of a P_KeyTable has room for: every block is written, kept over a restart and
//! emptied again, in front of hosts too.

use crate::common;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, FabricBuilder, PortRef};
use selvedge_plan::partition::{Partition, Partitions, Rule, Who};
use selvedge_plan::{PartEnforce, Policy};
use selvedge_rehearsal::{ManagerId, Options, Rehearsal};
use selvedge_types::{Idx, PKey};
use selvedge_wire::{AttributeId, Class, Method};

/// Longer than anything here takes.
const BOUND: Duration = Duration::from_secs(90);

/// A small tree; each port has room for this number of keys.
fn fabric(room: u16) -> Fabric {
    let fabric = common::fabric("karytree:k=2,n=2");
    let mut builder = FabricBuilder::new();
    let keys: Vec<_> = fabric.nodes().iter().map(|node| builder.add(node.clone())).collect();
    for &key in &keys {
        let node = builder.node_mut(key);
        node.partition_cap = room;
        if let Some(switch) = node.switch.as_mut() {
            switch.enforce_cap = room;
        }
    }
    for link in fabric.links() {
        let end = |at: PortRef| (keys[at.node.to_usize()], at.port);
        builder.link(end(link.a), end(link.b)).unwrap();
    }
    builder.finish().unwrap()
}

/// Every host is a full member of the default partition and of these.
fn policy(keys: &[u16]) -> Policy {
    let everybody = Rule {
        who: Who::All,
        is_full: true,
        is_first: false,
    };
    let mut partitions = Partitions::only_default(&[everybody]);
    for &key in keys {
        let partition = Partition {
            name: String::new(),
            key,
            sl: selvedge_types::Sl::default(),
            rules: vec![everybody],
        };
        partitions.partitions.insert(key, partition);
    }
    Policy {
        partitions: Arc::new(partitions),
        part_enforce: PartEnforce::Both,
        ..Policy::default()
    }
}

/// Sets of P_KeyTables so far.
fn sets(world: &Rehearsal) -> u64 {
    let accepted = &world.emulator().counts().accepted;
    accepted.of(Class::SubnDirected, Method::Set, AttributeId::PKEY_TABLE)
}

/// Keys of every port that carries packets of hosts: end ports, and the switch ports in front of them.
fn held(world: &Rehearsal) -> BTreeMap<PortRef, Vec<PKey>> {
    let chassis = world.emulator().chassis();
    let fabric = chassis.fabric();
    let ends = fabric.end_ports().map(|(at, _)| at);
    let before = fabric.end_ports().filter_map(|(at, _)| fabric.peer(at));
    let before = before.filter(|at| fabric.switch_index(at.node).is_some());
    let port = |at: PortRef| chassis.port(chassis.port_idx(at).unwrap());
    ends.chain(before)
        .map(|at| (at, port(at).used_pkeys().to_vec()))
        .collect()
}

/// After all is quiet every port holds these, beside the default partition's.
fn check(world: &mut Rehearsal, keys: &[u16], what: &str) {
    world.run_until_quiet(BOUND).unwrap();
    let mut want: Vec<u16> = keys.iter().map(|key| key | 0x8000).chain([0xFFFF]).collect();
    want.sort_unstable();
    for (at, held) in held(world) {
        let mut found: Vec<u16> = held.iter().map(|key| key.0).filter(|key| key & 0x7FFF != 0).collect();
        found.sort_unstable();
        assert_eq!(found, want, "{what}: {at:?}");
    }
}

fn start(room: u16, keys: &[u16]) -> (Rehearsal, ManagerId) {
    let mut world = Rehearsal::new(&fabric(room), Options::default());
    world.watch();
    let manager = common::add_manager(&mut world, "a", "\"H-0\"", 1, policy(keys));
    world.start(manager).unwrap();
    (world, manager)
}

#[test]
fn every_block_is_written_and_emptied() {
    let all: Vec<u16> = (1..=80).collect();
    let (mut world, manager) = start(128, &all);
    check(&mut world, &all, "at first");
    let before = (sets(&world), held(&world));
    // All of them are read, and none is written.
    world.kill(manager).unwrap();
    world.start(manager).unwrap();
    check(&mut world, &all, "started again");
    assert_eq!((sets(&world), held(&world)), before);

    // One that stood at the end of a block, and one in the middle of another: the others stay where they are.
    let gone = [PKey(0x8000 | 31), PKey(0x8000 | 50)];
    let left: Vec<u16> = (1..=80).filter(|key| ![31, 50].contains(key)).collect();
    let stood = held(&world);
    world.reload(manager, Arc::new(policy(&left))).unwrap();
    check(&mut world, &left, "two are gone");
    for (at, now) in held(&world) {
        assert_eq!(now.len(), stood[&at].len(), "{at:?}");
        let moved = now.iter().zip(&stood[&at]).filter(|(now, stood)| now != stood);
        let moved: Vec<(u16, PKey)> = moved.map(|(now, stood)| (now.0, *stood)).collect();
        assert_eq!(moved, [(PKey::NOBODYS.0, gone[0]), (0, gone[1])], "{at:?}");
    }
    world.kill(manager).unwrap();
    world.start(manager).unwrap();
    let before = sets(&world);
    check(&mut world, &left, "started again without two");
    assert_eq!(sets(&world), before);

    // A host that was off has lost all of them.
    world.fault(&"reboot \"H-3\"".parse().unwrap()).unwrap();
    check(&mut world, &left, "a host was off");

    let few = [7, 8];
    world.reload(manager, Arc::new(policy(&few))).unwrap();
    check(&mut world, &few, "few are left");
}

/// A port without room for all keys gets as many as fit, and its switch port lets only these pass.
#[test]
fn a_port_gets_what_it_has_room_for() {
    let all: Vec<u16> = (1..=80).collect();
    let (mut world, _) = start(40, &all);
    world.run_until_quiet(BOUND).unwrap();
    let lengths: Vec<usize> = held(&world).values().map(Vec::len).collect();
    assert!(lengths.iter().all(|length| *length == 40), "{lengths:?}");
}
