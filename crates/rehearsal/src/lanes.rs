//! The lanes on which the hardware puts packets.

use selvedge_chassis::{Chassis, PortIdx, VlArbitration};
use selvedge_fabric::{NodeIdx, PortCapability, PortRef};
use selvedge_plan::{ArbBlock, COPIES_LEVEL, Plan};
use selvedge_types::{PortNum, PortState, Vl};

use crate::manager::AcceptedPlan;

/// The number of lanes that service levels take in turn, and the lane of multicast copies, if they have one of their
/// own.
type Wanted = (u8, Option<Vl>);

/// Returns the expected lanes as a script writes them: their number, and with `+1` one more for copies.
pub(crate) fn wanted(text: &str) -> Option<Wanted> {
    let lanes: u8 = text.strip_suffix("+1").unwrap_or(text).parse().ok()?;
    let own = Vl::new(lanes).filter(|_| text.ends_with("+1"));
    Some((lanes, own))
}

/// Returns the first place at an ACTIVE port where lanes are not as expected. It is expected that service levels take
/// the lanes in turn, that multicast copies have a lane of their own, and that the arbiter serves every one of these
/// lanes. A link with fewer lanes uses the lanes that it has.
pub(crate) fn first_wrong(chassis: &Chassis, wanted: Wanted) -> Option<String> {
    let mut nodes = chassis.fabric().nodes().indices();
    nodes.find_map(|node| wrong_at(chassis, node, wanted, |_| true))
}

/// Returns the first place where lanes are not as in the accepted plan, if that plan has lane tables. Only ports for
/// which `is_here` is true, and which the plan has settings for, are examined.
pub(crate) fn first_unplanned(
    chassis: &Chassis,
    accepted: &AcceptedPlan,
    is_here: impl Fn(PortIdx) -> bool,
) -> Option<String> {
    let tables = accepted.plan.lane_tables.as_ref()?;
    let mut nodes = chassis.fabric().nodes().indices();
    nodes.find_map(|node| {
        let known = accepted.fabric.find(chassis.node_guid(node))?;
        let is_planned = |port: PortNum| {
            let at = PortRef { node: known, port };
            let here = chassis.port_at(node, port.get()).is_some_and(&is_here);
            here && accepted.plan.ports.contains_key(&at)
        };
        match tables.qos {
            Some(_) => unlike_qos(chassis, (node, known), &accepted.plan, is_planned),
            None => wrong_at(chassis, node, (tables.lanes, tables.copies), is_planned),
        }
    })
}

/// Returns the first place of a node where tables are not those of the plan's quality of service. `known` is the node
/// in the plan.
fn unlike_qos(
    chassis: &Chassis,
    (node, known): (NodeIdx, NodeIdx),
    plan: &Plan,
    counts: impl Fn(PortNum) -> bool,
) -> Option<String> {
    let active = active_ports(chassis, node, counts);
    let n = chassis.fabric().node(node);
    for &egress in &active {
        let at = PortRef {
            node: known,
            port: egress,
        };
        let others = active.iter().filter(|&&port| n.is_switch() && port != egress);
        for &ingress in std::iter::once(&PortNum::MANAGEMENT).chain(others) {
            let row = chassis.lanes(node, ingress.get(), egress.get());
            if plan.row(at, ingress).is_some_and(|wanted| wanted != *row) {
                let row: Vec<u8> = row.iter().map(|vl| vl.get()).collect();
                return Some(format!("\"{}\" from {ingress} to {egress}: {row:?}", n.description));
            }
        }
        let here = chassis.port_at(node, egress.get())?;
        for block in ArbBlock::blocks_of(&n.port(egress)?.capability) {
            let held = block_of(chassis.port(here).vl_arbitration.as_deref(), block);
            let wanted = plan.lane_tables.as_ref()?.qos.as_ref()?.ports.get(&at)?.block(block);
            if wanted.is_some_and(|wanted| wanted != held) {
                return Some(format!("\"{}\"[{egress}]: arbitration block {block}", n.description));
            }
        }
    }
    None
}

/// Returns a block of arbitration tables.
fn block_of(tables: Option<&VlArbitration>, block: u8) -> ArbBlock {
    let entries = tables.map(|tables| if block > 2 { &tables.high } else { &tables.low });
    let skipped = if block.is_multiple_of(2) { ArbBlock::TURNS } else { 0 };
    let mut found = ArbBlock::default();
    for (turn, entry) in found.turns.iter_mut().zip(entries.into_iter().flatten().skip(skipped)) {
        *turn = (entry.vl, entry.weight);
    }
    found
}

/// Returns the ACTIVE ports of a node that count.
fn active_ports(chassis: &Chassis, node: NodeIdx, counts: impl Fn(PortNum) -> bool) -> Vec<PortNum> {
    let is_active = |port: PortNum| {
        let at = chassis.port_at(node, port.get());
        chassis.is_powered(node) && at.is_some_and(|at| chassis.wire(at).state() == PortState::Active)
    };
    let ports = chassis.fabric().node(node).external_ports().map(|(port, _)| port);
    ports.filter(|&port| is_active(port) && counts(port)).collect()
}

fn wrong_at(
    chassis: &Chassis,
    node: NodeIdx,
    (most, copies): Wanted,
    counts: impl Fn(PortNum) -> bool,
) -> Option<String> {
    let n = chassis.fabric().node(node);
    let active = active_ports(chassis, node, counts);
    for &egress in &active {
        let at = chassis.port_at(node, egress.get())?;
        let link = PortCapability::lanes_of_code(chassis.port(at).settings().oper_vls);
        let lanes = most.min(link).max(1);
        let own = copies.filter(|own| own.get() < link);
        let others = active.iter().filter(|&&port| n.is_switch() && port != egress);
        for ingress in std::iter::once(&PortNum::MANAGEMENT).chain(others) {
            let row = chassis.lanes(node, ingress.get(), egress.get());
            let wanted = |sl: u8| match own {
                Some(own) if sl == COPIES_LEVEL.get() => own.get(),
                _ => sl % lanes,
            };
            if !row.iter().zip(0_u8..16).all(|(vl, sl)| vl.get() == wanted(sl)) {
                let row: Vec<u8> = row.iter().map(|vl| vl.get()).collect();
                return Some(format!("\"{}\" from {ingress} to {egress}: {row:?}", n.description));
            }
        }
        let unserved = |lane: &u8| !is_served(chassis.port(at).vl_arbitration.as_deref(), *lane);
        if let Some(lane) = (0..lanes).chain(own.map(Vl::get)).find(unserved) {
            return Some(format!(
                "\"{}\"[{egress}]: the arbiter never serves VL {lane}",
                n.description
            ));
        }
    }
    None
}

fn is_served(tables: Option<&VlArbitration>, lane: u8) -> bool {
    let lane = Vl::new(lane).unwrap_or_default();
    tables.is_some_and(|tables| {
        let mut turns = tables.low.iter().chain(&tables.high);
        turns.any(|turn| turn.vl == lane && turn.weight > 0)
    })
}
