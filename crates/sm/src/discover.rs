//! Discovers the fabric: every node, every port, every cable, each requested once, all in parallel.
//!
//! The manager asks a new node for its description, and a switch for SwitchInfo and every PortInfo. Behind every port
//! with a link that is up, NodeInfo gives the node and its ingress port. One answer gives both ends of a cable. A cable
//! between switches is still followed from both ends, because only that distinguishes two switches with one GUID.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_mad::AgentId;
use selvedge_plan::partition::with_pkey_block;
use selvedge_planner::{Found, FoundPort, PortReason};
use selvedge_types::{Guid, NodeKind, PhysState, PortNum};
use selvedge_wire::{
    Attribute, AttributeId, CapabilityMask, DecodeError, DirectedRoute, Mad, NodeDescription, NodeInfo, PKeyTable,
    PortInfo, SwitchInfo,
};

use crate::event::Event;
use crate::smp;

/// A request of discovery: what is asked, and of which node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// NodeInfo behind a port; `None`: our own node.
    Node {
        /// The port through which the directed route leaves the previous node.
        from: Option<(usize, PortNum)>,
    },
    /// NodeDescription of a node.
    Description(usize),
    /// SwitchInfo of a node.
    Switch(usize),
    /// PortInfo of a port.
    Port(usize, PortNum),
    /// P_KeyTable of a port, a block.
    PKeys(usize, PortNum, u16),
}

/// A request, with the agent that gets it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The agent: a found node, or unknown.
    pub agent: AgentId,
    /// The subject of the request, to recognise the answer.
    pub ask: Ask,
    /// The attribute.
    pub attribute: AttributeId,
    /// Attribute modifier of the request.
    pub modifier: u32,
    /// The directed route.
    pub route: DirectedRoute,
}

/// A discovery in progress: the nodes that were found so far, and what must still be requested.
#[derive(Debug)]
pub struct Discovery {
    /// Nodes in order of discovery; the first is our own.
    pub found: Vec<Found>,
    by_guid: BTreeMap<Guid, usize>,
    /// GUIDs that were reported as duplicate.
    pub told: BTreeSet<Guid>,
    /// Vendor and device of nodes that show extended speeds only if bit 31 of the modifier is set.
    shy: BTreeSet<(u32, u16)>,
    /// Ports of nodes in `shy` that were asked with bit 31.
    knows_us: BTreeSet<(usize, PortNum)>,
    /// True if P_Key tables of switch ports next to hosts are requested too: they enforce partitions, or shall.
    enforces: bool,
    /// Number of answers so far.
    pub answers: u64,
}

impl Discovery {
    /// Returns a discovery that has not begun.
    pub const fn new(enforces: bool) -> Self {
        Self {
            enforces,
            found: Vec::new(),
            by_guid: BTreeMap::new(),
            told: BTreeSet::new(),
            shy: BTreeSet::new(),
            knows_us: BTreeSet::new(),
            answers: 0,
        }
    }

    /// Sends the first request.
    pub fn begin(&mut self, out: &mut Vec<Request>) {
        Self::probe(None, DirectedRoute::LOCAL, out);
    }

    /// Returns the manager's own port, once found.
    pub fn local_port(&self) -> Option<PortNum> {
        self.found
            .first()
            .and_then(|f| PortNum::of_node(f.info.local_port, f.info.port_count))
    }

    fn probe(from: Option<(usize, PortNum)>, route: DirectedRoute, out: &mut Vec<Request>) {
        out.push(Request {
            agent: AgentId::UNKNOWN,
            ask: Ask::Node { from },
            attribute: NodeInfo::ID,
            modifier: 0,
            route,
        });
    }

    fn ask(&mut self, node: usize, ask: Ask, modifier: u32, out: &mut Vec<Request>) {
        let found = &self.found[node];
        let mut modifier = modifier;
        if let Ask::Port(_, port) = ask
            && self.shy.contains(&make(&found.info))
        {
            modifier |= PortInfo::SM_SUPPORTS_EXTENDED_SPEEDS;
            self.knows_us.insert((node, port));
        }
        let (attribute, route) = match ask {
            Ask::Description(_) => (NodeDescription::ID, found.route),
            Ask::Switch(_) => (SwitchInfo::ID, found.route),
            Ask::Port(_, port) => (PortInfo::ID, found.ports[port.index()].route.unwrap_or(found.route)),
            Ask::PKeys(_, port, _) => (PKeyTable::ID, found.ports[port.index()].route.unwrap_or(found.route)),
            Ask::Node { .. } => (NodeInfo::ID, found.route),
        };
        let agent = u32::try_from(node).map_or(AgentId::UNKNOWN, AgentId);
        out.push(Request {
            agent,
            ask,
            attribute,
            modifier,
            route,
        });
    }

