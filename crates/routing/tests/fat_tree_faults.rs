//! What `fat-tree` does when links are lost and come back: which entries move, what the others then carry, what is
//! kept of tables in force, and what spreading anew is worth. Each result is judged.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, NO_PATH, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, FatTree, FatTreeOptions, HostLists, Options, Rebalance, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::Lid;
use selvedge_verify::{ContentionOptions, Figures, JudgeOptions, Subject, contention, verify};

fn make(spec: &str) -> Fabric {
    match spec.parse().unwrap() {
        Spec::Generated(recipe) => recipe.fabric().unwrap(),
        Spec::File(path) => panic!("{path:?} is a file"),
    }
}

/// Routes and judges; there must be no error.
fn route(what: &str, fabric: &Fabric, lids: &Lids, options: &Options) -> (Routed, Figures) {
    let routed = Engine::FatTree
        .route(fabric, lids, options, Seed(0), Par::Sequential)
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let lanes = SlToVl::modulo(routed.lanes);
    let subject = Subject::tables(fabric, lids, &routed.tables, &routed.service_levels, &lanes);
    let verdict = verify(subject, &JudgeOptions::default());
    let first = verdict.errors().next();
    assert!(verdict.is_ok(), "{what}: {first:?}");
    (routed, verdict.figures)
}

fn with_previous(tables: &Tables) -> Options {
    Options {
        previous: Some(Arc::new(tables.clone())),
        ..Options::default()
    }
}

fn with_nominal(fabric: &Fabric) -> Options {
    Options {
        fat_tree: FatTreeOptions {
            nominal: Some(Arc::new(fabric.clone())),
            ..FatTreeOptions::default()
        },
        ..Options::default()
    }
}

fn full() -> Options {
    Options {
        rebalance: Rebalance::Full,
        ..Options::default()
    }
}

/// What the fullest link may carry when spread anew: no more than before, in trees of two levels a share more than in
/// the whole tree.
fn allowed(spec: &str, before: u64) -> u64 {
    let whole = spec.split_once("remove-links").map_or(spec, |(whole, _)| whole);
    let (times, by) = match whole {
        "sx6536:" | "pgft:m=6x4,w=1x2,p=1x3," => (8, 5),
        "xgft:m=8x6,w=1x4," => (23, 20),
        w if w.contains("n=2,") => (23, 20),
        _ => return before,
    };
    let whole = make(whole.trim_end_matches([',', ':']));
    let (_, figures) = route(spec, &whole, &common::number(&whole, 0), &Options::default());
    before.max(figures.load.max * times / by)
}

fn switch_links(fabric: &Fabric) -> usize {
    let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
    fabric.links().filter(|l| is_switch(l.a) && is_switch(l.b)).count()
}

fn is_host(fabric: &Fabric, at: PortRef) -> bool {
    fabric.switch_index(at.node).is_none()
}

/// The ways of a generated tree, found without the engine: the names of its switches tell their levels.
struct Truth {
    level: Vec<u32>,
    /// By switch: neighbours by port.
    near: Vec<BTreeMap<u8, usize>>,
}

impl Truth {
    fn new(fabric: &Fabric) -> Self {
        let nodes = || fabric.switches().iter().map(|&n| fabric.node(n));
        let level = |name: &str| name.split("-L").nth(1).unwrap()[..1].parse().unwrap();
        let near = |node: &selvedge_fabric::Node| {
            let to = |peer: PortRef| fabric.switch_index(peer.node).map(|s| s.0 as usize);
            let links = node.external_ports();
            links.filter_map(|(port, p)| Some((port.get(), to(p.peer?)?))).collect()
        };
        Self {
            level: nodes().map(|n| level(&n.description)).collect(),
            near: nodes().map(near).collect(),
        }
    }

    /// Switches from which `to` is reached by going down, and by going up, then down.
    fn reach(&self, to: usize) -> (Vec<bool>, Vec<bool>) {
        let mut order: Vec<usize> = (0..self.level.len()).collect();
        order.sort_by_key(|&s| self.level[s]);
        let mut down: Vec<bool> = (0..order.len()).map(|s| s == to).collect();
        for &s in &order {
            let mut below = self.near[s].values().filter(|&&p| self.level[p] < self.level[s]);
            down[s] |= below.any(|&p| down[p]);
        }
        let mut any = down.clone();
        for &s in order.iter().rev() {
            let mut above = self.near[s].values().filter(|&&p| self.level[p] > self.level[s]);
            any[s] |= above.any(|&p| any[p]);
        }
        (down, any)
    }
}

