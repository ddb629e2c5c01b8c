//! How `fat-tree` spreads loads: over the links of a whole tree, over lanes and LIDs, and anew in a damaged one. Each
//! result is judged.

use crate::common;
use std::collections::{BTreeMap, BTreeSet};

use crate::common::tree::{Truth, full, is_host, make, moved, route, with_previous};
use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, FatTree, FatTreeOptions, HostLists, Options};
use selvedge_sim::{Par, Seed};
use selvedge_types::Lid;
use selvedge_verify::{ContentionOptions, JudgeOptions, Subject, contention, verify};

/// Returns the load that the fullest link may have after a rebalance: as before; or, in trees of two levels, a multiple
/// of the load in the whole tree, if that is larger.
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
            // Rebalanced entries stay.
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
        let (links, hosts) = (carried.len(), fabric.host_count());
        assert!(links >= hosts && hosts > 0, "{spec}: {links} links, {hosts} hosts");
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
        let mut links = 0;
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
                        links += 1;
                    }
                }
            }
        }
        // From each of at least five other leaves, over two links or more by each offset.
        assert!(links >= (fabric.host_count() * 10) << lmc, "{spec}: {links} links");
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
            assert!(
                shares.len() >= fabric.host_count() / 2,
                "{spec}, {lanes} lanes: {} links",
                shares.len()
            );
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
    // The last host of every leaf is an I/O node; numbered among the others, they would all use one plane.
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

/// The busiest link of what the formula alone gives, in tables of the same size.
fn by_the_formula(fabric: &Fabric, lids: &Lids, like: &Tables) -> u64 {
    let tree = FatTree::detect(fabric, &FatTreeOptions::default(), Par::Sequential).unwrap();
    let mut tables = like.clone();
    tree.fill(lids, &mut tables, Par::Sequential).unwrap();
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    let subject = Subject::tables(fabric, lids, &tables, &levels, &lanes);
    verify(subject, &JudgeOptions::default()).figures.load.max
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
            let (got, was) = (spread.load.max, by_the_formula(&fabric, &lids, &minimal.tables));
            assert!(got <= allowed(spec, was), "{what}: {got} after {was}");
            assert!(figures.load.max <= was, "{what}: {} after {was}", figures.load.max);
            assert_eq!(spread.host_pairs_reached, figures.host_pairs_reached, "{what}");
            let (kept, _) = route(&what, &fabric, &lids, &with_previous(&minimal.tables));
            assert_eq!(kept.tables, minimal.tables, "{what}");
        }
    }
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
