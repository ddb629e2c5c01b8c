//! Places that are out of service: what a list means on a fabric, and that no packet of a host crosses a drained place,
//! whatever the shape and the engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, LinkState, Port, PortRef, SwitchIdx};
use selvedge_plan::out_of_service::{Notice, Place, PortId, Service};
use selvedge_plan::{EngineName, LinkOrder, NO_PATH, Op, OutOfService, Plan, Policy, Tables};
use selvedge_planner::out_of_service::{port_id, settled};
use selvedge_planner::{Adopt, Basis, Inventory, Job, JobId, JobResult, PlanFabric, PlanResult, Task, Withdrawn};
use selvedge_sim::Par;
use selvedge_types::{Guid, PhysState, PortNum};

use crate::bench::{Bench, bench};
use crate::mended;

/// Lists one place.
fn listed(place: Place, service: Service) -> OutOfService {
    let mut list = OutOfService::default();
    list.insert(
        place,
        Notice {
            service,
            since_ms: 0,
            disabled: BTreeSet::new(),
            reason: String::new(),
        },
    );
    list
}

fn switch(fabric: &Fabric, name: &str) -> Guid {
    let mut nodes = fabric.nodes().iter();
    nodes
        .find(|node| node.description == name)
        .unwrap_or_else(|| panic!("no {name}"))
        .guid
}

fn end(fabric: &Fabric, name: &str, port: u8) -> PortRef {
    PortRef {
        node: fabric.find(switch(fabric, name)).unwrap(),
        port: PortNum::new(port).unwrap(),
    }
}

fn is_switch(fabric: &Fabric, at: PortRef) -> bool {
    fabric.switch_index(at.node).is_some()
}

/// The place of the link between two switches.
fn link(fabric: &Fabric, at: PortRef) -> Place {
    Place::link(port_id(fabric, at), port_id(fabric, fabric.peer(at).unwrap()))
}

fn names(fabric: &Fabric, ports: &BTreeSet<PortRef>) -> Vec<String> {
    ports.iter().map(|&at| fabric.port_name(at)).collect()
}

/// Plans for a fabric with a list of places out of service, while the tables of an engine carry traffic.
fn planned(world: &Bench, engine: &str, list: OutOfService) -> (Arc<Inventory>, PlanResult) {
    let made: selvedge_routing::Engine = (&EngineName(engine.to_owned())).try_into().unwrap();
    let tables = world
        .route(made, None, Par::Sequential)
        .unwrap_or_else(|| panic!("{engine} gives up"));
    planned_from(world, (&tables, Adopt::No), engine, list)
}

/// Plans for a fabric with a list of places out of service, while these tables carry traffic.
fn planned_from(
    world: &Bench,
    (tables, adopt): (&Tables, Adopt),
    engine: &str,
    list: OutOfService,
) -> (Arc<Inventory>, PlanResult) {
    let mut inventory = Inventory::clone(&mended::inventory(world.fabric.clone()));
    inventory.withdraw(&list, |_| false);
    let inventory = Arc::new(inventory);
    let policy = Policy {
        engines: vec![EngineName(engine.to_owned())],
        out_of_service: Arc::new(list),
        ..Policy::default()
    };
    let basis = Basis::new(&inventory, &Arc::new(world.installed(tables)), Arc::new(policy));
    let task = PlanFabric {
        adopt,
        ..PlanFabric::new(basis)
    };
    let mut job = Job {
        id: JobId(1),
        task: Task::Plan(Box::new(task)),
    };
    match job.run(Par::Sequential) {
        JobResult::Plan(result) => (inventory, result),
        other => panic!("{other:?}"),
    }
}

