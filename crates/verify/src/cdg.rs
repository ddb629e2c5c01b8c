//! Channel dependency graph.
//!
//! A vertex is a channel on a lane. Its dependencies are stored as bits: one for each slot (a lane that a route may
//! use) and egress port of the switch that the channel enters. Three sets of bits separate the traffic of hosts, of
//! switch agents to hosts, and between switches.

use std::ops::Range;

use selvedge_sim::Par;

use crate::finding::Traffic;
use crate::ground::Ground;
use crate::sl_vl::LaneMap;

/// Bits of all dependencies, by class of traffic.
#[derive(Clone, Debug)]
pub struct Dependencies {
    lanes: usize,
    slots: usize,
    channels: usize,
    stride: usize,
    /// Number of 64-bit words of one vertex.
    words: usize,
    bits: [Vec<u64>; 3],
}

/// Number of a vertex: lane × channels + channel.
pub type Vertex = usize;

impl Dependencies {
    /// Returns an empty set of dependencies. If the lane map is the same at every hop, a packet stays on one lane, so
    /// the bits do not distinguish the lane of the next channel.
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

    /// Returns the number of lanes that are distinguished.
    pub const fn lanes(&self) -> usize {
        self.lanes
    }

    /// Returns the number of lanes that a packet may use at a hop (slots).
    pub const fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the memory that the bits take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bits.iter().map(|bits| bits.len() * size_of::<u64>()).sum()
    }

    /// Returns the index of the first word of a vertex.
    #[inline]
    pub const fn row(&self, lane: usize, channel: usize) -> usize {
        (lane * self.channels + channel) * self.words
    }

    /// Adds a dependency: the vertex of `row` depends on the channel out of port `egress`, on the lane of `slot`.
    #[inline]
    pub fn set(&mut self, traffic: Traffic, row: usize, slot: usize, egress: u8) {
        let bit = slot * self.stride + usize::from(egress);
        self.bits[traffic as usize][row + bit / 64] |= 1 << (bit % 64);
    }

    /// Adds dependencies of one channel, on one lane, on further channels of the same lane. These leave by the ports
    /// that are in both bit masks, `ports` and `of`. Valid only if the lane map is the same at every hop.
    #[inline]
    pub fn add_ports(&mut self, traffic: Traffic, (lane, channel): (usize, usize), ports: &[u64], of: &[u64]) {
        let row = self.row(lane, channel);
        let bits = &mut self.bits[traffic as usize][row..row + self.words];
        for ((bits, ports), of) in bits.iter_mut().zip(ports).zip(of) {
            *bits |= ports & of;
        }
    }

    /// Adds all dependencies of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (bits, more) in self.bits.iter_mut().zip(&other.bits) {
            bits.iter_mut().zip(more).for_each(|(bits, more)| *bits |= more);
        }
    }
}

/// Dependencies of one class of traffic and of all classes before it, as a graph.
#[derive(Clone, Copy, Debug)]
pub struct DependencyGraph<'a> {
    ground: &'a Ground<'a>,
    dependencies: &'a Dependencies,
    upto: Traffic,
}

impl<'a> DependencyGraph<'a> {
    /// Returns the graph of `upto` and of all classes of traffic before it.
    pub const fn new(ground: &'a Ground<'a>, dependencies: &'a Dependencies, upto: Traffic) -> Self {
        Self {
            ground,
            dependencies,
            upto,
        }
    }

    /// Returns the number of vertices, including those without a dependency.
    pub const fn vertices(self) -> usize {
        self.dependencies.lanes * self.dependencies.channels
    }

    /// Returns ranges of vertices such that no dependency leads from one range into another. If packets stay on one
    /// lane there is one range per lane, else a single range.
    pub fn parts_apart(self) -> Vec<Range<Vertex>> {
        let d = self.dependencies;
        let length = d.channels * if d.slots == 1 { 1 } else { d.lanes };
        (0..self.vertices() / length.max(1))
            .map(|part| part * length..(part + 1) * length)
            .collect()
    }

    /// Returns the lane and the channel of a vertex.
    pub const fn parts(self, vertex: Vertex) -> (usize, usize) {
        (vertex / self.dependencies.channels, vertex % self.dependencies.channels)
    }

    /// Iterates over the vertices that `vertex` depends on, by lane, then egress port.
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

    /// Returns the numbers of channels and dependencies of each lane. A dependency counts for the lane of the channel
    /// that the packet occupies.
    pub fn sizes(self, par: Par) -> Vec<(u64, u64)> {
        let parts = self.parts_apart();
        let sizes = par.map(parts.len(), |part| self.sizes_of(parts[part].clone()));
        // Each range covers whole lanes, in ascending order.
        sizes.concat()
    }

    fn sizes_of(self, vertices: Range<Vertex>) -> Vec<(u64, u64)> {
        let base = vertices.start;
        let mut used = vec![false; vertices.len()];
        let mut sizes = vec![(0, 0); vertices.len() / self.dependencies.channels.max(1)];
        for vertex in vertices {
            let lane = (vertex - base) / self.dependencies.channels;
            for next in self.next(vertex) {
                used[vertex - base] = true;
                used[next - base] = true;
                sizes[lane].1 += 1;
            }
        }
        for (vertex, _) in used.iter().enumerate().filter(|(_, used)| **used) {
            sizes[vertex / self.dependencies.channels].0 += 1;
        }
        sizes
    }
}

/// Iterator over the dependencies of a vertex: see [`DependencyGraph::next`].
pub struct Next<'a> {
    graph: DependencyGraph<'a>,
    lane: usize,
    /// The switch that the channel enters.
    switch: usize,
    row: usize,
    /// Number of words read so far.
    word: usize,
    /// Bits of the last word that have not been returned yet.
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
