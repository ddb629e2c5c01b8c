//! Random regular graphs.

use selvedge_sim::Rng;

use crate::SpecError;
use crate::generate::plane::Plane;
use crate::generate::{Recipe, Size};

/// Number of attempted exchanges per cable; a few are enough to make the graph independent of the initial one.
const EXCHANGES_PER_EDGE: usize = 20;

/// Returns a random regular graph. It starts with a regular graph and exchanges the far ends of two random cables many
/// times. Then it makes exchanges that join two components, until one component is left. Every switch keeps its degree.
pub fn plane(recipe: &Recipe, switches: u32, degree: u32, hosts: u32) -> Result<Plane, SpecError> {
    if switches < 2 {
        return Err(recipe.bad("switches", &switches.to_string(), "at least 2; single has one"));
    }
    let can_connect = degree >= 2 || switches == 2;
    let is_even = (u64::from(switches) * u64::from(degree)).is_multiple_of(2);
    if degree == 0 || degree >= switches || !is_even || !can_connect {
        let want = format!(
            "1 to {} (more than 1 unless there are 2 switches), and switches * degree even",
            switches - 1
        );
        return Err(recipe.bad("degree", &degree.to_string(), &want));
    }
    let size = Size {
        switches: switches.into(),
        hosts: u128::from(switches) * u128::from(hosts),
        ports: u128::from(hosts) * u128::from(recipe.ports_per_plane()) + u128::from(degree),
    };
    let mut plane = Plane::new(recipe, size)?;
    for index in 0..switches {
        plane.add(index.to_string(), hosts);
    }
    let mut graph = Graph::circulant(switches, degree);
    let mut rng = recipe.options.seed.child("random-graph").rng();
    for _ in 0..graph.edges.len() * EXCHANGES_PER_EDGE {
        let (first, second) = (graph.draw(&mut rng), graph.draw(&mut rng));
        graph.exchange(first, second, rng.below(2) == 1);
    }
    graph.connect(&mut rng);
    for (a, b) in graph.sorted_edges() {
        plane.cable(a as usize, b as usize);
    }
    Ok(plane)
}

/// A simple graph with fixed degree.
struct Graph {
    edges: Vec<(u32, u32)>,
    /// Neighbours of each vertex. Degrees are below 255, so a linear search is fast.
    neighbours: Vec<Vec<u32>>,
}

impl Graph {
    /// Returns the graph of vertices in a circle in which each vertex has edges to the `degree / 2` nearest vertices on
    /// each side and, if `degree` is odd, to the opposite vertex.
    fn circulant(vertices: u32, degree: u32) -> Self {
        let mut graph = Self {
            edges: Vec::new(),
            neighbours: vec![Vec::new(); vertices as usize],
        };
        for a in 0..vertices {
            for offset in 1..=degree / 2 {
                graph.join(a, (a + offset) % vertices);
            }
            if degree % 2 == 1 && a < vertices / 2 {
                graph.join(a, a + vertices / 2);
            }
        }
        graph
    }

    fn join(&mut self, a: u32, b: u32) {
        self.edges.push((a, b));
        self.neighbours[a as usize].push(b);
        self.neighbours[b as usize].push(a);
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        // Every generated graph has an edge, and fewer than 2^32.
        usize::try_from(rng.below(self.edges.len() as u64)).unwrap_or(0)
    }

    /// Replaces (a, b), (c, d) by (a, d), (c, b), or with `crossed` by (a, c), (b, d). Returns false, with nothing
    /// changed, if the graph would not stay simple.
    fn exchange(&mut self, first: usize, second: usize, crossed: bool) -> bool {
        let ((a, b), (c, d)) = (self.edges[first], self.edges[second]);
        let (c, d) = if crossed { (d, c) } else { (c, d) };
        if a == d || b == c || a == c || b == d || self.are_joined(a, d) || self.are_joined(b, c) {
            return false;
        }
        for (vertex, old, new) in [(a, b, d), (b, a, c), (c, d, b), (d, c, a)] {
            for neighbour in self.neighbours[vertex as usize].iter_mut().filter(|n| **n == old) {
                *neighbour = new;
            }
        }
        (self.edges[first], self.edges[second]) = ((a, d), (c, b));
        true
    }

    fn are_joined(&self, a: u32, b: u32) -> bool {
        self.neighbours[a as usize].contains(&b)
    }

    /// Exchanges a cable of one component with a cable of another, until there is one component.
    ///
    /// If one of the cables is on a cycle, the exchange joins the two components. Otherwise the exchange may cut off as
    /// many vertices as it joins, and is undone. A component with all degrees 2 or more has a cycle, so this ends.
    fn connect(&mut self, rng: &mut Rng) {
        let (mut count, mut component) = self.components();
        while let Some(second) = self.edges.iter().position(|&(a, _)| component[a as usize] != 0) {
            let first = self.draw(rng);
            if component[self.edges[first].0 as usize] != 0 || !self.exchange(first, second, false) {
                continue;
            }
            let after = self.components();
            if after.0 < count {
                (count, component) = after;
            } else {
                // The same exchange of the new cables restores the old ones.
                self.exchange(first, second, false);
            }
        }
    }

    /// Returns the number of components, and for each vertex the smallest vertex of its component.
    fn components(&self) -> (usize, Vec<u32>) {
        let mut component = vec![u32::MAX; self.neighbours.len()];
        let (mut count, mut stack) = (0, Vec::new());
        for start in 0..component.len() {
            if component[start] != u32::MAX {
                continue;
            }
            count += 1;
            let smallest = u32::try_from(start).unwrap_or(u32::MAX);
            component[start] = smallest;
            stack.push(start);
            while let Some(vertex) = stack.pop() {
                for &next in &self.neighbours[vertex] {
                    if component[next as usize] == u32::MAX {
                        component[next as usize] = smallest;
                        stack.push(next as usize);
                    }
                }
            }
        }
        (count, component)
    }

    /// Returns the cables by their lower, then their higher end.
    fn sorted_edges(&self) -> Vec<(u32, u32)> {
        let mut edges: Vec<_> = self.edges.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
        edges.sort_unstable();
        edges
    }
}
