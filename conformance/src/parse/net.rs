//! Topology files: ibsim's net files and listings of `ibnetdiscover`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_types::{Guid, NodeKind};

use super::{between, guid, unread};
use crate::LabError;

/// A fabric as a topology file describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Net {
    /// Nodes by GUID.
    pub nodes: BTreeMap<Guid, NetNode>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetNode {
    /// The kind of node.
    pub kind: NodeKind,
    /// The name that ibsim's clients use for the node.
    pub id: String,
    /// Number of ports.
    pub port_count: u16,
    /// The far end of each cable, by the number of this node's port.
    pub cables: BTreeMap<u8, (Guid, u8)>,
}

/// The part of a fabric that one manager can reach. Hosts do not forward, so parts that are joined only by hosts are
/// separate subnets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plane {
    /// The nodes of this plane, with the cables of this plane only.
    pub net: Net,
    /// Id of a node from which ibsim's clients see this plane: a host with its first port in it, or a switch. (A client
    /// attaches to the first port of a host, or to a switch.)
    pub seat: String,
}

impl Net {
    /// Reads a topology file. Before each node there must be a line with its GUID.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        let mut net = Self::default();
        let mut by_id = BTreeMap::new();
        let mut ends = Vec::new();
        let (mut announced, mut current) = (None, None);
        for line in text.lines() {
            if let Some((_, number)) = guid_line(line) {
                announced = Some(guid(number).ok_or_else(|| unread("a GUID", line))?);
            } else if let Some(node) = header(line) {
                let guid = announced.take().ok_or_else(|| unread("a GUID before the node", line))?;
                by_id.insert(node.id.clone(), guid);
                net.nodes.insert(guid, node);
                current = Some(guid);
            } else if line.starts_with('[') {
                let node = current.ok_or_else(|| unread("a node before its ports", line))?;
                let (port, peer, peer_port) = cable(line).ok_or_else(|| unread("a cable", line))?;
                ends.push((node, port, peer.to_owned(), peer_port, line));
            }
        }
        for (node, port, peer, peer_port, line) in ends {
            let &peer = by_id.get(&peer).ok_or_else(|| unread("a node of the file", line))?;
            net.connect((node, port), (peer, peer_port));
            // Real listings name some cables at one end only.
            net.connect((peer, peer_port), (node, port));
        }
        Ok(net)
    }

    fn connect(&mut self, from: (Guid, u8), to: (Guid, u8)) {
        if let Some(node) = self.nodes.get_mut(&from.0) {
            node.cables.insert(from.1, to);
        }
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

    /// Number of cables.
    #[must_use]
    pub fn cables(&self) -> usize {
        self.nodes.values().map(|node| node.cables.len()).sum::<usize>() / 2
    }

    /// Returns the far end of the cable at a port.
    #[must_use]
    pub fn peer(&self, node: Guid, port: u8) -> Option<(Guid, u8)> {
        self.nodes.get(&node)?.cables.get(&port).copied()
    }

    /// True for a switch of this fabric.
    #[must_use]
    pub fn is_switch(&self, node: Guid) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.kind == NodeKind::Switch)
    }

    /// Returns the planes of this fabric, in the order of their first switch. A host without a cable is in no plane.
    #[must_use]
    pub fn planes(&self) -> Vec<Plane> {
        let mut left: BTreeSet<Guid> = self
            .nodes
            .keys()
            .copied()
            .filter(|&node| self.is_switch(node))
            .collect();
        let mut planes = Vec::new();
        while let Some(first) = left.pop_first() {
            let mut plane = Self::default();
            let mut queue = VecDeque::from([first]);
            while let Some(switch) = queue.pop_front() {
                left.remove(&switch);
                let Some(node) = self.nodes.get(&switch) else { continue };
                plane.nodes.insert(switch, node.clone());
                for (&port, &(peer, peer_port)) in &node.cables {
                    if self.is_switch(peer) {
                        queue.extend(left.take(&peer));
                    } else if let Some(host) = self.nodes.get(&peer) {
                        let bare = || NetNode {
                            cables: BTreeMap::new(),
                            ..host.clone()
                        };
                        let host = plane.nodes.entry(peer).or_insert_with(bare);
                        host.cables.insert(peer_port, (switch, port));
                    }
                }
            }
            planes.extend(plane.into_plane());
        }
        planes
    }

    fn into_plane(self) -> Option<Plane> {
        let mut hosts = self.nodes.values().filter(|node| node.kind == NodeKind::Ca);
        let seat = hosts.find(|host| host.cables.contains_key(&1));
        let seat = seat.or_else(|| self.nodes.values().find(|node| node.kind == NodeKind::Switch))?;
        let seat = seat.id.clone();
        Some(Plane { net: self, seat })
    }

    fn count(&self, kind: NodeKind) -> usize {
        self.nodes.values().filter(|node| node.kind == kind).count()
    }
}

