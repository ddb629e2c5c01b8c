//! Reads the output of `ibnetdiscover`.

use std::collections::BTreeMap;

use selvedge_types::{Guid, NodeKind};

use super::{between, guid, unread};
use crate::LabError;

/// A fabric as `ibnetdiscover` saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Nodes by GUID.
    pub nodes: BTreeMap<Guid, DiscoveredNode>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredNode {
    /// The kind of node.
    pub kind: NodeKind,
    /// The node's description.
    pub name: String,
    /// Number of ports.
    pub port_count: u16,
    /// LID of a switch; hosts have one per port.
    pub lid: Option<u16>,
    /// The node's connected ports, by number.
    pub ports: BTreeMap<u8, DiscoveredPort>,
}

/// A connected port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredPort {
    /// The port's own GUID. All ports of a switch have the same one.
    pub guid: Guid,
    /// Node at the other end.
    pub peer: Guid,
    /// Port at the other end.
    pub peer_port: u8,
    /// LID of this port; 0 on switches.
    pub lid: u16,
}

impl Discovery {
    /// Reads the output of `ibnetdiscover`.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        let mut found = Self::default();
        let mut current = None;
        for line in text.lines() {
            if let Some(node) = header(line) {
                let (guid, node) = node?;
                current = Some(guid);
                found.nodes.insert(guid, node);
            } else if line.starts_with('[') {
                let node = current.and_then(|guid| found.nodes.get_mut(&guid));
                let node = node.ok_or_else(|| unread("a node before its ports", line))?;
                let guid = current.unwrap_or_default();
                let (number, port) = port(line, guid, node.kind).ok_or_else(|| unread("a port", line))?;
                node.ports.insert(number, port);
            }
        }
        Ok(found)
    }

    /// Number of switches.
    #[must_use]
    pub fn switches(&self) -> usize {
        self.count(NodeKind::Switch)
    }

    /// Number of hosts.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.count(NodeKind::Ca)
    }

    /// Number of cables; each is seen from both ends.
    #[must_use]
    pub fn links(&self) -> usize {
        self.nodes.values().map(|node| node.ports.len()).sum::<usize>() / 2
    }

    /// LIDs of all hosts' connected ports, ascending.
    #[must_use]
    pub fn host_lids(&self) -> Vec<u16> {
        let hosts = self.nodes.values().filter(|node| node.kind == NodeKind::Ca);
        let mut lids: Vec<_> = hosts
            .flat_map(|node| node.ports.values().map(|port| port.lid))
            .collect();
        lids.sort_unstable();
        lids
    }

    /// LIDs of all switches, ascending.
    #[must_use]
    pub fn switch_lids(&self) -> Vec<u16> {
        let mut lids: Vec<_> = self.nodes.values().filter_map(|node| node.lid).collect();
        lids.sort_unstable();
        lids
    }

    fn count(&self, kind: NodeKind) -> usize {
        self.nodes.values().filter(|node| node.kind == kind).count()
    }
}

/// Reads the first line of a node: `Switch\t8 "S-0000000000200001"\t\t# "S2" base port 0 lid 3 lmc 0`
fn header(line: &str) -> Option<Result<(Guid, DiscoveredNode), LabError>> {
    let (word, rest) = line.split_once(char::is_whitespace)?;
    let kind = match word {
        "Switch" => NodeKind::Switch,
        "Ca" | "Hca" => NodeKind::Ca,
        "Rt" => NodeKind::Router,
        _ => return None,
    };
    let node = || {
        let port_count = rest.split_whitespace().next()?.parse().ok()?;
        let (id, comment) = (between(rest, "\"", "\"")?, rest.split_once('#')?.1);
        let lid = between(comment, " lid ", " ").and_then(|lid| lid.parse().ok());
        let node = DiscoveredNode {
            kind,
            name: between(comment, "\"", "\"")?.to_owned(),
            port_count,
            lid: if kind == NodeKind::Switch { Some(lid?) } else { None },
            ports: BTreeMap::new(),
        };
        Some((guid(id.split_once('-')?.1)?, node))
    };
    Some(node().ok_or_else(|| unread("a node", line)))
}

/// Reads the line of a port: `[1](100007) \t"S-0000000000200001"[2]\t\t# lid 6 lmc 0 "S2" lid 3 4xSDR`
fn port(line: &str, node: Guid, kind: NodeKind) -> Option<(u8, DiscoveredPort)> {
    let number = between(line, "[", "]")?.parse().ok()?;
    let (own, _) = line.split_once('"')?;
    let rest = line.split_once('"')?.1;
    let (id, rest) = rest.split_once('"')?;
    let lid = between(rest, "# lid ", " ").and_then(|lid| lid.parse().ok());
    let port = DiscoveredPort {
        guid: if kind == NodeKind::Switch {
            node
        } else {
            self::guid(between(own, "(", ")")?)?
        },
        peer: guid(id.split_once('-')?.1)?,
        peer_port: between(rest, "[", "]")?.parse().ok()?,
        lid: if kind == NodeKind::Switch { 0 } else { lid? },
    };
    Some((number, port))
}
