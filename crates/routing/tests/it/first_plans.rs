//! First plans of trees that lack links or switches: as no entries in force must be kept, these plans are as even as
//! tables that are balanced from scratch. Each result is judged.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, FabricBuilder, NodeIdx, PortRef};
use selvedge_plan::{SlToVl, Tables};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::{LinkRemoval, without_links};
use selvedge_verify::{JudgeOptions, Subject, verify};

use crate::common;
use crate::common::tree::{full, make, moved, route, with_previous};

/// Without a share of its switches, one at least, and without the hosts of missing leaves.
fn without_switches(fabric: &Fabric, percent: usize, seed: Seed) -> Fabric {
    let mut all: Vec<NodeIdx> = fabric.switches().iter().copied().collect();
    seed.child("lost-switches").rng().shuffle(&mut all);
    all.truncate((all.len() * percent).div_ceil(100));
    let mut gone: BTreeSet<NodeIdx> = all.into_iter().collect();
    let is_alone = |idx: NodeIdx| {
        let mut peers = fabric.node(idx).external_ports().filter_map(|(_, port)| port.peer);
        !fabric.node(idx).is_switch() && peers.all(|peer| gone.contains(&peer.node))
    };
    let nodes = fabric.nodes().iter_enumerated().map(|(idx, _)| idx);
    let alone: Vec<NodeIdx> = nodes.filter(|&idx| is_alone(idx)).collect();
    gone.extend(alone);
    let mut builder = FabricBuilder::new();
    let nodes = fabric.nodes().iter_enumerated();
    let keys: Vec<_> = nodes
        .map(|(idx, node)| (!gone.contains(&idx)).then(|| builder.add(node.clone())))
        .collect();
    for link in fabric.links() {
        let key = |end: PortRef| Some((keys[end.node.0 as usize]?, end.port));
        if let (Some(a), Some(b)) = (key(link.a), key(link.b)) {
            builder.link(a, b).unwrap();
        }
    }
    builder.finish().unwrap()
}

/// Compares a first plan with the rebalanced plan: the better of a first plan and `--rebalance full`. Returns false if
/// `fat-tree` refuses the fabric.
fn is_as_even(what: &str, fabric: &Fabric) -> bool {
    let lids = common::number(fabric, 0);
    let first = Options::default();
    let routed = Engine::FatTree.route(fabric, &lids, &first, Seed(0), Par::Sequential);
    if routed.is_err() {
        return false;
    }
    let (_, first) = route(what, fabric, &lids, &first);
    let (_, spread) = route(what, fabric, &lids, &full());
    let (first, rebalanced) = (first.load.max, first.load.max.min(spread.load.max));
    assert!(
        first * 100 <= rebalanced * 102,
        "{what}: {first} host pairs on the busiest link, rebalanced {rebalanced}"
    );
    true
}

#[test]
fn first_plans_of_damaged_trees_are_as_even_as_rebalanced_ones() {
    for spec in ["karytree:k=6,n=3", "mport:m=8,n=3", "pgft:m=6x4,w=1x2,p=1x3"] {
        let whole = make(spec);
        for percent in [1, 3, 10] {
            let (mut links, mut switches) = (0, 0);
            for seed in 1..=100 {
                let removal = LinkRemoval::PerMillion(percent * 10_000);
                let fabric = without_links(&whole, removal, Seed(seed)).unwrap();
                let what = format!("{spec}, {percent} % of links, seed {seed}");
                links += u32::from(is_as_even(&what, &fabric));
                let fabric = without_switches(&whole, percent as usize, Seed(seed));
                let what = format!("{spec}, {percent} % of switches, seed {seed}");
                switches += u32::from(is_as_even(&what, &fabric));
            }
            // Others are no trees any more.
            assert!(
                links >= 20 && switches >= 20,
                "{spec}, {percent} %: {links}, {switches}"
            );
        }
    }
}

#[test]
fn what_one_of_several_parallel_links_carried_is_shared_by_all() {
    // A public report: 720 before, updn 480, sssp 432; 360 in the whole tree.
    let spec = "pgft:m=24x6,w=1x2,p=1x4,remove-links=1";
    let fabric = make(spec);
    let lids = common::number(&fabric, 0);
    let mut loads = Vec::new();
    for engine in [Engine::FatTree, Engine::Auto, Engine::UpDn, Engine::Sssp] {
        let routed = engine
            .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
            .unwrap();
        let lanes = SlToVl::modulo(routed.lanes);
        let subject = Subject::tables(&fabric, &lids, &routed.tables, &routed.service_levels, &lanes);
        loads.push(verify(subject, &JudgeOptions::default()).figures.load.max);
    }
    let least = loads.iter().copied().min();
    assert_eq!(loads[..2].iter().copied().max(), least, "{loads:?}");
    assert!(loads[0] <= 432, "{loads:?}");
}

#[test]
fn what_is_in_force_stays_as_long_as_it_is_right() {
    let whole = make("karytree:k=6,n=3");
    let lids = common::number(&whole, 0);
    let (in_force, _) = route("whole", &whole, &lids, &Options::default());
    let damaged = without_links(&whole, LinkRemoval::PerMillion(30_000), Seed(1)).unwrap();
    let (kept, repaired) = route("kept", &damaged, &lids, &with_previous(&in_force.tables));
    let (first, fresh) = route("first", &damaged, &lids, &Options::default());
    assert!(
        fresh.load.max < repaired.load.max,
        "{} {}",
        fresh.load.max,
        repaired.load.max
    );
    let count = |to: &Tables| moved(&damaged, &lids, &in_force.tables, to).len();
    assert!(count(&kept.tables) < count(&first.tables), "a repair moves less");
}