/// Returns the number of entries for hosts, followed from every switch with hosts, and the switches and ports that they
/// cross. This is a test's own walk: it shares nothing with the judge.
fn crossed(fabric: &Fabric, plan: &Plan) -> (usize, BTreeSet<PortRef>) {
    let mut ports = BTreeSet::new();
    let mut followed = 0;
    let hosts: Vec<PortRef> = fabric
        .end_ports()
        .map(|(at, _)| at)
        .filter(|&at| !is_switch(fabric, at))
        .collect();
    for &from in &hosts {
        for &to in hosts.iter().filter(|&&to| to != from) {
            let Some(lid) = plan.lids.base(to) else { continue };
            let mut at = fabric.peer(from).filter(|_| fabric.link_is_up(from));
            while let Some(here) = at.filter(|at| is_switch(fabric, *at)) {
                let index: SwitchIdx = fabric.switch_index(here.node).unwrap();
                let entry = plan.tables.get(index, lid);
                if entry == NO_PATH {
                    break;
                }
                let out = PortRef {
                    node: here.node,
                    port: PortNum::new(entry).unwrap(),
                };
                followed += 1;
                ports.insert(out);
                at = fabric.peer(out).filter(|_| fabric.link_is_up(out));
            }
        }
    }
    (followed, ports)
}

#[test]
fn no_pair_of_hosts_crosses_a_drained_switch_or_link() {
    let check = |spec: &str, engine: &str, place: &dyn Fn(&Fabric) -> Place| {
        let world = bench(spec).unwrap();
        let place = place(&world.fabric);
        let (inventory, result) = planned(&world, engine, listed(place, Service::Drain));
        let outcome = result
            .outcome
            .unwrap_or_else(|| panic!("{spec} {engine}: {:?}", result.events));
        let withdrawn = &inventory.withdrawn;
        assert!(
            !withdrawn.links.is_empty() && withdrawn.needed.is_empty(),
            "{spec} {engine}: {withdrawn:?}"
        );
        let (followed, ports) = crossed(&inventory.fabric, &outcome.plan);
        assert!(followed > 100, "{spec} {engine}");
        assert!(ports.is_disjoint(&withdrawn.links), "{spec} {engine}: {place}");
        // The tables before did cross it.
        assert!(outcome.changes.value().count().lft_blocks > 0, "{spec} {engine}");
        let reached = outcome.verdict.figures.host_pairs_reached;
        assert_eq!(reached, outcome.verdict.figures.host_pairs, "{spec} {engine}");
        // Packets to the switch itself still reach it.
        if let Place::Switch(guid) = place {
            let node = inventory.fabric.find(guid).unwrap();
            let lid = outcome.plan.lids.base(PortRef {
                node,
                port: PortNum::MANAGEMENT,
            });
            let switches = inventory.fabric.switches().indices();
            let lacks = switches.filter(|&at| outcome.plan.tables.get(at, lid.unwrap()) == NO_PATH);
            assert_eq!(lacks.count(), 0, "{spec} {engine}");
        }
    };
    let first = |prefix: &'static str| {
        move |fabric: &Fabric| {
            let mut switches = fabric.switches().iter().map(|&node| fabric.node(node));
            let has_no_host = |guid: Guid| {
                let node = fabric.find(guid).unwrap();
                let mut ports = fabric.node(node).external_ports();
                !ports.any(|(_, port)| port.peer.is_some_and(|far| !is_switch(fabric, far)))
            };
            let found = switches.find(|node| node.description.starts_with(prefix) && has_no_host(node.guid));
            Place::Switch(found.unwrap_or_else(|| panic!("no {prefix}")).guid)
        }
    };
    let any_link = |fabric: &Fabric| {
        let mut links = fabric
            .links()
            .filter(|link| is_switch(fabric, link.a) && is_switch(fabric, link.b));
        link(fabric, links.nth(3).unwrap().a)
    };
    for engine in ["fat-tree", "updn", "weave"] {
        check("karytree:k=4,n=3", engine, &first("S"));
        check("karytree:k=4,n=3", engine, &any_link);
    }
    for engine in ["weave", "updn"] {
        check("torus:4x4", engine, &any_link);
        check("random:switches=16,degree=4,hosts=2,seed=3", engine, &any_link);
    }
}

