//! Tests that each checker finds its violation. A tool causes the violation: it changes the fabric, in place of the
//! manager.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_chassis::Egress;
use selvedge_fabric::NodeIdx;
use selvedge_plan::Policy;
use selvedge_planner::DefaultJudge;
use selvedge_sm::{Command, Config, Mode, Role};
use selvedge_topology::Spec;
use selvedge_types::{Guid, PortNum};
use selvedge_wire::{
    Address, Attribute, Datagram, DirectedRoute, LinearForwardingTable, LocalPort, Mad, Method, PortInfo, SmInfo,
};

use super::Seen;
use crate::{ManagerId, Observed, Options, Rehearsal, RehearsalError, Violation};

fn add(world: &mut Rehearsal, at: &str) -> ManagerId {
    add_with(world, at, Policy::default())
}

fn add_with(world: &mut Rehearsal, at: &str, policy: Policy) -> ManagerId {
    let nowhere = LocalPort {
        node_guid: Guid::NONE,
        port_guid: Guid::NONE,
        port: PortNum::MANAGEMENT,
    };
    let config = Config::new(Mode::Manage, nowhere, Arc::new(policy));
    world.add_manager(at, at, config, Arc::new(DefaultJudge::default()))
}

/// Returns a rehearsal on two switches with two hosts each.
fn two_switches() -> Rehearsal {
    let Spec::Generated(recipe) = "ring:switches=2,hosts=2".parse().unwrap() else {
        panic!("a generator")
    };
    Rehearsal::new(&recipe.fabric().unwrap(), Options::default())
}

/// Returns a rehearsal on two switches with two hosts each, and its manager. The subnet is up, and a second sweep has
/// read what the manager set.
fn running() -> (Rehearsal, ManagerId) {
    let mut world = two_switches();
    let a = add(&mut world, "\"H-0\"");
    world.start(a).unwrap();
    world.run_until_quiet(Duration::from_secs(10)).unwrap();
    world.command(a, Command::Sweep).unwrap();
    world.run_until_quiet(Duration::from_secs(10)).unwrap();
    (world, a)
}

/// Sends a Set along `route` from H-3, in place of a manager. Fails with the violation that a checker finds.
fn rogue_set<A: Attribute>(world: &mut Rehearsal, route: &[u8], modifier: u32, value: &A) -> Result<(), Violation> {
    let ports: Vec<PortNum> = route.iter().map(|&p| PortNum::new(p).unwrap()).collect();
    let mut mad = Mad::directed(Method::Set, A::ID, modifier, &DirectedRoute::new(&ports).unwrap());
    mad.write(value);
    let client = world.emulator.attach_named("\"H-3\"").unwrap();
    world.emulator.send(
        world.now,
        client,
        &Datagram {
            address: Address::DIRECTED,
            mad,
        },
    );
    violation(world.run_for(Duration::from_millis(1)))
}

fn violation(result: Result<(), RehearsalError>) -> Result<(), Violation> {
    match result {
        Ok(()) => Ok(()),
        Err(RehearsalError::Violated { violation, .. }) => Err(violation),
        Err(other) => panic!("{other}"),
    }
}

/// Returns the present PortInfo of a port.
fn port_info(world: &Rehearsal, name: &str) -> PortInfo {
    let chassis = world.emulator.chassis();
    let name: selvedge_emulator::PortName = name.parse().unwrap();
    let at = name.end_port(chassis.fabric()).unwrap();
    let held = chassis.port(chassis.port_idx(at).unwrap());
    let settings = held.settings();
    PortInfo {
        lid: settings.lids.base,
        sm_lid: settings.sm_lid,
        gid_prefix: settings.subnet_prefix,
        neighbor_mtu: Some(settings.mtu),
        ..PortInfo::default()
    }
}

/// Returns the M_Key that a port holds.
fn port_key(world: &Rehearsal, name: &str) -> u64 {
    let chassis = world.emulator.chassis();
    let name: selvedge_emulator::PortName = name.parse().unwrap();
    let at = name.end_port(chassis.fabric()).unwrap();
    chassis.port(chassis.port_idx(at).unwrap()).settings().m_key
}

#[test]
fn a_lid_held_twice() {
    let (mut world, _) = running();
    let taken = port_info(&world, "\"H-0\"").lid;
    // From H-3 by its own port to itself: no hop at all.
    let own = PortInfo {
        lid: taken,
        ..port_info(&world, "\"H-3\"")
    };
    let found = rogue_set(&mut world, &[], 1, &own);
    assert!(
        matches!(found, Err(Violation::LidTwice { lid, .. }) if lid == taken),
        "{found:?}"
    );
}