    /// Handles the end of a request; may add further requests.
    pub fn ended(
        &mut self,
        ask: Ask,
        route: &DirectedRoute,
        answer: Option<&Mad>,
        out: &mut Vec<Request>,
        events: &mut Vec<Event>,
    ) {
        let Some(mad) = answer else {
            return self.failed(ask, route, events);
        };
        if let Err(error) = self.answered(ask, route, mad, out, events) {
            self.unreadable(ask, route, error.to_string(), events);
        }
    }

    /// Reports an answer that cannot be decoded; it counts as no answer.
    fn unreadable(&mut self, ask: Ask, route: &DirectedRoute, why: String, events: &mut Vec<Event>) {
        events.push(Event::BadDatagram { why });
        self.failed(ask, route, events);
    }

    /// Handles an answer; may add further requests.
    pub fn answered(
        &mut self,
        ask: Ask,
        route: &DirectedRoute,
        mad: &Mad,
        out: &mut Vec<Request>,
        events: &mut Vec<Event>,
    ) -> Result<(), DecodeError> {
        self.answers += 1;
        if mad.status().0 != 0 {
            self.failed(ask, route, events);
            return Ok(());
        }
        let data = mad.smp_data();
        match ask {
            Ask::Node { from } => self.node(from, *route, &NodeInfo::parse(data)?, out, events),
            Ask::Description(node) => {
                self.found[node].description = NodeDescription::parse(data)?.text().into_owned();
            }
            Ask::Switch(node) => self.found[node].switch = Some(SwitchInfo::parse(data)?),
            Ask::Port(node, port) => {
                let info = PortInfo::parse(data)?;
                // Port 0 of a switch has no link.
                if info.is_contradictory() && port != PortNum::MANAGEMENT {
                    let state = info.state.unwrap_or_default();
                    let phys = info.phys_state.map_or(0, PhysState::code);
                    let name = self.name(node);
                    let why = format!("PortInfo of {name}[{port}]: PortState is {state}, PortPhysicalState {phys}");
                    self.unreadable(ask, route, why, events);
                } else {
                    self.port(node, port, &info, out);
                }
            }
            Ask::PKeys(node, port, block) => {
                let table = PKeyTable::parse(data)?;
                let found = &mut self.found[node];
                let is_enforced = found.info.kind == NodeKind::Switch && port != PortNum::MANAGEMENT;
                let room = match found.switch.filter(|_| is_enforced) {
                    Some(switch) => switch.enforce_cap,
                    None if is_enforced => 0,
                    None => found.info.partition_cap,
                };
                let held = &mut found.ports[port.index()].pkeys;
                *held = with_pkey_block(held, block, &table.keys);
                if smp::more_pkeys(&table, block, room) {
                    let modifier = PKeyTable::modifier(block + 1, if is_enforced { port.get() } else { 0 });
                    self.ask(node, Ask::PKeys(node, port, block + 1), modifier, out);
                }
            }
        }
        Ok(())
    }

    /// Handles a request without an answer, or with an error.
    pub fn failed(&mut self, ask: Ask, route: &DirectedRoute, events: &mut Vec<Event>) {
        let what = match ask {
            Ask::Node { from: None } => "the local node".to_owned(),
            Ask::Node {
                from: Some((node, port)),
            } => {
                self.found[node].ports[port.index()].trouble = Some(PortReason::PeerSilent);
                format!("the node behind {}[{port}], route {route}", self.name(node))
            }
            Ask::Description(node) => format!("NodeDescription of {}", self.name(node)),
            Ask::Switch(node) => {
                self.found[node].left_out = Some(PortReason::PeerSilent);
                format!("SwitchInfo of {}; the switch is left out", self.name(node))
            }
            Ask::Port(node, PortNum::MANAGEMENT) => {
                // Its LID is unknown: it may be one that would be given to another.
                self.found[node].left_out = Some(PortReason::PeerSilent);
                format!("PortInfo of {}[0]; the switch is left out", self.name(node))
            }
            Ask::Port(node, port) => {
                self.found[node].ports[port.index()].trouble = Some(PortReason::PeerSilent);
                format!("PortInfo of {}[{port}]; the port is left out", self.name(node))
            }
            Ask::PKeys(node, port, block) => format!("P_KeyTable block {block} of {}[{port}]", self.name(node)),
        };
        events.push(Event::Silent { what });
    }