#[test]
fn an_engine_that_cannot_route_around_makes_no_plan() {
    let world = bench("torus:4x4").unwrap();
    let mut links = world.fabric.links();
    let at = links
        .find(|link| is_switch(&world.fabric, link.a) && is_switch(&world.fabric, link.b))
        .unwrap()
        .a;
    let place = link(&world.fabric, at);
    let (_, result) = planned(&world, "dor", listed(place, Service::Drain));
    if let Some(outcome) = &result.outcome {
        // It may go around after all, but not over the link.
        let (_, ports) = crossed(&world.fabric, &outcome.plan);
        assert!(!ports.contains(&at));
    } else {
        let codes: Vec<_> = result.events.iter().map(|event| event.code()).collect();
        assert!(
            codes.contains(&"SLV-SM-0005") && codes.contains(&"SLV-SM-0006"),
            "{codes:?}"
        );
    }
}

#[test]
fn a_drained_switch_keeps_one_link_and_an_isolated_one_loses_all() {
    let world = bench("karytree:k=4,n=2").unwrap();
    let fabric = &world.fabric;
    let guid = fabric.switches().iter().map(|&node| fabric.node(node)).find(|node| {
        let mut ports = node.external_ports();
        !ports.any(|(_, port)| port.peer.is_some_and(|far| !is_switch(fabric, far)))
    });
    let guid = guid.unwrap().guid;
    let local = mended::inventory(fabric.clone()).local;
    let of = |service| Withdrawn::of(&listed(Place::Switch(guid), service), fabric, local);
    let (drained, isolated) = (of(Service::Drain), of(Service::Isolate));
    assert_eq!(
        (drained.links.len(), drained.idle.len(), drained.disable.len()),
        (8, 6, 0)
    );
    assert_eq!(
        (isolated.links.len(), isolated.idle.len(), isolated.disable.len()),
        (8, 6, 4)
    );
    // The ends that stay in service are disabled.
    let node = fabric.find(guid).unwrap();
    assert!(
        isolated.disable.iter().all(|at| at.node != node),
        "{:?}",
        names(fabric, &isolated.disable)
    );
    assert_eq!(of(Service::Enable), Withdrawn::default());
}

#[test]
fn a_link_that_a_switch_needs_carries_on_and_is_reported() {
    // Switches in a ring that is cut: the link left is needed.
    let world = bench("ring:switches=4,hosts=1").unwrap();
    let fabric = &world.fabric;
    let mut links = fabric
        .links()
        .filter(|link| is_switch(fabric, link.a) && is_switch(fabric, link.b));
    let (one, two) = (links.next().unwrap().a, links.next().unwrap().a);
    let mut list = listed(link(fabric, one), Service::Drain);
    let local = mended::inventory(fabric.clone()).local;
    let alone = Withdrawn::of(&list, fabric, local);
    assert_eq!((alone.links.len(), alone.needed.len()), (2, 0));
    let notice = list.get(link(fabric, one)).unwrap().clone();
    list.insert(link(fabric, two), notice);
    let both = Withdrawn::of(&list, fabric, local);
    assert_eq!((both.links.len(), both.needed.len()), (2, 2));
    let (_, result) = planned(&world, "updn", list);
    let codes: Vec<_> = result.events.iter().map(|event| event.code()).collect();
    assert!(result.outcome.is_some() && codes.contains(&"SLV-SM-0112"), "{codes:?}");
}

#[test]
fn a_host_is_cut_off_before_any_entry_changes() {
    let world = bench("karytree:k=4,n=2").unwrap();
    let fabric = &world.fabric;
    let local = mended::inventory(fabric.clone()).local;
    let hosts = fabric
        .end_ports()
        .map(|(at, _)| at)
        .filter(|&at| !is_switch(fabric, at) && at.node != local.node);
    let host = hosts.last().unwrap();
    let (inventory, result) = planned(
        &world,
        "updn",
        listed(Place::Port(port_id(fabric, host)), Service::Isolate),
    );
    let outcome = result.outcome.unwrap_or_else(|| panic!("{:?}", result.events));
    assert!(!inventory.fabric.link_is_up(host));
    // The bench knows no PortInfo, so the Set itself is checked where there are agents.
    assert!(outcome.changes.value().phases.iter().all(|phase| {
        let mut ops = phase.ops.iter();
        ops.all(|op| {
            !matches!(
                op,
                Op::Link {
                    order: LinkOrder::Poll,
                    ..
                }
            )
        })
    }));
    let (_, ports) = crossed(&inventory.fabric, &outcome.plan);
    assert!(!ports.contains(&fabric.peer(host).unwrap()));
}

