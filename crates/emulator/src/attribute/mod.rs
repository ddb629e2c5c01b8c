//! Responses of agents: one file per attribute.
//!
//! A handler reads or changes the chassis and returns the attribute's data, or a status with which the request is
//! refused; in that case nothing has changed. Effects beyond the chassis (a link that goes down) are returned in
//! [`Effects`].

pub(crate) mod cable_info;
pub(crate) mod class_port_info;
pub(crate) mod detail;
mod extended_speeds;
pub(crate) mod guid_info;
pub(crate) mod linear_forwarding;
pub(crate) mod mlnx_ext_port_info;
pub(crate) mod multicast_forwarding;
pub(crate) mod node_description;
pub(crate) mod node_info;
pub(crate) mod notice;
pub(crate) mod pkey_table;
pub(crate) mod port_ber;
pub(crate) mod port_counters;
pub(crate) mod port_counters_extended;
pub(crate) mod port_info;
pub(crate) mod sl_to_vl;
pub(crate) mod switch_info;
pub(crate) mod vl_arbitration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::NodeIdx;
use selvedge_sim::Time;
use selvedge_types::PhysState;
use selvedge_wire::{AttributeId, GmpData, SmpData, Status};

use crate::cable::Cables;
use crate::emulator::Emulator;
use crate::fault::Action;

/// A request to a subnet management agent, without its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The node that received it.
    pub node: NodeIdx,
    /// The port by which the request arrived.
    pub ingress: PortIdx,
    /// Attribute modifier.
    pub modifier: u32,
    /// True if the response may show the port's M_Key.
    pub m_key_shown: bool,
    /// True if PortInfo may show extended speeds.
    pub speeds_shown: bool,
}

/// Effects of a Set beyond the chassis.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effects {
    /// How the link of this port changes, if it does.
    pub link: Option<(PortIdx, LinkChange)>,
}

/// A change of a link requested by a Set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkChange {
    /// Both ends go to INIT; the link stays trained.
    Reset,
    /// The link goes down, and the port enters this physical state.
    Down(PhysState),
}

/// Answers SubnGet.
pub(crate) fn smp_get(chassis: &Chassis, request: &Request, id: AttributeId) -> Result<SmpData, Status> {
    match id {
        AttributeId::NODE_INFO => Ok(node_info::describe(chassis, request.ingress)),
        AttributeId::PORT_INFO => port_info::get(chassis, request),
        AttributeId::LINEAR_FORWARDING => linear_forwarding::get(chassis, request),
        AttributeId::NODE_DESCRIPTION => Ok(node_description::describe(chassis, request.node)),
        AttributeId::SWITCH_INFO => switch_info::get(chassis, request),
        AttributeId::GUID_INFO => guid_info::get(chassis, request),
        AttributeId::PKEY_TABLE => pkey_table::get(chassis, request),
        AttributeId::SL_TO_VL => sl_to_vl::get(chassis, request),
        AttributeId::VL_ARBITRATION => vl_arbitration::get(chassis, request),
        AttributeId::MULTICAST_FORWARDING => multicast_forwarding::get(chassis, request),
        AttributeId::MLNX_EXT_PORT_INFO => mlnx_ext_port_info::get(chassis, request),
        AttributeId::NOTICE => Ok(notice::empty()),
        // Includes SMInfo: a manager answers that itself.
        _ => Err(Status::BAD_METHOD_ATTRIBUTE),
    }
}

/// Answers SubnSet.
pub(crate) fn smp_set(
    chassis: &mut Chassis,
    request: &Request,
    id: AttributeId,
    data: &SmpData,
    effects: &mut Effects,
) -> Result<SmpData, Status> {
    match id {
        AttributeId::LINEAR_FORWARDING => linear_forwarding::set(chassis, request, data),
        AttributeId::PORT_INFO => port_info::set(chassis, request, data, effects),
        AttributeId::SWITCH_INFO => switch_info::set(chassis, request, data),
        AttributeId::GUID_INFO => guid_info::set(chassis, request, data),
        AttributeId::PKEY_TABLE => pkey_table::set(chassis, request, data),
        AttributeId::SL_TO_VL => sl_to_vl::set(chassis, request, data),
        AttributeId::VL_ARBITRATION => vl_arbitration::set(chassis, request, data),
        AttributeId::MULTICAST_FORWARDING => multicast_forwarding::set(chassis, request, data),
        AttributeId::MLNX_EXT_PORT_INFO => mlnx_ext_port_info::set(chassis, request, data),
        AttributeId::NOTICE => Ok(notice::empty()),
        _ => Err(Status::BAD_METHOD_ATTRIBUTE),
    }
}

