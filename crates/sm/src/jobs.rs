//! Hands out jobs, and gives each result to what waits for it.

use std::sync::Arc;

use selvedge_plan::{Installed, UnderWay};
use selvedge_planner::multicast::MulticastResult;
use selvedge_planner::rebalance::RebalanceResult;
use selvedge_planner::{Adopt, Basis, Inventory, Job, JobId, JobResult, Task};

use crate::core::Sm;
use crate::io::Output;
use crate::stage::Stage;

impl Sm {
    /// What a task starts from now, if packets may be `under_way` by entries that are no longer in force.
    pub(crate) fn basis(
        &self,
        inventory: &Arc<Inventory>,
        installed: &Arc<Installed>,
        under_way: Option<Arc<UnderWay>>,
    ) -> Basis {
        Basis {
            generation: self.generation,
            inventory: Arc::clone(inventory),
            installed: Arc::clone(installed),
            under_way,
            policy: Arc::clone(&self.config.policy),
            judge: Arc::clone(&self.judge),
            copies: self.copies(),
        }
    }

    /// Which manager made the tables in force, for what is planned beside them.
    pub(crate) const fn adopt(&self) -> Adopt {
        match self.keeps_found {
            true => Adopt::Kept,
            false => Adopt::No,
        }
    }

    /// A job with its ticket.
    pub(crate) const fn new_job(&self, task: Task) -> Job {
        let id = JobId(self.generation.0);
        Job { id, task }
    }

    /// Hands out a job; returns its ticket.
    pub(crate) fn compute(&self, task: Task, out: &mut Vec<Output>) -> JobId {
        let job = self.new_job(task);
        let id = job.id;
        out.push(Output::Compute(Box::new(job)));
        id
    }

    /// True if a job's result would be taken if it came now. Otherwise a driver that has not run the job may hand in
    /// [`Job::fruitless`].
    #[must_use]
    pub fn awaits(&self, job: &Job) -> bool {
        let id = job.id;
        matches!(job.task, Task::Settle(_))
            || self.is_preparing(id)
            || self.is_backing_up(id)
            || self.is_planning_balance(id)
            || self.is_planning_multicast(id)
            || self.is_planning(id)
    }

    fn is_planning(&self, id: JobId) -> bool {
        id == JobId(self.generation.0) && matches!(self.stage, Stage::Planning { .. })
    }

    /// Takes a result if it is [awaited](Self::awaits).
    pub(crate) fn computed(&mut self, id: JobId, result: JobResult, out: &mut Vec<Output>) {
        if let JobResult::Settle(settled) = result {
            settled.into_iter().for_each(|settled| self.settled(*settled, out));
            return;
        }
        if self.is_preparing(id) {
            let warm = if let JobResult::Prepare(warm) = result {
                warm
            } else {
                None
            };
            return self.prepared(warm, out);
        }
        if self.is_backing_up(id) {
            let made = if let JobResult::BackUp(made) = result {
                made
            } else {
                None
            };
            return self.backed_up(made, out);
        }
        if self.is_planning_balance(id) {
            let planned = if let JobResult::Rebalance(planned) = result {
                planned
            } else {
                RebalanceResult::default()
            };
            return self.balance_planned(planned, out);
        }
        if self.is_planning_multicast(id) {
            let planned = if let JobResult::Multicast(planned) = result {
                planned
            } else {
                MulticastResult::default()
            };
            return self.multicast_planned(planned, out);
        }
        if !self.is_planning(id) {
            return;
        }
        match result {
            JobResult::Plan(result) => self.planned(result, out),
            JobResult::Repair(result) => self.repair_planned(*result, out),
            JobResult::Prepare(_)
            | JobResult::Rebalance(_)
            | JobResult::Multicast(_)
            | JobResult::Settle(_)
            | JobResult::BackUp(_) => {}
        }
    }
}