#[test]
fn the_managers_own_link_and_cables_that_were_moved_are_never_withdrawn() {
    let world = bench("karytree:k=4,n=2").unwrap();
    let fabric = &world.fabric;
    let local = mended::inventory(fabric.clone()).local;
    let of = |place| Withdrawn::of(&listed(place, Service::Isolate), fabric, local);
    assert!(of(Place::Port(port_id(fabric, local))).is_empty());
    let (a, b) = (
        end(fabric, &fabric.switch(SwitchIdx(0)).description, 1),
        end(fabric, &fabric.switch(SwitchIdx(1)).description, 1),
    );
    assert_ne!(fabric.peer(a), Some(b));
    assert!(of(Place::link(port_id(fabric, a), port_id(fabric, b))).is_empty());
    assert!(of(Place::Switch(Guid(0xdead))).is_empty());
}

/// A link that is back in service leads to a switch that is isolated: its port would be enabled and disabled in turns.
#[test]
fn a_port_of_an_isolated_place_is_not_enabled_for_another_one() {
    let world = bench("karytree:k=2,n=2").unwrap();
    let mut fabric = world.fabric.clone();
    let links: Vec<_> = fabric.links().collect();
    let (a, b) = links
        .iter()
        .map(|link| (link.a, link.b))
        .find(|(a, b)| is_switch(&fabric, *a) && is_switch(&fabric, *b))
        .unwrap();
    let seen = fabric.port(a).unwrap();
    let (settings, state) = (seen.settings, seen.link);
    let disabled = selvedge_fabric::LinkState {
        state: selvedge_types::PortState::Down,
        phys: selvedge_types::PhysState::Disabled,
        ..state
    };
    fabric.set_port(a, disabled, settings);
    let notice = |service| Notice {
        service,
        since_ms: 0,
        disabled: BTreeSet::from([port_id(&fabric, a)]),
        reason: String::new(),
    };
    let local = fabric
        .end_ports()
        .map(|(at, _)| at)
        .find(|at| !is_switch(&fabric, *at))
        .unwrap();
    let mut list = OutOfService::default();
    list.insert(link(&fabric, a), notice(Service::Enable));
    assert_eq!(Withdrawn::of(&list, &fabric, local).poll, BTreeSet::from([a]));
    list.insert(Place::Switch(fabric.node(b.node).guid), notice(Service::Isolate));
    assert_eq!(Withdrawn::of(&list, &fabric, local).poll, BTreeSet::new());
}

