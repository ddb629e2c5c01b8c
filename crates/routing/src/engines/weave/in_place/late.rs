//! LIDs that cannot be repaired while packets are in flight, because every path would close a cycle with the old
//! channels into a switch.
//!
//! Switches in the part that is cut off get a path out of it, with as many unchanged entries as possible: switch by
//! switch ([`super::by_turns`]), or, if that leaves a switch without a path, all together
//! ([`Order::sweep`](crate::engines::weave::order::Order::sweep)). Packets in flight inside the part would reach new
//! entries by old channels. So switches with entries that change first drop packets to the LID, as do the switches with
//! entries over the lost link. All these switches have lost their path to the LID anyway. When packets have drained,
//! old turns are gone, also those of other LIDs, and the new entries are written.
//!
//! If there is no path out of the part, entries of switches around it are changed as well. As a last resort the LID is
//! routed again as a whole: see [`super::anew`].

use std::collections::BTreeMap;

use selvedge_plan::NO_PATH;
use selvedge_types::Lid;

use super::loads::Loads;
use super::rehang::Scratch;
use super::{LATE, Loss, Victim};
use crate::engines::weave::net::NONE;
use crate::engines::weave::order::{Cost, Task};

/// Number of times that the cut-off part is widened by its neighbours and routed again.
const RINGS: usize = 3;

