//! P_KeyTable: 32 P_Keys per block; on a switch for port 0 and, if it enforces partitions, for external ports.

use selvedge_chassis::{Chassis, PortIdx, TableKind};
use selvedge_types::PKey;
use selvedge_wire::{Attribute, PKeyTable, SmpData, Status};

use super::{Request, port_named};

pub(crate) fn get(chassis: &Chassis, request: &Request) -> Result<SmpData, Status> {
    let (port, first, _) = place(chassis, request)?;
    let keys = &chassis.port(port).pkeys;
    let table = PKeyTable {
        keys: core::array::from_fn(|i| keys.get(first + i).copied().unwrap_or_default()),
    };
    Ok(table.emit())
}

pub(crate) fn set(chassis: &mut Chassis, request: &Request, data: &SmpData) -> Result<SmpData, Status> {
    let wanted = PKeyTable::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let (port, first, cap) = place(chassis, request)?;
    let keys = &mut chassis.port_mut(port, TableKind::PKeys).pkeys;
    let end = (first + PKeyTable::PER_BLOCK).min(cap);
    if keys.len() < end {
        keys.resize(end, PKey(0));
    }
    keys[first..end].copy_from_slice(&wanted.keys[..end - first]);
    get(chassis, request)
}

/// Returns the port, the index of the first entry of the block, and the number of entries of the port.
fn place(chassis: &Chassis, request: &Request) -> Result<(PortIdx, usize, usize), Status> {
    let is_switch = chassis.is_switch(request.node);
    // Only on a switch does the modifier name a port.
    let num = if is_switch {
        PKeyTable::port(request.modifier)
    } else {
        0
    };
    let num = u8::try_from(num).map_err(|_| Status::BAD_FIELD)?;
    let port = port_named(chassis, request, num)?;
    let cap = match chassis.switch(request.node) {
        Some(switch) if num != 0 => switch.attributes().enforce_cap,
        _ => chassis.fabric().node(request.node).partition_cap,
    };
    let first = usize::from(PKeyTable::block(request.modifier)) * PKeyTable::PER_BLOCK;
    if first >= usize::from(cap) {
        return Err(Status::BAD_FIELD);
    }
    Ok((port, first, usize::from(cap)))
}
