//! Channel dependencies, and cycles among them.
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

const TRAFFIC: [Traffic; 3] = [Traffic::Hosts, Traffic::Agents, Traffic::Switches];

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

    /// True if the set of this traffic adds no bit to those before it.
    fn adds_nothing(&self, traffic: Traffic) -> bool {
        let before = &self.bits[..traffic as usize];
        let known = |i: usize| before.iter().fold(0, |known, bits| known | bits[i]);
        (0..self.bits[0].len()).all(|i| self.bits[traffic as usize][i] & !known(i) == 0)
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

    fn vertices(self) -> usize {
        self.dependencies.lanes * self.dependencies.channels
    }

    /// Lane and channel of a vertex.
    pub const fn parts(self, vertex: Vertex) -> (usize, usize) {
        (vertex / self.dependencies.channels, vertex % self.dependencies.channels)
    }

    /// Calls `f` with every vertex that `vertex` depends on.
    fn for_each_next(self, vertex: Vertex, mut f: impl FnMut(Vertex)) {
        let d = self.dependencies;
        let (lane, channel) = self.parts(vertex);
        let switch = self.ground.channels[channel].dst as usize;
        let row = vertex * d.words;
        for word in 0..d.words {
            let mut bits = d.bits[..=self.upto as usize]
                .iter()
                .fold(0, |all, bits| all | bits[row + word]);
            while bits != 0 {
                let bit = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let next_lane = if d.slots == 1 { lane } else { bit / d.stride };
                let egress = u8::try_from(bit % d.stride).unwrap_or(u8::MAX);
                if let Some(next) = self.ground.exit(switch, egress).as_channel() {
                    f(next_lane * d.channels + next);
                }
            }
        }
    }

    /// Channels and dependencies of each lane; a dependency counts for the lane that is held.
    pub fn sizes(self) -> Vec<(u64, u64)> {
        let mut sizes = vec![(0, 0); self.dependencies.lanes];
        let mut used = vec![false; self.vertices()];
        for vertex in 0..self.vertices() {
            self.for_each_next(vertex, |next| {
                used[vertex] = true;
                used[next] = true;
                sizes[self.parts(vertex).0].1 += 1;
            });
        }
        for (vertex, _) in used.iter().enumerate().filter(|(_, used)| **used) {
            sizes[self.parts(vertex).0].0 += 1;
        }
        sizes
    }

    /// A short cycle, if there is any (Kahn 1962: what cannot be sorted is on a cycle, or behind one).
    pub fn cycle(self) -> Option<Vec<Vertex>> {
        let mut waiting = vec![0_u32; self.vertices()];
        for vertex in 0..self.vertices() {
            self.for_each_next(vertex, |next| waiting[next] += 1);
        }
        let mut order: Vec<Vertex> = (0..self.vertices()).filter(|&v| waiting[v] == 0).collect();
        let mut done = 0;
        while let Some(&vertex) = order.get(done) {
            done += 1;
            self.for_each_next(vertex, |next| {
                waiting[next] -= 1;
                if waiting[next] == 0 {
                    order.push(next);
                }
            });
        }
        if order.len() == self.vertices() {
            return None;
        }
        let left: Vec<bool> = waiting.iter().map(|&n| n > 0).collect();
        self.any_cycle(&left).map(|cycle| self.shortened(&left, cycle))
    }

    /// Depth first among the vertices left over, until one on the path is met again.
    fn any_cycle(self, left: &[bool]) -> Option<Vec<Vertex>> {
        let mut position = vec![usize::MAX; left.len()];
        let mut finished = vec![false; left.len()];
        for first in (0..left.len()).filter(|&v| left[v]) {
            if finished[first] {
                continue;
            }
            let mut path = vec![(first, self.next_of(first, left))];
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
                    path.push((next, self.next_of(next, left)));
                }
            }
        }
        None
    }

    fn next_of(self, vertex: Vertex, left: &[bool]) -> Vec<Vertex> {
        let mut next = Vec::new();
        self.for_each_next(vertex, |v| {
            if left[v] {
                next.push(v);
            }
        });
        next
    }

    /// The shortest cycle through one of the first vertices of `cycle`: people read it.
    fn shortened(self, left: &[bool], cycle: Vec<Vertex>) -> Vec<Vertex> {
        const TRIES: usize = 16;
        let found = cycle.iter().take(TRIES).filter_map(|&v| self.shortest_through(v, left));
        found.min_by_key(Vec::len).unwrap_or(cycle)
    }

    fn shortest_through(self, start: Vertex, left: &[bool]) -> Option<Vec<Vertex>> {
        let mut from = vec![usize::MAX; left.len()];
        let mut open = vec![start];
        let mut done = 0;
        while let Some(&vertex) = open.get(done) {
            done += 1;
            for next in self.next_of(vertex, left) {
                if next == start {
                    let mut back = vec![vertex];
                    while *back.last()? != start {
                        back.push(from[*back.last()?]);
                    }
                    back.reverse();
                    return Some(back);
                }
                if from[next] == usize::MAX {
                    from[next] = vertex;
                    open.push(next);
                }
            }
        }
        None
    }
}

/// The first traffic with which a cycle appears, for each that has one of its own: later graphs contain the earlier
/// ones, so once there is a cycle nothing more is learnt from them.
pub fn first_cycle(ground: &Ground<'_>, dependencies: &Dependencies) -> Option<(Traffic, Vec<Vertex>)> {
    TRAFFIC
        .into_iter()
        .filter(|&traffic| traffic == Traffic::Hosts || !dependencies.adds_nothing(traffic))
        .find_map(|traffic| {
            let graph = DependencyGraph::new(ground, dependencies, traffic);
            graph.cycle().map(|cycle| (traffic, cycle))
        })
}
