//! Shortest paths.
//!
//! The work is one breadth-first search for each switch, or switches × (switches + neighbouring pairs): about 10 M
//! steps for a tree of 972 switches, 140 M for one of 2,880.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use selvedge_graph::Graph;
use selvedge_sim::Par;

use crate::engine::{Capability, Input, Made, RoutingEngine};
use crate::error::EngineError;
use crate::note::Note;
use crate::paths::{Entry, Levels, Paths};
use crate::ports;

/// Engine `minhop`.
#[derive(Debug)]
pub struct MinHop;

impl RoutingEngine for MinHop {
    fn route(&self, input: &Input<'_>, notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        let weights = ports::weights(input.fabric, input.graph, &input.options.hop_weights, notes);
        let paths = paths(input.graph, weights, input.par);
        Ok(Made::on_one_lane(input.balanced(&paths, notes)))
    }

    fn capabilities(&self) -> &'static [Capability] {
        &[]
    }
}

/// Returns shortest paths between all switches. `weights`: the weight of every channel, if not all are 1.
fn paths(graph: &Graph, weights: Option<Vec<u8>>, par: Par) -> Paths {
    Paths::Levels(match weights {
        None => distances(graph, par),
        Some(weights) => Levels::new(graph.switches(), None, par, |target, heap: &mut Heap, row| {
            least_weight(graph, &weights, target, heap, row);
        })
        .weighted(weights),
    })
}

/// Hops between all switches.
pub(crate) fn distances(graph: &Graph, par: Par) -> Levels {
    Levels::new(graph.switches(), None, par, |target, queue: &mut Vec<u32>, row| {
        breadth_first(graph, target, queue, row);
    })
}

/// Switches by weight to the target, lightest first.
type Heap = BinaryHeap<Reverse<(u16, u32)>>;

/// Searches least-weight paths with Dijkstra's algorithm, from the target outwards. The weight of a channel belongs to
/// its sending end, so for each neighbour the weight of the channel back is read.
fn least_weight(graph: &Graph, weights: &[u8], target: usize, heap: &mut Heap, row: &mut [Entry]) {
    heap.clear();
    heap.push(Reverse((0, u32::try_from(target).unwrap_or(u32::MAX))));
    row[target] = Entry::new(0, true);
    while let Some(Reverse((left, at))) = heap.pop() {
        if row[at as usize].hops() != Some(left) {
            continue;
        }
        for &from in graph.neighbours(at as usize) {
            let range = graph.channels().range(from as usize);
            let back = graph.channels().get(from as usize).iter().zip(&weights[range]);
            let Some(weight) = back.filter(|(c, _)| c.to == at).map(|(_, w)| *w).min() else {
                continue;
            };
            let total = left.saturating_add(u16::from(weight));
            if row[from as usize].hops().is_none_or(|hops| total < hops) && total <= Entry::HOPS_MAX {
                row[from as usize] = Entry::new(total, true);
                heap.push(Reverse((total, from)));
            }
        }
    }
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
