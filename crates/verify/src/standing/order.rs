//! A topological order of a graph's vertices that is updated while edges are added and removed.
//!
//! Source: Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", 2007. If a new edge is
//! against the order, only vertices between its two ends are moved. Removing an edge never invalidates an order. An
//! edge that closes a cycle stays against the order and is recorded. So the graph has a cycle if and only if such an
//! edge is recorded.
//!
//! Several new edges from one vertex may be against the order, for example where a detour turns. They are handled
//! together: the predecessors of that vertex are searched once, and all of them are moved before the first of the
//! edges' ends. In a tree, a search from each end would visit most vertices.
//!
//! The place of a vertex is a number, with gaps between the numbers. So if vertices are moved before another one, all
//! other places stay unchanged. When a gap is used up, all vertices get new numbers.

use std::collections::BTreeSet;

/// Edges by vertex.
pub trait Graph {
    /// Number of vertices.
    fn vertices(&self) -> usize;
    /// Calls `f` with the vertices that `vertex` points at.
    fn next(&self, vertex: u32, f: impl FnMut(u32));
    /// Calls `f` with the vertices that point at `vertex`.
    fn before(&self, vertex: u32, f: impl FnMut(u32));
}

/// The order of one graph.
#[derive(Clone, Debug)]
pub struct Order {
    /// Place of each vertex; all are different.
    place: Vec<u64>,
    /// Number of unused places directly before each vertex.
    room: Vec<u64>,
    /// Edges that were against the order at the last check. All other edges follow it.
    against: BTreeSet<(u32, u32)>,
    /// Number of the search that visited each vertex last.
    met: Vec<u32>,
    search: u32,
    /// Number of vertices visited by all searches.
    pub searched: u64,
}

impl Order {
    /// Returns an order of all vertices, found by depth-first search.
    pub fn new(graph: &impl Graph) -> Self {
        const ON_THE_WAY: u8 = 1;
        const FINISHED: u8 = 2;
        let vertices = graph.vertices();
        let mut state = vec![0_u8; vertices];
        let mut place = vec![0; vertices];
        let mut against = BTreeSet::new();
        // Places are assigned from the last to the first.
        let mut left = vertices as u64;
        // A vertex is pushed when found and placed once its successors are finished.
        let mut open: Vec<u32> = Vec::new();
        for first in 0..vertices as u32 {
            open.push(first);
            while let Some(&vertex) = open.last() {
                if state[vertex as usize] != 0 {
                    open.pop();
                    if state[vertex as usize] == ON_THE_WAY {
                        state[vertex as usize] = FINISHED;
                        left -= 1;
                        place[vertex as usize] = left;
                    }
                    continue;
                }
                state[vertex as usize] = ON_THE_WAY;
                graph.next(vertex, |next| match state[next as usize] {
                    0 => open.push(next),
                    ON_THE_WAY => drop(against.insert((vertex, next))),
                    _ => {}
                });
            }
        }
        let mut order = Self {
            room: vec![0; vertices],
            place,
            against,
            met: vec![0; vertices],
            search: 0,
            searched: 0,
        };
        order.layer(graph);
        order
    }

    /// Sorts vertices into layers, by the longest path to them. New edges of the same kinds as existing ones then
    /// usually follow the order, so nothing moves. (In a tree: from up to further up, from up to down, from down to
    /// further down.)
    fn layer(&mut self, graph: &impl Graph) {
        let mut by_place = self.by_place();
        let mut depth = vec![0_u32; self.place.len()];
        for &vertex in &by_place {
            let (place, next_depth) = (self.place[vertex as usize], depth[vertex as usize] + 1);
            graph.next(vertex, |next| {
                if self.place[next as usize] > place {
                    depth[next as usize] = depth[next as usize].max(next_depth);
                }
            });
        }
        by_place.sort_by_key(|&vertex| depth[vertex as usize]);
        self.space_out(&by_place);
    }

