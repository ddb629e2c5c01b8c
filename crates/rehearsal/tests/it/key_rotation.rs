//! The M_Key of all ports is changed while the manager runs: with lost datagrams, kill -9 after each Set, a second
//! change in between, hosts that are away, a standby that takes over. All ports end with the configured key.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::Policy;
use selvedge_planner::PortReason;
use selvedge_rehearsal::{ManagerId, Options, Rehearsal};
use selvedge_sm::Role;
use selvedge_types::{PortNum, SecretKey};
use selvedge_wire::{AttributeId, Class, Method};

use crate::common;

/// Longer than anything here takes.
const BOUND: Duration = Duration::from_secs(200);
const FABRIC: &str = "karytree:k=2,n=2";
/// Ports with an M_Key: port 0 of four switches, and four hosts.
const PORTS: usize = 8;

const OLD: u64 = 0x01d;
const NEW: u64 = 0x4e3;
const THIRD: u64 = 0x333;

fn policy(m_key: u64, m_key_protect: u8) -> Policy {
    Policy {
        m_key,
        m_key_protect,
        m_key_lease_s: 0,
        ..Policy::default()
    }
}

struct World {
    rehearsal: Rehearsal,
    manager: ManagerId,
    protect: u8,
}

impl World {
    /// All ports have this key.
    fn with_key(m_key: u64, protect: u8) -> Self {
        let mut rehearsal = Rehearsal::new(&common::fabric(FABRIC), Options::default());
        rehearsal.watch();
        let policy = policy(m_key, protect);
        // One Set after the other, so that a kill can fall between any two.
        let manager = common::add_manager_with(&mut rehearsal, "a", "\"H-0\"", policy, |config| {
            (config.priority, config.window) = (1, 1);
        });
        rehearsal.start(manager).unwrap();
        let mut world = Self {
            rehearsal,
            manager,
            protect,
        };
        world.quiet();
        world.check_keys(m_key, "before");
        world
    }

    fn reload(&mut self, m_key: u64) {
        let policy = Arc::new(policy(m_key, self.protect));
        self.rehearsal.reload(self.manager, policy).unwrap();
    }

    fn quiet(&mut self) {
        self.rehearsal.run_until_quiet(BOUND).unwrap();
    }

    fn fault(&mut self, fault: &str) {
        self.rehearsal.fault(&fault.parse().unwrap()).unwrap();
    }

    /// Returns the M_Keys of ports, in a fixed order.
    fn keys(&self) -> Vec<u64> {
        let seen = self.rehearsal.emulator().chassis().observe();
        let guarded = seen
            .end_ports()
            .filter(|(at, _)| seen.switch_index(at.node).is_none() || at.port == PortNum::MANAGEMENT);
        guarded.map(|(_, port)| port.settings.m_key).collect()
    }

    fn check_keys(&self, m_key: u64, what: &str) {
        assert_eq!(self.keys(), [m_key; PORTS], "{what}");
        let view = self.rehearsal.view(self.manager).unwrap();
        assert!(view.role == Role::Master && view.is_up(), "{what}: {:?}", view.ports);
        assert_eq!(
            (&view.facts.m_key_foreign, &view.facts.m_key_former),
            (&None, &None),
            "{what}"
        );
    }

    /// Returns the keys in the store, newest first.
    fn stored(&self) -> Vec<u64> {
        let stored = self.rehearsal.stored(self.manager).unwrap();
        stored.m_keys.iter().map(|key| key.expose()).collect()
    }

    /// Returns how many events with this code there were.
    fn events(&self, code: &str) -> usize {
        let log = self.rehearsal.log().iter();
        log.filter(|entry| entry.event.code() == code).count()
    }

    /// PortInfo Sets that agents have taken.
    fn sets(&self) -> u64 {
        let accepted = &self.rehearsal.emulator().counts().accepted;
        accepted.of(Class::SubnDirected, Method::Set, AttributeId::PORT_INFO)
    }

    /// Runs until agents have taken this number of further PortInfo Sets; false if they do not.
    fn run_to(&mut self, point: u64) -> bool {
        let first = self.sets();
        let sets = |world: &Rehearsal| {
            let accepted = &world.emulator().counts().accepted;
            accepted.of(Class::SubnDirected, Method::Set, AttributeId::PORT_INFO)
        };
        let is_there = |world: &Rehearsal| sets(world) - first >= point;
        let end = |world: &Rehearsal| is_there(world) || world.is_quiet();
        self.rehearsal.run_until(BOUND, "the point or the end", end).unwrap();
        is_there(&self.rehearsal)
    }
}

