//! Channel dependencies as a graph.
//!
//! A vertex is a channel on a lane. Its dependencies are bits: one per (slot, egress port) of the switch that the
//! channel enters. Three sets of bits tell hosts' traffic from that of agents and of switches among themselves.

use crate::finding::Traffic;
use crate::ground::Ground;
use crate::sl_vl::LaneMap;

/// Bits of all dependencies, by traffic.
#[derive(Clone, Debug)]
pub struct Dependencies {
    lanes: usize,
    slots: usize,
    channels: usize,
    stride: usize,
    /// 64-bit words of one vertex.
    words: usize,
    bits: [Vec<u64>; 3],
}

/// Number of a vertex: lane × channels + channel.
pub type Vertex = usize;

impl Dependencies {
    /// No dependency yet. A lane map that is the same everywhere keeps a route on one lane: then the lane of the next
    /// channel needs no bits of its own.
    pub fn new(ground: &Ground<'_>, map: &LaneMap) -> Self {
        let lanes = map.lane_count(ground.subject.service_levels);
        let slots = if map.is_uniform() { 1 } else { lanes };
        let words = (slots * ground.stride).div_ceil(64);
        let size = lanes * ground.channels.len() * words;
        Self {
            lanes,
            slots,
            channels: ground.channels.len(),
            stride: ground.stride,
            words,
            bits: core::array::from_fn(|_| vec![0; size]),
        }
    }

    /// Lanes told apart.
    pub const fn lanes(&self) -> usize {
        self.lanes
    }

    /// Slots a route may use at a hop.
    pub const fn slots(&self) -> usize {
        self.slots
    }

    /// Memory of the bits.
    pub fn bytes(&self) -> usize {
        self.bits.iter().map(|bits| bits.len() * size_of::<u64>()).sum()
    }

    /// Start of the bits of a vertex.
    #[inline]
    pub const fn row(&self, lane: usize, channel: usize) -> usize {
        (lane * self.channels + channel) * self.words
    }

    /// Notes that the vertex of `row` depends on the channel out of port `egress`, on the lane of `slot`.
    #[inline]
    pub fn set(&mut self, traffic: Traffic, row: usize, slot: usize, egress: u8) {
        let bit = slot * self.stride + usize::from(egress);
        self.bits[traffic as usize][row + bit / 64] |= 1 << (bit % 64);
    }

    /// Notes that a channel on a lane depends on the channels out of all ports of `ports` that are among `of`, as
    /// bits, on the same lane. Only for a lane map that is the same everywhere.
    #[inline]
    pub fn add_ports(&mut self, traffic: Traffic, (lane, channel): (usize, usize), ports: &[u64], of: &[u64]) {
        let row = self.row(lane, channel);
        let bits = &mut self.bits[traffic as usize][row..row + self.words];
        for ((bits, ports), of) in bits.iter_mut().zip(ports).zip(of) {
            *bits |= ports & of;
        }
    }

    /// Adds the dependencies of another part.
    pub fn merge(&mut self, other: &Self) {
        for (bits, more) in self.bits.iter_mut().zip(&other.bits) {
            bits.iter_mut().zip(more).for_each(|(bits, more)| *bits |= more);
        }
    }
}

/// Dependencies of one traffic and all before it, as a graph.
#[derive(Clone, Copy, Debug)]
pub struct DependencyGraph<'a> {
    ground: &'a Ground<'a>,
    dependencies: &'a Dependencies,
    upto: Traffic,
}

impl<'a> DependencyGraph<'a> {
    /// The graph of `upto` and everything before it.
    pub const fn new(ground: &'a Ground<'a>, dependencies: &'a Dependencies, upto: Traffic) -> Self {
        Self {
            ground,
            dependencies,
            upto,
        }
    }

    /// Number of vertices, those without a dependency included.
    pub const fn vertices(self) -> usize {
        self.dependencies.lanes * self.dependencies.channels
    }

    /// Lane and channel of a vertex.
    pub const fn parts(self, vertex: Vertex) -> (usize, usize) {
        (vertex / self.dependencies.channels, vertex % self.dependencies.channels)
    }

    /// Every vertex that `vertex` depends on, by lane, then egress port.
    pub fn next(self, vertex: Vertex) -> Next<'a> {
        let (lane, channel) = self.parts(vertex);
        Next {
            graph: self,
            lane,
            switch: self.ground.channels[channel].dst as usize,
            row: vertex * self.dependencies.words,
            word: 0,
            bits: 0,
        }
    }

    /// Channels and dependencies of each lane; a dependency counts for the lane that is held.
    pub fn sizes(self) -> Vec<(u64, u64)> {
        let mut sizes = vec![(0, 0); self.dependencies.lanes];
        let mut used = vec![false; self.vertices()];
        for vertex in 0..self.vertices() {
            let lane = self.parts(vertex).0;
            for next in self.next(vertex) {
                used[vertex] = true;
                used[next] = true;
                sizes[lane].1 += 1;
            }
        }
        for (vertex, _) in used.iter().enumerate().filter(|(_, used)| **used) {
            sizes[self.parts(vertex).0].0 += 1;
        }
        sizes
    }
}

/// See [`DependencyGraph::next`].
pub struct Next<'a> {
    graph: DependencyGraph<'a>,
    lane: usize,
    /// The switch that the channel enters.
    switch: usize,
    row: usize,
    /// Words taken out so far.
    word: usize,
    /// What is left of the last of them.
    bits: u64,
}

impl Iterator for Next<'_> {
    type Item = Vertex;

    #[inline]
    fn next(&mut self) -> Option<Vertex> {
        let d = self.graph.dependencies;
        loop {
            while self.bits == 0 {
                if self.word == d.words {
                    return None;
                }
                let upto = self.graph.upto as usize;
                let cell = self.row + self.word;
                self.bits = d.bits[..=upto].iter().fold(0, |all, bits| all | bits[cell]);
                self.word += 1;
            }
            let bit = (self.word - 1) * 64 + self.bits.trailing_zeros() as usize;
            self.bits &= self.bits - 1;
            let (lane, egress) = if d.slots == 1 {
                (self.lane, bit)
            } else {
                (bit / d.stride, bit % d.stride)
            };
            let egress = u8::try_from(egress).unwrap_or(u8::MAX);
            if let Some(channel) = self.graph.ground.exit(self.switch, egress).as_channel() {
                return Some(lane * d.channels + channel);
            }
        }
    }
}
