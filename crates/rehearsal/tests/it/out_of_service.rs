//! Places out of service under a running manager: routes leave them, faults do not bring routes back, a new process
//! keeps to the list. The checkers of the rehearsal run after every event.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use selvedge_fabric::{Fabric, Node, PortRef};
use selvedge_plan::out_of_service::{Notice, Place, PortId, Service};
use selvedge_plan::{ChangeSet, Installed, OutOfService, Plan, Policy};
use selvedge_planner::out_of_service::{ends_of, port_id};
use selvedge_planner::{Accepted, DefaultJudge, Inventory, Judge};
use selvedge_rehearsal::{LogEntry, ManagerId, Options, RefuseAll, Rehearsal};
use selvedge_sim::{Par, Seed};
use selvedge_sm::{Command, Config, Event, Mode};
use selvedge_types::{Guid, PhysState, PortNum, PortState};
use selvedge_verify::Refusal;
use selvedge_wire::LocalPort;

use crate::common;

struct World {
    fabric: Fabric,
    world: Rehearsal,
    manager: ManagerId,
}

impl World {
    fn up(spec: &str) -> Self {
        let fabric = common::fabric(spec);
        let options = Options {
            seed: Seed(1),
            ..Options::default()
        };
        let mut world = Rehearsal::new(&fabric, options);
        let first = fabric.nodes().iter().find(|node| !node.is_switch()).unwrap();
        let seat = format!("\"{}\"", first.description);
        let manager = common::add_manager(&mut world, "a", &seat, 1, Policy::default());
        world.start(manager).unwrap();
        let mut this = Self { fabric, world, manager };
        this.quiet();
        this
    }

    fn quiet(&mut self) {
        // A link leaves the inventory some seconds after routes have left it.
        self.world.run_for(Duration::from_secs(12)).unwrap();
        self.world.run_until_quiet(Duration::from_secs(60)).unwrap();
    }

    fn list(&mut self, places: &[(Place, Service)]) {
        let ends = |place| ends_of(&self.fabric, place).into_iter();
        let list = places.iter().map(|&(place, service)| {
            let near = ends(place).map(|(near, _)| port_id(&self.fabric, near));
            (place, service, near.collect())
        });
        self.load(list.collect());
        self.quiet();
    }

    /// Loads a list of places with the ports that are disabled because of them.
    fn load(&mut self, places: Vec<(Place, Service, BTreeSet<PortId>)>) {
        let mut list = OutOfService::default();
        for (place, service, disabled) in places {
            let notice = Notice {
                service,
                since_ms: 1,
                disabled,
                reason: String::new(),
            };
            list.insert(place, notice);
        }
        let policy = Policy {
            out_of_service: Arc::new(list),
            ..Policy::default()
        };
        self.world.reload(self.manager, Arc::new(policy)).unwrap();
    }

    /// Returns the list in force.
    fn listed(&self) -> Arc<OutOfService> {
        let policy = self.world.view(self.manager).unwrap().policy.unwrap();
        Arc::clone(&policy.out_of_service)
    }

    /// Puts a place back in service as an operator does: with the ports that the list in force has for it.
    fn enable(&mut self, place: Place) {
        let disabled = self.listed().get(place).unwrap().disabled.clone();
        self.load(vec![(place, Service::Enable, disabled)]);
    }

    /// Returns a switch without hosts.
    fn spine(&self) -> Guid {
        let fabric = &self.fabric;
        let has_hosts = |node: &Node| {
            let mut far = node.external_ports().filter_map(|(_, port)| port.peer);
            far.any(|far| !fabric.node(far.node).is_switch())
        };
        let mut nodes = fabric.nodes().iter();
        nodes.find(|node| node.is_switch() && !has_hosts(node)).unwrap().guid
    }

    fn fault(&mut self, fault: &str) {
        self.world.fault(&fault.parse().unwrap()).unwrap();
        self.quiet();
    }

    /// Returns the ports of switches by which an entry in force for a host leaves, by name.
    fn used(&self) -> BTreeSet<String> {
        let view = self.world.view(self.manager).unwrap();
        let (fabric, plan) = (view.fabric.unwrap(), view.plan.unwrap());
        let mut used = BTreeSet::new();
        for (lid, owner) in plan.lids.by_lid() {
            if fabric.switch_index(owner.node).is_some() || !fabric.link_is_up(owner) {
                continue;
            }
            for (switch, &node) in fabric.switches().iter_enumerated() {
                // Only where packets of hosts can be: not at a switch that is itself out of service.
                if let Some(port) = PortNum::new(plan.tables.get(switch, lid)) {
                    used.insert(fabric.port_name(PortRef { node, port }));
                }
            }
        }
        used
    }