impl Loss<'_> {
    /// Routes the remaining LIDs, for the time when packets have drained; returns `None` if some LID has no path.
    pub(super) fn lead_late(&mut self, late: Vec<Victim>) -> Option<()> {
        let all: Vec<Lid> = late.iter().map(|&(lid, _)| lid).collect();
        let mut by_lane: BTreeMap<u8, Vec<Lid>> = BTreeMap::new();
        for (lid, roots) in late {
            if self.rehang_late(lid, &roots) {
                continue;
            }
            let lane = self.mender.trips[lid.index()].lane;
            by_lane.entry(lane).or_default().push(lid);
        }
        if by_lane
            .into_iter()
            .all(|(lane, stuck)| self.lead_anew(lane, stuck, &all))
        {
            return Some(());
        }
        for moved in self.moved.drain(..).rev() {
            self.tables.set(moved.switch, moved.lid, moved.before);
        }
        None
    }

    /// Gives a path to `roots` and to all switches that send through them, if necessary with changes at the switches
    /// around them. Returns false if every choice closes a cycle; then nothing has changed.
    fn rehang_late(&mut self, lid: Lid, roots: &[u32]) -> bool {
        let lane = usize::from(self.mender.trips[lid.index()].lane);
        self.cut_off(lid, roots);
        for ring in 0..RINGS {
            let turns = self.uncount(lid);
            // With those around it, no path was ever found switch by switch.
            if ring == 0 && self.lead_out_by_turns(lid) || self.lead_out(lid) {
                return true;
            }
            let order = &mut self.mender.orders[lane];
            turns.iter().for_each(|&(from, to)| order.restore(&self.net, from, to));
            self.widen(lid);
        }
        false
    }

    /// Extends the cut-off part by its neighbours and all switches that send over them.
    fn widen(&mut self, lid: Lid) {
        let goal = self.mender.trips[lid.index()].at;
        let mut roots: Vec<u32> = self.mender.scratch.part.iter().map(|&(s, _)| s).collect();
        for i in 0..roots.len() {
            let next = self.net.out(roots[i] as usize).filter(|&out| self.mender.alive[out]);
            roots.extend(next.map(|out| self.net.dst[out]).filter(|&to| to != goal));
        }
        self.cut_off(lid, &roots);
    }

    /// Removes the turns that cut-off switches cause from the dependency graph.
    pub(super) fn uncount(&mut self, lid: Lid) -> Vec<(u32, u32)> {
        let part = self.mender.scratch.part.iter();
        let turns: Vec<(u32, u32)> = part.filter_map(|&(s, _)| self.turn_from(s, lid)).collect();
        let order = &mut self.mender.orders[usize::from(self.mender.trips[lid.index()].lane)];
        turns.iter().for_each(|&(from, to)| order.remove(&self.net, from, to));
        order.unblock();
        turns
    }

    /// Finds paths for all switches that a lost link has cut off from a LID, all together, and writes their entries.
    /// Returns false if some switch has no path; then nothing has changed.
    pub(super) fn lead_out(&mut self, lid: Lid) -> bool {
        let trip = self.mender.trips[lid.index()];
        let (goal, lane) = (trip.at, usize::from(trip.lane));
        self.measure_depths();
        let mut sweep = std::mem::take(&mut self.mender.scratch.sweep);
        let before = self.column(lid);
        self.start_sweep(lid, &mut sweep, &before, |s, _| !self.is_cut_off(s));
        let depth = &self.mender.scratch.depth;
        let (net, alive, loads) = (
            &self.net,
            &self.mender.alive,
            Loads::of(&self.mender.load, &self.mender.scratch),
        );
        let rank = |c: u32, (_, cost): Cost| {
            let switch = net.src[c as usize] as usize;
            (before[switch] != c, depth[switch], cost + loads.weight(c))
        };
        let task = Task {
            goal,
            until: None,
            held: &[],
        };
        let order = &mut self.mender.orders[lane];
        let is_found = order.sweep(net, task, &mut sweep, |c| alive[c as usize], rank);
        if is_found {
            let mut next = Vec::with_capacity(sweep.found.len());
            for &s in &sweep.found {
                let from = sweep.next[s as usize];
                let to = sweep.next[net.dst[from as usize] as usize];
                if to != NONE {
                    // The order follows it.
                    let fits = self.mender.orders[lane].add(net, from, to);
                    debug_assert!(fits);
                }
                next.push((s, from));
            }
            self.write_late(lid, &next);
        }
        (self.mender.scratch.sweep, self.mender.scratch.before) = (sweep, before);
        is_found
    }

    /// Computes the distance of each switch in the cut-off part from the lost link.
    pub(super) fn measure_depths(&mut self) {
        let Scratch { part, depth, .. } = &mut self.mender.scratch;
        depth.clear();
        depth.resize(self.net.switches, 0);
        for (position, &(s, parent)) in part.iter().enumerate() {
            // The switch that it sends to comes before it; roots send to themselves.
            if parent < position {
                depth[s as usize] = depth[part[parent].0 as usize] + 1;
            }
        }
    }

    /// Returns the turn that packets of a switch make at the next switch; none over a lost link.
    pub(super) fn turn_from(&self, switch: u32, lid: Lid) -> Option<(u32, u32)> {
        let from = self.by(switch, lid);
        if from == NONE {
            return None;
        }
        let to = self.by(self.net.dst[from as usize], lid);
        let is_alive = |c: u32| c != NONE && self.mender.alive[c as usize];
        (is_alive(from) && is_alive(to)).then_some((from, to))
    }

    /// Writes the entries of switches that were cut off, after they have dropped the LID.
    pub(super) fn write_late(&mut self, lid: Lid, next: &[(u32, u32)]) {
        let part: Vec<u32> = next.iter().map(|&(s, _)| s).collect();
        self.unload(lid, &part);
        let changed: Vec<(u32, u32)> = next.iter().copied().filter(|&(s, c)| self.by(s, lid) != c).collect();
        // Packets sent over a lost link are dropped there.
        let is_sent = |&&(s, _): &&(u32, u32)| self.mender.alive[self.by(s, lid) as usize];
        let sent: Vec<u32> = changed.iter().filter(is_sent).map(|&(s, _)| s).collect();
        sent.into_iter().for_each(|s| self.set(lid, s, NO_PATH, 1));
        for (s, c) in changed {
            self.set(lid, s, self.net.egress[c as usize], LATE);
        }
        self.load(lid, &part);
    }
}
