//! The usual repair: one switch has lost its next hop to a LID and takes another; nothing else changes.
//!
//! All such LIDs are handled together, those with the most host pairs first. Each takes the next hop with the shortest
//! and least loaded path, among those that fit the dependency graph. Until a LID has its new path, its load is counted
//! on no channel. LIDs for which one entry is not enough come last.

use std::cmp::Reverse;
use std::ops::Range;

use selvedge_types::Lid;

use super::{Loss, Victim};
use crate::engines::weave::net::NONE;

/// One LID, and the switch that has lost its next hop to it.
#[derive(Clone, Debug)]
pub(super) struct Hang {
    pub lid: Lid,
    pub root: u32,
    /// Number of host pairs that use the entry.
    pub pairs: u64,
    /// Channels that may hold packets to the switch, as a range of [`Hangs::into`].
    into: Range<usize>,
    /// Channels by which the switch may send, as a range of [`Hangs::outs`].
    outs: Range<usize>,
}

/// Channels of all LIDs that are handled together: those with packets in flight, and those that switches may use.
#[derive(Clone, Debug, Default)]
struct Hangs {
    into: Vec<u32>,
    /// Channels by which switches may send, each with the channel behind it; [`NONE`] if it leads to the destination.
    outs: Vec<(u32, u32)>,
}

impl Loss<'_> {
    /// Routes LIDs that have lost one switch each, while packets are in flight. Returns the LIDs without a path.
    pub(super) fn hang_all(&mut self, lost: &[(Lid, u32)]) -> Vec<Victim> {
        let mut hangs = Hangs::default();
        let mut all: Vec<Hang> = Vec::with_capacity(lost.len());
        for &(lid, root) in lost {
            let hang = self.look(lid, root, &mut hangs);
            self.move_pairs(lid, root, hang.pairs, u64::saturating_sub);
            all.push(hang);
        }
        all.sort_unstable_by_key(|hang| (Reverse(hang.pairs), hang.lid));
        let (hung, all): (Vec<Hang>, Vec<Hang>) = all.into_iter().partition(|hang| self.hang(hang, &hangs));
        for hang in &all {
            self.move_pairs(hang.lid, hang.root, hang.pairs, |load, pairs| load + pairs);
        }
        let need_more = all.into_iter().map(|hang| (hang.lid, vec![hang.root]));
        let late = need_more.filter_map(|victim| self.rehang_all(victim)).collect();
        self.ease_all(&hung);
        late
    }

    /// Collects, for a LID and the switch that has lost its next hop to it, the host pairs and the channels of
    /// [`Hang`].
    fn look(&mut self, lid: Lid, root: u32, hangs: &mut Hangs) -> Hang {
        let trip = self.mender.trips[lid.index()];
        let mut into = std::mem::take(&mut self.mender.scratch.into);
        self.entering(root, lid, self.moved.len(), &mut into);
        let (first_into, first_out) = (hangs.into.len(), hangs.outs.len());
        hangs.into.extend(&into);
        self.mender.scratch.into = into;
        self.cut_off(lid, &[root]);
        let part = self.mender.scratch.part.iter();
        let hosts = part.map(|&(s, _)| u64::from(self.net.hosts[s as usize]));
        let pairs = if trip.is_base { hosts.sum() } else { 0 };
        for out in self.net.out(root as usize).filter(|&out| self.mender.alive[out]) {
            let to = self.net.dst[out];
            if !self.is_cut_off(to) && self.cost_from(to, lid, root).is_some() {
                let onward = if to == trip.at { NONE } else { self.by(to, lid) };
                hangs.outs.push((out as u32, onward));
            }
        }
        Hang {
            lid,
            root,
            pairs,
            into: first_into..hangs.into.len(),
            outs: first_out..hangs.outs.len(),
        }
    }

    /// Gives the switch its new next hop, if one fits.
    fn hang(&mut self, hang: &Hang, hangs: &Hangs) -> bool {
        let mut outs: Vec<(u64, u32, u32)> = hangs.outs[hang.outs.clone()]
            .iter()
            .map(|&(out, onward)| (self.cost_of_more(hang, out), out, onward))
            .collect();
        outs.sort_unstable();
        let into = &hangs.into[hang.into.clone()];
        let taken = outs
            .iter()
            .find(|&&(_, out, onward)| self.turn_into(hang.lid, into, out, onward));
        let Some(&(_, out, _)) = taken else { return false };
        self.set(hang.lid, hang.root, self.net.egress[out as usize], 1);
        self.move_pairs(hang.lid, hang.root, hang.pairs, |load, pairs| load + pairs);
        true
    }

    /// Adds the turns into a channel and out of it, if all of them fit.
    pub(super) fn turn_into(&mut self, lid: Lid, into: &[u32], out: u32, onward: u32) -> bool {
        let lane = self.mender.trips[lid.index()].lane;
        let order = &mut self.mender.orders[usize::from(lane)];
        let behind = (onward != NONE).then_some((out, onward));
        let turns = || behind.into_iter().chain(into.iter().map(|&from| (from, out)));
        let misfit = turns().position(|(from, to)| !order.add(&self.net, from, to));
        if let Some(misfit) = misfit {
            turns()
                .take(misfit)
                .for_each(|(from, to)| order.remove(&self.net, from, to));
            order.unblock();
            return false;
        }
        // Those of packets that earlier repairs have turned away go with these.
        for &from in into {
            if self.by(self.net.src[from as usize], lid) != from {
                self.leaving.push((lane, from, out));
            }
        }
        true
    }

    /// Returns the cost of the path by a channel, with the host pairs that would be added.
    fn cost_of_more(&self, hang: &Hang, out: u32) -> u64 {
        let goal = self.mender.trips[hang.lid.index()].at;
        let (mut by, mut cost) = (out, 0);
        for _ in 0..self.net.switches {
            cost += self.weight_with(by, hang.pairs);
            let at = self.net.dst[by as usize];
            if at == goal {
                break;
            }
            by = self.by(at, hang.lid);
        }
        cost
    }
}
