//! PortCounters: the counts of the chassis, limited to the narrow fields; a Set writes the selected ones.

use selvedge_chassis::{AtMaximum, Chassis, Counters, PmaAbilities, PortIdx};
use selvedge_wire::{Bits, GmpAttribute, GmpData, PortCounters, Status};

use super::port_selected;

pub(crate) fn get(chassis: &Chassis, ingress: PortIdx, data: &GmpData) -> Result<GmpData, Status> {
    let asked = PortCounters::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let counters = match port_selected(chassis, ingress, asked.port_select)? {
        Some(port) => chassis.counters(port),
        None => sum(chassis, ingress),
    };
    let pma = chassis.pma(chassis.wire(ingress).node());
    Ok(describe(&asked, &counters, &pma).emit())
}

pub(crate) fn set(chassis: &mut Chassis, ingress: PortIdx, data: &GmpData) -> Result<GmpData, Status> {
    let wanted = PortCounters::parse(data).map_err(|_| Status::BAD_FIELD)?;
    for port in selected_ports(chassis, ingress, wanted.port_select)? {
        write(&wanted, chassis.counters_mut(port));
    }
    get(chassis, ingress, data)
}

/// Returns the sum of the counters of all ports of a switch.
pub(super) fn sum(chassis: &Chassis, ingress: PortIdx) -> Counters {
    let mut total = Counters::default();
    for port in all_ports(chassis, ingress) {
        let one = chassis.counters(port);
        for (sum, value) in slots(&mut total).into_iter().zip(values(&one)) {
            *sum = sum.saturating_add(value);
        }
    }
    total
}

/// Returns the ports that PortSelect names.
pub(super) fn selected_ports(chassis: &Chassis, ingress: PortIdx, select: u8) -> Result<Vec<PortIdx>, Status> {
    Ok(match port_selected(chassis, ingress, select)? {
        Some(port) => vec![port],
        None => all_ports(chassis, ingress),
    })
}

/// Returns all counters in the order of PortCountersExtended.
pub(crate) const fn values(c: &Counters) -> [u64; 22] {
    [
        c.xmit_data,
        c.rcv_data,
        c.xmit_packets,
        c.rcv_packets,
        c.unicast_xmit_packets,
        c.unicast_rcv_packets,
        c.multicast_xmit_packets,
        c.multicast_rcv_packets,
        c.symbol_errors,
        c.link_recoveries,
        c.link_downed,
        c.rcv_errors,
        c.rcv_remote_physical_errors,
        c.rcv_switch_relay_errors,
        c.xmit_discards,
        c.xmit_constraint_errors,
        c.rcv_constraint_errors,
        c.local_link_integrity_errors,
        c.excessive_buffer_overruns,
        c.vl15_dropped,
        c.xmit_wait,
        c.qp1_dropped,
    ]
}

/// Returns all counters in the order of PortCountersExtended, for changes.
pub(crate) const fn slots(c: &mut Counters) -> [&mut u64; 22] {
    [
        &mut c.xmit_data,
        &mut c.rcv_data,
        &mut c.xmit_packets,
        &mut c.rcv_packets,
        &mut c.unicast_xmit_packets,
        &mut c.unicast_rcv_packets,
        &mut c.multicast_xmit_packets,
        &mut c.multicast_rcv_packets,
        &mut c.symbol_errors,
        &mut c.link_recoveries,
        &mut c.link_downed,
        &mut c.rcv_errors,
        &mut c.rcv_remote_physical_errors,
        &mut c.rcv_switch_relay_errors,
        &mut c.xmit_discards,
        &mut c.xmit_constraint_errors,
        &mut c.rcv_constraint_errors,
        &mut c.local_link_integrity_errors,
        &mut c.excessive_buffer_overruns,
        &mut c.vl15_dropped,
        &mut c.xmit_wait,
        &mut c.qp1_dropped,
    ]
}

fn all_ports(chassis: &Chassis, ingress: PortIdx) -> Vec<PortIdx> {
    let node = chassis.wire(ingress).node();
    (1..=u8::MAX).map_while(|num| chassis.port_at(node, num)).collect()
}

