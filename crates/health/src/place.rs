//! The places of conditions.

use std::fmt;

use selvedge_types::{Guid, NodeKind, PortNum};

/// A node by GUID, with its last known name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeName {
    /// GUID of the node.
    pub guid: Guid,
    /// Kind of the node.
    pub kind: NodeKind,
    /// NodeDescription of the node; empty if none is known.
    pub name: String,
}

/// One end of a link, with the last known name of its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// GUID of the node.
    pub node: Guid,
    /// NodeDescription of the node; empty if none is known.
    pub name: String,
    /// Number of the port.
    pub port: PortNum,
}

/// The place of a condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The manager itself: its plan, or its storage.
    Manager,
    /// A node.
    Node(NodeName),
    /// A port.
    Port(End),
    /// Another manager, by its port.
    Peer(End),
    /// A link, by both ends.
    Link(End, End),
}

/// Writes a name as events write it; the GUID stands in for an empty one.
fn quoted(f: &mut fmt::Formatter<'_>, guid: Guid, name: &str) -> fmt::Result {
    match name {
        "" => write!(f, "{guid}"),
        name => write!(f, "\"{name}\""),
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            NodeKind::Ca => "host ",
            NodeKind::Switch => "switch ",
            NodeKind::Router => "router ",
        })?;
        quoted(f, self.guid, &self.name)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quoted(f, self.node, &self.name)?;
        write!(f, "[{}]", self.port)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manager => f.write_str("this manager"),
            Self::Node(node) => write!(f, "{node}"),
            Self::Port(end) => write!(f, "port {end}"),
            Self::Peer(end) => write!(f, "manager at {end}"),
            Self::Link(a, b) => write!(f, "link {a} - {b}"),
        }
    }
}
