//! The immutable snapshot and its indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_types::{Guid, Idx, IdxVec, NodeKind, PKey, PortNum};
use serde::{Deserialize, Serialize};

use crate::{LinkState, Node, Port, PortSettings, SwitchSettings};

/// Index of a node in a [`Fabric`], by ascending GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeIdx(pub u32);

/// Index of a switch among the switches of a [`Fabric`], by ascending GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SwitchIdx(pub u32);

macro_rules! idx {
    ($name:ident) => {
        impl Idx for $name {
            /// Converts an index. A fabric has fewer than 2^32 nodes, because each needs a GUID and memory.
            #[inline]
            fn from_usize(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }

            #[inline]
            fn to_usize(self) -> usize {
                self.0 as usize
            }
        }
    };
}
idx!(NodeIdx);
idx!(SwitchIdx);

/// A port of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortRef {
    /// Node of the port.
    pub node: NodeIdx,
    /// Number of the port.
    pub port: PortNum,
}

/// A cable: two ports, the smaller reference first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// One end of the link.
    pub a: PortRef,
    /// The other end of the link.
    pub b: PortRef,
}

/// An immutable snapshot of a subnet. Copies share unchanged parts, down to the ports of each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fabric {
    nodes: IdxVec<NodeIdx, Node>,
    indices: Arc<Indices>,
}

/// Look-up tables of a fabric.
#[derive(Debug, Default, PartialEq, Eq)]
struct Indices {
    switches: IdxVec<SwitchIdx, NodeIdx>,
    switch_of: IdxVec<NodeIdx, Option<SwitchIdx>>,
    by_guid: BTreeMap<Guid, NodeIdx>,
    by_port_guid: BTreeMap<Guid, PortRef>,
}

impl Fabric {
    /// Returns a fabric from `nodes` in ascending GUID order without duplicates and with symmetric peers, as the
    /// builder makes them.
    pub(crate) fn from_sorted(nodes: Vec<Node>) -> Self {
        let nodes: IdxVec<NodeIdx, Node> = nodes.into();
        let mut switches = IdxVec::new();
        let mut switch_of = IdxVec::new();
        let mut by_guid = BTreeMap::new();
        let mut by_port_guid = BTreeMap::new();
        for (idx, node) in nodes.iter_enumerated() {
            switch_of.push((node.kind == NodeKind::Switch).then(|| switches.push(idx)));
            by_guid.insert(node.guid, idx);
            for (port, seen) in node.end_ports().filter(|(_, p)| p.guid != Guid::NONE) {
                by_port_guid.entry(seen.guid).or_insert(PortRef { node: idx, port });
            }
        }
        let indices = Indices {
            switches,
            switch_of,
            by_guid,
            by_port_guid,
        };
        Self {
            nodes,
            indices: Arc::new(indices),
        }
    }

    /// Returns all nodes by index.
    #[must_use]
    pub const fn nodes(&self) -> &IdxVec<NodeIdx, Node> {
        &self.nodes
    }

    /// Returns a node.
    ///
    /// # Panics
    /// If the index is of another, larger fabric.
    #[must_use]
    pub fn node(&self, idx: NodeIdx) -> &Node {
        &self.nodes[idx]
    }

    /// Returns all switches by switch index.
    #[must_use]
    pub fn switches(&self) -> &IdxVec<SwitchIdx, NodeIdx> {
        &self.indices.switches
    }

    /// Returns the switch index of a node; `None` if it is not a switch.
    #[must_use]
    pub fn switch_index(&self, node: NodeIdx) -> Option<SwitchIdx> {
        self.indices.switch_of.get(node).copied().flatten()
    }

    /// Returns the node of a switch.
    ///
    /// # Panics
    /// If the index is of another, larger fabric.
    #[must_use]
    pub fn switch(&self, idx: SwitchIdx) -> &Node {
        &self.nodes[self.indices.switches[idx]]
    }

