//! Places that the operator has taken out of service: their nodes and links do not count as missing.

use std::collections::BTreeSet;

use selvedge_types::Guid;

use crate::facts::{AbsentLink, AbsentNode};
use crate::known::PortKey;
use crate::place::{End, Place};

/// Nodes and ports that are out of service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutOfService {
    /// Switches with all their links, and hosts.
    pub nodes: BTreeSet<Guid>,
    /// Ends of links, and ports of hosts.
    pub ports: BTreeSet<PortKey>,
}

impl OutOfService {
    /// True if the node is a listed one, or was only cabled to listed places.
    pub(crate) fn has_node(&self, absent: &AbsentNode) -> bool {
        let was_at = &absent.was_at;
        self.nodes.contains(&absent.node.guid) || !was_at.is_empty() && was_at.iter().all(|end| self.has_end(end))
    }

    /// True if an end of the link is listed.
    pub(crate) fn has_link(&self, absent: &AbsentLink) -> bool {
        self.has_end(&absent.ends.0) || self.has_end(&absent.ends.1)
    }

    /// True if a deviation from the expected topology is at a place that is out of service.
    pub(crate) fn has_place(&self, place: &Place) -> bool {
        match place {
            Place::Node(node) => self.nodes.contains(&node.guid),
            Place::Port(end) | Place::Peer(end) => self.has_end(end),
            Place::Link(a, b) => self.has_end(a) || self.has_end(b),
            Place::Manager => false,
        }
    }

    fn has_end(&self, end: &End) -> bool {
        self.nodes.contains(&end.node) || self.ports.contains(&(end.node, end.port))
    }
}