#[test]
fn a_loop_that_stays() {
    let (mut world, _) = running();
    let lid = port_info(&world, "\"H-3\"").lid;
    let chassis = world.emulator.chassis();
    let switches: Vec<NodeIdx> = chassis.fabric().switches().iter().copied().collect();
    let mut entries = *chassis.switch(switches[1]).unwrap().linear_block(0);
    let Egress::Port(towards) = chassis.egress(switches[0], lid) else {
        panic!("no way to H-3")
    };
    let back = chassis.wire(towards).peer().unwrap();
    entries[lid.index()] = chassis.wire(back).num().get();
    rogue_set(&mut world, &[1], 0, &LinearForwardingTable { ports: entries }).unwrap();
    let found = violation(world.run_until_quiet(Duration::from_secs(1)));
    assert!(
        matches!(found, Err(Violation::Loop { lid: l, .. }) if l == lid),
        "{found:?}"
    );
}

#[test]
fn two_masters() {
    let (mut world, a) = running();
    let b = add(&mut world, "\"H-2\"");
    let hide = |world: &mut Rehearsal, id: ManagerId| {
        let client = world.client(id).unwrap();
        let now = world.now;
        world.emulator.set_is_sm(now, client, false).unwrap();
    };
    // Neither manager shows IsSM for long, so neither finds the other.
    world.start(b).unwrap();
    let ended = (0..600).try_for_each(|_| {
        hide(&mut world, a);
        hide(&mut world, b);
        world.run_for(Duration::from_millis(100))
    });
    let found = violation(ended);
    assert!(matches!(found, Err(Violation::TwoMasters { .. })), "{found:?}");
}

#[test]
fn a_set_before_the_plan() {
    let Spec::Generated(recipe) = "single:ports=4,hosts=2".parse().unwrap() else {
        panic!("a generator")
    };
    let mut world = Rehearsal::new(&recipe.fabric().unwrap(), Options::default());
    let a = add(&mut world, "\"H-0\"");
    world.start(a).unwrap();
    let mut mad = Mad::directed(Method::Set, PortInfo::ID, 1, &DirectedRoute::LOCAL);
    mad.write(&PortInfo::default());
    let client = world.client(a).unwrap();
    world.emulator.send(
        world.now,
        client,
        &Datagram {
            address: Address::DIRECTED,
            mad,
        },
    );
    let found = violation(world.run_for(Duration::from_millis(1)));
    assert!(
        matches!(found, Err(Violation::UnjudgedSet { sets: 1, .. })),
        "{found:?}"
    );
}

#[test]
fn a_port_that_is_active_before_its_tables() {
    let mut world = two_switches();
    let a = add(&mut world, "\"H-0\"");
    let last = *world.emulator.chassis().fabric().switches().iter().next_back().unwrap();
    let block = |world: &Rehearsal| *world.emulator.chassis().switch(last).unwrap().linear_block(0);
    let fresh = block(&world);
    world.start(a).unwrap();
    let is_written = |world: &Rehearsal| block(world) != fresh;
    world.run_until(Duration::from_secs(10), "a table", is_written).unwrap();
    // The manager has the answer and does not read the block again before it activates the ports.
    let mut entries = block(&world);
    entries[60] = 1;
    let found = rogue_set(&mut world, &[1], 0, &LinearForwardingTable { ports: entries })
        .and_then(|()| violation(world.run_for(Duration::from_secs(1))));
    assert!(
        matches!(found, Err(Violation::ActiveTooEarly { block: 0, .. })),
        "{found:?}"
    );
}

#[test]
fn a_key_that_no_manager_in_reach_was_ever_given() {
    let mut world = two_switches();
    let a = add_with(&mut world, "\"H-0\"", keyed(1));
    let b = add_with(&mut world, "\"H-2\"", keyed(2));
    world.start(a).unwrap();
    world.run_until_quiet(Duration::from_secs(10)).unwrap();
    world.start(b).unwrap();
    world.run_for(Duration::from_millis(10)).unwrap();
    assert!(world.keys_never_given(b).is_empty(), "the master beside it has the key");
    world.kill(a).unwrap();
    world.run_for(Duration::from_secs(30)).unwrap();
    assert_eq!(world.keys_never_given(b), [1].into());
    // It is given both keys, one after the other, and ports get the last one.
    for m_key in [1, 2] {
        world.reload(b, Arc::new(keyed(m_key))).unwrap();
        world.run_until_quiet(Duration::from_secs(60)).unwrap();
        assert!(world.keys_never_given(b).is_empty());
        assert!(world.view(b).unwrap().is_up());
    }
    // No manager gives ports this key.
    let taken = PortInfo {
        m_key: 3,
        ..port_info(&world, "\"H-3\"")
    };
    let mut mad = Mad::directed(Method::Set, PortInfo::ID, 1, &DirectedRoute::LOCAL);
    mad.set_m_key(2);
    mad.write(&taken);
    let client = world.emulator.attach_named("\"H-3\"").unwrap();
    let address = Address::DIRECTED;
    world.emulator.send(world.now, client, &Datagram { address, mad });
    world.run_for(Duration::from_millis(1)).unwrap();
    assert_eq!(world.keys_never_given(b), [3].into());
}

