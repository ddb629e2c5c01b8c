//! Link changes that were seen without a sweep, applied to the inventory.
//!
//! Cables stay known. Links go down or come back, and directed routes are changed to avoid lost links.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use selvedge_fabric::{Fabric, LinkState, NodeIdx, PortRef};
use selvedge_types::{IdxVec, PKey, PhysState, PortNum, PortState};
use selvedge_wire::{DirectedRoute, PortInfo};

use crate::inventory::{Inventory, external_settings, link_state, port_settings};
use crate::port_reason::PortReason;

/// Link changes that were seen at some ports without a sweep. Everything else is assumed unchanged.
#[derive(Clone, Debug, Default)]
pub struct Damage {
    /// Ports with a link that went down: one end or both ends of each link.
    pub lost: BTreeSet<PortRef>,
    /// PortInfo of ports that changed.
    pub seen: Vec<(PortRef, PortInfo)>,
    /// Switches that show PortStateChange.
    pub flagged: BTreeSet<NodeIdx>,
    /// Links that came back, with the same ports at both ends.
    pub returned: Vec<Returned>,
    /// Ends of links to leave out of routing from now on.
    pub held: BTreeSet<PortRef>,
    /// Switches without any link left.
    pub gone: BTreeSet<NodeIdx>,
}

/// A link that came back, with the PortInfo of its two ends.
#[derive(Clone, Debug)]
pub struct Returned {
    /// The end at the switch that was asked, and its PortInfo.
    pub near: (PortRef, PortInfo),
    /// The other end, and its PortInfo.
    pub far: (PortRef, PortInfo),
    /// The P_Keys of the other end, if it is a host.
    pub pkeys: Option<Vec<PKey>>,
}

impl Damage {
    /// Returns both ends of every lost link, as far as the cables are known.
    pub fn ends(&self, fabric: &Fabric) -> BTreeSet<PortRef> {
        let peers = self.lost.iter().filter_map(|&at| fabric.peer(at));
        self.lost.iter().copied().chain(peers).collect()
    }

    /// Adds the switches that cannot be reached any more, because every link that leads to them from the manager is
    /// down. All their other links are lost too, whether their loss was seen or not.
    pub fn bury(&mut self, inventory: &Inventory) {
        let fabric = &inventory.fabric;
        let cut = self.ends(fabric);
        let mut lost_of: BTreeMap<NodeIdx, usize> = BTreeMap::new();
        cut.iter().for_each(|at| *lost_of.entry(at.node).or_default() += 1);
        // A switch that has lost one of several links is still reached by the others, unless their loss was seen too.
        let may_be_gone = |(&node, &lost): (&NodeIdx, &usize)| {
            let up = fabric.node(node).external_ports().filter(|(_, seen)| seen.is_up());
            let to_switches = up.filter(|(_, seen)| seen.peer.is_some_and(|p| fabric.switch_index(p.node).is_some()));
            fabric.switch_index(node).is_some() && (lost > 1 || to_switches.count() <= lost)
        };
        if !lost_of.iter().any(may_be_gone) {
            return;
        }
        let ways = inventory.ways_around(&cut, &BTreeSet::new());
        let is_lost = |node: &NodeIdx| ways.get(*node).copied().flatten().is_none() && !inventory.is_gone(*node);
        for node in fabric.switches().iter().copied().filter(is_lost) {
            self.gone.insert(node);
            self.flagged.remove(&node);
            let up = fabric.node(node).external_ports().filter(|(_, seen)| seen.is_up());
            self.lost.extend(up.map(|(port, _)| PortRef { node, port }));
        }
    }

    /// Returns the inventory with the damage applied. `None` if some switch can no longer be reached and is not known
    /// to be gone, because its state is then unknown.
    pub fn apply_to(&self, before: &Inventory) -> Option<Inventory> {
        let mut after = before.clone();
        self.apply(&mut after)?;
        Some(after)
    }

