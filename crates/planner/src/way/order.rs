//! Dependencies that may exist together: a graph that is kept acyclic by an order of its vertices (Pearce and Kelly
//! 2007). An edge that would close a cycle is refused.

use super::net::Net;

/// A channel on a lane: lane × channels + channel. Lanes are numbered among those in use.
pub type Vertex = u32;

/// The graph.
#[derive(Clone, Debug)]
pub struct Order {
    channels: usize,
    lanes: usize,
    /// Index of the first word of each channel's row of bits, and the total count at the end.
    rows: Vec<u32>,
    /// First channel out of the switch that each channel enters.
    base: Vec<u32>,
    /// By pair of lanes, then row.
    bits: Vec<Vec<u64>>,
    /// In the same layout: turns that are refused permanently, because the graph only grows.
    refused: Vec<Vec<u64>>,
    /// Place of each vertex in the order.
    place: Vec<u32>,
    stamp: Vec<u32>,
    round: u32,
    /// Bits set since the last [`Self::keep`].
    log: Vec<(u32, u32)>,
    /// Work left: rows that searches may still read.
    pub budget: u64,
}

/// Reason why a dependency is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It closes a cycle.
    Cycle,
    /// The allowed work is used up.
    Budget,
}

impl Order {
    /// Returns a graph without dependencies.
    pub fn new(net: &Net, lanes: usize, budget: u64) -> Self {
        let (mut rows, mut base) = (vec![0], Vec::new());
        let mut end = 0;
        for channel in &net.channels {
            end += net.out_degree(channel.dst).div_ceil(64);
            rows.push(end);
            base.push(net.first_out(channel.dst));
        }
        let channels = net.channels.len();
        let vertices = u32::try_from(channels * lanes).unwrap_or(u32::MAX);
        Self {
            channels,
            lanes,
            rows,
            base,
            bits: vec![Vec::new(); lanes * lanes],
            refused: vec![Vec::new(); lanes * lanes],
            place: (0..vertices).collect(),
            stamp: vec![0; vertices as usize],
            round: 0,
            log: Vec::new(),
            budget,
        }
    }

    #[inline]
    fn bit(&self, from: Vertex, to: Vertex) -> (usize, usize) {
        let (from, to) = (from as usize, to as usize);
        let pair = from / self.channels * self.lanes + to / self.channels;
        let (held, wanted) = (from % self.channels, to % self.channels);
        (pair, self.rows[held] as usize * 64 + wanted - self.base[held] as usize)
    }

    fn words(&self) -> usize {
        self.rows.last().map_or(0, |&end| end as usize)
    }

    /// Adds a dependency without checking the order. Call [`Self::sort`] afterwards.
    pub fn put(&mut self, from: Vertex, to: Vertex) {
        let (pair, bit) = self.bit(from, to);
        let words = self.words();
        let bits = &mut self.bits[pair];
        if bits.is_empty() {
            bits.resize(words, 0);
        }
        bits[bit / 64] |= 1 << (bit % 64);
    }

    /// Sorts the added dependencies (Kahn 1962). False if they have a cycle.
    pub fn sort(&mut self) -> bool {
        let vertices = self.place.len();
        let mut waiting = vec![0_u32; vertices];
        for vertex in 0..vertices {
            self.for_each_next(vertex as u32, |next| waiting[next as usize] += 1);
        }
        let mut order: Vec<u32> = (0..vertices as u32).filter(|&v| waiting[v as usize] == 0).collect();
        let mut done = 0;
        while let Some(&vertex) = order.get(done) {
            self.place[vertex as usize] = done as u32;
            done += 1;
            self.for_each_next(vertex, |next| {
                waiting[next as usize] -= 1;
                if waiting[next as usize] == 0 {
                    order.push(next);
                }
            });
        }
        done == vertices
    }

    #[inline]
    fn for_each_next(&self, vertex: Vertex, mut f: impl FnMut(Vertex)) {
        let (lane, channel) = (vertex as usize / self.channels, vertex as usize % self.channels);
        let rows = self.rows[channel] as usize..self.rows[channel + 1] as usize;
        for to_lane in 0..self.lanes {
            let bits = &self.bits[lane * self.lanes + to_lane];
            if bits.is_empty() {
                continue;
            }
            for (word, first) in rows.clone().zip((self.base[channel] as usize..).step_by(64)) {
                let mut left = bits[word];
                while left != 0 {
                    f((to_lane * self.channels + first) as u32 + left.trailing_zeros());
                    left &= left - 1;
                }
            }
        }
    }

