//! The manager's knowledge of the fabric, as plain values: the sampler never discovers anything.

use std::collections::BTreeMap;

use selvedge_types::{Guid, Lid, NodeKind, PortState, Rate};

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The node.
    pub node: Guid,
    /// The port.
    pub port: u8,
}

/// A port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortEntry {
    /// Number of the port.
    pub num: u8,
    /// LID of the agent that has the port's counters: that of port 0 on a switch, the port's own on a host.
    pub lid: Lid,
    /// Link state. Only ports that are ACTIVE or ARMED are read.
    pub state: PortState,
    /// The port at the other end; `None`: there is no link, or the other end is unknown.
    pub peer: Option<End>,
    /// Rate of the link, if known.
    pub rate: Option<Rate>,
}

impl PortEntry {
    /// True if the port's agent can be asked for its counters.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        matches!(self.state, PortState::Armed | PortState::Active) && self.lid.is_unicast()
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// Switch, host or router.
    pub kind: NodeKind,
    /// Name of the node.
    pub description: String,
    /// Ports of the node, in order of their numbers.
    pub ports: Vec<PortEntry>,
}

impl NodeEntry {
    /// Returns a port.
    #[must_use]
    pub fn port(&self, num: u8) -> Option<&PortEntry> {
        let at = self.ports.binary_search_by_key(&num, |port| port.num).ok()?;
        self.ports.get(at)
    }
}

/// All nodes of a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The nodes by GUID.
    pub nodes: BTreeMap<Guid, NodeEntry>,
}

impl Inventory {
    /// Returns the port at an end of a link.
    #[must_use]
    pub fn port(&self, end: End) -> Option<&PortEntry> {
        self.nodes.get(&end.node)?.port(end.port)
    }

    /// Returns the node and port that a LID and port number mean, as `14:3` in the text of an assignment.
    #[must_use]
    pub fn end_at(&self, lid: Lid, port: u8) -> Option<End> {
        let nodes = self.nodes.iter();
        nodes
            .filter_map(|(guid, node)| node.port(port).filter(|at| at.lid == lid).map(|_| *guid))
            .map(|node| End { node, port })
            .next()
    }
}