    /// Applies the damage to an inventory. `None` in the same case as [`Self::apply_to`]; the inventory is then
    /// incomplete and must be discarded.
    pub fn apply(&self, inventory: &mut Inventory) -> Option<()> {
        let ends = self.ends(&inventory.fabric);
        let agents = Arc::make_mut(&mut inventory.agents);
        let fabric = Arc::make_mut(&mut inventory.fabric);
        for (at, info) in &self.seen {
            if let Some(slot) = agents.get_mut(at.node).and_then(|a| a.ports.get_mut(at.port.index())) {
                *slot = Some(*info);
            }
        }
        for &at in &ends {
            let Some(port) = fabric.port(at) else { continue };
            let (settings, rate) = (port.settings, port.link.rate);
            let (state, phys) = (PortState::Down, PhysState::Polling);
            fabric.set_port(at, LinkState { state, phys, rate }, settings);
            let info = agents.get_mut(at.node).and_then(|a| a.ports.get_mut(at.port.index()));
            if let Some(Some(info)) = info {
                (info.state, info.phys_state) = (Some(state), Some(phys));
            }
        }
        for returned in &self.returned {
            for (at, info) in [returned.near, returned.far] {
                let is_external = fabric.switch_index(at.node).is_some();
                let held = if is_external {
                    external_settings(&info)
                } else {
                    port_settings(&info)
                };
                fabric.set_port(at, link_state(&info), held);
                if let Some(agent) = agents.get_mut(at.node) {
                    agent.troubles.remove(&at.port);
                    agent
                        .ports
                        .get_mut(at.port.index())
                        .into_iter()
                        .for_each(|slot| *slot = Some(info));
                }
            }
            if let Some(pkeys) = &returned.pkeys {
                fabric.set_pkeys(returned.far.0, pkeys.clone());
            }
        }
        for &at in &self.held {
            if let Some(agent) = agents.get_mut(at.node) {
                agent.troubles.insert(at.port, PortReason::LeftOut);
            }
        }
        for &node in &self.flagged {
            let mut settings = fabric.node(node).switch_settings;
            settings.port_state_change = true;
            fabric.set_switch(node, settings);
            if let Some(switch) = agents.get_mut(node).and_then(|a| a.switch.as_mut()) {
                switch.port_state_change = true;
            }
        }
        inventory.lead_around(&ends)
    }
}

/// Up to this many switches behind a lost link get new directed routes one by one. For more, one search over all links
/// is faster.
const NEAR_MAX: usize = 64;

impl Inventory {
    /// Treats the links in `ends` as down although they are up. If some switch could not be reached without them, all
    /// of them stay. A link that carries packets stays too: old entries still lead packets over it, and no proof
    /// considers entries that lead over a link which is left out.
    pub fn leave_out(&mut self, ends: &BTreeSet<PortRef>, reason: PortReason) {
        let none = BTreeSet::new();
        let reached = |inventory: &Self| inventory.ways_around(&none, &BTreeSet::new()).iter().flatten().count();
        let is_active = |at| {
            self.fabric
                .port(at)
                .is_some_and(|port| port.link.state == PortState::Active)
        };
        let carries = |at: PortRef| is_active(at) && self.fabric.peer(at).is_some_and(is_active);
        let ends: Vec<PortRef> = ends.iter().copied().filter(|&at| !carries(at)).collect();
        if ends.is_empty() {
            return;
        }
        let (before, all) = (Arc::clone(&self.fabric), reached(self));
        let fabric = Arc::make_mut(&mut self.fabric);
        for &at in &ends {
            if let Some(port) = fabric.port(at) {
                let (mut link, settings) = (port.link, port.settings);
                link.state = PortState::Down;
                fabric.set_port(at, link, settings);
            }
        }
        if reached(self) < all {
            self.fabric = before;
            return;
        }
        for &at in &ends {
            if let Some(agent) = Arc::make_mut(&mut self.agents).get_mut(at.node) {
                agent.troubles.insert(at.port, reason);
            }
        }
    }

    /// True if a switch has no link that is up. It stays in the inventory until the next sweep.
    pub fn is_gone(&self, node: NodeIdx) -> bool {
        let is_switch = self.fabric.switch_index(node).is_some() && node != self.local.node;
        is_switch && self.fabric.node(node).external_ports().all(|(_, seen)| !seen.is_up())
    }

    /// True if any switch is gone.
    pub fn lacks_switches(&self) -> bool {
        self.fabric.switches().iter().any(|&node| self.is_gone(node))
    }

    /// Returns the port by which all routes enter the fabric, and the node at this port.
    fn first_hop(&self) -> (Option<PortNum>, NodeIdx) {
        match self.fabric.switch_index(self.local.node) {
            Some(_) => (None, self.local.node),
            None => match self.fabric.peer(self.local) {
                Some(peer) => (Some(self.local.port), peer.node),
                None => (None, self.local.node),
            },
        }
    }

    /// Returns the egress ports along a directed route, with their nodes.
    pub fn hops(&self, route: &DirectedRoute) -> Vec<PortRef> {
        let mut hops = Vec::new();
        let mut node = self.local.node;
        for port in route.ports().iter().filter_map(|&p| PortNum::new(p)) {
            let at = PortRef { node, port };
            hops.push(at);
            match self.fabric.peer(at) {
                Some(peer) => node = peer.node,
                None => break,
            }
        }
        hops
    }