    /// Returns the other end of a cable, as far as known.
    pub fn peer(&self, (node, port): (usize, PortNum)) -> Option<(usize, PortNum)> {
        self.found.get(node)?.ports.get(port.index())?.peer
    }

    fn name(&self, node: usize) -> String {
        let found = &self.found[node];
        match found.description.as_str() {
            "" => found.info.node_guid.to_string(),
            text => format!("\"{text}\""),
        }
    }

    fn node(
        &mut self,
        from: Option<(usize, PortNum)>,
        route: DirectedRoute,
        info: &NodeInfo,
        out: &mut Vec<Request>,
        events: &mut Vec<Event>,
    ) {
        let entered = PortNum::of_node(info.local_port, info.port_count);
        let Some(entered) = entered.filter(|&p| from.is_none() || p != PortNum::MANAGEMENT) else {
            return self.reject(from, &route, info, events);
        };
        let known = self.by_guid.get(&info.node_guid).copied();
        let node = match known {
            None => self.new_node(info, route, out),
            Some(node) if self.same_node(node, info) => node,
            Some(_) => return self.reject(from, &route, info, events),
        };
        if let Some(from) = from {
            let to = (node, entered);
            let clash = |end, other| self.peer(end).is_some_and(|old| old != other);
            let (clash_from, clash_to) = (clash(from, to), clash(to, from));
            if clash_from {
                // Two answers through one port of a known node: it is that node that may be two.
                self.may_be_two(from.0, None, events);
            }
            if clash_to || from == to {
                self.may_be_two(node, Some(from), events);
            }
            if clash_from || clash_to || from == to {
                return;
            }
            for (end, other) in [(from, to), (to, from)] {
                self.found[end.0].ports[end.1.index()].peer = Some(other);
                self.ask_enforced(end, other.0, out);
            }
        }
        if info.kind != NodeKind::Switch && self.found[node].ports[entered.index()].route.is_none() {
            let port = &mut self.found[node].ports[entered.index()];
            port.route = Some(route);
            port.guid = info.port_guid;
            self.ask(node, Ask::Port(node, entered), u32::from(entered.get()), out);
            self.ask(node, Ask::PKeys(node, entered, 0), 0, out);
        }
    }

    /// Asks for the keys that a switch lets pass in front of a host.
    fn ask_enforced(&mut self, (node, port): (usize, PortNum), host: usize, out: &mut Vec<Request>) {
        let is_switch = |node: usize| self.found[node].info.kind == NodeKind::Switch;
        let can = self.found[node].switch.is_none_or(|switch| switch.enforce_cap > 0);
        if self.enforces && can && is_switch(node) && !is_switch(host) {
            self.ask(node, Ask::PKeys(node, port, 0), PKeyTable::modifier(0, port.get()), out);
        }
    }

    /// Rejects an answer if its GUID was also found at another place that cannot be the same node. Also rejects it, as
    /// unreadable, if it names an ingress port that its node does not have.
    fn reject(
        &mut self,
        from: Option<(usize, PortNum)>,
        route: &DirectedRoute,
        info: &NodeInfo,
        events: &mut Vec<Event>,
    ) {
        let (Some(from), Some(&node)) = (from, self.by_guid.get(&info.node_guid)) else {
            let (guid, port, ports) = (info.node_guid, info.local_port, info.port_count);
            let why = format!("NodeInfo of {guid}: LocalPortNum is {port}, NumPorts {ports}");
            return self.unreadable(Ask::Node { from }, route, why, events);
        };
        self.found[from.0].ports[from.1.index()].trouble = Some(PortReason::DuplicateGuid);
        self.tell_duplicate(node, Some(from), events);
    }

    /// Handles a node with cables that contradict each other. Of two hosts with one GUID the first is kept. A switch is
    /// left out, because tables meant for it could be written to the other switch with its GUID.
    fn may_be_two(&mut self, node: usize, from: Option<(usize, PortNum)>, events: &mut Vec<Event>) {
        if self.found[node].info.kind == NodeKind::Switch {
            self.found[node].left_out = Some(PortReason::DuplicateGuid);
        }
        if let Some((peer, port)) = from {
            self.found[peer].ports[port.index()].trouble = Some(PortReason::DuplicateGuid);
        }
        self.tell_duplicate(node, from, events);
    }