/// Entries: switch, LID.
type Entries = BTreeSet<(u32, u16)>;

/// Entries of `before` towards hosts that lead nowhere on the fabric of `truth`: over a link that is gone, or to a
/// switch that has no way on. First those of switches that have another way, which must move; second all.
fn dead_entries(fabric: &Fabric, truth: &Truth, lids: &Lids, before: &Tables) -> (Entries, Entries) {
    let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
    for (lid, owner) in lids.by_lid().filter(|(_, o)| is_host(fabric, *o)) {
        let to = common::switch_of(fabric, owner).unwrap();
        let (down, any) = truth.reach(to.0 as usize);
        for s in before.switch_indices().filter(|&s| s != to) {
            let egress = before.get(s, lid);
            let at = s.0 as usize;
            let leads = truth.near[at].get(&egress).is_some_and(|&peer| {
                let falls = truth.level[peer] < truth.level[at];
                if falls { down[peer] } else { any[peer] }
            });
            if egress != NO_PATH && !leads {
                may.insert((s.0, lid.0));
                if any[at] {
                    must.insert((s.0, lid.0));
                }
            }
        }
    }
    (must, may)
}

/// All entries that must move did, and no other did that had no reason to.
fn assert_least(what: &str, did: &Entries, (must, may): &(Entries, Entries)) {
    let (stayed, needless): (Vec<_>, Vec<_>) = (must.difference(did).collect(), did.difference(may).collect());
    assert!(stayed.is_empty(), "{what}: dead entries stay {stayed:?}");
    assert!(needless.is_empty(), "{what}: entries move without need {needless:?}");
}

/// Entries towards hosts that differ.
fn moved(fabric: &Fabric, lids: &Lids, before: &Tables, after: &Tables) -> Entries {
    let to_hosts = lids.by_lid().filter(|(_, o)| is_host(fabric, *o));
    let all = to_hosts.flat_map(|(lid, _)| before.switch_indices().map(move |s| (s, lid)));
    all.filter(|&(s, lid)| before.get(s, lid) != after.get(s, lid))
        .map(|(s, lid)| (s.0, lid.0))
        .collect()
}

#[test]
fn what_moves_is_what_must_move() {
    // Every link of small trees, every so many-th of large ones.
    // A 2-ary tree is too thin to tell a lost link from one that never was: only there somebody must remember.
    for (spec, step) in [
        ("karytree:k=4,n=2", 1),
        ("karytree:k=6,n=2,guids=shuffled", 1),
        ("karytree:k=3,n=3", 1),
        ("karytree:k=4,n=3,guids=shuffled", 1),
        ("mport:m=6,n=3", 1),
        ("karytree:k=2,n=4", 1),
        ("karytree:k=18,n=2", 61),
        ("karytree:k=12,n=3", 797),
    ] {
        let whole = make(spec);
        let lids = common::number(&whole, 0);
        let (before, _) = route(spec, &whole, &lids, &Options::default());
        for lost in (0..switch_links(&whole)).step_by(step) {
            let what = format!("{spec} without link {lost}");
            let damaged = common::without(&whole, |l| l == lost);
            let must = dead_entries(&whole, &Truth::new(&damaged), &lids, &before.tables);
            assert!(!must.0.is_empty(), "{what}: a link that nobody used");
            for (known, options) in [
                ("nothing", Options::default()),
                ("the whole fabric", with_nominal(&whole)),
                ("the tables", with_previous(&before.tables)),
            ] {
                if spec.contains("k=2,") && known == "nothing" {
                    continue;
                }
                let (after, figures) = route(&what, &damaged, &lids, &options);
                assert_eq!(figures.host_pairs_reached, figures.host_pairs, "{what}");
                let did = moved(&whole, &lids, &before.tables, &after.tables);
                assert_least(&format!("{what}, {known} remembered"), &did, &must);
            }
        }
        let (again, _) = route(spec, &whole, &lids, &with_nominal(&whole));
        assert_eq!(again.tables, before.tables, "{spec}: the link is back");
    }
}