    /// Finds new directed routes to all agents with a route over a lost link. `None` if some switch has none.
    pub(crate) fn lead_around(&mut self, lost: &BTreeSet<PortRef>) -> Option<()> {
        let fabric = Arc::clone(&self.fabric);
        let is_cut = |node: &NodeIdx| self.is_cut(&self.agents[*node].route, lost);
        let mut cut: BTreeSet<NodeIdx> = fabric.switches().iter().copied().filter(is_cut).collect();
        // The neighbours of a switch with a lost route usually still have theirs, and searching all links takes a
        // millisecond.
        let near: Vec<NodeIdx> = cut.iter().copied().take(NEAR_MAX).collect();
        for node in near {
            if let Some(way) = self.way_beside(node, |_, far| cut.contains(&far.node)) {
                self.lead_to(node, way)?;
                cut.remove(&node);
            }
        }
        if cut.is_empty() {
            return Some(());
        }
        let ways = self.ways_around(&BTreeSet::new(), &BTreeSet::new());
        for node in cut {
            match ways.get(node).copied().flatten() {
                Some(way) => self.lead_to(node, way)?,
                None if self.is_gone(node) => {}
                None => return None,
            }
        }
        Some(())
    }

    /// Sets a new directed route to a switch, and to the hosts attached to it, which are one hop further.
    fn lead_to(&mut self, node: NodeIdx, way: DirectedRoute) -> Option<()> {
        let fabric = Arc::clone(&self.fabric);
        let agents = Arc::make_mut(&mut self.agents);
        agents.get_mut(node)?.route = way;
        for (port, seen) in fabric.node(node).external_ports() {
            let Some(peer) = seen.peer.filter(|peer| fabric.switch_index(peer.node).is_none()) else {
                continue;
            };
            let (Some(way), Some(agent)) = (way.then(port), agents.get_mut(peer.node)) else {
                continue;
            };
            agent.port_routes.entry(peer.port).and_modify(|route| *route = way);
            if agent.port_routes.is_empty() || agent.port_routes.keys().next() == Some(&peer.port) {
                agent.route = way;
            }
        }
        Some(())
    }

    /// Returns a directed route to a switch through a neighbour: the known route to that neighbour, then a link that is
    /// up. Avoids links for which `is_bad` (near end, far end) is true.
    pub fn way_beside(&self, node: NodeIdx, is_bad: impl Fn(PortRef, PortRef) -> bool) -> Option<DirectedRoute> {
        let near = self.fabric.node(node).external_ports().filter_map(|(port, seen)| {
            let (at, far) = (PortRef { node, port }, seen.peer?);
            let is_switch = self.fabric.switch_index(far.node).is_some();
            (is_switch && self.fabric.link_is_up(at) && !is_bad(at, far)).then_some(far)
        });
        let first = near.min_by_key(|far| (self.agents[far.node].route.hops(), *far))?;
        self.agents[first.node].route.then(first.port)
    }

    fn is_cut(&self, route: &DirectedRoute, lost: &BTreeSet<PortRef>) -> bool {
        // Most routes contain none of these port numbers, so their hops need not be looked up.
        if !lost.iter().any(|at| route.ports().contains(&at.port.get())) {
            return false;
        }
        let mut node = self.local.node;
        for port in route.ports().iter().filter_map(|&p| PortNum::new(p)) {
            let at = PortRef { node, port };
            if lost.contains(&at) {
                return true;
            }
            match self.fabric.peer(at) {
                Some(peer) => node = peer.node,
                None => return false,
            }
        }
        false
    }

    /// Returns a shortest directed route to every switch over links that are up, without the links of `cut` and without
    /// passing through `avoided` switches.
    pub fn ways_around(
        &self,
        cut: &BTreeSet<PortRef>,
        avoided: &BTreeSet<NodeIdx>,
    ) -> IdxVec<NodeIdx, Option<DirectedRoute>> {
        let mut has_cut = IdxVec::filled(false, self.fabric.nodes().len());
        cut.iter().for_each(|at| has_cut[at.node] = true);
        let mut ways = IdxVec::filled(None, self.fabric.nodes().len());
        let (port, first) = self.first_hop();
        ways[first] = match port {
            None => Some(DirectedRoute::LOCAL),
            Some(port) => DirectedRoute::LOCAL.then(port),
        };
        let mut open = VecDeque::from([first]);
        while let Some(node) = open.pop_front() {
            let Some(way) = ways[node].filter(|_| !avoided.contains(&node)) else {
                continue;
            };
            for (port, seen) in self.fabric.node(node).external_ports() {
                let at = PortRef { node, port };
                let is_up = self.fabric.link_is_up(at) && !(has_cut[node] && cut.contains(&at));
                let Some(peer) = seen.peer.filter(|_| is_up) else {
                    continue;
                };
                if self.fabric.switch_index(peer.node).is_some() && ways[peer.node].is_none() {
                    ways[peer.node] = way.then(port);
                    open.push_back(peer.node);
                }
            }
        }
        ways
    }
}
