//! Backups: repairs of links that are up, planned while the fabric is quiet. This module decides when they are planned,
//! and which are kept.

use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::Plan;
use selvedge_planner::{BackUp, Backups, Inventory, JobId, PlanEvent};
use selvedge_sim::Time;
use selvedge_verify::standing::State;

/// Number of states for which backups are kept. A lost link usually comes back, and then the backups of the earlier
/// state fit again.
const STATES: usize = 2;

/// The backups that are kept, and those that are being made.
#[derive(Debug, Default)]
pub struct BackupBook {
    /// Backups of the last states, newest first.
    kept: Vec<Arc<Backups>>,
    /// When the next backups are computed.
    due: Option<Time>,
    /// The backups that are being made.
    making: Option<Making>,
}

/// Backups that are being made.
#[derive(Debug)]
struct Making {
    /// The job that makes backups, once it is handed out.
    job: Option<JobId>,
    state: State,
    /// The plan in force, and the fabric that it is in force on.
    plan: Arc<Plan>,
    inventory: Arc<Inventory>,
}

/// The state of other sub-machines that this one may read.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The time of the input.
    pub now: Time,
    /// How long nothing must happen before backups are made; `None`: none are made.
    pub quiet: Option<Duration>,
    /// The plan in force.
    pub plan: Option<&'a Arc<Plan>>,
    /// The fabric that the plan is in force on, as last seen.
    pub inventory: Option<&'a Arc<Inventory>>,
    /// True if the state in force is fully known.
    pub knows_the_fabric: bool,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In {
    /// Repairs are prepared.
    Ready,
    /// The time of [`BackupBook::due`] has come. Carries the proved state, if backups can be made for it.
    Due(Option<State>),
    /// The job of [`Effect::Begin`] or [`Effect::GoOn`] has this ticket.
    HandedOut(JobId),
    /// The job of [`Self::HandedOut`] has ended. Carries its result.
    Made(Option<Box<BackUp>>),
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Report this event.
    Event(PlanEvent),
    /// Hand out a job that makes the first backups.
    Begin {
        /// The links of this fabric get backups.
        inventory: Arc<Inventory>,
        /// The plan in force.
        plan: Arc<Plan>,
        /// Backups that are known already, so that the job does not make them again.
        known: Option<Arc<Backups>>,
    },
    /// Hand out a job that makes the next backups.
    GoOn {
        /// The links of this fabric get backups.
        inventory: Arc<Inventory>,
        /// The remaining work.
        task: Box<BackUp>,
    },
}

impl BackupBook {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In, effects: &mut Vec<Effect>) {
        match input {
            In::Ready => self.due = ctx.quiet.map(|quiet| ctx.now + quiet),
            In::Due(state) => {
                self.due = None;
                effects.extend(state.and_then(|state| self.begin(ctx, state)));
            }
            In::HandedOut(id) => self.making.iter_mut().for_each(|making| making.job = Some(id)),
            In::Made(made) => effects.extend(self.made(ctx, made)),
        }
    }

    /// Returns when backups are computed next.
    #[must_use]
    pub const fn due(&self) -> Option<Time> {
        self.due
    }

    /// Returns the backups that are kept.
    #[must_use]
    pub fn kept(&self) -> &[Arc<Backups>] {
        &self.kept
    }

    /// Returns true if this job makes backups.
    #[must_use]
    pub fn is_made_by(&self, id: JobId) -> bool {
        self.making.as_ref().is_some_and(|making| making.job == Some(id))
    }

    fn begin(&mut self, ctx: &Ctx<'_>, state: State) -> Option<Effect> {
        if self.making.as_ref().is_some_and(|making| making.state == state) {
            return None;
        }
        let inventory = ctx.inventory.filter(|_| ctx.knows_the_fabric)?;
        let (inventory, plan) = (Arc::clone(inventory), Arc::clone(ctx.plan?));
        let known = self.of(state).cloned();
        if let Some(made) = known.as_ref().filter(|known| known.is_complete) {
            return made.event().map(Effect::Event);
        }
        // Whatever is made for another state is dropped when it comes.
        self.making = Some(Making {
            job: None,
            state,
            plan: Arc::clone(&plan),
            inventory: Arc::clone(&inventory),
        });
        Some(Effect::Begin { inventory, plan, known })
    }

    /// Handles the backups that a job made, and continues if the state is unchanged.
    fn made(&mut self, ctx: &Ctx<'_>, made: Option<Box<BackUp>>) -> Option<Effect> {
        let (making, mut task) = self.making.take().zip(made)?;
        let found = task.take_found();
        let state = found.state;
        self.keep(found);
        let is_in_force = ctx.plan.is_some_and(|plan| Arc::ptr_eq(plan, &making.plan));
        // A sweep has seen another fabric long before its plan is in force.
        let is_seen = ctx.inventory.is_some_and(|seen| Arc::ptr_eq(seen, &making.inventory));
        if is_in_force && is_seen && !task.is_done() {
            let inventory = Arc::clone(&making.inventory);
            self.making = Some(Making { job: None, ..making });
            return Some(Effect::GoOn { inventory, task });
        }
        let made = state.filter(|_| is_in_force).and_then(|state| self.of(state))?;
        Some(made).filter(|made| made.is_complete)?.event().map(Effect::Event)
    }

    /// Keeps these backups; they can be used at once.
    fn keep(&mut self, found: Backups) {
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
