//! Mellanox's ExtendedPortInfo: FDR10, which PortInfo shows as QDR.
//!
//! infiniband-diags query it if PortInfo shows QDR and the device is from Mellanox. So the emulator reports such a
//! device for a node that runs at FDR10 and has no device id of its own.

use selvedge_chassis::{Chassis, PortIdx, SpeedSet, TableKind};
use selvedge_fabric::Node;
use selvedge_types::{LinkSpeed, NodeKind, PhysState};
use selvedge_wire::{Attribute, MlnxExtPortInfo, SmpData, Status};

use super::{Request, port_named};

/// Mellanox's OUI.
const MELLANOX: u32 = 0x2C9;
/// SwitchX and ConnectX-3, the first devices with FDR10. Source: infiniband-diags 65 (`ibdiag_common.c`).
const SWITCHX: u16 = 0xC738;
const CONNECTX3: u16 = 0x1003;

pub(crate) fn get(chassis: &Chassis, request: &Request) -> Result<SmpData, Status> {
    Ok(describe(chassis, place(chassis, request)?))
}

pub(crate) fn set(chassis: &mut Chassis, request: &Request, data: &SmpData) -> Result<SmpData, Status> {
    let wanted = MlnxExtPortInfo::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let port = place(chassis, request)?;
    if wanted.state_change_enable & MlnxExtPortInfo::FDR10 != 0 {
        let wants = wanted.speed_enabled & MlnxExtPortInfo::FDR10 != 0;
        if wants && !supported(chassis, port).contains(LinkSpeed::Fdr10) {
            return Err(Status::BAD_FIELD);
        }
        let held = &mut chassis.port_mut(port, TableKind::Settings).speeds_enabled;
        *held = match wants {
            true => held.with(LinkSpeed::Fdr10),
            false => held.without(LinkSpeed::Fdr10),
        };
    }
    Ok(describe(chassis, port))
}

/// Returns the vendor and device of a node for NodeInfo.
pub(crate) fn device(node: &Node) -> (u32, u16) {
    match node.kind {
        _ if node.device_id != 0 || !has_fdr10(node) => (node.vendor_id, node.device_id),
        NodeKind::Switch => (MELLANOX, SWITCHX),
        NodeKind::Ca | NodeKind::Router => (MELLANOX, CONNECTX3),
    }
}

fn describe(chassis: &Chassis, port: PortIdx) -> SmpData {
    let held = chassis.port(port);
    let is_up = chassis.wire(port).phys() == PhysState::LinkUp;
    MlnxExtPortInfo {
        state_change_enable: 0,
        speed_supported: bit(supported(chassis, port)),
        speed_enabled: bit(held.speeds_enabled),
        speed_active: if is_up {
            bit(SpeedSet::EMPTY.with(held.rate.speed))
        } else {
            0
        },
    }
    .emit()
}

const fn bit(set: SpeedSet) -> u8 {
    if set.contains(LinkSpeed::Fdr10) {
        MlnxExtPortInfo::FDR10
    } else {
        0
    }
}

fn supported(chassis: &Chassis, port: PortIdx) -> SpeedSet {
    let built = chassis.fabric().port(chassis.port_ref(port));
    built.map_or(SpeedSet::EMPTY, |port| SpeedSet::up_to(port.capability.speed))
}

fn has_fdr10(node: &Node) -> bool {
    node.all_ports()
        .any(|(_, port)| port.capability.speed == LinkSpeed::Fdr10)
}

/// Returns the port that the modifier names. Devices of other vendors do not support the attribute.
fn place(chassis: &Chassis, request: &Request) -> Result<PortIdx, Status> {
    let node = chassis.fabric().node(request.node);
    if node.vendor_id != MELLANOX && !has_fdr10(node) {
        return Err(Status::BAD_METHOD_ATTRIBUTE);
    }
    let num = u8::try_from(request.modifier).map_err(|_| Status::BAD_FIELD)?;
    port_named(chassis, request, num)
}