#[test]
fn of_parallel_links_only_the_lost_ones_destinations_move() {
    for (spec, step) in [("sx6536", 13), ("pgft:m=4x4,w=1x2,p=1x3", 1)] {
        let whole = make(spec);
        let lids = common::number(&whole, 0);
        let (before, _) = route(spec, &whole, &lids, &Options::default());
        let links: Vec<_> = whole
            .links()
            .filter(|l| !is_host(&whole, l.a) && !is_host(&whole, l.b))
            .collect();
        for lost in (0..links.len()).step_by(step) {
            let what = format!("{spec} without link {lost}");
            let damaged = common::without(&whole, |l| l == lost);
            let ends =
                [links[lost].a, links[lost].b].map(|end| (whole.switch_index(end.node).unwrap(), end.port.get()));
            for options in [Options::default(), with_nominal(&whole), with_previous(&before.tables)] {
                let (after, _) = route(&what, &damaged, &lids, &options);
                for (s, lid) in moved(&whole, &lids, &before.tables, &after.tables) {
                    let way = common::walk(&whole, &lids, &before.tables, SwitchIdx(s), Lid(lid)).unwrap();
                    let over = |at: &SwitchIdx| ends.contains(&(*at, before.tables.get(*at, Lid(lid))));
                    assert!(way.iter().any(over), "{what}: switch {s}, LID {lid} did not use it");
                }
            }
        }
    }
}

#[test]
fn a_second_fault_moves_nothing_back_and_repair_moves_all_back() {
    for (spec, first, second) in [
        ("karytree:k=4,n=3", 3, 90),
        ("karytree:k=6,n=2", 1, 20),
        ("sx6536", 4, 77),
    ] {
        let whole = make(spec);
        let lids = common::number(&whole, 0);
        let (before, _) = route(spec, &whole, &lids, &Options::default());
        let one = common::without(&whole, |l| l == first);
        let (once, _) = route(spec, &one, &lids, &with_previous(&before.tables));
        let both = common::without(&whole, |l| l == first || l == second);
        let (twice, _) = route(spec, &both, &lids, &with_previous(&once.tables));
        let did = moved(&whole, &lids, &once.tables, &twice.tables);
        let must = dead_entries(&whole, &Truth::new(&both), &lids, &once.tables);
        if spec != "sx6536" {
            assert_least(spec, &did, &must);
        }
        // The first link is back: with the tables in force known nothing moves, without them its entries return.
        let repaired = common::without(&whole, |l| l == second);
        let (calm, _) = route(spec, &repaired, &lids, &with_previous(&twice.tables));
        let truth = Truth::new(&both);
        for (s, lid) in moved(&whole, &lids, &twice.tables, &calm.tables) {
            let to = common::switch_of(&whole, lids.owner(Lid(lid)).unwrap()).unwrap();
            let had_way = truth.reach(to.0 as usize).1[s as usize];
            assert!(!had_way, "{spec}: switch {s}, LID {lid} moved though it led there");
        }
        let (anew, _) = route(spec, &repaired, &lids, &with_nominal(&whole));
        let (direct, _) = route(spec, &repaired, &lids, &with_previous(&before.tables));
        assert_eq!(anew.tables, direct.tables, "{spec}");
    }
}

#[test]
fn a_fabric_is_taken_over_without_moving_an_entry() {
    for spec in [
        "karytree:k=4,n=3",
        "sx6536",
        "mport:m=8,n=3",
        "karytree:k=6,n=2,guids=shuffled",
    ] {
        let whole = make(spec);
        let lids = common::number(&whole, 0);
        for engine in [Engine::Ftree, Engine::UpDn] {
            let theirs = engine
                .route(&whole, &lids, &Options::default(), Seed(0), Par::Sequential)
                .unwrap();
            let (ours, _) = route(spec, &whole, &lids, &with_previous(&theirs.tables));
            let name = engine.name();
            assert!(
                moved(&whole, &lids, &theirs.tables, &ours.tables).is_empty(),
                "{spec} from {name}"
            );
            let damaged = common::without(&whole, |l| l == 2);
            let (after, figures) = route(spec, &damaged, &lids, &with_previous(&ours.tables));
            assert_eq!(figures.host_pairs_reached, figures.host_pairs, "{spec} from {name}");
            let must = dead_entries(&whole, &Truth::new(&damaged), &lids, &ours.tables);
            let did = moved(&whole, &lids, &ours.tables, &after.tables);
            assert!(must.0.is_subset(&did), "{spec} from {name}");
            if spec != "sx6536" {
                assert_least(&format!("{spec} from {name}"), &did, &must);
            }
        }
    }
}

