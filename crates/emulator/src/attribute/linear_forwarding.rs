//! LinearForwardingTable of switches: 64 LIDs per block.

use selvedge_chassis::Chassis;
use selvedge_types::Lid;
use selvedge_wire::{SmpData, Status};

use super::Request;

/// LIDs per block.
const PER_BLOCK: usize = selvedge_wire::LinearForwardingTable::PER_BLOCK;

pub(crate) fn get(chassis: &Chassis, request: &Request) -> Result<SmpData, Status> {
    let switch = chassis.switch(request.node).ok_or(Status::BAD_METHOD_ATTRIBUTE)?;
    let block = block(request)?;
    if block * PER_BLOCK >= usize::from(switch.attributes().linear_cap) {
        return Err(Status::BAD_FIELD);
    }
    Ok(*switch.linear_block(block))
}

/// Stores a block. It is 64 bytes of port numbers both on the wire and in the switch, so nothing is decoded.
pub(crate) fn set(chassis: &mut Chassis, request: &Request, data: &SmpData) -> Result<SmpData, Status> {
    if !chassis.is_switch(request.node) {
        return Err(Status::BAD_METHOD_ATTRIBUTE);
    }
    let block = block(request)?;
    match chassis.set_linear_block(request.node, block, data) {
        true => Ok(*data),
        false => Err(Status::BAD_FIELD),
    }
}

/// Source: IBA vol 1 §14.2.5.10: blocks 0 to 767.
fn block(request: &Request) -> Result<usize, Status> {
    let block = usize::try_from(request.modifier).map_err(|_| Status::BAD_FIELD)?;
    let last = Lid::UNICAST_MAX.index() / PER_BLOCK;
    if block <= last {
        Ok(block)
    } else {
        Err(Status::BAD_FIELD)
    }
}