#[test]
fn each_port_gets_the_new_key_and_the_former_one_is_retired() {
    for protect in 0..=3 {
        for (from, to) in [(OLD, NEW), (OLD, 0), (0, NEW)] {
            let mut world = World::with_key(from, protect);
            let sets = world.sets();
            world.reload(to);
            world.quiet();
            let what = format!("{from:#x} to {to:#x}, protection {protect}");
            world.check_keys(to, &what);
            assert_eq!(world.sets() - sets, PORTS as u64, "{what}: one Set a port");
            let want: Vec<u64> = [to].into_iter().filter(|key| *key != 0).collect();
            assert_eq!(world.stored(), want, "{what}");
            let has_begun = usize::from(from != 0);
            assert_eq!(
                (world.events("SLV-KEYS-0001"), world.events("SLV-KEYS-0002")),
                (has_begun, has_begun),
                "{what}"
            );
            assert_eq!(world.events("SLV-KEYS-0004"), 0, "{what}");
        }
    }
}

#[test]
fn the_key_in_use_changes_nothing() {
    let mut world = World::with_key(OLD, 1);
    let sets = world.sets();
    world.reload(OLD);
    world.quiet();
    assert_eq!((world.sets(), world.stored()), (sets, vec![OLD]));
    assert_eq!(world.events("SLV-KEYS-0001"), 0);
    world.check_keys(OLD, "the same key");
}

#[test]
fn with_every_third_datagram_lost() {
    for protect in 0..=3 {
        let mut world = World::with_key(OLD, protect);
        world.fault("loss 30%");
        world.reload(NEW);
        world.rehearsal.run_for(Duration::from_secs(60)).unwrap();
        world.fault("loss 0%");
        world.rehearsal.run_for(Duration::from_secs(30)).unwrap();
        world.quiet();
        world.check_keys(NEW, &format!("protection {protect}"));
        assert_eq!(world.stored(), [NEW], "protection {protect}");
    }
}

/// While ports get the key `to` instead of `from`, kills the manager after each number of Sets, and starts it with the
/// configured key `then`.
fn check_killed(from: u64, to: u64, then: u64, protect: u8) {
    let mut mixed = BTreeSet::new();
    let mut points = 0;
    for point in 0..100 {
        let mut world = World::with_key(from, protect);
        world.reload(to);
        if !world.run_to(point) {
            break;
        }
        points += 1;
        let what =
            format!("{from:#x} to {to:#x}, killed after {point} Sets, started with {then:#x}, protection {protect}");
        world.rehearsal.kill(world.manager).unwrap();
        world.rehearsal.run_for(Duration::from_millis(1)).unwrap();
        mixed.insert(world.keys().iter().filter(|key| **key == to).count());
        world.reload(then);
        world.rehearsal.start(world.manager).unwrap();
        world.quiet();
        world.check_keys(then, &what);
        let want: Vec<u64> = [then].into_iter().filter(|key| *key != 0).collect();
        assert_eq!(world.stored(), want, "{what}");
    }
    assert!(points > PORTS, "{points} points show nothing");
    assert!(mixed.len() > 3, "the keys were never mixed: {mixed:?}");
}

#[test]
fn killed_after_each_set_and_started_with_the_new_key() {
    for protect in [1, 2] {
        check_killed(OLD, NEW, NEW, protect);
    }
    check_killed(OLD, 0, 0, 2);
    check_killed(0, NEW, NEW, 2);
}

#[test]
fn killed_after_each_set_and_started_with_the_old_key() {
    for protect in [1, 2] {
        check_killed(OLD, NEW, OLD, protect);
    }
    check_killed(OLD, 0, OLD, 2);
    check_killed(0, NEW, 0, 2);
}

#[test]
fn killed_after_each_set_and_started_with_a_third_key() {
    check_killed(OLD, NEW, THIRD, 2);
}

#[test]
fn another_key_in_the_middle() {
    for then in [THIRD, OLD] {
        let mut points = 0;
        for point in 0..100 {
            let mut world = World::with_key(OLD, 2);
            world.reload(NEW);
            if !world.run_to(point) {
                break;
            }
            points += 1;
            world.reload(then);
            world.quiet();
            world.check_keys(then, &format!("after {point} Sets"));
            assert_eq!(world.stored(), [then], "after {point} Sets");
        }
        assert!(points > PORTS, "{points} points show nothing");
    }
}

