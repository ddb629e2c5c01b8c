//! The flows of a load, each with its way through the tables that switches hold now.

use std::collections::BTreeMap;

use selvedge_chassis::{Chassis, Egress, PortIdx};
use selvedge_fabric::NodeIdx;
use selvedge_types::{Idx, Lid, PhysState, PortState};

use super::capacity::Packet;
use super::demand::{Demand, Share};

/// Links after which a way counts as a loop. Source: IBA vol 1 §14.2.1.2: 63 hops is the longest directed route.
const HOPS_MAX: usize = 64;

/// Equal flows from one or more senders to one receiver: packets per million seconds for each sender, and the ports by
/// which they leave nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// What each sender offers.
    pub offered: u64,
    /// What each sender sends.
    pub accepted: u64,
    /// Number of senders.
    pub senders: u32,
    /// The senders: one host, or all hosts of a group except the receiver.
    pub from: Sender,
    /// Index of the receiver in the list of hosts.
    pub to: u32,
    /// First of the flow's ports in [`Flows::steps`].
    first: u32,
    /// Number of ports on the flow's way.
    hops: u8,
    /// Position on the flow's way of the saturated link that holds the flow back.
    pub held_at: Option<u8>,
    /// What becomes of the packets at the end of the flow's way.
    pub fate: Fate,
}

/// The sender of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// One host.
    Host(u32),
    /// The hosts of a group; their own ports are not in the way of the flow.
    Group(u32),
}

/// What becomes of a flow at the end of its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// A host receives it.
    Received,
    /// Discarded at an output port that is not ACTIVE.
    Discarded(PortIdx),
    /// Discarded by the switch behind this input port: no forwarding entry.
    NoPath(PortIdx),
    /// Discarded by the switch behind this input port: the entry is that port.
    TurnedBack(PortIdx),
}

/// Hosts that send the same load to every receiver: their links have the same speed and end at the same switch.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Indexes in the list of hosts.
    pub hosts: Vec<u32>,
    switch: NodeIdx,
}

/// All flows of a load.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    /// The flows.
    pub flows: Vec<Flow>,
    /// Groups of senders.
    pub groups: Vec<Group>,
    /// Ports of all flows, flow after flow.
    steps: Vec<PortIdx>,
}

impl Flows {
    /// Returns the ports by which the packets of a flow leave nodes.
    pub fn way(&self, flow: &Flow) -> &[PortIdx] {
        &self.steps[flow.first as usize..][..usize::from(flow.hops)]
    }

    /// Returns the flows for changes, and the ports of all flows.
    pub fn parts(&mut self) -> (&mut [Flow], &[PortIdx]) {
        (&mut self.flows, &self.steps)
    }

    /// Returns the number of ports of all flows.
    pub const fn steps(&self) -> usize {
        self.steps.len()
    }
}

impl Flow {
    /// Returns the ports of its way among those of all flows.
    pub fn way_in<'a>(&self, steps: &'a [PortIdx]) -> &'a [PortIdx] {
        &steps[self.first as usize..][..usize::from(self.hops)]
    }
}

/// Returns the flows of `shares` along the tables that the switches of `chassis` hold.
pub(super) fn flows(chassis: &Chassis, hosts: &[PortIdx], shares: &[Share], packet: Packet) -> Flows {
    let mut walker = Walker {
        chassis,
        hosts,
        packet,
        found: Flows::default(),
    };
    for share in shares {
        match &share.demand {
            Demand::Among(members) => walker.all_to_all(share, members),
            Demand::Pairs(pairs) => walker.pairs(share, pairs),
        }
    }
    walker.found
}

struct Walker<'a> {
    chassis: &'a Chassis,
    hosts: &'a [PortIdx],
    packet: Packet,
    found: Flows,
}

