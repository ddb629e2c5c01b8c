//! Channel dependencies that may exist at the same time: a graph, stored as bits, that never has a cycle. An edge that
//! would close a cycle is refused.

pub use selvedge_graph::Refused;
use selvedge_graph::{Edges, Order as Places};

use super::net::Net;

/// A channel on a lane: lane × channels + channel. Lanes are numbered among those in use.
pub type Vertex = u32;

/// The acyclic graph of channel dependencies.
#[derive(Clone, Debug)]
pub struct Order {
    rows: Rows,
    /// Dependencies that the graph has refused and will always refuse, because it only grows; stored as bits, as in
    /// [`Rows`].
    refused: Vec<Vec<u64>>,
    places: Places,
    /// Bits set since the last [`Self::keep`].
    log: Vec<(u32, u32)>,
    /// Remaining work: vertices that searches may visit.
    pub budget: u64,
}

/// The edges: a row of bits for each channel, one for each channel out of the switch that it enters.
#[derive(Clone, Debug)]
struct Rows {
    channels: usize,
    lanes: usize,
    /// First word of each channel's row of bits, and the end.
    first: Vec<u32>,
    /// First channel out of the switch that each channel enters.
    base: Vec<u32>,
    /// Bits, by pair of lanes, then row.
    bits: Vec<Vec<u64>>,
}

/// The edges of the graph, together with the channels, so that edges can also be followed backwards.
struct On<'a> {
    rows: &'a Rows,
    net: &'a Net,
}

impl Edges for On<'_> {
    #[inline]
    fn onward(&self, vertex: Vertex, each: impl FnMut(Vertex)) {
        self.rows.for_each_next(vertex, each);
    }

    fn back(&self, vertex: Vertex, mut each: impl FnMut(Vertex)) {
        let Rows { channels, lanes, .. } = *self.rows;
        let (lane, channel) = (vertex as usize / channels, vertex as usize % channels);
        for &earlier in self.net.entering(self.net.channels[channel].src) {
            let row = self.rows.first[earlier as usize] as usize * 64;
            let bit = row + channel - self.rows.base[earlier as usize] as usize;
            for from_lane in 0..lanes {
                let bits = &self.rows.bits[from_lane * lanes + lane];
                if bits.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1) {
                    each((from_lane * channels) as u32 + earlier);
                }
            }
        }
    }
}

impl Rows {
    fn new(net: &Net, lanes: usize) -> Self {
        let (mut first, mut base) = (vec![0], Vec::new());
        let mut end = 0;
        for channel in &net.channels {
            end += net.out_degree(channel.dst).div_ceil(64);
            first.push(end);
            base.push(net.first_out(channel.dst));
        }
        Self {
            channels: net.channels.len(),
            lanes,
            first,
            base,
            bits: vec![Vec::new(); lanes * lanes],
        }
    }

    #[inline]
    fn bit(&self, from: Vertex, to: Vertex) -> (usize, usize) {
        let (from, to) = (from as usize, to as usize);
        let pair = from / self.channels * self.lanes + to / self.channels;
        let (held, wanted) = (from % self.channels, to % self.channels);
        (pair, self.first[held] as usize * 64 + wanted - self.base[held] as usize)
    }

    fn words(&self) -> usize {
        self.first.last().map_or(0, |&end| end as usize)
    }

    fn set(&mut self, pair: usize, bit: usize) {
        let words = self.words();
        let bits = &mut self.bits[pair];
        if bits.is_empty() {
            bits.resize(words, 0);
        }
        bits[bit / 64] |= 1 << (bit % 64);
    }

    #[inline]
    fn for_each_next(&self, vertex: Vertex, mut f: impl FnMut(Vertex)) {
        let (lane, channel) = (vertex as usize / self.channels, vertex as usize % self.channels);
        let rows = self.first[channel] as usize..self.first[channel + 1] as usize;
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
}

impl Order {
    /// Returns an order without dependencies.
    pub fn new(net: &Net, lanes: usize, budget: u64) -> Self {
        let rows = Rows::new(net, lanes);
        Self {
            refused: vec![Vec::new(); lanes * lanes],
            places: Places::new(rows.channels * lanes),
            rows,
            log: Vec::new(),
            budget,
        }
    }

    /// Records a dependency without checking the order; [`Self::sort`] must follow.
    pub fn put(&mut self, from: Vertex, to: Vertex) {
        let (pair, bit) = self.rows.bit(from, to);
        self.rows.set(pair, bit);
    }

    /// Sorts the recorded dependencies. Returns false if they have a cycle.
    pub fn sort(&mut self, net: &Net) -> bool {
        let rows = &self.rows;
        self.places.sort(&On { rows, net })
    }

    /// Adds a dependency unless it closes a cycle.
    pub fn insert(&mut self, net: &Net, from: Vertex, to: Vertex) -> Result<(), Refused> {
        let (pair, bit) = self.rows.bit(from, to);
        let mask = 1 << (bit % 64);
        let is_set = |bits: &Vec<u64>| bits.get(bit / 64).is_some_and(|word| word & mask != 0);
        if is_set(&self.rows.bits[pair]) {
            return Ok(());
        }
        if is_set(&self.refused[pair]) {
            return Err(Refused::Cycle);
        }
        let rows = &self.rows;
        if let Err(why) = self.places.make_room(&On { rows, net }, from, to, &mut self.budget) {
            if why == Refused::Cycle && self.log.is_empty() {
                let words = self.rows.words();
                let refused = &mut self.refused[pair];
                refused.resize(words, 0);
                refused[bit / 64] |= mask;
            }
            return Err(why);
        }
        self.rows.set(pair, bit);
        self.log.push((pair as u32, bit as u32));
        Ok(())
    }

    /// Returns a mark for [`Self::undo`]: the number of dependencies added since the last [`Self::keep`].
    pub const fn mark(&self) -> usize {
        self.log.len()
    }

    /// Removes dependencies added since a mark. The order stays valid without them.
    pub fn undo(&mut self, mark: usize) {
        for (pair, bit) in self.log.drain(mark..) {
            self.rows.bits[pair as usize][bit as usize / 64] &= !(1 << (bit % 64));
        }
    }

    /// Makes the additions permanent.
    pub fn keep(&mut self) {
        self.log.clear();
    }
}
