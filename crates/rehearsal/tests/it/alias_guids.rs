//! Alias GUIDs in agents: ports hold their wanted aliases after reboots and behind cut links, after a take-over and
//! when another program has written to GUIDInfo; and at no moment do two ports hold the same alias.

use crate::common;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::Policy;
use selvedge_plan::aliases::PortAliases;
use selvedge_rehearsal::{ManagerId, Options, Rehearsal};
use selvedge_sim::Seed;
use selvedge_sm::Command;
use selvedge_types::{Guid, NodeKind};
use selvedge_wire::{Address, AttributeId, Class, Datagram, GuidInfo, Mad, Method, Status};

const SPEC: &str = "pgft:m=2x4,w=1x2,p=1x1,guidcap=20";

struct World {
    fabric: Fabric,
    rehearsal: Rehearsal,
    manager: ManagerId,
    hosts: Vec<Guid>,
    wanted: BTreeMap<Guid, BTreeMap<u8, Guid>>,
}

impl World {
    fn new() -> Self {
        let fabric = common::fabric(SPEC);
        let options = Options {
            seed: Seed(5),
            ..Options::default()
        };
        let mut rehearsal = Rehearsal::new(&fabric, options);
        // Nothing is sent that the judge has not passed, GUIDInfo too.
        rehearsal.watch();
        let manager = common::add_manager(&mut rehearsal, "a", "\"H-0\"", 1, Policy::default());
        rehearsal.start(manager).unwrap();
        let ports = fabric.end_ports();
        let hosts = ports.filter(|(at, _)| fabric.node(at.node).kind == NodeKind::Ca);
        let mut world = Self {
            hosts: hosts.map(|(_, port)| port.guid).collect(),
            wanted: BTreeMap::new(),
            rehearsal,
            manager,
            fabric,
        };
        world.rest_after(Duration::ZERO);
        world
    }

    /// Runs at least this time and until the manager is idle; at every step no two ports hold one GUID.
    fn rest_after(&mut self, least: Duration) {
        let earliest = self.rehearsal.now() + least;
        let fabric = &self.fabric;
        let done = self.rehearsal.run_until(Duration::from_secs(90), "rest", |world| {
            let held = held(world, fabric);
            let all: Vec<Guid> = held.values().flat_map(|held| held.values().copied()).collect();
            let own = held.keys().copied();
            let once: BTreeSet<Guid> = all.iter().copied().chain(own).collect();
            assert_eq!(
                once.len(),
                all.len() + held.len(),
                "twice: {held:?}\n{}",
                world.log_text()
            );
            world.now() >= earliest && world.is_quiet()
        });
        done.unwrap_or_else(|error| panic!("{error}\n{}", self.rehearsal.log_text()));
    }

    /// Sets the wanted aliases of hosts, all at once.
    fn tell(&mut self, of: &[(usize, &[(u8, u64)])]) {
        let mut ports = Vec::new();
        for &(host, entries) in of {
            let guids: BTreeMap<u8, Guid> = entries.iter().map(|(entry, guid)| (*entry, Guid(*guid))).collect();
            let port = self.hosts[host];
            self.wanted.insert(port, guids.clone());
            ports.push(PortAliases { port, guids });
        }
        self.rehearsal.aliases(self.manager, ports).unwrap();
    }

    fn check(&self) {
        let held = held(&self.rehearsal, &self.fabric);
        for (port, wanted) in &self.wanted {
            assert_eq!(&held[port], wanted, "{port}\n{}", self.rehearsal.log_text());
        }
    }

    fn fault(&mut self, text: &str) {
        self.rehearsal.fault(&text.parse().unwrap()).unwrap();
    }

    fn count(&self, code: &str) -> usize {
        self.rehearsal.log_text().matches(code).count()
    }

    fn sets(&self) -> u64 {
        let client = self.rehearsal.client(self.manager).unwrap();
        self.rehearsal.emulator().sets_sent_by(client)
    }
}

/// Returns the aliases that agents of hosts hold, by port GUID and entry.
fn held(world: &Rehearsal, fabric: &Fabric) -> BTreeMap<Guid, BTreeMap<u8, Guid>> {
    let chassis = world.emulator().chassis();
    let hosts = fabric.end_ports();
    let hosts = hosts.filter(|(at, _)| !fabric.node(at.node).is_switch());
    let of_port = hosts.map(|(at, port)| {
        let table = &chassis.port(chassis.port_idx(at).unwrap()).guids;
        let entries = (1..).zip(table.iter().copied());
        (port.guid, entries.filter(|(_, guid)| *guid != Guid::NONE).collect())
    });
    of_port.collect()
}

#[test]
fn ports_hold_what_they_shall_have() {
    let mut world = World::new();
    world.tell(&[(1, &[(1, 0x11), (7, 0x17), (8, 0x18), (19, 0x1A)]), (2, &[(1, 0x21)])]);
    world.rest_after(Duration::ZERO);
    world.check();
    assert_eq!(world.count("SLV-SM-0080"), 1);
    // A block with the wanted contents is not written again; a change is one Set of a block.
    let before = world.sets();
    world.tell(&[(1, &[(1, 0x11), (7, 0x17), (8, 0x19), (19, 0x1A)])]);
    world.rest_after(Duration::ZERO);
    world.check();
    assert_eq!(world.sets() - before, 1);
    world.tell(&[(1, &[]), (2, &[])]);
    world.rest_after(Duration::ZERO);
    world.check();
    assert_eq!(world.sets() - before, 5);
}

