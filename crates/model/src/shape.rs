//! The numbers of nodes and ports that a manager at a given port can reach, computed once from a fabric.

use std::collections::VecDeque;

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_types::{Idx, NodeKind, PortNum};

/// Number of unicast LIDs of a subnet. Source: IBA vol 1 §4.1.3: unicast LIDs are 1 to 0xBFFF.
pub(crate) const LIDS_MAX: u64 = 0xBFFF;
/// Entries per LinearForwardingTable block. Source: IBA vol 1 §14.2.5.10.
pub(crate) const BLOCK_LIDS: u64 = 64;
/// Entries per P_KeyTable block. Source: IBA vol 1 §14.2.5.7.
const BLOCK_PKEYS: u64 = 32;

/// SLV-MODEL-0001: no manager can run on this port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SLV-MODEL-0001: {what} has no end port with a cable for the manager; name another with --seat")]
pub struct NoSeat {
    /// The port or fabric.
    pub what: String,
}

/// One end of a cable, by index in the fabric's list of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    pub node: u32,
    pub port: u8,
}

impl End {
    const NOWHERE: Self = Self {
        node: u32::MAX,
        port: 0,
    };
}

/// Numbers of reachable nodes and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub switches: u64,
    pub hosts: u64,
    /// Ports of switches, including port 0.
    pub switch_ports: u64,
    /// Ports of switches with a cable.
    pub linked_switch_ports: u64,
    /// Ports by which discovery entered nodes that are not switches.
    pub host_ports: u64,
    /// Number of these ports with a cable.
    pub linked_host_ports: u64,
    /// Blocks of P_Keys of end ports, and of switch ports with a cable that can enforce partitions.
    pub pkey_blocks: u64,
    /// 1 if the manager's own port has a cable through which discovery continues.
    pub own_link: u64,
    /// Switches that discovery entered through a cable: all except the manager's own.
    pub entered_switches: u64,
}

/// The numbers of nodes and ports that a manager at a given port can reach.
///
/// Cables count as links that are up: the model assumes a fabric without faults.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Index in `peers` of each node's first cable, and the total count at the end.
    first: Vec<u32>,
    is_switch: Vec<bool>,
    peers: Vec<End>,
    /// Links on the shortest path from the manager; `u16::MAX`: not reached.
    depth: Vec<u16>,
    /// Nodes in order of discovery, the manager's first.
    reached: Vec<u32>,
    pub(crate) seat: End,
    pub(crate) sizes: Sizes,
}

impl Shape {
    /// Returns the shape for a manager at `seat`: port 0 of a switch or a port of another node, with a cable.
    pub fn new(fabric: &Fabric, seat: PortRef) -> Result<Self, NoSeat> {
        let usable = fabric.port(seat).is_some_and(|port| {
            let is_own = seat.port == PortNum::MANAGEMENT;
            is_own == fabric.node(seat.node).is_switch() && (is_own || port.peer.is_some())
        });
        if !usable {
            return Err(NoSeat {
                what: fabric.port_name(seat),
            });
        }
        let mut shape = Self {
            first: Vec::with_capacity(fabric.nodes().len() + 1),
            is_switch: Vec::with_capacity(fabric.nodes().len()),
            peers: Vec::new(),
            depth: vec![u16::MAX; fabric.nodes().len()],
            reached: Vec::new(),
            seat: end(seat),
            sizes: Sizes::default(),
        };
        for node in fabric.nodes().iter() {
            shape.first.push(small(shape.peers.len()));
            shape.is_switch.push(node.is_switch());
            let cables = node
                .external_ports()
                .map(|(_, port)| port.peer.map_or(End::NOWHERE, end));
            shape.peers.extend(cables);
        }
        shape.first.push(small(shape.peers.len()));
        shape.spread();
        shape.measure(fabric);
        Ok(shape)
    }

    /// Returns the shape for a manager at the first end port with a cable. This is a port of a channel adapter if any
    /// has a cable, else a port of a switch.
    pub fn from_first_host(fabric: &Fabric) -> Result<Self, NoSeat> {
        Self::new(fabric, Self::first_seat(fabric)?)
    }

    /// Returns the default port of the manager.
    pub fn first_seat(fabric: &Fabric) -> Result<PortRef, NoSeat> {
        let is_host = |at: &PortRef| fabric.node(at.node).kind == NodeKind::Ca;
        let cabled = |(at, port): (PortRef, &selvedge_fabric::Port)| {
            (port.peer.is_some() && !fabric.node(at.node).is_aggregation_node()).then_some(at)
        };
        let host = fabric.end_ports().filter_map(cabled).find(is_host);
        let switch = fabric.switches().iter().next().map(|&node| PortRef {
            node,
            port: PortNum::MANAGEMENT,
        });
        host.or(switch).ok_or_else(|| NoSeat {
            what: "the fabric".to_owned(),
        })
    }

