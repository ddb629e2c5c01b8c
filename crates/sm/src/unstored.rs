//! A disk that takes nothing: ports that have LIDs are served as before, ports that need new ones wait.
//!
//! No Set of a LID goes out before the LID is stored. If storing fails, a plan that gives out new LIDs would wait as
//! long as that, and links that are lost meanwhile would not be routed around. So from then on ports without a stored
//! LID are left out of the fabric that is planned for, until state can be stored again.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::Lids;
use selvedge_planner::{Found, Inventory, PortReason};
use selvedge_types::{Guid, NodeKind, PortNum};

use crate::config::Mode;
use crate::core::Sm;
use crate::event::SweepReason;
use crate::io::PersistentState;
use crate::stage::Stage;

/// What is known of a disk that takes nothing.
#[derive(Debug, Default)]
pub struct Unstored {
    /// The last attempt to store has failed.
    pub is_failing: bool,
    /// What was on the disk before the first state that is not; none: all of it is.
    pub before: Option<PersistentState>,
    /// Ports were left out of the last sweep.
    leaves_out: bool,
}

impl Sm {
    /// The newest state could not be stored: a plan that waits for it gives way to one that needs nothing stored.
    pub(crate) fn not_persisted(&mut self, id: u64) {
        if id < self.persist_id || std::mem::replace(&mut self.unstored.is_failing, true) {
            return;
        }
        if matches!(self.stage, Stage::Persisting { .. }) {
            self.sweep_due.get_or_insert(self.sweep_reason.again());
        }
    }

    /// Something is stored: if that is all, the ports that were left out get their LIDs.
    pub(crate) fn disk_works(&mut self) {
        if self.persisted_id < self.persist_id {
            return;
        }
        self.unstored.before = None;
        self.unstored.is_failing = false;
        if std::mem::take(&mut self.unstored.leaves_out) {
            self.sweep_due.get_or_insert(SweepReason::Again);
        }
    }

    /// True if a plan gives a port LIDs that it does not hold and that are not on the disk, or tells senders levels
    /// that are not.
    pub(crate) fn gives_out_unstored(&self, fabric: &Fabric, lids: &Lids, state: &PersistentState) -> bool {
        let on_disk = self.unstored.before.as_ref().unwrap_or(&self.stored);
        let mut ports = lids.iter().filter_map(|(at, range)| Some((fabric.port(at)?, range)));
        (&state.lanes, &state.levels) != (&on_disk.lanes, &on_disk.levels)
            || ports.any(|(port, range)| port.settings.lids != range && on_disk.lids.get(&port.guid) != Some(&range))
    }

    fn has_stored_lids(&self, guid: Guid) -> bool {
        let on_disk = self.unstored.before.as_ref().unwrap_or(&self.stored);
        on_disk.lids.contains_key(&guid)
    }

    const fn leaves_out_unstored(&self) -> bool {
        self.unstored.is_failing && matches!(self.config.mode, Mode::Manage)
    }

    /// Leaves out switches without LIDs, stored or held, and all nodes that are reached through them only.
    pub(crate) fn leave_out_unstored_switches(&mut self, found: &mut [Found]) {
        self.unstored.leaves_out = false;
        if !self.leaves_out_unstored() {
            return;
        }
        let waits = |node: &Found| {
            let own = node.ports.first().and_then(|port| port.info.as_ref());
            let holds_none = own.is_some_and(|own| !own.lid.is_unicast());
            node.info.kind == NodeKind::Switch && holds_none && !self.has_stored_lids(node.info.port_guid)
        };
        let without: BTreeSet<usize> = (0..found.len()).filter(|&node| waits(&found[node])).collect();
        let (all, rest) = (reached(found, &BTreeSet::new()), reached(found, &without));
        // Where nothing but this manager's own node would be left, the plan waits.
        if without.is_empty() || without.contains(&0) || rest.len() == 1 {
            return;
        }
        for node in all.difference(&rest) {
            found[*node].left_out = Some(PortReason::NotStored);
        }
        self.unstored.leaves_out = true;
    }

    /// Leaves out the links of hosts' ports without LIDs, stored or held, unless one of them is this manager's own.
    pub(crate) fn leave_out_unstored_hosts(&mut self, inventory: &mut Inventory) {
        if !self.leaves_out_unstored() {
            return;
        }
        let fabric = &inventory.fabric;
        let ports = fabric.end_ports().filter(|(at, port)| {
            let holds_none = !port.settings.lids.base.is_unicast();
            at.port != PortNum::MANAGEMENT && port.is_up() && holds_none && !self.has_stored_lids(port.guid)
        });
        let without: Vec<PortRef> = ports.map(|(at, _)| at).collect();
        let far = without.iter().filter_map(|&at| fabric.peer(at));
        let ends: BTreeSet<PortRef> = without.iter().copied().chain(far).collect();
        if ends.is_empty() || ends.contains(&inventory.local) {
            return;
        }
        inventory.leave_out(&ends, PortReason::NotStored);
        self.unstored.leaves_out = true;
    }
}

/// Nodes that are reached from the manager's own without passing through these.
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
