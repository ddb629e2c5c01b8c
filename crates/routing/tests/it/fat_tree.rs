//! `fat-tree`, judged: fabrics that it accepts and refuses, whole and damaged trees, the changes by a fault, backups.

use crate::common;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, NO_PATH, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, FatTree, FatTreeOptions, HostLists, NotATree, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Guid, Lid};
use selvedge_verify::{Figures, JudgeOptions, Kind, Subject, Verdict, verify};

fn make(spec: &str) -> Fabric {
    match spec.parse().unwrap() {
        Spec::Generated(recipe) => recipe.fabric().unwrap(),
        Spec::File(path) => panic!("{path:?} is a file"),
    }
}

fn judged(fabric: &Fabric, lids: &Lids, tables: &Tables) -> Verdict {
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    verify(
        Subject::tables(fabric, lids, tables, &levels, &lanes),
        &JudgeOptions::default(),
    )
}

fn detect(fabric: &Fabric) -> Result<FatTree, NotATree> {
    FatTree::detect(fabric, &FatTreeOptions::default(), Par::Sequential)
}

fn tables_of(tree: &FatTree, fabric: &Fabric, lids: &Lids) -> Tables {
    let mut tables = Tables::new(fabric.switches().len(), lids.top());
    tree.fill(lids, &mut tables, Par::Sequential).unwrap();
    tables
}

/// Routes and judges; the tables must be without errors.
fn figures(spec: &str, fabric: &Fabric, lids: &Lids) -> (Tables, Figures) {
    let tree = detect(fabric).unwrap_or_else(|e| panic!("{spec}: {e}"));
    let tables = tables_of(&tree, fabric, lids);
    let verdict = judged(fabric, lids, &tables);
    let first = verdict.errors().next();
    assert!(verdict.is_ok(), "{spec}: {first:?}");
    (tables, verdict.figures)
}

fn switch_links(fabric: &Fabric) -> usize {
    let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
    fabric.links().filter(|l| is_switch(l.a) && is_switch(l.b)).count()
}

#[test]
fn intact_trees_are_balanced_to_the_optimum() {
    // Hosts per leaf × hosts elsewhere ÷ links up: what each link to a leaf carries if destinations are spread evenly.
    let check = |spec: &str, optimum: u64| {
        let fabric = make(spec);
        let (_, figures) = figures(spec, &fabric, &common::number(&fabric, 0));
        assert_eq!(figures.load.max, optimum, "{spec}");
        assert_eq!(figures.host_pairs, figures.host_pairs_reached, "{spec}");
    };
    check("sx6536", 306);
    check("karytree:k=18,n=2", 306);
    check("karytree:k=12,n=3", 1716);
    check("karytree:k=3,n=4", 78);
    check("mport:m=8,n=3", 124);
}

#[test]
fn each_downward_link_carries_one_host() {
    for spec in [
        "sx6536",
        "karytree:k=6,n=3",
        "karytree:k=6,n=3,guids=shuffled",
        "karytree:k=3,n=4",
    ] {
        let fabric = make(spec);
        let lids = common::number(&fabric, 0);
        let (tables, _) = figures(spec, &fabric, &lids);
        let mut carried = std::collections::BTreeMap::new();
        for (lid, owner) in lids.by_lid().filter(|(_, o)| fabric.switch_index(o.node).is_none()) {
            let to = common::switch_of(&fabric, owner).unwrap();
            for (from, _) in fabric.switches().iter_enumerated() {
                let leaf = fabric.node(fabric.switches()[from]).description.contains("-L1-");
                let way = common::walk(&fabric, &lids, &tables, from, lid).unwrap();
                let hops = if leaf {
                    way.windows(2).skip((way.len() - 1) / 2)
                } else {
                    way.windows(2).skip(way.len())
                };
                for hop in hops {
                    let link = (hop[0], tables.get(hop[0], lid));
                    let only = *carried.entry(link).or_insert(lid);
                    assert_eq!(only, lid, "{spec}: {link:?} towards {to:?}");
                }
            }
        }
        // Each host is reached over a link downwards.
        let (links, hosts) = (carried.len(), fabric.host_count());
        assert!(links >= hosts && hosts > 0, "{spec}: {links} links, {hosts} hosts");
    }
}