impl Walker<'_> {
    /// Adds one flow a pair. A sender divides its rate among its receivers.
    fn pairs(&mut self, share: &Share, pairs: &[(u32, u32)]) {
        let mut receivers: BTreeMap<u32, u64> = BTreeMap::new();
        for (from, _) in pairs {
            *receivers.entry(*from).or_default() += 1;
        }
        for &(from, to) in pairs {
            let offered = self.offered(share, from) / receivers.get(&from).copied().unwrap_or(1);
            self.one(from, to, offered);
        }
    }

    /// Adds the flows of every member to every other one, a flow for each group and receiver.
    fn all_to_all(&mut self, share: &Share, members: &[u32]) {
        let others = members.len().saturating_sub(1) as u64;
        let mut groups: BTreeMap<(NodeIdx, u64), Vec<u32>> = BTreeMap::new();
        let mut alone = Vec::new();
        for &member in members {
            let Some(peer) = self.peer_if_open(self.hosts[member as usize]) else {
                continue;
            };
            let switch = self.chassis.wire(peer).node();
            match self.chassis.is_switch(switch) {
                true => groups
                    .entry((switch, self.offered(share, member)))
                    .or_default()
                    .push(member),
                false => alone.push(member),
            }
        }
        let first_group = self.found.groups.len();
        let offers: Vec<u64> = groups.keys().map(|(_, offered)| offered / others.max(1)).collect();
        for ((switch, _), hosts) in groups {
            self.found.groups.push(Group { hosts, switch });
        }
        for &to in members {
            for (at, &offered) in offers.iter().enumerate() {
                self.of_group(first_group + at, to, offered);
            }
            for &from in alone.iter().filter(|from| **from != to) {
                let offered = self.offered(share, from) / others.max(1);
                self.one(from, to, offered);
            }
        }
    }

    /// Adds the flow from one host to another.
    fn one(&mut self, from: u32, to: u32, offered: u64) {
        let (out, first) = (self.hosts[from as usize], self.found.steps.len());
        let Some(peer) = self.peer_if_open(out).filter(|_| from != to && offered > 0) else {
            return;
        };
        self.found.steps.push(out);
        let fate = self.walk_from(peer, to);
        self.add(first, fate, Sender::Host(from), to, (offered, 1));
    }

    /// Adds the flow from a group to a host, or its members' flows if the first switch discards them: the discards
    /// count at the ports of the members.
    fn of_group(&mut self, group: usize, to: u32, offered: u64) {
        let (switch, first) = (self.found.groups[group].switch, self.found.steps.len());
        let hosts = &self.found.groups[group].hosts;
        let senders = hosts.len() - usize::from(hosts.binary_search(&to).is_ok());
        if senders == 0 || offered == 0 {
            return;
        }
        let fate = match self.chassis.port_at(switch, 0) {
            Some(own) => self.walk(switch, own, to),
            None => None,
        };
        let is_lost_at_once = self.found.steps.len() == first && fate != Some(Fate::Received);
        if is_lost_at_once {
            let hosts = self.found.groups[group].hosts.clone();
            for from in hosts.into_iter().filter(|from| *from != to) {
                self.one(from, to, offered);
            }
            return;
        }
        // A fabric has fewer hosts than LIDs.
        let senders = u32::try_from(senders).unwrap_or(u32::MAX);
        let group = u32::try_from(group).unwrap_or(u32::MAX);
        self.add(first, fate, Sender::Group(group), to, (offered, senders));
    }

    fn add(&mut self, first: usize, fate: Option<Fate>, from: Sender, to: u32, (offered, senders): (u64, u32)) {
        let hops = self.found.steps.len() - first;
        let (Some(fate), Ok(hops), Ok(first)) = (fate, u8::try_from(hops), u32::try_from(first)) else {
            self.found.steps.truncate(first);
            return;
        };
        self.found.flows.push(Flow {
            offered,
            accepted: offered,
            senders,
            from,
            to,
            first,
            hops,
            held_at: None,
            fate,
        });
    }

    /// Walks from the port by which packets arrive at a node.
    fn walk_from(&mut self, input: PortIdx, to: u32) -> Option<Fate> {
        let node = self.chassis.wire(input).node();
        match self.chassis.is_switch(node) {
            true => self.walk(node, input, to),
            // Two hosts with a cable between them.
            false => Some(Fate::Received),
        }
    }

    /// Walks from a switch to the host `to` and adds the ports. `None`: the way is a loop, or the host has no LID.
    fn walk(&mut self, switch: NodeIdx, input: PortIdx, to: u32) -> Option<Fate> {
        let lid = self.lid(to)?;
        let (mut node, mut input) = (switch, input);
        for _ in 0..HOPS_MAX {
            let out = match self.chassis.egress(node, lid) {
                Egress::Port(out) if out == input => return Some(Fate::TurnedBack(input)),
                Egress::Port(out) => out,
                Egress::Own | Egress::NoPath | Egress::NoSuchPort => return Some(Fate::NoPath(input)),
            };
            let Some(peer) = self.peer_if_open(out) else {
                return Some(Fate::Discarded(out));
            };
            self.found.steps.push(out);
            node = self.chassis.wire(peer).node();
            if !self.chassis.is_switch(node) {
                return Some(Fate::Received);
            }
            input = peer;
        }
        None
    }

    fn lid(&self, host: u32) -> Option<Lid> {
        let lid = self.chassis.port(self.hosts[host as usize]).settings().lids.base;
        lid.is_unicast().then_some(lid)
    }

    /// Returns the other end of a port's link if data packets pass it. Source: IBA vol 1 §7.2.7.
    fn peer_if_open(&self, port: PortIdx) -> Option<PortIdx> {
        let is_open = |port: PortIdx| {
            let wire = self.chassis.wire(port);
            wire.phys() == PhysState::LinkUp && wire.state() == PortState::Active
        };
        self.chassis
            .wire(port)
            .peer()
            .filter(|&peer| is_open(port) && is_open(peer))
    }

    fn offered(&self, share: &Share, host: u32) -> u64 {
        let capacity = self.packet.capacity(self.chassis.port(self.hosts[host as usize]).rate);
        share.of(capacity)
    }
}

/// Returns the hosts in the order in which patterns number them: ports of CAs with a cable, by node and port.
pub(super) fn hosts(chassis: &Chassis) -> Vec<PortIdx> {
    let is_host = |port: &PortIdx| {
        let wire = chassis.wire(*port);
        wire.peer().is_some() && chassis.fabric().node(wire.node()).kind == selvedge_types::NodeKind::Ca
    };
    (0..chassis.port_count())
        .map(PortIdx::from_usize)
        .filter(is_host)
        .collect()
}
