//! When tables are brought back to balance: not before nothing has happened for a while, a step at a time, and never
//! while there is anything else to do.

use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::{Plan, RebalanceWhen};
use selvedge_planner::rebalance::{Balance, Goal, Rebalance, RebalanceResult, budget};
use selvedge_planner::{JobId, Outcome, PlanEvent, Task};
use selvedge_sim::Time;

use crate::apply::Apply;
use crate::config::Mode;
use crate::core::Sm;
use crate::event::Event;
use crate::io::Output;
use crate::milestone::coming;
use crate::stage::Stage;
use crate::timer::Timer;
use crate::view::{BalanceView, Balancing as Shown};

/// What the manager remembers of balancing.
#[derive(Debug, Default)]
pub struct Balancing {
    state: State,
    /// The operator's command that is not carried out yet.
    asked: Option<Asked>,
    /// Where to, while it is under way.
    goal: Option<Arc<Goal>>,
    /// What is shown.
    shown: BalanceView,
}

/// What an operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// In one change, whatever waits that takes, instead of steps.
    pub at_once: bool,
}

#[derive(Debug, Default)]
enum State {
    /// Nothing has happened since tables were found to be even, or left alone.
    #[default]
    Even,
    /// Something has happened.
    Disturbed,
    /// Time for a look or for the next step, once nothing else is to be done.
    Due(Time),
    /// A step is planned.
    Planning(JobId, Arc<Plan>),
    /// A step is applied.
    Applying,
}

impl Sm {
    /// Something happens to the fabric: whatever was under way begins anew when it is dealt with.
    pub(crate) fn disturb_balance(&mut self, out: &mut Vec<Output>) {
        let balancing = &mut self.balancing;
        balancing.state = State::Disturbed;
        if balancing.goal.take().is_some() && balancing.shown.steps > 0 {
            let steps = balancing.shown.steps;
            out.push(Output::Event(Event::RebalanceInterrupted { steps }));
        }
        balancing.shown = BalanceView::default();
    }

    /// What happened is dealt with: from now on it is quiet.
    pub(crate) fn await_balance(&mut self, now: Time) {
        if !matches!(self.balancing.state, State::Disturbed) || self.config.mode != Mode::Manage {
            return;
        }
        let policy = &self.config.policy;
        let quiet = match (self.balancing.asked, policy.rebalance) {
            (Some(_), _) | (None, RebalanceWhen::AtOnce) => Duration::ZERO,
            (None, RebalanceWhen::Later) => Duration::from_secs(policy.rebalance_quiet_s.into()),
            (None, RebalanceWhen::Never) => return,
        };
        self.balancing.state = State::Due(now + quiet);
    }

    /// The operator asks for it.
    pub(crate) fn ask_balance(&mut self, asked: Asked) {
        self.balancing.asked = Some(asked);
        match self.balancing.state {
            // Goes on as it is asked now; what happened before it was asked is no reason to wait.
            State::Even | State::Disturbed | State::Due(_) => self.balancing.state = State::Due(self.now),
            State::Planning(..) | State::Applying => {}
        }
    }

    /// When a look or a step is due.
    pub(crate) const fn balance_due(&self) -> Option<Time> {
        match self.balancing.state {
            State::Due(at) => Some(at),
            State::Even | State::Disturbed | State::Planning(..) | State::Applying => None,
        }
    }

    /// True while a step is applied.
    pub(crate) const fn is_balancing(&self) -> bool {
        matches!(self.balancing.state, State::Applying)
    }

    /// What is shown of it.
    pub(crate) fn balance_view(&self) -> BalanceView {
        BalanceView {
            state: match self.balancing.state {
                State::Even => Shown::Even,
                State::Disturbed => Shown::Waiting { until: None },
                State::Due(at) => Shown::Waiting { until: Some(at) },
                State::Planning(..) => Shown::Planning,
                State::Applying => Shown::Applying,
            },
            ..self.balancing.shown
        }
    }

    /// Has a step planned if one is due and nothing else is to be done.
    pub(crate) fn balance_if_due(&mut self, out: &mut Vec<Output>) {
        if !self.is_due(Timer::Balance) {
            return;
        }
        let (Some(inventory), Some(plan)) = (self.inventory.clone(), self.view.plan.clone()) else {
            return self.leave_balance();
        };
        if !self.knows_the_fabric() || inventory.fabric.switches().is_empty() {
            return self.leave_balance();
        }
        let policy = &self.config.policy;
        let at_once = match self.balancing.asked {
            Some(asked) => asked.at_once,
            None => policy.rebalance == RebalanceWhen::AtOnce,
        };
        let blocks = (!at_once).then(|| budget(policy, &plan.tables));
        self.generation = self.generation.next();
        let under_way = self.past.under_way(&inventory.fabric, self.now);
        let task = Task::Rebalance(Box::new(Rebalance {
            basis: self.basis(&inventory, &self.view.installed, under_way),
            plan: Arc::clone(&plan),
            blocks,
            busiest: self.busiest(),
            goal: self.balancing.goal.clone(),
        }));
        let id = self.compute(task, out);
        self.balancing.state = State::Planning(id, plan);
    }

