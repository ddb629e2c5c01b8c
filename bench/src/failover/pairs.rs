//! Host pairs that a fault interrupts, by the tables that were in force.

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_plan::{Lids, Tables};
use selvedge_types::{Idx, PortNum};

use crate::case::Case;

/// Returns the number of ordered pairs of hosts with packets that would leave by one of `dead`, or that start at a
/// switch which has lost its links.
#[must_use]
pub fn interrupted(case: &Case, tables: &Tables, lids: &Lids, dead: &[PortRef]) -> u64 {
    let fabric = &case.fabric;
    let mut hosts = vec![0_u64; fabric.switches().len()];
    let mut goals = Vec::new();
    for (lid, port) in lids.by_lid() {
        let Some(at) = fabric.peer(port).filter(|_| !fabric.node(port.node).is_switch()) else {
            continue;
        };
        if let Some(switch) = fabric.switch_index(at.node) {
            hosts[switch.to_usize()] += 1;
            goals.push((lid, at));
        }
    }
    let is_dead = |at: PortRef| dead.contains(&at);
    let mut pairs = 0;
    for (lid, goal) in goals {
        // 0: not known; 1: arrives, or is lost already; 2: interrupted.
        let mut fate = vec![0_u8; hosts.len()];
        for (switch, &count) in hosts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (mut at, mut path) = (switch, Vec::new());
            let end = loop {
                if fate[at] != 0 {
                    break fate[at];
                }
                path.push(at);
                // Visited for now, so that a loop ends.
                fate[at] = 1;
                let index = selvedge_fabric::SwitchIdx::from_usize(at);
                let node: NodeIdx = fabric.switches()[index];
                let Some(port) = PortNum::new(tables.get(index, lid)).filter(|port| port.get() > 0) else {
                    break 1;
                };
                let exit = PortRef { node, port };
                if is_dead(exit) {
                    break 2;
                }
                if exit == goal {
                    break 1;
                }
                let next = fabric.peer(exit).and_then(|peer| fabric.switch_index(peer.node));
                match next {
                    Some(next) => at = next.to_usize(),
                    None => break 1,
                }
            };
            path.into_iter().for_each(|at| fate[at] = end);
            if end == 2 {
                pairs += count;
            }
        }
    }
    pairs
}