    /// Returns all vertices in order.
    fn by_place(&self) -> Vec<u32> {
        let mut vertices: Vec<u32> = (0..self.place.len() as u32).collect();
        vertices.sort_unstable_by_key(|&vertex| self.place[vertex as usize]);
        vertices
    }

    /// Gives all vertices places with equal gaps.
    fn space_out(&mut self, by_place: &[u32]) {
        let step = u64::MAX / (by_place.len() as u64 + 1);
        self.room.fill(step - 1);
        for (place, &vertex) in (1..).zip(by_place) {
            self.place[vertex as usize] = place * step;
        }
    }

    /// True if the graph has no cycle, provided that [`Self::retry`] was called since edges changed.
    pub fn is_acyclic(&self) -> bool {
        self.against.is_empty()
    }

    /// Records that an edge has been removed.
    pub fn removed(&mut self, from: u32, to: u32) {
        if !self.against.is_empty() {
            self.against.remove(&(from, to));
        }
    }

    /// Records that an edge has been added. `graph` may already contain edges that will be recorded later.
    pub fn added(&mut self, graph: &impl Graph, from: u32, to: u32) {
        let follows = self.place[from as usize] < self.place[to as usize];
        // While there is a cycle, another edge makes no difference; `retry` checks it later if necessary.
        if !follows && (!self.is_acyclic() || !self.follows(graph, from, to)) {
            self.against.insert((from, to));
        }
    }

    /// Does the same as [`Self::added`] for several edges; edges from one vertex are adjacent. `graph` contains all of
    /// them.
    pub fn added_all(&mut self, graph: &impl Graph, edges: &[(u32, u32)]) {
        /// From this number on, edges from one vertex are handled together. Fewer edges are handled one by one, which
        /// visits fewer vertices than moving all predecessors.
        const TOGETHER: usize = 3;
        for group in edges.chunk_by(|a, b| a.0 == b.0) {
            let from = group[0].0;
            let place = self.place[from as usize];
            let is_against = |to: &u32| self.place[*to as usize] <= place;
            let against: Vec<u32> = group.iter().map(|&(_, to)| to).filter(is_against).collect();
            if against.len() < TOGETHER || !self.is_acyclic() {
                against.iter().for_each(|&to| self.added(graph, from, to));
            } else if !self.follows_all(graph, from, &against) {
                self.against.extend(against.iter().map(|&to| (from, to)));
            }
        }
    }

    /// Tries again to order the recorded edges, until one closes a cycle. That edge is then the first one recorded.
    pub fn retry(&mut self, graph: &impl Graph) {
        while let Some(&(from, to)) = self.against.first() {
            if !self.follows(graph, from, to) {
                return;
            }
            self.against.remove(&(from, to));
        }
    }

    /// Changes the order to follow an edge, if the edge closes no cycle with the edges that the order follows.
    fn follows(&mut self, graph: &impl Graph, from: u32, to: u32) -> bool {
        let (low, high) = (self.place[to as usize], self.place[from as usize]);
        if high < low {
            return true;
        }
        if from == to {
            return false;
        }
        let place = &self.place;
        // Edges against the order are not followed.
        let Some(mut after) = reach(&mut self.met, &mut self.search, to, |vertex, f| {
            let above = place[vertex as usize];
            graph.next(vertex, |next| {
                if (above + 1..=high).contains(&place[next as usize]) {
                    f(next);
                }
            });
            vertex != from
        }) else {
            return false;
        };
        let before = reach(&mut self.met, &mut self.search, from, |vertex, f| {
            let below = place[vertex as usize];
            graph.before(vertex, |next| {
                if (low..below).contains(&place[next as usize]) {
                    f(next);
                }
            });
            true
        });
        let Some(mut before) = before else { return false };
        self.searched += (after.len() + before.len()) as u64;
        before.sort_by_key(|&vertex| self.place[vertex as usize]);
        after.sort_by_key(|&vertex| self.place[vertex as usize]);
        let moved: Vec<u32> = before.into_iter().chain(after).collect();
        let place_of = |&vertex: &u32| (self.place[vertex as usize], self.room[vertex as usize]);
        let mut places: Vec<(u64, u64)> = moved.iter().map(place_of).collect();
        places.sort_unstable();
        for (vertex, place) in moved.into_iter().zip(places) {
            (self.place[vertex as usize], self.room[vertex as usize]) = place;
        }
        true
    }