/// Reads the line of a GUID: `switchguid=0x25e1e0100000000(25e1e0100000000)`
fn guid_line(line: &str) -> Option<(&str, &str)> {
    let (word, number) = line.split_once('=')?;
    let number = number.split_once('(').map_or(number, |(number, _)| number).trim();
    matches!(word, "switchguid" | "caguid" | "hcaguid" | "rtguid").then_some((word, number))
}

/// Reads the first line of a node: `Switch\t36 "S-L1-0"\t\t# "S-L1-0" enhanced port 0 lid 0 lmc 0`
fn header(line: &str) -> Option<NetNode> {
    let (word, rest) = line.split_once(char::is_whitespace)?;
    let kind = match word {
        "Switch" => NodeKind::Switch,
        "Ca" | "Hca" => NodeKind::Ca,
        "Rt" => NodeKind::Router,
        _ => return None,
    };
    Some(NetNode {
        kind,
        id: between(rest, "\"", "\"")?.to_owned(),
        port_count: rest.split_whitespace().next()?.parse().ok()?,
        cables: BTreeMap::new(),
    })
}

/// Reads the line of a cable, `[1](100007) \t"S2"[2]\t\t# comment`: own port, the other node's id, the other node's
/// port.
fn cable(line: &str) -> Option<(u8, &str, u8)> {
    let port = between(line, "[", "]")?.parse().ok()?;
    let (peer, rest) = line.split_once('"')?.1.split_once('"')?;
    Some((port, peer, between(rest, "[", "]")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two planes of one switch each, joined by a host with two ports.
    const RAILS: &str = "switchguid=0x1(1)\nSwitch\t4 \"A\"\t# \"A\"\n[1]\t\"H\"[1](11)\n[2]\t\"G\"[1]\n\n\
                         switchguid=0x2\nSwitch\t4 \"B\"\n[3]\t\"H\"[2]\n\n\
                         caguid=0x10\nCa\t2 \"H\"\n[1](11) \t\"A\"[1]\n\ncaguid=0x20\nCa\t2 \"G\"\n";

    #[test]
    fn cables_named_once_have_two_ends() {
        let net = Net::parse(RAILS).unwrap();
        assert_eq!((net.switches(), net.hosts(), net.cables()), (2, 2, 3));
        assert_eq!(net.peer(Guid(0x10), 2), Some((Guid(2), 3)));
        assert_eq!(net.peer(Guid(0x20), 1), Some((Guid(1), 2)));
        assert_eq!(net.peer(Guid(0x20), 2), None);
    }

    #[test]
    fn hosts_join_no_planes() {
        let planes = Net::parse(RAILS).unwrap().planes();
        let seen: Vec<_> = planes
            .iter()
            .map(|plane| {
                (
                    plane.seat.as_str(),
                    plane.net.switches(),
                    plane.net.hosts(),
                    plane.net.cables(),
                )
            })
            .collect();
        assert_eq!(seen, [("H", 1, 2, 2), ("B", 1, 1, 1)]);
    }

    #[test]
    fn strange_files_are_errors() {
        for text in [
            "Switch\t4 \"A\"",
            "[1]\t\"A\"[1]",
            "switchguid=0xzz\nSwitch\t4 \"A\"",
            "switchguid=0x1\nSwitch\t4 \"A\"\n[1]\t\"B\"[1]",
            "switchguid=0x1\nSwitch\t4 \"A\"\n[1] to B",
        ] {
            assert!(Net::parse(text).is_err(), "{text}");
        }
    }
}
