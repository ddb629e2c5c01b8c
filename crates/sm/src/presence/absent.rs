//! Finds the reasons why known nodes and links are not found, and the agents that do not answer.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef};
use selvedge_health::{
    Absent, AbsentLink, AbsentNode, End, EndState, How, Known, KnownNode, LinkKey, NodeName, PortKey,
};
use selvedge_planner::{Inventory, PortReason};
use selvedge_types::{Guid, PortNum};

/// Returns the nodes and links that were gone when an earlier run ended.
pub fn of_earlier_run(known: &Known) -> Absent {
    Finder::new(known, None).absent()
}

/// Returns the nodes and links that are gone, and the nodes of this inventory that do not answer.
pub fn of(known: &Known, inventory: &Inventory) -> Absent {
    Absent {
        silent: silent(known, inventory),
        ..Finder::new(known, Some(inventory)).absent()
    }
}

struct Finder<'a> {
    known: &'a Known,
    inventory: Option<&'a Inventory>,
    /// The known nodes that are gone, usually few. After each repair, each link is compared with them.
    gone: BTreeSet<Guid>,
}

impl<'a> Finder<'a> {
    fn new(known: &'a Known, inventory: Option<&'a Inventory>) -> Self {
        let gone = known.nodes.iter().filter(|(_, node)| node.gone.is_some());
        Self {
            known,
            inventory,
            gone: gone.map(|(&guid, _)| guid).collect(),
        }
    }

    fn absent(&self) -> Absent {
        let gone = |guid: Guid| self.gone.contains(&guid);
        let mut of_gone: BTreeMap<Guid, Vec<(PortKey, PortKey)>> = BTreeMap::new();
        let mut links = Vec::new();
        for (&link, since) in &self.known.links {
            let (a, b) = link;
            for (own, far) in [(a, b), (b, a)] {
                if gone(own.0) {
                    of_gone.entry(own.0).or_default().push((own, far));
                }
            }
            if let Some(since) = since.filter(|_| !gone(a.0) && !gone(b.0)) {
                links.push(AbsentLink {
                    ends: (self.end(a), self.end(b)),
                    since,
                    states: (self.state(a), self.state(b)),
                    note: self.note(link),
                });
            }
        }
        let hidden = self.hidden(&of_gone);
        let nodes = self.known.nodes.iter().filter_map(|(&guid, node)| {
            let far: &[(PortKey, PortKey)] = of_gone.get(&guid).map_or(&[], Vec::as_slice);
            let how = match hidden.get(&guid) {
                _ if self.inventory.is_none() => How::Unknown,
                None => How::NoLink,
                Some(&(silent, at)) if silent == guid => How::Silent(self.end(at)),
                Some(&(silent, _)) => How::Behind(self.name(silent)),
            };
            Some(AbsentNode {
                since: node.gone?,
                node: name(guid, node),
                how,
                was_at: far.iter().map(|&(_, far)| self.end(far)).collect(),
            })
        });
        Absent {
            nodes: nodes.collect(),
            links,
            silent: Vec::new(),
        }
    }

    /// For each missing node with a link that leads to it, returns the node that does not answer, and the port in front
    /// of that node. The silent node is the missing node itself, or a node on the route to it.
    fn hidden(&self, of_gone: &BTreeMap<Guid, Vec<(PortKey, PortKey)>>) -> BTreeMap<Guid, (Guid, PortKey)> {
        let mut hidden: BTreeMap<Guid, (Guid, PortKey)> = BTreeMap::new();
        for (&guid, links) in of_gone {
            if let Some(&(_, at)) = links.iter().find(|(_, far)| self.leads_to_silence(*far)) {
                hidden.insert(guid, (guid, at));
            }
        }
        let mut todo: Vec<Guid> = hidden.keys().copied().collect();
        while let Some(guid) = todo.pop() {
            let behind = hidden[&guid];
            for (_, (next, _)) in of_gone.get(&guid).into_iter().flatten() {
                if of_gone.contains_key(next) && !hidden.contains_key(next) {
                    hidden.insert(*next, behind);
                    todo.push(*next);
                }
            }
        }
        hidden
    }

