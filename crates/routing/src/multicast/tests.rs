//! Trees on fabrics of all kinds, each judged.

use std::sync::Arc as Shared;

use selvedge_fabric::Link;
use selvedge_plan::multicast::Member;
use selvedge_topology::Spec;
use selvedge_types::{Mtu, NodeKind};
use selvedge_verify::{JudgeOptions, Kind, MulticastSubject, RouteTurns, Severity, judge_multicast};

use super::*;

/// A fabric with cables that are all ACTIVE.
fn fabric(spec: &str) -> Fabric {
    let Ok(Spec::Generated(recipe)) = spec.parse() else {
        panic!("{spec}")
    };
    let mut fabric = recipe.fabric().unwrap();
    let ends: Vec<PortRef> = fabric.links().flat_map(|link| [link.a, link.b]).collect();
    for at in ends {
        set_state(&mut fabric, at, PortState::Active);
    }
    fabric
}

fn set_state(fabric: &mut Fabric, at: PortRef, state: PortState) {
    let port = fabric.port(at).unwrap();
    let (mut link, mut settings) = (port.link, port.settings);
    link.state = state;
    link.phys = selvedge_types::PhysState::LinkUp;
    settings.mtu = Mtu::B4096;
    fabric.set_port(at, link, settings);
}

use selvedge_types::PortState;

fn hosts(fabric: &Fabric) -> Vec<Guid> {
    let ports = fabric.end_ports();
    let hosts = ports.filter(|(at, _)| fabric.node(at.node).kind == NodeKind::Ca);
    hosts.map(|(_, port)| port.guid).collect()
}

fn group(mlid: u16, members: &[Guid]) -> MulticastGroup {
    let mut members: Vec<Member> = members.iter().map(|&guid| Member { guid, receives: true }).collect();
    members.sort_unstable();
    MulticastGroup {
        mlid: Lid(mlid),
        mtu: Mtu::B2048,
        sl: Sl::default(),
        members: Shared::from(members),
    }
}

/// Plans trees, has the judge check the change, and applies it.
struct World {
    fabric: Fabric,
    groups: MulticastGroups,
    held: MulticastTables,
    roots: BTreeMap<Lid, Guid>,
}

impl World {
    fn new(spec: &str) -> Self {
        let fabric = fabric(spec);
        Self {
            held: MulticastTables::new(fabric.switches().len()),
            groups: MulticastGroups::default(),
            roots: BTreeMap::new(),
            fabric,
        }
    }

    /// Returns the number of Sets of each phase. If trees could deadlock with each other, they use one
    /// trunk. If the change could deadlock, the old trees are removed first.
    fn turn(&mut self) -> Vec<usize> {
        let stale = self.groups.iter().map(|group| group.mlid).collect();
        let none = Routes {
            turns: vec![Vec::new()],
            ..Routes::default()
        };
        for (routes, is_last) in [(None, false), (Some(&none), false), (Some(&none), true)] {
            if is_last {
                self.held = MulticastTables::new(self.held.switches());
            }
            let trees = trees(&TreeRequest {
                fabric: &self.fabric,
                groups: &self.groups,
                held: &self.held,
                roots: &self.roots,
                stale: &stale,
                routes,
            });
            let change = selvedge_plan::multicast::multicast_changes(Default::default(), &self.held, &trees.tables);
            let phases = change.phases.iter().map(Vec::len).collect();
            let subject = MulticastSubject {
                fabric: &self.fabric,
                groups: &self.groups,
                held: &self.held,
                wanted: &trees.tables,
                routes: &RouteTurns::none(&self.fabric),
                apart: &BTreeSet::new(),
            };
            match judge_multicast(&subject, change, &JudgeOptions::default()) {
                Ok(_) => {
                    (self.held, self.roots) = (trees.tables, trees.roots);
                    return phases;
                }
                Err(refusal) => {
                    let of_circle = refusal.verdict.count_of(Kind::MulticastCircle);
                    assert_eq!(refusal.verdict.count(Severity::Error), of_circle, "{refusal}");
                }
            }
        }
        panic!("no trees");
    }

    fn put(&mut self, mlid: u16, members: &[Guid]) -> Vec<usize> {
        self.groups.put(group(mlid, members));
        self.turn()
    }

    /// The ports of a group, by switch.
    fn masks(&self, mlid: u16) -> Vec<PortMask> {
        let all = (0..self.held.switches()).map(SwitchIdx::from_usize);
        all.map(|switch| self.held.mask(switch, Lid(mlid))).collect()
    }

    fn switches(&self, mlid: u16) -> usize {
        self.masks(mlid).iter().filter(|mask| !mask.is_empty()).count()
    }

    /// Links between switches.
    fn trunks(&self) -> Vec<Link> {
        let is_trunk = |link: &Link| {
            [link.a, link.b]
                .iter()
                .all(|at| self.fabric.switch_index(at.node).is_some())
        };
        self.fabric.links().filter(is_trunk).collect()
    }

