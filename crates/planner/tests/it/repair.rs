//! Repairs of trees and other graphs, link after link: they change only what must change, the full judge accepts the
//! result, and the transition is proved.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_planner::{Basis, Damage, RepairResult, Warm};
use selvedge_sim::{Par, Seed};
use selvedge_verify::standing::{LinkChange, Standing, judge_repair};
use selvedge_verify::{JudgeOptions, Subject, verify};

use crate::mended::{Bench, between_switches};

/// Loses random links, up to five times from each of four seeds, checks the repair with `look`, and applies it.
fn lose_in_turn(spec: &str, at_once: usize, mut look: impl FnMut(&mut Bench, &BTreeSet<PortRef>, &RepairResult, &str)) {
    for seed in 1..=4 {
        let mut bench = Bench::up(spec);
        let mut rng = Seed(seed).rng();
        for step in 0..5 {
            bench.prepare();
            let links = between_switches(&bench.inventory.fabric);
            let mut pick = || links[rng.below(links.len() as u64) as usize];
            let lost: BTreeSet<PortRef> = (0..at_once).map(|_| pick()).collect();
            let result = bench.lose(&lost);
            // A fabric that is no longer connected is left to a sweep.
            if result.mended.is_none() {
                break;
            }
            let what = format!("{spec} seed {seed} step {step} {lost:?}");
            look(&mut bench, &lost, &result, &what);
            bench.take(&what, result);
        }
    }
}

#[test]
fn links_are_lost_one_after_another() {
    for (spec, at_once) in [
        ("karytree:k=4,n=2", 1),
        ("karytree:k=3,n=3", 1),
        ("karytree:k=4,n=3", 2),
        ("mport:m=8,n=3", 1),
        ("sx6536", 1),
        ("sx6536", 3),
        ("pgft:m=4x4x4,w=1x2x2,p=1x2x2", 1),
    ] {
        let mut quick = 0;
        lose_in_turn(spec, at_once, |bench, lost, result, what| {
            quick += usize::from(result.is_in_place());
            let again = bench.lose(lost);
            let sets = |result: &RepairResult| result.outcome().map(|outcome| outcome.changes.value().clone());
            assert_eq!(sets(&again), sets(result), "{what}: the same twice");
        });
        assert!(quick > 2, "{spec}: only {quick} of 20 in place");
    }
}

/// Every single link of a complete tree of up to three levels is repaired in place, including links that agents of
/// upper switches use to reach each other.
#[test]
fn any_link_of_a_whole_tree_is_repaired_in_place() {
    for spec in ["sx6536", "karytree:k=4,n=3", "mport:m=8,n=3"] {
        let mut bench = Bench::up(spec);
        bench.prepare();
        for at in between_switches(&bench.inventory.fabric) {
            let result = bench.lose(&[at].into());
            assert!(result.is_in_place(), "{spec}: {at:?}");
        }
    }
}

/// The likely turns of detours are known when repairs are prepared, which makes their judgement cheaper.
#[test]
fn likely_turns_cost_less() {
    let mut bench = Bench::up("karytree:k=6,n=3");
    bench.prepare();
    let subject = Subject::plan(&bench.inventory.fabric, &bench.plan);
    let mut plain = bench.clone();
    plain.warm.as_mut().unwrap().standing = Standing::new(subject, Par::Sequential).ok();
    let searched = |warm: Option<&Warm>| warm.unwrap().standing.as_ref().unwrap().work().channels;
    let of = |bench: &Bench| {
        let links = between_switches(&bench.inventory.fabric).into_iter();
        let after = links.map(|at| searched(bench.lose(&[at].into()).warm.as_deref()));
        after.map(|after| after - searched(bench.warm.as_deref())).sum::<u64>()
    };
    assert!(of(&bench) * 3 < of(&plain) * 2);
}

/// A tree that has lost links before, and was planned without them or repaired since: detours do not conflict, and
/// leave room for further ones.
#[test]
fn a_damaged_tree_is_repaired_in_place() {
    for (spec, seed, links) in [
        ("karytree:k=8,n=3", 2, 13),
        ("karytree:k=8,n=3", 3, 16),
        ("karytree:k=8,n=3,remove-links=8", 3, 8),
        ("karytree:k=8,n=3,remove-links=8", 4, 8),
    ] {
        let mut bench = Bench::up(spec);
        let mut links_left = between_switches(&bench.inventory.fabric);
        Seed(seed).rng().shuffle(&mut links_left);
        for (step, at) in links_left.into_iter().take(links).enumerate() {
            bench.prepare();
            let result = bench.lose(&[at].into());
            let what = format!("{spec} seed {seed} step {step} {at:?}");
            assert!(result.is_in_place(), "{what}");
            bench.take(&what, result);
        }
    }
}

