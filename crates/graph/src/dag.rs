//! A graph that is kept free of cycles, edge by edge.

use crate::order::{Edges, Order};

/// The outcome of adding an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// The edge was new, and was added.
    New,
    /// The edge existed already.
    Known,
    /// The edge would close a cycle; nothing has changed.
    Closes,
}

/// A graph without cycles. Memory: two lists and eight bytes per vertex, eight bytes per edge.
#[derive(Clone, Debug)]
pub struct Dag {
    edges: Near,
    order: Order,
}

/// The neighbours of each vertex, in the order in which their edges came.
#[derive(Clone, Debug)]
struct Near {
    onward: Vec<Vec<u32>>,
    back: Vec<Vec<u32>>,
}

impl Edges for Near {
    #[inline]
    fn onward(&self, vertex: u32, each: impl FnMut(u32)) {
        self.onward[vertex as usize].iter().copied().for_each(each);
    }

    #[inline]
    fn back(&self, vertex: u32, each: impl FnMut(u32)) {
        self.back[vertex as usize].iter().copied().for_each(each);
    }
}

impl Near {
    fn push(&mut self, from: u32, to: u32) {
        self.onward[from as usize].push(to);
        self.back[to as usize].push(from);
    }
}

impl Dag {
    /// Returns a graph without edges.
    #[must_use]
    pub fn new(vertices: usize) -> Self {
        Self {
            edges: Near {
                onward: vec![Vec::new(); vertices],
                back: vec![Vec::new(); vertices],
            },
            order: Order::new(vertices),
        }
    }

    /// Returns a graph with these edges; `None` if they have a cycle.
    #[must_use]
    pub fn of(vertices: usize, edges: impl IntoIterator<Item = (u32, u32)>) -> Option<Self> {
        let mut dag = Self::new(vertices);
        edges.into_iter().for_each(|(from, to)| dag.edges.push(from, to));
        dag.order.sort(&dag.edges).then_some(dag)
    }

    /// Returns true if the graph has this edge.
    #[must_use]
    pub fn has(&self, from: u32, to: u32) -> bool {
        self.edges.onward[from as usize].contains(&to)
    }

    /// Adds an edge, unless it closes a cycle.
    pub fn add(&mut self, from: u32, to: u32) -> Insertion {
        if self.has(from, to) {
            return Insertion::Known;
        }
        let mut unbounded = u64::MAX;
        if (self.order.make_room(&self.edges, from, to, &mut unbounded)).is_err() {
            return Insertion::Closes;
        }
        self.edges.push(from, to);
        Insertion::New
    }

    /// Takes an edge away.
    pub fn remove(&mut self, from: u32, to: u32) {
        self.edges.onward[from as usize].retain(|&next| next != to);
        self.edges.back[to as usize].retain(|&earlier| earlier != from);
    }

    /// Returns true if every edge leads along the order.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        let mut all = self.edges.onward.iter().zip(0_u32..);
        all.all(|(onward, vertex)| onward.iter().all(|&next| self.order.agrees(vertex, next)))
    }
}

#[cfg(test)]
mod tests {
    use selvedge_sim::Seed;

    use super::*;

    /// True if a path of edges leads from a vertex to another.
    fn leads(edges: &[(u32, u32)], from: u32, to: u32) -> bool {
        let mut met = vec![from];
        let mut head = 0;
        while let Some(&at) = met.get(head) {
            head += 1;
            for &(_, next) in edges.iter().filter(|edge| edge.0 == at) {
                if !met.contains(&next) {
                    met.push(next);
                }
            }
        }
        met.contains(&to)
    }

    #[test]
    fn an_edge_is_taken_unless_it_closes_a_cycle() {
        let (mut taken, mut refused, mut removed) = (0, 0, 0);
        for seed in 1..20 {
            let mut rng = Seed(seed).rng();
            let mut draw = |below: u64| u32::try_from(rng.below(below)).unwrap();
            let (mut dag, mut edges) = (Dag::new(12), Vec::new());
            for _ in 0..300 {
                let (from, to) = (draw(12), draw(12));
                if !edges.is_empty() && draw(3) == 0 {
                    let (from, to) = edges.swap_remove(draw(edges.len() as u64) as usize);
                    dag.remove(from, to);
                    removed += 1;
                    continue;
                }
                let want = match (edges.contains(&(from, to)), leads(&edges, to, from)) {
                    (true, _) => Insertion::Known,
                    (false, true) => Insertion::Closes,
                    (false, false) => Insertion::New,
                };
                assert_eq!(dag.add(from, to), want, "seed {seed}: {from} to {to}");
                if want == Insertion::New {
                    edges.push((from, to));
                    taken += 1;
                }
                refused += u32::from(want == Insertion::Closes);
                assert!(dag.is_in_order(), "seed {seed}");
            }
            let again = Dag::of(12, edges.iter().copied()).unwrap();
            assert!(again.is_in_order());
            let (from, to) = edges[0];
            assert!(Dag::of(12, edges.iter().copied().chain([(to, from)])).is_none());
        }
        assert!(
            taken > 500 && refused > 500 && removed > 500,
            "{taken} {refused} {removed}"
        );
    }

    #[test]
    fn a_search_ends_when_its_budget_is_spent() {
        let near = Near {
            onward: vec![vec![1], vec![2], vec![]],
            back: vec![vec![], vec![0], vec![1]],
        };
        let mut order = Order::new(3);
        let check = |order: &mut Order, budget: u64| {
            let mut left = budget;
            (order.make_room(&near, 2, 0, &mut left), left)
        };
        assert_eq!(check(&mut order, 2), (Err(crate::Refused::Budget), 0));
        assert_eq!(check(&mut order, 9), (Err(crate::Refused::Cycle), 6));
    }
}
