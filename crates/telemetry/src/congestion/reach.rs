//! Which waiting ports lead to which root, within bounds: in a large fabric that waits everywhere, ports times roots
//! are hundreds of millions.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use selvedge_fabric::PortRef;

/// Ports that lead to a root, with their distance from it.
pub(super) type Members = BTreeMap<PortRef, u32>;

/// By port: other ports. Both for what a port waits for and for what waits for it.
pub(super) type Ports = BTreeMap<PortRef, Vec<PortRef>>;

/// The ports that lead to each root.
#[derive(Debug)]
pub(super) struct Reached {
    /// By root.
    pub members: BTreeMap<PortRef, Members>,
    /// Largest distance that was traced; `None`: all were.
    pub horizon: Option<u32>,
}

/// Returns the ports that lead to each root. If these are more than `most` in all, only those within a distance are
/// returned, the same for all roots.
pub(super) fn reach(
    roots: impl Iterator<Item = PortRef>,
    is_waiting: impl Fn(PortRef) -> bool,
    feeders: &Ports,
    most: usize,
) -> Reached {
    let begin = |root: PortRef| {
        let members: Members = is_waiting(root).then_some((root, 0)).into_iter().collect();
        (root, (members, vec![root]))
    };
    let mut of: BTreeMap<PortRef, (Members, Vec<PortRef>)> = roots.map(begin).collect();
    let mut total = of.len();
    let mut horizon = None;
    let mut hops = 0;
    while horizon.is_none() && of.values().any(|(_, open)| !open.is_empty()) {
        hops += 1;
        for (members, open) in of.values_mut() {
            let mut further = Vec::new();
            for at in open.iter().filter_map(|at| feeders.get(at)).flatten() {
                if let Entry::Vacant(entry) = members.entry(*at) {
                    entry.insert(hops);
                    further.push(*at);
                }
            }
            total += further.len();
            *open = further;
            if total > most {
                horizon = Some(hops - 1);
                break;
            }
        }
    }
    let members = of.into_iter().map(|(root, (mut members, _))| {
        if let Some(horizon) = horizon {
            members.retain(|_, hops| *hops <= horizon);
        }
        (root, members)
    });
    Reached {
        members: members.collect(),
        horizon,
    }
}

/// Returns the certain roots, and those without which a waiting port would have none: always the one that explains the
/// most of the ports that are left; of two that explain as much, the first by node and port. A link that is merely
/// full, beside the congestion of another link, explains nothing that the other does not.
pub(super) fn necessary(reached: &BTreeMap<PortRef, Members>, is_certain: impl Fn(&PortRef) -> bool) -> Vec<PortRef> {
    let mut open: BTreeSet<PortRef> = reached.values().flat_map(Members::keys).copied().collect();
    let explain = |root: &PortRef, open: &mut BTreeSet<PortRef>| {
        for at in reached[root].keys() {
            open.remove(at);
        }
    };
    let (mut chosen, doubtful): (Vec<PortRef>, Vec<PortRef>) = reached.keys().copied().partition(is_certain);
    for root in &chosen {
        explain(root, &mut open);
    }
    // What a root explains only becomes less, so a count that is still the largest when counted again is the largest.
    let counted = doubtful.into_iter().map(|root| (reached[&root].len(), Reverse(root)));
    let mut ranked: BinaryHeap<(usize, Reverse<PortRef>)> = counted.collect();
    while let Some((_, Reverse(root))) = ranked.pop().filter(|_| !open.is_empty()) {
        let now = (
            reached[&root].keys().filter(|at| open.contains(at)).count(),
            Reverse(root),
        );
        if ranked.peek().is_none_or(|next| now >= *next) {
            explain(&root, &mut open);
            chosen.push(root);
        } else {
            ranked.push(now);
        }
    }
    chosen
}

