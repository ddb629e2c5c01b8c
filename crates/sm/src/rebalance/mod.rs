//! Rebalancing: balances load again after faults, one step at a time.
//!
//! A repair moves as few LFT entries as it must, which leaves load uneven. The rebalancer decides when a step towards
//! balanced tables is planned, and handles the result. It begins only when the fabric has been unchanged for a while
//! and the manager is idle. [`selvedge_planner::rebalance`] defines a step. `core/rebalance.rs` hands out the job that
//! plans one. Each sweep and each probe interrupts the steps ([`In::Interrupted`]).

use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::{Plan, Policy, RebalanceWhen, Tables};
use selvedge_planner::rebalance::{Balance, Goal, RebalanceResult, Step, budget};
use selvedge_planner::{JobId, Outcome, TakenApart};
use selvedge_sim::Time;

use crate::config::Mode;
use crate::event::Event;

/// The steps towards even load.
#[derive(Debug, Default)]
pub struct Rebalancer {
    state: State,
    /// The operator's command that is not carried out yet.
    asked: Option<Asked>,
    /// The tables that the steps lead to; known once the first step is planned.
    goal: Option<Arc<Goal>>,
    /// Steps taken.
    steps: u32,
    /// LFT blocks that later steps have to write.
    blocks_left: usize,
    /// Host pairs on the busiest link: before the first step, after the last one, with the tables of the goal.
    load_max: Option<(u64, u64, u64)>,
}

/// What an operator asks for: which kind of rebalancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// True: all entries move in one change, with all waits that it needs, instead of in steps.
    pub at_once: bool,
}

#[derive(Debug, Default)]
enum State {
    /// Load is balanced, or was left as it is, and no event has come since.
    #[default]
    Even,
    /// A sweep or a repair has begun. The quiet time begins when the manager is idle again.
    Disturbed,
    /// A step is planned at this time, or as soon as the manager is idle.
    Due(Time),
    /// A job plans a step, starting from this plan.
    Planning(JobId, Arc<Plan>),
    /// A step is applied.
    Applying,
}

/// The inputs of the rebalancer.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The time of the input.
    pub now: Time,
    /// The mode of the manager.
    pub mode: Mode,
    /// The operator's policy.
    pub policy: &'a Policy,
    /// Host pairs on the busiest link with the plan in force.
    pub busiest: u64,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In {
    /// A sweep or a repair begins; after it, rebalancing starts anew.
    Interrupted,
    /// The manager is idle: if a sweep or a repair came before, the quiet time begins.
    Idle,
    /// The operator asks for rebalancing now.
    Asked(Asked),
    /// A step is due, but too little of the fabric is known for a plan.
    NotReady,
    /// A step is due. A job plans it, starting from this plan, which is in force.
    Planning(JobId, Arc<Plan>),
    /// The job has ended, but its result cannot be used: another plan is in force, or other work is due.
    Stale,
    /// The job has ended, and its step can be applied.
    Planned {
        /// The result.
        result: RebalanceResult,
        /// If no step is safe: packets of the step before may still be in flight.
        is_under_way: bool,
    },
    /// A plan is in force, and none of its Sets failed.
    Applied,
    /// A plan is in force, and some of its Sets failed.
    AppliedInPart,
}

/// Effects of the rebalancer.
#[derive(Debug)]
pub enum Effect {
    /// Report this event.
    Event(Event),
    /// Apply a step that the judge has accepted.
    Apply {
        /// The step.
        outcome: Arc<Outcome>,
        /// Multicast groups that must be taken apart before.
        copies_first: Option<Box<TakenApart>>,
    },
    /// Plan better multicast trees: routes are as balanced as possible.
    MoveTrees,
}

/// The state of rebalancing, as status shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balancing {
    /// Load is balanced.
    #[default]
    Even,
    /// The fabric has changed: tables are compared, or the next step is taken, at this time.
    Waiting {
        /// When rebalancing begins; `None`: not before other work is done, or never.
        until: Option<Time>,
    },
    /// A step is planned.
    Planning,
    /// A step is applied.
    Applying,
}

/// Rebalancing, as status shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalanceView {
    /// The current state.
    pub state: Balancing,
    /// Steps taken.
    pub steps: u32,
    /// Number of LFT blocks left to write, once rebalancing has begun.
    pub blocks_left: usize,
    /// Host pairs on the busiest link: when rebalancing began, after the last step, and with the tables of the goal.
    pub load_max: Option<(u64, u64, u64)>,
}