#[test]
fn trees_are_taken_and_others_refused() {
    let check = |spec: &str, want: &str| {
        let fabric = make(spec);
        let lids = common::number(&fabric, 0);
        let got = Engine::FatTree.route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential);
        let got = got.err().map_or("taken".to_owned(), |e| e.to_string());
        assert!(got.starts_with(want), "{spec}: {got}");
        if want == "taken" {
            figures(spec, &fabric, &lids);
        }
    };
    check("single:ports=8,hosts=4", "taken");
    check("sx6536", "taken");
    check("sx6536:remove-links=30", "taken");
    check("karytree:k=4,n=3,guids=shuffled", "taken");
    check("karytree:k=4,n=3,remove-links=6,seed=3", "taken");
    check("mport:m=8,n=3,remove-links=4", "taken");
    check("xgft:m=4x4x3,w=1x2x2", "taken");
    check("pgft:m=6x4,w=1x2,p=1x3", "taken");
    check("karytree:k=4,n=2,rails=2", "taken");
    check("torus:4x4x4,hosts=1", "SLV-ROUTE-0011");
    check("mesh:3x3,hosts=1", "SLV-ROUTE-0011");
    check("ring:switches=6", "SLV-ROUTE-0011");
    check("random:switches=32,degree=4,hosts=2,seed=1", "SLV-ROUTE-0011");
}

fn moved(before: &Tables, after: &Tables) -> Vec<(SwitchIdx, Lid)> {
    let all = (0..=before.top().0).map(Lid);
    let all = all.flat_map(|lid| before.switch_indices().map(move |s| (s, lid)));
    all.filter(|&(s, lid)| before.get(s, lid) != after.get(s, lid))
        .collect()
}

/// True if a lost link may change an entry: the route that begins with it led over the link, or did not arrive.
fn must_move(whole: &Fabric, lids: &Lids, before: &Tables, lost: (PortRef, PortRef), at: (SwitchIdx, Lid)) -> bool {
    let Some(way) = common::walk(whole, lids, before, at.0, at.1) else {
        return true;
    };
    way.iter().any(|&s| {
        let egress = before.get(s, at.1);
        let node = whole.switches()[s];
        [lost.0, lost.1]
            .iter()
            .any(|end| end.node == node && end.port.get() == egress)
    })
}

#[test]
fn one_lost_link_moves_only_what_used_it() {
    for spec in [
        "sx6536",
        "karytree:k=6,n=2",
        "karytree:k=4,n=3",
        "karytree:k=4,n=3,guids=shuffled",
        "mport:m=6,n=3",
    ] {
        let whole = make(spec);
        let lids = common::number(&whole, 0);
        let (before, _) = figures(spec, &whole, &lids);
        let is_switch = |at: PortRef| whole.switch_index(at.node).is_some();
        let links: Vec<_> = whole.links().filter(|l| is_switch(l.a) && is_switch(l.b)).collect();
        let mut moves = 0;
        for (i, link) in links.iter().enumerate().step_by(7) {
            let damaged = common::without(&whole, |l| l == i);
            let (after, found) = figures(spec, &damaged, &lids);
            assert_eq!(found.host_pairs_reached, found.host_pairs, "{spec} without {link:?}");
            for at in moved(&before, &after) {
                moves += 1;
                let lost = (link.a, link.b);
                assert!(
                    must_move(&whole, &lids, &before, lost, at),
                    "{spec} without {link:?}: {at:?} moved from {} to {}",
                    before.get(at.0, at.1),
                    after.get(at.0, at.1)
                );
            }
        }
        assert!(moves >= links.len() / 7, "{spec}: {moves} entries moved");
    }
}

#[test]
fn one_lost_link_loads_no_other_much() {
    // (spec, hosts per leaf, hosts elsewhere, links up from a leaf).
    let check = |spec: &str, hosts: u64, remote: u64, up: u64| {
        let whole = make(spec);
        let lids = common::number(&whole, 0);
        let bound = (hosts * remote).div_ceil(up - 1);
        for i in (0..switch_links(&whole)).step_by(switch_links(&whole) / 7) {
            let damaged = common::without(&whole, |l| l == i);
            let (_, found) = figures(spec, &damaged, &lids);
            assert!(
                found.load.max * 100 <= bound * 115,
                "{spec} without link {i}: {} > 1.15 × {bound}",
                found.load.max
            );
        }
    };
    check("sx6536", 18, 306, 18);
    check("karytree:k=18,n=2", 18, 306, 18);
    check("karytree:k=12,n=3", 12, 1716, 12);
}

#[test]
fn the_backup_is_what_comes_after_the_fault() {
    for spec in ["sx6536", "karytree:k=4,n=3", "mport:m=6,n=3"] {
        let whole = make(spec);
        let lids = common::number(&whole, 0);
        let tree = detect(&whole).unwrap();
        let before = tables_of(&tree, &whole, &lids);
        let is_switch = |at: PortRef| whole.switch_index(at.node).is_some();
        let links: Vec<_> = whole.links().filter(|l| is_switch(l.a) && is_switch(l.b)).collect();
        let mut used = 0;
        for (i, link) in links.iter().enumerate().step_by(5) {
            let damaged = common::without(&whole, |l| l == i);
            let after = tables_of(&detect(&damaged).unwrap(), &damaged, &lids);
            for end in [link.a, link.b] {
                let s = whole.switch_index(end.node).unwrap();
                let lost = end.port.get();
                for (lid, _) in lids.by_lid().filter(|(lid, _)| before.get(s, *lid) == lost) {
                    if let Some(backup) = tree.backup(&lids, s, lid, lost).unwrap() {
                        assert_eq!(backup, after.get(s, lid), "{spec}: {s:?} LID {lid} without port {lost}");
                        used += 1;
                    }
                }
            }
        }
        assert!(used > 100, "{spec}: {used}");
    }
}

