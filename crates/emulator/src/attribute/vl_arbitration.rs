//! VLArbitrationTable: up to two blocks of 32 entries for each priority, depending on the port.

use selvedge_chassis::{ArbEntry, Chassis, PortIdx, TableKind, VlArbitration as Tables};
use selvedge_types::Vl;
use selvedge_wire::{Attribute, SmpData, Status, VlArbBlock, VlArbEntry, VlArbitration};

use super::{Request, port_named};

/// Position of a block.
struct Place {
    port: PortIdx,
    high: bool,
    first: usize,
    /// Number of the block's entries that the port has.
    len: usize,
}

pub(crate) fn get(chassis: &Chassis, request: &Request) -> Result<SmpData, Status> {
    let place = place(chassis, request)?;
    let tables = chassis
        .port(place.port)
        .vl_arbitration
        .as_deref()
        .unwrap_or(&Tables::EMPTY);
    let table = if place.high { &tables.high } else { &tables.low };
    let entry = |i: usize| match table.get(place.first + i).filter(|_| i < place.len) {
        Some(entry) => VlArbEntry {
            vl: entry.vl,
            weight: entry.weight,
        },
        None => VlArbEntry::default(),
    };
    let block = VlArbitration {
        entries: core::array::from_fn(entry),
    };
    Ok(block.emit())
}

pub(crate) fn set(chassis: &mut Chassis, request: &Request, data: &SmpData) -> Result<SmpData, Status> {
    let wanted = VlArbitration::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let place = place(chassis, request)?;
    let entries = &wanted.entries[..place.len];
    // Source: IBA vol 1 §7.6.9.2: VL 15 is not arbitrated.
    if entries.iter().any(|e| e.vl == Vl::MANAGEMENT) {
        return Err(Status::BAD_FIELD);
    }
    let port = chassis.port_mut(place.port, TableKind::VlArbitration);
    let tables = port.vl_arbitration.get_or_insert_with(|| Box::new(Tables::EMPTY));
    let table = if place.high { &mut tables.high } else { &mut tables.low };
    for (slot, entry) in table.iter_mut().skip(place.first).zip(entries) {
        *slot = ArbEntry {
            vl: entry.vl,
            weight: entry.weight,
        };
    }
    get(chassis, request)
}

fn place(chassis: &Chassis, request: &Request) -> Result<Place, Status> {
    let num = match chassis.is_switch(request.node) {
        true => u8::try_from(VlArbitration::port(request.modifier)).map_err(|_| Status::BAD_FIELD)?,
        false => 0,
    };
    let port = port_named(chassis, request, num)?;
    let capability = chassis.fabric().port(chassis.port_ref(port)).map(|p| p.capability);
    let capability = capability.ok_or(Status::BAD_FIELD)?;
    let (high, second) = match VlArbitration::block(request.modifier).ok_or(Status::BAD_FIELD)? {
        VlArbBlock::LowFirst => (false, false),
        VlArbBlock::LowSecond => (false, true),
        VlArbBlock::HighFirst => (true, false),
        VlArbBlock::HighSecond => (true, true),
    };
    // Source: IBA vol 1 §14.2.5.9: a table has at most 64 entries.
    let cap = usize::from(
        if high {
            capability.vl_arb_high
        } else {
            capability.vl_arb_low
        }
        .min(64),
    );
    let first = if second { VlArbitration::PER_BLOCK } else { 0 };
    match cap.saturating_sub(first).min(VlArbitration::PER_BLOCK) {
        0 => Err(Status::BAD_FIELD),
        len => Ok(Place { port, high, first, len }),
    }
}
