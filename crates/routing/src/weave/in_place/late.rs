//! LIDs that cannot be led on while packets are under way: the old channels into a switch and the order leave no way.
//!
//! Whoever is cut off is led out again one switch at a time, by entries that stay where they can. Packets that are
//! under way inside the part that is cut off would meet new entries by old channels; so switches that are to change
//! drop the LID first, and those that sent over the lost link drop it as they are. Everybody there had lost it in any
//! case. When packets have drained, old turns are gone, those of other LIDs too, and the new entries are written.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use selvedge_fabric::SwitchIdx;
use selvedge_plan::NO_PATH;
use selvedge_types::Lid;

use super::{LATE, Loss, Rehung};
use crate::weave::net::NONE;

/// What is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefers {
    /// Few new entries.
    Entries,
    /// Short ways with little load.
    Short,
}

/// A channel that a switch may send by. First those that stay, then those nearest to the lost link, as most sends over
/// their switches; then by cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    is_new: bool,
    depth: u32,
    cost: u64,
    channel: u32,
    onward: u32,
}

type Open = BinaryHeap<Reverse<Candidate>>;

impl Loss<'_> {
    /// Leads whoever sends over some switches out again; false if that closes a cycle, and nothing has changed then.
    pub(super) fn rehang_late(&mut self, lid: Lid, roots: &[u32]) -> bool {
        self.cut_off(lid, roots);
        let turns = self.uncount(lid);
        let found = [Prefers::Entries, Prefers::Short].into_iter().any(|prefers| {
            self.cut_off(lid, roots);
            self.grow(lid, prefers)
        });
        if !found {
            let order = &mut self.mender.orders[usize::from(self.mender.trips[lid.index()].lane)];
            turns.iter().for_each(|&(from, to)| order.restore(&self.net, from, to));
        }
        found
    }

    /// Takes the turns of switches that are cut off out of the graph.
    pub(super) fn uncount(&mut self, lid: Lid) -> Vec<(u32, u32)> {
        let part = self.mender.scratch.part.iter();
        let turns: Vec<(u32, u32)> = part.filter_map(|&(s, _)| self.turn_from(s, lid)).collect();
        let order = &mut self.mender.orders[usize::from(self.mender.trips[lid.index()].lane)];
        turns.iter().for_each(|&(from, to)| order.remove(&self.net, from, to));
        order.unblock();
        turns
    }

    /// Settles switches that are cut off, one after another, and writes their entries; false if some are left, and
    /// nothing has changed then.
    pub(super) fn grow(&mut self, lid: Lid, prefers: Prefers) -> bool {
        let (part, depth) = self.part_by_depth();
        let lane = self.mender.trips[lid.index()].lane;
        let mut open = Open::new();
        for &s in &part {
            let depth = match prefers {
                Prefers::Entries => Some(depth[s as usize]),
                Prefers::Short => None,
            };
            self.open_ways_out(lid, (s, depth), &mut open);
        }
        let mut next: Vec<(u32, u32)> = Vec::with_capacity(part.len());
        let mut added = Vec::new();
        while let Some(Reverse(candidate)) = open.pop() {
            let Candidate { channel, onward, .. } = candidate;
            let switch = self.net.src[channel as usize];
            // Settled switches are cut off no longer.
            if !self.is_cut_off(switch) {
                continue;
            }
            if onward != NONE {
                if !self.mender.orders[usize::from(lane)].add(&self.net, channel, onward) {
                    continue;
                }
                added.push((channel, onward));
            }
            self.mender.scratch.cut_off[switch as usize] = 0;
            next.push((switch, channel));
            for out in self.net.out(switch as usize) {
                let (from, before) = (self.net.dst[out], self.net.rev[out]);
                if self.mender.alive[before as usize] && self.is_cut_off(from) {
                    let spares = prefers == Prefers::Entries;
                    open.push(Reverse(Candidate {
                        is_new: spares && self.by(from, lid) != before,
                        depth: if spares { depth[from as usize] } else { 0 },
                        cost: candidate.cost + self.weight(before),
                        channel: before,
                        onward: channel,
                    }));
                }
            }
        }
        if next.len() < part.len() {
            let order = &mut self.mender.orders[usize::from(lane)];
            added.iter().for_each(|&(from, to)| order.remove(&self.net, from, to));
            order.unblock();
            return false;
        }
        self.write_late(lid, &part, &next);
        true
    }

    /// Switches that are cut off, and how far each is from the lost link, by switch.
    fn part_by_depth(&self) -> (Vec<u32>, Vec<u32>) {
        let part = &self.mender.scratch.part;
        let mut depth = vec![0; self.net.switches];
        for (position, &(s, parent)) in part.iter().enumerate() {
            // Whoever it sends to comes before it; roots send to themselves.
            if parent < position {
                depth[s as usize] = depth[part[parent].0 as usize] + 1;
            }
        }
        (part.iter().map(|&(s, _)| s).collect(), depth)
    }

    /// The turn by which packets of a switch go on; none over a lost link.
    fn turn_from(&self, switch: u32, lid: Lid) -> Option<(u32, u32)> {
        let from = self.by(switch, lid);
        if from == NONE {
            return None;
        }
        let to = self.by(self.net.dst[from as usize], lid);
        let is_alive = |c: u32| c != NONE && self.mender.alive[c as usize];
        (is_alive(from) && is_alive(to)).then_some((from, to))
    }

    /// Ways from a switch that is cut off to those that are not.
    fn open_ways_out(&self, lid: Lid, (switch, depth): (u32, Option<u32>), open: &mut Open) {
        for out in self.net.out(switch as usize) {
            let to = self.net.dst[out];
            if !self.mender.alive[out] || self.is_cut_off(to) {
                continue;
            }
            if let Some(cost) = self.cost_from(to, lid, switch) {
                let is_goal = to == self.mender.trips[lid.index()].at;
                let onward = if is_goal { NONE } else { self.by(to, lid) };
                open.push(Reverse(Candidate {
                    is_new: depth.is_some(),
                    depth: depth.unwrap_or(0),
                    cost: cost + self.weight(out as u32),
                    channel: out as u32,
                    onward,
                }));
            }
        }
    }

    pub(super) fn write_late(&mut self, lid: Lid, part: &[u32], next: &[(u32, u32)]) {
        let is_base = self.mender.trips[lid.index()].is_base;
        if is_base {
            self.shift(lid, part, |load, hosts| load.saturating_sub(hosts));
        }
        let changed: Vec<(u32, u32)> = next.iter().copied().filter(|&(s, c)| self.by(s, lid) != c).collect();
        // What is sent over a lost link is dropped there.
        let is_sent = |&&(s, _): &&(u32, u32)| self.mender.alive[self.by(s, lid) as usize];
        let drops = changed.iter().filter(is_sent).map(|&(s, _)| (s, NO_PATH, 1));
        let new = changed.iter().map(|&(s, c)| (s, self.net.egress[c as usize], LATE));
        let writes: Vec<(u32, u8, u16)> = drops.chain(new).collect();
        for (switch, egress, step) in writes {
            let switch = SwitchIdx(switch);
            let before = self.tables.get(switch, lid);
            self.tables.set(switch, lid, egress);
            self.moved.push(Rehung {
                switch,
                lid,
                egress,
                before,
                step,
            });
        }
        if is_base {
            self.shift(lid, part, |load, hosts| load + hosts);
        }
    }
}
