//! PortCountersExtended: the full counts of the chassis; a Set writes the selected ones.

use selvedge_chassis::{Chassis, Counters, ExtendedCounters, PortIdx};
use selvedge_wire::{GmpAttribute, GmpData, PortCountersExtended, Status};

use super::port_counters::{selected_ports, slots, sum, values};
use super::port_selected;

/// Number of counters that CounterSelect selects. CounterSelect2 selects the others.
const TRAFFIC_COUNTERS: usize = 8;

/// Returns the number of counters that the agent behind `ingress` has, in the order of the attribute.
fn counters_had(chassis: &Chassis, ingress: PortIdx) -> Result<usize, Status> {
    match chassis.pma(chassis.wire(ingress).node()).extended {
        ExtendedCounters::None => Err(Status::BAD_METHOD_ATTRIBUTE),
        ExtendedCounters::NoIetf => Ok(4),
        ExtendedCounters::Traffic => Ok(TRAFFIC_COUNTERS),
        ExtendedCounters::All => Ok(22),
    }
}

pub(crate) fn get(chassis: &Chassis, ingress: PortIdx, data: &GmpData) -> Result<GmpData, Status> {
    let asked = PortCountersExtended::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let had = counters_had(chassis, ingress)?;
    let mut counters = match port_selected(chassis, ingress, asked.port_select)? {
        Some(port) => chassis.counters(port),
        None => sum(chassis, ingress),
    };
    slots(&mut counters)
        .into_iter()
        .skip(had)
        .for_each(|counter| *counter = 0);
    Ok(describe(&asked, &counters).emit())
}

pub(crate) fn set(chassis: &mut Chassis, ingress: PortIdx, data: &GmpData) -> Result<GmpData, Status> {
    let wanted = PortCountersExtended::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let written = values(&counters_of(&wanted));
    let had = counters_had(chassis, ingress)?;
    let selected = |index: usize| match index.checked_sub(TRAFFIC_COUNTERS) {
        _ if index >= had => false,
        None => wanted.counter_select >> index & 1 != 0,
        Some(bit) => wanted.counter_select2 >> bit & 1 != 0,
    };
    for port in selected_ports(chassis, ingress, wanted.port_select)? {
        for (index, counter) in slots(chassis.counters_mut(port)).into_iter().enumerate() {
            if selected(index) {
                *counter = written[index];
            }
        }
    }
    get(chassis, ingress, data)
}

fn counters_of(w: &PortCountersExtended) -> Counters {
    Counters {
        xmit_data: w.xmit_data,
        rcv_data: w.rcv_data,
        xmit_packets: w.xmit_packets,
        rcv_packets: w.rcv_packets,
        unicast_xmit_packets: w.unicast_xmit_packets,
        unicast_rcv_packets: w.unicast_rcv_packets,
        multicast_xmit_packets: w.multicast_xmit_packets,
        multicast_rcv_packets: w.multicast_rcv_packets,
        symbol_errors: w.symbol_errors,
        link_recoveries: w.link_recoveries,
        link_downed: w.link_downed,
        rcv_errors: w.rcv_errors,
        rcv_remote_physical_errors: w.rcv_remote_physical_errors,
        rcv_switch_relay_errors: w.rcv_switch_relay_errors,
        xmit_discards: w.xmit_discards,
        xmit_constraint_errors: w.xmit_constraint_errors,
        rcv_constraint_errors: w.rcv_constraint_errors,
        local_link_integrity_errors: w.local_link_integrity_errors,
        excessive_buffer_overruns: w.excessive_buffer_overruns,
        vl15_dropped: w.vl15_dropped,
        xmit_wait: w.xmit_wait,
        qp1_dropped: w.qp1_dropped,
    }
}

fn describe(asked: &PortCountersExtended, c: &Counters) -> PortCountersExtended {
    PortCountersExtended {
        port_select: asked.port_select,
        counter_select: asked.counter_select,
        counter_select2: asked.counter_select2,
        xmit_data: c.xmit_data,
        rcv_data: c.rcv_data,
        xmit_packets: c.xmit_packets,
        rcv_packets: c.rcv_packets,
        unicast_xmit_packets: c.unicast_xmit_packets,
        unicast_rcv_packets: c.unicast_rcv_packets,
        multicast_xmit_packets: c.multicast_xmit_packets,
        multicast_rcv_packets: c.multicast_rcv_packets,
        symbol_errors: c.symbol_errors,
        link_recoveries: c.link_recoveries,
        link_downed: c.link_downed,
        rcv_errors: c.rcv_errors,
        rcv_remote_physical_errors: c.rcv_remote_physical_errors,
        rcv_switch_relay_errors: c.rcv_switch_relay_errors,
        xmit_discards: c.xmit_discards,
        xmit_constraint_errors: c.xmit_constraint_errors,
        rcv_constraint_errors: c.rcv_constraint_errors,
        local_link_integrity_errors: c.local_link_integrity_errors,
        excessive_buffer_overruns: c.excessive_buffer_overruns,
        vl15_dropped: c.vl15_dropped,
        xmit_wait: c.xmit_wait,
        qp1_dropped: c.qp1_dropped,
    }
}
