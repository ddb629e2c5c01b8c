//! Records which packets may still be under way by entries that are no longer in force. How long a plan must wait for
//! them is planned in `selvedge_planner::past`.

use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::Installed;
use selvedge_planner::Inventory;
use selvedge_verify::phases::is_live;

use crate::core::Sm;
use crate::election::{Foreign, In, Role};
use crate::io::Output;

impl Sm {
    /// The fabric and the tables that are known are about to be replaced by these.
    pub(crate) fn note_who_is_gone(&mut self, fabric: &Fabric, installed: &Installed) {
        if self.in_force.fabric().is_some_and(|before| is_live(before)) {
            self.past.note_carried(self.now);
        }
        let is_ours = self.role() == Role::Master && !installed.lfts.is_empty();
        if let Some(before) = self.in_force.fabric().cloned().filter(|_| is_ours) {
            let held = Arc::clone(self.in_force.installed());
            self.past.note_gone((&before, &held), (fabric, installed), self.now);
        }
    }

    /// True if links between switches carried packets a moment ago, as far as was known. Where no such link is in sight
    /// any more, their packets are under way all the same, by entries that the switches in sight had then.
    pub(crate) fn carried_lately(&self, fabric: &Fabric) -> bool {
        let is_known_live = self.in_force.fabric().is_some_and(|before| is_live(before));
        is_known_live || self.past.has_carried(fabric, self.now)
    }

    /// A sweep has read all tables: records what is not as this manager left it, and by which entries packets may be
    /// under way therefore.
    pub(crate) fn note_what_was_done_unseen(
        &mut self,
        inventory: &Inventory,
        installed: &Installed,
        out: &mut Vec<Output>,
    ) {
        let (fabric, now) = (&inventory.fabric, self.now);
        self.run_election(In::Foreign(Foreign::TablesRead), out);
        if self.take_astray(fabric, installed) {
            self.past.note_astray(fabric);
        }
        let before = self.in_force.fabric().cloned();
        let held = Arc::clone(self.in_force.installed());
        let before = before.as_deref().map(|before| (before, &*held));
        self.past.note_read(fabric, before, installed, now);
    }
}
