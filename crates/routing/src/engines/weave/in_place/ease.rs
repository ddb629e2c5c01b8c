//! Relieves links that carry more than any did before a repair: part of their load takes other paths.
//!
//! A switch that has lost its next hop to a LID usually has one alternative, so all packets from the part behind it use
//! this alternative. But a switch further back may have a fitting next hop of its own. To use it costs one more entry.
//! So the number of such entries is limited, and entries in blocks that are written in any case come first. Only pairs
//! that were cut off get other paths.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use selvedge_plan::BLOCK_LIDS;
use selvedge_types::{Idx, Lid};

use super::hang::Hang;
use super::{Loss, Turn};
use crate::engines::weave::net::NONE;

/// Largest number of links that are relieved, and of entries that are examined and changed for it.
const LINKS: usize = 16;
const LOOKS: usize = 1_500;
const MOVES: usize = 128;

/// A switch that may take another next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Offer {
    /// True if the LFT block of the entry is not written by this repair yet.
    is_extra: bool,
    pairs: Reverse<u64>,
    lid: Lid,
    switch: u32,
}

impl Loss<'_> {
    /// Relieves the fullest links, as far as repaired LIDs make them fuller than any was before.
    pub(super) fn ease_all(&mut self, hangs: &[Hang]) {
        let most = self.mender.scratch.most;
        let over = (0_u32..).zip(&self.mender.load).filter(|&(_, &load)| load > most);
        let mut over: Vec<(Reverse<u64>, u32)> = over.map(|(c, &load)| (Reverse(load), c)).collect();
        over.retain(|&(_, c)| self.mender.alive[c as usize]);
        over.sort_unstable();
        let mut written = vec![false; self.net.switches * self.tables.blocks()];
        for m in &self.moved {
            written[m.lid.index() / BLOCK_LIDS * self.net.switches + m.switch.to_usize()] = true;
        }
        let mut eased: BTreeMap<Lid, Vec<u32>> = BTreeMap::new();
        let (mut looks, mut moves) = (LOOKS, MOVES);
        for &(_, link) in over.iter().take(LINKS) {
            let mut offers = Vec::new();
            for hang in hangs.iter().filter(|hang| hang.pairs > 0) {
                if self.leads_over(hang.lid, hang.root, link) {
                    self.offer_part(hang, &written, &mut offers);
                }
            }
            offers.sort_unstable();
            for offer in offers {
                let load = self.mender.load[link as usize];
                if load <= most || looks == 0 || moves == 0 {
                    break;
                }
                looks -= 1;
                let moved = eased.entry(offer.lid).or_default();
                if self.leads_over(offer.lid, offer.switch, link) && self.ease(offer, link, moved) {
                    moves -= 1;
                }
            }
        }
    }

    /// Lists all switches with a path through one switch, with the host pairs that come through each.
    fn offer_part(&mut self, hang: &Hang, written: &[bool], offers: &mut Vec<Offer>) {
        self.cut_off(hang.lid, &[hang.root]);
        let part = &self.mender.scratch.part;
        let mut pairs: Vec<u64> = part
            .iter()
            .map(|&(s, _)| u64::from(self.net.hosts[s as usize]))
            .collect();
        let first = hang.lid.index() / BLOCK_LIDS * self.net.switches;
        for (position, &(switch, parent)) in part.iter().enumerate().skip(1).rev() {
            pairs[parent] += pairs[position];
            offers.push(Offer {
                is_extra: !written[first + switch as usize],
                pairs: Reverse(pairs[position]),
                lid: hang.lid,
                switch,
            });
        }
    }

    /// True if a switch sends a LID over a channel.
    fn leads_over(&self, lid: Lid, switch: u32, channel: u32) -> bool {
        let (goal, mut at) = (self.mender.trips[lid.index()].at, switch);
        for _ in 0..self.net.switches {
            let by = self.by(at, lid);
            if at == goal || by == NONE {
                break;
            }
            if by == channel {
                return true;
            }
            at = self.net.dst[by as usize];
        }
        false
    }

    /// Gives a switch another next hop for a LID. The new path must not use `link`, and each channel on it must stay
    /// less full than `link`. Returns false if there is no such path that fits. `moved` has the switches that no longer
    /// use the link.
    fn ease(&mut self, offer: Offer, link: u32, moved: &mut Vec<u32>) -> bool {
        let Offer {
            lid,
            switch,
            pairs: Reverse(pairs),
            ..
        } = offer;
        let goal = self.mender.trips[lid.index()].at;
        let before = self.by(switch, lid);
        let mut ways = Vec::new();
        for out in self.net.out(switch as usize).filter(|&out| self.mender.alive[out]) {
            let out = out as u32;
            if out == before {
                continue;
            }
            if let Some(cost) = self.cost_of_detour((lid, switch), out, (pairs, link), moved) {
                let to = self.net.dst[out as usize];
                ways.push((cost, out, if to == goal { NONE } else { self.by(to, lid) }));
            }
        }
        if ways.is_empty() {
            return false;
        }
        ways.sort_unstable();
        let mut into = std::mem::take(&mut self.mender.scratch.into);
        self.entering(switch, lid, self.moved.len(), &mut into);
        // Packets of switches that have just changed may come as well.
        for &from in &*moved {
            let turned = self.moved.iter().rev().find(|m| m.switch.0 == from && m.lid == lid);
            let old = turned.map_or(NONE, |m| self.channel_of(from, m.before));
            if old != NONE && self.net.dst[old as usize] == switch {
                into.push(old);
            }
        }
        let taken = ways
            .iter()
            .find(|&&(_, out, onward)| self.turn_into(lid, &into, out, onward));
        if let Some(&(_, out, _)) = taken {
            let lane = self.mender.trips[lid.index()].lane;
            let behind = self.by(self.net.dst[before as usize], lid);
            let old = into
                .iter()
                .filter(|&&from| self.by(self.net.src[from as usize], lid) == from);
            let old: Vec<Turn> = old.map(|&from| (lane, from, before)).collect();
            self.leaving.extend(old);
            self.leaving.extend((behind != NONE).then_some((lane, before, behind)));
            self.move_pairs(lid, switch, pairs, u64::saturating_sub);
            self.set(lid, switch, self.net.egress[out as usize], 1);
            self.move_pairs(lid, switch, pairs, |load, pairs| load + pairs);
            moved.push(switch);
        }
        let is_taken = taken.is_some();
        self.mender.scratch.into = into;
        is_taken
    }

    /// Returns the cost of a path that avoids `link` and switches with changed entries. `None` if some channel of it
    /// would be too full.
    fn cost_of_detour(
        &self,
        (lid, switch): (Lid, u32),
        out: u32,
        (pairs, link): (u64, u32),
        moved: &[u32],
    ) -> Option<u64> {
        let goal = self.mender.trips[lid.index()].at;
        let (mut by, mut cost) = (out, 0);
        for _ in 0..self.net.switches {
            let load = self.mender.load[by as usize] + pairs;
            if by == link || load > self.mender.scratch.most {
                return None;
            }
            cost += self.weight_with(by, pairs);
            let at = self.net.dst[by as usize];
            if at == goal {
                return Some(cost);
            }
            if at == switch || moved.contains(&at) {
                return None;
            }
            by = self.by(at, lid);
        }
        None
    }
}
