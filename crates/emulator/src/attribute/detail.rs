//! Optional attributes of performance management with rows of counters: causes of errors, per VL, per SL, congestion.

use selvedge_chassis::{Chassis, DetailRow, PortIdx};
use selvedge_wire::{AttributeId, CounterAttribute, GmpData, SelectedRow, Status};

use super::port_counters::{selected_ports, shown};

/// Returns an attribute and the row that it shows, if it is one of these and the agent behind `ingress` has it.
fn access(
    chassis: &Chassis,
    ingress: PortIdx,
    id: AttributeId,
) -> Result<(&'static CounterAttribute, DetailRow), Status> {
    const ALL: &[CounterAttribute] = &CounterAttribute::ALL;
    if !chassis.pma(chassis.wire(ingress).node()).details {
        return Err(Status::BAD_METHOD_ATTRIBUTE);
    }
    // The rows are in the order of the attributes; those of fast links come after them.
    let mut known = ALL.iter().zip(DetailRow::ALL);
    let found = known.find(|(attribute, _)| attribute.id == id);
    found.ok_or(Status::BAD_METHOD_ATTRIBUTE)
}

pub(crate) fn get(chassis: &Chassis, ingress: PortIdx, id: AttributeId, data: &GmpData) -> Result<GmpData, Status> {
    let (attribute, row) = access(chassis, ingress, id)?;
    let asked = attribute.parse(data).map_err(|_| Status::BAD_FIELD)?;
    let mut sum = [0_u64; 16];
    for port in selected_ports(chassis, ingress, asked.port_select)? {
        for (total, count) in sum.iter_mut().zip(chassis.detail(port, row)) {
            *total = total.saturating_add(count);
        }
    }
    let pma = chassis.pma(chassis.wire(ingress).node());
    // Counters have at most 32 bits, so none is cut.
    let values = sum.map(|count| shown(&pma, count, attribute.bits) as u32);
    Ok(attribute.emit(SelectedRow { values, ..asked }))
}

pub(crate) fn set(chassis: &mut Chassis, ingress: PortIdx, id: AttributeId, data: &GmpData) -> Result<GmpData, Status> {
    let (attribute, row) = access(chassis, ingress, id)?;
    let wanted = attribute.parse(data).map_err(|_| Status::BAD_FIELD)?;
    for port in selected_ports(chassis, ingress, wanted.port_select)? {
        let counters = chassis.detail_mut(port, row).iter_mut().zip(wanted.values);
        for (bit, (counter, value)) in counters.enumerate().take(attribute.count) {
            if wanted.counter_select >> bit & 1 != 0 {
                *counter = value.into();
            }
        }
    }
    get(chassis, ingress, id, data)
}
