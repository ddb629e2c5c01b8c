//! What changed between two snapshots, by GUID.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use selvedge_types::{Guid, PortNum, PortState};

use crate::{Fabric, Node, PortRef};

/// One end of a cable by GUID.
type End = (Guid, PortNum);

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// A node that was not there.
    NodeAdded {
        /// Its GUID.
        guid: Guid,
        /// Its description.
        name: String,
    },
    /// A node that is gone.
    NodeRemoved {
        /// Its GUID.
        guid: Guid,
        /// Its description.
        name: String,
    },
    /// A node that has another description.
    NodeRenamed {
        /// Its GUID.
        guid: Guid,
        /// Description before.
        before: String,
        /// Description now.
        after: String,
    },
    /// A cable that was not there.
    LinkAdded {
        /// One end.
        a: End,
        /// The other end.
        b: End,
        /// Both ends in words.
        name: String,
    },
    /// A cable that is gone.
    LinkRemoved {
        /// One end.
        a: End,
        /// The other end.
        b: End,
        /// Both ends in words.
        name: String,
    },
    /// A port whose logical state changed.
    StateChanged {
        /// The port.
        at: End,
        /// The port in words.
        name: String,
        /// State before.
        before: PortState,
        /// State now.
        after: PortState,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeAdded { guid, name } => write!(f, "+ node {guid} \"{name}\""),
            Self::NodeRemoved { guid, name } => write!(f, "- node {guid} \"{name}\""),
            Self::NodeRenamed { guid, before, after } => write!(f, "~ node {guid} \"{before}\" -> \"{after}\""),
            Self::LinkAdded { name, .. } => write!(f, "+ link {name}"),
            Self::LinkRemoved { name, .. } => write!(f, "- link {name}"),
            Self::StateChanged {
                name, before, after, ..
            } => write!(f, "~ port {name} {before} -> {after}"),
        }
    }
}

/// All differences, nodes first, in a stable order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricDiff {
    /// The differences.
    pub changes: Vec<Change>,
}

/// Compares two snapshots by GUID.
#[must_use]
pub fn diff(before: &Fabric, after: &Fabric) -> FabricDiff {
    let mut changes = Vec::new();
    for node in before.nodes().iter().filter(|n| after.find(n.guid).is_none()) {
        changes.push(Change::NodeRemoved {
            guid: node.guid,
            name: node.description.clone(),
        });
    }
    for node in after.nodes().iter() {
        match before.find(node.guid).map(|idx| before.node(idx)) {
            None => changes.push(Change::NodeAdded {
                guid: node.guid,
                name: node.description.clone(),
            }),
            Some(old) => compare_node(old, node, &mut changes),
        }
    }
    let (old_links, new_links) = (links(before), links(after));
    let (old_keys, new_keys): (BTreeSet<_>, BTreeSet<_>) = (old_links.keys().collect(), new_links.keys().collect());
    for &&(a, b) in old_keys.difference(&new_keys) {
        changes.push(Change::LinkRemoved {
            a,
            b,
            name: old_links[&(a, b)].clone(),
        });
    }
    for &&(a, b) in new_keys.difference(&old_keys) {
        changes.push(Change::LinkAdded {
            a,
            b,
            name: new_links[&(a, b)].clone(),
        });
    }
    FabricDiff { changes }
}

fn compare_node(old: &Node, new: &Node, changes: &mut Vec<Change>) {
    if old.description != new.description {
        let (before, after) = (old.description.clone(), new.description.clone());
        changes.push(Change::NodeRenamed {
            guid: new.guid,
            before,
            after,
        });
    }
    for (num, port) in new.all_ports() {
        let Some(before) = old.port(num) else { continue };
        if before.link.state != port.link.state {
            changes.push(Change::StateChanged {
                at: (new.guid, num),
                name: format!("\"{}\"[{num}]", new.description),
                before: before.link.state,
                after: port.link.state,
            });
        }
    }
}

fn links(fabric: &Fabric) -> BTreeMap<(End, End), String> {
    let end = |at: PortRef| (fabric.node(at.node).guid, at.port);
    fabric
        .links()
        .map(|l| {
            (
                (end(l.a), end(l.b)),
                format!("{} - {}", fabric.port_name(l.a), fabric.port_name(l.b)),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use selvedge_types::NodeKind;

    use super::*;
    use crate::FabricBuilder;

    fn pair(linked: bool, name: &str, extra: bool) -> Fabric {
        let port = |n| PortNum::new(n).unwrap();
        let mut b = FabricBuilder::new();
        let s = b.add(Node::new(NodeKind::Switch, Guid(1), 2, "s"));
        let t = b.add(Node::new(NodeKind::Switch, Guid(2), 2, name));
        if extra {
            b.add(Node::new(NodeKind::Ca, Guid(3), 1, "h"));
        }
        if linked {
            b.link((s, port(1)), (t, port(2))).unwrap();
        }
        b.finish().unwrap()
    }

    #[test]
    fn differences_in_words() {
        let check = |before: &Fabric, after: &Fabric, want: &[&str]| {
            let found: Vec<String> = diff(before, after).changes.iter().map(ToString::to_string).collect();
            assert_eq!(found, want);
        };
        let base = pair(true, "t", false);
        check(&base, &base, &[]);
        check(&base, &pair(false, "t", false), &["- link \"s\"[1] - \"t\"[2]"]);
        check(&pair(false, "t", false), &base, &["+ link \"s\"[1] - \"t\"[2]"]);
        check(
            &base,
            &pair(true, "u", true),
            &[
                "~ node 0x0000000000000002 \"t\" -> \"u\"",
                "+ node 0x0000000000000003 \"h\"",
            ],
        );
    }
}
