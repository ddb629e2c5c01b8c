//! Jobs: long computations of a manager, one task each. A job runs outside the manager's thread and is a pure function
//! of its task.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use selvedge_sim::Par;

use crate::backups::BackUp;
use crate::basis::{Basis, Outcome};
use crate::event::PlanEvent;
use crate::fabric_plan::{PlanFabric, PlanResult};
use crate::multicast::{MulticastResult, MulticastTask, PlannedTrees};
use crate::past::Past;
use crate::rebalance::{Balance, Rebalance, RebalanceResult};
use crate::repair::{Repair, RepairResult};
use crate::settle::Settle;
use crate::warm::{Prepare, Warm, is_small};

/// The ticket of a job. The manager accepts only the result with the ticket that it waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A long computation that a manager requests.
#[derive(Clone, Debug)]
pub struct Job {
    /// Ticket of the job.
    pub id: JobId,
    /// The task.
    pub task: Task,
}

/// The task of a job, with all its input.
#[derive(Clone, Debug)]
pub enum Task {
    /// Plan the whole fabric.
    Plan(Box<PlanFabric>),
    /// Plan around links that were lost or came back.
    Repair(Box<Repair>),
    /// Prepare repairs of links that may be lost next.
    Prepare(Box<Prepare>),
    /// Plan a step towards balance.
    Rebalance(Box<Rebalance>),
    /// Plan multicast trees.
    Multicast(Box<MulticastTask>),
    /// Compute how long packets that earlier entries forwarded may still be in flight.
    Settle(Box<Settle>),
    /// Compute repairs of links that are up.
    BackUp(Box<BackUp>),
}

/// The result of a job. Its variant is that of the task.
#[derive(Clone, Debug)]
pub enum JobResult {
    /// Result of [`Task::Plan`].
    Plan(PlanResult),
    /// Result of [`Task::Repair`].
    Repair(Box<RepairResult>),
    /// Result of [`Task::Prepare`]: the data for the next repair. `None` if the job was not run.
    Prepare(Option<Box<Warm>>),
    /// Result of [`Task::Rebalance`].
    Rebalance(RebalanceResult),
    /// Result of [`Task::Multicast`].
    Multicast(MulticastResult),
    /// Result of [`Task::Settle`]: the updated record, for [`Past::take_settled`]. `None` if the job was not run.
    Settle(Option<Box<Past>>),
    /// Result of [`Task::BackUp`]: the task with its results and the remaining links. `None` if the job was not run.
    BackUp(Option<Box<BackUp>>),
}

impl Task {
    /// Returns the basis of the task, so that tests can change it before the job runs. [`Task::Settle`] has none.
    #[must_use]
    pub const fn basis_mut(&mut self) -> Option<&mut Basis> {
        match self {
            Self::Plan(task) => Some(&mut task.basis),
            Self::Repair(task) => Some(&mut task.basis),
            Self::Prepare(task) => Some(&mut task.basis),
            Self::Rebalance(task) => Some(&mut task.basis),
            Self::Multicast(task) => Some(&mut task.basis),
            Self::BackUp(task) => Some(&mut task.basis),
            Self::Settle(_) => None,
        }
    }
}

impl Job {
    /// Returns the cost of the job in simulations with virtual time: about the time that one core needs. A plan costs
    /// 20 µs for each switch, and 2 ns for each LID at each switch. A preparation costs 10 µs for each switch instead
    /// of 20. A repair costs 50 µs, and 2 µs for each switch. The packets in flight cost 8 µs for each switch. A job of
    /// backups costs as much as its repairs. The first such job of a state also costs as much as a plan, because it
    /// makes the copies.
    #[must_use]
    pub fn virtual_cost(&self) -> Duration {
        match &self.task {
            Task::Plan(task) => plan_cost(&task.basis),
            Task::Rebalance(task) => plan_cost(&task.basis),
            Task::Prepare(task) => {
                let (switches, lids) = task.basis.sizes();
                Duration::from_nanos(switches * 10_000 + switches * lids * 2)
            }
            Task::Repair(task) => task.virtual_cost(),
            Task::Settle(task) => Duration::from_nanos(task.switches * 8_000),
            Task::BackUp(task) => {
                let copies = if task.is_new() {
                    plan_cost(&task.basis)
                } else {
                    Duration::ZERO
                };
                let (switches, _) = task.basis.sizes();
                copies + Duration::from_nanos(BackUp::at_once() as u64 * (50_000 + switches * 2_000))
            }
            Task::Multicast(task) => task.virtual_cost(),
        }
    }

    /// Sets the clock for the times that the job reports. Without a clock it reports its virtual cost.
    pub const fn set_clock(&mut self, clock: fn() -> Duration) {
        if let Task::Repair(repair) = &mut self.task {
            repair.clock = Some(clock);
        }
    }

