//! When backups are made, and which are kept.

use std::sync::Arc;

use selvedge_plan::Plan;
use selvedge_planner::{BackUp, Backups, Inventory, JobId, Task};
use selvedge_sim::Time;
use selvedge_verify::standing::State;

use crate::core::Sm;
use crate::event::Event;
use crate::io::Output;
use crate::timer::Timer;

/// States whose backups are kept: a link that was lost comes back, as a rule.
const STATES: usize = 2;

/// What the manager remembers of backups.
#[derive(Debug, Default)]
pub struct BackupBook {
    /// Of the last states, newest first.
    kept: Vec<Arc<Backups>>,
    /// When the next are to be begun.
    due: Option<Time>,
    /// The job that makes some.
    making: Option<(JobId, Making)>,
}

/// Backups on their way.
#[derive(Debug)]
struct Making {
    state: State,
    /// The plan, and the fabric that it is in force on.
    plan: Arc<Plan>,
    inventory: Arc<Inventory>,
}

impl BackupBook {
    /// Takes what was found; it is of use at once.
    fn take(&mut self, found: Backups) {
        if found.state.is_none() {
            return;
        }
        let place = self.kept.iter().position(|kept| kept.state == found.state);
        let mut kept = place.map_or_else(Arc::default, |place| self.kept.remove(place));
        Arc::make_mut(&mut kept).append(found);
        self.kept.insert(0, kept);
        self.kept.truncate(STATES);
    }

    fn of(&self, state: State) -> Option<&Arc<Backups>> {
        self.kept.iter().find(|kept| kept.state == Some(state))
    }
}

impl Sm {
    /// What was found so far, for a repair.
    pub(crate) fn backups(&self) -> Vec<Arc<Backups>> {
        self.backups.kept.clone()
    }

    /// Repairs are prepared: when nothing happens for some time, backups are made.
    pub(crate) fn await_backups(&mut self) {
        self.backups.due = self.config.backups_after.map(|quiet| self.now + quiet);
    }

    /// When they are to be begun.
    pub(crate) const fn backups_due(&self) -> Option<Time> {
        self.backups.due
    }

    /// Has backups made if they are due and nothing else is to be done.
    pub(crate) fn back_up_if_due(&mut self, out: &mut Vec<Output>) {
        if !self.is_due(Timer::Backups) {
            return;
        }
        self.backups.due = None;
        let (Some(state), Some(plan)) = (self.prepared_state(), self.in_force.plan().cloned()) else {
            return;
        };
        let is_on_its_way = |(_, making): &(JobId, Making)| making.state == state;
        if self.backups.making.as_ref().is_some_and(is_on_its_way) {
            return;
        }
        let Some(inventory) = self.inventory.clone().filter(|_| self.knows_the_fabric()) else {
            return;
        };
        let known = self.backups.of(state).cloned();
        if let Some(made) = known.as_ref().filter(|known| known.is_complete) {
            out.extend(made.event().map(Event::Plan).map(Output::Event));
            return;
        }
        self.next_generation();
        let first = self.flaps().lately_down(&inventory.fabric);
        let basis = self.basis(&inventory, self.in_force.installed(), None);
        let task = BackUp::new(basis, Arc::clone(&plan), first, known);
        // Whatever is made for another state is dropped when it comes.
        let making = Making { state, plan, inventory };
        self.make_backups(task, making, out);
    }

    /// Has the next of them made, as things are now.
    fn make_backups(&mut self, mut task: BackUp, making: Making, out: &mut Vec<Output>) {
        task.basis = self.basis(&making.inventory, self.in_force.installed(), None);
        task.adopt = self.adopt();
        let id = self.compute(Task::BackUp(Box::new(task)), out);
        self.backups.making = Some((id, making));
    }

    /// True if a job is the one that makes backups.
    pub(crate) fn is_backing_up(&self, id: JobId) -> bool {
        let making = self.backups.making.as_ref();
        making.is_some_and(|(job, _)| *job == id)
    }

    /// Takes what was made, and goes on if all is still as it was.
    pub(crate) fn backed_up(&mut self, made: Option<Box<BackUp>>, out: &mut Vec<Output>) {
        let (Some((_, making)), Some(mut made)) = (self.backups.making.take(), made) else {
            return;
        };
        let found = made.take_found();
        let state = found.state;
        self.backups.take(found);
        let is_in_force = self.in_force.plan().is_some_and(|plan| Arc::ptr_eq(plan, &making.plan));
        // A sweep has seen another fabric long before its plan is in force.
        let is_seen = (self.inventory.as_ref()).is_some_and(|seen| Arc::ptr_eq(seen, &making.inventory));
        if is_in_force && is_seen && !made.is_done() {
            return self.make_backups(*made, making, out);
        }
        let made = state.filter(|_| is_in_force).and_then(|state| self.backups.of(state));
        let made = made.filter(|made| made.is_complete).and_then(|made| made.event());
        out.extend(made.map(Event::Plan).map(Output::Event));
    }
}