    /// Returns a port, if it exists.
    #[must_use]
    pub fn port(&self, at: PortRef) -> Option<&Port> {
        self.nodes.get(at.node)?.port(at.port)
    }

    /// Returns the other end of a port's cable.
    #[must_use]
    pub fn peer(&self, at: PortRef) -> Option<PortRef> {
        self.port(at)?.peer
    }

    /// True if both ends of the port's cable are up, so that packets can cross.
    #[must_use]
    pub fn link_is_up(&self, at: PortRef) -> bool {
        let end_up = |end: PortRef| self.port(end).is_some_and(Port::is_up);
        end_up(at) && self.peer(at).is_some_and(end_up)
    }

    /// Returns the node with this GUID.
    #[must_use]
    pub fn find(&self, guid: Guid) -> Option<NodeIdx> {
        self.indices.by_guid.get(&guid).copied()
    }

    /// Returns the end port with this GUID.
    #[must_use]
    pub fn find_port(&self, guid: Guid) -> Option<PortRef> {
        self.indices.by_port_guid.get(&guid).copied()
    }

    /// Returns all end ports (those that can have LIDs), by node, then number.
    pub fn end_ports(&self) -> impl Iterator<Item = (PortRef, &Port)> {
        self.nodes
            .iter_enumerated()
            .flat_map(|(node, n)| n.end_ports().map(move |(port, p)| (PortRef { node, port }, p)))
    }

    /// Returns all cables, each once.
    pub fn links(&self) -> impl Iterator<Item = Link> + '_ {
        self.nodes.iter_enumerated().flat_map(|(node, n)| {
            n.external_ports().filter_map(move |(port, p)| {
                let a = PortRef { node, port };
                p.peer.filter(|&b| a <= b).map(|b| Link { a, b })
            })
        })
    }

    /// Returns the number of nodes other than switches.
    #[must_use]
    pub fn host_count(&self) -> usize {
        self.nodes.len() - self.indices.switches.len()
    }

    /// Records the current state of a port. Does nothing if there is no such port. The topology stays unchanged.
    pub fn set_port(&mut self, at: PortRef, link: LinkState, settings: PortSettings) {
        if let Some(port) = self.nodes.get_mut(at.node).and_then(|n| n.port_mut(at.port)) {
            port.link = link;
            port.settings = settings;
            port.unread = false;
        }
    }

    /// Records the current P_Keys of a port.
    pub fn set_pkeys(&mut self, at: PortRef, pkeys: Vec<PKey>) {
        if let Some(port) = self.nodes.get_mut(at.node).and_then(|n| n.port_mut(at.port)) {
            port.pkeys = pkeys;
        }
    }

    /// Records the current settings of a switch.
    pub fn set_switch(&mut self, node: NodeIdx, settings: SwitchSettings) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.switch_settings = settings;
        }
    }

    /// Overrides the number of multicast groups that a switch has room for.
    pub fn set_multicast_room(&mut self, node: NodeIdx, groups: u16) {
        if let Some(switch) = self.nodes.get_mut(node).and_then(|node| node.switch.as_mut()) {
            switch.mcast_cap = groups;
        }
    }

    /// Both ends of the link of a port, as `"a"[1] - "b"[2]`; the port alone if its other end is not known.
    #[must_use]
    pub fn link_name_of(&self, at: PortRef) -> String {
        match self.peer(at) {
            Some(far) => format!("{} - {}", self.port_name(at), self.port_name(far)),
            None => self.port_name(at),
        }
    }

    /// Returns `"description"[port]`, the usual notation of a port. The GUID replaces an empty description.
    #[must_use]
    pub fn port_name(&self, at: PortRef) -> String {
        match self.nodes.get(at.node) {
            Some(node) if node.description.is_empty() => format!("{}[{}]", node.guid, at.port),
            Some(node) => format!("\"{}\"[{}]", node.description, at.port),
            None => format!("node {}[{}]", at.node.0, at.port),
        }
    }
}
