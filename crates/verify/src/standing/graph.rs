//! The dependencies of a standing proof as a graph with a topological order.

use crate::standing::flows::Count;
use crate::standing::order::{Graph, Order};
use crate::standing::shape::Shape;

/// Dependencies of one class of traffic as bits, with a topological order.
#[derive(Clone, Debug)]
pub struct Edges {
    bits: Bits,
    /// Dependencies that multicast copies make, in the layout of [`Bits::onward`]; empty: none.
    copies: Vec<u64>,
    /// The topological order.
    pub order: Order,
}

/// Edges, stored at both ends.
#[derive(Clone, Debug)]
struct Bits {
    /// Words per vertex.
    words: usize,
    /// Egress ports at the next switch, by vertex.
    onward: Vec<u64>,
    /// Ingress ports at the vertex's own switch, by vertex. All predecessors of a channel are stored together.
    back: Vec<u64>,
}

impl Bits {
    fn none(shape: &Shape) -> Self {
        let words = shape.ports().div_ceil(64);
        let all = vec![0; shape.lane_count * shape.total() * words];
        Self {
            words,
            onward: all.clone(),
            back: all,
        }
    }

    #[inline]
    fn place(&self, vertex: u32, port: usize) -> (usize, u64) {
        (vertex as usize * self.words + port / 64, 1 << (port % 64))
    }

    #[inline]
    fn has(&self, vertex: u32, port: usize) -> bool {
        let (word, bit) = self.place(vertex, port);
        self.onward[word] & bit != 0
    }

    /// Adds or removes an edge.
    #[inline]
    fn set(&mut self, shape: &Shape, vertex: u32, port: usize, is_edge: bool) {
        let (lane, cell) = (vertex as usize / shape.total(), vertex as usize % shape.total());
        let next = usize::from(shape.behind(cell)) * shape.cells;
        let entered = shape.opposite[cell] as usize - next;
        let behind = (lane * shape.total() + next + port) as u32;
        let (there, here) = (self.place(vertex, port), self.place(behind, entered));
        for (word, bit) in [(&mut self.onward[there.0], there.1), (&mut self.back[here.0], here.1)] {
            *word = if is_edge { *word | bit } else { *word & !bit };
        }
    }

    /// Calls `f` with the ports of a vertex.
    #[inline]
    fn ports(of: &[u64], mut f: impl FnMut(usize)) {
        for (word, &bits) in of.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                f(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    fn row<'a>(&self, of: &'a [u64], vertex: u32) -> &'a [u64] {
        &of[vertex as usize * self.words..][..self.words]
    }
}

struct View<'a> {
    shape: &'a Shape,
    bits: &'a Bits,
}

impl View<'_> {
    /// Returns the vertex of an egress port of the switch behind a vertex.
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
        Bits::ports(self.bits.row(&self.bits.onward, vertex), |port| {
            f(self.behind(vertex, port))
        });
    }

    fn before(&self, vertex: u32, mut f: impl FnMut(u32)) {
        let shape = self.shape;
        let (lane, cell) = (vertex as usize / shape.total(), vertex as usize % shape.total());
        let (first, switch) = (lane * shape.total(), cell - cell % shape.cells);
        Bits::ports(self.bits.row(&self.bits.back, vertex), |port| {
            f((first + shape.opposite[switch + port] as usize) as u32);
        });
    }
}

impl Edges {
    /// Returns the graph of traffic of hosts and agents (`which` 0), or of all traffic (1): see [`Count::edges`].
    pub fn new(shape: &Shape, counts: &[Count], which: usize) -> Self {
        let mut bits = Bits::none(shape);
        for (vertex, counts) in (0..).zip(counts.chunks(shape.ports())) {
            for (port, _) in counts.iter().enumerate().filter(|(_, count)| count.edges()[which]) {
                bits.set(shape, vertex, port, true);
            }
        }
        let order = Order::new(&View { shape, bits: &bits });
        Self {
            bits,
            copies: Vec::new(),
            order,
        }
    }

    /// True if there is an edge from a vertex to an egress port behind it.
    #[inline]
    pub fn has(&self, vertex: u32, port: u8) -> bool {
        self.bits.has(vertex, usize::from(port))
    }

