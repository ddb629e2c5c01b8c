//! Disjoint paths, compared with sets of cables and switches and all subsets of offsets.

use crate::support;
use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, NodeIdx, PortRef, SwitchIdx};
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Lid, PortNum, PortState};
use selvedge_verify::Subject;
use selvedge_verify::disjoint::{DisjointFigures, Ways};
use selvedge_verify::phases::Links;

fn with_ways<T>(fabric: &Fabric, lids: &Lids, tables: &Tables, f: impl FnOnce(&Ways<'_>) -> T) -> T {
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    f(&Ways::new(
        Subject::tables(fabric, lids, tables, &levels, &lanes),
        Links::Active,
    ))
}

/// Cables by their lower end, and switches between the ends; `None` if the packet does not arrive.
type Found = Option<(BTreeSet<PortRef>, BTreeSet<NodeIdx>)>;

fn walk(fabric: &Fabric, tables: &Tables, from: PortRef, to: PortRef, lid: Lid) -> Found {
    let leaf = fabric.peer(to).unwrap().node;
    let (mut cables, mut switches) = (BTreeSet::new(), BTreeSet::new());
    let mut node = fabric.peer(from).unwrap().node;
    loop {
        let port = PortNum::new(tables.get(fabric.switch_index(node).unwrap(), lid))?;
        let at = PortRef { node, port };
        if port == PortNum::MANAGEMENT || !fabric.link_is_up(at) {
            return None;
        }
        let peer = fabric.peer(at)?;
        if fabric.switch_index(peer.node).is_none() {
            return (peer == to).then_some((cables, switches));
        }
        if !cables.insert(at.min(peer)) {
            return None;
        }
        node = peer.node;
        if node != leaf {
            switches.insert(node);
        }
    }
}

/// Returns the largest sets of offsets, found by trying all subsets.
fn brute(fabric: &Fabric, lids: &Lids, tables: &Tables, from: PortRef, to: PortRef) -> (usize, usize) {
    let range = lids.range(to).unwrap();
    let ways: Vec<Found> = (0..range.lmc.lids())
        .map(|i| walk(fabric, tables, from, to, Lid(range.base.0 + i)))
        .collect();
    let (mut by_links, mut by_switches) = (0, 0);
    for set in 0..1_u32 << ways.len() {
        let chosen: Vec<&Found> = (0..)
            .zip(&ways)
            .filter(|(i, _)| set >> i & 1 == 1)
            .map(|(_, way)| way)
            .collect();
        let Some(chosen) = chosen.into_iter().map(Option::as_ref).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let apart = |clash: &dyn Fn(usize, usize) -> bool| (0..chosen.len()).all(|a| (0..a).all(|b| !clash(a, b)));
        let cables = |a: usize, b: usize| !chosen[a].0.is_disjoint(&chosen[b].0);
        let switches = |a: usize, b: usize| !chosen[a].1.is_disjoint(&chosen[b].1);
        if apart(&cables) {
            by_links = by_links.max(chosen.len());
            if apart(&switches) {
                by_switches = by_switches.max(chosen.len());
            }
        }
    }
    (by_links, by_switches)
}

fn hosts(fabric: &Fabric) -> Vec<PortRef> {
    let hosts = fabric
        .end_ports()
        .map(|(at, _)| at)
        .filter(|at| fabric.switch_index(at.node).is_none());
    hosts.filter(|at| fabric.link_is_up(*at)).collect()
}

/// Returns whether two paths between switches exist in the cabling: no single cable, and no other single switch,
/// separates them. For two switches connected by one cable only, another path must remain without it.
fn two_exist(fabric: &Fabric, a: NodeIdx, b: NodeIdx) -> (bool, bool) {
    let is_switch = |node: NodeIdx| fabric.switch_index(node).is_some();
    let links = fabric
        .links()
        .filter(|l| fabric.link_is_up(l.a) && is_switch(l.a.node) && is_switch(l.b.node));
    let cables: Vec<(NodeIdx, NodeIdx)> = links.map(|l| (l.a.node, l.b.node)).collect();
    let joined = |but_cable: Option<usize>, but_switch: Option<NodeIdx>| {
        let mut reached = BTreeSet::from([a]);
        for _ in 0..fabric.switches().len() {
            for (i, &(x, y)) in cables.iter().enumerate() {
                let is_lost = Some(i) == but_cable || [x, y].map(Some).contains(&but_switch);
                if !is_lost && (reached.contains(&x) || reached.contains(&y)) {
                    reached.extend([x, y]);
                }
            }
        }
        reached.contains(&b)
    };
    let by_links = joined(None, None) && (0..cables.len()).all(|cable| joined(Some(cable), None));
    let others = fabric.switches().iter().copied().filter(|&s| s != a && s != b);
    let by_switches = by_links && { others }.all(|switch| joined(None, Some(switch)));
    (by_links, by_switches)
}

fn compare(fabric: &Fabric, lids: &Lids, tables: &Tables, what: &str) -> DisjointFigures {
    with_ways(fabric, lids, tables, |ways| {
        let (mut links, mut switches, mut same) = (Vec::new(), Vec::new(), 0);
        let mut possible = (0, 0);
        let leaf = |at: PortRef| fabric.peer(at).unwrap().node;
        let mut add = |sizes: (usize, usize)| {
            for (spread, size) in [(&mut links, sizes.0), (&mut switches, sizes.1)] {
                spread.resize(spread.len().max(size + 1), 0);
                spread[size] += 1;
            }
        };
        for to in hosts(fabric) {
            for from in hosts(fabric).into_iter().filter(|from| *from != to) {
                if leaf(from) == leaf(to) {
                    same += 1;
                    continue;
                }
                let want = brute(fabric, lids, tables, from, to);
                let got = ways.pair(from, to).unwrap();
                assert_eq!(
                    (got.by_links.len(), got.by_switches.len()),
                    want,
                    "{what}: {from:?} {to:?}"
                );
                assert!(got.is_exact);
                add(want);
                let two = two_exist(fabric, leaf(from), leaf(to));
                possible = (possible.0 + u64::from(two.0), possible.1 + u64::from(two.1));
            }
        }
        let figures = ways.figures(Par::Sequential);
        assert_eq!(figures, ways.figures(Par::Rayon), "{what}");
        if figures.offsets_max > 1 {
            assert_eq!(
                (&figures.by_links.pairs, &figures.by_switches.pairs),
                (&links, &switches),
                "{what}"
            );
            assert_eq!(figures.pairs_on_one_switch, same, "{what}");
            let found = (figures.by_links.possible, figures.by_switches.possible);
            assert_eq!(found, possible, "{what}");
            assert!(figures.by_links.share_of_possible() <= 1.0 && figures.by_switches.share_of_possible() <= 1.0);
        }
        figures
    })
}

#[test]
fn random_tables() {
    let mut sizes = BTreeSet::new();
    for case in 0..250 {
        let mut rng = Seed(41).nth(case).rng();
        let mut below = |n: usize| usize::try_from(rng.below(n as u64)).unwrap();
        let (switches, more, count, down) = (2 + below(6), below(14), 2 + below(4), below(2));
        let fabric = support::random(switches, more, count, down, &mut below);
        let lids = support::lids(&fabric, 1 + below(3) as u8);
        let mut tables = match below(2) {
            0 => support::minhop(&fabric, &lids),
            _ => support::updown(&fabric, &lids, SwitchIdx(below(switches) as u32)),
        };
        for _ in 0..below(40) {
            let (switch, lid) = (
                SwitchIdx(below(switches) as u32),
                Lid(1 + below(usize::from(lids.top().0)) as u16),
            );
            let ways = support::neighbours(&fabric, switch);
            if !ways.is_empty() {
                tables.set(switch, lid, ways[below(ways.len())].0.get());
            }
        }
        let figures = compare(&fabric, &lids, &tables, &format!("case {case}"));
        sizes.extend(
            figures
                .by_links
                .pairs
                .iter()
                .zip(0..)
                .filter(|(pairs, _)| **pairs > 0)
                .map(|(_, size)| size),
        );
    }
    assert!((0..=4).all(|size| sizes.contains(&size)), "{sizes:?}");
}

/// Four leaves under three spines, offsets shared out over the spines: with LMC 1 two ways without a common cable or
/// switch, with LMC 2 three.
#[test]
fn trees() {
    let fabric = support::tree(4, 3, 2);
    let check = |lmc: u8, want: usize| {
        let lids = support::lids(&fabric, lmc);
        let figures = compare(&fabric, &lids, &support::minhop(&fabric, &lids), "tree");
        assert_eq!((figures.offsets_max, figures.bounded), (1 << lmc, 0));
        if lmc == 0 {
            assert_eq!(
                (figures.pairs, figures.by_links.min, figures.by_links.mean()),
                (0, 0, 0.0)
            );
            return;
        }
        assert_eq!((figures.pairs, figures.pairs_on_one_switch), (48, 8));
        for spread in [figures.by_links, figures.by_switches] {
            assert_eq!((spread.possible, spread.share_of_possible()), (48, 1.0));
            assert_eq!(
                (spread.min, spread.mean(), spread.pairs[want]),
                (want as u64, want as f64, 48)
            );
            assert_eq!(spread.worst.unwrap().1.name, "\"h0\"[1]");
        }
    };
    check(0, 0);
    check(1, 2);
    check(2, 3);
}

/// Two switches with three parallel cables: the ways share no switch between the ends, only a cable or none.
#[test]
fn parallel_cables() {
    let mut net = support::Net::new(2, 8);
    net.link(0, 1).link(0, 1).link(0, 1).host(0).host(1);
    let fabric = net.finish(PortState::Active);
    let lids = support::lids(&fabric, 2);
    let figures = compare(&fabric, &lids, &support::minhop(&fabric, &lids), "parallel");
    assert_eq!((figures.by_links.min, figures.by_switches.min), (3, 3));
}

#[test]
fn who_has_no_ways() {
    let fabric = support::ring(4, 1);
    let lids = support::lids(&fabric, 1);
    let tables = support::minhop(&fabric, &lids);
    let (host, switch) = (
        hosts(&fabric)[0],
        PortRef {
            node: fabric.switches()[SwitchIdx(0)],
            port: PortNum::MANAGEMENT,
        },
    );
    with_ways(&fabric, &lids, &tables, |ways| {
        assert!(ways.pair(host, switch).is_none() && ways.pair(switch, host).is_none());
    });
}

/// Two rings that share a switch, and one more behind a single cable: what the cabling allows, whatever the tables.
#[test]
fn what_is_possible() {
    let mut net = support::Net::new(6, 8);
    net.link(0, 1).link(1, 2).link(2, 0);
    net.link(2, 3).link(3, 4).link(4, 2);
    net.link(4, 5);
    (0..6).for_each(|switch| {
        net.host(switch);
    });
    let fabric = net.finish(PortState::Active);
    let lids = support::lids(&fabric, 1);
    let figures = compare(&fabric, &lids, &support::minhop(&fabric, &lids), "two rings");
    // All but those with the last; and of these, those within one ring.
    assert_eq!(
        (figures.pairs, figures.by_links.possible, figures.by_switches.possible),
        (30, 20, 12)
    );
    // On a ring shortest paths to both LIDs are the same.
    assert_eq!(figures.by_links.share_of_possible(), 0.0);
}
