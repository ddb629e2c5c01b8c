//! Switches that may be dead, as they say nothing: their neighbours are asked for their ends of the links.

use std::collections::BTreeSet;
use std::time::Duration;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_sim::Time;

use super::Probe;

/// Who has said nothing after so many times as long as the slowest answer took may be dead.
const TIMES_AS_LONG: u32 = 4;
/// But after no less than this.
const SILENT_AFTER: Duration = Duration::from_micros(500);

impl Probe {
    /// Ports of its neighbours that lead to a doubted switch, as many as are to be asked now.
    pub(super) fn facing(&self, node: NodeIdx) -> Vec<PortRef> {
        /// So many are asked before anything but one lost link speaks against it.
        const FIRST: usize = 2;
        let lost = self
            .links_to_switches(node)
            .filter(|&(at, peer)| self.is_lost(at, peer));
        let lost = lost.count();
        let others = self.links_to_switches(node).filter(|&(at, peer)| {
            !self.is_lost(at, peer) && !self.doubted.contains(&peer.node) && !self.known.contains(&peer)
        });
        let (asked, fresh): (Vec<PortRef>, Vec<PortRef>) = others
            .map(|(_, peer)| peer)
            .partition(|peer| self.open.contains_key(peer));
        let count = match (lost, self.vouched(node)) {
            (_, true) => 0,
            (0 | 1, false) => FIRST.saturating_sub(asked.len()),
            _ => usize::MAX,
        };
        fresh.into_iter().take(count).collect()
    }

    /// A neighbour of a doubted switch says that the link to it is up, or the switch says something itself.
    pub(super) fn vouched(&self, node: NodeIdx) -> bool {
        let is_seen =
            |(at, peer)| self.known.contains(&peer) && self.heard.contains(&peer.node) && !self.is_lost(at, peer);
        self.is_alive(node) || self.links_to_switches(node).any(is_seen)
    }

    pub(super) fn is_alive(&self, node: NodeIdx) -> bool {
        self.heard.contains(&node) || !self.is_check && self.suspects.contains(&node)
    }

    /// True if every link of a doubted switch is lost, or leads to another one that is cut off likewise.
    pub(super) fn is_cut_off(&self, node: NodeIdx) -> bool {
        if !self.doubted.contains(&node) {
            return false;
        }
        let mut behind = BTreeSet::from([node]);
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            let links = self.links_to_switches(node);
            for (_, peer) in links.filter(|&(at, peer)| !self.is_lost(at, peer)) {
                if !self.doubted.contains(&peer.node) {
                    return false;
                }
                if behind.insert(peer.node) {
                    open.push(peer.node);
                }
            }
        }
        true
    }

    /// True if nothing more can be learnt of a doubted switch for now: somebody vouches for it, or all its neighbours
    /// have been asked.
    pub(super) fn is_resolved(&self, node: NodeIdx) -> bool {
        let is_open =
            |(_, peer): (PortRef, PortRef)| self.open.contains_key(&peer) && !self.doubted.contains(&peer.node);
        self.vouched(node) || !self.links_to_switches(node).any(is_open) && self.facing(node).is_empty()
    }

    pub(super) fn doubt(&mut self, node: NodeIdx) {
        if self.inventory.fabric.switch_index(node).is_some() && self.doubted.insert(node) {
            self.ways = None;
            self.is_stale = true;
        }
    }

    /// Everybody has answered but switches of which nothing was heard for long: true if they are doubted from now on.
    pub(super) fn doubt_the_silent(&mut self, now: Time) -> bool {
        let silent: BTreeSet<NodeIdx> = self.open.keys().map(|at| at.node).collect();
        if self.heard.is_empty() || !silent.is_disjoint(&self.heard) || silent.is_subset(&self.doubted) {
            return false;
        }
        let asked = self.open.values().copied().max().unwrap_or(now);
        let due = asked + (self.slowest * TIMES_AS_LONG).max(SILENT_AFTER);
        if due > now {
            self.doubts_at = Some(due);
            return false;
        }
        let before = self.doubted.len();
        silent.into_iter().for_each(|node| self.doubt(node));
        self.doubted.len() > before
    }
}
