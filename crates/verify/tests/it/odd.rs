//! Unusual fabrics, and random ones with faults on 1 to 8 lanes: each gets a correct verdict, and the parts of the
//! judge agree with each other and with brute force.

use crate::support;
use std::collections::{BTreeMap, VecDeque};

use crate::brute::Brute;
use selvedge_fabric::{Fabric, Node, PortRef, SwitchIdx};
use selvedge_plan::{Lids, Plan, ServiceLevels, SlToVl, Tables};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Guid, NodeKind, PortNum, PortState, Sl};
use selvedge_verify::disjoint::Ways;
use selvedge_verify::phases::{Links, PhaseFault, PhaseOptions, Proposal, StandingTurns, prove};
use selvedge_verify::{Fault, JudgeOptions, Kind, Severity, Subject, Traffic, Verdict, verify};

/// The traffic of the cycle that the judge reports, if any.
fn cyclic(verdict: &Verdict) -> Option<Traffic> {
    verdict.findings.iter().find_map(|finding| match finding.fault {
        Fault::Cycle { traffic, .. } => Some(traffic),
        _ => None,
    })
}

/// Returns the traffic of the cycle that the proof of a transition without changes reports, if any.
fn cyclic_at_rest(subject: Subject<'_>) -> Option<Traffic> {
    let options = PhaseOptions {
        switch_pairs: Severity::Error,
        ..PhaseOptions::default()
    };
    let standing = StandingTurns::new(subject, Links::Active, Par::Sequential);
    let plain = prove(subject, None, &Proposal::default(), &options);
    assert_eq!(prove(subject, Some(&standing), &Proposal::default(), &options), plain);
    let refusal = plain.err()?;
    assert_eq!((refusal.findings.len(), refusal.findings[0].step), (1, 0));
    match refusal.findings[0].fault {
        PhaseFault::MixedCycle { traffic, .. } => Some(traffic),
        ref other => panic!("{other}"),
    }
}

/// Judges a fabric with up-then-down paths and, for checks that need no good plan, shortest paths. Compares the kinds
/// of findings with `want`, and returns a verdict.
fn check(fabric: &Fabric, want: &[&str]) -> Verdict {
    for lmc in [0, 3] {
        let lids = support::lids(fabric, lmc);
        let plan = support::plan(fabric, lids.clone(), support::minhop(fabric, &lids));
        let (verdict, _) = judged(fabric, &plan);
        let losses = verdict.findings.iter().filter(|finding| {
            matches!(
                finding.fault,
                Fault::BlackHole { .. } | Fault::Loop { .. } | Fault::WrongDelivery { .. } | Fault::LaneDrop { .. }
            )
        });
        assert_eq!(losses.count(), 0, "{:?}", verdict.findings);
    }
    let lids = support::lids(fabric, 0);
    let plan = support::plan(fabric, lids.clone(), support::updown(fabric, &lids, SwitchIdx(0)));
    let (verdict, brute) = judged(fabric, &plan);
    assert!(!brute.is_bad());
    let kinds: Vec<&str> = verdict.totals.iter().map(|total| total.kind.name()).collect();
    assert_eq!(kinds, want);
    let figures = &verdict.figures;
    // No tables can connect the parts; all other pairs reach each other.
    let apart = verdict.findings.iter().find_map(|finding| match finding.fault {
        Fault::Separated { host_pairs_apart, .. } => Some(host_pairs_apart),
        _ => None,
    });
    assert_eq!(figures.host_pairs_reached, figures.host_pairs - apart.unwrap_or(0));
    verdict
}

/// The judge, the brute force and the transition that changes nothing agree on cycles.
fn judged(fabric: &Fabric, plan: &Plan) -> (Verdict, Brute) {
    let subject = Subject::plan(fabric, plan);
    let verdict = verify(subject, &JudgeOptions::default());
    let brute = Brute::new(fabric, plan);
    assert_eq!(cyclic(&verdict), brute.cyclic());
    assert_eq!(cyclic_at_rest(subject), brute.cyclic());
    assert_eq!(verdict.figures.pairs.delivered, brute.delivered);
    let ways = Ways::new(subject, Links::Active).figures(Par::Sequential);
    assert_eq!(ways.bounded, 0);
    (verdict, brute)
}

