//! Connects rebalancing with the rest of the manager.

use std::sync::Arc;

use selvedge_plan::Installed;
use selvedge_planner::rebalance::{Balance, Rebalance, RebalanceResult};
use selvedge_planner::{Outcome, PlanEvent, Task};

use super::Sm;
use crate::apply::Apply;
use crate::commit;
use crate::event::Event;
use crate::io::Output;
use crate::milestone::coming;
use crate::rebalance::{Ctx, Effect, In, Rebalancer};
use crate::stage::Stage;
use crate::timer::Timer;

impl Sm {
    /// Hands an input to rebalancing, and carries out its effects.
    pub(crate) fn rebalance(&mut self, input: In, out: &mut Vec<Output>) {
        let ctx = Ctx {
            now: self.now,
            mode: self.config.mode,
            policy: &self.config.policy,
            busiest: self.busiest(),
        };
        let mut effects = Vec::new();
        self.rebalancer.handle(&ctx, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Event(event) => out.push(Output::Event(event)),
                Effect::Apply { outcome, copies_first } => {
                    self.note_balance_step(&outcome, out);
                    self.note_copies_first(copies_first);
                    self.apply_balance_step(outcome, out);
                }
                Effect::MoveTrees => self.move_trees(),
            }
        }
    }

    /// Returns the rebalancer, for queries.
    pub(crate) const fn rebalancer(&self) -> &Rebalancer {
        &self.rebalancer
    }

    /// Returns true while a step towards balance is applied.
    pub(crate) const fn is_balancing(&self) -> bool {
        self.rebalancer.is_applying()
    }

    /// Requests a step of rebalancing if one is due and the manager is idle.
    pub(crate) fn balance_if_due(&mut self, out: &mut Vec<Output>) {
        if !self.is_due(Timer::Balance) {
            return;
        }
        let input = match self.plan_balance_step(out) {
            Some(input) => input,
            None => In::NotReady,
        };
        self.rebalance(input, out);
    }

    /// Hands out the job that plans a step; `None` if too little is known of the fabric.
    fn plan_balance_step(&mut self, out: &mut Vec<Output>) -> Option<In> {
        let (inventory, plan) = (self.inventory.clone()?, self.in_force.plan().cloned()?);
        if !self.knows_the_fabric() || inventory.fabric.switches().is_empty() {
            return None;
        }
        self.next_generation();
        let under_way = self.under_way(&inventory.fabric);
        let task = Task::Rebalance(Box::new(Rebalance {
            basis: self.basis(&inventory, self.in_force.installed(), under_way),
            plan: Arc::clone(&plan),
            blocks: self.rebalancer.blocks(&self.config.policy, &plan.tables),
            busiest: self.busiest(),
            goal: self.rebalancer.goal().cloned(),
        }));
        Some(In::Planning(self.compute(task, out), plan))
    }

    /// Handles the result of the job that plans a step.
    pub(crate) fn balance_planned(&mut self, result: RebalanceResult, out: &mut Vec<Output>) {
        let plan = self.in_force.plan();
        let is_same = plan.is_some_and(|plan| self.rebalancer.is_planning_from(plan));
        let is_free = matches!(self.stage, Stage::Idle) && !self.is_sweep_due() && !self.has_suspects();
        if !is_same || !is_free || !self.knows_the_fabric() {
            return self.rebalance(In::Stale, out);
        }
        let is_under_way = match result.balance {
            Some(Balance::Held { .. }) => {
                let fabric = self.in_force.fabric().cloned().unwrap_or_default();
                self.under_way(&fabric).is_some()
            }
            _ => false,
        };
        self.rebalance(In::Planned { result, is_under_way }, out);
    }

    /// Notes that a plan is in force: if the plan was a step of rebalancing, another step may follow.
    pub(crate) fn balance_applied(&mut self, out: &mut Vec<Output>) {
        let input = match self.in_force.failed() {
            0 => In::Applied,
            _ => In::AppliedInPart,
        };
        self.rebalance(input, out);
    }

    /// Returns how many host pairs the busiest link carries with the plan in force.
    fn busiest(&self) -> u64 {
        self.in_force.verdict().map_or(0, |verdict| verdict.figures.load.max)
    }

    /// Reports a step of rebalancing before it is applied.
    fn note_balance_step(&self, outcome: &Outcome, out: &mut Vec<Output>) {
        let inventory = self.inventory.as_deref();
        out.extend(inventory.map(|inventory| Output::Milestone(coming(inventory, outcome, false))));
        let count = outcome.changes.value().count();
        out.push(Output::Event(Event::Plan(PlanEvent::Accepted {
            engine: outcome.plan.engine.0.clone(),
            sets: count.total(),
            lft_blocks: count.lft_blocks,
        })));
    }

    fn apply_balance_step(&mut self, outcome: Arc<Outcome>, out: &mut Vec<Output>) {
        let Some(inventory) = self.inventory.clone() else {
            return;
        };
        self.tell_in_force(commit::In::Step(&outcome));
        self.put_off_light_sweep();
        // Prepared data belong to the tables before the step.
        self.keep_warm(None);
        let installed = Arc::clone(self.in_force.installed());
        if !self.stored().covers(outcome.plan.generation) {
            return self.persist(inventory, installed, outcome, out);
        }
        let held = Installed::clone(&installed);
        self.forget_silence();
        let apply = Apply::new(outcome, Arc::clone(&inventory), held);
        self.begin_applying(apply, inventory, out);
    }
}
