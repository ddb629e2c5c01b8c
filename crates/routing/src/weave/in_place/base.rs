//! LIDs that find no way out of what is cut off, whatever is dropped first: they are routed anew as a whole.
//!
//! A spanning tree is looked for all of whose turns fit the graph of the lane without these LIDs, and if there is none
//! without all that were to be written late. With it there is always a way: at worst along the tree. Entries that stay
//! are preferred; those that change drop their LID first, so pairs that had a way lose packets meanwhile.

use selvedge_types::Lid;

use super::late::Prefers;
use super::{Loss, Rehung};
use crate::weave::net::{NONE, Net};
use crate::weave::order::Order;

/// So many switches are tried as the root of the tree: when something was lost, and before, when there is time.
const ROOTS: usize = 8;
const ROOTS_IN_TIME: usize = 64;

/// Some switches, from all over the fabric.
fn roots(switches: usize, count: usize) -> impl Iterator<Item = u32> {
    (0..switches as u32).step_by(switches.div_ceil(count).max(1))
}

/// A switch from which there is a spanning tree that fits a lane; any if none is found.
pub(super) fn root_of(net: &Net, order: &mut Order) -> u32 {
    let found = roots(net.switches, ROOTS_IN_TIME).find(|&root| order.find_base(net, root, net.switches, |_| true));
    if found.is_some() {
        order.forget_base(net);
    }
    found.unwrap_or(0)
}

impl Loss<'_> {
    /// Routes `stuck` LIDs of one lane anew, and if need be all that are `late`; false if the lane has no such tree.
    pub(super) fn lead_by_base(&mut self, lane: u8, stuck: &[Lid], late: &[Lid]) -> bool {
        stuck.iter().for_each(|&lid| self.take_out(lid));
        let mut out = stuck;
        if !self.find_base(lane) {
            late.iter()
                .filter(|lid| !stuck.contains(lid))
                .for_each(|&lid| self.take_out(lid));
            out = late;
            if !self.find_base(lane) {
                return false;
            }
        }
        for lid in out {
            let is_found = [Prefers::Entries, Prefers::Short].into_iter().any(|prefers| {
                self.cut_off_all(*lid);
                self.grow(*lid, prefers)
            });
            if !is_found {
                self.cut_off_all(*lid);
                self.along_base(*lid, lane);
            }
        }
        self.mender.orders[usize::from(lane)].forget_base(&self.net);
        true
    }

    /// Looks for a tree, first from the root that the last one had.
    fn find_base(&mut self, lane: u8) -> bool {
        let want = self.mender.gone.iter().filter(|gone| !**gone).count();
        let lane = usize::from(lane);
        let (order, alive) = (&mut self.mender.orders[lane], &self.mender.alive);
        let last = self.mender.base_root[lane];
        let found = std::iter::once(last)
            .chain(roots(self.net.switches, ROOTS))
            .find(|&root| order.find_base(&self.net, root, want, |c| alive[c as usize]));
        if let Some(root) = found {
            self.mender.base_root[lane] = root;
        }
        found.is_some()
    }

    /// Takes all turns of a LID out of the graph, and its new entries out of the tables.
    fn take_out(&mut self, lid: Lid) {
        self.cut_off_all(lid);
        self.uncount(lid);
        let (undone, kept): (Vec<Rehung>, Vec<Rehung>) = self.moved.iter().partition(|m| m.lid == lid);
        self.moved = kept;
        if undone.is_empty() {
            return;
        }
        let is_base = self.mender.trips[lid.index()].is_base;
        let all: Vec<u32> = self.mender.scratch.part.iter().map(|&(s, _)| s).collect();
        if is_base {
            self.shift(lid, &all, |load, hosts| load.saturating_sub(hosts));
        }
        for m in undone.iter().rev() {
            self.tables.set(m.switch, lid, m.before);
        }
        if is_base {
            self.shift(lid, &all, |load, hosts| load + hosts);
        }
    }

    /// Takes all switches for cut off but that of the LID.
    fn cut_off_all(&mut self, lid: Lid) {
        let goal = self.mender.trips[lid.index()].at;
        let gone = &self.mender.gone;
        let all = (0..self.net.switches as u32).filter(|&s| s != goal && !gone[s as usize]);
        let all: Vec<u32> = all.collect();
        self.cut_off(lid, &all);
    }

    /// Routes a LID along the spanning tree.
    fn along_base(&mut self, lid: Lid, lane: u8) {
        let goal = self.mender.trips[lid.index()].at;
        let mut by = vec![NONE; self.net.switches];
        let mut tree = vec![goal];
        let mut head = 0;
        while let Some(&at) = tree.get(head) {
            head += 1;
            for out in self.net.out(at as usize) {
                let (from, channel) = (self.net.dst[out], self.net.rev[out]);
                let parent = &self.mender.orders[usize::from(lane)].parent;
                let in_tree = parent[from as usize] == channel || parent[at as usize] == out as u32;
                if !in_tree || from == goal || by[from as usize] != NONE {
                    continue;
                }
                let onward = by[at as usize];
                if onward != NONE {
                    // All turns of the tree are in the graph.
                    self.mender.orders[usize::from(lane)].restore(&self.net, channel, onward);
                }
                by[from as usize] = channel;
                tree.push(from);
            }
        }
        let next: Vec<(u32, u32)> = tree[1..].iter().map(|&s| (s, by[s as usize])).collect();
        self.write_late(lid, &tree[1..], &next);
    }
}
