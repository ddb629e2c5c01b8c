//! Cycles among channel dependencies.
//!
//! A single pass over the dependencies first decides whether there is a cycle. Only then does a second search find a
//! short one for the report.

use std::ops::Range;

use selvedge_sim::Par;

use crate::cdg::{Dependencies, DependencyGraph, Next, Vertex};
use crate::finding::Traffic;
use crate::ground::Ground;

/// Returns the first class of traffic with which a cycle appears, and a short cycle. The graph of a class contains the
/// graphs of the classes before it, so the first class with a cycle is the one to report.
pub fn first_cycle(ground: &Ground<'_>, dependencies: &Dependencies, par: Par) -> Option<(Traffic, Vec<Vertex>)> {
    let graph = |traffic| DependencyGraph::new(ground, dependencies, traffic);
    let cyclic = [Traffic::Switches, Traffic::Agents, Traffic::Hosts]
        .into_iter()
        .take_while(|&traffic| {
            let parts = graph(traffic).parts_apart();
            let cyclic = par.map(parts.len(), |part| is_cyclic(graph(traffic), parts[part].clone()));
            cyclic.contains(&true)
        });
    let first = cyclic.last()?;
    cycle(graph(first)).map(|cycle| (first, cycle))
}

/// Mark of a vertex on the current search path if its position is not needed.
const ON_THE_WAY: u8 = 1;
const FINISHED: u8 = 2;

/// True if these vertices have a cycle. No dependency may lead from them to another vertex. Searches depth-first and
/// reads each dependency once.
fn is_cyclic(graph: DependencyGraph<'_>, vertices: Range<Vertex>) -> bool {
    let mut state = vec![0_u8; vertices.len()];
    let base = vertices.start;
    let mut path: Vec<(Vertex, Next<'_>)> = Vec::new();
    for first in vertices {
        if state[first - base] != 0 {
            continue;
        }
        state[first - base] = ON_THE_WAY;
        path.push((first, graph.next(first)));
        while let Some((vertex, next)) = path.last_mut() {
            match next.find(|&next| state[next - base] != FINISHED) {
                Some(next) if state[next - base] == ON_THE_WAY => return true,
                Some(next) => {
                    state[next - base] = ON_THE_WAY;
                    path.push((next, graph.next(next)));
                }
                None => {
                    state[*vertex - base] = FINISHED;
                    path.pop();
                }
            }
        }
    }
    false
}

/// Returns a short cycle, if there is any. Uses topological sorting (Kahn 1962): a vertex that cannot be sorted is on a
/// cycle or reachable from one.
fn cycle(graph: DependencyGraph<'_>) -> Option<Vec<Vertex>> {
    let mut waiting = vec![0_u32; graph.vertices()];
    for vertex in 0..graph.vertices() {
        graph.next(vertex).for_each(|next| waiting[next] += 1);
    }
    let mut open: Vec<Vertex> = (0..graph.vertices()).filter(|&v| waiting[v] == 0).collect();
    while let Some(vertex) = open.pop() {
        for next in graph.next(vertex) {
            waiting[next] -= 1;
            if waiting[next] == 0 {
                open.push(next);
            }
        }
    }
    let left: Vec<bool> = waiting.iter().map(|&n| n > 0).collect();
    let left = without_ends(graph, left);
    any_cycle(graph, &left).map(|cycle| shortened(graph, &left, cycle))
}

/// Removes vertices from which no cycle can be reached, so that later searches skip them.
fn without_ends(graph: DependencyGraph<'_>, mut left: Vec<bool>) -> Vec<bool> {
    let mut seen = vec![false; left.len()];
    let mut path: Vec<(Vertex, Next<'_>, bool)> = Vec::new();
    for first in 0..left.len() {
        if !left[first] || seen[first] {
            continue;
        }
        seen[first] = true;
        path.push((first, graph.next(first), false));
        while let Some((vertex, next, leads_on)) = path.last_mut() {
            // A vertex that was visited and is still left leads to a cycle, or is on the search path and closes one.
            match next.find(|&next| left[next] && !(seen[next] && *leads_on)) {
                Some(next) if seen[next] => *leads_on = true,
                Some(next) => {
                    seen[next] = true;
                    path.push((next, graph.next(next), false));
                }
                None => {
                    let leads_on = *leads_on;
                    left[*vertex] = leads_on;
                    path.pop();
                    if let Some(before) = path.last_mut() {
                        before.2 |= leads_on;
                    }
                }
            }
        }
    }
    left
}

/// Returns a cycle among the remaining vertices (`left`), if there is one. Searches depth-first until it returns to a
/// vertex on its path.
fn any_cycle(graph: DependencyGraph<'_>, left: &[bool]) -> Option<Vec<Vertex>> {
    let next_of = |vertex| -> Vec<Vertex> { graph.next(vertex).filter(|&next| left[next]).collect() };
    let mut position = vec![usize::MAX; left.len()];
    let mut finished = vec![false; left.len()];
    for first in (0..left.len()).filter(|&v| left[v]) {
        if finished[first] {
            continue;
        }
        let mut path = vec![(first, next_of(first))];
        position[first] = 0;
        while let Some((vertex, open)) = path.last_mut() {
            let Some(next) = open.pop() else {
                finished[*vertex] = true;
                position[*vertex] = usize::MAX;
                path.pop();
                continue;
            };
            if position[next] != usize::MAX {
                return Some(path[position[next]..].iter().map(|(v, _)| *v).collect());
            }
            if !finished[next] {
                position[next] = path.len();
                path.push((next, next_of(next)));
            }
        }
    }
    None
}

/// Returns the shortest cycle through one of the first vertices of `cycle`, because people read the result.
fn shortened(graph: DependencyGraph<'_>, left: &[bool], cycle: Vec<Vertex>) -> Vec<Vertex> {
    const TRIES: usize = 16;
    let mut best: Option<Vec<Vertex>> = None;
    for &vertex in cycle.iter().take(TRIES) {
        let below = best.as_ref().map_or(usize::MAX, Vec::len);
        best = shortest_through(graph, vertex, left, below).or(best);
    }
    best.unwrap_or(cycle)
}

/// Returns the shortest cycle through `start`, if it has fewer than `below` vertices.
fn shortest_through(graph: DependencyGraph<'_>, start: Vertex, left: &[bool], below: usize) -> Option<Vec<Vertex>> {
    let mut from = vec![u32::MAX; left.len()];
    // Vertices with the length of the cycle that they would close.
    let mut open = vec![(start, 1)];
    let mut done = 0;
    while let Some(&(vertex, length)) = open.get(done) {
        if length >= below {
            return None;
        }
        done += 1;
        for next in graph.next(vertex).filter(|&next| left[next]) {
            if next == start {
                let mut back = vec![vertex];
                while *back.last()? != start {
                    back.push(from[*back.last()?] as usize);
                }
                back.reverse();
                return Some(back);
            }
            if from[next] == u32::MAX {
                from[next] = u32::try_from(vertex).ok()?;
                open.push((next, length + 1));
            }
        }
    }
    None
}