    fn state(&self, name: &str, port: u8) -> (PortState, PhysState) {
        let view = self.world.view(self.manager).unwrap();
        let fabric = view.fabric.unwrap();
        let node = fabric
            .nodes()
            .iter_enumerated()
            .find(|(_, node)| node.description == name)
            .unwrap()
            .0;
        let port = PortNum::new(port).unwrap();
        let link = fabric.port(PortRef { node, port }).unwrap().link;
        (link.state, link.phys)
    }

    /// Returns both ends of the nth link between switches.
    fn link(&self, nth: usize) -> (PortRef, PortRef) {
        let is_switch = |at: PortRef| self.fabric.node(at.node).is_switch();
        let mut links = self
            .fabric
            .links()
            .filter(|link| is_switch(link.a) && is_switch(link.b));
        links.nth(nth).map(|link| (link.a, link.b)).unwrap()
    }

    /// Checks that no Set has failed, by the events and by the manager's count.
    fn no_set_failed(&self) {
        let failed = |entry: &&LogEntry| matches!(entry.event, Event::SetFailed { .. });
        let failed: Vec<String> = self
            .world
            .log()
            .iter()
            .filter(failed)
            .map(|entry| entry.event.to_string())
            .collect();
        assert_eq!(failed, Vec::<String>::new());
        assert_eq!(self.world.view(self.manager).unwrap().facts.sets_failed, 0);
    }

    fn place(&self, (a, b): (PortRef, PortRef)) -> Place {
        Place::link(port_id(&self.fabric, a), port_id(&self.fabric, b))
    }

    fn names(&self, (a, b): (PortRef, PortRef)) -> [String; 2] {
        [a, b].map(|at| self.fabric.port_name(at))
    }
}

/// A link is drained, another one fails, the drained one flaps, and the process is killed: it carries nothing at any
/// time. Then it is enabled.
fn check(spec: &str) {
    let mut world = World::up(spec);
    let (drained, other) = (world.link(0), world.link(5));
    let names = world.names(drained);
    let carries = |world: &World| names.iter().any(|name| world.used().contains(name));
    assert!(carries(&world), "{spec}: {names:?}");
    let place = world.place(drained);
    world.list(&[(place, Service::Drain)]);
    assert!(!carries(&world), "{spec}: drained");
    let [end, _] = world.names(other);
    world.fault(&format!("cut {end}"));
    assert!(!carries(&world), "{spec}: after a repair");
    world.fault(&format!("restore {end}"));
    assert!(!carries(&world), "{spec}: after the other link came back");
    world.fault(&format!("cut {}", names[0]));
    world.fault(&format!("restore {}", names[0]));
    assert!(!carries(&world), "{spec}: after the drained link came back");
    world.world.kill(world.manager).unwrap();
    world.world.start(world.manager).unwrap();
    world.quiet();
    assert!(!carries(&world), "{spec}: after a restart");
    world.list(&[]);
    let view = world.world.view(world.manager).unwrap();
    assert!(view.is_up(), "{spec}");
    assert!(view.fabric.unwrap().link_is_up(drained.0), "{spec}: enabled");
}

#[test]
fn a_drained_link_of_a_tree_carries_nothing_whatever_happens() {
    check("karytree:k=4,n=2");
}

#[test]
fn a_drained_link_of_a_torus_carries_nothing_whatever_happens() {
    check("torus:4x4");
}

#[test]
fn a_drained_link_of_a_random_graph_carries_nothing_whatever_happens() {
    check("random:switches=12,degree=4,hosts=2,seed=3");
}

#[test]
fn ports_of_an_isolated_link_are_disabled_and_enabled_again() {
    let mut world = World::up("karytree:k=4,n=2");
    let isolated = world.link(0);
    let place = world.place(isolated);
    let near = ends_of(&world.fabric, place)[0].0;
    let name = world.fabric.node(near.node).description.clone();
    world.list(&[(place, Service::Isolate)]);
    assert_eq!(world.state(&name, near.port.get()).1, PhysState::Disabled);
    assert!(world.world.view(world.manager).unwrap().is_up());
    world.no_set_failed();
    world.list(&[(place, Service::Enable)]);
    assert_eq!(
        world.state(&name, near.port.get()),
        (PortState::Active, PhysState::LinkUp)
    );
    assert!(world.world.view(world.manager).unwrap().is_up());
    world.no_set_failed();
}

