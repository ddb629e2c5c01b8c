//! Finds ports by the LIDs that they hold now.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_types::Lid;

use crate::subnet::ports_of;

/// Returns end ports of nodes that have power.
pub(super) fn end_ports(chassis: &Chassis) -> impl Iterator<Item = PortIdx> + '_ {
    let nodes = chassis
        .fabric()
        .nodes()
        .indices()
        .filter(|&node| chassis.is_powered(node));
    nodes
        .flat_map(|node| ports_of(chassis, node))
        .filter(|&port| chassis.end_port(port) == port)
}

fn holders(chassis: &Chassis, lid: Lid) -> impl Iterator<Item = PortIdx> + '_ {
    end_ports(chassis).filter(move |&port| chassis.wire(port).answers_to(lid))
}

/// Returns the port that holds a LID, if one does.
pub(super) fn holder(chassis: &Chassis, lid: Lid) -> Option<PortIdx> {
    holders(chassis, lid).next()
}

/// True if more than one powered port answers to a LID.
pub(super) fn is_twice(chassis: &Chassis, lid: Lid) -> bool {
    holders(chassis, lid).nth(1).is_some()
}

/// True if ports that hold a LID have different LMCs: the LMC is being changed.
pub(super) fn is_held_by_ranges(chassis: &Chassis, lid: Lid) -> bool {
    let mut lmcs = holders(chassis, lid).map(|port| chassis.port(port).settings().lids.lmc);
    let first = lmcs.next();
    lmcs.any(|lmc| Some(lmc) != first)
}
