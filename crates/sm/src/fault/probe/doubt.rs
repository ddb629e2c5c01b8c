//! Switches that may be dead, because they do not answer: their neighbours are asked for their ends of the links. If
//! the directed route to an agent leads through such a switch, or over a lost link, the agent is asked by another
//! route.

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
    /// Directed routes around doubted switches and lost links, once an agent had to be asked by such a route.
    ways: Option<IdxVec<NodeIdx, Option<DirectedRoute>>>,
}

impl Probe {
    /// Returns the neighbours' ports that lead to a doubted switch, as many as are to be asked now.
    pub(super) fn facing(&self, node: NodeIdx) -> Vec<PortRef> {
        /// Number of ports asked as long as at most one lost link speaks against the switch.
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

    /// True if a neighbour of a doubted switch reports that the link to it is up, or if the switch has answered or sent
    /// a trap.
    pub(super) fn vouched(&self, node: NodeIdx) -> bool {
        let is_seen =
            |(at, peer)| self.answers.is_known(peer) && self.answers.has_heard(peer.node) && !self.is_lost(at, peer);
        self.is_alive(node) || self.links_to_switches(node).any(is_seen)
    }

    pub(super) fn is_alive(&self, node: NodeIdx) -> bool {
        self.answers.has_heard(node) || !self.start.is_check && self.suspects.nodes.contains(&node)
    }

    /// True if every link of a doubted switch is lost, or leads to another doubted switch that is also cut off.
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

    /// True if nothing more can be found out about a doubted switch for now: a neighbour reports that the link to the
    /// switch is up, or all neighbours of the switch have been asked.
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

    /// Handles an answer of a switch: it is not dead.
    pub(super) fn hear(&mut self, node: NodeIdx) {
        if self.answers.hear(node) && self.doubts.doubted.remove(&node) {
            self.doubts.ways = None;
        }
    }

    /// If only switches that never answered are left, returns them and the time at which they become doubted.
    pub(super) fn silent(&self) -> Option<(BTreeSet<NodeIdx>, Time)> {
        let awaited = self.answers.awaited();
        awaited.filter(|(nodes, _)| !nodes.is_subset(&self.doubts.doubted))
    }

    /// Returns the directed route to an agent, around lost links and doubted switches.
    pub(super) fn way_to(&mut self, node: NodeIdx) -> DirectedRoute {
        let route = self.start.inventory.agents[node].route;
        if !self.leads_through(node) {
            return route;
        }
        // Nearly always a node next to it is still reached by its usual route, and a search over all links takes a
        // millisecond.
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

    /// True if the usual route to an agent leads over a lost link or through a doubted switch.
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

    /// Called when a link was lost: ports that were asked over it are asked again by another route.
    pub(super) fn ask_again(&mut self) {
        self.doubts.ways = None;
        self.order.renew();
        let is_cut = |at: &PortRef| !self.is_doubted(at.node) && self.leads_through(at.node);
        let cut: Vec<PortRef> = self.answers.open().filter(is_cut).collect();
        self.answers.reopen(&cut);
    }
}
