//! Nodes and ports that a heavy sweep leaves out while the state cannot be stored.
//!
//! No Set of a LID is sent before the LID is stored. If storing fails, a plan with new LIDs would wait until it works
//! again, and lost links would not be routed around meanwhile. So ports without a stored LID are left out of the
//! planned fabric until state can be stored again.

use std::collections::BTreeSet;

use selvedge_fabric::PortRef;
use selvedge_planner::{Found, Inventory};
use selvedge_types::{Guid, NodeKind, PortNum};

use super::{Ctx, Persist};
use crate::config::Mode;

impl Persist {
    /// Returns the switches that hold no LID and have no stored one, and all nodes behind them; `None` if no node must
    /// be left out.
    pub fn nodes_to_leave_out(&self, ctx: &Ctx<'_>, found: &[Found]) -> Option<BTreeSet<usize>> {
        if !self.leaves_out_unstored(ctx) {
            return None;
        }
        let waits = |node: &Found| {
            let own = node.ports.first().and_then(|port| port.info.as_ref());
            let holds_none = own.is_some_and(|own| !own.lid.is_unicast());
            node.info.kind == NodeKind::Switch && holds_none && !self.has_stored_lids(node.info.port_guid)
        };
        let without: BTreeSet<usize> = (0..found.len()).filter(|&node| waits(&found[node])).collect();
        let (all, rest) = (reached(found, &BTreeSet::new()), reached(found, &without));
        // If nothing but this manager's own node would be left, the plan waits.
        if without.is_empty() || without.contains(&0) || rest.len() == 1 {
            return None;
        }
        Some(all.difference(&rest).copied().collect())
    }

    /// Returns both ends of the link of each host port that holds no LID and has none stored; `None` if there is no
    /// such port, or if one of them is the local port.
    pub fn ports_to_leave_out(&self, ctx: &Ctx<'_>, inventory: &Inventory) -> Option<BTreeSet<PortRef>> {
        if !self.leaves_out_unstored(ctx) {
            return None;
        }
        let fabric = &inventory.fabric;
        let ports = fabric.end_ports().filter(|(at, port)| {
            let holds_none = !port.settings.lids.base.is_unicast();
            at.port != PortNum::MANAGEMENT && port.is_up() && holds_none && !self.has_stored_lids(port.guid)
        });
        let without: Vec<PortRef> = ports.map(|(at, _)| at).collect();
        let far = without.iter().filter_map(|&at| fabric.peer(at));
        let ends: BTreeSet<PortRef> = without.iter().copied().chain(far).collect();
        (!ends.is_empty() && !ends.contains(&inventory.local)).then_some(ends)
    }

    fn leaves_out_unstored(&self, ctx: &Ctx<'_>) -> bool {
        self.is_failing && ctx.config.mode == Mode::Manage
    }

    fn has_stored_lids(&self, guid: Guid) -> bool {
        self.state_on_disk().lids.contains_key(&guid)
    }
}

/// Returns the nodes that the manager's node reaches without passing through any node in `without`.
fn reached(found: &[Found], without: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([0]);
    let mut todo = vec![0];
    while let Some(node) = todo.pop() {
        let peers = found[node].ports.iter().filter_map(|port| Some(port.peer?.0));
        for peer in peers {
            let is_left_out = without.contains(&peer) || found[peer].left_out.is_some();
            if !is_left_out && reached.insert(peer) {
                todo.push(peer);
            }
        }
    }
    reached
}
