//! Lanes as the hardware puts packets on them, for expectations.

use selvedge_chassis::{Chassis, VlArbitration};
use selvedge_fabric::PortCapability;
use selvedge_types::{PortNum, PortState, Vl};

/// The first place where packets are not put on so many lanes, level by level in turn, or where an arbiter does not serve
/// one of them; a link that has fewer lanes uses those.
pub fn first_wrong(chassis: &Chassis, lanes: u8) -> Option<String> {
    let fabric = chassis.fabric();
    for (node, n) in fabric
        .nodes()
        .iter_enumerated()
        .filter(|(node, _)| chassis.is_powered(*node))
    {
        let is_active = |port: PortNum| {
            let at = chassis.port_at(node, port.get());
            at.is_some_and(|at| chassis.wire(at).state() == PortState::Active)
        };
        let active: Vec<PortNum> = n
            .external_ports()
            .map(|(port, _)| port)
            .filter(|&p| is_active(p))
            .collect();
        for &egress in &active {
            let Some(at) = chassis.port_at(node, egress.get()) else {
                continue;
            };
            let link = PortCapability::lanes_of_code(chassis.port(at).settings().oper_vls);
            let lanes = lanes.min(link).max(1);
            let others = active.iter().filter(|&&port| n.is_switch() && port != egress);
            for ingress in std::iter::once(&PortNum::MANAGEMENT).chain(others) {
                let row = chassis.lanes(node, ingress.get(), egress.get());
                if !row.iter().zip(0_u8..).all(|(vl, sl)| vl.get() == sl % lanes) {
                    let row: Vec<u8> = row.iter().map(|vl| vl.get()).collect();
                    return Some(format!("\"{}\" from {ingress} to {egress}: {row:?}", n.description));
                }
            }
            let unserved = |lane: &u8| !is_served(chassis.port(at).vl_arbitration.as_deref(), *lane);
            if let Some(lane) = (0..lanes).find(unserved) {
                return Some(format!("\"{}\"[{egress}]: VL {lane} has no turn", n.description));
            }
        }
    }
    None
}

fn is_served(tables: Option<&VlArbitration>, lane: u8) -> bool {
    let lane = Vl::new(lane).unwrap_or_default();
    tables.is_some_and(|tables| {
        let turns = tables.low.iter().chain(&tables.high);
        turns.into_iter().any(|turn| turn.vl == lane && turn.weight > 0)
    })
}