    /// Reports a duplicate GUID, once per GUID: two big switches contradict each other at every cable.
    fn tell_duplicate(&mut self, node: usize, from: Option<(usize, PortNum)>, events: &mut Vec<Event>) {
        let guid = self.found[node].info.node_guid;
        if !self.told.insert(guid) {
            return;
        }
        let what = match from {
            Some((peer, port)) => format!("{} and the node behind {}[{port}]", self.name(node), self.name(peer)),
            None => format!("{} and another", self.name(node)),
        };
        events.push(Event::DuplicateGuid { guid, what });
    }

    fn same_node(&self, node: usize, info: &NodeInfo) -> bool {
        let known = &self.found[node].info;
        (known.kind, known.port_count, known.system_guid, known.device_id)
            == (info.kind, info.port_count, info.system_guid, info.device_id)
    }

    fn new_node(&mut self, info: &NodeInfo, route: DirectedRoute, out: &mut Vec<Request>) -> usize {
        let node = self.found.len();
        self.by_guid.insert(info.node_guid, node);
        self.found.push(Found {
            info: *info,
            route,
            description: String::new(),
            switch: None,
            ports: vec![FoundPort::default(); usize::from(info.port_count) + 1],
            left_out: None,
        });
        self.ask(node, Ask::Description(node), 0, out);
        if info.kind == NodeKind::Switch {
            self.ask(node, Ask::Switch(node), 0, out);
            self.ask(node, Ask::PKeys(node, PortNum::MANAGEMENT, 0), 0, out);
            for port in (0..=info.port_count).filter_map(PortNum::new) {
                self.ask(node, Ask::Port(node, port), u32::from(port.get()), out);
            }
        }
        node
    }

    fn port(&mut self, node: usize, port: PortNum, info: &PortInfo, out: &mut Vec<Request>) {
        self.ask_the_shy(node, port, info, out);
        let found = &mut self.found[node];
        let slot = &mut found.ports[port.index()];
        // Of a shy port's two answers the one with its speeds.
        if info.ext_speed_supported.is_some() || slot.info.is_none_or(|old| old.ext_speed_supported.is_none()) {
            slot.info = Some(*info);
        }
        let leads_on = match found.info.kind {
            NodeKind::Switch => port != PortNum::MANAGEMENT,
            // Only our own channel adapter lets us out, and only by the port we sit at.
            NodeKind::Ca | NodeKind::Router => node == 0 && found.info.local_port == port.get(),
        };
        if !info.is_up() || !leads_on || slot.probed {
            return;
        }
        slot.probed = true;
        match found.route.then(port) {
            Some(route) => Self::probe(Some((node, port)), route, out),
            // 63 hops are the most a directed route can have: what lies behind cannot be asked.
            None => slot.trouble = Some(PortReason::BeyondReach),
        }
    }

    /// Requests PortInfo of a node again if an end port supports extended speeds (FDR to NDR) but shows none. Such
    /// agents show them only if bit 31 of the modifier is set; without them their rate is taken for QDR. For further
    /// nodes with the same vendor and device, the first request already sets that bit. Other requests do not set it,
    /// because older agents do not know it. Source: linux-rdma/opensm, issue 38.
    fn ask_the_shy(&mut self, node: usize, port: PortNum, info: &PortInfo, out: &mut Vec<Request>) {
        let found = &self.found[node].info;
        let is_shy = info.capabilities.contains(CapabilityMask::EXTENDED_SPEEDS) && info.ext_speed_supported.is_none();
        if !is_shy || self.knows_us.contains(&(node, port)) {
            return;
        }
        self.shy.insert(make(found));
        let ports = match found.kind {
            NodeKind::Switch => 0..=found.port_count,
            NodeKind::Ca | NodeKind::Router => port.get()..=port.get(),
        };
        for port in ports.filter_map(PortNum::new) {
            self.ask(node, Ask::Port(node, port), u32::from(port.get()), out);
        }
    }
}

/// Returns the vendor and device of a node.
const fn make(info: &NodeInfo) -> (u32, u16) {
    (info.vendor_id, info.device_id)
}

#[cfg(test)]
mod tests;