#[test]
fn one_lost_link_loads_no_other_much() {
    // (spec, hosts per leaf, hosts elsewhere, links up from a leaf, every so many-th link): at two levels all links.
    let check = |spec: &str, hosts: u64, remote: u64, up: u64, step: usize| {
        let whole = make(spec);
        let lids = common::number(&whole, 0);
        let bound = (hosts * remote).div_ceil(up - 1);
        for lost in (0..switch_links(&whole)).step_by(step) {
            let damaged = common::without(&whole, |l| l == lost);
            let what = format!("{spec} without link {lost}");
            let (_, minimal) = route(&what, &damaged, &lids, &Options::default());
            assert!(
                minimal.load.max * 100 <= bound * 115,
                "{what}: {} > 1.15 × {bound}",
                minimal.load.max
            );
        }
    };
    check("sx6536", 18, 306, 18, 1);
    check("karytree:k=18,n=2", 18, 306, 18, 1);
    check("karytree:k=12,n=3", 12, 1716, 12, 307);
}

#[test]
fn what_a_link_carried_is_spread_over_all_other_positions() {
    let whole = make("karytree:k=6,n=2");
    let lids = common::number(&whole, 0);
    let tree = FatTree::detect(&whole, &FatTreeOptions::default(), Par::Sequential).unwrap();
    let (before, _) = route("whole", &whole, &lids, &Options::default());
    // A spine loses its link to a leaf: every other leaf sends that spine's host of the leaf over another spine.
    let lost = whole
        .links()
        .find(|l| !is_host(&whole, l.a) && !is_host(&whole, l.b))
        .unwrap();
    let [a, b] = [lost.a, lost.b].map(|end| whole.switch_index(end.node).unwrap());
    let level = Truth::new(&whole).level;
    let (leaf, spine) = if level[a.0 as usize] < level[b.0 as usize] {
        (a, b)
    } else {
        (b, a)
    };
    let damaged = common::without(&whole, |l| l == 0);
    let (after, _) = route("damaged", &damaged, &lids, &Options::default());
    let hosts = lids
        .by_lid()
        .filter(|(_, o)| is_host(&whole, *o) && common::switch_of(&whole, *o) == Some(leaf));
    let (victim, _) = hosts
        .filter(|(lid, _)| before.tables.get(spine, *lid) != NO_PATH)
        .find(|(lid, _)| {
            let walk = |from| common::walk(&whole, &lids, &before.tables, from, *lid).unwrap();
            before
                .tables
                .switch_indices()
                .any(|s| s != leaf && level[s.0 as usize] == 1 && walk(s).contains(&spine))
        })
        .unwrap();
    let leaves = || {
        before
            .tables
            .switch_indices()
            .filter(|&s| s != leaf && level[s.0 as usize] == 1)
    };
    let ways: BTreeSet<u8> = leaves().map(|s| after.tables.get(s, victim)).collect();
    assert_eq!(ways.len(), 5, "five other leaves, five other spines: {ways:?}");
    // Known before, for each switch: its own link to that spine being gone.
    let mut known = BTreeSet::new();
    for s in leaves() {
        let lost = before.tables.get(s, victim);
        known.insert(tree.backup(&lids, s, victim, lost).unwrap().unwrap());
    }
    assert_eq!(known.len(), 5, "{known:?}");
}