    fn cut(&mut self, link: &Link) {
        set_state(&mut self.fabric, link.a, PortState::Down);
        set_state(&mut self.fabric, link.b, PortState::Down);
    }
}

#[test]
fn trees_are_as_small_as_they_can_be() {
    let check = |spec: &str, pick: &[usize], want: usize| {
        let mut world = World::new(spec);
        let hosts = hosts(&world.fabric);
        let members: Vec<Guid> = pick.iter().map(|&i| hosts[i]).collect();
        world.put(0xC000, &members);
        assert_eq!(world.switches(0xC000), want, "{spec} {pick:?}");
    };
    // One leaf; two leaves of one pod; two pods.
    check("karytree:k=4,n=3", &[0, 1], 1);
    check("karytree:k=4,n=3", &[0, 4], 3);
    check("karytree:k=4,n=3", &[0, 16], 5);
    check("torus:4x4,hosts=1", &[0, 1], 2);
    check("single:ports=36,hosts=36", &[0, 35], 1);
}

/// A tree, a torus and a random graph.
const FABRICS: [&str; 3] = [
    "karytree:k=4,n=3",
    "torus:4x4,hosts=2",
    "random:switches=20,degree=4,hosts=2,seed=3",
];

#[test]
fn who_joins_is_grafted_and_who_leaves_is_pruned() {
    /// The members change by one, and no switch loses a port (`grows`) or gets one.
    fn check(world: &mut World, members: &[Guid], grows: bool, what: &str) {
        let before = world.masks(0xC000);
        let phases = world.put(0xC000, members);
        assert!(!grows || phases.len() <= 1, "{what}: a join takes nothing away");
        for (old, new) in before.into_iter().zip(world.masks(0xC000)) {
            let (less, more) = if grows { (old, new) } else { (new, old) };
            assert!(less.is_within(more), "{what}, {} members", members.len());
        }
    }
    for spec in FABRICS {
        let mut world = World::new(spec);
        let mut members = Vec::new();
        for host in hosts(&world.fabric).into_iter().step_by(3) {
            members.push(host);
            check(&mut world, &members, true, spec);
        }
        while members.len() > 1 {
            members.remove(members.len() / 2);
            check(&mut world, &members, false, spec);
        }
        world.put(0xC000, &[]);
        let left = world.switches(0xC000);
        assert_eq!(left, 0, "{spec}: an ended group leaves nothing behind");
    }
}

#[test]
fn lost_links_move_what_hung_on_them() {
    for spec in FABRICS {
        let mut world = World::new(spec);
        let hosts = hosts(&world.fabric);
        for mlid in 0..40 {
            let some: Vec<Guid> = hosts.iter().skip(mlid % 3).step_by(1 + mlid % 5).copied().collect();
            world.groups.put(group(0xC000 + mlid as u16, &some));
        }
        assert!(world.turn().len() == 1, "{spec}: fresh trees only grow");
        assert!(world.turn().is_empty(), "{spec}: what is good stays");
        for link in world.trunks().iter().step_by(7) {
            world.cut(link);
            let phases = world.turn();
            assert!(phases.len() <= 2, "{spec}: {phases:?}");
        }
    }
}

#[test]
fn groups_share_the_links() {
    let mut world = World::new("karytree:k=4,n=3");
    let hosts = hosts(&world.fabric);
    for mlid in 0..16 {
        world.groups.put(group(0xC000 + mlid, &hosts));
    }
    world.turn();
    let roots: BTreeSet<Guid> = world.roots.values().copied().collect();
    assert_eq!(roots.len(), 16, "a root for each");
}

#[test]
fn parts_without_a_way_have_trees_of_their_own() {
    let mut world = World::new("ring:switches=4,hosts=1");
    let hosts = hosts(&world.fabric);
    let trunks = world.trunks();
    assert_eq!(trunks.len(), 4);
    world.cut(&trunks[0]);
    world.cut(&trunks[3]);
    world.put(0xC000, &hosts);
    assert_eq!(world.switches(0xC000), 4);
}

#[test]
fn a_trunk_spans_and_its_order_holds() {
    for spec in FABRICS {
        let fabric = fabric(spec);
        let net = Net::new(&fabric);
        for root in 0..net.switches() as u32 {
            let mut order = order::Order::new(&net, &[]).unwrap();
            let ground = order::Ground {
                net: &net,
                can: &|_| true,
                is_first: &|cable| cable % 3 == 0,
                shuffle: root,
            };
            let trunk = order::Trunk::grow(&mut order, &ground, root);
            assert_eq!(trunk.switches.len(), net.switches(), "{spec} from {root}");
            assert!(order.is_in_order(), "{spec} from {root}");
        }
    }
}
