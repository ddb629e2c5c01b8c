//! Results of `fat-tree` when links and switches are lost and come back: which entries move, what load the others
//! carry, which entries in force are kept. Each result is judged.

use crate::common;
use std::collections::BTreeSet;

use crate::common::tree::{
    Entries, Truth, full, is_host, make, moved, route, switch_links, with_both, with_nominal, with_previous,
};
use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{Lids, NO_PATH, Tables};
use selvedge_routing::{Engine, FatTree, FatTreeOptions, Options};
use selvedge_sim::{Par, Seed};
use selvedge_types::Lid;

/// Entries of `before` towards hosts that lead nowhere on the fabric of `truth`: over a lost link, or to a switch
/// without a path. The first set has the entries of switches with another path, which must move; the second set has
/// all.
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

/// Asserts that all entries of `must` have moved, and no entry outside `may`.
fn assert_least(what: &str, did: &Entries, (must, may): &(Entries, Entries)) {
    let (stayed, needless): (Vec<_>, Vec<_>) = (must.difference(did).collect(), did.difference(may).collect());
    assert!(stayed.is_empty(), "{what}: dead entries stay {stayed:?}");
    assert!(needless.is_empty(), "{what}: entries move without need {needless:?}");
}

#[test]
fn what_moves_is_what_must_move() {
    // Every link of small trees, every n-th of large ones.
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
                ("the whole fabric and the tables", with_both(&whole, &before.tables)),
                ("the tables", with_previous(&before.tables)),
            ] {
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
        let mut moves = 0;
        for lost in (0..links.len()).step_by(step) {
            let what = format!("{spec} without link {lost}");
            let damaged = common::without(&whole, |l| l == lost);
            let ends =
                [links[lost].a, links[lost].b].map(|end| (whole.switch_index(end.node).unwrap(), end.port.get()));
            for options in [with_both(&whole, &before.tables), with_previous(&before.tables)] {
                let (after, _) = route(&what, &damaged, &lids, &options);
                for (s, lid) in moved(&whole, &lids, &before.tables, &after.tables) {
                    let way = common::walk(&whole, &lids, &before.tables, SwitchIdx(s), Lid(lid)).unwrap();
                    let over = |at: &SwitchIdx| ends.contains(&(*at, before.tables.get(*at, Lid(lid))));
                    assert!(way.iter().any(over), "{what}: switch {s}, LID {lid} did not use it");
                    moves += 1;
                }
            }
        }
        assert!(moves >= links.len() / step, "{spec}: {moves} entries moved");
    }
}

#[test]
fn a_second_fault_moves_nothing_back_nor_does_a_repair() {
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
        // The first link is back: nothing moves.
        let repaired = common::without(&whole, |l| l == second);
        let (calm, _) = route(spec, &repaired, &lids, &with_previous(&twice.tables));
        let truth = Truth::new(&both);
        for (s, lid) in moved(&whole, &lids, &twice.tables, &calm.tables) {
            let to = common::switch_of(&whole, lids.owner(Lid(lid)).unwrap()).unwrap();
            let had_way = truth.reach(to.0 as usize).1[s as usize];
            assert!(!had_way, "{spec}: switch {s}, LID {lid} moved though it led there");
        }
        let (known, _) = route(spec, &repaired, &lids, &with_both(&whole, &before.tables));
        let (direct, _) = route(spec, &repaired, &lids, &with_previous(&before.tables));
        assert_eq!(known.tables, direct.tables, "{spec}");
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
fn after_one_lost_link_no_other_carries_more_than_some_link_must() {
    // (spec, hosts per leaf, hosts elsewhere, links up from a leaf, step between tested links): at two levels all
    // links are tested. A leaf that has lost one must send as much over the others.
    let check = |spec: &str, hosts: u64, remote: u64, up: u64, step: usize| {
        let whole = make(spec);
        let lids = common::number(&whole, 0);
        let bound = (hosts * remote).div_ceil(up - 1);
        for lost in (0..switch_links(&whole)).step_by(step) {
            let damaged = common::without(&whole, |l| l == lost);
            let what = format!("{spec} without link {lost}");
            let (_, minimal) = route(&what, &damaged, &lids, &Options::default());
            assert!(minimal.load.max <= bound, "{what}: {} > {bound}", minimal.load.max);
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
            for options in [with_both(&whole, &before.tables), with_previous(&before.tables)] {
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

/// Routes an accepted fabric in all ways: from scratch, rebalanced, with its own tables and with others in force.
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