#[test]
fn spreading_anew_is_never_worse_and_reaches_the_bound() {
    // What a leaf with the fewest links left must put on each.
    let bound = |fabric: &Fabric| {
        let truth = Truth::new(fabric);
        let hosts = |s: usize| {
            let ports = fabric.node(fabric.switches()[SwitchIdx(s as u32)]).external_ports();
            ports
                .filter_map(|(_, p)| p.peer)
                .filter(|p| is_host(fabric, *p))
                .count() as u64
        };
        let all: u64 = (0..truth.near.len()).map(hosts).sum();
        let of = |s: usize| hosts(s) * (all - hosts(s)).div_ceil(truth.near[s].len().max(1) as u64);
        (0..truth.near.len()).map(of).max().unwrap()
    };
    for spec in [
        "sx6536:remove-links=1%",
        "sx6536:remove-links=3%",
        "karytree:k=18,n=2,remove-links=1%",
        "karytree:k=18,n=2,remove-links=3%",
        "karytree:k=6,n=3,remove-links=1%",
        "karytree:k=6,n=3,remove-links=3%",
        "mport:m=8,n=3,remove-links=3%",
        "pgft:m=4x4x4,w=1x2x2,p=1x2x2,remove-links=5%",
        "karytree:k=4,n=2,rails=2,remove-links=1",
    ] {
        for seed in 21..=25 {
            let what = format!("{spec},seed={seed}");
            let fabric = make(&what);
            let lids = common::number(&fabric, 0);
            let (_, before) = route(&what, &fabric, &lids, &Options::default());
            let (spread, after) = route(&what, &fabric, &lids, &full());
            let most = allowed(spec, before.load.max);
            assert!(
                after.load.max <= most,
                "{what}: {} after {}",
                after.load.max,
                before.load.max
            );
            assert!(
                (after.load.mean - before.load.mean).abs() < 0.01,
                "{what}: no way is longer"
            );
            if spec.contains("n=2,rem") {
                let least = bound(&fabric);
                assert!((least..=most.min(least.max(351))).contains(&after.load.max), "{what}");
            }
            let again = Engine::FatTree
                .route(&fabric, &lids, &full(), Seed(9), Par::Rayon)
                .unwrap();
            assert_eq!(again.tables, spread.tables, "{what}: the same on any number of threads");
            // What was spread stays where it is.
            let (kept, _) = route(&what, &fabric, &lids, &with_previous(&spread.tables));
            assert!(moved(&fabric, &lids, &spread.tables, &kept.tables).is_empty(), "{what}");
        }
    }
    let whole = make("karytree:k=6,n=3");
    let lids = common::number(&whole, 0);
    let (plain, _) = route("whole", &whole, &lids, &Options::default());
    let (spread, _) = route("whole", &whole, &lids, &full());
    assert_eq!(plain.tables, spread.tables, "nothing to gain on a whole tree");
}

#[test]
fn spread_anew_fewer_packets_meet_in_trees_of_two_levels() {
    for spec in ["sx6536:remove-links=3%", "karytree:k=18,n=2,remove-links=3%"] {
        for seed in 21..=23 {
            let what = format!("{spec},seed={seed}");
            let fabric = make(&what);
            let lids = common::number(&fabric, 0);
            let bandwidth = |options: &Options| {
                let (routed, _) = route(&what, &fabric, &lids, options);
                let lanes = SlToVl::modulo(routed.lanes);
                let subject = Subject::tables(&fabric, &lids, &routed.tables, &routed.service_levels, &lanes);
                contention(subject, &ContentionOptions::default()).bisection.mean
            };
            let (minimal, spread) = (bandwidth(&Options::default()), bandwidth(&full()));
            assert!(spread > minimal, "{what}: {spread} after {minimal}");
        }
    }
}

#[test]
fn each_downward_link_of_the_named_trees_carries_one_host() {
    for spec in ["sx6536", "karytree:k=18,n=2", "karytree:k=12,n=3"] {
        let fabric = make(spec);
        let lids = common::number(&fabric, 0);
        let (ours, figures) = route(spec, &fabric, &lids, &Options::default());
        let (ways, truth) = (&ours.tables, Truth::new(&fabric));
        let mut carried: BTreeMap<(usize, u8), Lid> = BTreeMap::new();
        for (lid, owner) in lids.by_lid().filter(|(_, o)| is_host(&fabric, *o)) {
            let mut seen = BTreeSet::new();
            for leaf in (0..truth.level.len()).filter(|&s| truth.level[s] == 1) {
                let mut at = leaf;
                while Some(SwitchIdx(at as u32)) != common::switch_of(&fabric, owner) && seen.insert(at) {
                    let egress = ways.get(SwitchIdx(at as u32), lid);
                    let next = truth.near[at][&egress];
                    if truth.level[next] < truth.level[at] {
                        let only = *carried.entry((at, egress)).or_insert(lid);
                        assert_eq!(only, lid, "{spec}: switch {at} port {egress}");
                    }
                    at = next;
                }
            }
        }
        let theirs = Engine::Ftree
            .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
            .unwrap();
        let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
        let subject = Subject::tables(&fabric, &lids, &theirs.tables, &levels, &lanes);
        let judged = verify(subject, &JudgeOptions::default());
        assert!(figures.load.max <= judged.figures.load.max, "{spec}");
    }
}