#[test]
fn damaged_trees_are_routed_without_errors_or_refused_for_a_reason() {
    let (mut taken, mut stranded) = (0, 0);
    for seed in 1..=12 {
        for spec in [
            "sx6536:remove-links=3%",
            "karytree:k=6,n=3,remove-links=1%",
            "karytree:k=6,n=3,remove-links=3%,guids=shuffled",
            "mport:m=8,n=3,remove-links=3%",
            "pgft:m=4x4x4,w=1x2x2,p=1x2x2,remove-links=5%",
            "karytree:k=2,n=4,remove-links=3%",
        ] {
            let spec = format!("{spec},seed={seed}");
            let fabric = make(&spec);
            match detect(&fabric) {
                Ok(tree) => {
                    stranded += usize::from(tree.shape().stranded > 0);
                    let lmc = u8::try_from(seed % 3).unwrap();
                    let lids = common::number(&fabric, lmc);
                    let verdict = judged(&fabric, &lids, &tables_of(&tree, &fabric, &lids));
                    let found = &verdict.figures;
                    // Only the fault that the engine itself reports: agents of switches that some hosts do not reach.
                    let only_stranded = verdict.errors().all(|e| e.fault.kind() == Kind::BlackHole);
                    assert!(
                        only_stranded && (tree.shape().stranded > 0 || verdict.is_ok()),
                        "{spec}"
                    );
                    assert_eq!(found.host_pairs_reached, found.host_pairs, "{spec}");
                    taken += 1;
                }
                Err(NotATree::Apart { from, to }) => {
                    assert!(!has_up_down_path(&fabric, from, to), "{spec}: {from} and {to}");
                }
                Err(other) => panic!("{spec}: {other}"),
            }
        }
    }
    assert!(taken >= 60, "{taken}");
    assert_eq!(stranded, 0);
}

/// Searches the up/down paths of a generated tree; the names of its switches show the levels.
fn has_up_down_path(fabric: &Fabric, from: Guid, to: Guid) -> bool {
    let level = |s: SwitchIdx| -> i32 {
        let name = &fabric.node(fabric.switches()[s]).description;
        name[3..4].parse().unwrap()
    };
    let index = |g| fabric.switch_index(fabric.find(g).unwrap()).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let mut todo = vec![(index(from), true)];
    while let Some((s, may_climb)) = todo.pop() {
        if s == index(to) {
            return true;
        }
        if !seen.insert((s, may_climb)) {
            continue;
        }
        for (_, port) in fabric.node(fabric.switches()[s]).external_ports() {
            if let Some(next) = port.peer.and_then(|p| fabric.switch_index(p.node)) {
                let up = level(next) > level(s);
                if may_climb || !up {
                    todo.push((next, up));
                }
            }
        }
    }
    false
}

#[test]
fn a_remembered_switch_keeps_its_position() {
    let whole = make("karytree:k=6,n=2");
    let lids = common::number(&whole, 0);
    let (before, _) = figures("whole", &whole, &lids);
    let spine = fabric_without_switch(&whole, "S-L2-2");
    let options = FatTreeOptions {
        nominal: Some(Arc::new(whole.clone())),
        ..FatTreeOptions::default()
    };
    let tree = FatTree::detect(&spine, &options, Par::Sequential).unwrap();
    let lids_left = common::number(&spine, 0);
    let tables = tables_of(&tree, &spine, &lids_left);
    assert!(judged(&spine, &lids_left, &tables).is_ok());
    for (s, &node) in spine.switches().iter_enumerated() {
        let old = whole.switch_index(whole.find(spine.node(node).guid).unwrap()).unwrap();
        for (lid, at) in lids_left.by_lid() {
            let guid = spine.port(at).unwrap().guid;
            let was = before.get(old, lids.base(whole.find_port(guid).unwrap()).unwrap());
            let out = (was != 0 && was != NO_PATH).then(|| PortRef {
                node: whole.switches()[old],
                port: common::port(was),
            });
            let through = out
                .and_then(|out| whole.peer(out))
                .is_some_and(|p| spine.find(whole.node(p.node).guid).is_none());
            assert!(
                through || tables.get(s, lid) == was,
                "{s:?} LID {lid} moved without need"
            );
        }
    }
}

