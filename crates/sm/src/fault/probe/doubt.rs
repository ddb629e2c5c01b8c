//! Switches that may be dead, as they say nothing: their neighbours are asked for their ends of the links.
//! Whoever is asked by a way that leads through them, or over a lost link, is asked by another.

use std::collections::BTreeSet;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_sim::Time;
use selvedge_types::IdxVec;
use selvedge_wire::DirectedRoute;

use super::Probe;

/// Switches that may be dead.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    doubted: BTreeSet<NodeIdx>,
    /// Ways around them and lost links, if somebody had to be asked that way.
    ways: Option<IdxVec<NodeIdx, Option<DirectedRoute>>>,
}

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
            !self.is_lost(at, peer) && !self.is_doubted(peer.node) && !self.answers.is_known(peer)
        });
        let (asked, fresh): (Vec<PortRef>, Vec<PortRef>) = others
            .map(|(_, peer)| peer)
            .partition(|peer| self.answers.is_open(*peer));
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
            |(at, peer)| self.answers.is_known(peer) && self.answers.has_heard(peer.node) && !self.is_lost(at, peer);
        self.is_alive(node) || self.links_to_switches(node).any(is_seen)
    }

    pub(super) fn is_alive(&self, node: NodeIdx) -> bool {
        self.answers.has_heard(node) || !self.start.is_check && self.suspects.nodes.contains(&node)
    }

    /// True if every link of a doubted switch is lost, or leads to another one that is cut off likewise.
    pub(super) fn is_cut_off(&self, node: NodeIdx) -> bool {
        if !self.is_doubted(node) {
            return false;
        }
        let mut behind = BTreeSet::from([node]);
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            let links = self.links_to_switches(node);
            for (_, peer) in links.filter(|&(at, peer)| !self.is_lost(at, peer)) {
                if !self.is_doubted(peer.node) {
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
        let is_open = |(_, peer): (PortRef, PortRef)| self.answers.is_open(peer) && !self.is_doubted(peer.node);
        self.vouched(node) || !self.links_to_switches(node).any(is_open) && self.facing(node).is_empty()
    }

    pub(super) fn is_doubted(&self, node: NodeIdx) -> bool {
        self.doubts.doubted.contains(&node)
    }

    pub(super) fn doubted(&self) -> impl Iterator<Item = NodeIdx> + '_ {
        self.doubts.doubted.iter().copied()
    }

    /// Doubts a switch from now on. Returns true if it was not doubted before.
    pub(super) fn doubt(&mut self, node: NodeIdx) -> bool {
        let is_switch = self.start.inventory.fabric.switch_index(node).is_some();
        let is_new = is_switch && self.doubts.doubted.insert(node);
        if is_new {
            self.doubts.ways = None;
            self.order.renew();
        }
        is_new
    }

    /// A switch has answered: it is not dead.
    pub(super) fn hear(&mut self, node: NodeIdx) {
        if self.answers.hear(node) && self.doubts.doubted.remove(&node) {
            self.doubts.ways = None;
        }
    }

    /// Everybody has answered but switches of which nothing was heard: returns them, and when they are to be doubted.
    pub(super) fn silent(&self) -> Option<(BTreeSet<NodeIdx>, Time)> {
        let awaited = self.answers.awaited();
        awaited.filter(|(nodes, _)| !nodes.is_subset(&self.doubts.doubted))
    }

    /// The way to an agent, around what is lost or doubted.
    pub(super) fn way_to(&mut self, node: NodeIdx) -> DirectedRoute {
        let route = self.start.inventory.agents[node].route;
        if !self.leads_through(node) {
            return route;
        }
        // Nearly always somebody next to it is reached as ever, and looking at all links takes a millisecond.
        let is_bad = |at: PortRef, far: PortRef| {
            self.is_lost(at, far) || self.is_doubted(far.node) || self.leads_through(far.node)
        };
        if let Some(way) = self.start.inventory.way_beside(node, is_bad) {
            return way;
        }
        let ways = self.doubts.ways.take().unwrap_or_else(|| {
            let inventory = &self.start.inventory;
            inventory.ways_around(&self.damage.ends(&inventory.fabric), &self.doubts.doubted)
        });
        let way = ways.get(node).copied().flatten().unwrap_or(route);
        self.doubts.ways = Some(ways);
        way
    }

    /// True if the usual way to an agent leads over a lost link or through a doubted switch.
    fn leads_through(&self, node: NodeIdx) -> bool {
        if self.doubts.doubted.is_empty() && self.damage.lost.is_empty() {
            return false;
        }
        let fabric = &self.start.inventory.fabric;
        let hops = self.start.inventory.hops(&self.start.inventory.agents[node].route);
        hops.into_iter().any(|at| {
            let is_through = fabric.peer(at).is_none_or(|peer| self.is_lost(at, peer));
            is_through || at.node != node && self.is_doubted(at.node)
        })
    }

    /// Something was lost: who was asked by that way is asked again by another.
    pub(super) fn ask_again(&mut self) {
        self.doubts.ways = None;
        self.order.renew();
        let is_cut = |at: &PortRef| !self.is_doubted(at.node) && self.leads_through(at.node);
        let cut: Vec<PortRef> = self.answers.open().filter(is_cut).collect();
        self.answers.reopen(&cut);
    }
}