#[test]
fn lid_offsets_of_a_host_share_no_link() {
    for (spec, lmc) in [("karytree:k=4,n=3", 2), ("sx6536", 3), ("karytree:k=6,n=2", 2)] {
        let fabric = make(spec);
        let lids = common::number(&fabric, lmc);
        let (routed, _) = route(spec, &fabric, &lids, &Options::default());
        for (owner, range) in lids.iter().filter(|(o, _)| is_host(&fabric, *o)) {
            let to = common::switch_of(&fabric, owner).unwrap();
            for (from, &node) in fabric.switches().iter_enumerated() {
                if from == to || !fabric.node(node).description.contains("-L1-") {
                    continue;
                }
                let mut used = BTreeSet::new();
                for lid in range.iter() {
                    let way = common::walk(&fabric, &lids, &routed.tables, from, lid).unwrap();
                    for &at in way.iter().filter(|&&at| at != to) {
                        let link = (at, routed.tables.get(at, lid));
                        assert!(used.insert(link), "{spec}: {from:?} to {owner:?}: {link:?} twice");
                    }
                }
            }
        }
    }
}

#[test]
fn lanes_share_every_link_evenly_and_leave_the_tables_alone() {
    for spec in ["karytree:k=4,n=3", "karytree:k=18,n=2", "sx6536", "mport:m=8,n=3"] {
        let fabric = make(spec);
        let lids = common::number(&fabric, 0);
        let (one, _) = route(spec, &fabric, &lids, &Options::default());
        for lanes in [2, 4] {
            let options = Options {
                lanes: Some(lanes),
                ..Options::default()
            };
            let (more, _) = route(spec, &fabric, &lids, &options);
            assert_eq!((more.lanes, &more.tables), (lanes, &one.tables), "{spec}");
            // Destinations by link upwards from a leaf and lane.
            let mut shares: BTreeMap<(u32, u8), Vec<u32>> = BTreeMap::new();
            let truth = Truth::new(&fabric);
            for (lid, _) in lids.by_lid().filter(|(_, o)| is_host(&fabric, *o)) {
                for s in (0..truth.level.len()).filter(|&s| truth.level[s] == 1) {
                    let egress = more.tables.get(SwitchIdx(s as u32), lid);
                    if truth.near[s].contains_key(&egress) {
                        let share = shares
                            .entry((s as u32, egress))
                            .or_insert_with(|| vec![0; usize::from(lanes)]);
                        share[usize::from(more.service_levels.to(lid).get())] += 1;
                    }
                }
            }
            for (link, share) in shares {
                let (least, most) = (share.iter().min().unwrap(), share.iter().max().unwrap());
                assert!(
                    most - least <= 2 + most / 8,
                    "{spec}, {lanes} lanes: {link:?} {share:?}"
                );
            }
        }
    }
}

#[test]
fn io_nodes_are_spread_on_their_own() {
    // The last host of every leaf is an I/O node; numbered among the others they would all go by one plane.
    let fabric = make("karytree:k=6,n=3");
    let lids = common::number(&fabric, 0);
    let mut io = BTreeMap::new();
    for (at, port) in fabric.end_ports().filter(|(at, _)| is_host(&fabric, *at)) {
        io.insert(common::switch_of(&fabric, at).unwrap(), (at, port.guid));
    }
    let hosts = HostLists {
        io: io.values().map(|(_, guid)| *guid).collect(),
        ..HostLists::default()
    };
    let tops = |options: &Options| {
        let (routed, _) = route("I/O", &fabric, &lids, options);
        let truth = Truth::new(&fabric);
        let mut used: BTreeMap<SwitchIdx, usize> = BTreeMap::new();
        for (to, (at, _)) in &io {
            let from = io.keys().find(|s| s.0.abs_diff(to.0) >= 18).unwrap();
            let way = common::walk(&fabric, &lids, &routed.tables, *from, lids.base(*at).unwrap()).unwrap();
            let top = way.iter().max_by_key(|s| truth.level[s.0 as usize]).unwrap();
            *used.entry(*top).or_default() += 1;
        }
        used.len()
    };
    assert_eq!(tops(&Options::default()), 6, "without the list");
    assert_eq!(
        tops(&Options {
            hosts,
            ..Options::default()
        }),
        36,
        "all tops"
    );
}