    /// True if the job plans the whole fabric.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        matches!(self.task, Task::Plan(_))
    }

    /// True if no other job should wait for this one.
    #[must_use]
    pub const fn is_background(&self) -> bool {
        matches!(self.task, Task::Rebalance(_) | Task::Settle(_))
    }

    /// True if the job computes backups, which run in parallel with other jobs or after them.
    #[must_use]
    pub const fn is_backing_up(&self) -> bool {
        matches!(self.task, Task::BackUp(_))
    }

    /// True if the job plans multicast trees, in parallel with other jobs.
    #[must_use]
    pub const fn is_multicast(&self) -> bool {
        matches!(self.task, Task::Multicast(_))
    }

    /// True if [`Self::run_in_place`] takes a few milliseconds at most: a prepared repair of a fabric that is not too
    /// large.
    #[must_use]
    pub fn is_brief(&self) -> bool {
        let Task::Repair(repair) = &self.task else { return false };
        let entries = repair.basis.inventory.fabric.switches().len() * repair.plan.lids.len();
        repair.is_prepared() && is_small(entries, repair.searches())
    }

    /// Makes a repair in place, if it is prepared and possible. Otherwise call [`Self::run`], which takes longer.
    #[must_use]
    pub fn run_in_place(&mut self) -> Option<JobResult> {
        let Task::Repair(repair) = &mut self.task else {
            return None;
        };
        repair.run_in_place().map(Box::new).map(JobResult::Repair)
    }

    /// Runs the task. A job is run once: prepared data moves from the task to the result.
    #[must_use]
    pub fn run(&mut self, par: Par) -> JobResult {
        match &mut self.task {
            Task::Plan(task) => JobResult::Plan(task.run(par)),
            Task::Repair(task) => JobResult::Repair(Box::new(task.run(par))),
            Task::Prepare(task) => JobResult::Prepare(Some(Box::new(task.run(par)))),
            Task::Rebalance(task) => JobResult::Rebalance(task.run(par)),
            Task::Multicast(task) => JobResult::Multicast(task.run()),
            Task::Settle(task) => JobResult::Settle(Some(Box::new(task.run()))),
            Task::BackUp(task) => JobResult::BackUp(Some(Box::new(task.run(par)))),
        }
    }

    /// Returns the result of this job if its run failed: there is no plan, and switches keep their tables.
    #[must_use]
    pub fn no_plan(&self) -> JobResult {
        self.fruitless(vec![PlanEvent::NoPlan])
    }

    /// Returns the empty result of this job, for a job that was not run or not finished. `events` has the reason, if an
    /// operator should know it.
    #[must_use]
    pub fn fruitless(&self, events: Vec<PlanEvent>) -> JobResult {
        match &self.task {
            Task::Plan(_) => JobResult::Plan(PlanResult {
                events,
                ..PlanResult::default()
            }),
            Task::Repair(_) => JobResult::Repair(Box::new(RepairResult {
                events,
                ..RepairResult::default()
            })),
            Task::Prepare(_) => JobResult::Prepare(None),
            Task::Rebalance(_) => JobResult::Rebalance(RebalanceResult::default()),
            Task::Multicast(_) => JobResult::Multicast(MulticastResult {
                trees: match events.is_empty() {
                    true => PlannedTrees::Unchanged,
                    false => PlannedTrees::Refused,
                },
                events,
            }),
            Task::Settle(_) => JobResult::Settle(None),
            Task::BackUp(_) => JobResult::BackUp(None),
        }
    }
}

/// Returns the cost of planning the whole fabric.
fn plan_cost(basis: &Basis) -> Duration {
    let (switches, lids) = basis.sizes();
    Duration::from_nanos(switches * 20_000 + switches * lids * 2)
}

impl JobResult {
    /// Returns the accepted plan, if the job made one.
    #[must_use]
    pub fn outcome(&self) -> Option<&Arc<Outcome>> {
        match self {
            Self::Plan(result) => result.outcome.as_ref(),
            Self::Repair(result) => result.mended.as_ref().map(|mended| &mended.outcome),
            Self::Rebalance(result) => match &result.balance {
                Some(Balance::Step(step)) => Some(&step.outcome),
                Some(Balance::Even | Balance::Held { .. }) | None => None,
            },
            Self::Prepare(_) | Self::Multicast(_) | Self::Settle(_) | Self::BackUp(_) => None,
        }
    }

    /// Returns the data for the next repair, if the job has it.
    #[must_use]
    pub fn warm(&self) -> Option<&Warm> {
        match self {
            Self::Repair(result) => result.warm.as_deref(),
            Self::Prepare(warm) => warm.as_deref(),
            Self::Plan(_) | Self::Rebalance(_) | Self::Multicast(_) | Self::Settle(_) | Self::BackUp(_) => None,
        }
    }

    /// Sets the time that the job took, if a clock measured it.
    pub fn set_took(&mut self, took: Duration) {
        if let Self::Repair(result) = self {
            result.took = took;
        }
    }
}
