//! Connects backups, which are prepared repairs of links that are up, with the rest of the manager.

use std::sync::Arc;

use selvedge_planner::{BackUp, Inventory, JobId, Task};

use super::Sm;
use crate::event::Event;
use crate::fault::backups::{BackupBook, Ctx, Effect, In};
use crate::io::Output;
use crate::timer::Timer;

impl Sm {
    /// Hands an input to backups, and carries out their effects.
    fn update_backups(&mut self, input: In, out: &mut Vec<Output>) {
        let ctx = Ctx {
            now: self.now,
            quiet: self.config.backups_after,
            plan: self.in_force.plan(),
            inventory: self.inventory.as_ref(),
            knows_the_fabric: self.knows_the_fabric(),
        };
        let mut effects = Vec::new();
        self.backups.handle(&ctx, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Event(event) => out.push(Output::Event(Event::Plan(event))),
                Effect::Begin { inventory, plan, known } => {
                    self.next_generation();
                    let first = self.flaps.lately_down(&inventory.fabric);
                    let basis = self.basis(&inventory, self.in_force.installed(), None);
                    self.make_backups(BackUp::new(basis, plan, first, known), &inventory, out);
                }
                Effect::GoOn { inventory, task } => self.make_backups(*task, &inventory, out),
            }
        }
    }

    /// Called when repairs are prepared. If the fabric then stays unchanged for some time, backups are made.
    pub(crate) fn await_backups(&mut self) {
        self.update_backups(In::Ready, &mut Vec::new());
    }

    /// Returns backups, for queries.
    pub(crate) const fn backups(&self) -> &BackupBook {
        &self.backups
    }

    /// Requests the computation of backups if they are due and the manager is idle.
    pub(crate) fn back_up_if_due(&mut self, out: &mut Vec<Output>) {
        if self.is_due(Timer::Backups) {
            let state = self.prepared_state();
            self.update_backups(In::Due(state), out);
        }
    }

    /// Hands out the job for the next backups, for the present state.
    fn make_backups(&mut self, mut task: BackUp, inventory: &Arc<Inventory>, out: &mut Vec<Output>) {
        task.basis = self.basis(inventory, self.in_force.installed(), None);
        task.adopt = self.adopt();
        let id = self.compute(Task::BackUp(Box::new(task)), out);
        self.update_backups(In::HandedOut(id), out);
    }

    /// True if this job computes backups.
    pub(crate) fn is_backing_up(&self, id: JobId) -> bool {
        self.backups.is_made_by(id)
    }

    /// Takes backups that a job computed.
    pub(crate) fn backed_up(&mut self, made: Option<Box<BackUp>>, out: &mut Vec<Output>) {
        self.update_backups(In::Made(made), out);
    }
}
