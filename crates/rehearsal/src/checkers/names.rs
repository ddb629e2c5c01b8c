//! Names of hardware, for messages.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::NodeIdx;

/// Returns the name of a node.
pub(super) fn node_name(chassis: &Chassis, node: NodeIdx) -> String {
    format!("\"{}\"", chassis.fabric().node(node).description)
}

/// Returns the name of a port.
pub(super) fn port_name(chassis: &Chassis, port: PortIdx) -> String {
    chassis.fabric().port_name(chassis.port_ref(port))
}