    /// Nothing can be done before something happens.
    fn leave_balance(&mut self) {
        self.balancing.state = State::Even;
    }

    /// True if a job is the one that plans a step.
    pub(crate) fn is_planning_balance(&self, id: JobId) -> bool {
        matches!(self.balancing.state, State::Planning(expected, _) if expected == id)
    }

    /// Takes a step that was planned, if all is still as it was.
    pub(crate) fn balance_planned(&mut self, result: RebalanceResult, out: &mut Vec<Output>) {
        let State::Planning(_, plan) = &self.balancing.state else {
            return;
        };
        let is_same = self.view.plan.as_ref().is_some_and(|now| Arc::ptr_eq(now, plan));
        let is_free = matches!(self.stage, Stage::Idle) && self.sweep_due.is_none() && !self.has_suspects();
        let pause = Duration::from_secs(self.config.policy.rebalance_pause_s.into());
        if !is_same || !is_free || !self.knows_the_fabric() {
            self.balancing.state = State::Due(self.now + pause);
            return;
        }
        match result.balance {
            Some(Balance::Step(step)) => {
                let outcome = step.outcome;
                let shown = &mut self.balancing.shown;
                shown.steps += 1;
                shown.blocks_left = step.left.blocks;
                shown.load_max = Some((step.goal.before.max, step.load_max, step.goal.after.max));
                self.balancing.goal = Some(Arc::clone(&step.goal));
                out.push(Output::Event(Event::RebalanceStep {
                    step: shown.steps,
                    changed: step.changed,
                    load: (self.busiest(), step.load_max),
                    left: step.left.blocks,
                }));
                out.extend(
                    self.inventory
                        .as_deref()
                        .map(|inventory| coming(inventory, &outcome, false)),
                );
                let count = outcome.changes.value().count();
                out.push(Output::Event(Event::Plan(PlanEvent::Accepted {
                    engine: outcome.plan.engine.0.clone(),
                    sets: count.total(),
                    lft_blocks: count.lft_blocks,
                })));
                self.balancing.state = State::Applying;
                self.note_copies_first(result.copies_first);
                self.apply_step(outcome, out);
            }
            Some(Balance::Held { why }) => {
                // Packets of the step before may be all that is in the way.
                if self.past.under_way(&self.fabric_now(), self.now).is_some() {
                    self.balancing.state = State::Due(self.now + pause);
                    return;
                }
                out.push(Output::Event(Event::RebalanceHeld { why }));
                self.end_balance();
            }
            Some(Balance::Even) => {
                self.say_even(out);
                self.end_balance();
            }
            None => self.end_balance(),
        }
    }

    fn say_even(&self, out: &mut Vec<Output>) {
        let steps = self.balancing.shown.steps;
        if steps > 0 || self.balancing.asked.is_some() {
            let load = self.busiest();
            out.push(Output::Event(Event::Rebalanced { steps, load }));
        }
    }

    fn busiest(&self) -> u64 {
        self.view.verdict.as_ref().map_or(0, |verdict| verdict.figures.load.max)
    }

    fn fabric_now(&self) -> Arc<selvedge_fabric::Fabric> {
        self.view.fabric.clone().unwrap_or_default()
    }

    /// Routes are as even as they get; trees of multicast groups are next.
    fn end_balance(&mut self) {
        self.balancing = Balancing::default();
        self.move_trees();
    }

    fn apply_step(&mut self, outcome: Arc<Outcome>, out: &mut Vec<Output>) {
        let Some(inventory) = self.inventory.clone() else {
            return;
        };
        self.view.changes = outcome.changes.value().count();
        self.view.acknowledged = 0;
        self.view.failed = 0;
        self.put_off_light_sweep();
        // What was prepared is for the tables of before.
        self.keep_warm(None);
        let installed = Arc::clone(&self.view.installed);
        if !self.stored().covers(outcome.plan.generation) {
            return self.persist(inventory, installed, outcome, out);
        }
        let held = selvedge_plan::Installed::clone(&installed);
        self.silent.forget();
        self.read_back.begin_writing(self.now);
        let apply = Apply::new(outcome, Arc::clone(&inventory), held);
        self.begin_applying(apply, inventory, out);
    }

    /// A plan is in force; if it was a step, the next is due after a pause, and the last of them is told.
    pub(crate) fn balance_applied(&mut self, now: Time, out: &mut Vec<Output>) {
        if !matches!(self.balancing.state, State::Applying) {
            return;
        }
        if self.view.failed > 0 {
            // A sweep sees to it.
            self.balancing.state = State::Disturbed;
            return;
        }
        if self.balancing.shown.blocks_left == 0 {
            self.say_even(out);
            return self.end_balance();
        }
        let pause = Duration::from_secs(self.config.policy.rebalance_pause_s.into());
        self.balancing.state = State::Due(now + pause);
    }
}
