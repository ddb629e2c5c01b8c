//! Connects the record of packets in flight with the rest of the manager.

use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::{Installed, UnderWay};
use selvedge_planner::past::Past;
use selvedge_planner::{Inventory, Settle, Task};
use selvedge_sim::Time;
use selvedge_verify::phases::is_live;

use super::Sm;
use crate::drain::{Effect, In};
use crate::election::{Foreign, Role};
use crate::io::Output;

impl Sm {
    /// Hands an input to the record of packets in flight; returns its effects.
    pub(crate) fn tell_drain(&mut self, input: In<'_>) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.drain.handle(self.now, input, &mut effects);
        effects
    }

    /// Returns the packets that may be in flight on a fabric; `None`: none.
    pub(crate) fn under_way(&mut self, fabric: &Fabric) -> Option<Arc<UnderWay>> {
        match self.tell_drain(In::Asked(fabric)).pop() {
            Some(Effect::UnderWay(under_way)) => under_way,
            Some(Effect::Settled) | None => None,
        }
    }

    /// Records nodes that are absent from the new fabric, before the known fabric and tables are replaced.
    pub(super) fn note_who_is_gone(&mut self, fabric: &Fabric, installed: &Installed) {
        let is_ours = self.role() == Role::Master && !installed.lfts.is_empty();
        if let Some(before) = self.in_force.fabric() {
            let input = In::Replaced {
                before: (before, self.in_force.installed()),
                after: is_ours.then_some((fabric, installed)),
            };
            self.drain.handle(self.now, input, &mut Vec::new());
        }
    }

    /// True if links between switches carried packets a moment ago, as far as was known.
    pub(crate) fn carried_lately(&self, fabric: &Fabric) -> bool {
        let is_known_live = self.in_force.fabric().is_some_and(|before| is_live(before));
        is_known_live || self.drain.has_carried(fabric, self.now)
    }

    /// Compares the tables that a heavy sweep has read with those that this manager has written. Records tables that
    /// differ, because packets that their entries forwarded may be in flight.
    pub(crate) fn note_what_was_done_unseen(
        &mut self,
        inventory: &Inventory,
        installed: &Installed,
        out: &mut Vec<Output>,
    ) {
        self.run_election(crate::election::In::Foreign(Foreign::TablesRead), out);
        let is_astray = self.take_astray(&inventory.fabric, installed);
        let before = self.in_force.fabric();
        let input = In::TablesRead {
            before: before.map(|before| (&**before, &**self.in_force.installed())),
            after: (&inventory.fabric, installed),
            is_astray,
        };
        self.drain.handle(self.now, input, &mut Vec::new());
    }

    /// Hands out a job that computes how long packets may still be in flight, and which entries they may use. Does
    /// nothing if that is known.
    pub(crate) fn settle(&mut self, now: Time, out: &mut Vec<Output>) {
        let Some(inventory) = self.inventory.clone() else {
            return;
        };
        let Some(past) = self.drain.unsettled() else { return };
        let task = Settle::new(past, now, inventory.fabric.switches().len());
        self.compute(Task::Settle(Box::new(task)), out);
    }

    /// Handles the result of the job that computes the effects of packets in flight. If they are computed before the
    /// next fault, its repair is faster.
    pub(crate) fn settled(&mut self, settled: Box<Past>, out: &mut Vec<Output>) {
        if !self.tell_drain(In::Settled(settled)).is_empty() {
            self.prepare_for_what_is_under_way(out);
        }
    }
}