    /// Replaces the edges of multicast copies.
    pub fn set_copies(&mut self, shape: &Shape, counts: &[Count], copies: &[(u32, u8)], which: usize) {
        let words = shape.ports().div_ceil(64);
        let mut bits = vec![0_u64; if copies.is_empty() { 0 } else { self.bits.onward.len() }];
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

    /// Returns the vertex of an egress port of the switch behind a vertex.
    pub fn behind(&self, shape: &Shape, vertex: u32, port: u8) -> u32 {
        self.view(shape).behind(vertex, usize::from(port))
    }

    const fn view<'a>(&'a self, shape: &'a Shape) -> View<'a> {
        View {
            shape,
            bits: &self.bits,
        }
    }

    /// Tests whether the graph would have no cycle with these edges added and the vertices in `without` removed. If so,
    /// returns how many of the edges are new. The graph is not changed. (The vertices in `without` are lost links,
    /// which no packet can wait for.)
    pub fn stays_acyclic_with<'a>(
        &mut self,
        shape: &Shape,
        more: impl IntoIterator<Item = &'a (u32, u8)>,
        without: &[u32],
    ) -> Option<u64> {
        let taken: Vec<(u32, u8)> = without.iter().flat_map(|&v| self.edges_at(shape, v)).collect();
        taken.iter().for_each(|&edge| self.take(shape, edge));
        if !taken.is_empty() {
            self.order.retry(&View {
                shape,
                bits: &self.bits,
            });
        }
        let mut added = Vec::new();
        for &(vertex, port) in more {
            if !self.has(vertex, port) {
                self.bits.set(shape, vertex, usize::from(port), true);
                added.push((vertex, port));
            }
        }
        self.tell(shape, &added);
        let (holds, count) = (self.order.is_acyclic(), added.len() as u64);
        added.iter().for_each(|&edge| self.take(shape, edge));
        for &(vertex, port) in &taken {
            self.bits.set(shape, vertex, usize::from(port), true);
        }
        self.tell(shape, &taken);
        holds.then_some(count)
    }

    /// Returns the edges from and to a vertex.
    fn edges_at(&self, shape: &Shape, vertex: u32) -> Vec<(u32, u8)> {
        let bits = &self.bits;
        let mut edges = Vec::new();
        Bits::ports(bits.row(&bits.onward, vertex), |port| edges.push((vertex, port as u8)));
        let port = (vertex as usize % shape.total() % shape.cells) as u8;
        self.view(shape).before(vertex, |from| edges.push((from, port)));
        edges
    }

    /// Adds existing edges to the order.
    fn tell(&mut self, shape: &Shape, edges: &[(u32, u8)]) {
        let view = View {
            shape,
            bits: &self.bits,
        };
        let mut edges = edges.to_vec();
        edges.sort_unstable();
        let edges = edges
            .iter()
            .map(|&(vertex, port)| (vertex, view.behind(vertex, usize::from(port))));
        let edges: Vec<(u32, u32)> = edges.collect();
        self.order.added_all(&view, &edges);
    }

    /// Removes an edge.
    fn take(&mut self, shape: &Shape, (vertex, port): (u32, u8)) {
        let to = self.behind(shape, vertex, port);
        self.bits.set(shape, vertex, usize::from(port), false);
        self.order.removed(vertex, to);
    }

    /// Returns the vertices of a cycle, if there is one: each waits for the next, and the last for the first.
    pub fn cycle(&self, shape: &Shape) -> Option<Vec<u32>> {
        self.order.cycle(&self.view(shape))
    }

    /// Adds and removes edges according to the counts of the touched ones. An edge may be listed more than once.
    pub fn settle(&mut self, shape: &Shape, touched: &[(u32, u8)], counts: &[Count], which: usize) {
        let mut added = Vec::new();
        for &(vertex, port) in touched {
            let port = usize::from(port);
            let (word, bit) = self.bits.place(vertex, port);
            let is_copied = self.copies.get(word).is_some_and(|bits| bits & bit != 0);
            let is_edge = is_copied || counts[vertex as usize * shape.ports() + port].edges()[which];
            if is_edge == self.bits.has(vertex, port) {
                continue;
            }
            let to = self.view(shape).behind(vertex, port);
            self.bits.set(shape, vertex, port, is_edge);
            if is_edge {
                added.push((vertex, to));
            } else {
                self.order.removed(vertex, to);
            }
        }
        let view = View {
            shape,
            bits: &self.bits,
        };
        added.sort_unstable();
        self.order.added_all(&view, &added);
        if !touched.is_empty() {
            self.order.retry(&view);
        }
    }
}
