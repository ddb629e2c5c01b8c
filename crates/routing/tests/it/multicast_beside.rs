//! Trees beside the routes of every engine: on any fabric there are trees that the judge finds free of deadlock.

use crate::common;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::multicast::{Member, MulticastGroup, MulticastGroups, MulticastTables, multicast_changes};
use selvedge_plan::{COPIES_LEVEL, Generation, Lids, SlToVl};
use selvedge_routing::multicast::{Routes, TreeRequest, Trees, probe, trees};
use selvedge_routing::{Engine, Options, Routed};
use selvedge_sim::{Par, Rng, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Guid, Lid, Mtu, NodeKind, PhysState, PortState, Sl, Vl};
use selvedge_verify::{
    JudgeOptions, Kind, MulticastSubject, RouteTurns, Subject, circular_groups, judge_multicast, verify,
};

fn set_state(fabric: &mut Fabric, at: PortRef, state: PortState) {
    let port = fabric.port(at).unwrap();
    let (mut link, mut settings) = (port.link, port.settings);
    link.state = state;
    link.phys = if state == PortState::Active {
        PhysState::LinkUp
    } else {
        PhysState::Disabled
    };
    settings.mtu = Mtu::B4096;
    fabric.set_port(at, link, settings);
}

fn generated(spec: &str) -> Fabric {
    let Ok(Spec::Generated(recipe)) = spec.parse() else {
        panic!("{spec}: no generator")
    };
    let mut fabric = recipe.fabric().unwrap();
    let ends: Vec<PortRef> = fabric.links().flat_map(|link| [link.a, link.b]).collect();
    ends.into_iter()
        .for_each(|at| set_state(&mut fabric, at, PortState::Active));
    fabric
}

fn hosts(fabric: &Fabric) -> Vec<Guid> {
    let ports = fabric.end_ports();
    let hosts = ports.filter(|(at, _)| fabric.node(at.node).kind == NodeKind::Ca);
    hosts.map(|(_, port)| port.guid).collect()
}

/// Number of lanes of routes, and the lane of copies if copies have a lane of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lanes {
    routes: u8,
    copies: Option<Vl>,
}

impl Lanes {
    const fn shared(routes: u8) -> Self {
        Self { routes, copies: None }
    }

    fn own(routes: u8) -> Self {
        let copies = Vl::new(routes);
        Self { routes, copies }
    }

    /// Returns the service level of groups.
    fn level(self) -> Sl {
        self.copies.map_or_else(Sl::default, |_| COPIES_LEVEL)
    }
}

/// One group of all, some of a few.
fn groups(fabric: &Fabric, rng: &mut Rng, sl: Sl) -> MulticastGroups {
    let all = hosts(fabric);
    let mut groups = MulticastGroups::default();
    for mlid in 0..5_u16 {
        let mut some = all.clone();
        rng.shuffle(&mut some);
        some.truncate(if mlid == 0 {
            all.len()
        } else {
            2 + rng.below(all.len() as u64 - 1) as usize
        });
        some.sort_unstable();
        groups.put(MulticastGroup {
            mlid: Lid(0xC000 + mlid),
            mtu: Mtu::B2048,
            sl,
            members: some.iter().map(|&guid| Member { guid, receives: true }).collect(),
        });
    }
    groups
}

/// Number of cases, and how many of them needed each means until the judge accepted the trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Needed {
    cases: u32,
    /// Cases in which trees made without regard to routes could deadlock.
    beside: u32,
    /// Cases in which members were left apart.
    apart: u32,
    /// Cases in which members were left apart although no link was lost.
    whole: u32,
    /// Cases in which the old trees had to be removed first.
    taken: u32,
}

struct World {
    fabric: Fabric,
    groups: MulticastGroups,
    held: MulticastTables,
    roots: BTreeMap<Lid, Guid>,
    needed: Needed,
    lanes: Lanes,
}

impl World {
    fn new(fabric: Fabric, rng: &mut Rng, lanes: Lanes) -> Self {
        Self {
            lanes,
            groups: groups(&fabric, rng, lanes.level()),
            held: MulticastTables::new(fabric.switches().len()),
            roots: BTreeMap::new(),
            needed: Needed::default(),
            fabric,
        }
    }

