//! Finds paths for the switches of a tree that a lost link has cut off, one switch after another.
//!
//! In most cases some of these switches have a next hop that leads out of the cut-off part and fits the dependency
//! graph as it is. So the switch with the best such next hop takes it, then the next switch, until all have one. This
//! changes few entries, and takes little work if the loss is small. If a switch is left without a next hop,
//! [`Order::sweep`](crate::engines::weave::order::Order::sweep) may still find a path, because it handles all switches
//! together. But it gives every channel of the lane a new place, so it takes the same work for a small loss as for a
//! large one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use selvedge_types::Lid;

use super::Loss;
use super::rehang::Scratch;
use crate::engines::weave::net::NONE;
use crate::engines::weave::order::Rank;

/// A channel that a switch may send by, with the channel behind it; the best comes first.
type Offer = Reverse<(Rank, u32, u32)>;

impl Loss<'_> {
    /// Finds paths for all switches that a lost link has cut off from a LID, and writes their entries. Returns false if
    /// some switch has no path; then nothing has changed. The caller must have removed the turns of these switches from
    /// the dependency graph.
    pub(super) fn lead_out_by_turns(&mut self, lid: Lid) -> bool {
        self.measure_depths();
        let lane = usize::from(self.mender.trips[lid.index()].lane);
        let part = self.mender.scratch.part.len();
        let mut offers = self.ways_out(lid);
        let mut next: Vec<(u32, u32)> = Vec::with_capacity(part);
        let mut added: Vec<(u32, u32)> = Vec::with_capacity(part);
        while let Some(Reverse(((_, _, cost), channel, onward))) = offers.pop() {
            let s = self.net.src[channel as usize];
            if !self.is_cut_off(s) {
                continue;
            }
            if onward != NONE {
                if !self.mender.orders[lane].add(&self.net, channel, onward) {
                    continue;
                }
                added.push((channel, onward));
            }
            next.push((s, channel));
            self.mender.scratch.cut_off[s as usize] = 0;
            for out in self.net.out(s as usize) {
                let (from, back) = (self.net.dst[out], self.net.rev[out]);
                if self.mender.alive[back as usize] && self.is_cut_off(from) {
                    offers.push(self.offer(lid, (back, channel), cost));
                }
            }
        }
        if next.len() == part {
            self.write_late(lid, &next);
            return true;
        }
        let order = &mut self.mender.orders[lane];
        added.iter().for_each(|&(from, to)| order.remove(&self.net, from, to));
        order.unblock();
        let Scratch { cut_off, round, .. } = &mut self.mender.scratch;
        next.iter().for_each(|&(s, _)| cut_off[s as usize] = *round);
        false
    }

    /// Returns the channels that lead out of the cut-off part and from which the LID can be reached.
    fn ways_out(&self, lid: Lid) -> BinaryHeap<Offer> {
        let mut offers = BinaryHeap::new();
        for &(s, _) in &self.mender.scratch.part {
            for out in self.net.out(s as usize).filter(|&out| self.mender.alive[out]) {
                let to = self.net.dst[out];
                if self.is_cut_off(to) {
                    continue;
                }
                if let Some(cost) = self.cost_from(to, lid, NONE) {
                    offers.push(self.offer(lid, (out as u32, self.by(to, lid)), cost));
                }
            }
        }
        offers
    }

    /// Returns the rank of a channel together with the next channel on its path, by the same rule as in a sweep:
    /// unchanged entries first, then switches near the lost link, then the lowest cost of the whole path. `cost` is the
    /// cost of the path after `channel`.
    fn offer(&self, lid: Lid, (channel, onward): (u32, u32), cost: u64) -> Offer {
        let s = self.net.src[channel as usize];
        let is_new = self.by(s, lid) != channel;
        let depth = self.mender.scratch.depth[s as usize];
        Reverse(((is_new, depth, cost + self.weight(channel)), channel, onward))
    }
}
