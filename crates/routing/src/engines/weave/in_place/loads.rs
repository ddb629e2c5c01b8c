//! Loads of channels and the costs that follow from them, updated with each changed entry.

use selvedge_types::Lid;

use super::rehang::Scratch;
use super::{Loss, Trip};
use crate::engines::weave::net::{NONE, Net};

/// Weight of a hop.
const HOP: u64 = 256;
/// The cost that the mean load of all channels adds; twice the load adds four times as much.
const MEAN_LOAD: u64 = 64;
/// Additional cost of a load above the largest load of any channel before the repair: this much for each mean load
/// above it.
const OVER: u64 = 16 * HOP;

/// Loads of channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loads<'a> {
    load: &'a [u64],
    mean: u64,
    most: u64,
}

impl<'a> Loads<'a> {
    pub(super) fn of(load: &'a [u64], scratch: &Scratch) -> Self {
        let Scratch { mean, most, .. } = *scratch;
        Self { load, mean, most }
    }

    /// Returns the cost of a channel.
    pub(super) fn weight(&self, channel: u32) -> u64 {
        self.weight_with(channel, 0)
    }

    /// Returns the cost of a channel with this number of additional host pairs.
    pub(super) fn weight_with(&self, channel: u32, more: u64) -> u64 {
        let load = self.load[channel as usize] + more;
        let relative = load * 16 / self.mean;
        let over = load.saturating_sub(self.most);
        HOP + relative * relative * MEAN_LOAD / 256 + over * OVER / self.mean
    }
}

/// Memory for the sums of host pairs that come to switches.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    round: u32,
    /// For each switch, the round in which its hosts were counted. The next three lists have, for each switch, the
    /// round in which it was put in order, its load, and its egress channel.
    counted: Vec<u32>,
    ordered: Vec<u32>,
    pairs: Vec<u64>,
    by: Vec<u32>,
    /// Switches, each after the switch that it sends to.
    order: Vec<u32>,
    path: Vec<u32>,
}

impl Sums {
    pub(super) fn new(net: &Net) -> Self {
        Self {
            counted: vec![0; net.switches],
            ordered: vec![0; net.switches],
            pairs: vec![0; net.switches],
            by: vec![NONE; net.switches],
            ..Self::default()
        }
    }
}

impl Loss<'_> {
    /// Computes the mean and the largest load.
    pub(super) fn weigh(&mut self) {
        let load = &self.mender.load;
        let scratch = &mut self.mender.scratch;
        scratch.mean = (load.iter().sum::<u64>() / (load.len() as u64).max(1)).max(1);
        scratch.most = load.iter().copied().max().unwrap_or(0);
    }

    pub(super) fn weight(&self, channel: u32) -> u64 {
        self.weight_with(channel, 0)
    }

    pub(super) fn weight_with(&self, channel: u32, more: u64) -> u64 {
        Loads::of(&self.mender.load, &self.mender.scratch).weight_with(channel, more)
    }

    /// Removes the load of hosts at some switches, each named once, from the channels of their paths.
    pub(super) fn unload(&mut self, lid: Lid, switches: &[u32]) {
        self.shift(lid, switches, u64::saturating_sub);
    }

    /// Adds the load of hosts at some switches, each named once, to the channels of their paths.
    pub(super) fn load(&mut self, lid: Lid, switches: &[u32]) {
        self.shift(lid, switches, |load, pairs| load + pairs);
    }

    fn shift(&mut self, lid: Lid, switches: &[u32], change: impl Fn(u64, u64) -> u64) {
        let Trip { at: goal, is_base, .. } = self.mender.trips[lid.index()];
        if !is_base {
            return;
        }
        let mut sums = std::mem::take(&mut self.mender.scratch.sums);
        self.put_in_order(lid, switches, &mut sums);
        for &switch in sums.order.iter().rev() {
            let (pairs, by) = (sums.pairs[switch as usize], sums.by[switch as usize]);
            if pairs == 0 || switch == goal || by == NONE {
                continue;
            }
            let to = self.net.dst[by as usize];
            if sums.counted[to as usize] == sums.round {
                let load = &mut self.mender.load[by as usize];
                *load = change(*load, pairs);
                sums.pairs[to as usize] += pairs;
            } else {
                self.move_pairs(lid, switch, pairs, &change);
            }
        }
        self.mender.scratch.sums = sums;
    }

    /// Orders switches along the path by which they send a LID, and counts their hosts.
    fn put_in_order(&self, lid: Lid, switches: &[u32], sums: &mut Sums) {
        sums.round += 1;
        sums.order.clear();
        for &switch in switches {
            sums.counted[switch as usize] = sums.round;
            sums.pairs[switch as usize] = u64::from(self.net.hosts[switch as usize]);
            sums.by[switch as usize] = self.by(switch, lid);
        }
        for &switch in switches {
            let mut at = switch;
            while sums.counted[at as usize] == sums.round && sums.ordered[at as usize] != sums.round {
                sums.ordered[at as usize] = sums.round;
                sums.path.push(at);
                let by = sums.by[at as usize];
                if by == NONE {
                    break;
                }
                at = self.net.dst[by as usize];
            }
            while let Some(at) = sums.path.pop() {
                sums.order.push(at);
            }
        }
    }

    /// Adds host pairs to the present path from a switch, or removes them.
    pub(super) fn move_pairs(&mut self, lid: Lid, from: u32, pairs: u64, change: impl Fn(u64, u64) -> u64) {
        let goal = self.mender.trips[lid.index()].at;
        let mut at = from;
        for _ in 0..self.net.switches {
            let by = self.by(at, lid);
            if pairs == 0 || at == goal || by == NONE {
                break;
            }
            let load = &mut self.mender.load[by as usize];
            *load = change(*load, pairs);
            at = self.net.dst[by as usize];
        }
    }
}