/// Returns the sets of ports that wait for each other, by their first port. `causes` and `feeders` are the same graph,
/// seen from both sides; only the ports of `rest` are considered. Kosaraju's strongly connected components.
pub(super) fn cycles(rest: &BTreeSet<PortRef>, causes: &Ports, feeders: &Ports) -> Vec<BTreeSet<PortRef>> {
    let mut seen = BTreeSet::new();
    let mut order = Vec::new();
    for start in rest {
        let mut path = vec![(*start, 0)];
        while let Some((at, next)) = path.pop() {
            if next == 0 && !seen.insert(at) {
                continue;
            }
            match causes.get(&at).and_then(|causes| causes.get(next)) {
                Some(cause) => {
                    path.push((at, next + 1));
                    if rest.contains(cause) && !seen.contains(cause) {
                        path.push((*cause, 0));
                    }
                }
                None => order.push(at),
            }
        }
    }
    let mut left = rest.clone();
    let mut sets = Vec::new();
    for start in order.into_iter().rev() {
        let mut set = BTreeSet::new();
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            if left.remove(&at) {
                set.insert(at);
                open.extend(feeders.get(&at).into_iter().flatten());
            }
        }
        let is_own_cause = |at: &PortRef| causes.get(at).is_some_and(|causes| causes.contains(at));
        if set.len() > 1 || set.first().is_some_and(is_own_cause) {
            sets.push(set);
        }
    }
    sets.sort_unstable();
    sets
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::NodeIdx;
    use selvedge_types::PortNum;

    use super::*;

    fn at(node: u32) -> PortRef {
        PortRef {
            node: NodeIdx(node),
            port: PortNum::MANAGEMENT,
        }
    }

    fn graph(edges: &[(u32, u32)]) -> (Ports, Ports) {
        let (mut causes, mut feeders) = (Ports::new(), Ports::new());
        for (from, to) in edges {
            causes.entry(at(*from)).or_default().push(at(*to));
            feeders.entry(at(*to)).or_default().push(at(*from));
        }
        (causes, feeders)
    }

    #[test]
    fn cycles_are_sets_of_ports_that_wait_for_each_other() {
        let check = |edges: &[(u32, u32)], rest: &[u32], want: &[&[u32]]| {
            let (causes, feeders) = graph(edges);
            let rest: BTreeSet<PortRef> = rest.iter().map(|node| at(*node)).collect();
            let found = cycles(&rest, &causes, &feeders);
            let want: Vec<BTreeSet<PortRef>> = want
                .iter()
                .map(|set| set.iter().map(|node| at(*node)).collect())
                .collect();
            assert_eq!(found, want, "{edges:?}");
        };
        check(&[(1, 2), (2, 3)], &[1, 2, 3], &[]);
        check(&[(1, 2), (2, 1), (0, 1), (2, 3)], &[0, 1, 2, 3], &[&[1, 2]]);
        // Two cycles with a bridge, one port that waits for itself, and a cycle that leaves the set.
        let edges = [(1, 2), (2, 1), (2, 5), (5, 6), (6, 7), (7, 5), (8, 8), (9, 4), (4, 9)];
        check(&edges, &[1, 2, 5, 6, 7, 8, 9], &[&[1, 2], &[5, 6, 7], &[8]]);
    }

    #[test]
    fn what_is_reached_is_cut_at_one_distance_for_all_roots() {
        // Two roots, a chain of four behind the first, of two behind the second.
        let (_, feeders) = graph(&[(1, 0), (2, 1), (3, 2), (4, 3), (11, 10), (12, 11)]);
        let within = |most| reach([at(0), at(10)].into_iter(), |_| true, &feeders, most);
        let all = within(100);
        assert_eq!(
            (all.horizon, all.members[&at(0)].len(), all.members[&at(10)].len()),
            (None, 5, 3)
        );
        assert_eq!(all.members[&at(0)][&at(4)], 4);
        let cut = within(5);
        assert_eq!(
            (cut.horizon, cut.members[&at(0)].len(), cut.members[&at(10)].len()),
            (Some(1), 2, 2)
        );
    }

    #[test]
    fn the_roots_that_explain_the_most_are_chosen() {
        let members = |ports: &[u32]| -> Members { ports.iter().map(|port| (at(*port), 1)).collect() };
        let reached: BTreeMap<PortRef, Members> = [
            (at(100), members(&[1, 2, 3])),
            (at(101), members(&[3, 4])),
            (at(102), members(&[4])),
            (at(103), members(&[1, 2])),
            (at(104), members(&[])),
        ]
        .into();
        assert_eq!(necessary(&reached, |_| false), [at(100), at(101)]);
        assert_eq!(
            necessary(&reached, |root| *root == at(104)),
            [at(104), at(100), at(101)]
        );
        assert_eq!(necessary(&reached, |root| *root == at(103)), [at(103), at(101)]);
    }
}
