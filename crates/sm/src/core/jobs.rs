//! Hands out jobs, each with a number of its own, and gives each result to the part of the manager that requested the
//! job.
//!
//! `Sm::computed` drops a late result: no part waits for its number. A part that takes a result also checks whether the
//! plan that it was made from is still in force.

use std::sync::Arc;

use selvedge_plan::{Installed, UnderWay};
use selvedge_planner::{Adopt, Basis, Inventory, Job, JobId, JobResult, Task};

use super::Sm;
use crate::io::Output;
use crate::stage::Stage;

impl Sm {
    /// Returns the state that a task starts from now. `under_way`: packets in flight that entries which are no longer
    /// in force may have forwarded.
    pub(crate) fn basis(
        &self,
        inventory: &Arc<Inventory>,
        installed: &Arc<Installed>,
        under_way: Option<Arc<UnderWay>>,
    ) -> Basis {
        Basis {
            generation: self.tickets.generation(),
            inventory: Arc::clone(inventory),
            installed: Arc::clone(installed),
            under_way,
            policy: Arc::clone(&self.config.policy),
            judge: Arc::clone(&self.judge),
            copies: self.copies(),
        }
    }

    /// Returns which manager made the tables in force, for plans that keep them.
    pub(crate) const fn adopt(&self) -> Adopt {
        self.in_force.adopt()
    }

    /// Begins a new generation; the next plan gets its number.
    pub(crate) const fn next_generation(&mut self) {
        self.tickets.next_generation();
    }

    /// Returns the ticket of the next job.
    pub(crate) const fn next_job(&mut self) -> JobId {
        self.tickets.next_job()
    }

    /// Hands out a job and returns its ticket.
    pub(crate) fn compute(&mut self, task: Task, out: &mut Vec<Output>) -> JobId {
        let id = self.next_job();
        out.push(Output::Compute(Box::new(Job { id, task })));
        id
    }

    /// Returns true if the manager still waits for the result of a job. If it does not, the driver may skip the job and
    /// hand in [`Job::fruitless`] instead.
    #[must_use]
    pub fn awaits(&self, job: &Job) -> bool {
        match job.task {
            Task::Plan(_) | Task::Repair(_) => self.is_planning(job.id),
            Task::Prepare(_) => self.is_preparing(job.id),
            Task::Rebalance(_) => self.rebalancer().is_planning(job.id),
            Task::Multicast(_) => self.is_planning_multicast(job.id),
            Task::Settle(_) => true,
            Task::BackUp(_) => self.is_backing_up(job.id),
        }
    }

    const fn is_planning(&self, id: JobId) -> bool {
        matches!(self.stage, Stage::Planning { job, .. } if job.0 == id.0)
    }

    /// Gives a result to the part of the manager that requested it, if that part still waits for it.
    pub(crate) fn computed(&mut self, id: JobId, result: JobResult, out: &mut Vec<Output>) {
        match result {
            JobResult::Plan(result) if self.is_planning(id) => self.planned(result, out),
            JobResult::Repair(result) if self.is_planning(id) => self.repair_planned(*result, out),
            JobResult::Prepare(warm) if self.is_preparing(id) => self.prepared(warm, out),
            JobResult::Rebalance(result) if self.rebalancer().is_planning(id) => self.balance_planned(result, out),
            JobResult::Multicast(result) if self.is_planning_multicast(id) => self.multicast_planned(result, out),
            JobResult::BackUp(made) if self.is_backing_up(id) => self.backed_up(made, out),
            // Its revision shows whether it is still current.
            JobResult::Settle(Some(settled)) => self.settled(settled, out),
            JobResult::Plan(_)
            | JobResult::Repair(_)
            | JobResult::Prepare(_)
            | JobResult::Rebalance(_)
            | JobResult::Multicast(_)
            | JobResult::BackUp(_)
            | JobResult::Settle(None) => {}
        }
    }
}