    /// Visits switches breadth-first.
    fn spread(&mut self) {
        let mut waiting = VecDeque::from([self.seat.node]);
        self.depth[self.seat.node as usize] = 0;
        while let Some(node) = waiting.pop_front() {
            self.reached.push(node);
            let own = node == self.seat.node;
            if !own && !self.is_switch(node) {
                continue;
            }
            for port in 1..=self.port_count(node) {
                // Discovery leaves the manager's own channel adapter only by the manager's port.
                if own && !self.is_switch(node) && port != self.seat.port {
                    continue;
                }
                if let Some(peer) = self.peer(node, port)
                    && self.depth[peer.node as usize] == u16::MAX
                {
                    self.depth[peer.node as usize] = self.depth[node as usize].saturating_add(1);
                    waiting.push_back(peer.node);
                }
            }
        }
    }

    fn measure(&mut self, fabric: &Fabric) {
        let mut sizes = Sizes::default();
        let blocks = |keys: u16| u64::from(keys).div_ceil(BLOCK_PKEYS);
        for &node in &self.reached {
            let seen = fabric.node(NodeIdx(node));
            let linked = self.linked_ports(node);
            if self.is_switch(node) {
                let cables = linked.count() as u64;
                let enforced = seen.switch.map_or(0, |s| blocks(s.enforce_cap));
                sizes.switches += 1;
                sizes.switch_ports += u64::from(self.port_count(node)) + 1;
                sizes.linked_switch_ports += cables;
                sizes.pkey_blocks += blocks(seen.partition_cap) + cables * enforced;
            } else {
                let entered = linked.filter(|&port| self.is_entered(node, port)).count() as u64;
                sizes.hosts += 1;
                sizes.host_ports += entered;
                sizes.linked_host_ports += entered;
                sizes.pkey_blocks += entered * blocks(seen.partition_cap);
            }
        }
        let own_is_switch = self.is_switch(self.seat.node);
        sizes.own_link = u64::from(!own_is_switch);
        sizes.entered_switches = sizes.switches - u64::from(own_is_switch);
        self.sizes = sizes;
    }

    /// True if discovery enters a node other than a switch by this port.
    fn is_entered(&self, node: u32, port: u8) -> bool {
        let seat = End { node, port } == self.seat;
        let by_us = |peer: End| self.is_reached(peer.node) && (self.is_switch(peer.node) || peer == self.seat);
        seat || self.peer(node, port).is_some_and(by_us)
    }

    /// Returns the ports with a cable.
    fn linked_ports(&self, node: u32) -> impl Iterator<Item = u8> + '_ {
        (1..=self.port_count(node)).filter(move |&port| self.peer(node, port).is_some())
    }

    /// True for ports that the manager configures: ports of switches with a cable, and for any other node the port by
    /// which discovery entered it.
    pub(crate) fn is_managed(&self, node: u32, port: u8) -> bool {
        match self.is_switch(node) {
            true => self.peer(node, port).is_some(),
            false => self.is_entered(node, port),
        }
    }

    pub(crate) fn nodes(&self) -> u32 {
        small(self.is_switch.len())
    }

    pub(crate) fn is_switch(&self, node: u32) -> bool {
        self.is_switch[node as usize]
    }

    pub(crate) fn is_reached(&self, node: u32) -> bool {
        self.depth[node as usize] != u16::MAX
    }

    /// Returns the number of links on the shortest path from the manager.
    pub(crate) fn depth(&self, node: u32) -> u16 {
        self.depth[node as usize]
    }

    pub(crate) fn port_count(&self, node: u32) -> u8 {
        let cables = self.first[node as usize + 1] - self.first[node as usize];
        u8::try_from(cables).unwrap_or(u8::MAX)
    }

    pub(crate) fn peer(&self, node: u32, port: u8) -> Option<End> {
        let first = self.first[node as usize] as usize;
        let end = *self.peers.get(first + usize::from(port) - 1)?;
        (end != End::NOWHERE).then_some(end)
    }

    /// Returns the number of reachable switches.
    #[must_use]
    pub const fn switches(&self) -> u64 {
        self.sizes.switches
    }

    /// Returns the number of reachable nodes that are not switches.
    #[must_use]
    pub const fn hosts(&self) -> u64 {
        self.sizes.hosts
    }

    /// Returns the number of LIDs to assign, one per port (LMC 0).
    #[must_use]
    pub const fn lids(&self) -> u64 {
        self.sizes.switches + self.sizes.host_ports
    }

    /// True if a subnet has enough LIDs.
    #[must_use]
    pub const fn lids_fit(&self) -> bool {
        self.lids() <= LIDS_MAX
    }

    /// Returns the number of LFT blocks: LIDs are dense from 1, blocks begin at LID 0.
    #[must_use]
    pub const fn lft_blocks(&self) -> u64 {
        self.lids() / BLOCK_LIDS + 1
    }
}

fn end(at: PortRef) -> End {
    End {
        node: small(at.node.to_usize()),
        port: at.port.get(),
    }
}

/// Converts an index, which has at most 32 bits, as `NodeIdx`.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
