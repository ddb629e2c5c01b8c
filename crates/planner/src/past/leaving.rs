//! LIDs that a plan takes away from ports: how long packets to them may be in flight.

use std::collections::BTreeSet;
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Installed, NO_PATH, Plan};
use selvedge_types::{Idx, Lid, PortNum};

use super::drain_time;

/// Largest number of entries to follow in search of the longest path. With more, the number of switches is used.
const FOLLOWED_MAX: usize = 4_000_000;

/// Returns the LIDs that ports have now and that a plan gives to no port, and how long packets to them may be in flight
/// once the plan is in force. `installed` are the tables before the plan.
#[must_use]
pub fn leaving(fabric: &Fabric, installed: &Installed, plan: &Plan) -> (BTreeSet<Lid>, Duration) {
    let mut leaving = BTreeSet::new();
    for (at, port) in fabric.end_ports() {
        let held = port.settings.lids;
        // If two ports have the same LID, one may keep it. No other port gets it in any case.
        let is_left = |lid: &Lid| lid.is_unicast() && plan.lids.owner(*lid).is_none();
        if plan.lids.range(at).is_some_and(|kept| kept != held) {
            leaving.extend(held.iter().filter(is_left));
        }
    }
    let drain = match leaving.is_empty() {
        true => Duration::ZERO,
        false => drain(fabric, installed, &leaving),
    };
    (leaving, drain)
}

/// Returns how long packets to these LIDs may be in flight under these tables, if entries only change to 255.
fn drain(fabric: &Fabric, installed: &Installed, lids: &BTreeSet<Lid>) -> Duration {
    let switches = fabric.switches().len();
    let ways = lids.iter().map(|&lid| longest_way(fabric, installed, lid));
    let longest = match lids.len().saturating_mul(switches) > FOLLOWED_MAX {
        true => switches,
        false => ways.max().unwrap_or(0),
    };
    drain_time(super::longest(fabric), u32::try_from(longest).unwrap_or(u32::MAX))
}

/// Returns the most switches on a path to a LID. If entries loop, returns the number of switches.
fn longest_way(fabric: &Fabric, installed: &Installed, lid: Lid) -> usize {
    let switches = fabric.switches();
    let next = |switch: SwitchIdx| -> Option<SwitchIdx> {
        let port = installed
            .get(switch, lid)
            .filter(|&port| port != NO_PATH)
            .and_then(PortNum::new)?;
        let node = switches[switch];
        fabric
            .peer(PortRef { node, port })
            .and_then(|peer| fabric.switch_index(peer.node))
    };
    // Number of switches on the path from here; 0: not known yet.
    let mut length = vec![0_usize; switches.len()];
    let mut way = Vec::new();
    for first in 0..switches.len() {
        let mut at = Some(SwitchIdx::from_usize(first));
        while let Some(switch) = at.filter(|at| length[at.to_usize()] == 0) {
            if way.len() >= switches.len() {
                return switches.len();
            }
            way.push(switch);
            at = next(switch);
        }
        let mut known = at.map_or(0, |at| length[at.to_usize()]);
        for switch in way.drain(..).rev() {
            known += 1;
            length[switch.to_usize()] = known;
        }
    }
    length.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_plan::BLOCK_LIDS;
    use selvedge_types::{Guid, NodeKind};

    use super::*;

    fn port(n: u8) -> PortNum {
        PortNum::new(n).unwrap()
    }

    /// Returns switches in a row: port 1 leads to the next, port 2 to the previous one.
    fn row(switches: u64) -> Fabric {
        let mut b = FabricBuilder::new();
        let keys: Vec<_> = (1..=switches)
            .map(|guid| {
                let mut node = Node::new(NodeKind::Switch, Guid(guid), 2, format!("s{guid}"));
                node.switch_settings.lifetime = 10;
                b.add(node)
            })
            .collect();
        for pair in keys.windows(2) {
            b.link((pair[0], port(1)), (pair[1], port(2))).unwrap();
        }
        b.finish().unwrap()
    }

    fn check(entries: &[u8], want: usize) {
        let fabric = row(entries.len() as u64);
        let mut installed = Installed::unknown(entries.len());
        for (switch, &entry) in entries.iter().enumerate() {
            let mut block = [NO_PATH; BLOCK_LIDS];
            block[5] = entry;
            installed.learn(SwitchIdx::from_usize(switch), 0, block);
        }
        assert_eq!(longest_way(&fabric, &installed, Lid(5)), want, "{entries:?}");
    }

    #[test]
    fn ways_are_counted_in_switches() {
        check(&[0], 1);
        check(&[1, 1, 0], 3);
        check(&[1, 0, 2], 2);
        check(&[1, 255, 2], 2);
        // A loop.
        check(&[1, 2, 0], 3);
    }
}
