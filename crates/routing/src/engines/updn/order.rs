//! One order of all switches, from top to bottom.

use std::collections::VecDeque;

use selvedge_graph::Graph;

use crate::engines::updn::roots::Ranking;

/// The order of switches: by part of the fabric, then roots and the switches that join them, then rank, then GUID.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Switches from top to bottom.
    pub at: Vec<u32>,
    /// Place of each switch.
    pub position: Vec<u32>,
    /// Number of links inside a rank.
    pub equal_rank_links: usize,
    /// Switches between the roots that were raised to the roots' level, ascending.
    pub raised: Vec<u32>,
}

/// The depth of a switch among the roots, counted from the first root of its part; `None` for most switches.
type Depths = Vec<Option<u32>>;

impl Order {
    /// Orders all switches.
    ///
    /// If roots are to be connected, each part of the fabric has one top, the first of its roots. The other roots are
    /// joined to it by a tree of shortest paths. The switches on these paths are ordered among the roots, by their
    /// depth in the tree. So every switch but the top has a neighbour above it, and every pair has at least a path up
    /// and down through the top. On a tree this raises one leaf, and the switches above it, to the roots. No path
    /// between hosts becomes longer.
    pub fn new(graph: &Graph, ranking: &Ranking, connect: bool) -> Self {
        let mut depth: Depths = vec![None; graph.switches()];
        for roots in &ranking.roots {
            if connect {
                join(graph, roots, &mut depth);
            } else {
                roots.iter().for_each(|&r| depth[r as usize] = Some(0));
            }
        }
        let key = |&s: &u32| {
            let s = s as usize;
            let tier = (depth[s].is_none(), depth[s].unwrap_or(ranking.rank[s]));
            (graph.component(s), tier, s)
        };
        let mut at: Vec<u32> = (0..).take(graph.switches()).collect();
        at.sort_by_key(key);
        let mut position = vec![0; at.len()];
        for (place, &switch) in (0..).zip(&at) {
            position[switch as usize] = place;
        }
        let is_root = |s: u32| ranking.roots[graph.component(s as usize)].contains(&s);
        let raised = (0..).zip(&depth).filter(|(_, d)| d.is_some()).map(|(s, _)| s);
        Self {
            at,
            position,
            equal_rank_links: equal_rank_links(graph, &ranking.rank),
            raised: raised.filter(|&s| !is_root(s)).collect(),
        }
    }
}

/// Grows a tree from the first root until all roots are in it, nearest first.
fn join(graph: &Graph, roots: &[u32], depth: &mut Depths) {
    let Some(&top) = roots.first() else { return };
    depth[top as usize] = Some(0);
    let mut tree = vec![top];
    loop {
        let missing: Vec<u32> = roots.iter().copied().filter(|&r| depth[r as usize].is_none()).collect();
        if missing.is_empty() {
            return;
        }
        let (parent, hops) = breadth_first(graph, &tree);
        let Some(nearest) = missing
            .iter()
            .map(|&r| hops[r as usize])
            .min()
            .filter(|&h| h != u32::MAX)
        else {
            // Roots of one part reach each other; nothing more can be joined.
            return;
        };
        for root in missing.into_iter().filter(|&r| hops[r as usize] == nearest) {
            graft(root, &parent, depth, &mut tree);
        }
    }
}

/// Adds the path from the tree to `root` to the tree.
fn graft(root: u32, parent: &[u32], depth: &mut Depths, tree: &mut Vec<u32>) {
    let mut way = Vec::new();
    let mut at = root;
    let mut base = 0;
    loop {
        if let Some(depth) = depth[at as usize] {
            base = depth;
            break;
        }
        way.push(at);
        match parent[at as usize] {
            u32::MAX => break,
            next => at = next,
        }
    }
    for (below, &switch) in (1..).zip(way.iter().rev()) {
        depth[switch as usize] = Some(base + below);
        tree.push(switch);
    }
}

/// Parents and hops of a breadth-first search from several switches; `u32::MAX` where there is none.
fn breadth_first(graph: &Graph, from: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut parent = vec![u32::MAX; graph.switches()];
    let mut hops = vec![u32::MAX; graph.switches()];
    from.iter().for_each(|&s| hops[s as usize] = 0);
    let mut queue: VecDeque<u32> = from.iter().copied().collect();
    while let Some(at) = queue.pop_front() {
        for &next in graph.neighbours(at as usize) {
            if hops[next as usize] == u32::MAX {
                hops[next as usize] = hops[at as usize] + 1;
                parent[next as usize] = at;
                queue.push_back(next);
            }
        }
    }
    (parent, hops)
}

fn equal_rank_links(graph: &Graph, rank: &[u32]) -> usize {
    let level = |s: usize| {
        graph
            .channels()
            .get(s)
            .iter()
            .filter(move |c| rank[c.to as usize] == rank[s])
    };
    // Each link has two channels.
    (0..graph.switches()).map(|s| level(s).count()).sum::<usize>() / 2
}
