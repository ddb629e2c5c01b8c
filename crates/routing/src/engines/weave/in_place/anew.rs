//! Routes LIDs again as a whole. This is the last resort, if the part of a tree that is cut off has no path out of it
//! even when entries are dropped first.
//!
//! Entries that stay are preferred. Switches with a changed entry drop packets to the LID first, so until the new
//! entries are written, even pairs with a working route lose packets. In most cases the repairs of other LIDs of the
//! lane block the stuck LIDs. So those repairs are undone, the stuck LIDs are routed first, and then the cut-off parts
//! of the others are routed again. If that fails too, more LIDs are routed again as a whole: first LIDs that must wait
//! for packets to drain in any case, then all LIDs with changed entries. Last, a spanning tree is searched, all turns
//! of which fit the dependency graph without these LIDs. Along this tree there is always a path.

use std::collections::BTreeSet;

use selvedge_types::Lid;

use super::{Loss, Rehung, Victim};
use crate::engines::weave::net::NONE;

/// Number of switches tried as the root of the tree.
const ROOTS: usize = 16;

impl Loss<'_> {
    /// Routes again, as a whole, those LIDs of a lane that have no path. If necessary, also does so for other LIDs:
    /// first for those in `late`, then for all LIDs with changed entries. Returns false if some LIDs still have no
    /// path.
    pub(super) fn lead_anew(&mut self, lane: u8, mut lids: Vec<Lid>, late: &[Lid]) -> bool {
        let mut out = BTreeSet::new();
        if self.lead_together(&mut lids, &mut out) || self.lead_first(lane, &mut lids, &mut out) {
            return true;
        }
        for others in [late.to_vec(), self.moved.iter().map(|m| m.lid).collect()] {
            let more: BTreeSet<Lid> = others.into_iter().filter(|lid| !lids.contains(lid)).collect();
            lids.extend(
                more.into_iter()
                    .filter(|lid| self.mender.trips[lid.index()].lane == lane),
            );
            if self.lead_together(&mut lids, &mut out) || self.lead_by_base(lane, &lids, &mut out) {
                return true;
            }
        }
        false
    }

    /// Undoes the repairs of a lane, and then routes again: first, as a whole, the LIDs in `out`, which have no turns
    /// in the dependency graph; then the cut-off parts of the other LIDs. Returns false if some LIDs have no path.
    /// These LIDs are then in `out`, and are moved to the front of `lids`.
    fn lead_first(&mut self, lane: u8, lids: &mut Vec<Lid>, out: &mut BTreeSet<Lid>) -> bool {
        let cut_off = self.take_back(lane);
        let mut left = Vec::new();
        for &lid in out.iter() {
            self.cut_off_all(lid);
            if !self.lead_out(lid) {
                left.push(lid);
            }
        }
        for (lid, roots) in cut_off {
            self.cut_off(lid, &roots);
            if self.lead_out_by_turns(lid) || self.lead_out(lid) {
                continue;
            }
            // Its other turns are still in the graph.
            let stays = (0..self.net.switches as u32).filter(|&s| !self.is_cut_off(s));
            let turns: Vec<(u32, u32)> = stays.filter_map(|s| self.turn_from(s, lid)).collect();
            let order = &mut self.mender.orders[usize::from(lane)];
            turns.iter().for_each(|&(from, to)| order.remove(&self.net, from, to));
            order.unblock();
            self.cut_off_all(lid);
            if !self.lead_out(lid) {
                left.push(lid);
            }
        }
        *out = left.iter().copied().collect();
        lids.retain(|lid| !out.contains(lid));
        left.append(lids);
        *lids = left;
        out.is_empty()
    }

    /// Undoes all new entries of a lane. Of the parts that lost links have cut off, removes the turns from the
    /// dependency graph. Returns the LIDs, each with the switches that have an entry over a lost link.
    fn take_back(&mut self, lane: u8) -> Vec<Victim> {
        let is_here = |m: &Rehung| self.mender.trips[m.lid.index()].lane == lane;
        let (mut undone, kept): (Vec<Rehung>, Vec<Rehung>) = self.moved.iter().partition(|m| is_here(m));
        self.moved = kept;
        // Those of one LID stay in the order in which they were made.
        undone.sort_by_key(|m| m.lid);
        let mut parts = Vec::new();
        for moved in undone.chunk_by(|a, b| a.lid == b.lid) {
            let lid = moved[0].lid;
            let switches: Vec<u32> = moved.iter().map(|m| m.switch.0).collect();
            self.cut_off(lid, &switches);
            self.uncount(lid);
            let part: Vec<u32> = self.mender.scratch.part.iter().map(|&(s, _)| s).collect();
            self.unload(lid, &part);
            for m in moved.iter().rev() {
                self.tables.set(m.switch, lid, m.before);
            }
            self.load(lid, &part);
            parts.push((lid, part));
        }
        // Without new turns the old ones close no cycle.
        let mut cut_off = Vec::with_capacity(parts.len());
        for (lid, part) in parts {
            let is_root = |&s: &u32| self.mender.alive.get(self.by(s, lid) as usize) == Some(&false);
            let roots: Vec<u32> = part.iter().copied().filter(is_root).collect();
            self.cut_off(lid, &roots);
            for s in part {
                if let Some((from, to)) = self.turn_from(s, lid).filter(|_| !self.is_cut_off(s)) {
                    self.mender.orders[usize::from(lane)].restore(&self.net, from, to);
                }
            }
            cut_off.push((lid, roots));
        }
        cut_off
    }

    /// Removes the turns of all these LIDs from the dependency graph, then routes the LIDs again one after another.
    /// LIDs without a path come first in `lids` afterwards. `out` has the LIDs without turns in the graph.
    fn lead_together(&mut self, lids: &mut Vec<Lid>, out: &mut BTreeSet<Lid>) -> bool {
        self.take_all_out(lids, out);
        let (led, mut left): (Vec<Lid>, Vec<Lid>) = lids.iter().partition(|&&lid| {
            self.cut_off_all(lid);
            self.lead_out(lid)
        });
        out.retain(|lid| left.contains(lid));
        let is_done = left.is_empty();
        left.extend(led);
        *lids = left;
        is_done
    }

    /// Routes LIDs again along a spanning tree, if there is one.
    fn lead_by_base(&mut self, lane: u8, lids: &[Lid], out: &mut BTreeSet<Lid>) -> bool {
        self.take_all_out(lids, out);
        let (net, alive) = (&self.net, &self.mender.alive);
        let want = self.mender.gone.iter().filter(|gone| !**gone).count();
        let order = &mut self.mender.orders[usize::from(lane)];
        let mut roots = (0..net.switches as u32).step_by(net.switches.div_ceil(ROOTS).max(1));
        if !roots.any(|root| order.find_base(net, root, want, |c| alive[c as usize])) {
            return false;
        }
        for &lid in lids {
            self.cut_off_all(lid);
            if !self.lead_out(lid) {
                self.lead_along_base(lid, lane);
            }
        }
        self.mender.orders[usize::from(lane)].forget_base(&self.net);
        true
    }

    /// Removes LIDs from the graph, and their new entries from the tables.
    fn take_all_out(&mut self, lids: &[Lid], out: &mut BTreeSet<Lid>) {
        for &lid in lids {
            if out.insert(lid) {
                self.cut_off_all(lid);
                self.uncount(lid);
                self.undo(lid);
            }
        }
    }

    /// Takes new entries of a LID out of the tables.
    fn undo(&mut self, lid: Lid) {
        let (undone, kept): (Vec<Rehung>, Vec<Rehung>) = self.moved.iter().partition(|m| m.lid == lid);
        self.moved = kept;
        if undone.is_empty() {
            return;
        }
        let all: Vec<u32> = self.mender.scratch.part.iter().map(|&(s, _)| s).collect();
        self.unload(lid, &all);
        for m in undone.iter().rev() {
            self.tables.set(m.switch, lid, m.before);
        }
        self.load(lid, &all);
    }

    /// Treats all switches as cut off, except the switch of the LID.
    fn cut_off_all(&mut self, lid: Lid) {
        let goal = self.mender.trips[lid.index()].at;
        let gone = &self.mender.gone;
        let all = (0..self.net.switches as u32).filter(|&s| s != goal && !gone[s as usize]);
        let all: Vec<u32> = all.collect();
        self.cut_off(lid, &all);
    }

    /// Routes a LID along the spanning tree.
    fn lead_along_base(&mut self, lid: Lid, lane: u8) {
        let goal = self.mender.trips[lid.index()].at;
        let order = &mut self.mender.orders[usize::from(lane)];
        let mut by = vec![NONE; self.net.switches];
        let mut tree = vec![goal];
        let mut head = 0;
        while let Some(&at) = tree.get(head) {
            head += 1;
            for out in self.net.out(at as usize) {
                let (from, channel) = (self.net.dst[out], self.net.rev[out]);
                let in_tree = order.parent[from as usize] == channel || order.parent[at as usize] == out as u32;
                if !in_tree || from == goal || by[from as usize] != NONE {
                    continue;
                }
                let onward = by[at as usize];
                if onward != NONE {
                    // All turns of the tree are in the graph.
                    order.restore(&self.net, channel, onward);
                }
                by[from as usize] = channel;
                tree.push(from);
            }
        }
        let next: Vec<(u32, u32)> = tree[1..].iter().map(|&s| (s, by[s as usize])).collect();
        self.write_late(lid, &next);
    }
}