#[test]
fn nothing_and_next_to_nothing() {
    check(&support::Net::new(0, 0).finish(PortState::Active), &[]);
    check(&support::Net::new(1, 4).finish(PortState::Active), &[]);
    check(&support::Net::new(3, 4).finish(PortState::Active), &["separated"]);
    check(&support::ring(6, 0), &[]);
    let mut net = support::Net::new(1, 254);
    (0..254).for_each(|_| {
        net.host(0);
    });
    let figures = check(&net.finish(PortState::Active), &[]).figures;
    assert_eq!(
        (figures.host_pairs, figures.channels, figures.hops_max),
        (254 * 253, 0, 0)
    );
}

#[test]
fn thirty_parallel_links() {
    let mut net = support::Net::new(2, 60);
    (0..30).for_each(|_| {
        net.link(0, 1);
    });
    (0..30).for_each(|_| {
        net.host(0).host(1);
    });
    let figures = check(&net.finish(PortState::Active), &[]).figures;
    assert_eq!((figures.channels, figures.hops_max), (60, 1));
    // 30 hosts on the other side for each of 30 destinations, one or two destinations to a link.
    assert!((30..=60).contains(&figures.load.max), "{}", figures.load.max);
}

#[test]
fn switches_of_254_ports() {
    let mut net = support::Net::new(3, 254);
    for (a, b) in [(0, 1), (1, 2), (2, 0)] {
        (0..120).for_each(|_| {
            net.link(a, b);
        });
    }
    (0..42).for_each(|i| {
        net.host(i % 3);
    });
    let figures = check(&net.finish(PortState::Active), &[]).figures;
    assert_eq!((figures.channels, figures.host_pairs), (720, 42 * 41));
}

#[test]
fn parts() {
    let mut net = support::Net::new(7, 8);
    for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5)] {
        net.link(a, b);
    }
    (0..7).for_each(|i| {
        net.host(i);
    });
    check(&net.finish(PortState::Active), &["separated", "host-alone"]);
}

/// A router with a port on each of two switches is an end like any other.
#[test]
fn routers() {
    let mut net = support::Net::new(3, 8);
    net.link(0, 1).link(1, 2).host(0).host(1).host(2);
    let builder = net.builder();
    let router = builder.add(Node::new(NodeKind::Router, Guid(0x9000), 2, "router"));
    let switches: Vec<_> = builder
        .nodes()
        .filter(|(_, node)| node.is_switch())
        .map(|(key, _)| key)
        .collect();
    for (number, switch) in [(1, switches[0]), (2, switches[2])] {
        builder
            .link((router, support::port(number)), (switch, support::port(8)))
            .unwrap();
    }
    let figures = check(&net.finish(PortState::Active), &[]).figures;
    assert_eq!((figures.host_ports, figures.host_pairs), (5, 20));
}

/// Up and down as in OpenSM's updn. The paths out of each switch are searched breadth-first, up before down. But a
/// switch that gets a hop count by a further port is searched from again in that port's direction, and of ports with
/// equal hop counts any is taken, whichever direction led there. On graphs with links within a rank that is not safe.
fn updn_with_its_faults(fabric: &Fabric, lids: &Lids, root: SwitchIdx) -> Tables {
    let switches = fabric.switches().len();
    let ways: Vec<Vec<(PortNum, SwitchIdx)>> = fabric
        .switches()
        .indices()
        .map(|switch| support::neighbours(fabric, switch))
        .collect();
    let at = |switch: SwitchIdx| switch.0 as usize;
    let mut rank = vec![usize::MAX; switches];
    rank[at(root)] = 0;
    let mut open = VecDeque::from([root]);
    while let Some(switch) = open.pop_front() {
        for &(_, next) in &ways[at(switch)] {
            if rank[at(next)] == usize::MAX {
                rank[at(next)] = rank[at(switch)] + 1;
                open.push_back(next);
            }
        }
    }
    let mut tables = Tables::new(switches, lids.top());
    for (lid, owner) in lids.by_lid() {
        let peer = fabric.peer(owner);
        let (target, out) = match fabric.switch_index(owner.node) {
            Some(switch) => (switch, PortNum::MANAGEMENT),
            None => (fabric.switch_index(peer.unwrap().node).unwrap(), peer.unwrap().port),
        };
        let mut hops: Vec<BTreeMap<PortNum, usize>> = vec![BTreeMap::new(); switches];
        let mut is_open = vec![false; switches];
        let mut open = VecDeque::from([(target, true, 0)]);
        while let Some((switch, came_up, so_far)) = open.pop_front() {
            is_open[at(switch)] = false;
            for &(port, next) in &ways[at(switch)] {
                let goes_up = (rank[at(next)], next) < (rank[at(switch)], switch);
                let back = fabric
                    .peer(PortRef {
                        node: fabric.switches()[switch],
                        port,
                    })
                    .unwrap()
                    .port;
                let is_known = hops[at(next)].get(&back).is_some_and(|known| *known <= so_far + 1);
                if next == target || (!came_up && goes_up) || is_known {
                    continue;
                }
                hops[at(next)].insert(back, so_far + 1);
                if !is_open[at(next)] {
                    is_open[at(next)] = true;
                    open.push_back((next, goes_up, so_far + 1));
                }
            }
        }
        tables.set(target, lid, out.get());
        for (switch, hops) in fabric.switches().indices().zip(&hops) {
            let least = hops.values().min();
            let best: Vec<_> = hops.iter().filter(|(_, hops)| Some(*hops) == least).collect();
            if !best.is_empty() {
                tables.set(switch, lid, best[lid.index() % best.len()].0.get());
            }
        }
    }
    tables
}