#[test]
fn functions_move_from_port_to_port() {
    let mut world = World::new();
    world.tell(&[(1, &[(1, 0x11), (9, 0x19)]), (2, &[(1, 0x21)])]);
    world.rest_after(Duration::ZERO);
    // Both ways at once, and within a port.
    world.tell(&[(1, &[(1, 0x21), (2, 0x19)]), (2, &[(1, 0x11)]), (3, &[(1, 0x31)])]);
    world.rest_after(Duration::ZERO);
    world.check();
    // The port that loses the alias is cut off: the other port gets the alias at once, and the first loses it when it
    // is back.
    let cable = "\"H-1\"[1]";
    world.fault(&format!("cut {cable}"));
    world.rest_after(Duration::from_secs(15));
    world.tell(&[(1, &[(1, 0x21)]), (3, &[(1, 0x31), (2, 0x19)])]);
    let (port, of_it) = (world.hosts[1], world.hosts[3]);
    // The two ports are never connected at the same time.
    let there = |world: &World| held(&world.rehearsal, &world.fabric)[&of_it].contains_key(&2);
    world.rehearsal.run_for(Duration::from_secs(2)).unwrap();
    assert!(there(&world), "{}", world.rehearsal.log_text());
    assert!(held(&world.rehearsal, &world.fabric)[&port].contains_key(&2));
    world.fault(&format!("restore {cable}"));
    world.rehearsal.run_for(Duration::from_secs(20)).unwrap();
    world.rest_after(Duration::ZERO);
    world.check();
}

#[test]
fn what_reboots_gets_its_guids_again() {
    let mut world = World::new();
    world.tell(&[(1, &[(1, 0x11), (8, 0x18)]), (5, &[(3, 0x53)])]);
    world.rest_after(Duration::ZERO);
    for fault in [
        "reboot \"H-1\"",
        "kill \"H-5\"",
        "revive \"H-5\"",
        "cut \"H-1\"[1]",
        "restore \"H-1\"[1]",
        "reboot \"H-5\"",
        "reboot \"H-5\"",
    ] {
        world.fault(fault);
        world.rest_after(Duration::from_secs(15));
        if !fault.starts_with("kill") && !fault.starts_with("cut") {
            world.check();
        }
    }
    // A leaf, and with it all links of its hosts.
    let leaf = world
        .fabric
        .peer(world.fabric.find_port(world.hosts[5]).unwrap())
        .unwrap();
    let leaf = world.fabric.node(leaf.node).description.clone();
    world.fault(&format!("reboot \"{leaf}\""));
    world.rest_after(Duration::from_secs(20));
    world.check();
}

#[test]
fn others_may_write_something_else() {
    let mut world = World::new();
    world.tell(&[(1, &[(1, 0x11)]), (2, &[(1, 0x21)])]);
    world.rest_after(Duration::ZERO);
    let address = Address::DIRECTED;
    let mut mad = Mad::directed(
        Method::Set,
        AttributeId::GUID_INFO,
        0,
        &selvedge_wire::DirectedRoute::LOCAL,
    );
    assert_eq!(mad.class(), Class::SubnDirected);
    let mut guids = [Guid::NONE; 8];
    (guids[1], guids[2]) = (Guid(0x99), Guid(0x98));
    mad.write(&GuidInfo { guids });
    let answer = world.rehearsal.ask("\"H-2\"", &Datagram { address, mad }).unwrap();
    assert_eq!(answer.unwrap().mad.status(), Status::OK);
    world.rehearsal.run_for(Duration::from_secs(200)).unwrap();
    world.rest_after(Duration::ZERO);
    world.check();
    assert_eq!(world.count("SLV-SM-0083"), 1);
}

#[test]
fn a_port_that_comes_keeps_its_own_guid() {
    let mut world = World::new();
    let late = world.hosts[6];
    world.fault("kill \"H-6\"");
    world.rest_after(Duration::from_secs(15));
    // Until the next heavy sweep, a port that is gone keeps its GUID.
    world.rehearsal.command(world.manager, Command::Sweep).unwrap();
    world.rest_after(Duration::from_secs(1));
    world.tell(&[(1, &[(1, late.0), (2, 0x12)])]);
    world.rehearsal.run_for(Duration::from_secs(2)).unwrap();
    assert_eq!(held(&world.rehearsal, &world.fabric)[&world.hosts[1]][&1], late);
    world.fault("revive \"H-6\"");
    world.rehearsal.run_for(Duration::from_secs(30)).unwrap();
    world.wanted.get_mut(&world.hosts[1]).unwrap().remove(&1);
    world.rest_after(Duration::ZERO);
    world.check();
    assert_eq!(world.count("SLV-SM-0084"), 1);
}

#[test]
fn who_does_not_answer_holds_nobody_up() {
    let mut world = World::new();
    world.fault("hang \"H-1\"");
    world.tell(&[(1, &[(1, 0x11)]), (2, &[(1, 0x21)])]);
    world.rehearsal.run_for(Duration::from_secs(5)).unwrap();
    assert_eq!(held(&world.rehearsal, &world.fabric)[&world.hosts[2]].len(), 1);
    assert_eq!(world.count("SLV-SM-0082"), 1);
    world.fault("unhang \"H-1\"");
    world.rest_after(Duration::from_secs(65));
    world.check();
}

#[test]
fn another_manager_changes_nothing_that_is_right() {
    let mut world = World::new();
    let told: [(usize, &[(u8, u64)]); 2] = [(1, &[(1, 0x11), (8, 0x18)]), (2, &[(1, 0x21)])];
    world.tell(&told);
    world.rest_after(Duration::ZERO);
    world.rehearsal.kill(world.manager).unwrap();
    world.rehearsal.start(world.manager).unwrap();
    world.rest_after(Duration::ZERO);
    let before = world.sets();
    world.tell(&told);
    world.rest_after(Duration::ZERO);
    world.check();
    assert_eq!(world.sets(), before);
}
