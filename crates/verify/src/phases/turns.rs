//! Sets of turns, and cycles in them.
//!
//! A turn is one dependency: a packet occupies a lane of the channel on which it arrived and waits for a lane of the
//! channel on which it leaves. Each turn has one bit, found by the pair of lanes, then the occupied channel, then the
//! index among the channels out of the switch. Pairs of lanes take memory only once they are used, because most maps
//! keep a packet on one lane.

use selvedge_types::Vl;

use super::net::Net;

/// Largest number of data lanes.
pub const LANES: usize = Vl::MANAGEMENT.get() as usize;

/// One dependency between two channels and their lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Occupied channel.
    pub from: u32,
    /// Channel that the packet waits for.
    pub to: u32,
    /// Occupied lane.
    pub from_vl: u8,
    /// Lane that the packet waits for.
    pub to_vl: u8,
}

/// A channel on a lane.
pub type Vertex = (u8, u32);

/// Positions of the bits of turns.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Index of the first word of each channel, and the total count at the end.
    rows: Vec<u32>,
    /// First channel out of the switch that each channel enters.
    base: Vec<u32>,
}

impl Layout {
    /// Returns a layout with a row of bits for each channel.
    pub fn new(net: &Net) -> Self {
        let (mut rows, mut base) = (vec![0], Vec::new());
        let mut end = 0;
        for channel in &net.channels {
            let switch = channel.dst as usize;
            end += net.out_degree(switch).div_ceil(64);
            rows.push(end);
            base.push(net.first_out(switch));
        }
        Self { rows, base }
    }

    /// Returns the number of words of one pair of lanes.
    pub fn words(&self) -> usize {
        self.rows.last().map_or(0, |&end| end as usize)
    }

    /// Returns the pair of lanes, and the index of the bit in it.
    #[inline]
    pub fn bit(&self, turn: Turn) -> (usize, usize) {
        let pair = usize::from(turn.from_vl) * LANES + usize::from(turn.to_vl);
        let position = (turn.to - self.base[turn.from as usize]) as usize;
        (pair, self.rows[turn.from as usize] as usize * 64 + position)
    }
}

/// A set of turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnSet {
    pairs: Vec<Vec<u64>>,
}

impl TurnSet {
    /// Adds a turn.
    #[inline]
    pub fn insert(&mut self, layout: &Layout, turn: Turn) {
        let (pair, bit) = layout.bit(turn);
        let words = self.pair(pair, layout.words());
        words[bit / 64] |= 1 << (bit % 64);
    }

    /// Removes a bit.
    pub fn clear(&mut self, (pair, bit): (usize, usize)) {
        if let Some(word) = self.pairs.get_mut(pair).and_then(|words| words.get_mut(bit / 64)) {
            *word &= !(1 << (bit % 64));
        }
    }

    /// Removes every turn from or to a channel.
    pub fn remove_channel(&mut self, layout: &Layout, net: &Net, channel: u32) {
        let rows = layout.rows[channel as usize] as usize..layout.rows[channel as usize + 1] as usize;
        let switch = net.channels[channel as usize].src as usize;
        let base = net.first_out(switch);
        for pair in self.pairs.iter_mut().filter(|pair| !pair.is_empty()) {
            pair[rows.clone()].fill(0);
            for &before in net.entering(switch) {
                let bit = layout.rows[before as usize] as usize * 64 + (channel - base) as usize;
                pair[bit / 64] &= !(1 << (bit % 64));
            }
        }
    }

    fn pair(&mut self, pair: usize, words: usize) -> &mut Vec<u64> {
        // Kept as short as possible: most sets have one pair, and there are many sets.
        if self.pairs.len() <= pair {
            self.pairs.resize_with(pair + 1, Vec::new);
        }
        let bits = &mut self.pairs[pair];
        if bits.is_empty() {
            bits.resize(words, 0);
        }
        bits
    }

    /// Adds all turns of another set.
    pub fn merge(&mut self, other: &Self) {
        for (pair, more) in other.pairs.iter().enumerate().filter(|(_, more)| !more.is_empty()) {
            let bits = self.pair(pair, more.len());
            bits.iter_mut().zip(more).for_each(|(bits, more)| *bits |= more);
        }
    }

    /// Returns the number of turns.
    pub fn len(&self) -> u64 {
        let words = self.pairs.iter().flatten();
        words.map(|word| u64::from(word.count_ones())).sum()
    }
}

/// A set of turns as a graph.
#[derive(Clone, Copy, Debug)]
pub struct TurnGraph<'a> {
    layout: &'a Layout,
    set: &'a TurnSet,
    channels: usize,
    lanes: usize,
}

impl<'a> TurnGraph<'a> {
    /// Returns the graph of a set.
    pub fn new(layout: &'a Layout, set: &'a TurnSet) -> Self {
        let used = set.pairs.iter().enumerate().filter(|(_, bits)| !bits.is_empty());
        Self {
            layout,
            set,
            channels: layout.base.len(),
            lanes: used
                .map(|(pair, _)| (pair / LANES).max(pair % LANES) + 1)
                .max()
                .unwrap_or(0),
        }
    }