    /// Moves vertices so that the order agrees with several edges from one vertex that are against it. Returns false if
    /// one of them closes a cycle with the edges that the order agrees with.
    fn follows_all(&mut self, graph: &impl Graph, from: u32, ends: &[u32]) -> bool {
        let place = &self.place;
        let Some(&first) = ends.iter().min_by_key(|&&to| place[to as usize]) else {
            return true;
        };
        let low = place[first as usize];
        let before = reach(&mut self.met, &mut self.search, from, |vertex, f| {
            let below = place[vertex as usize];
            graph.before(vertex, |next| {
                if (low..below).contains(&place[next as usize]) {
                    f(next);
                }
            });
            true
        });
        // The search runs to its end, so there is a result.
        let mut moved = before.unwrap_or_default();
        self.searched += moved.len() as u64;
        if ends.iter().any(|&to| self.met[to as usize] == self.search) {
            return false;
        }
        moved.sort_unstable_by_key(|&vertex| self.place[vertex as usize]);
        self.move_before(first, &moved);
        true
    }

    /// Moves vertices, in their order, to places directly before another vertex.
    fn move_before(&mut self, other: u32, moved: &[u32]) {
        // Half of the gap stays free before the other vertex, because later vertices may have to go there too.
        let parts = 2 * moved.len() as u64;
        if self.room[other as usize] < parts {
            let by_place = self.by_place();
            self.space_out(&by_place);
        }
        let (place, room) = (self.place[other as usize], self.room[other as usize]);
        let step = room / parts;
        for (nth, &vertex) in (1..).zip(moved) {
            self.place[vertex as usize] = place - room - 1 + nth * step;
            self.room[vertex as usize] = step - 1;
        }
        self.room[other as usize] = room - moved.len() as u64 * step;
    }

    /// Returns the vertices of a short cycle through the first recorded edge: see [`Self::retry`].
    pub fn cycle(&self, graph: &impl Graph) -> Option<Vec<u32>> {
        let &(last, first) = self.against.first()?;
        let mut from = vec![u32::MAX; graph.vertices()];
        from[first as usize] = first;
        let mut open = vec![first];
        let mut done = 0;
        while from[last as usize] == u32::MAX {
            let vertex = *open.get(done)?;
            done += 1;
            graph.next(vertex, |next| {
                if from[next as usize] == u32::MAX {
                    from[next as usize] = vertex;
                    open.push(next);
                }
            });
        }
        let mut cycle = vec![last];
        let mut at = last;
        while at != first {
            at = from[at as usize];
            cycle.push(at);
        }
        cycle.reverse();
        Some(cycle)
    }

    /// True if every edge that is not recorded as against the order follows it.
    #[cfg(test)]
    fn is_kept(&self, graph: &impl Graph) -> bool {
        let by_place = self.by_place();
        let has_room = |pair: &[u32]| {
            let [before, place] = [pair[0], pair[1]].map(|vertex| self.place[vertex as usize]);
            place > before && place - before > self.room[pair[1] as usize]
        };
        let mut kept = by_place.windows(2).all(has_room);
        for vertex in 0..graph.vertices() as u32 {
            graph.next(vertex, |next| {
                let follows = self.place[vertex as usize] < self.place[next as usize];
                kept &= follows || self.against.contains(&(vertex, next));
            });
        }
        kept
    }
}

