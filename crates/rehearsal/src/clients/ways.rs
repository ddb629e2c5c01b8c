//! The routes of datagrams between hosts: by the tables that switches hold.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{NO_PATH, Plan};
use selvedge_types::{Lid, PortNum, PortState};

/// True if packets pass a port's link.
pub fn is_active(chassis: &Chassis, port: PortIdx) -> bool {
    let at = chassis.port_ref(port);
    chassis.is_powered(at.node) && chassis.wire(port).state() == PortState::Active
}

/// Returns the other end of a link that lets packets pass.
fn beyond(chassis: &Chassis, port: PortIdx) -> Option<PortIdx> {
    let peer = chassis.wire(port).peer()?;
    (is_active(chassis, port) && is_active(chassis, peer)).then_some(peer)
}

/// Returns the port of a channel adapter at which a packet from another channel adapter arrives.
pub fn arrives(chassis: &Chassis, from: PortIdx, lid: Lid) -> Option<PortIdx> {
    let holds = |port: PortIdx| chassis.port(port).settings().lids.contains(lid);
    if holds(from) {
        return Some(from);
    }
    let mut at = beyond(chassis, from)?;
    for _ in 0..=chassis.fabric().switches().len() {
        let node = chassis.port_ref(at).node;
        let Some(switch) = chassis.switch(node) else {
            return holds(at).then_some(at);
        };
        let block = switch.linear_blocks().get(usize::from(lid.0) / 64)?;
        let num = block[usize::from(lid.0) % 64];
        if num == 0 || num == NO_PATH {
            return None;
        }
        at = beyond(chassis, chassis.port_at(node, num)?)?;
    }
    None
}

/// Returns the peer of a port over a cable that carries packets, if the peer is not a switch. Such a peer gets every
/// packet that the port sends, whatever the tables of switches contain.
pub fn next_to(chassis: &Chassis, port: PortIdx) -> Option<PortIdx> {
    beyond(chassis, port).filter(|&peer| chassis.switch(chassis.port_ref(peer).node).is_none())
}

/// True if a plan has a route from a port to a LID of a port of the plan.
pub fn is_planned(fabric: &Fabric, plan: &Plan, from: PortRef, to: Lid) -> bool {
    let Some(owner) = plan.lids.owner(to) else { return false };
    if owner == from {
        return true;
    }
    // Port 0 of a switch has no link: its packets begin in the switch.
    let mut at = match fabric.switch_index(from.node) {
        Some(_) => Some(from),
        None => fabric.peer(from),
    };
    for _ in 0..=fabric.switches().len() {
        let Some(here) = at else { return false };
        let Some(switch) = fabric.switch_index(here.node) else {
            return here == owner;
        };
        let port = PortNum::new(plan.tables.get(switch, to));
        match port {
            Some(PortNum::MANAGEMENT) => return here.node == owner.node,
            Some(port) => at = fabric.peer(PortRef { port, ..here }),
            None => return false,
        }
    }
    false
}

/// Returns the ports of channel adapters at which a packet to a multicast LID arrives, ascending, once for each copy.
/// `None` if copies loop.
pub fn copies(chassis: &Chassis, from: PortIdx, mlid: Lid) -> Option<Vec<PortIdx>> {
    let fabric = chassis.fabric();
    let index = usize::from(mlid.0.checked_sub(0xC000)?);
    let mut got = Vec::new();
    let mut under_way: Vec<PortIdx> = beyond(chassis, from).into_iter().collect();
    // Each port is entered at most once, unless copies go in circles or meet.
    let mut left = 4 * chassis.port_count();
    while let Some(at) = under_way.pop() {
        left = left.checked_sub(1)?;
        let here = chassis.port_ref(at);
        let Some(switch) = chassis.switch(here.node) else {
            got.push(at);
            continue;
        };
        for num in 1..=fabric.node(here.node).port_count() {
            let block = switch.multicast_block(u16::try_from(index / 32).unwrap_or(0), num / 16);
            if num != here.port.get() && block[index % 32] >> (num % 16) & 1 != 0 {
                let port = chassis.port_at(here.node, num);
                under_way.extend(port.and_then(|port| beyond(chassis, port)));
            }
        }
    }
    got.sort_unstable();
    Some(got)
}
