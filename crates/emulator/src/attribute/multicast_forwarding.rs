//! MulticastForwardingTable of switches: 32 LIDs per block, 16 ports per position.

use selvedge_chassis::Chassis;
use selvedge_wire::{Attribute, MulticastForwardingTable, SmpData, Status};

use super::Request;

pub(crate) fn get(chassis: &Chassis, request: &Request) -> Result<SmpData, Status> {
    let switch = chassis.switch(request.node).ok_or(Status::BAD_METHOD_ATTRIBUTE)?;
    let (block, position) = place(request)?;
    let in_table =
        usize::from(block) * MulticastForwardingTable::PER_BLOCK < usize::from(switch.attributes().mcast_cap);
    let ports = chassis.fabric().node(request.node).port_count();
    if !in_table || position > ports / MulticastForwardingTable::PORTS_PER_POSITION {
        return Err(Status::BAD_FIELD);
    }
    let table = MulticastForwardingTable {
        masks: switch.multicast_block(block, position),
    };
    Ok(table.emit())
}

pub(crate) fn set(chassis: &mut Chassis, request: &Request, data: &SmpData) -> Result<SmpData, Status> {
    if !chassis.is_switch(request.node) {
        return Err(Status::BAD_METHOD_ATTRIBUTE);
    }
    let wanted = MulticastForwardingTable::parse(data).map_err(|_| Status::BAD_FIELD)?;
    match chassis.set_multicast_block(request.node, place(request)?, wanted.masks) {
        true => Ok(*data),
        false => Err(Status::BAD_FIELD),
    }
}

/// Source: IBA vol 1 §14.2.5.12: bits 9 to 27 of the modifier are reserved.
fn place(request: &Request) -> Result<(u16, u8), Status> {
    let modifier = request.modifier;
    let (block, position) = (
        MulticastForwardingTable::block(modifier),
        MulticastForwardingTable::position(modifier),
    );
    match MulticastForwardingTable::modifier(block, position) == modifier {
        true => Ok((block, position)),
        false => Err(Status::BAD_FIELD),
    }
}
