//! Compares a fabric with the known nodes and links. Both lists are read once, in order of GUID, because a fabric may
//! have 100,000 links.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, Link, NodeIdx, PortRef};
use selvedge_health::{Known, KnownNode, LinkKey, PortKey, Since};
use selvedge_planner::Inventory;
use selvedge_types::{Guid, Idx};

/// The nodes of a fabric that are present; `None`: all of them.
#[derive(Debug)]
pub struct Reach(Option<Vec<bool>>);

impl Reach {
    /// Returns a reach with all nodes, because a heavy sweep has just found them.
    pub const fn all() -> Self {
        Self(None)
    }

    /// Returns the nodes to which links that are up lead from the manager.
    pub fn of(inventory: &Inventory) -> Self {
        let fabric = &inventory.fabric;
        let mut reached = vec![false; fabric.nodes().len()];
        let mut todo = vec![inventory.local.node];
        while let Some(node) = todo.pop() {
            if std::mem::replace(&mut reached[node.to_usize()], true) {
                continue;
            }
            // A channel adapter forwards nothing: only the manager's own one leads on.
            let is_way = fabric.node(node).is_switch() || node == inventory.local.node;
            for (port, _) in fabric.node(node).external_ports().filter(|_| is_way) {
                let at = PortRef { node, port };
                let far = fabric.peer(at).filter(|far| !reached[far.node.to_usize()]);
                todo.extend(far.filter(|_| fabric.link_is_up(at)).map(|far| far.node));
            }
        }
        Self(Some(reached))
    }

    fn has(&self, node: NodeIdx) -> bool {
        self.0.as_ref().is_none_or(|reached| reached[node.to_usize()])
    }
}

/// A difference from the known nodes and links.
#[derive(Debug)]
pub enum Change {
    /// A node is new, has returned, or has another name.
    Node(Guid, KnownNode),
    /// A node is gone.
    NodeGone(Guid),
    /// A link is new, or has returned.
    Link(LinkKey),
    /// A link is gone.
    LinkGone(LinkKey),
}

/// Returns the differences of a fabric from the known nodes and links.
pub fn changes(known: &Known, fabric: &Fabric, reach: &Reach) -> Vec<Change> {
    let mut changes = Vec::new();
    let there = fabric.nodes().iter_enumerated().filter(|(node, _)| reach.has(*node));
    let there = there.map(|(_, node)| (node.guid, node));
    merge(&known.nodes, there, |guid, known, node| match (known, node) {
        (Some(known), Some(node)) => {
            // If the answer with its name was lost, the name is empty: the node keeps the known one.
            let is_named = node.description.is_empty() || node.description == known.name;
            if known.gone.is_some() || !is_named || known.kind != node.kind {
                let name = if is_named { &known.name } else { &node.description };
                changes.push(Change::Node(guid, known_node(node, name)));
            }
        }
        (None, Some(node)) => changes.push(Change::Node(guid, known_node(node, &node.description))),
        (Some(known), None) if known.gone.is_none() => changes.push(Change::NodeGone(guid)),
        (_, None) => {}
    });
    let links = fabric.links();
    let there = links.filter(|link| fabric.link_is_up(link.a) && reach.has(link.a.node) && reach.has(link.b.node));
    let there = there.map(|link| (key(fabric, link), ()));
    merge(&known.links, there, |link, known, there| match (known, there) {
        (None | Some(Some(_)), Some(())) => changes.push(Change::Link(link)),
        (Some(None), None) => changes.push(Change::LinkGone(link)),
        (Some(None), Some(())) | (Some(Some(_)) | None, None) => {}
    });
    changes
}

/// Applies changes to the known nodes and links.
pub fn apply(known: &mut Known, changes: Vec<Change>, now: Since) {
    for change in changes {
        match change {
            Change::Node(guid, node) => drop(known.nodes.insert(guid, node)),
            Change::NodeGone(guid) => {
                if let Some(node) = known.nodes.get_mut(&guid) {
                    node.gone = Some(now);
                }
            }
            Change::Link(link) => drop(known.links.insert(link, None)),
            Change::LinkGone(link) => drop(known.links.insert(link, Some(now))),
        }
    }
}

/// True if the list of an earlier run belongs to another fabric: at most the manager's own node of that list is found.
pub fn is_other_fabric(known: &Known, inventory: &Inventory) -> bool {
    let fabric = &inventory.fabric;
    let own = fabric.node(inventory.local.node).guid;
    let mut nodes = known.nodes.keys().filter(|guid| **guid != own);
    known.nodes.len() > 1 && nodes.all(|guid| fabric.find(*guid).is_none())
}

/// Returns a link by name.
pub fn key(fabric: &Fabric, link: Link) -> LinkKey {
    let name = |at: PortRef| -> PortKey { (fabric.node(at.node).guid, at.port) };
    let (a, b) = (name(link.a), name(link.b));
    (a.min(b), a.max(b))
}

fn known_node(node: &selvedge_fabric::Node, name: &str) -> KnownNode {
    KnownNode {
        kind: node.kind,
        name: name.to_owned(),
        gone: None,
    }
}

/// Walks a map and a sorted list together.
fn merge<K: Ord + Copy, V, T>(
    map: &BTreeMap<K, V>,
    list: impl Iterator<Item = (K, T)>,
    mut take: impl FnMut(K, Option<&V>, Option<T>),
) {
    let mut map = map.iter().peekable();
    for (key, value) in list {
        while let Some((&before, known)) = map.next_if(|(before, _)| **before < key) {
            take(before, Some(known), None);
        }
        let known = map.next_if(|(same, _)| **same == key).map(|(_, known)| known);
        take(key, known, Some(value));
    }
    for (&after, known) in map {
        take(after, Some(known), None);
    }
}