/// The same fabric with a switch that has lost all links to others: with its hosts, it is on its own.
fn cut_off(fabric: &Fabric, switch: SwitchIdx) -> Fabric {
    let node = fabric.switches()[switch];
    let links: Vec<_> = fabric
        .links()
        .filter(|l| !is_host(fabric, l.a) && !is_host(fabric, l.b))
        .collect();
    common::without(fabric, |i| links[i].a.node == node || links[i].b.node == node)
}

#[test]
fn a_lost_switch_of_any_level_moves_only_what_it_carried() {
    for (spec, step) in [
        ("karytree:k=4,n=3", 1),
        ("karytree:k=6,n=2", 1),
        ("mport:m=6,n=3", 1),
        ("karytree:k=12,n=3", 151),
    ] {
        let whole = make(spec);
        let lids = common::number(&whole, 0);
        let (before, _) = route(spec, &whole, &lids, &Options::default());
        for lost in before.tables.switch_indices().step_by(step) {
            let what = format!("{spec} without {lost:?}");
            let damaged = cut_off(&whole, lost);
            let (_, may) = dead_entries(&whole, &Truth::new(&damaged), &lids, &before.tables);
            for options in [with_nominal(&whole), with_previous(&before.tables)] {
                let (after, figures) = route(&what, &damaged, &lids, &options);
                let did = moved(&whole, &lids, &before.tables, &after.tables);
                let alone = |entry: &&(u32, u16)| entry.0 == lost.0;
                let needless: Vec<_> = did.difference(&may).filter(|e| !alone(e)).collect();
                assert!(needless.is_empty(), "{what}: {needless:?}");
                assert!(figures.host_pairs_reached > 0, "{what}");
            }
        }
    }
}

#[test]
fn oversubscribed_trees_rails_and_many_faults_are_routed() {
    for spec in [
        "pgft:m=6x4,w=1x2,p=1x3,remove-links=2",
        "pgft:m=4x4x4,w=1x2x2,p=1x2x1,remove-links=3%",
        "xgft:m=8x6,w=1x4,remove-links=2",
        "karytree:k=6,n=2,rails=2,ports-per-host=2,remove-links=2",
        "karytree:k=4,n=3,rails=2,remove-links=1%",
        "karytree:k=12,n=3,remove-links=1%",
        "mport:m=12,n=3,remove-links=3%,guids=shuffled",
    ] {
        for seed in 21..=24 {
            let what = format!("{spec},seed={seed}");
            let fabric = make(&what);
            let lids = common::number(&fabric, 1);
            let (minimal, figures) = route(&what, &fabric, &lids, &Options::default());
            let (_, spread) = route(&what, &fabric, &lids, &full());
            let (got, was) = (spread.load.max, figures.load.max);
            assert!(got <= allowed(spec, was), "{what}: {got} after {was}");
            assert_eq!(spread.host_pairs_reached, figures.host_pairs_reached, "{what}");
            let (kept, _) = route(&what, &fabric, &lids, &with_previous(&minimal.tables));
            assert_eq!(kept.tables, minimal.tables, "{what}");
        }
    }
}

