//! The dependencies of a standing proof as a graph with an order.

use crate::standing::flows::Count;
use crate::standing::order::{Graph, Order};
use crate::standing::shape::Shape;

/// Dependencies of one traffic as bits, and an order that follows them.
#[derive(Clone, Debug)]
pub struct Edges {
    /// Egress ports at the next switch, by vertex.
    bits: Vec<u64>,
    /// Those of them that copies of multicast packets make, whoever else does; empty: none.
    copies: Vec<u64>,
    /// The order.
    pub order: Order,
}

struct View<'a> {
    shape: &'a Shape,
    words: usize,
    bits: &'a [u64],
}

impl View<'_> {
    /// The vertex of an egress port behind a vertex.
    fn behind(&self, vertex: u32, port: usize) -> u32 {
        let (lane, cell) = (
            vertex as usize / self.shape.total(),
            vertex as usize % self.shape.total(),
        );
        let next = usize::from(self.shape.behind(cell));
        (lane * self.shape.total() + next * self.shape.cells + port) as u32
    }
}

impl Graph for View<'_> {
    fn vertices(&self) -> usize {
        self.shape.lane_count * self.shape.total()
    }

    fn next(&self, vertex: u32, mut f: impl FnMut(u32)) {
        let row = &self.bits[vertex as usize * self.words..][..self.words];
        for (word, &bits) in row.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                f(self.behind(vertex, word * 64 + bits.trailing_zeros() as usize));
                bits &= bits - 1;
            }
        }
    }

    fn before(&self, vertex: u32, mut f: impl FnMut(u32)) {
        let shape = self.shape;
        let (lane, cell) = (vertex as usize / shape.total(), vertex as usize % shape.total());
        let (switch, port) = (cell / shape.cells, cell % shape.cells);
        let entering = shape.entering_from[switch] as usize..shape.entering_from[switch + 1] as usize;
        for arc in &shape.entering[entering] {
            let from = lane * shape.total() + arc.cell as usize;
            if self.bits[from * self.words + port / 64] >> (port % 64) & 1 != 0 {
                f(from as u32);
            }
        }
    }
}

impl Edges {
    /// The graph of traffic of hosts and agents (`which` 0), or of all (1); see [`Count::edges`].
    pub fn new(shape: &Shape, counts: &[Count], which: usize) -> Self {
        let words = shape.ports().div_ceil(64);
        let mut bits = vec![0; shape.lane_count * shape.total() * words];
        for (vertex, counts) in counts.chunks(shape.ports()).enumerate() {
            for (port, _) in counts.iter().enumerate().filter(|(_, count)| count.edges()[which]) {
                bits[vertex * words + port / 64] |= 1_u64 << (port % 64);
            }
        }
        let order = Order::new(&View {
            shape,
            words,
            bits: &bits,
        });
        Self {
            bits,
            copies: Vec::new(),
            order,
        }
    }

    /// Whether there is an edge from a vertex to an egress port behind it.
    #[inline]
    pub fn has(&self, shape: &Shape, vertex: u32, port: u8) -> bool {
        let words = shape.ports().div_ceil(64);
        self.bits[vertex as usize * words + usize::from(port) / 64] >> (port % 64) & 1 != 0
    }

    /// Holds these edges of copies instead of others.
    pub fn set_copies(&mut self, shape: &Shape, counts: &[Count], copies: &[(u32, u8)], which: usize) {
        let words = shape.ports().div_ceil(64);
        let mut bits = vec![0_u64; if copies.is_empty() { 0 } else { self.bits.len() }];
        for &(vertex, port) in copies {
            bits[vertex as usize * words + usize::from(port) / 64] |= 1 << (port % 64);
        }
        let before = std::mem::replace(&mut self.copies, bits);
        let mut touched = copies.to_vec();
        for (word, &bits) in before.iter().enumerate().filter(|(_, bits)| **bits != 0) {
            let set = (0..64).filter(|bit| bits >> bit & 1 != 0);
            touched.extend(set.map(|bit| ((word / words) as u32, (word % words * 64 + bit) as u8)));
        }
        touched.sort_unstable();
        touched.dedup();
        self.settle(shape, &touched, counts, which);
    }

    /// The vertex of an egress port behind a vertex.
    pub fn behind(&self, shape: &Shape, vertex: u32, port: u8) -> u32 {
        let (words, bits) = (shape.ports().div_ceil(64), &self.bits);
        View { shape, words, bits }.behind(vertex, usize::from(port))
    }

