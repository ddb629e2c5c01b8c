//! Relieves full channels: moves entries until no channel carries more than a limit.

use std::cmp::Reverse;

use selvedge_fabric::SwitchIdx;
use selvedge_plan::BLOCK_LIDS;
use selvedge_types::Idx;

use super::{Column, NOWHERE, Spread};

/// Precision of the least limit: one part in this number.
const EXACT: u64 = 256;
/// In fabrics with this number of entries or more, a limit counts as out of reach as soon as one channel cannot be
/// brought below it. In smaller fabrics the other channels are tried as well, and then exchanges of entries.
pub(super) const ENTRIES_MAX: usize = 1_000_000;

/// A switch from which packets for a destination cross a channel.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) switch: u32,
    /// Index in the list of the next switch on the route to the channel; for the first switch, its own index.
    next: u32,
    /// Number of host pairs with packets to the destination that pass this switch on their way to the channel.
    pub(super) pairs: u64,
    /// True if the packets now take another route.
    is_gone: bool,
}

/// A change of an entry, with the data for undoing it.
#[derive(Clone, Copy)]
pub(super) struct Move {
    destination: u32,
    switch: u32,
    /// Host pairs that use the entry.
    pairs: u64,
    /// The egress before.
    before: u8,
}

impl Spread<'_> {
    /// Moves entries until no channel carries more than `floor`, or as little more as can be reached: first one by one,
    /// then by exchanges, which begin where single moves have ended.
    pub fn even_out(&mut self, floor: u64) {
        self.find_least(floor, Self::relieve_all);
        let end = self.end_of_exchanges();
        self.find_least(floor, |this, limit| this.exchange_all(limit, end));
    }

    /// Finds by bisection the least limit, not below `floor`, for which `reach` returns true.
    fn find_least(&mut self, floor: u64, reach: impl Fn(&mut Self, u64) -> bool) {
        let mut reached = self.fullest();
        if reached <= floor || reach(self, floor) {
            return;
        }
        let mut too_low = floor;
        while reached - too_low > reached.div_ceil(EXACT) {
            let limit = too_low.midpoint(reached);
            match reach(self, limit) {
                true => reached = limit,
                false => too_low = limit,
            }
        }
    }

    /// Returns the number of host pairs on the fullest channel.
    pub(super) fn fullest(&self) -> u64 {
        self.load.iter().copied().max().unwrap_or(0)
    }

    /// Moves entries until no channel carries more than `limit`. Returns false if some channel still does. Entries
    /// moved off one channel may make room for another, so in small fabrics all channels are tried again as long as
    /// that helps.
    pub(super) fn relieve_all(&mut self, limit: u64) -> bool {
        let patience = (ENTRIES_MAX / self.entries().max(1)).max(1);
        for _ in 0..patience {
            let loads = self.load.iter().enumerate();
            let mut full: Vec<_> = loads
                .filter(|(_, load)| **load > limit)
                .map(|(c, &load)| (load, c))
                .collect();
            full.sort_unstable_by_key(|&(load, channel)| (Reverse(load), channel));
            let (mut in_vain, mut has_moved) = (0, false);
            for (load, channel) in full {
                in_vain += usize::from(!self.relieve(channel, limit));
                has_moved |= self.load[channel] < load;
                if in_vain >= patience {
                    return false;
                }
            }
            if in_vain == 0 || !has_moved {
                return in_vain == 0;
            }
        }
        false
    }

    /// Returns the number of entries: all switches × all destinations.
    pub(super) fn entries(&self) -> usize {
        self.hosts.len() * self.layer.to.len()
    }

    /// Moves entries until a channel carries no more than `limit`; false if it still does in the end.
    pub(super) fn relieve(&mut self, channel: usize, limit: u64) -> bool {
        if self.load[channel] <= limit {
            return true;
        }
        let from = channel / self.stride;
        let Ok(egress) = u8::try_from(channel % self.stride) else {
            return false;
        };
        let blocks = self.tables.blocks();
        for i in 0..blocks {
            // Each channel begins with other destinations.
            let block = (i + channel) % blocks;
            let row = *self.tables.block(SwitchIdx::from_usize(from), block);
            for (place, port) in row.into_iter().enumerate() {
                let d = self.layer.of[block * BLOCK_LIDS + place];
                if port != egress || d == NOWHERE || self.layer.to[d as usize] as usize == from {
                    continue;
                }
                self.divert(d as usize, channel, limit);
                if self.load[channel] <= limit {
                    return true;
                }
            }
        }
        false
    }

    /// Sends packets for a destination by other routes than over this channel, first the packets of the nearest
    /// switches, until the channel carries no more than `limit`.
    fn divert(&mut self, d: usize, channel: usize, limit: u64) {
        self.find_sources(d, channel / self.stride);
        for i in 0..self.sources.len() {
            let Source {
                switch, next, pairs, ..
            } = self.sources[i];
            if self.sources[next as usize].is_gone {
                self.sources[i].is_gone = true;
                continue;
            }
            if let Some(egress) = self.other_way((d, switch as usize), pairs, channel, limit) {
                self.take((d, switch as usize), pairs, egress);
                self.sources[i].is_gone = true;
                if self.load[channel] <= limit {
                    return;
                }
            }
        }
    }

    /// Lists the switches that send packets for a destination through switch `through`. That switch is the first of the
    /// list; each other switch stands after the next switch on its route.
    pub(super) fn find_sources(&mut self, d: usize, through: usize) {
        let mut sources = std::mem::take(&mut self.sources);
        let column = self.column(d);
        sources.clear();
        sources.push(self.source(through, 0));
        let mut head = 0;
        while let Some(&Source { switch: at, .. }) = sources.get(head) {
            for &s in self.near.get(at as usize) {
                let is_next = column.hop(s as usize).is_some_and(|(_, next)| next == at);
                if is_next && sources.len() <= self.hosts.len() {
                    sources.push(self.source(s as usize, head));
                }
            }
            head += 1;
        }
        for i in (1..sources.len()).rev() {
            let Source { next, pairs, .. } = sources[i];
            sources[next as usize].pairs += pairs;
        }
        self.work += sources.len();
        self.sources = sources;
    }

    fn source(&self, switch: usize, next: usize) -> Source {
        Source {
            switch: switch as u32,
            next: next as u32,
            pairs: u64::from(self.hosts[switch]),
            is_gone: false,
        }
    }

    /// Returns a legal egress of a switch that avoids `channel`. On its route no channel then carries more than
    /// `limit`; of several, the egress with the least full channels is chosen.
    fn other_way(&self, (d, s): (usize, usize), pairs: u64, channel: usize, limit: u64) -> Option<u8> {
        if pairs == 0 {
            return None;
        }
        let (column, to) = (self.column(d), self.layer.to[d]);
        let now = Way::new(column, column.hop(s), to);
        let mut best: Option<((u64, u64), u8)> = None;
        for link in self.rule.net.links.get(s).iter().filter(|k| k.alive) {
            let first = s * self.stride + usize::from(link.port);
            let is_open = self.load[first] + pairs <= limit && !now.contains(first);
            if !is_open || !self.rule.leads(s, link.peer as usize, to as usize) {
                continue;
            }
            let new = Way::new(column, Some((first, link.peer)), to);
            if new.hops == 0 || new.contains(channel) {
                continue;
            }
            let added = || new.iter().filter(|&c| !now.contains(c)).map(|c| self.load[c] + pairs);
            let cost = (added().max().unwrap_or(0), added().sum::<u64>());
            let is_best = cost.0 <= limit && best.is_none_or(|(least, _)| cost < least);
            if is_best && !self.is_taken(d, s, link.port) {
                best = Some((cost, link.port));
            }
        }
        best.map(|(_, port)| port)
    }

    /// Changes an entry that `pairs` host pairs use, and the loads; [`Self::undo`] can change them back.
    pub(super) fn take(&mut self, (d, s): (usize, usize), pairs: u64, egress: u8) {
        let column = self.column(d);
        self.moves.push(Move {
            destination: d as u32,
            switch: s as u32,
            pairs,
            before: column.tile[s][column.place],
        });
        self.shift((d, s), pairs, egress);
    }

    /// Undoes the last changes, so that `moves` remain. Entries and loads are restored.
    pub(super) fn undo(&mut self, moves: usize) {
        for last in self.moves.split_off(moves).into_iter().rev() {
            let place = (last.destination as usize, last.switch as usize);
            self.shift(place, last.pairs, last.before);
        }
    }

    fn shift(&mut self, (d, s): (usize, usize), pairs: u64, egress: u8) {
        let to = self.layer.to[d];
        let way = |at: &Self| Way::new(at.column(d), at.column(d).hop(s), to);
        let before = way(self);
        self.set(d, s, egress);
        let after = way(self);
        before
            .iter()
            .for_each(|c| self.load[c] = self.load[c].saturating_sub(pairs));
        after.iter().for_each(|c| self.load[c] += pairs);
    }
}

/// The channels of a route: at most up and down all levels.
#[derive(Clone, Copy, Default)]
pub(super) struct Way {
    channels: [usize; Self::HOPS_MAX],
    hops: usize,
}

impl Way {
    /// Twice the levels that a tree may have.
    const HOPS_MAX: usize = 16;

    /// Returns the route that begins with a hop and leads to a switch; without channels if it does not arrive.
    pub(super) fn new(column: Column<'_>, first: Option<(usize, u32)>, to: u32) -> Self {
        let mut way = Self::default();
        let mut next = first;
        while let (Some((channel, at)), Some(slot)) = (next, way.channels.get_mut(way.hops)) {
            *slot = channel;
            way.hops += 1;
            if at == to {
                return way;
            }
            next = column.hop(at as usize);
        }
        Self::default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.channels[..self.hops.min(Self::HOPS_MAX)].iter().copied()
    }

    pub(super) fn contains(&self, channel: usize) -> bool {
        self.iter().any(|c| c == channel)
    }
}