impl Rebalancer {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In, effects: &mut Vec<Effect>) {
        match input {
            In::Interrupted => self.interrupt(effects),
            In::Idle => self.begin_quiet_time(ctx),
            In::Asked(asked) => {
                self.asked = Some(asked);
                match self.state {
                    // What happened before the command is no reason to wait.
                    State::Even | State::Disturbed | State::Due(_) => self.state = State::Due(ctx.now),
                    State::Planning(..) | State::Applying => {}
                }
            }
            In::NotReady => self.state = State::Even,
            In::Planning(job, plan) => self.state = State::Planning(job, plan),
            In::Stale | In::Planned { .. } if !matches!(self.state, State::Planning(..)) => {}
            In::Stale => self.pause(ctx),
            In::Planned { result, is_under_way } => self.planned(ctx, result, is_under_way, effects),
            In::Applied | In::AppliedInPart if !self.is_applying() => {}
            // A sweep reads the tables of the switches.
            In::AppliedInPart => self.state = State::Disturbed,
            In::Applied if self.blocks_left == 0 => self.end_even(ctx, effects),
            In::Applied => self.pause(ctx),
        }
    }

    /// Returns when a step is due.
    pub const fn due(&self) -> Option<Time> {
        match self.state {
            State::Due(at) => Some(at),
            State::Even | State::Disturbed | State::Planning(..) | State::Applying => None,
        }
    }

    /// Returns how many LFT blocks the next step may write; `None`: all of them, with all waits that this needs.
    pub fn blocks(&self, policy: &Policy, tables: &Tables) -> Option<usize> {
        let at_once = match self.asked {
            Some(asked) => asked.at_once,
            None => policy.rebalance == RebalanceWhen::AtOnce,
        };
        (!at_once).then(|| budget(policy, tables))
    }

    /// Returns the tables that the steps lead to, if they are known.
    pub const fn goal(&self) -> Option<&Arc<Goal>> {
        self.goal.as_ref()
    }

    /// Returns true if this job plans a step.
    pub fn is_planning(&self, id: JobId) -> bool {
        matches!(self.state, State::Planning(expected, _) if expected == id)
    }

    /// Returns true if the current step is planned from this plan.
    pub fn is_planning_from(&self, plan: &Arc<Plan>) -> bool {
        matches!(&self.state, State::Planning(_, from) if Arc::ptr_eq(from, plan))
    }

    /// Returns true while a step is applied.
    pub const fn is_applying(&self) -> bool {
        matches!(self.state, State::Applying)
    }

    /// Returns the status for display.
    pub const fn status(&self) -> BalanceView {
        BalanceView {
            state: match self.state {
                State::Even => Balancing::Even,
                State::Disturbed => Balancing::Waiting { until: None },
                State::Due(at) => Balancing::Waiting { until: Some(at) },
                State::Planning(..) => Balancing::Planning,
                State::Applying => Balancing::Applying,
            },
            steps: self.steps,
            blocks_left: self.blocks_left,
            load_max: self.load_max,
        }
    }

    fn interrupt(&mut self, effects: &mut Vec<Effect>) {
        let (steps, had_goal) = (self.steps, self.goal.is_some());
        *self = Self {
            state: State::Disturbed,
            asked: self.asked,
            ..Self::default()
        };
        if had_goal && steps > 0 {
            effects.push(Effect::Event(Event::RebalanceInterrupted { steps }));
        }
    }

    fn begin_quiet_time(&mut self, ctx: &Ctx<'_>) {
        if !matches!(self.state, State::Disturbed) || ctx.mode != Mode::Manage {
            return;
        }
        let quiet = match (self.asked, ctx.policy.rebalance) {
            (Some(_), _) | (None, RebalanceWhen::AtOnce) => Duration::ZERO,
            (None, RebalanceWhen::Later) => Duration::from_secs(ctx.policy.rebalance_quiet_s.into()),
            (None, RebalanceWhen::Never) => return,
        };
        self.state = State::Due(ctx.now + quiet);
    }

    /// Waits for the pause between two steps; then the next step is planned.
    fn pause(&mut self, ctx: &Ctx<'_>) {
        self.state = State::Due(ctx.now + Duration::from_secs(ctx.policy.rebalance_pause_s.into()));
    }

    fn planned(&mut self, ctx: &Ctx<'_>, result: RebalanceResult, is_under_way: bool, effects: &mut Vec<Effect>) {
        match result.balance {
            Some(Balance::Step(step)) => {
                self.take(ctx, &step, effects);
                effects.push(Effect::Apply {
                    outcome: step.outcome,
                    copies_first: result.copies_first,
                });
            }
            // Perhaps only those packets prevent the step.
            Some(Balance::Held { .. }) if is_under_way => self.pause(ctx),
            Some(Balance::Held { why }) => {
                effects.push(Effect::Event(Event::RebalanceHeld { why }));
                self.end(effects);
            }
            Some(Balance::Even) => self.end_even(ctx, effects),
            None => self.end(effects),
        }
    }

    fn take(&mut self, ctx: &Ctx<'_>, step: &Step, effects: &mut Vec<Effect>) {
        self.state = State::Applying;
        self.goal = Some(Arc::clone(&step.goal));
        self.steps += 1;
        self.blocks_left = step.left.blocks;
        self.load_max = Some((step.goal.before.max, step.load_max, step.goal.after.max));
        effects.push(Effect::Event(Event::RebalanceStep {
            step: self.steps,
            changed: step.changed,
            load: (ctx.busiest, step.load_max),
            left: self.blocks_left,
        }));
    }

    /// Called when load is even. That is worth an event only if there were steps, or a command.
    fn end_even(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) {
        let (steps, load) = (self.steps, ctx.busiest);
        if steps > 0 || self.asked.is_some() {
            effects.push(Effect::Event(Event::Rebalanced { steps, load }));
        }
        self.end(effects);
    }

    fn end(&mut self, effects: &mut Vec<Effect>) {
        *self = Self::default();
        effects.push(Effect::MoveTrees);
    }
}

#[cfg(test)]
mod tests;