    /// How many of some edges are new, if there is no cycle with them and without some vertices, which nobody can wait
    /// for. They are not kept.
    pub fn stays_acyclic_with<'a>(
        &mut self,
        shape: &Shape,
        more: impl IntoIterator<Item = &'a (u32, u8)>,
        without: &[u32],
    ) -> Option<u64> {
        let words = shape.ports().div_ceil(64);
        let taken: Vec<(u32, u8)> = without.iter().flat_map(|&v| self.edges_at(shape, v)).collect();
        taken.iter().for_each(|&edge| self.take(shape, edge));
        if !taken.is_empty() {
            let bits = &self.bits;
            self.order.retry(&View { shape, words, bits });
        }
        let mut added = Vec::new();
        for &(vertex, port) in more {
            let (word, bit) = (vertex as usize * words + usize::from(port) / 64, 1 << (port % 64));
            if self.bits[word] & bit == 0 {
                self.bits[word] |= bit;
                added.push((vertex, port));
            }
        }
        self.tell(shape, &added);
        let (holds, count) = (self.order.is_acyclic(), added.len() as u64);
        added.iter().for_each(|&edge| self.take(shape, edge));
        for &(vertex, port) in &taken {
            self.bits[vertex as usize * words + usize::from(port) / 64] |= 1 << (port % 64);
        }
        self.tell(shape, &taken);
        holds.then_some(count)
    }

    /// Edges that leave and enter a vertex.
    fn edges_at(&self, shape: &Shape, vertex: u32) -> Vec<(u32, u8)> {
        let words = shape.ports().div_ceil(64);
        let bits = &self.bits;
        let mut edges = Vec::new();
        for port in 0..shape.ports() {
            if bits[vertex as usize * words + port / 64] >> (port % 64) & 1 != 0 {
                edges.push((vertex, port as u8));
            }
        }
        let port = (vertex as usize % shape.total() % shape.cells) as u8;
        View { shape, words, bits }.before(vertex, |from| edges.push((from, port)));
        edges
    }

    /// Tells the order of edges that are there.
    fn tell(&mut self, shape: &Shape, edges: &[(u32, u8)]) {
        let words = shape.ports().div_ceil(64);
        let bits = &self.bits;
        let view = View { shape, words, bits };
        let mut edges = edges.to_vec();
        edges.sort_unstable();
        let edges = edges
            .iter()
            .map(|&(vertex, port)| (vertex, view.behind(vertex, usize::from(port))));
        let edges: Vec<(u32, u32)> = edges.collect();
        self.order.added_all(&view, &edges);
    }

    /// Takes an edge away.
    fn take(&mut self, shape: &Shape, (vertex, port): (u32, u8)) {
        let words = shape.ports().div_ceil(64);
        let bits = &self.bits;
        let to = View { shape, words, bits }.behind(vertex, usize::from(port));
        self.bits[vertex as usize * words + usize::from(port) / 64] &= !(1 << (port % 64));
        self.order.removed(vertex, to);
    }

    /// The vertices of a cycle, if there is one, each waiting for the next and the last for the first.
    pub fn cycle(&self, shape: &Shape) -> Option<Vec<u32>> {
        let words = shape.ports().div_ceil(64);
        let bits = &self.bits;
        self.order.cycle(&View { shape, words, bits })
    }

    /// Takes edges away and adds others, as the counts of the touched ones say, each named once or more.
    pub fn settle(&mut self, shape: &Shape, touched: &[(u32, u8)], counts: &[Count], which: usize) {
        let words = shape.ports().div_ceil(64);
        let mut added = Vec::new();
        for &(vertex, port) in touched {
            let port = usize::from(port);
            let word = vertex as usize * words + port / 64;
            let is_copied = self.copies.get(word).is_some_and(|bits| bits >> (port % 64) & 1 != 0);
            let is_edge = is_copied || counts[vertex as usize * shape.ports() + port].edges()[which];
            if is_edge == (self.bits[word] >> (port % 64) & 1 != 0) {
                continue;
            }
            let bits = &self.bits;
            let to = View { shape, words, bits }.behind(vertex, port);
            self.bits[word] ^= 1 << (port % 64);
            if is_edge {
                added.push((vertex, to));
            } else {
                self.order.removed(vertex, to);
            }
        }
        let bits = &self.bits;
        let view = View { shape, words, bits };
        added.sort_unstable();
        self.order.added_all(&view, &added);
        if !touched.is_empty() {
            self.order.retry(&view);
        }
    }
}