/// Loses links of leaves, until all pieces above these have lost some. Then a detour exists for each of them, and the
/// detours together form a cycle; if all are at one leaf, each further detour is there too.
#[test]
fn all_pieces_lose_links_of_leaves() {
    let spec = "karytree:k=8,n=3";
    for seed in [1, 2, 3] {
        let mut bench = Bench::up(spec);
        let fabric = &bench.inventory.fabric;
        let has_hosts = |node: NodeIdx| {
            let mut near = fabric.node(node).external_ports();
            near.any(|(_, port)| port.peer.is_some_and(|peer| fabric.switch_index(peer.node).is_none()))
        };
        let is_of_leaf = |at: &PortRef| has_hosts(at.node) || fabric.peer(*at).is_some_and(|far| has_hosts(far.node));
        let mut links: Vec<PortRef> = between_switches(fabric).into_iter().filter(is_of_leaf).collect();
        Seed(seed).rng().shuffle(&mut links);
        let mut whole = 0;
        for (step, at) in links.into_iter().take(30).enumerate() {
            bench.prepare();
            let result = bench.lose(&[at].into());
            whole += usize::from(!result.is_in_place());
            bench.take(&format!("{spec} seed {seed} step {step} {at:?}"), result);
        }
        assert!(whole <= 1, "{spec} seed {seed}: {whole} whole plans");
    }
}

/// Returns the waits of a repair, in nanoseconds.
fn waits(result: &RepairResult) -> Vec<u64> {
    let phases = &result.outcome().unwrap().changes.value().phases;
    phases
        .iter()
        .map(|phase| phase.wait_before_ns)
        .filter(|ns| *ns > 0)
        .collect()
}

#[test]
fn woven_links_are_lost_one_after_another() {
    for (spec, at_once, least) in [
        ("random:switches=24,degree=4,hosts=2,seed=5", 1, 12),
        ("random:switches=32,degree=4,hosts=1,seed=6", 2, 8),
        ("random:switches=48,degree=6,hosts=2,seed=7", 1, 12),
        ("torus:4x4,hosts=1", 1, 8),
        ("torus:6,hosts=1", 1, 1),
    ] {
        let (mut quick, mut without_wait) = (0, 0);
        lose_in_turn(spec, at_once, |bench, _, result, what| {
            assert_eq!(bench.plan.engine.0, "weave", "{spec}");
            if result.is_in_place() {
                quick += 1;
                without_wait += usize::from(waits(result).is_empty());
                assert!(waits(result).len() <= 1, "{what}: more than one wait");
            }
        });
        println!("{spec}: {quick} in place, {without_wait} of them without a wait");
        assert!(quick >= least, "{spec}: only {quick} of 20 in place");
        assert!(without_wait > 0, "{spec}: all wait");
    }
}

#[test]
fn a_wait_that_is_too_short_counts_for_nothing() {
    let mut bench = Bench::up("random:switches=48,degree=4,hosts=2,seed=7");
    bench.prepare();
    let mut tried = 0;
    for at in between_switches(&bench.inventory.fabric) {
        let result = bench.lose(&BTreeSet::from([at]));
        let outcome = result.outcome().unwrap();
        if !result.is_in_place() || waits(&result).is_empty() {
            continue;
        }
        let fabric = &result.outcome().unwrap().inventory.fabric;
        let ends = [at, bench.inventory.fabric.peer(at).unwrap()];
        let links = ends.map(|end| LinkChange {
            switch: fabric.switch_index(end.node).unwrap(),
            port: end.port,
            is_up: false,
        });
        let judged = |change: fn(u64) -> u64| {
            let mut changes = outcome.changes.value().clone();
            let phases = changes.phases.iter_mut().filter(|phase| phase.wait_before_ns > 0);
            phases.for_each(|phase| phase.wait_before_ns = change(phase.wait_before_ns));
            let mut standing = bench.warm.as_ref().unwrap().standing.clone().unwrap();
            let before = standing.proof();
            let judged = judge_repair(&mut standing, fabric, &links, changes, &[], &bench.verdict);
            assert!(
                judged.is_some() || standing.proof() == before,
                "a refusal changes nothing"
            );
            judged.is_some()
        };
        assert!(judged(|ns| ns), "{at:?}");
        tried += 1;
        assert!(!judged(|ns| ns - 1) && !judged(|_| 0), "{at:?}");
        if tried > 3 {
            return;
        }
    }
    panic!("only {tried} repairs with a wait");
}