    /// Plans trees as the manager does, and applies them.
    fn turn(&mut self, lids: &Lids, routed: &Routed, stale: &BTreeSet<Lid>, what: &str) {
        let sl_to_vl = SlToVl::with_copies(routed.lanes, self.lanes.copies.filter(|_| routed.lanes > 1));
        let subject = Subject::tables(&self.fabric, lids, &routed.tables, &routed.service_levels, &sl_to_vl);
        if !verify(subject, &JudgeOptions::default()).is_ok() {
            return;
        }
        self.needed.cases += 1;
        let turns = RouteTurns::new(subject, &[]);
        let level = |sl: usize| Sl::new(sl as u8).unwrap();
        let routes = Routes {
            turns: (0..turns.lanes()).map(|lane| turns.on(lane).collect()).collect(),
            lane_of: std::array::from_fn(|sl| turns.lane(level(sl))),
        };
        let (all, tables) = probe(&self.fabric);
        let is_free = circular_groups(&turns, &all.on_level(self.lanes.level()), &tables).is_empty();
        for attempt in if is_free { 0..3 } else { 1..3 } {
            let request = TreeRequest {
                fabric: &self.fabric,
                groups: &self.groups,
                held: &self.held,
                roots: &self.roots,
                stale,
                routes: (attempt > 0).then_some(&routes),
            };
            let made = trees(&request);
            let kinds = self.judged(&turns, &made);
            if kinds.is_empty() {
                self.needed.apart += u32::from(!made.apart.is_empty());
                self.needed.whole += u32::from(!made.apart.is_empty() && what.ends_with("whole"));
                (self.held, self.roots) = (made.tables, made.roots);
                let left = circular_groups(&turns, &self.groups, &self.held);
                assert!(left.is_empty(), "{what}: {left:?}");
                return;
            }
            assert_eq!(kinds, [Kind::MulticastCircle], "{what}, attempt {attempt}");
            match attempt {
                0 => self.needed.beside += 1,
                _ => {
                    // The change itself closes a cycle: the old trees are removed first.
                    self.needed.taken += 1;
                    self.held = MulticastTables::new(self.fabric.switches().len());
                }
            }
        }
        panic!("{what}: no trees");
    }

    fn judged(&self, turns: &RouteTurns, made: &Trees) -> Vec<Kind> {
        let change = multicast_changes(Generation(1), &self.held, &made.tables);
        let apart = made.apart.iter().map(|(mlid, _)| *mlid).collect();
        let subject = MulticastSubject {
            fabric: &self.fabric,
            groups: &self.groups,
            held: &self.held,
            wanted: &made.tables,
            routes: turns,
            apart: &apart,
        };
        match judge_multicast(&subject, change, &JudgeOptions::default()) {
            Ok(_) => Vec::new(),
            Err(refusal) => refusal
                .verdict
                .totals
                .iter()
                .filter(|t| t.severity == selvedge_verify::Severity::Error)
                .map(|t| t.kind)
                .collect(),
        }
    }

    fn all(&self) -> BTreeSet<Lid> {
        self.groups.iter().map(|group| group.mlid).collect()
    }
}

fn route(engine: Engine, fabric: &Fabric, lids: &Lids, (lanes, previous): (u8, Option<&Routed>)) -> Option<Routed> {
    let options = Options {
        lanes: Some(lanes),
        previous: previous.map(|routed| Arc::new(routed.tables.clone())),
        weave: selvedge_routing::WeaveOptions {
            previous_levels: previous.map(|routed| Arc::new(routed.service_levels.clone())),
            ..Default::default()
        },
        ..Options::default()
    };
    engine.route(fabric, lids, &options, Seed(0), Par::Sequential).ok()
}

/// Routes with an engine, then loses links one after another; the engine repairs its tables, and trees are planned
/// after each loss.
fn check(spec: &str, engine: Engine, lanes: Lanes, losses: usize) -> Needed {
    let fabric = generated(spec);
    let lids = common::number(&fabric, 0);
    let mut rng = Seed(7).child(spec).rng();
    let mut world = World::new(fabric, &mut rng, lanes);
    let Some(mut routed) = route(engine, &world.fabric, &lids, (lanes.routes, None)) else {
        return Needed::default();
    };
    let all = world.all();
    world.turn(&lids, &routed, &all, &format!("{spec} {engine:?}, whole"));
    let mut trunks: Vec<_> = world.fabric.links().collect();
    trunks.retain(|link| {
        [link.a, link.b]
            .iter()
            .all(|at| world.fabric.switch_index(at.node).is_some())
    });
    rng.shuffle(&mut trunks);
    for (lost, link) in trunks.iter().take(losses).enumerate() {
        set_state(&mut world.fabric, link.a, PortState::Down);
        set_state(&mut world.fabric, link.b, PortState::Down);
        let Some(next) = route(engine, &world.fabric, &lids, (lanes.routes, Some(&routed))) else {
            break;
        };
        routed = next;
        world.turn(&lids, &routed, &all, &format!("{spec} {engine:?}, {} lost", lost + 1));
    }
    world.needed
}

