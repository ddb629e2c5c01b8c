//! Shortest paths.
//!
//! Work: one breadth-first search per switch, so switches × (switches + neighbouring pairs): about 10 M steps for a
//! tree of 972 switches, 140 M for one of 2,880.

use selvedge_sim::Par;

use crate::graph::Graph;
use crate::paths::{Entry, Paths};

/// Shortest paths between all switches.
pub(crate) fn paths(graph: &Graph, par: Par) -> Paths {
    Paths::new(graph.switches(), None, par, |target, queue: &mut Vec<u32>, row| {
        breadth_first(graph, target, queue, row);
    })
}

fn breadth_first(graph: &Graph, target: usize, queue: &mut Vec<u32>, row: &mut [Entry]) {
    queue.clear();
    queue.push(u32::try_from(target).unwrap_or(u32::MAX));
    row[target] = Entry::new(0, true);
    let mut head = 0;
    while let Some(&at) = queue.get(head) {
        head += 1;
        let Some(hops) = row[at as usize].hops() else { continue };
        for &next in graph.neighbours(at as usize) {
            if row[next as usize] == Entry::NONE {
                row[next as usize] = Entry::new(hops + 1, true);
                queue.push(next);
            }
        }
    }
}