/// Answers PerfMgt Get for the node behind `ingress`.
pub(crate) fn gmp_get(chassis: &Chassis, ingress: PortIdx, id: AttributeId, data: &GmpData) -> Result<GmpData, Status> {
    match id {
        AttributeId::CLASS_PORT_INFO => Ok(class_port_info::describe(chassis, ingress)),
        AttributeId::PORT_COUNTERS => port_counters::get(chassis, ingress, data),
        AttributeId::PORT_COUNTERS_EXTENDED => port_counters_extended::get(chassis, ingress, data),
        AttributeId::PORT_EXT_SPEEDS_COUNTERS => extended_speeds::get(chassis, ingress, data),
        _ => detail::get(chassis, ingress, id, data),
    }
}

/// Answers PerfMgt Set for the node behind `ingress`.
pub(crate) fn gmp_set(
    chassis: &mut Chassis,
    ingress: PortIdx,
    id: AttributeId,
    data: &GmpData,
) -> Result<GmpData, Status> {
    match id {
        AttributeId::PORT_COUNTERS => port_counters::set(chassis, ingress, data),
        AttributeId::PORT_COUNTERS_EXTENDED => port_counters_extended::set(chassis, ingress, data),
        AttributeId::PORT_EXT_SPEEDS_COUNTERS => extended_speeds::set(chassis, ingress, data),
        _ => detail::set(chassis, ingress, id, data),
    }
}

/// Answers a Get of our own vendor class for the node behind `ingress`.
pub(crate) fn vendor_get(
    chassis: &Chassis,
    (cables, now): (&Cables, Time),
    ingress: PortIdx,
    id: AttributeId,
    data: &GmpData,
) -> Result<GmpData, Status> {
    match id {
        AttributeId::PORT_BER => port_ber::get(chassis, cables, now, ingress, data),
        AttributeId::CABLE_INFO => cable_info::get(chassis, cables, ingress, data),
        _ => Err(Status::BAD_METHOD_ATTRIBUTE),
    }
}

/// Returns the port that PortSelect of our own vendor class names: one with a place for a cable.
fn vendor_port(chassis: &Chassis, ingress: PortIdx, select: u8) -> Result<PortIdx, Status> {
    let node = chassis.wire(ingress).node();
    let port = chassis.port_at(node, select).filter(|_| select != 0);
    port.ok_or(Status::BAD_FIELD)
}

/// Returns the port that the modifier of a request names: on a switch, port `num`; on other nodes 0 means the port that
/// received the request.
pub(crate) fn port_named(chassis: &Chassis, request: &Request, num: u8) -> Result<PortIdx, Status> {
    if num == 0 && !chassis.is_switch(request.node) {
        return Ok(request.ingress);
    }
    chassis.port_at(request.node, num).ok_or(Status::BAD_FIELD)
}

/// Returns the port that PortSelect names; `None`: the sum over all ports of a switch (255).
pub(crate) fn port_selected(chassis: &Chassis, ingress: PortIdx, select: u8) -> Result<Option<PortIdx>, Status> {
    let node = chassis.wire(ingress).node();
    match select {
        255 if chassis.is_switch(node) && chassis.pma(node).all_port_select => Ok(None),
        num => chassis.port_at(node, num).map(Some).ok_or(Status::BAD_FIELD),
    }
}

impl Emulator {
    /// Applies the effects of a Set beyond the chassis. A link goes down after the response has crossed it.
    pub(crate) fn apply_effects(&mut self, effects: Effects) {
        match effects.link {
            None => {}
            Some((port, LinkChange::Reset)) => self.reset_link(port),
            Some((port, LinkChange::Down(state))) => {
                let crossed = self.delays.link.saturating_add(1);
                self.command_in(crossed, Action::Link { port, state });
            }
        }
    }
}
