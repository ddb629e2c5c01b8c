//! Switches of a fabric by position, and their ports as numbers.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::NodeIdx;

/// A set of switches: bit `n` is the switch at position `n`.
pub(super) type Switches = u64;

/// The most switches that are watched: a bit each.
const SWITCHES_MAX: usize = 64;

/// Switches by position. Port `p` of the switch at position `s` has the number `s × stride + p`.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    switches: Vec<NodeIdx>,
    /// Position of a node among the switches.
    position: Vec<Option<u8>>,
    stride: usize,
}

impl Layout {
    pub fn new(chassis: &Chassis) -> Self {
        let fabric = chassis.fabric();
        let switches: Vec<NodeIdx> = fabric.switches().iter().copied().take(SWITCHES_MAX).collect();
        let mut position = vec![None; fabric.nodes().len()];
        for (at, node) in (0_u8..).zip(&switches) {
            position[node.0 as usize] = Some(at);
        }
        let ports = switches.iter().map(|&s| usize::from(fabric.node(s).port_count()) + 1);
        Self {
            position,
            stride: ports.max().unwrap_or(1),
            switches,
        }
    }

    /// Returns all switches, by position.
    pub fn switches(&self) -> &[NodeIdx] {
        &self.switches
    }

    pub const fn stride(&self) -> usize {
        self.stride
    }

    /// Returns how many port numbers there are.
    pub const fn ports(&self) -> usize {
        self.switches.len() * self.stride
    }

    /// Returns the switch at a position.
    pub fn switch(&self, position: usize) -> Option<NodeIdx> {
        self.switches.get(position).copied()
    }

    /// Returns the position of a switch.
    pub fn position(&self, node: NodeIdx) -> Option<u8> {
        self.position.get(node.0 as usize).copied().flatten()
    }

    /// Returns the port with a number.
    pub fn port(&self, chassis: &Chassis, number: usize) -> Option<PortIdx> {
        let (switch, port) = (number / self.stride, number % self.stride);
        chassis.port_at(self.switch(switch)?, u8::try_from(port).ok()?)
    }
}
