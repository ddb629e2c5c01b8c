//! Routes between the plan in force and the rest of the manager.

use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::Installed;
use selvedge_planner::Inventory;

use super::Sm;
use crate::commit::{Ctx, Effect, In, Known};
use crate::config::Mode;
use crate::election::Role;
use crate::io::Output;
use crate::milestone::{Committed, Milestone};
use crate::report::Failures;

impl Sm {
    /// Hands an input to the plan in force; returns what is to be done.
    pub(crate) fn tell_in_force(&mut self, input: In<'_>) -> Vec<Effect> {
        let ctx = Ctx {
            mode: match self.role() {
                Role::Standby => Mode::Watch,
                _ => self.config.mode,
            },
            policy: &self.config.policy,
            found: self.inventory.as_deref(),
        };
        let mut effects = Vec::new();
        self.in_force.handle(&ctx, input, &mut effects);
        effects
    }

    /// Hands an input to the plan in force, and tells what it wants told.
    pub(crate) fn update_in_force(&mut self, input: In<'_>, out: &mut Vec<Output>) {
        for effect in self.tell_in_force(input) {
            match effect {
                Effect::Event(event) => out.push(Output::Event(event)),
                Effect::CopiesChanged(held) => out.push(Output::Milestone(Milestone::CopiesChanged(held))),
                Effect::Astray => {}
            }
        }
    }

    /// Neither the plan in force nor one that was left half-way counts any more.
    pub(crate) fn drop_plans(&mut self) {
        self.tell_in_force(In::Dropped);
    }

    /// Returns true if a table is another one than this manager believed to have written.
    pub(crate) fn take_astray(&mut self, fabric: &Fabric, read: &Installed) -> bool {
        !self.tell_in_force(In::Read(fabric, read)).is_empty()
    }

    /// A sweep is over, or what changed tables: takes what is known now.
    pub(crate) fn finish(
        &mut self,
        inventory: &Inventory,
        fabric: Arc<Fabric>,
        installed: impl Into<Arc<Installed>>,
        failures: &Failures,
    ) {
        self.know(Known {
            inventory,
            fabric: &fabric,
            installed: &installed.into(),
            failures,
            is_of_sweep: !self.is_repairing() && !self.is_balancing(),
            is_cut_off: false,
        });
    }

    /// A sweep has found that nothing can be reached. Front ends say that there is no fabric.
    pub(super) fn finish_cut_off(&mut self, inventory: &Inventory) {
        self.know(Known {
            inventory,
            fabric: &inventory.fabric,
            installed: &Arc::default(),
            failures: &Failures::none(),
            is_of_sweep: !self.is_repairing() && !self.is_balancing(),
            is_cut_off: true,
        });
    }

    fn know(&mut self, known: Known<'_>) {
        self.note_who_is_gone(known.fabric, known.installed);
        self.tell_in_force(In::Known(known));
        self.inventory = self.in_force.inventory().cloned();
    }

    /// Returns the milestone of the plan in force; `None` without one.
    pub(crate) fn committed(&self) -> Option<Output> {
        Some(Output::Milestone(Milestone::Committed(Box::new(Committed {
            fabric: self.in_force.fabric().cloned()?,
            plan: self.in_force.plan().cloned()?,
            inventory: self.in_force.inventory().cloned()?,
            lanes: Arc::clone(&self.in_force.installed().lanes),
            policy: Arc::clone(&self.config.policy),
            unasked: Arc::clone(self.registration().unasked()),
            asks_all: self.registration().asks_all(),
            manager: self.own_sm_info(),
        }))))
    }
}
