//! Jobs: the long work of a manager, one task each. A job runs off the manager's thread and is a pure function of its
//! task.

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

/// The ticket of a job: the manager takes a result only by the ticket that it waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Long work that a manager wants done.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its ticket.
    pub id: JobId,
    /// What is to be done.
    pub task: Task,
}

/// What a job is to do, with all that it needs for that.
#[derive(Clone, Debug)]
pub enum Task {
    /// Plan the whole fabric.
    Plan(Box<PlanFabric>),
    /// Plan around links that were lost or came back.
    Repair(Box<Repair>),
    /// Prepare repairs of what may be lost next.
    Prepare(Box<Prepare>),
    /// Plan a step towards balance.
    Rebalance(Box<Rebalance>),
    /// Plan multicast trees.
    Multicast(Box<MulticastTask>),
    /// Work out for how long packets of earlier entries matter.
    Settle(Box<Settle>),
    /// Work out repairs of links that are up.
    BackUp(Box<BackUp>),
}

/// What came of a job: the variant is that of its task.
#[derive(Clone, Debug)]
pub enum JobResult {
    /// Of [`Task::Plan`].
    Plan(PlanResult),
    /// Of [`Task::Repair`].
    Repair(Box<RepairResult>),
    /// Of [`Task::Prepare`]: what the next repair starts from; `None` if the job was not run.
    Prepare(Option<Box<Warm>>),
    /// Of [`Task::Rebalance`].
    Rebalance(RebalanceResult),
    /// Of [`Task::Multicast`].
    Multicast(MulticastResult),
    /// Of [`Task::Settle`]: the account, settled, for [`Past::take_settled`]; `None` if the job was not run.
    Settle(Option<Box<Past>>),
    /// Of [`Task::BackUp`]: the task with what it has found, and what is left to do; `None` if the job was not run.
    BackUp(Option<Box<BackUp>>),
}

impl Task {
    /// Returns what the task starts from, to be changed by tests that stand between a manager and its jobs;
    /// [`Task::Settle`] has none.
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
    /// Returns what the job costs under virtual time: about what one core needs. A plan takes 20 µs a switch and 2 ns
    /// a (switch, LID), preparations half the first, a repair 50 µs and 2 µs a switch, packets under way 8 µs a switch;
    /// backups as much as the repairs, and at first as a plan.
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

    /// Has the times measured that the job reports. Without a clock it reports its virtual cost.
    pub const fn set_clock(&mut self, clock: fn() -> Duration) {
        if let Task::Repair(repair) = &mut self.task {
            repair.clock = Some(clock);
        }
    }

    /// Returns true if the job plans the whole fabric.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        matches!(self.task, Task::Plan(_))
    }

    /// Returns true if no other job may wait for this one.
    #[must_use]
    pub const fn is_background(&self) -> bool {
        matches!(self.task, Task::Rebalance(_) | Task::Settle(_))
    }

    /// Returns true if the job works out repairs of links that are up: beside other jobs, and after them.
    #[must_use]
    pub const fn is_backing_up(&self) -> bool {
        matches!(self.task, Task::BackUp(_))
    }

    /// Returns true if the job plans multicast trees: beside other jobs.
    #[must_use]
    pub const fn is_multicast(&self) -> bool {
        matches!(self.task, Task::Multicast(_))
    }

    /// Returns true if [`Self::run_in_place`] takes a few milliseconds at most: a repair that is prepared for, of a
    /// fabric that is not too large.
    #[must_use]
    pub fn is_brief(&self) -> bool {
        let Task::Repair(repair) = &self.task else { return false };
        let entries = repair.basis.inventory.fabric.switches().len() * repair.plan.lids.len();
        repair.is_prepared() && is_small(entries, repair.searches())
    }

    /// Makes a repair in place, if it is prepared for and that does. If not, [`Self::run`] is to be called: it takes
    /// longer.
    #[must_use]
    pub fn run_in_place(&mut self) -> Option<JobResult> {
        let Task::Repair(repair) = &mut self.task else {
            return None;
        };
        repair.run_in_place().map(Box::new).map(JobResult::Repair)
    }

    /// Does what is to be done. A job is run once: what is prepared, or counted up, moves from the task to the result.
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

    /// Returns the result of this job if its run broke off: there is no plan, and switches keep what they hold.
    #[must_use]
    pub fn no_plan(&self) -> JobResult {
        self.fruitless(vec![PlanEvent::NoPlan])
    }

    /// Returns the result of this job if nothing comes of it: it is not run, or its run was cut short. `events` says
    /// why, if an operator should know.
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

/// Returns what planning the whole fabric costs.
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

    /// Returns what the next repair starts from, if the job hands that over.
    #[must_use]
    pub fn warm(&self) -> Option<&Warm> {
        match self {
            Self::Repair(result) => result.warm.as_deref(),
            Self::Prepare(warm) => warm.as_deref(),
            Self::Plan(_) | Self::Rebalance(_) | Self::Multicast(_) | Self::Settle(_) | Self::BackUp(_) => None,
        }
    }

    /// Notes how long the job took, where a clock measured it.
    pub fn set_took(&mut self, took: Duration) {
        if let Self::Repair(result) = self {
            result.took = took;
        }
    }
}