fn fabric_without_switch(whole: &Fabric, name: &str) -> Fabric {
    let mut builder = selvedge_fabric::FabricBuilder::new();
    let keep = |n: selvedge_fabric::NodeIdx| !whole.node(n).description.ends_with(name);
    let mut keys = std::collections::BTreeMap::new();
    for (n, node) in whole.nodes().iter_enumerated().filter(|(n, _)| keep(*n)) {
        keys.insert(n, builder.add(node.clone()));
    }
    for link in whole.links().filter(|l| keep(l.a.node) && keep(l.b.node)) {
        builder
            .link((keys[&link.a.node], link.a.port), (keys[&link.b.node], link.b.port))
            .unwrap();
    }
    builder.finish().unwrap()
}

#[test]
fn hosts_on_upper_switches_are_reached() {
    let mut net = common::Net::default();
    let leaves: Vec<_> = (0..6).map(|i| net.switch(10 + i, 36)).collect();
    let spines: Vec<_> = (0..4).map(|i| net.switch(100 + i, 36)).collect();
    for (i, &leaf) in leaves.iter().enumerate() {
        // Uneven leaves: two to seven hosts.
        (0..i + 2).for_each(|_| {
            net.host(leaf);
        });
        spines.iter().for_each(|&spine| net.link(leaf, spine));
    }
    net.host(spines[0]);
    net.host(spines[2]);
    let fabric = net.finish();
    let lids = common::number(&fabric, 0);
    let tree = detect(&fabric).unwrap();
    assert_eq!((tree.shape().upper_hosts, tree.shape().leaves), (2, 6));
    let (_, found) = figures("I/O nodes", &fabric, &lids);
    assert_eq!(found.host_pairs_reached, found.host_pairs);
}

#[test]
fn any_lids_and_any_threads_give_the_same_ways() {
    let fabric = make("karytree:k=4,n=3,remove-links=5,seed=2");
    let tree = detect(&fabric).unwrap();
    let straight = common::number(&fabric, 0);
    let tables = tables_of(&tree, &fabric, &straight);
    let mut order: Vec<PortRef> = fabric.end_ports().map(|(at, _)| at).collect();
    Seed(5).rng().shuffle(&mut order);
    let mut shuffled = Lids::new();
    for (at, lid) in order.into_iter().zip(1..) {
        shuffled.insert(at, selvedge_types::LidRange::single(Lid(lid))).unwrap();
    }
    let mut other = Tables::new(fabric.switches().len(), shuffled.top());
    tree.fill(&shuffled, &mut other, Par::Rayon).unwrap();
    for (at, range) in straight.iter() {
        for s in tables.switch_indices() {
            assert_eq!(
                tables.get(s, range.base),
                other.get(s, shuffled.base(at).unwrap()),
                "{s:?} {at:?}"
            );
        }
    }
}

/// On a whole tree the refusal names the list that caused it; on a broken tree the break comes first.
#[test]
fn a_list_of_hosts_that_leaves_no_tree_is_named() {
    let route = |fabric: &Fabric, hosts: &HostLists| {
        let lids = common::number(fabric, 0);
        let options = Options {
            hosts: hosts.clone(),
            ..Options::default()
        };
        Engine::FatTree.route(fabric, &lids, &options, Seed(1), Par::Sequential)
    };
    let fabric = make("mport:m=4,n=2");
    let is_host = |at: &PortRef| !fabric.node(at.node).is_switch();
    let ports: Vec<Guid> = fabric
        .end_ports()
        .filter(|(at, _)| is_host(at))
        .map(|(_, p)| p.guid)
        .collect();
    let one = HostLists {
        compute: vec![ports[0]],
        io: Vec::new(),
    };
    let others = HostLists {
        compute: Vec::new(),
        io: ports[1..].to_vec(),
    };
    for (hosts, want) in [(&one, "cn_guid_file"), (&others, "io_guid_file")] {
        let error = route(&fabric, hosts).unwrap_err().to_string();
        assert!(
            error.contains("SLV-ROUTE-0016: a fat tree, but not with the list of "),
            "{error}"
        );
        assert!(error.contains(want), "{error}");
        assert_eq!(error.matches("SLV-").count(), 1, "{error}");
    }
    let every_second = HostLists {
        compute: ports.iter().copied().step_by(2).collect(),
        io: Vec::new(),
    };
    assert!(route(&fabric, &every_second).is_ok());
    let ring = make("ring:switches=5,hosts=2");
    let of_ring = HostLists {
        compute: vec![ring.end_ports().next().unwrap().1.guid],
        io: Vec::new(),
    };
    let error = route(&ring, &of_ring).unwrap_err().to_string();
    assert!(!error.contains("ROUTE-0016"), "{error}");
}