/// Returns the value that a counter of `bits` bits shows for a count.
pub(super) const fn shown(pma: &PmaAbilities, count: u64, bits: u32) -> u64 {
    let max = u64::MAX >> (64 - bits);
    match pma.at_maximum {
        AtMaximum::Stops if count > max => max,
        AtMaximum::Stops => count,
        AtMaximum::Wraps => count & max,
    }
}

/// Writes the counters into the attribute. The widths below are at most those of the fields, so no value is cut.
fn describe(asked: &PortCounters, c: &Counters, pma: &PmaAbilities) -> PortCounters {
    let nibble = |count: u64| Bits::saturating(shown(pma, count, 4) as u8);
    let byte = |count: u64| shown(pma, count, 8) as u8;
    let narrow = |count: u64| shown(pma, count, 16) as u16;
    let wide = |count: u64| shown(pma, count, 32) as u32;
    PortCounters {
        port_select: asked.port_select,
        counter_select: asked.counter_select,
        counter_select2: asked.counter_select2,
        symbol_errors: narrow(c.symbol_errors),
        link_recoveries: byte(c.link_recoveries),
        link_downed: byte(c.link_downed),
        rcv_errors: narrow(c.rcv_errors),
        rcv_remote_physical_errors: narrow(c.rcv_remote_physical_errors),
        rcv_switch_relay_errors: narrow(c.rcv_switch_relay_errors),
        xmit_discards: narrow(c.xmit_discards),
        xmit_constraint_errors: byte(c.xmit_constraint_errors),
        rcv_constraint_errors: byte(c.rcv_constraint_errors),
        local_link_integrity_errors: nibble(c.local_link_integrity_errors),
        excessive_buffer_overruns: nibble(c.excessive_buffer_overruns),
        qp1_dropped: narrow(c.qp1_dropped),
        vl15_dropped: narrow(c.vl15_dropped),
        xmit_data: wide(c.xmit_data),
        rcv_data: wide(c.rcv_data),
        xmit_packets: wide(c.xmit_packets),
        rcv_packets: wide(c.rcv_packets),
        xmit_wait: if pma.xmit_wait { wide(c.xmit_wait) } else { 0 },
    }
}

/// Source: IBA vol 1 §16.1.3.5 (CounterSelect: bit 0 SymbolErrorCounter to bit 15 PortRcvPkts; CounterSelect2: bit 0
/// PortXmitWait, bit 1 QP1Dropped).
fn write(wanted: &PortCounters, c: &mut Counters) {
    let w = wanted;
    let selected: [(&mut u64, u64); 16] = [
        (&mut c.symbol_errors, w.symbol_errors.into()),
        (&mut c.link_recoveries, w.link_recoveries.into()),
        (&mut c.link_downed, w.link_downed.into()),
        (&mut c.rcv_errors, w.rcv_errors.into()),
        (&mut c.rcv_remote_physical_errors, w.rcv_remote_physical_errors.into()),
        (&mut c.rcv_switch_relay_errors, w.rcv_switch_relay_errors.into()),
        (&mut c.xmit_discards, w.xmit_discards.into()),
        (&mut c.xmit_constraint_errors, w.xmit_constraint_errors.into()),
        (&mut c.rcv_constraint_errors, w.rcv_constraint_errors.into()),
        (
            &mut c.local_link_integrity_errors,
            w.local_link_integrity_errors.get().into(),
        ),
        (
            &mut c.excessive_buffer_overruns,
            w.excessive_buffer_overruns.get().into(),
        ),
        (&mut c.vl15_dropped, w.vl15_dropped.into()),
        (&mut c.xmit_data, w.xmit_data.into()),
        (&mut c.rcv_data, w.rcv_data.into()),
        (&mut c.xmit_packets, w.xmit_packets.into()),
        (&mut c.rcv_packets, w.rcv_packets.into()),
    ];
    for (bit, (counter, value)) in selected.into_iter().enumerate() {
        if w.counter_select >> bit & 1 != 0 {
            *counter = value;
        }
    }
    if w.counter_select2 & 1 != 0 {
        c.xmit_wait = w.xmit_wait.into();
    }
    if w.counter_select2 & 2 != 0 {
        c.qp1_dropped = w.qp1_dropped.into();
    }
}