    fn for_each_next(self, vertex: usize, mut f: impl FnMut(usize)) {
        let (lane, channel) = (vertex / self.channels, vertex % self.channels);
        let rows = self.layout.rows[channel] as usize..self.layout.rows[channel + 1] as usize;
        for to_lane in 0..self.lanes {
            let bits = self.set.pairs.get(lane * LANES + to_lane);
            let Some(bits) = bits.filter(|bits| !bits.is_empty()) else {
                continue;
            };
            for (word, first) in rows.clone().zip((self.layout.base[channel] as usize..).step_by(64)) {
                let mut left = bits[word];
                while left != 0 {
                    f(to_lane * self.channels + first + left.trailing_zeros() as usize);
                    left &= left - 1;
                }
            }
        }
    }

    /// True if there is a cycle.
    pub fn is_cyclic(self) -> bool {
        self.unsorted().is_some()
    }

    /// Sorts the graph topologically (Kahn 1962). Returns for each vertex the number of edges that come from vertices
    /// which cannot be sorted. `None` if all can be sorted.
    fn unsorted(self) -> Option<Vec<u32>> {
        let vertices = self.lanes * self.channels;
        let mut waiting = vec![0_u32; vertices];
        for vertex in 0..vertices {
            self.for_each_next(vertex, |next| waiting[next] += 1);
        }
        let mut order: Vec<usize> = (0..vertices).filter(|&v| waiting[v] == 0).collect();
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
        (order.len() < vertices).then_some(waiting)
    }

    /// Returns a short cycle, if there is any. A vertex that cannot be sorted has a predecessor that cannot be sorted
    /// either.
    pub fn cycle(self) -> Option<Vec<Vertex>> {
        let left: Vec<bool> = self.unsorted()?.iter().map(|&n| n > 0).collect();
        let cycle = self.walk_back(&left);
        let tries = cycle
            .iter()
            .take(TRIES)
            .filter_map(|&v| self.shortest_through(v, &left));
        let cycle = tries.min_by_key(Vec::len).unwrap_or(cycle);
        let named = |v: usize| ((v / self.channels) as u8, (v % self.channels) as u32);
        Some(cycle.into_iter().map(named).collect())
    }

    /// Walks from a remaining vertex to a predecessor, until a vertex repeats.
    fn walk_back(self, left: &[bool]) -> Vec<usize> {
        let mut before = vec![usize::MAX; left.len()];
        for vertex in (0..left.len()).filter(|&v| left[v]) {
            self.for_each_next(vertex, |next| {
                if left[next] && before[next] == usize::MAX {
                    before[next] = vertex;
                }
            });
        }
        let mut place = vec![usize::MAX; left.len()];
        let mut path = Vec::new();
        let mut at = left.iter().position(|&left| left).unwrap_or(0);
        while at != usize::MAX && place[at] == usize::MAX {
            place[at] = path.len();
            path.push(at);
            at = before[at];
        }
        let first = if at == usize::MAX { 0 } else { place[at] };
        path[first..].reverse();
        path.split_off(first)
    }

    fn shortest_through(self, start: usize, left: &[bool]) -> Option<Vec<usize>> {
        let mut from = vec![usize::MAX; left.len()];
        let mut open = vec![start];
        let mut done = 0;
        while let Some(&vertex) = open.get(done) {
            done += 1;
            let mut closed = false;
            self.for_each_next(vertex, |next| {
                closed |= next == start;
                if left[next] && from[next] == usize::MAX && next != start {
                    from[next] = vertex;
                    open.push(next);
                }
            });
            if closed {
                let mut back = vec![vertex];
                while *back.last()? != start {
                    back.push(from[*back.last()?]);
                }
                back.reverse();
                return Some(back);
            }
        }
        None
    }
}

/// Number of vertices of a cycle from which a shorter cycle is searched for, because people read the result.
const TRIES: usize = 16;

#[cfg(test)]
mod tests {
    use selvedge_types::PortState;

    use super::*;
    use crate::phases::net::Links;
    use crate::support;

    /// Checks a ring of four switches. Channel 2i leads from switch i to the next, channel 2i + 1 back (before sorting
    /// by port).
    fn check(turns: &[(u32, u32)], want: Option<usize>) {
        let mut ring = support::Net::new(4, 4);
        (0..4).for_each(|i| {
            ring.link(i, (i + 1) % 4);
        });
        let net = Net::new(&ring.finish(PortState::Active), Links::Active);
        let layout = Layout::new(&net);
        let channel = |from: u32, to: u32| {
            let found = net.channels.iter().position(|c| (c.src, c.dst) == (from, to));
            found.unwrap() as u32
        };
        let mut set = TurnSet::default();
        for &(at, step) in turns {
            let (before, after) = ((at + 4 - step) % 4, (at + step) % 4);
            let (from, to) = (channel(before, at), channel(at, after));
            let (from_vl, to_vl) = (3, 3);
            set.insert(
                &layout,
                Turn {
                    from,
                    to,
                    from_vl,
                    to_vl,
                },
            );
        }
        let cycle = TurnGraph::new(&layout, &set).cycle();
        assert_eq!(cycle.as_ref().map(Vec::len), want, "{cycle:?}");
        assert_eq!(set.len(), turns.len() as u64);
    }

    #[test]
    fn cycles_on_a_ring() {
        check(&[], None);
        check(&[(0, 1), (1, 1), (2, 1)], None);
        check(&[(0, 1), (1, 1), (2, 1), (3, 1)], Some(4));
        check(&[(0, 1), (1, 1), (2, 3), (3, 3)], None);
        check(&[(0, 3), (1, 3), (2, 3), (3, 3), (0, 1)], Some(4));
    }
}