/// Returns all vertices that `spread` leads to from `first`; `None` as soon as `spread` stops the search.
fn reach(
    met: &mut [u32],
    search: &mut u32,
    first: u32,
    mut spread: impl FnMut(u32, &mut dyn FnMut(u32)) -> bool,
) -> Option<Vec<u32>> {
    if *search == u32::MAX {
        met.fill(0);
        *search = 0;
    }
    *search += 1;
    met[first as usize] = *search;
    let mut found = vec![first];
    let mut done = 0;
    while let Some(&vertex) = found.get(done) {
        done += 1;
        let goes_on = spread(vertex, &mut |next| {
            if met[next as usize] != *search {
                met[next as usize] = *search;
                found.push(next);
            }
        });
        if !goes_on {
            return None;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use selvedge_sim::Seed;

    use super::*;

    struct Edges(usize, BTreeSet<(u32, u32)>);

    impl Graph for Edges {
        fn vertices(&self) -> usize {
            self.0
        }

        fn next(&self, vertex: u32, mut f: impl FnMut(u32)) {
            self.1.iter().filter(|edge| edge.0 == vertex).for_each(|edge| f(edge.1));
        }

        fn before(&self, vertex: u32, mut f: impl FnMut(u32)) {
            self.1.iter().filter(|edge| edge.1 == vertex).for_each(|edge| f(edge.0));
        }
    }

    /// Removes vertices without predecessors, until none is left or none can be removed.
    fn is_acyclic(graph: &Edges) -> bool {
        let mut edges = graph.1.clone();
        loop {
            let before = edges.len();
            let targets: BTreeSet<u32> = edges.iter().map(|edge| edge.1).collect();
            edges.retain(|edge| targets.contains(&edge.0));
            if edges.is_empty() || edges.len() == before {
                return edges.is_empty();
            }
        }
    }

    #[test]
    fn cycles_come_and_go() {
        let (mut cyclic, mut acyclic) = (0, 0);
        for case in 0..200 {
            let mut rng = Seed(4).child("order").nth(case).rng();
            let vertices = 2 + rng.below(12) as usize;
            let mut graph = Edges(vertices, BTreeSet::new());
            let edge = |rng: &mut selvedge_sim::Rng| {
                let mut any = || rng.below(vertices as u64) as u32;
                (any(), any())
            };
            for _ in 0..rng.below(2 * vertices as u64) {
                graph.1.insert(edge(&mut rng));
            }
            let mut order = Order::new(&graph);
            for _ in 0..60 {
                let mut added = Vec::new();
                // Often several edges from one vertex.
                let one = (rng.below(2) == 0).then(|| edge(&mut rng).0);
                for _ in 0..1 + rng.below(6) {
                    let wants_more = rng.below(vertices as u64) >= graph.1.len() as u64;
                    let (any, to) = edge(&mut rng);
                    let from = one.unwrap_or(any);
                    let nth = rng.below(1 + graph.1.len() as u64) as usize;
                    let taken = graph.1.iter().nth(nth).copied();
                    if wants_more && graph.1.insert((from, to)) {
                        added.push((from, to));
                    } else if let Some((from, to)) = taken.filter(|taken| !added.contains(taken)) {
                        graph.1.remove(&(from, to));
                        order.removed(from, to);
                    }
                }
                // All edges are in the graph before the first is recorded.
                if case % 2 == 0 {
                    added.sort_unstable();
                    order.added_all(&graph, &added);
                } else {
                    added.iter().for_each(|&(from, to)| order.added(&graph, from, to));
                }
                order.retry(&graph);
                assert!(order.is_kept(&graph), "case {case}");
                if case % 3 == 0 {
                    // Uses up all gaps.
                    for (place, vertex) in (1..).zip(order.by_place()) {
                        (order.place[vertex as usize], order.room[vertex as usize]) = (place, 0);
                    }
                }
                assert_eq!(order.is_acyclic(), is_acyclic(&graph), "case {case}");
                let cycle = order.cycle(&graph);
                assert_eq!(cycle.is_none(), order.is_acyclic());
                let cycle = cycle.unwrap_or_default();
                let next = cycle.iter().cycle().skip(1);
                assert!(cycle.iter().zip(next).all(|(&from, &to)| graph.1.contains(&(from, to))));
                *(if order.is_acyclic() { &mut acyclic } else { &mut cyclic }) += 1;
            }
        }
        assert!(cyclic > 1_000 && acyclic > 1_000, "{cyclic} {acyclic}");
    }
}
