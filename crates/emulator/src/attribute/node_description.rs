//! NodeDescription: read only.

use selvedge_chassis::Chassis;
use selvedge_fabric::NodeIdx;
use selvedge_wire::{Attribute, NodeDescription, SmpData};

pub(crate) fn describe(chassis: &Chassis, node: NodeIdx) -> SmpData {
    NodeDescription::new(&chassis.fabric().node(node).description).emit()
}