#[test]
fn a_host_that_was_away_still_has_the_former_key() {
    for protect in [1, 2] {
        let mut world = World::with_key(OLD, protect);
        world.fault("cut \"H-3\"[1]");
        world.quiet();
        world.reload(NEW);
        world.quiet();
        assert_eq!(world.keys().iter().filter(|key| **key == OLD).count(), 1);
        assert_eq!(world.stored(), [NEW, OLD]);
        assert_eq!((world.events("SLV-KEYS-0003"), world.events("SLV-KEYS-0002")), (1, 0));
        // Another rotation, and a restart, while it is away.
        world.reload(THIRD);
        world.quiet();
        world.rehearsal.kill(world.manager).unwrap();
        world.rehearsal.start(world.manager).unwrap();
        world.quiet();
        assert_eq!(world.stored(), [THIRD, NEW, OLD]);
        world.fault("restore \"H-3\"[1]");
        world.rehearsal.run_for(Duration::from_secs(60)).unwrap();
        world.quiet();
        world.check_keys(THIRD, &format!("protection {protect}"));
    }
}

#[test]
fn a_standby_with_both_keys_takes_over_in_the_middle() {
    for protect in [1, 2] {
        let mut points = 0;
        for point in 0..100 {
            let mut world = World::with_key(OLD, protect);
            let standby = common::add_manager(&mut world.rehearsal, "b", "\"H-1\"", 0, policy(OLD, protect));
            world.rehearsal.start(standby).unwrap();
            world.quiet();
            // Standbys first.
            world.rehearsal.reload(standby, Arc::new(policy(NEW, protect))).unwrap();
            world.quiet();
            assert_eq!(world.rehearsal.view(standby).unwrap().role, Role::Standby);
            world.reload(NEW);
            if !world.run_to(point) {
                break;
            }
            points += 1;
            world.rehearsal.kill(world.manager).unwrap();
            world.manager = standby;
            world.rehearsal.run_for(Duration::from_secs(30)).unwrap();
            world.quiet();
            world.check_keys(NEW, &format!("after {point} Sets, protection {protect}"));
        }
        assert!(points > PORTS, "{points} points show nothing");
    }
}

#[test]
fn a_better_manager_with_the_new_key_alone_waits_until_ports_have_it() {
    for protect in [1, 2] {
        let mut points = 0;
        // It starts while ports get the key.
        for point in 1..100 {
            let mut world = World::with_key(OLD, protect);
            let better = common::add_manager(&mut world.rehearsal, "b", "\"H-1\"", 2, policy(NEW, protect));
            world.reload(NEW);
            if !world.run_to(point) {
                break;
            }
            points += 1;
            world.rehearsal.start(better).unwrap();
            world.rehearsal.run_for(Duration::from_secs(30)).unwrap();
            world.quiet();
            world.manager = better;
            world.check_keys(NEW, &format!("after {point} Sets, protection {protect}"));
        }
        assert!(points >= PORTS, "{points} points show nothing");
    }
}

#[test]
fn a_key_that_no_manager_knows_is_reported_as_before() {
    let mut world = World::with_key(OLD, 1);
    world.rehearsal.kill(world.manager).unwrap();
    let other = common::add_manager(&mut world.rehearsal, "b", "\"H-1\"", 0, policy(NEW, 1));
    world.rehearsal.start(other).unwrap();
    world.quiet();
    assert_eq!(world.keys(), [OLD; PORTS]);
    let view = world.rehearsal.view(other).unwrap();
    assert!(view.facts.m_key_foreign.unwrap().is_anothers && view.plan.is_none());
}

/// A host is away while the key changes, and comes back to a manager that was never given the former key. The manager
/// reports the host, and manages all others; it sets the host when it is given the key. The last former key differs
/// from the new one in one bit.
#[test]
fn a_port_with_a_key_that_its_manager_was_never_given_is_reported() {
    for former in [OLD, NEW ^ 0x40] {
        let mut world = World::with_key(former, 1);
        world.fault("cut \"H-3\"[1]");
        world.quiet();
        world.reload(NEW);
        world.quiet();
        world.rehearsal.kill(world.manager).unwrap();
        // At the same port, so that all ports name the same manager.
        world.manager = common::add_manager(&mut world.rehearsal, "b", "\"H-0\"", 0, policy(NEW, 1));
        world.rehearsal.start(world.manager).unwrap();
        world.quiet();
        assert_eq!(world.events("SLV-SM-0015"), 0);
        world.fault("restore \"H-3\"[1]");
        world.rehearsal.run_for(Duration::from_secs(30)).unwrap();
        let of = |world: &World| world.keys().iter().filter(|key| **key == former).count();
        let view = world.rehearsal.view(world.manager).unwrap();
        let foreign = view.facts.m_key_foreign.as_ref().unwrap();
        assert_eq!((&*foreign.ports, foreign.is_anothers), ("\"H-3\"[1]", false));
        let reasons = view.ports.iter().map(|report| report.reason);
        assert!(
            reasons.into_iter().any(|reason| reason == PortReason::MKey),
            "{:?}",
            view.ports
        );
        assert!(view.plan.is_some() && of(&world) == 1 && world.events("SLV-SM-0015") > 0);
        // The operator gives the key, then the configured one again.
        world.reload(former);
        world.rehearsal.run_for(Duration::from_secs(5)).unwrap();
        assert_eq!(world.rehearsal.view(world.manager).unwrap().facts.m_key_foreign, None);
        world.check_keys(former, "the former key is given");
        world.reload(NEW);
        world.quiet();
        world.check_keys(NEW, "the configured key is back");
    }
}

