//! NodeInfo: read only; LocalPortNum and PortGUID depend on the port that received the request.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_wire::{Attribute, NodeInfo, SmpData};

use super::mlnx_ext_port_info;

pub(crate) fn describe(chassis: &Chassis, ingress: PortIdx) -> SmpData {
    let wire = chassis.wire(ingress);
    let node = chassis.fabric().node(wire.node());
    let (vendor_id, device_id) = mlnx_ext_port_info::device(node);
    NodeInfo {
        base_version: 1,
        class_version: 1,
        kind: node.kind,
        port_count: node.port_count(),
        system_guid: chassis.system_guid(wire.node()),
        node_guid: chassis.node_guid(wire.node()),
        port_guid: chassis.port_guid(chassis.end_port(ingress)),
        partition_cap: node.partition_cap,
        device_id,
        revision: node.revision,
        local_port: wire.num().get(),
        vendor_id,
    }
    .emit()
}