#[test]
fn updn_with_its_faults_is_found_out() {
    let (mut cyclic_graphs, mut trees) = (0, 0);
    for case in 0..8 {
        let mut rng = Seed(51).nth(case).rng();
        let below = |n: usize| usize::try_from(rng.below(n as u64)).unwrap();
        let random = support::random(64, 65, 128, 0, below);
        for (fabric, is_tree) in [(random, false), (support::tree(8, 4, 4), true)] {
            let lids = support::lids(&fabric, 0);
            let root = SwitchIdx(fabric.switches().len() as u32 - 1);
            let plan = support::plan(&fabric, lids.clone(), updn_with_its_faults(&fabric, &lids, root));
            let (verdict, _) = judged(&fabric, &plan);
            let is_bad = cyclic(&verdict) == Some(Traffic::Hosts);
            assert_eq!(is_bad, verdict.count_of(Kind::HostCycle) == 1);
            assert!(!is_bad || !is_tree, "case {case}");
            cyclic_graphs += u32::from(is_bad);
            trees += u32::from(is_tree);
        }
    }
    assert!(cyclic_graphs >= 2 && trees == 8, "{cyclic_graphs}");
}

/// Random graphs with dead ports, shortest ways and ways up and down, destinations shared out over V lanes.
#[test]
fn random_graphs_with_faults_on_lanes() {
    let (mut cycles, mut clean, mut less) = (0, 0, 0);
    for case in 0..300 {
        let mut rng = Seed(50).nth(case).rng();
        let mut below = |n: usize| usize::try_from(rng.below(n as u64)).unwrap();
        let (switches, more, hosts, down) = (2 + below(9), below(12), below(14), below(4));
        let fabric = support::random(switches, more, hosts, down, &mut below);
        let lids = support::lids(&fabric, u8::from(below(4) == 0));
        let mut before = None;
        for lanes in [1, 2, 4, 8] {
            let tables = support::minhop(&fabric, &lids);
            let mut plan = support::plan(&fabric, lids.clone(), tables);
            let levels = (0..=lids.top().0).map(|lid| Sl::new((lid % lanes) as u8).unwrap());
            plan.service_levels = ServiceLevels::PerDestination(levels.collect());
            plan.sl_to_vl = SlToVl::modulo(lanes as u8);
            let (verdict, brute) = judged(&fabric, &plan);
            let found = cyclic(&verdict);
            // Every lane has a part of the dependencies of half as many lanes.
            let rank = |found: Option<Traffic>| found.map_or(3, |traffic| traffic as u8);
            assert!(
                before.is_none_or(|before| rank(found) >= rank(before)),
                "case {case}, {lanes} lanes"
            );
            less += u32::from(before.is_some_and(|before| rank(found) > rank(before)));
            before = Some(found);
            assert_eq!(brute.found.len(), 0, "case {case}");
            cycles += u32::from(found.is_some());
            clean += u32::from(found.is_none());
        }
        let safe = support::plan(&fabric, lids.clone(), support::updown(&fabric, &lids, SwitchIdx(0)));
        assert_eq!(cyclic(&judged(&fabric, &safe).0), None, "case {case}");
    }
    assert!(cycles > 70 && clean > 300 && less > 40, "{cycles} {clean} {less}");
}