#[test]
fn an_isolated_switch_leaves_and_comes_back() {
    let mut world = World::up("karytree:k=4,n=2");
    let spine = world.spine();
    world.list(&[(Place::Switch(spine), Service::Drain)]);
    let has = |world: &World| {
        let fabric = world.world.view(world.manager).unwrap().fabric.unwrap();
        fabric.find(spine).is_some()
    };
    assert!(has(&world), "a drained switch stays in reach");
    world.list(&[(Place::Switch(spine), Service::Isolate)]);
    assert!(!has(&world), "an isolated switch is out of reach");
    // A fault meanwhile.
    let [end, _] = world.names(world.link(9));
    world.fault(&format!("cut {end}"));
    world.fault(&format!("restore {end}"));
    assert!(!has(&world));
    world.list(&[(Place::Switch(spine), Service::Enable)]);
    assert!(has(&world), "it is back");
    assert!(world.world.view(world.manager).unwrap().is_up());
}

#[test]
fn a_drained_host_sends_nothing_and_stays_in_reach() {
    let mut world = World::up("karytree:k=4,n=2");
    let fabric = world.fabric.clone();
    let host = fabric
        .nodes()
        .iter_enumerated()
        .rfind(|(_, node)| !node.is_switch())
        .unwrap()
        .0;
    let at = PortRef {
        node: host,
        port: PortNum::new(1).unwrap(),
    };
    let far = fabric.peer(at).unwrap();
    let place = Place::Port(port_id(&fabric, at));
    world.list(&[(place, Service::Drain)]);
    let view = world.world.view(world.manager).unwrap();
    let now = view.fabric.clone().unwrap();
    let there = now.find(fabric.node(host).guid).unwrap();
    let there = PortRef {
        node: there,
        port: at.port,
    };
    assert!(!now.link_is_up(there), "its link carries nothing");
    // The agents say INIT: SMPs pass, packets of hosts do not.
    let info = view.inventory.unwrap().port_info(there).copied().unwrap();
    assert_eq!(info.state, Some(PortState::Init));
    world.no_set_failed();
    assert!(!world.used().contains(&fabric.port_name(far)));
    world.list(&[]);
    let now = world.world.view(world.manager).unwrap().fabric.unwrap();
    assert!(
        now.link_is_up(
            now.find(fabric.node(host).guid)
                .map(|node| PortRef { node, port: at.port })
                .unwrap()
        )
    );
}

/// A cable was unplugged when its switch was isolated, and is plugged in later: its port is disabled then, and enabled
/// with the others.
#[test]
fn a_port_that_is_disabled_later_is_enabled_with_the_others() {
    let mut world = World::up("karytree:k=4,n=2");
    let spine = world.spine();
    let place = Place::Switch(spine);
    let all = ends_of(&world.fabric, place);
    let unplugged = all[0].0;
    let (node, port) = (world.fabric.node(unplugged.node).description.clone(), unplugged.port);
    let end = world.fabric.port_name(unplugged);
    world.fault(&format!("cut {end}"));
    let plugged = all[1..].iter().map(|(near, _)| port_id(&world.fabric, *near)).collect();
    world.load(vec![(place, Service::Isolate, plugged)]);
    world.quiet();
    world.fault(&format!("restore {end}"));
    assert_eq!(world.state(&node, port.get()).1, PhysState::Disabled, "{end}");
    assert_eq!(world.listed().get(place).unwrap().disabled.len(), all.len());
    // A later process knows of it too.
    world.world.kill(world.manager).unwrap();
    world.world.start(world.manager).unwrap();
    world.quiet();
    world.enable(place);
    world.quiet();
    let view = world.world.view(world.manager).unwrap();
    let fabric = view.fabric.as_ref().unwrap();
    let switch = fabric.node(fabric.find(spine).unwrap());
    let up = switch.external_ports().filter(|(_, port)| port.is_up()).count();
    assert_eq!((up, view.is_up()), (all.len(), true));
    world.no_set_failed();
}

/// A judge that refuses plans as long as its flag is set.
#[derive(Debug)]
struct Gate(Arc<AtomicBool>);

