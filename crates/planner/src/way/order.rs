//! Dependencies that may exist together: a graph kept acyclic by an order of its vertices (Pearce and Kelly 2007). An
//! edge that would close a cycle is refused.

use super::net::Net;

/// A channel on a lane: lane × channels + channel; lanes by position among those in use.
pub type Vertex = u32;

/// The graph.
#[derive(Clone, Debug)]
pub struct Order {
    channels: usize,
    lanes: usize,
    /// First word of each channel's row of bits, and the end.
    rows: Vec<u32>,
    /// First channel out of the switch that each channel enters.
    base: Vec<u32>,
    /// By pair of lanes, then row.
    bits: Vec<Vec<u64>>,
    /// The same: turns that the graph refuses for good, as it only grows.
    refused: Vec<Vec<u64>>,
    /// Place of each vertex in the order.
    place: Vec<u32>,
    stamp: Vec<u32>,
    round: u32,
    /// Bits set since the last [`Self::keep`].
    log: Vec<(u32, u32)>,
    /// Work left: rows looked at in searches.
    pub budget: u64,
}

/// Why a dependency is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It closes a cycle.
    Cycle,
    /// The work allowed is done.
    Budget,
}

impl Order {
    /// Without a dependency.
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

    /// Notes a dependency without looking at the order; [`Self::sort`] must follow.
    pub fn put(&mut self, from: Vertex, to: Vertex) {
        let (pair, bit) = self.bit(from, to);
        let words = self.words();
        let bits = &mut self.bits[pair];
        if bits.is_empty() {
            bits.resize(words, 0);
        }
        bits[bit / 64] |= 1 << (bit % 64);
    }

    /// Sorts what was put in (Kahn 1962); false if it has a cycle.
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

    /// Takes a dependency unless it closes a cycle.
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

    /// What leads on from `to` up to `from`, and back from `from` down to `to`, changes places.
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

    /// Both lists keep their own order and share their places, `before` first.
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

    /// How much has been taken since the last [`Self::keep`].
    pub const fn mark(&self) -> usize {
        self.log.len()
    }

    /// Takes back what was taken since a mark. The order stays good without it.
    pub fn undo(&mut self, mark: usize) {
        for (pair, bit) in self.log.drain(mark..) {
            self.bits[pair as usize][bit as usize / 64] &= !(1 << (bit % 64));
        }
    }

    /// What was taken stays.
    pub fn keep(&mut self) {
        self.log.clear();
    }
}
