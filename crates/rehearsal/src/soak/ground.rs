//! The fabric of a schedule as it was built, for faults to choose from.

use selvedge_fabric::{Fabric, Link, NodeIdx};

/// The nodes and cables of the fabric as it was built.
pub struct Ground<'a> {
    pub fabric: &'a Fabric,
    pub links: Vec<Link>,
}

impl<'a> Ground<'a> {
    pub fn new(fabric: &'a Fabric) -> Self {
        let links = fabric.links().collect();
        Self { fabric, links }
    }

    /// Returns the name of a cable, by one of its ends.
    pub fn link(&self, pick: u32) -> String {
        let count = self.links.len().max(1);
        let link = self.links.get(pick as usize % count);
        link.map_or_else(String::new, |link| self.fabric.port_name(link.a))
    }

    /// Returns the name of a node.
    pub fn node(&self, pick: u32) -> String {
        let count = u32::try_from(self.fabric.nodes().len().max(1)).unwrap_or(1);
        self.name(NodeIdx(pick % count))
    }

    /// Returns the name of a switch.
    pub fn switch(&self, pick: u32) -> String {
        let switches = self.fabric.switches().as_slice();
        self.name(switches[pick as usize % switches.len()])
    }

    /// Returns the name of a node.
    pub fn name(&self, node: NodeIdx) -> String {
        format!("\"{}\"", self.fabric.node(node).description)
    }

    /// Returns the names of the cables between two parts of the fabric. One bit of a hash of each switch decides its
    /// part.
    pub fn between(&self, pick: u32) -> Vec<String> {
        let side = |node: NodeIdx| match self.fabric.node(node).is_switch() {
            true => (node.0 + 1).wrapping_mul(pick | 1).wrapping_mul(0x9E37_79B1) >> 31,
            false => 2,
        };
        let is_between = |link: &&Link| {
            let (a, b) = (side(link.a.node), side(link.b.node));
            a != 2 && b != 2 && a != b
        };
        let between = self.links.iter().filter(is_between);
        between.map(|link| self.fabric.port_name(link.a)).collect()
    }
}
