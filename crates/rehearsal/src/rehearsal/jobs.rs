//! Jobs of managers, under virtual time.

use std::sync::Arc;
use std::time::Duration;

use selvedge_planner::{Job, JobResult};
use selvedge_sim::{Par, Time};
use selvedge_sm::Input;
use selvedge_verify::phases;

use crate::manager::{AcceptedPlan, ManagerId, Pending};
use crate::{Rehearsal, RehearsalError};

/// Virtual costs of jobs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    /// The time for planning the whole fabric; `None`: its documented virtual cost, as for all other jobs.
    pub plan: Option<Duration>,
    /// True if all jobs take no virtual time.
    pub are_free: bool,
}

impl Costs {
    /// Returns when the job's result is available: after its virtual cost.
    pub(super) fn done(self, now: Time, job: &Job) -> Time {
        let cost = match self.are_free {
            true => Some(Duration::ZERO),
            false => self.plan.filter(|_| job.is_whole()),
        };
        now + cost.unwrap_or_else(|| job.virtual_cost())
    }
}

impl Rehearsal {
    /// Begins a job of a manager. A job is a pure function of its inputs, so it runs when its result is due, and not at
    /// all if the manager no longer waits for the result. A test may put a *tamper*, a defect, between manager and
    /// fabric. A tamper may hand on a result after the manager has stopped waiting for it, so with a tamper all jobs
    /// run at once.
    pub(super) fn begin(&mut self, id: ManagerId, mut job: Box<Job>) {
        let done = self.costs.done(self.now, &job);
        let manager = &mut self.managers[id.0];
        let result = (manager.tamper.as_ref()).map(|_| Box::new(job.run(Par::Sequential)));
        if let Some(life) = &mut manager.life {
            life.pending.push((done, Pending::Job { job, result }));
        }
    }

    /// Hands in the result of a job that is due.
    pub(super) fn end(
        &mut self,
        id: ManagerId,
        mut job: Box<Job>,
        result: Option<Box<JobResult>>,
    ) -> Result<(), RehearsalError> {
        let Some(life) = self.managers.get(id.0).and_then(|m| m.life.as_ref()) else {
            return Ok(());
        };
        let boots = Arc::clone(life.looks.boots());
        let result = result.unwrap_or_else(|| match life.sm.awaits(&job) {
            true => Box::new(job.run(Par::Sequential)),
            false => Box::new(job.fruitless(Vec::new())),
        });
        let offered = result.outcome().map(|outcome| AcceptedPlan {
            at: self.now,
            boots,
            fabric: Arc::clone(&outcome.inventory.fabric),
            is_first: !phases::is_live(&outcome.inventory.fabric),
            plan: Arc::clone(&outcome.plan),
        });
        if let Some(life) = self.managers[id.0].life.as_mut() {
            life.plans.offer(offered);
        }
        let taken = self.hand(id, Input::Computed { id: job.id, result });
        if let Some(life) = self.managers[id.0].life.as_mut() {
            life.plans.offer(None);
        }
        taken
    }
}