/// Policy with an M_Key that guards Sets.
fn keyed(m_key: u64) -> Policy {
    Policy {
        m_key,
        m_key_protect: 1,
        ..Policy::default()
    }
}

/// The same, where managers see each other without the key too.
fn visibly_keyed(m_key: u64) -> Policy {
    Policy {
        m_key_protect: 0,
        ..keyed(m_key)
    }
}

/// Ports hold key 1, which "a" has set. The operator wants key 2, and the better manager "b" has no other key.
fn better_manager_without_the_former_key() -> (Rehearsal, [ManagerId; 2]) {
    let mut world = two_switches();
    let a = add_with(&mut world, "\"H-2\"", visibly_keyed(1));
    let b = add_with(&mut world, "\"H-0\"", visibly_keyed(2));
    world.start(a).unwrap();
    world.run_until_quiet(Duration::from_secs(10)).unwrap();
    world.kill(a).unwrap();
    world.reload(a, Arc::new(visibly_keyed(2))).unwrap();
    world.start(a).unwrap();
    world.start(b).unwrap();
    world.run_for(Duration::from_secs(12)).unwrap();
    let role = |id| world.view(id).unwrap().role;
    assert_eq!([role(a), role(b)], [Role::Standby, Role::Master]);
    assert!(world.view(b).unwrap().facts.m_key_foreign.is_some());
    (world, [a, b])
}

#[test]
fn a_key_that_only_a_standby_has_is_not_given_to_the_master() {
    let (mut world, [a, b]) = better_manager_without_the_former_key();
    assert_eq!(world.keys_never_given(b), [1].into());
    // The standby itself has the key, and so has any other once it does not stand by.
    assert!(world.keys_never_given(a).is_empty());
    // A manager that was given the key has no excuse: neither before nor while it sets the ports.
    for m_key in [1, 2] {
        world.reload(b, Arc::new(visibly_keyed(m_key))).unwrap();
        for _ in 0..50 {
            assert!(world.keys_never_given(b).is_empty());
            world.run_for(Duration::from_micros(100)).unwrap();
        }
        world.run_until_quiet(Duration::from_secs(60)).unwrap();
        assert!(world.view(b).unwrap().is_up());
        assert_eq!(port_key(&world, "\"H-3\""), m_key);
    }
}

#[test]
fn a_standby_that_handed_ports_with_a_former_key_over_has_no_excuse() {
    let (mut world, [a, b]) = better_manager_without_the_former_key();
    let client = world.client(a).unwrap();
    let sends = |world: &mut Rehearsal, control: u32| {
        let mad = Mad::directed(Method::Set, SmInfo::ID, control, &DirectedRoute::LOCAL);
        let address = Address::DIRECTED;
        let datagram = &Datagram { address, mad };
        let timeout = Duration::ZERO;
        world
            .observe(&Seen::Sends {
                id: a,
                client,
                datagram,
                timeout,
            })
            .unwrap();
    };
    // ACKNOWLEDGE, then HANDOVER.
    sends(&mut world, 2);
    assert_eq!(world.keys_never_given(b), [1].into());
    sends(&mut world, 1);
    assert!(world.keys_never_given(b).is_empty());
}

#[test]
fn packets_need_not_arrive_at_a_host_that_is_kept_off() {
    let (world, a) = running();
    let at = world.emulator.port_of(world.client(a).unwrap()).unwrap();
    let mut observed = Observed::around(&world.emulator, at);
    let none = BTreeSet::new();
    assert!(observed.trouble(None, &none).is_none());
    let host = observed.fabric.end_ports().map(|(at, _)| at).find(|at| {
        let node = observed.fabric.node(at.node);
        node.description == "H-2"
    });
    let host = host.unwrap();
    let lid = observed.lids.base(host).unwrap();
    for switch in observed.fabric.switches().indices() {
        observed.tables.set(switch, lid, selvedge_plan::NO_PATH);
    }
    assert!(observed.trouble(None, &none).is_some());
    let kept_off: BTreeSet<_> = [host, observed.fabric.peer(host).unwrap()].into();
    assert!(observed.trouble(None, &kept_off).is_none());
    // All others must still be reached.
    let other = observed.lids.by_lid().find(|(_, owner)| *owner != host).unwrap().0;
    for switch in observed.fabric.switches().indices() {
        observed.tables.set(switch, other, selvedge_plan::NO_PATH);
    }
    assert!(observed.trouble(None, &kept_off).is_some());
}
