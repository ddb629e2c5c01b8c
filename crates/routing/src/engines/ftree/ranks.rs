//! Computes the distance of each switch from the roots.

use selvedge_graph::Graph;

/// Not reached from any root.
pub(crate) const UNRANKED: u32 = u32::MAX;

/// Hops from the nearest of `starts`.
pub(crate) fn below(graph: &Graph, starts: impl IntoIterator<Item = usize>) -> Vec<u32> {
    let mut rank = vec![UNRANKED; graph.switches()];
    let mut queue: Vec<usize> = Vec::new();
    for start in starts {
        if rank[start] == UNRANKED {
            rank[start] = 0;
            queue.push(start);
        }
    }
    let mut head = 0;
    while let Some(&at) = queue.get(head) {
        head += 1;
        for &next in graph.neighbours(at) {
            let next = next as usize;
            if rank[next] == UNRANKED {
                rank[next] = rank[at] + 1;
                queue.push(next);
            }
        }
    }
    rank
}

/// Returns the ranks that switches have if the roots are the switches farthest from all hosts.
pub(crate) fn above_hosts(graph: &Graph, bearing: impl IntoIterator<Item = usize>) -> Vec<u32> {
    let height = below(graph, bearing);
    let top = height.iter().copied().filter(|&h| h != UNRANKED).max();
    below(graph, (0..graph.switches()).filter(|&s| Some(height[s]) == top))
}

/// Returns the highest rank that occurs.
pub(crate) fn highest(rank: &[u32]) -> u32 {
    rank.iter().copied().filter(|&r| r != UNRANKED).max().unwrap_or(0)
}
