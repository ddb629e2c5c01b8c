//! Paths out of the part that is cut off, found switch by switch.
//!
//! [`Order::sweep`](crate::engines::weave::order::Order::sweep) gives every channel of the lane a new place, so its
//! work does not depend on how small the loss is. In most cases each switch that is cut off has a next hop that leads
//! on and fits the graph as it is. So the switch with the best one takes it, then the next, as long as all have one.
//! That also changes fewer entries. If a switch has none, a sweep may find one: it handles all switches together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use selvedge_types::Lid;

use super::Loss;
use super::rehang::Scratch;
use crate::engines::weave::net::NONE;
use crate::engines::weave::order::Rank;

/// Something to send by, the best first: a channel, and the one behind it.
type Offer = Reverse<(Rank, u32, u32)>;

impl Loss<'_> {
    /// Finds paths for all switches that are cut off, and writes their entries; false if some have none, and nothing
    /// has changed then. Their turns must be out of the graph.
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

    /// Channels out of the part that is cut off, by which the LID can be reached.
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

    /// A channel and the one behind it, ranked as a sweep ranks them: entries that stay, then switches near the lost
    /// link, then the cost of the whole path; `cost` is that of the path behind.
    fn offer(&self, lid: Lid, (channel, onward): (u32, u32), cost: u64) -> Offer {
        let s = self.net.src[channel as usize];
        let is_new = self.by(s, lid) != channel;
        let depth = self.mender.scratch.depth[s as usize];
        Reverse(((is_new, depth, cost + self.weight(channel)), channel, onward))
    }
}
