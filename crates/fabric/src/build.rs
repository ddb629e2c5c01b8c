//! Builds snapshots and refuses contradictions.

use selvedge_types::{Guid, PortNum};

use crate::{Fabric, Node, NodeIdx, PortRef};

/// A node of a builder: its index in order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey(usize);

/// Reason why a fabric cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// SLV-FABRIC-0001: two nodes have the same GUID.
    #[error("SLV-FABRIC-0001: nodes \"{first}\" and \"{second}\" both have the GUID {guid}; every node needs its own")]
    DuplicateGuid {
        /// The GUID.
        guid: Guid,
        /// Description of the first node.
        first: String,
        /// Description of the second node.
        second: String,
    },
    /// SLV-FABRIC-0002: a cable leads to a port that does not exist.
    #[error("SLV-FABRIC-0002: \"{node}\" has no external port {port}: it has ports 1-{count}")]
    NoSuchPort {
        /// Description of the node.
        node: String,
        /// The port given.
        port: PortNum,
        /// Number of the node's external ports.
        count: u8,
    },
    /// SLV-FABRIC-0003: one port has two different cables.
    #[error("SLV-FABRIC-0003: \"{node}\"[{port}] is cabled to {old} and to {new}; a port has one cable")]
    Contradiction {
        /// Description of the node.
        node: String,
        /// The port.
        port: PortNum,
        /// The earlier peer.
        old: String,
        /// The other peer.
        new: String,
    },
    /// SLV-FABRIC-0004: a port is cabled to itself.
    #[error("SLV-FABRIC-0004: \"{node}\"[{port}] is cabled to itself")]
    SelfLink {
        /// Description of the node.
        node: String,
        /// The port.
        port: PortNum,
    },
}

/// Collects nodes and cables, then sorts and checks them.
#[derive(Clone, Debug, Default)]
pub struct FabricBuilder {
    nodes: Vec<Node>,
    /// The other end of every port's cable, by node and port number.
    peers: Vec<Vec<Option<(NodeKey, PortNum)>>>,
}

impl FabricBuilder {
    /// Returns an empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node. [`Self::finish`] finds duplicate GUIDs.
    pub fn add(&mut self, mut node: Node) -> NodeKey {
        for port in node.ports.make_mut() {
            port.peer = None;
        }
        self.peers.push(vec![None; node.ports.len()]);
        self.nodes.push(node);
        NodeKey(self.nodes.len() - 1)
    }

    /// Returns a node.
    #[must_use]
    pub fn node(&self, key: NodeKey) -> &Node {
        &self.nodes[key.0]
    }

    /// Returns a node for changes.
    pub fn node_mut(&mut self, key: NodeKey) -> &mut Node {
        &mut self.nodes[key.0]
    }

