//! A topological order of the vertices of a graph, kept up to date as edges are added (Pearce and Kelly, "A dynamic
//! topological sort algorithm for directed acyclic graphs", ACM Journal of Experimental Algorithmics 11, 2007).
//!
//! An edge that agrees with the order costs one comparison. For an edge against the order, the vertices between its two
//! ends are searched from both ends. If that finds no cycle, the visited vertices exchange their places. Removing an
//! edge costs nothing: the order stays valid.

use crate::number;

/// The edges of a graph, both ways. Vertices are numbered from 0.
pub trait Edges {
    /// Calls `each` with every vertex that an edge leads to from `vertex`.
    fn onward(&self, vertex: u32, each: impl FnMut(u32));

    /// Calls `each` with every vertex from which an edge leads to `vertex`.
    fn back(&self, vertex: u32, each: impl FnMut(u32));
}

/// The reasons for which an edge is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The edge closes a cycle.
    Cycle,
    /// The budget was used up before the search ended.
    Budget,
}

/// A place for each vertex. The edges are kept by the caller, which passes them in.
#[derive(Clone, Debug)]
pub struct Order {
    place: Vec<u32>,
    /// By vertex: the last search that met it.
    seen: Vec<u32>,
    search: u32,
}

impl Order {
    /// Returns the order of a graph without edges: its vertices by number.
    #[must_use]
    pub fn new(vertices: usize) -> Self {
        Self {
            place: (0..number(vertices)).collect(),
            seen: vec![0; vertices],
            search: 0,
        }
    }

    /// Sorts the vertices again along all edges (Kahn, "Topological sorting of large networks", Communications of the
    /// ACM 5(11), 1962). Returns false if the edges have a cycle; then the order is of no use.
    #[must_use]
    pub fn sort(&mut self, edges: &impl Edges) -> bool {
        let vertices = self.place.len();
        let mut waits_for = vec![0_u32; vertices];
        for vertex in 0..number(vertices) {
            edges.onward(vertex, |next| waits_for[next as usize] += 1);
        }
        let mut sorted: Vec<u32> = (0..number(vertices)).filter(|&v| waits_for[v as usize] == 0).collect();
        let mut done = 0;
        while let Some(&vertex) = sorted.get(done) {
            self.place[vertex as usize] = number(done);
            done += 1;
            edges.onward(vertex, |next| {
                waits_for[next as usize] -= 1;
                if waits_for[next as usize] == 0 {
                    sorted.push(next);
                }
            });
        }
        done == vertices
    }

    /// Returns true if an edge leads along the order: it closes no cycle.
    #[inline]
    #[must_use]
    pub fn agrees(&self, from: u32, to: u32) -> bool {
        self.place[from as usize] < self.place[to as usize]
    }

    /// Changes the order so that `from` stands before `to`. On `Err` nothing has changed. Each visited vertex reduces
    /// `budget` by one.
    pub fn make_room(&mut self, edges: &impl Edges, from: u32, to: u32, budget: &mut u64) -> Result<(), Refused> {
        if self.agrees(from, to) {
            return Ok(());
        }
        let (low, high) = (self.place[to as usize], self.place[from as usize]);
        let mut after = self.start(to);
        let mut done = 0;
        while let Some(&vertex) = after.get(done) {
            done += 1;
            spend(budget)?;
            if vertex == from {
                return Err(Refused::Cycle);
            }
            edges.onward(vertex, |next| {
                if self.place[next as usize] <= high && self.is_new(next) {
                    after.push(next);
                }
            });
        }
        let mut before = self.start(from);
        let mut done = 0;
        while let Some(&vertex) = before.get(done) {
            done += 1;
            spend(budget)?;
            edges.back(vertex, |earlier| {
                if self.place[earlier as usize] >= low && self.is_new(earlier) {
                    before.push(earlier);
                }
            });
        }
        self.merge(before, after);
        Ok(())
    }

    /// Begins a new search, which has met one vertex.
    fn start(&mut self, vertex: u32) -> Vec<u32> {
        if self.search == u32::MAX {
            self.search = 0;
            self.seen.fill(0);
        }
        self.search += 1;
        self.seen[vertex as usize] = self.search;
        vec![vertex]
    }

    /// True if this search meets the vertex for the first time.
    #[inline]
    fn is_new(&mut self, vertex: u32) -> bool {
        std::mem::replace(&mut self.seen[vertex as usize], self.search) != self.search
    }

    /// Distributes the places of all vertices in both lists: the first places to `before`, the others to `after`.
    /// Within each list the vertices keep their order.
    fn merge(&mut self, mut before: Vec<u32>, mut after: Vec<u32>) {
        before.sort_unstable_by_key(|&v| self.place[v as usize]);
        after.sort_unstable_by_key(|&v| self.place[v as usize]);
        before.append(&mut after);
        let mut places: Vec<u32> = before.iter().map(|&v| self.place[v as usize]).collect();
        places.sort_unstable();
        for (vertex, place) in before.into_iter().zip(places) {
            self.place[vertex as usize] = place;
        }
    }
}

const fn spend(budget: &mut u64) -> Result<(), Refused> {
    if *budget == 0 {
        return Err(Refused::Budget);
    }
    *budget -= 1;
    Ok(())
}