impl Judge for Gate {
    fn judge(
        &self,
        inventory: &Inventory,
        installed: &Installed,
        plan: &Plan,
        changes: &(dyn Fn() -> ChangeSet + Sync),
        par: Par,
    ) -> Result<Accepted, Box<Refusal>> {
        match self.0.load(Ordering::Relaxed) {
            true => RefuseAll.judge(inventory, installed, plan, changes, par),
            false => DefaultJudge::default().judge(inventory, installed, plan, changes, par),
        }
    }
}

/// The port of a host is disabled in the first step of the plan. While the plan waits for the packets of the host, a
/// fault interrupts it, and the judge refuses the next plan: the change is rolled back.
#[test]
fn a_port_that_half_a_change_has_disabled_is_enabled_by_its_rollback() {
    let fabric = common::fabric("karytree:k=4,n=2");
    let mut world = Rehearsal::new(&fabric, Options::default());
    let refuses = Arc::new(AtomicBool::new(false));
    let nowhere = LocalPort {
        node_guid: Guid::NONE,
        port_guid: Guid::NONE,
        port: PortNum::MANAGEMENT,
    };
    let config = Config::new(Mode::Manage, nowhere, Arc::default());
    let manager = world.add_manager("a", "\"H-0\"", config, Arc::new(Gate(Arc::clone(&refuses))));
    world.start(manager).unwrap();
    let mut world = World { fabric, world, manager };
    world.quiet();
    let host = world
        .fabric
        .nodes()
        .iter_enumerated()
        .rfind(|(_, node)| !node.is_switch());
    let at = PortRef {
        node: host.unwrap().0,
        port: PortNum::new(1).unwrap(),
    };
    let near = world.fabric.peer(at).unwrap();
    let place = Place::Port(port_id(&world.fabric, at));
    let noted = BTreeSet::from([port_id(&world.fabric, near)]);
    world.load(vec![(place, Service::Isolate, noted)]);
    let is_disabled = |world: &Rehearsal| {
        let chassis = world.emulator().chassis();
        let port = chassis.port_at(near.node, near.port.get()).unwrap();
        chassis.wire(port).phys() == PhysState::Disabled
    };
    let bound = Duration::from_secs(5);
    world.world.run_until(bound, "a disabled port", is_disabled).unwrap();
    let change = world
        .world
        .view(world.manager)
        .unwrap()
        .policy_changes
        .last()
        .cloned()
        .unwrap();
    assert_eq!(change.state.name(), "judged", "half of it is applied");
    refuses.store(true, Ordering::Relaxed);
    world.world.command(world.manager, Command::Sweep).unwrap();
    let is_rolled_back = |world: &Rehearsal| {
        let changes = world.view(manager).unwrap().policy_changes;
        changes
            .last()
            .is_some_and(|change| change.state.name() == "rolled_back")
    };
    world.world.run_until(bound, "a rollback", is_rolled_back).unwrap();
    refuses.store(false, Ordering::Relaxed);
    // The next sweep plans again.
    world.world.command(world.manager, Command::Sweep).unwrap();
    world.quiet();
    assert!(!is_disabled(&world.world), "{}", world.world.log_text());
    assert!(world.listed().is_empty(), "{:?}", world.listed());
    let view = world.world.view(world.manager).unwrap();
    let fabric = view.fabric.as_ref().unwrap();
    assert!(view.is_up() && fabric.find(world.fabric.node(at.node).guid).is_some());
}

/// The list forgets a place when all its ports are enabled: a port that the operator disables by another tool
/// afterwards stays disabled.
#[test]
fn a_place_that_is_back_in_service_leaves_the_list() {
    let mut world = World::up("karytree:k=4,n=2");
    let isolated = world.link(0);
    let place = world.place(isolated);
    let near = ends_of(&world.fabric, place)[0].0;
    let name = world.fabric.node(near.node).description.clone();
    for kills_after_ms in [None, Some(0), Some(1), Some(5), Some(100), Some(4_000)] {
        world.list(&[(place, Service::Isolate)]);
        assert_eq!(world.state(&name, near.port.get()).1, PhysState::Disabled);
        world.enable(place);
        if let Some(after) = kills_after_ms {
            world.world.run_for(Duration::from_millis(after)).unwrap();
            world.world.kill(world.manager).unwrap();
            world.world.start(world.manager).unwrap();
        }
        world.quiet();
        let state = world.state(&name, near.port.get());
        assert_eq!(state, (PortState::Active, PhysState::LinkUp), "{kills_after_ms:?}");
        assert!(world.listed().is_empty(), "{kills_after_ms:?}: {:?}", world.listed());
    }
    world.no_set_failed();
}