/// A master and its standby.
fn with_standby() -> (World, ManagerId) {
    let mut world = World::with_key(OLD, 1);
    let standby = common::add_manager(&mut world.rehearsal, "b", "\"H-1\"", 0, policy(OLD, 1));
    world.rehearsal.start(standby).unwrap();
    world.quiet();
    (world, standby)
}

#[test]
fn an_sm_key_is_changed_at_the_standby_first() {
    for restarts_standby in [false, true] {
        let (mut world, standby) = with_standby();
        for id in [standby, world.manager] {
            world.rehearsal.set_sm_key(id, SecretKey::new(0x5e)).unwrap();
            world.rehearsal.run_for(Duration::from_secs(1)).unwrap();
            if restarts_standby && id == standby {
                world.rehearsal.kill(standby).unwrap();
                world.rehearsal.start(standby).unwrap();
            }
            world.rehearsal.run_for(Duration::from_secs(20)).unwrap();
        }
        world.quiet();
        let roles = [world.manager, standby].map(|id| world.rehearsal.view(id).unwrap().role);
        assert_eq!(roles, [Role::Master, Role::Standby], "{restarts_standby}");
        let mut log = world.rehearsal.log().iter();
        let is_strange = log.any(|entry| entry.manager == standby && entry.event.code() == "SLV-SM-0063");
        assert!(!is_strange, "{restarts_standby}");
        // The standby still takes over.
        world.rehearsal.kill(world.manager).unwrap();
        world.manager = standby;
        world.rehearsal.run_for(Duration::from_secs(20)).unwrap();
        world.quiet();
        world.check_keys(OLD, "taken over");
    }
}

/// This is why the SM_Key must be given to the standbys first: a standby that does not know the new key takes the
/// master for gone.
#[test]
fn an_sm_key_that_the_master_gets_first_makes_two_masters() {
    let (mut world, _) = with_standby();
    world.rehearsal.set_sm_key(world.manager, SecretKey::new(0x5e)).unwrap();
    let ended = world.rehearsal.run_for(Duration::from_secs(60));
    assert!(ended.is_err_and(|error| error.to_string().contains("SLV-REHEARSAL-0103")));
}

/// A part of the fabric was cut off from the beginning, and another manager gave its ports the former key. So the
/// manager that changed the key did not miss them.
#[test]
fn ports_that_come_into_sight_with_a_retired_key_get_the_present_one() {
    for protect in [0, 1] {
        let mut rehearsal = Rehearsal::new(&common::fabric(FABRIC), Options::default());
        rehearsal.watch();
        let links = ["\"S-L1-1\"[3]", "\"S-L1-1\"[4]"];
        let fault = |rehearsal: &mut Rehearsal, what: &str| {
            for link in links {
                rehearsal.fault(&format!("{what} {link}").parse().unwrap()).unwrap();
            }
        };
        fault(&mut rehearsal, "cut");
        let manager = common::add_manager(&mut rehearsal, "a", "\"H-0\"", 1, policy(OLD, protect));
        let other = common::add_manager(&mut rehearsal, "b", "\"H-3\"", 0, policy(OLD, protect));
        rehearsal.start(manager).unwrap();
        rehearsal.start(other).unwrap();
        let mut world = World {
            rehearsal,
            manager,
            protect,
        };
        world.quiet();
        world.reload(NEW);
        world.quiet();
        assert_eq!(world.stored(), [NEW]);
        assert_eq!(world.keys().iter().filter(|key| **key == OLD).count(), 3);
        world.rehearsal.kill(other).unwrap();
        // It finds the retired key in its store.
        world.rehearsal.kill(manager).unwrap();
        world.rehearsal.start(manager).unwrap();
        world.quiet();
        fault(&mut world.rehearsal, "restore");
        world.rehearsal.run_for(Duration::from_secs(60)).unwrap();
        world.quiet();
        world.check_keys(NEW, &format!("protection {protect}"));
        assert_eq!(world.stored(), [NEW]);
        let counts = (world.events("SLV-SM-0015"), world.events("SLV-KEYS-0002"));
        assert_eq!(counts, (0, 2), "protection {protect}");
    }
}
