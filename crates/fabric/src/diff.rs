//! Differences between two snapshots, by GUID.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use selvedge_types::{Guid, Lid, PortNum, PortState, Rate};

use crate::{Fabric, Link, Node, Port, PortCapability, PortRef};

/// One end of a cable by GUID.
type End = (Guid, PortNum);

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// A new node.
    NodeAdded {
        /// GUID of the node.
        guid: Guid,
        /// Description of the node.
        name: String,
    },
    /// A node that is gone.
    NodeRemoved {
        /// GUID of the node.
        guid: Guid,
        /// Description of the node.
        name: String,
    },
    /// A node that has another description.
    NodeRenamed {
        /// GUID of the node.
        guid: Guid,
        /// Description before.
        before: String,
        /// Description now.
        after: String,
    },
    /// A node attribute changed, other than the description.
    NodeChanged {
        /// GUID of the node.
        guid: Guid,
        /// New description of the node.
        name: String,
        /// Name of the attribute.
        attribute: &'static str,
        /// Former value.
        before: String,
        /// New value.
        after: String,
    },
    /// A new cable.
    LinkAdded {
        /// One end of the link.
        a: End,
        /// The other end of the link.
        b: End,
        /// Both ends as text.
        name: String,
    },
    /// A cable that is gone.
    LinkRemoved {
        /// One end of the link.
        a: End,
        /// The other end of the link.
        b: End,
        /// Both ends as text.
        name: String,
    },
    /// A link's width or speed changed at both ends.
    RateChanged {
        /// One end of the link.
        a: End,
        /// The other end of the link.
        b: End,
        /// Both ends as text.
        name: String,
        /// Rate before.
        before: Rate,
        /// Rate now.
        after: Rate,
    },
    /// A port with a new port state.
    StateChanged {
        /// The port.
        at: End,
        /// The port as text.
        name: String,
        /// State before.
        before: PortState,
        /// State now.
        after: PortState,
    },
    /// A port attribute changed, other than the logical state.
    PortChanged {
        /// The port.
        at: End,
        /// The port as text.
        name: String,
        /// Name of the attribute.
        attribute: &'static str,
        /// Former value.
        before: String,
        /// New value.
        after: String,
    },
}

/// The text of a difference, in the columns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeWords {
    /// `added`, `removed` or `changed`.
    pub change: &'static str,
    /// `node`, `link` or `port`.
    pub what: &'static str,
    /// The node, both ends of the link, or the port.
    pub name: String,
    /// The attribute that changed; empty for an added or removed element.
    pub attribute: &'static str,
    /// Former value; empty for an added or removed element.
    pub before: String,
    /// New value; empty for an added or removed element.
    pub after: String,
}