type Listed<'a> = &'a [(Place, Service, &'a [PortId])];

/// Checks which services and numbers of ports remain of a list. `None`: it is up to date.
fn check_settled(fabric: &Fabric, places: Listed<'_>, disable: &BTreeSet<PortRef>, want: Option<&[(Service, usize)]>) {
    let mut list = OutOfService::default();
    for (place, service, disabled) in places {
        let notice = Notice {
            service: *service,
            since_ms: 0,
            disabled: disabled.iter().copied().collect(),
            reason: String::new(),
        };
        list.insert(*place, notice);
    }
    let settled = settled(&list, fabric, disable);
    let left = settled.map(|list| -> Vec<(Service, usize)> {
        let notices = list.iter().map(|(_, notice)| (notice.service, notice.disabled.len()));
        notices.collect()
    });
    assert_eq!(left.as_deref(), want, "{places:?}");
}

#[test]
fn a_list_is_brought_up_to_date_with_what_a_sweep_finds() {
    let world = bench("karytree:k=2,n=2").unwrap();
    let fabric = &world.fabric;
    let mut links = fabric.links().map(|link| (link.a, link.b));
    let (a, b) = links
        .find(|(a, b)| is_switch(fabric, *a) && is_switch(fabric, *b))
        .unwrap();
    let all: BTreeSet<PortRef> = fabric.links().flat_map(|link| [link.a, link.b]).collect();
    let switch = Place::Switch(fabric.node(b.node).guid);
    let cabled = |(_, port): &(PortNum, &Port)| port.peer.is_some();
    let links = fabric.node(b.node).external_ports().filter(cabled).count();
    let gone = PortId {
        node: Guid(0xdead),
        port: a.port,
    };
    let mut disabled_fabric = fabric.clone();
    let seen = fabric.port(a).unwrap();
    let disabled = LinkState {
        phys: PhysState::Disabled,
        ..seen.link
    };
    disabled_fabric.set_port(a, disabled, seen.settings);
    let at = port_id(fabric, a);
    let check = check_settled;
    let none = BTreeSet::new();
    check(fabric, &[(switch, Service::Isolate, &[])], &none, None);
    check(fabric, &[(switch, Service::Drain, &[])], &all, None);
    // Its ports are about to be disabled; one is noted already.
    check(
        fabric,
        &[(switch, Service::Isolate, &[])],
        &all,
        Some(&[(Service::Isolate, links)]),
    );
    check(fabric, &[(switch, Service::Isolate, &[at])], &BTreeSet::from([a]), None);
    // In service: the port is still disabled, is enabled, is out of reach.
    check(&disabled_fabric, &[(switch, Service::Enable, &[at])], &none, None);
    check(fabric, &[(switch, Service::Enable, &[at])], &none, Some(&[]));
    check(
        fabric,
        &[(switch, Service::Enable, &[at, gone])],
        &none,
        Some(&[(Service::Enable, 1)]),
    );
    // It was isolated before, and is drained now.
    check(
        fabric,
        &[(switch, Service::Drain, &[at])],
        &none,
        Some(&[(Service::Drain, 0)]),
    );
    // Another place keeps the port disabled, and enables it one day.
    check(
        &disabled_fabric,
        &[
            (switch, Service::Isolate, &[at]),
            (link(fabric, a), Service::Enable, &[at]),
        ],
        &none,
        Some(&[(Service::Isolate, 1)]),
    );
}

/// A manager is killed in the middle of a transition that drains a link: no packet of a host crosses it any more, and
/// its end still has an entry for the switch at the other end. The link is left out next, so the entry has to go first.
#[test]
fn found_tables_that_lead_over_a_drained_link_are_not_kept_as_they_are() {
    let world = bench("karytree:k=4,n=2").unwrap();
    let fabric = &world.fabric;
    let between = |link: &selvedge_fabric::Link| [link.a, link.b].iter().all(|&at| is_switch(fabric, at));
    let drained = fabric.links().find(between).unwrap();
    let list = || listed(link(fabric, drained.a), Service::Drain);
    let (_, result) = planned(&world, "updn", list());
    let plan = Arc::clone(&result.outcome.unwrap().plan);
    let check = |tables: &Tables, keeps: bool| {
        let (inventory, result) = planned_from(&world, (tables, Adopt::Found), "updn", list());
        let is_kept = result.events.iter().any(|event| event.code() == "SLV-SM-0025");
        assert_eq!(is_kept, keeps, "{:?}", result.events);
        let made = Arc::clone(&result.outcome.unwrap().plan);
        for &at in &inventory.withdrawn.idle {
            let switch = fabric.switch_index(at.node).unwrap();
            let leads = made
                .lids
                .by_lid()
                .find(|&(lid, _)| made.tables.get(switch, lid) == at.port.get());
            assert_eq!(leads, None, "{}", fabric.port_name(at));
        }
    };
    check(&plan.tables, true);
    let mut half_way = plan.tables.clone();
    let far = PortRef {
        node: drained.b.node,
        port: PortNum::MANAGEMENT,
    };
    let switch = fabric.switch_index(drained.a.node).unwrap();
    half_way.set(switch, plan.lids.base(far).unwrap(), drained.a.port.get());
    check(&half_way, false);
}
