//! GUIDInfo: eight GUIDs per block; entry 0 of block 0 is the port's own and cannot be Set.

use selvedge_chassis::{Chassis, PortIdx, TableKind};
use selvedge_types::Guid;
use selvedge_wire::{Attribute, GuidInfo, SmpData, Status};

use super::Request;

pub(crate) fn get(chassis: &Chassis, request: &Request) -> Result<SmpData, Status> {
    let (port, first, cap) = place(chassis, request)?;
    let own = chassis.port_guid(port);
    let table = &chassis.port(port).guids;
    // `guids` begins with entry 1.
    let entry = |index: usize| match index {
        0 => own,
        index if index < cap => table.get(index - 1).copied().unwrap_or(Guid::NONE),
        _ => Guid::NONE,
    };
    let info = GuidInfo {
        guids: core::array::from_fn(|i| entry(first + i)),
    };
    Ok(info.emit())
}

pub(crate) fn set(chassis: &mut Chassis, request: &Request, data: &SmpData) -> Result<SmpData, Status> {
    let wanted = GuidInfo::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let (port, first, cap) = place(chassis, request)?;
    let table = &mut chassis.port_mut(port, TableKind::Guids).guids;
    table.resize(cap.saturating_sub(1), Guid::NONE);
    for (index, guid) in (first..).zip(wanted.guids) {
        if let Some(entry) = index.checked_sub(1).and_then(|i| table.get_mut(i)) {
            *entry = guid;
        }
    }
    get(chassis, request)
}

/// Returns the end port, the index of the first entry of the block, and the number of entries of the port.
fn place(chassis: &Chassis, request: &Request) -> Result<(PortIdx, usize, usize), Status> {
    let port = chassis.end_port(request.ingress);
    let built = chassis.fabric().port(chassis.port_ref(port));
    let cap = usize::from(built.map_or(1, |p| p.capability.guids));
    let first = usize::try_from(request.modifier)
        .ok()
        .and_then(|block| block.checked_mul(GuidInfo::PER_BLOCK))
        .filter(|&first| first < cap)
        .ok_or(Status::BAD_FIELD)?;
    Ok((port, first, cap))
}