    /// Adds a dependency unless it closes a cycle.
    pub fn insert(&mut self, net: &Net, from: Vertex, to: Vertex) -> Result<(), Refused> {
        let (pair, bit) = self.bit(from, to);
        let mask = 1 << (bit % 64);
        let is_set = |bits: &Vec<u64>| bits.get(bit / 64).is_some_and(|word| word & mask != 0);
        if is_set(&self.bits[pair]) {
            return Ok(());
        }
        if is_set(&self.refused[pair]) {
            return Err(Refused::Cycle);
        }
        let is_behind = from == to || self.place[from as usize] > self.place[to as usize];
        if is_behind && let Err(why) = self.reorder(net, from, to) {
            if why == Refused::Cycle && self.log.is_empty() {
                let words = self.words();
                let refused = &mut self.refused[pair];
                refused.resize(words, 0);
                refused[bit / 64] |= mask;
            }
            return Err(why);
        }
        self.put(from, to);
        self.log.push((pair as u32, bit as u32));
        Ok(())
    }

    /// Moves the vertices between `to` and `from` in the order: those that lead to `from` go before those reachable
    /// from `to`.
    fn reorder(&mut self, net: &Net, from: Vertex, to: Vertex) -> Result<(), Refused> {
        let (low, high) = (self.place[to as usize], self.place[from as usize]);
        self.round += 1;
        let round = self.round;
        let mut after = vec![to];
        self.stamp[to as usize] = round;
        let mut done = 0;
        while let Some(&vertex) = after.get(done) {
            done += 1;
            self.spend()?;
            if vertex == from {
                return Err(Refused::Cycle);
            }
            let mut stamp = std::mem::take(&mut self.stamp);
            self.for_each_next(vertex, |next| {
                if self.place[next as usize] <= high && stamp[next as usize] != round {
                    stamp[next as usize] = round;
                    after.push(next);
                }
            });
            self.stamp = stamp;
        }
        self.round += 1;
        let before = self.back(net, from, low)?;
        self.merge(before, after);
        Ok(())
    }

    fn spend(&mut self) -> Result<(), Refused> {
        if self.budget == 0 {
            return Err(Refused::Budget);
        }
        self.budget -= 1;
        Ok(())
    }

    fn back(&mut self, net: &Net, from: Vertex, low: u32) -> Result<Vec<Vertex>, Refused> {
        let round = self.round;
        let mut before = vec![from];
        self.stamp[from as usize] = round;
        let mut done = 0;
        while let Some(&vertex) = before.get(done) {
            done += 1;
            self.spend()?;
            let (lane, channel) = (vertex as usize / self.channels, vertex as usize % self.channels);
            for &earlier in net.entering(net.channels[channel].src) {
                let bit = self.rows[earlier as usize] as usize * 64 + channel - self.base[earlier as usize] as usize;
                for from_lane in 0..self.lanes {
                    let bits = &self.bits[from_lane * self.lanes + lane];
                    let other = (from_lane * self.channels) as u32 + earlier;
                    let leads = bits.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1);
                    if leads && self.stamp[other as usize] != round && self.place[other as usize] >= low {
                        self.stamp[other as usize] = round;
                        before.push(other);
                    }
                }
            }
        }
        Ok(before)
    }

    /// Puts both lists into the places that they occupy together, `before` first, each in its own order.
    fn merge(&mut self, mut before: Vec<Vertex>, mut after: Vec<Vertex>) {
        before.sort_unstable_by_key(|&v| self.place[v as usize]);
        after.sort_unstable_by_key(|&v| self.place[v as usize]);
        let all: Vec<Vertex> = before.into_iter().chain(after).collect();
        let mut places: Vec<u32> = all.iter().map(|&v| self.place[v as usize]).collect();
        places.sort_unstable();
        for (vertex, place) in all.into_iter().zip(places) {
            self.place[vertex as usize] = place;
        }
    }

    /// Returns a mark: how much has been added since the last [`Self::keep`].
    pub const fn mark(&self) -> usize {
        self.log.len()
    }

    /// Removes what was added since a mark. The order stays valid without it.
    pub fn undo(&mut self, mark: usize) {
        for (pair, bit) in self.log.drain(mark..) {
            self.bits[pair as usize][bit as usize / 64] &= !(1 << (bit % 64));
        }
    }

    /// Makes the additions permanent.
    pub fn keep(&mut self) {
        self.log.clear();
    }
}