impl Change {
    /// Returns the text of the difference.
    #[must_use]
    pub fn words(&self) -> ChangeWords {
        let node = |guid: &Guid, name: &str| format!("{guid} \"{name}\"");
        let whole = |change, what, name| ChangeWords {
            change,
            what,
            name,
            attribute: "",
            before: String::new(),
            after: String::new(),
        };
        let changed = |what, name, attribute, before: &dyn fmt::Display, after: &dyn fmt::Display| ChangeWords {
            attribute,
            before: before.to_string(),
            after: after.to_string(),
            ..whole("changed", what, name)
        };
        match self {
            Self::NodeAdded { guid, name } => whole("added", "node", node(guid, name)),
            Self::NodeRemoved { guid, name } => whole("removed", "node", node(guid, name)),
            Self::NodeRenamed { guid, before, after } => {
                changed("node", node(guid, before), "description", before, after)
            }
            Self::NodeChanged {
                guid,
                name,
                attribute,
                before,
                after,
            } => changed("node", node(guid, name), attribute, before, after),
            Self::LinkAdded { name, .. } => whole("added", "link", name.clone()),
            Self::LinkRemoved { name, .. } => whole("removed", "link", name.clone()),
            Self::RateChanged {
                name, before, after, ..
            } => changed("link", name.clone(), "rate", before, after),
            Self::StateChanged {
                name, before, after, ..
            } => changed("port", name.clone(), "state", before, after),
            Self::PortChanged {
                name,
                attribute,
                before,
                after,
                ..
            } => changed("port", name.clone(), attribute, before, after),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words();
        let (what, name) = (words.what, &words.name);
        match (self, words.change) {
            (_, "added") => write!(f, "+ {what} {name}"),
            (_, "removed") => write!(f, "- {what} {name}"),
            // The name already shows the value before.
            (Self::NodeRenamed { after, .. }, _) => write!(f, "~ {what} {name} -> \"{after}\""),
            (Self::StateChanged { .. }, _) => write!(f, "~ {what} {name} {} -> {}", words.before, words.after),
            _ => {
                let ChangeWords {
                    attribute,
                    before,
                    after,
                    ..
                } = words;
                write!(f, "~ {what} {name} {attribute} {before} -> {after}")
            }
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
    // Generators and net files state no LIDs, which is not a difference from a listing with LIDs.
    let with_lids = has_lids(before) && has_lids(after);
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
            Some(old) => compare_node(old, node, with_lids, &mut changes),
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
    for link in after.links() {
        let ends = (end(after, link.a), end(after, link.b));
        let rates = |fabric: &Fabric| Some((rate(fabric, ends.0)?, rate(fabric, ends.1)?));
        let (Some(was), Some(is)) = (rates(before), rates(after)) else {
            continue;
        };
        if old_links.contains_key(&ends) && was != is {
            rate_changes(after, link, was, is, &mut changes);
        }
    }
    FabricDiff { changes }
}

/// Returns width and speed at one end of a link that is up.
fn rate(fabric: &Fabric, at: End) -> Option<Rate> {
    let port = fabric.node(fabric.find(at.0)?).port(at.1)?;
    port.is_up().then_some(port.link.rate)
}

/// Adds one change if both ends agree, otherwise one change for each end.
fn rate_changes(after: &Fabric, link: Link, was: (Rate, Rate), is: (Rate, Rate), changes: &mut Vec<Change>) {
    if was.0 == was.1 && is.0 == is.1 {
        changes.push(Change::RateChanged {
            a: end(after, link.a),
            b: end(after, link.b),
            name: link_name(after, link),
            before: was.0,
            after: is.0,
        });
        return;
    }
    for (at, before, now) in [(link.a, was.0, is.0), (link.b, was.1, is.1)] {
        if before != now {
            changes.push(Change::PortChanged {
                at: end(after, at),
                name: after.port_name(at),
                attribute: "rate",
                before: before.to_string(),
                after: now.to_string(),
            });
        }
    }
}

/// True if a port of the fabric has a LID. Otherwise the fabric's source states none.
fn has_lids(fabric: &Fabric) -> bool {
    fabric.end_ports().any(|(_, port)| port.settings.lids.base != Lid::NONE)
}

fn compare_node(old: &Node, new: &Node, with_lids: bool, changes: &mut Vec<Change>) {
    if old.description != new.description {
        let (before, after) = (old.description.clone(), new.description.clone());
        changes.push(Change::NodeRenamed {
            guid: new.guid,
            before,
            after,
        });
    }
    for (attribute, before, after) in node_attributes(old).into_iter().zip(node_attributes(new)).map(both) {
        if before != after {
            changes.push(Change::NodeChanged {
                guid: new.guid,
                name: new.description.clone(),
                attribute,
                before,
                after,
            });
        }
    }
    for (num, port) in new.all_ports() {
        let Some(before) = old.port(num) else { continue };
        for (attribute, was, is) in port_attributes(before).into_iter().zip(port_attributes(port)).map(both) {
            if was != is && (with_lids || !matches!(attribute, "LID" | "LMC")) {
                changes.push(Change::PortChanged {
                    at: (new.guid, num),
                    name: format!("\"{}\"[{num}]", new.description),
                    attribute,
                    before: was,
                    after: is,
                });
            }
        }
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

type Stated = (&'static str, String);

fn both(((attribute, before), (_, after)): (Stated, Stated)) -> (&'static str, String, String) {
    (attribute, before, after)
}

/// Returns the attributes of a node that a file or generator states, except its description.
fn node_attributes(node: &Node) -> [Stated; 8] {
    let port0 = node.switch.map_or("none", |switch| match switch.enhanced_port0 {
        true => "enhanced",
        false => "base",
    });
    [
        ("kind", node.kind.to_string()),
        ("ports", node.port_count().to_string()),
        ("system GUID", node.system_guid.to_string()),
        ("vendor", format!("{:#x}", node.vendor_id)),
        ("device", format!("{:#x}", node.device_id)),
        ("revision", format!("{:#x}", node.revision)),
        ("port 0", port0.to_owned()),
        ("P_Keys", node.partition_cap.to_string()),
    ]
}

/// Returns the attributes of a port that a file or generator states, except state and rate. Supported widths and speeds
/// are left out: files do not state these, and the reader derives them from the links.
fn port_attributes(port: &Port) -> [Stated; 6] {
    let lids = port.settings.lids;
    [
        ("GUID", port.guid.to_string()),
        ("LID", lids.base.to_string()),
        ("LMC", lids.lmc.get().to_string()),
        ("MTU", port.capability.mtu.bytes().to_string()),
        ("lanes", PortCapability::lanes_of_code(port.capability.vls).to_string()),
        ("GUIDs", port.capability.guids.to_string()),
    ]
}

fn end(fabric: &Fabric, at: PortRef) -> End {
    (fabric.node(at.node).guid, at.port)
}

fn links(fabric: &Fabric) -> BTreeMap<(End, End), String> {
    let link = |link: Link| ((end(fabric, link.a), end(fabric, link.b)), link_name(fabric, link));
    fabric.links().map(link).collect()
}

fn link_name(fabric: &Fabric, link: Link) -> String {
    format!("{} - {}", fabric.port_name(link.a), fabric.port_name(link.b))
}

#[cfg(test)]
mod tests {
    use selvedge_types::{LidRange, LinkSpeed, LinkWidth, Lmc, NodeKind, PhysState};

    use super::*;
    use crate::{FabricBuilder, LinkState};

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

    /// A switch and a host with LIDs and a link, changed by `change`.
    fn changed(change: impl Fn(&mut Node)) -> Fabric {
        let port = |n| PortNum::new(n).unwrap();
        let mut b = FabricBuilder::new();
        let mut nodes = [
            Node::new(NodeKind::Switch, Guid(1), 2, "s"),
            Node::new(NodeKind::Ca, Guid(2), 1, "h"),
        ];
        for (lid, node) in (1..).zip(&mut nodes) {
            let end = if node.is_switch() { 0 } else { 1 };
            node.port_mut(port(end)).unwrap().settings.lids = LidRange::single(Lid(lid));
            let linked = node.port_mut(port(1)).unwrap();
            linked.link = LinkState {
                state: PortState::Init,
                phys: PhysState::LinkUp,
                rate: Rate {
                    width: LinkWidth::X4,
                    speed: LinkSpeed::Edr,
                },
            };
            change(node);
        }
        let [s, h] = nodes.map(|node| b.add(node));
        b.link((s, port(1)), (h, port(1))).unwrap();
        b.finish().unwrap()
    }

    #[test]
    fn every_attribute_that_files_state_is_compared() {
        let port = |n| PortNum::new(n).unwrap();
        let before = changed(|_| ());
        let check = |change: &dyn Fn(&mut Node), want: &[&str]| {
            let found: Vec<String> = diff(&before, &changed(change))
                .changes
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(found, want);
        };
        let of_host = |change: &'static dyn Fn(&mut Port)| {
            move |node: &mut Node| {
                if !node.is_switch() {
                    change(node.port_mut(PortNum::new(1).unwrap()).unwrap());
                }
            }
        };
        check(&|_| (), &[]);
        let slow = Rate {
            width: LinkWidth::X1,
            speed: LinkSpeed::Sdr,
        };
        check(
            &|node| node.port_mut(port(1)).unwrap().link.rate = slow,
            &["~ link \"s\"[1] - \"h\"[1] rate 4xEDR -> 1xSDR"],
        );
        check(
            &of_host(&|port| port.link.rate.width = LinkWidth::X2),
            &["~ port \"h\"[1] rate 4xEDR -> 2xEDR"],
        );
        check(
            &of_host(&|port| port.settings.lids.base = Lid(55)),
            &["~ port \"h\"[1] LID 2 -> 55"],
        );
        check(
            &of_host(&|port| port.settings.lids = LidRange::default()),
            &["~ port \"h\"[1] LID 2 -> 0"],
        );
        check(
            &of_host(&|port| port.settings.lids.lmc = Lmc::new(1).unwrap()),
            &["~ port \"h\"[1] LMC 0 -> 1"],
        );
        check(
            &of_host(&|port| port.guid = Guid(9)),
            &["~ port \"h\"[1] GUID 0x0000000000000000 -> 0x0000000000000009"],
        );
        check(
            &of_host(&|port| port.capability.vls = 2),
            &["~ port \"h\"[1] lanes 8 -> 2"],
        );
    }

    #[test]
    fn every_attribute_of_a_node_is_compared() {
        let before = changed(|_| ());
        let check = |change: &dyn Fn(&mut Node), want: &str| {
            let after = changed(|node| {
                if node.is_switch() {
                    change(node);
                }
            });
            let found: Vec<String> = diff(&before, &after).changes.iter().map(ToString::to_string).collect();
            assert_eq!(found, [format!("~ node 0x0000000000000001 \"s\" {want}")]);
        };
        check(&|s| s.device_id = 7, "device 0x0 -> 0x7");
        check(&|s| s.vendor_id = 7, "vendor 0x0 -> 0x7");
        check(
            &|s| s.switch.as_mut().unwrap().enhanced_port0 = false,
            "port 0 enhanced -> base",
        );
        check(
            &|s| s.system_guid = Guid(5),
            "system GUID 0x0000000000000001 -> 0x0000000000000005",
        );
    }

    #[test]
    fn a_source_without_lids_differs_from_none() {
        let without = |node: &mut Node| {
            for num in 0..2 {
                if let Some(port) = node.port_mut(PortNum::new(num).unwrap()) {
                    port.settings.lids = LidRange::default();
                }
            }
        };
        assert_eq!(diff(&changed(|_| ()), &changed(without)).changes, []);
    }
}