    /// Returns all nodes so far.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeKey, &Node)> {
        self.nodes.iter().enumerate().map(|(i, n)| (NodeKey(i), n))
    }

    /// Returns the other end of a port's cable, if it has one.
    #[must_use]
    pub fn peer(&self, node: NodeKey, port: PortNum) -> Option<(NodeKey, PortNum)> {
        *self.peers.get(node.0)?.get(port.index())?
    }

    /// Connects two external ports by a cable. Repeating the same cable, from either end, is no error.
    pub fn link(&mut self, a: (NodeKey, PortNum), b: (NodeKey, PortNum)) -> Result<(), BuildError> {
        if a == b {
            return Err(BuildError::SelfLink {
                node: self.nodes[a.0.0].description.clone(),
                port: a.1,
            });
        }
        for (this, other) in [(a, b), (b, a)] {
            let node = &self.nodes[this.0.0];
            if this.1 == PortNum::MANAGEMENT || this.1.get() > node.port_count() {
                let (port, count) = (this.1, node.port_count());
                return Err(BuildError::NoSuchPort {
                    node: node.description.clone(),
                    port,
                    count,
                });
            }
            if let Some(old) = self.peer(this.0, this.1).filter(|&old| old != other) {
                return Err(BuildError::Contradiction {
                    node: node.description.clone(),
                    port: this.1,
                    old: self.name(old),
                    new: self.name(other),
                });
            }
        }
        for (this, other) in [(a, b), (b, a)] {
            self.peers[this.0.0][this.1.index()] = Some(other);
        }
        Ok(())
    }

    /// Removes the cable at a port. Returns true if there was one.
    pub fn unlink(&mut self, node: NodeKey, port: PortNum) -> bool {
        let Some((peer, peer_port)) = self.peer(node, port) else {
            return false;
        };
        self.peers[node.0][port.index()] = None;
        self.peers[peer.0][peer_port.index()] = None;
        true
    }

    /// Sorts by GUID and returns the immutable fabric.
    pub fn finish(self) -> Result<Fabric, BuildError> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|&i| self.nodes[i].guid);
        if let Some(pair) = order
            .windows(2)
            .find(|w| self.nodes[w[0]].guid == self.nodes[w[1]].guid)
        {
            return Err(BuildError::DuplicateGuid {
                guid: self.nodes[pair[0]].guid,
                first: self.nodes[pair[0]].description.clone(),
                second: self.nodes[pair[1]].description.clone(),
            });
        }
        let mut position = vec![0_u32; order.len()];
        for (new, &old) in order.iter().enumerate() {
            position[old] = u32::try_from(new).unwrap_or(u32::MAX);
        }
        let mut slots: Vec<Option<(Node, _)>> = self.nodes.into_iter().zip(self.peers).map(Some).collect();
        let mut sorted: Vec<(Node, _)> = order.iter().filter_map(|&i| slots[i].take()).collect();
        for (node, peers) in &mut sorted {
            for (port, peer) in node.ports.make_mut().iter_mut().zip(peers) {
                port.peer = peer.map(|(peer, port)| PortRef {
                    node: NodeIdx(position[peer.0]),
                    port,
                });
            }
        }
        let nodes = sorted.into_iter().map(|(node, _)| node).collect();
        Ok(Fabric::from_sorted(nodes))
    }

    fn name(&self, (node, port): (NodeKey, PortNum)) -> String {
        format!("\"{}\"[{port}]", self.nodes[node.0].description)
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::NodeKind;

    use super::*;

    fn port(n: u8) -> PortNum {
        PortNum::new(n).unwrap()
    }

    #[test]
    fn nodes_are_in_guid_order_and_links_symmetric() {
        let mut b = FabricBuilder::new();
        let host = b.add(Node::new(NodeKind::Ca, Guid(9), 1, "h"));
        let sw = b.add(Node::new(NodeKind::Switch, Guid(3), 4, "s"));
        b.link((host, port(1)), (sw, port(4))).unwrap();
        b.link((sw, port(4)), (host, port(1))).unwrap();
        let fabric = b.finish().unwrap();
        assert_eq!(fabric.node(NodeIdx(0)).description, "s");
        let host_port = PortRef {
            node: NodeIdx(1),
            port: port(1),
        };
        let switch_port = PortRef {
            node: NodeIdx(0),
            port: port(4),
        };
        assert_eq!(fabric.peer(host_port), Some(switch_port));
        assert_eq!(fabric.peer(switch_port), Some(host_port));
        assert_eq!(fabric.links().count(), 1);
        assert_eq!(fabric.host_count(), 1);
    }

    #[test]
    fn contradictions_are_refused() {
        let mut b = FabricBuilder::new();
        let s = b.add(Node::new(NodeKind::Switch, Guid(1), 2, "s"));
        let t = b.add(Node::new(NodeKind::Switch, Guid(1), 2, "t"));
        b.link((s, port(1)), (t, port(1))).unwrap();
        assert!(matches!(
            b.link((s, port(1)), (t, port(2))),
            Err(BuildError::Contradiction { .. })
        ));
        assert!(matches!(
            b.link((s, port(2)), (t, port(3))),
            Err(BuildError::NoSuchPort { .. })
        ));
        assert!(matches!(
            b.link((s, port(0)), (t, port(2))),
            Err(BuildError::NoSuchPort { .. })
        ));
        assert!(matches!(
            b.link((s, port(2)), (s, port(2))),
            Err(BuildError::SelfLink { .. })
        ));
        assert!(matches!(b.finish(), Err(BuildError::DuplicateGuid { .. })));
    }

    #[test]
    fn a_cable_can_be_taken_away() {
        let mut b = FabricBuilder::new();
        let s = b.add(Node::new(NodeKind::Switch, Guid(1), 2, "s"));
        b.link((s, port(1)), (s, port(2))).unwrap();
        assert!(b.unlink(s, port(2)));
        assert!(!b.unlink(s, port(1)));
        assert_eq!(b.finish().unwrap().links().count(), 0);
    }
}