/// Routes what the engine takes in every way there is: afresh, spread, with its own tables and with others' in force.
fn in_every_way(what: &str, fabric: &Fabric) -> bool {
    let lids = common::number(fabric, 0);
    let plain = Engine::FatTree.route(fabric, &lids, &Options::default(), Seed(0), Par::Sequential);
    let Ok(plain) = plain else { return false };
    let updn = Engine::UpDn.route(fabric, &lids, &Options::default(), Seed(0), Par::Sequential);
    let minhop = Engine::MinHop.route(fabric, &lids, &Options::default(), Seed(0), Par::Sequential);
    let (_, figures) = route(what, fabric, &lids, &Options::default());
    for (how, options) in [
        ("full", full()),
        ("kept", with_previous(&plain.tables)),
        ("updn's kept", with_previous(&updn.unwrap().tables)),
        ("minhop's kept", with_previous(&minhop.unwrap().tables)),
    ] {
        let (_, other) = route(&format!("{what}, {how}"), fabric, &lids, &options);
        assert_eq!(other.host_pairs_reached, figures.host_pairs_reached, "{what}");
    }
    true
}

#[test]
fn whatever_is_left_of_a_tree_is_routed_without_loops() {
    let mut taken = 0;
    for seed in 1..=30 {
        for spec in [
            "karytree:k=4,n=3,remove-links=10%",
            "karytree:k=6,n=2,remove-links=15%",
            "karytree:k=2,n=4,remove-links=6%",
            "mport:m=6,n=3,remove-links=12%,guids=shuffled",
            "pgft:m=4x4x4,w=1x2x2,p=1x2x2,remove-links=20%",
            "xgft:m=4x4x3,w=1x2x2,remove-links=8%",
            "karytree:k=4,n=3,rails=2,remove-links=8%",
        ] {
            let what = format!("{spec},seed={seed}");
            taken += usize::from(in_every_way(&what, &make(&what)));
        }
        let random = format!("random {seed}");
        taken += usize::from(in_every_way(&random, &common::random(Seed(seed))));
    }
    assert!(taken > 100, "{taken}");
}

/// Most host pairs on a channel, by fabric and engine: `tests/snapshots/fat_tree.txt`. A change of quality is a
/// readable difference; `SELVEDGE_BLESS=1` rewrites it.
#[test]
fn loads_are_those_of_the_snapshot() {
    let options = |roots: Vec<selvedge_types::Guid>| Options {
        ftree: selvedge_routing::FtreeOptions {
            roots,
            ..selvedge_routing::FtreeOptions::default()
        },
        ..Options::default()
    };
    let mut text = String::from(
        "# Most host pairs on a channel: fat-tree after the loss, fully rebalanced; ftree with its roots named.\n",
    );
    for tree in ["sx6536:", "karytree:k=18,n=2,"] {
        for damage in ["remove-links=0", "remove-links=1", "remove-links=1%", "remove-links=3%"] {
            for seed in 21..=30 {
                let spec = format!("{tree}{damage},seed={seed}");
                let fabric = make(&spec);
                let lids = common::number(&fabric, 0);
                let top = Truth::new(&fabric)
                    .level
                    .into_iter()
                    .enumerate()
                    .filter(|&(_, level)| level == 2);
                let roots = top.map(|(s, _)| fabric.switch(SwitchIdx(s as u32)).guid).collect();
                let mut line = spec.clone();
                let (_, minimal) = route(&spec, &fabric, &lids, &Options::default());
                let (_, spread) = route(&spec, &fabric, &lids, &full());
                line += &format!(" fat-tree {} full {}", minimal.load.max, spread.load.max);
                for (engine, options) in [
                    (Engine::Ftree, options(roots)),
                    (Engine::UpDn, Options::default()),
                    (Engine::Dfsssp, Options::default()),
                ] {
                    let routed = engine
                        .route(&fabric, &lids, &options, Seed(0), Par::Sequential)
                        .unwrap();
                    let lanes = SlToVl::modulo(routed.lanes);
                    let subject = Subject::tables(&fabric, &lids, &routed.tables, &routed.service_levels, &lanes);
                    let theirs = verify(subject, &JudgeOptions::default()).figures.load.max;
                    // Our dfsssp fills the fullest link less than OpenSM's and pays with bandwidth: no measure here.
                    let is_measure = engine != Engine::Dfsssp;
                    assert!(
                        !is_measure || spread.load.max <= theirs,
                        "{spec}: {} has {theirs}",
                        engine.name()
                    );
                    line += &format!(" {} {theirs}", engine.name());
                }
                text += &line;
                text.push('\n');
                if damage == "remove-links=0" {
                    break;
                }
            }
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/fat_tree.txt");
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let known = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(known, text, "SELVEDGE_BLESS=1 rewrites it");
}
