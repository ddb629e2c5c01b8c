//! The nodes and links that a manager has found, whether they are there or gone.

use std::collections::BTreeMap;

use selvedge_types::{Guid, NodeKind, PortNum};

use crate::Since;

/// A port by name: GUID of its node, and number.
pub type PortKey = (Guid, PortNum);

/// A link by its two ends, the lower first.
pub type LinkKey = (PortKey, PortKey);

/// A node that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownNode {
    /// Kind of the node.
    pub kind: NodeKind,
    /// The node's last NodeDescription.
    pub name: String,
    /// When the node was lost; `None`: it is present.
    pub gone: Option<Since>,
}

/// All nodes and links that a manager has found, except those that an operator removed from the list. The list survives
/// restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Nodes by GUID.
    pub nodes: BTreeMap<Guid, KnownNode>,
    /// Links, each with the time when it was lost; `None`: it is present.
    pub links: BTreeMap<LinkKey, Option<Since>>,
}

impl Known {
    /// True if both nodes of a link are listed.
    #[must_use]
    pub fn has_both_ends(&self, ((a, _), (b, _)): &LinkKey) -> bool {
        self.nodes.contains_key(a) && self.nodes.contains_key(b)
    }
}