#[test]
fn woven_switches_die() {
    let (mut quick, mut whole) = (0, 0);
    for seed in 1..=12 {
        let mut bench = Bench::up("random:switches=24,degree=4,hosts=2,seed=5");
        bench.prepare();
        let fabric = Arc::clone(&bench.inventory.fabric);
        let own = fabric.peer(bench.inventory.local).unwrap().node;
        let others: Vec<NodeIdx> = fabric.switches().iter().copied().filter(|node| *node != own).collect();
        let node = others[Seed(seed).rng().below(others.len() as u64) as usize];
        let result = dies(&bench, node);
        whole += 1;
        // A loss is repaired in place or left to a sweep.
        if result.mended.is_some() {
            assert!(result.is_in_place());
            bench.take(&format!("seed {seed}"), result);
            quick += 1;
        }
    }
    assert!(quick > 0, "none of {whole} in place");
}

#[test]
fn links_are_lost_while_packets_of_earlier_repairs_are_under_way() {
    for (spec, least) in [("karytree:k=6,n=3", 25), ("karytree:k=18,n=2", 25)] {
        let mut quick = 0;
        for seed in 1..=5 {
            let mut bench = Bench::up(spec);
            let mut links = between_switches(&bench.inventory.fabric);
            Seed(seed).rng().shuffle(&mut links);
            for (step, &lost) in links[..6].iter().enumerate() {
                let past = bench.past.take();
                bench.prepare();
                bench.past = past;
                let lost = BTreeSet::from([lost]);
                // The loss comes before the effects of packets in flight are computed.
                let early = bench.lose(&lost);
                bench.prepare();
                let is_ready = bench.warm.as_ref().is_some_and(|warm| warm.left.is_some());
                assert_eq!(is_ready, bench.past.is_some());
                let result = bench.lose(&lost);
                let what = format!("{spec} seed {seed} step {step} {lost:?}");
                let sets = |result: &RepairResult| result.outcome().map(|outcome| outcome.changes.value().clone());
                assert_eq!(sets(&early), sets(&result), "{what}");
                assert_eq!(early.is_in_place(), result.is_in_place(), "{what}");
                if !result.is_in_place() {
                    break;
                }
                quick += 1;
                let changes = result.outcome().unwrap().changes.value().clone();
                let before = Arc::clone(&bench.installed);
                bench.take(&what, result);
                bench.remember(&before, &changes);
            }
        }
        assert!(quick >= least, "{spec}: only {quick} of 30 in place");
    }
}

#[test]
fn without_preparations_it_takes_longer_and_is_right_as_well() {
    for spec in [
        "karytree:k=3,n=3",
        "torus:4x4,hosts=1",
        "random:switches=12,degree=4,hosts=1,seed=3",
    ] {
        let mut bench = Bench::up(spec);
        let links = between_switches(&bench.inventory.fabric);
        let result = bench.lose(&BTreeSet::from([links[3]]));
        assert!(!result.is_in_place(), "{spec}: nothing was prepared");
        bench.take(spec, result);
    }
}

#[test]
fn a_host_that_goes_takes_no_entry_along() {
    let mut bench = Bench::up("karytree:k=3,n=3");
    bench.prepare();
    let fabric = Arc::clone(&bench.inventory.fabric);
    let leaf_ports = fabric.links().flat_map(|link| [(link.a, link.b), (link.b, link.a)]);
    let of_host = |(a, b): &(PortRef, PortRef)| fabric.node(a.node).is_switch() && !fabric.node(b.node).is_switch();
    let (at, _) = leaf_ports.filter(of_host).nth(4).unwrap();
    let result = bench.lose(&BTreeSet::from([at]));
    let count = result.outcome().unwrap().changes.value().count();
    assert_eq!((count.lft_blocks, count.switches), (0, 1));
}

/// Returns the repair after the loss of a switch, as its neighbours see it.
fn dies(bench: &Bench, node: NodeIdx) -> RepairResult {
    let fabric = &bench.inventory.fabric;
    let near = fabric.node(node).external_ports().filter(|(_, port)| port.is_up());
    let near: Vec<PortRef> = near.filter_map(|(_, port)| port.peer).collect();
    let seen = near.into_iter().filter(|at| fabric.switch_index(at.node).is_some());
    let lost: BTreeSet<PortRef> = seen.collect();
    let mut damage = Damage {
        flagged: lost.iter().map(|at| at.node).collect(),
        lost,
        ..Damage::default()
    };
    damage.bury(&bench.inventory);
    assert_eq!(damage.gone, BTreeSet::from([node]));
    let basis = Basis::new(&bench.inventory, &bench.installed, Arc::default());
    bench.repair(basis, damage, Vec::new())
}

