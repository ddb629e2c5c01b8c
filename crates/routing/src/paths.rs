//! The decisions of an engine that lets `balance` spread load (minhop, updn, dnup, dor): the hops that are allowed from
//! every switch towards every switch.

use selvedge_graph::Graph;
use selvedge_sim::Par;

/// The state of a switch towards a target: how many hops are left, and whether the packet may only go down from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u16);

impl Entry {
    /// No path.
    pub const NONE: Self = Self(u16::MAX);
    /// Most hops an entry can hold; longer paths count as none. No fabric comes near: it would need 32,767 switches in
    /// one line.
    pub const HOPS_MAX: u16 = (u16::MAX >> 1) - 1;

    /// Returns an entry with this number of hops; at most `HOPS_MAX`.
    pub fn new(hops: u16, only_down: bool) -> Self {
        if hops > Self::HOPS_MAX {
            return Self::NONE;
        }
        Self(hops << 1 | u16::from(only_down))
    }

    /// Hops left; `None` without a path.
    pub fn hops(self) -> Option<u16> {
        (self != Self::NONE).then_some(self.0 >> 1)
    }
}

/// The number of hops from every switch to every switch, and which channels lead "down" for the engine.
///
/// A channel is a good next hop if one hop less remains after it, and
///
/// - it leads down, and from there on the packet may only go down; or
/// - it leads up, and here the packet may still go up.
///
/// Where there are no levels (minhop) every channel counts as down, and every entry as "only down".
///
/// Memory: two bytes per pair of switches: 1.9 MB for 972 switches, 17 MB for 2,880, 200 MB for 10,000.
///
/// With weights (minhop's hop weights) a channel is a good next hop if the remaining weight falls by the channel's
/// weight.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    switches: usize,
    entries: Vec<Entry>,
    position: Option<Vec<u32>>,
    weights: Option<Vec<u8>>,
}

/// In [`Hops`]: there is no path by this channel.
pub(crate) const NO_WAY: u8 = u8::MAX;

/// Hops that remain from every channel towards every switch, for engines in which the hop count of a switch does not
/// determine which of its channels are good next hops. The channels with the fewest hops are good.
///
/// Memory: a byte per switch and channel: 34 MB for 972 switches of 36 ports, 200 MB for 2,880.
#[derive(Clone, Debug)]
pub(crate) struct Hops {
    channels: usize,
    hops: Vec<u8>,
}

/// The decisions of an engine.
#[derive(Clone, Debug)]
pub(crate) enum Paths {
    /// For each target, one hop count for each switch.
    Levels(Levels),
    /// For each target, one hop count for each channel.
    Hops(Hops),
}

/// The entries that a good next hop of one switch towards one target must have: behind a channel that leads down, and
/// behind one that leads up.
#[derive(Clone, Copy, Debug)]
struct NextHop {
    down: Entry,
    up: Entry,
}

impl Paths {
    /// Finds the channels of a switch that are good next hops towards a target. In `good` they are numbered from the
    /// first channel of the switch, in order of ports.
    pub fn good(&self, graph: &Graph, switch: usize, target: usize, good: &mut Vec<u32>) {
        good.clear();
        match self {
            Self::Levels(levels) => levels.good(graph, switch, target, good),
            Self::Hops(hops) => hops.good(graph, switch, target, good),
        }
    }
}

impl Hops {
    /// Makes the rows: calls `fill(target, scratch, row)` for each target. A row has a number for each channel, which
    /// is [`NO_WAY`] at first.
    pub fn new<S: Default>(graph: &Graph, par: Par, fill: impl Fn(usize, &mut S, &mut [u8]) + Sync + Send) -> Self {
        let switches = graph.switches();
        let channels = graph.channels().start(switches);
        let mut hops = vec![NO_WAY; switches * channels];
        let mut jobs: Vec<&mut [u8]> = hops.chunks_mut(channels.max(1)).collect();
        par.for_each_mut(&mut jobs, |target, row| fill(target, &mut S::default(), row));
        Self { channels, hops }
    }

