//! PortExtendedSpeedsCounters: errors of lanes, and blocks that error correction mended or could not mend.

use selvedge_chassis::{Chassis, DetailRow, PortIdx};
use selvedge_wire::{GmpAttribute, GmpData, PortExtSpeedsCounters, Status};

use super::port_counters::{selected_ports, shown};

/// Number of lanes.
const LANES: usize = PortExtSpeedsCounters::LANES;
/// The rows of the attribute with their numbers of counters, in the order of CounterSelect.
const ROWS: [(DetailRow, usize); 3] = [
    (DetailRow::LaneErrors, 2 + LANES),
    (DetailRow::FecCorrectable, LANES),
    (DetailRow::FecUncorrectable, LANES),
];

pub(crate) fn get(chassis: &Chassis, ingress: PortIdx, data: &GmpData) -> Result<GmpData, Status> {
    let pma = chassis.pma(chassis.wire(ingress).node());
    if !pma.details {
        return Err(Status::BAD_METHOD_ATTRIBUTE);
    }
    let asked = PortExtSpeedsCounters::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let ports = selected_ports(chassis, ingress, asked.port_select)?;
    let sum = |row: DetailRow, at: usize| {
        let counts = ports.iter().map(|port| chassis.detail(*port, row)[at]);
        counts.fold(0, u64::saturating_add)
    };
    // A value that is shown has at most the bits of its field, so none is cut.
    let narrow = |at: usize| shown(&pma, sum(DetailRow::LaneErrors, at), 16) as u16;
    let wide = |row: DetailRow, lane: usize| shown(&pma, sum(row, lane), 32) as u32;
    let answer = PortExtSpeedsCounters {
        port_select: asked.port_select,
        counter_select: asked.counter_select,
        sync_header_errors: narrow(0),
        unknown_blocks: narrow(1),
        lane_errors: core::array::from_fn(|lane| narrow(2 + lane)),
        fec_correctable: core::array::from_fn(|lane| wide(DetailRow::FecCorrectable, lane)),
        fec_uncorrectable: core::array::from_fn(|lane| wide(DetailRow::FecUncorrectable, lane)),
    };
    Ok(answer.emit())
}

/// Source: IBA vol 1 §16.1.4 (PortExtendedSpeedsCounters, CounterSelect: bit 0 SyncHeaderErrorCounter, one bit each
/// counter in their order).
pub(crate) fn set(chassis: &mut Chassis, ingress: PortIdx, data: &GmpData) -> Result<GmpData, Status> {
    let wanted = PortExtSpeedsCounters::parse(data).map_err(|_| Status::BAD_FIELD)?;
    // An agent without the attribute refuses it before anything changes.
    get(chassis, ingress, data)?;
    let errors = [wanted.sync_header_errors, wanted.unknown_blocks].into_iter();
    let errors = errors.chain(wanted.lane_errors).map(u64::from);
    let blocks = wanted.fec_correctable.into_iter().chain(wanted.fec_uncorrectable);
    let values: Vec<u64> = errors.chain(blocks.map(u64::from)).collect();
    let places = ROWS
        .into_iter()
        .flat_map(|(row, count)| (0..count).map(move |at| (row, at)));
    let places: Vec<(DetailRow, usize)> = places.collect();
    for port in selected_ports(chassis, ingress, wanted.port_select)? {
        for (bit, (value, (row, at))) in values.iter().zip(&places).enumerate() {
            if wanted.counter_select >> bit & 1 != 0 {
                chassis.detail_mut(port, *row)[*at] = *value;
            }
        }
    }
    get(chassis, ingress, data)
}