#[test]
fn switches_die_one_after_another() {
    for spec in ["karytree:k=4,n=2", "karytree:k=4,n=3", "mport:m=8,n=3", "sx6536"] {
        let mut quick = 0;
        for seed in 1..=4 {
            let mut bench = Bench::up(spec);
            let mut rng = Seed(seed).rng();
            for step in 0..2 {
                bench.prepare();
                let fabric = Arc::clone(&bench.inventory.fabric);
                let own = fabric.peer(bench.inventory.local).unwrap().node;
                let live = |node: &NodeIdx| *node != own && fabric.node(*node).external_ports().any(|(_, p)| p.is_up());
                let live: Vec<NodeIdx> = fabric.switches().iter().copied().filter(live).collect();
                let node = live[rng.below(live.len() as u64) as usize];
                let result = dies(&bench, node);
                let what = format!("{spec} seed {seed} step {step} {}", fabric.node(node).description);
                if result.mended.is_none() {
                    break;
                }
                assert!(
                    result.is_in_place(),
                    "{what}: what is gone is planned around in place or not at all"
                );
                quick += 1;
                let ops = |result: &RepairResult| result.outcome().unwrap().changes.value().phases.clone();
                let is_sent_there = ops(&result)
                    .iter()
                    .flat_map(|phase| &phase.ops)
                    .any(|op| op.node() == node);
                assert!(!is_sent_there, "{what}: nothing is sent to what is gone");
                let said = result.outcome().unwrap().verdict.figures.clone();
                bench.take(&what, result);
                let subject = Subject::plan(&bench.inventory.fabric, &bench.plan);
                let found = verify(subject, &JudgeOptions::default()).figures;
                let figures = |f: &selvedge_verify::Figures| {
                    (f.host_ports, f.host_pairs, f.host_pairs_reached, f.load, f.hops_mean)
                };
                assert_eq!(figures(&said), figures(&found), "{what}");
            }
        }
        assert!(quick > 5, "{spec}: only {quick} of 8 in place");
    }
}

#[test]
fn any_switch_of_a_whole_tree_dies_in_place() {
    for (spec, not_in_place) in [("karytree:k=4,n=3", 4), ("mport:m=8,n=3", 4), ("sx6536", 0)] {
        let mut bench = Bench::up(spec);
        bench.prepare();
        let fabric = Arc::clone(&bench.inventory.fabric);
        let own = fabric.peer(bench.inventory.local).unwrap().node;
        let mut others = 0;
        for &node in fabric.switches().iter().filter(|node| **node != own) {
            let result = dies(&bench, node);
            let what = format!("{spec} {}", fabric.node(node).description);
            if result.is_in_place() {
                bench.clone().take(&what, result);
            } else {
                others += 1;
            }
        }
        // Those straight above the leaf at which agents of upper switches meet.
        assert_eq!(others, not_in_place, "{spec}");
    }
}

#[test]
fn two_neighbours_die_at_once() {
    // The loss of the link between them was not seen.
    let mut bench = Bench::up("karytree:k=4,n=3");
    bench.prepare();
    let fabric = Arc::clone(&bench.inventory.fabric);
    let own = fabric.peer(bench.inventory.local).unwrap().node;
    let links = between_switches(&fabric);
    let (a, b) = links
        .iter()
        .rev()
        .map(|&at| (at.node, fabric.peer(at).unwrap().node))
        .find(|&(a, b)| a != own && b != own)
        .unwrap();
    let seen = links.iter().flat_map(|&at| [(at, fabric.peer(at).unwrap())]);
    let seen = seen.flat_map(|(at, far)| [(at, far), (far, at)]);
    let seen = seen.filter(|(at, far)| ![a, b].contains(&at.node) && [a, b].contains(&far.node));
    let mut damage = Damage {
        lost: seen.map(|(at, _)| at).collect(),
        ..Damage::default()
    };
    damage.bury(&bench.inventory);
    assert_eq!(damage.gone, BTreeSet::from([a, b]));
    let of_a: Vec<_> = links.iter().filter(|at| at.node == a).collect();
    assert!(!of_a.is_empty());
    assert!(of_a.into_iter().all(|at| damage.ends(&fabric).contains(at)));
}