#[test]
fn every_engine_leaves_room_for_trees() {
    let mut by_engine: BTreeMap<String, Needed> = BTreeMap::new();
    let mut specs: Vec<(String, usize)> = Vec::new();
    for seed in 1..=12 {
        specs.push((format!("random:switches=16,degree=3,hosts=1,seed={seed}"), 4));
        specs.push((format!("random:switches=24,degree=4,hosts=2,seed={seed}"), 4));
    }
    for seed in 1..=4 {
        specs.push((format!("karytree:k=4,n=3,remove-links={seed},seed={seed}"), 6));
        specs.push((format!("torus:4x4,hosts=1,remove-links={seed},seed={seed}"), 4));
    }
    for spec in [
        "torus:3x3x3,hosts=1",
        "mesh:4x4,hosts=1",
        "ring:switches=7,hosts=2",
        "mport:m=4,n=3",
    ] {
        specs.push((spec.to_owned(), 3));
    }
    for (spec, losses) in &specs {
        // Dor and lash promise no room.
        let left_out = [Engine::Auto, Engine::File, Engine::Dor, Engine::Lash];
        for engine in Engine::ALL.into_iter().filter(|engine| !left_out.contains(engine)) {
            let lanes = [Lanes::shared(1), Lanes::shared(4), Lanes::own(4)];
            let few = [Lanes::shared(2), Lanes::own(2), Lanes::own(3)];
            let relies = matches!(engine, Engine::Weave | Engine::Dfsssp);
            for lanes in lanes.into_iter().chain(few.into_iter().filter(|_| relies)) {
                let needed = check(spec, engine, lanes, *losses);
                let own = if lanes.copies.is_some() { "+1" } else { "" };
                let name = format!("{} {}{own}", engine.name(), lanes.routes);
                let sum = by_engine.entry(name).or_default();
                sum.cases += needed.cases;
                sum.beside += needed.beside;
                sum.apart += needed.apart;
                sum.whole += needed.whole;
                sum.taken += needed.taken;
            }
        }
    }
    by_engine
        .iter()
        .for_each(|(engine, needed)| println!("{engine}: {needed:?}"));
    for (engine, needed) in by_engine {
        // With several lanes `dfsssp` fills the first with as many turns as fit, and repairs of `weave` may too: then
        // members are left apart, which the judge knows. On a lane of their own there is room for all trees, and trees
        // follow each lost link without being taken apart.
        let is_full = ["dfsssp 2", "dfsssp 4", "weave 2", "weave 4"].contains(&engine.as_str());
        assert!(needed.cases > 0, "{engine}");
        assert_eq!(needed.apart > 0, is_full, "{engine}: {needed:?}");
        assert_eq!(
            needed.whole > 0,
            is_full && engine.starts_with("dfsssp"),
            "{engine}: {needed:?}"
        );
        let is_own = (engine.starts_with("dfsssp") || engine.starts_with("weave")) && engine.ends_with("+1");
        assert!(!is_own || needed.taken == 0, "{engine}: {needed:?}");
    }
}

/// In a small fabric routes of `dfsssp` can take the turns that any tree needs. So it is not enough that routes fit on
/// one lane. If they need only one of several lanes, copies are on it too.
#[test]
fn dfsssp_leaves_room_on_one_lane_in_a_small_fabric() {
    for lanes in [Lanes::shared(1), Lanes::shared(2), Lanes::own(2)] {
        let needed = check("random:switches=6,degree=3,hosts=2,seed=43", Engine::Dfsssp, lanes, 0);
        assert!(needed.cases > 0 && needed.apart == 0, "{lanes:?}: {needed:?}");
    }
}