    fn good(&self, graph: &Graph, switch: usize, target: usize, good: &mut Vec<u32>) {
        let row = &self.hops[target * self.channels..][graph.channels().range(switch)];
        let least = row.iter().copied().min().unwrap_or(NO_WAY);
        if least != NO_WAY {
            good.extend((0..).zip(row).filter(|(_, hops)| **hops == least).map(|(i, _)| i));
        }
    }
}

impl Levels {
    /// Makes the rows: calls `fill(target, scratch, row)` for each target; a row starts with [`Entry::NONE`]
    /// everywhere. `position` is the place of each switch in the order from top to bottom.
    pub fn new<S: Default>(
        switches: usize,
        position: Option<Vec<u32>>,
        par: Par,
        fill: impl Fn(usize, &mut S, &mut [Entry]) + Sync + Send,
    ) -> Self {
        /// Number of rows of one job: enough to pay for its scratch memory, few enough to share the work.
        const ROWS: usize = 16;
        let mut entries = vec![Entry::NONE; switches * switches];
        let mut jobs: Vec<&mut [Entry]> = entries.chunks_mut((switches * ROWS).max(1)).collect();
        par.for_each_mut(&mut jobs, |job, rows| {
            let mut scratch = S::default();
            for (i, row) in rows.chunks_mut(switches).enumerate() {
                fill(job * ROWS + i, &mut scratch, row);
            }
        });
        Self {
            switches,
            entries,
            position,
            weights: None,
        }
    }

    /// Adds a weight for each channel; entries then count weights instead of hops.
    pub fn weighted(mut self, weights: Vec<u8>) -> Self {
        self.weights = Some(weights);
        self
    }

    fn good(&self, graph: &Graph, switch: usize, target: usize, good: &mut Vec<u32>) {
        let row = self.towards(target);
        let channels = (0_u32..).zip(graph.channels().get(switch));
        if let Some(weights) = &self.weights {
            let weights = &weights[graph.channels().range(switch)];
            let Some(left) = row[switch].hops().filter(|_| switch != target) else {
                return;
            };
            let fits = |(i, to): (u32, u32)| {
                let behind = row[to as usize].hops();
                behind.is_some_and(|hops| hops.checked_add(u16::from(weights[i as usize])) == Some(left))
            };
            good.extend(channels.filter(|(i, c)| fits((*i, c.to))).map(|(i, _)| i));
            return;
        }
        let Some(next) = self.next(row[switch]) else { return };
        good.extend(
            channels
                .filter(|(_, c)| self.allows(next, switch, c.to as usize, row[c.to as usize]))
                .map(|(i, _)| i),
        );
    }

    /// Entries of every switch towards `target`.
    pub fn towards(&self, target: usize) -> &[Entry] {
        &self.entries[target * self.switches..][..self.switches]
    }

    /// Returns the entries that good next hops of a switch with this entry have; `None` if it has none.
    fn next(&self, from: Entry) -> Option<NextHop> {
        let hops = from.hops()?.checked_sub(1)?;
        let down = Entry::new(hops, true);
        let up = if from.0 & 1 == 0 {
            Entry::new(hops, false)
        } else {
            Entry::NONE
        };
        Some(NextHop { down, up })
    }

    /// True if the channel `from → to` is a good next hop, given the entry of `to`.
    fn allows(&self, next: NextHop, from: usize, to: usize, entry: Entry) -> bool {
        let leads_up = self.position.as_ref().is_some_and(|p| p[to] < p[from]);
        if leads_up {
            next.up != Entry::NONE && entry.0 | 1 == next.up.0 | 1
        } else {
            entry == next.down
        }
    }

    /// Returns the number of ordered pairs of different switches without a path, among those for which `count` holds.
    pub fn missing(&self, count: impl Fn(usize, usize) -> bool) -> usize {
        (0..self.switches)
            .map(|to| {
                let row = self.towards(to).iter().enumerate();
                row.filter(|&(from, &e)| e == Entry::NONE && from != to && count(from, to))
                    .count()
            })
            .sum()
    }
}