    /// True if the link of a port is up, but no agent answered behind it.
    fn leads_to_silence(&self, (node, port): PortKey) -> bool {
        let is_silent = |inventory: &Inventory| {
            let at = place(&inventory.fabric, (node, port))?;
            let is_up = inventory.fabric.port(at)?.is_up();
            let trouble = inventory.agents.get(at.node)?.troubles.get(&port);
            Some(is_up && trouble == Some(&PortReason::PeerSilent))
        };
        self.inventory.and_then(is_silent) == Some(true)
    }

    fn state(&self, end: PortKey) -> EndState {
        let fabric = &self.inventory?.fabric;
        let port = fabric.port(place(fabric, end)?)?;
        (!port.unread).then_some((port.link.state, port.link.phys))
    }

    /// Returns, in words, where the port at an end of a lost link leads now, or why the manager leaves the link out.
    fn note(&self, (a, b): LinkKey) -> Option<String> {
        let inventory = self.inventory?;
        let fabric = &inventory.fabric;
        let leads_to = |(own, lost): (PortKey, PortKey)| {
            let at = place(fabric, own)?;
            let far = fabric.peer(at).filter(|_| fabric.link_is_up(at))?;
            let is_other = (fabric.node(far.node).guid, far.port) != lost;
            is_other.then(|| format!("{} now leads to {}", self.end(own), fabric.port_name(far)))
        };
        let left_out = |own: PortKey| {
            let troubles = &inventory.agents.get(fabric.find(own.0)?)?.troubles;
            let why = troubles.get(&own.1)?;
            matches!(
                why,
                PortReason::LeftOut | PortReason::OutOfService | PortReason::NotStored | PortReason::DuplicateGuid
            )
            .then(|| format!("{}: {why}", self.end(own)))
        };
        let moved = [(a, b), (b, a)].into_iter().find_map(leads_to);
        moved.or_else(|| [a, b].into_iter().find_map(left_out))
    }

    fn end(&self, (node, port): PortKey) -> End {
        let known = self.known.nodes.get(&node);
        End {
            node,
            name: known.map(|known| known.name.clone()).unwrap_or_default(),
            port,
        }
    }

    fn name(&self, guid: Guid) -> NodeName {
        let node = self.known.nodes.get(&guid);
        node.map_or_else(
            || NodeName {
                guid,
                kind: selvedge_types::NodeKind::Switch,
                name: String::new(),
            },
            |node| name(guid, node),
        )
    }
}

/// Returns nodes in the fabric that did not answer: hosts behind links that were never lost, and switches that left
/// some requests unanswered.
fn silent(known: &Known, inventory: &Inventory) -> Vec<(NodeName, Option<End>)> {
    let fabric = &inventory.fabric;
    let mut found: BTreeSet<Guid> = BTreeSet::new();
    let mut silent = Vec::new();
    for (node, agent) in inventory.agents.iter_enumerated() {
        for (&port, _) in agent.troubles.iter().filter(|(_, why)| **why == PortReason::PeerSilent) {
            let at = PortRef { node, port };
            let (who, before) = match port {
                PortNum::MANAGEMENT => (Some(node), None),
                _ => (fabric.peer(at).map(|far| far.node), Some(at)),
            };
            let is_one = |&who: &selvedge_fabric::NodeIdx| port == PortNum::MANAGEMENT || !fabric.node(who).is_switch();
            let Some(who) = who.filter(is_one) else { continue };
            let guid = fabric.node(who).guid;
            let Some(named) = known.nodes.get(&guid).filter(|_| found.insert(guid)) else {
                continue;
            };
            let end = before.map(|at| End {
                node: fabric.node(at.node).guid,
                name: fabric.node(at.node).description.clone(),
                port: at.port,
            });
            silent.push((name(guid, named), end));
        }
    }
    silent
}

fn name(guid: Guid, node: &KnownNode) -> NodeName {
    NodeName {
        guid,
        kind: node.kind,
        name: node.name.clone(),
    }
}

fn place(fabric: &Fabric, (node, port): PortKey) -> Option<PortRef> {
    let node = fabric.find(node)?;
    Some(PortRef { node, port })
}
