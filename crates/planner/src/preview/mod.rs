//! What a change of the policy would send: each Set, in the order in which a manager of an idle fabric sends them.
//!
//! A manager plans step by step: routes, then multicast trees beside them, then alias GUIDs. If places are out of
//! service, another plan follows when no packet crosses them any more. If the M_Key changes, another plan gives ports
//! the new key when that key is stored. A preview calls the same functions, and goes on from the state in which every
//! agent has acknowledged each Set.

mod agents;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::aliases::AliasChange;
use selvedge_plan::multicast::MulticastChange;
use selvedge_plan::{Generation, Installed, Plan, Policy, RebalanceWhen};
use selvedge_routing::lanes_in_force;
use selvedge_sim::Par;
use selvedge_types::Guid;

use crate::adopt::Adopt;
use crate::aliases::AliasBook;
use crate::asks::Asks;
use crate::basis::{Basis, Outcome};
use crate::fabric_plan::{LidClaims, PlanFabric, PlanResult};
use crate::inventory::Inventory;
use crate::lid;
use crate::multicast::{PlannedTrees, TreesInForce};
use crate::rebalance::{Balance, Rebalance, budget};
use crate::told::Told;
use agents::Agents;

/// Largest number of plans in a row. A link leaves service with two, and its port is disabled with a third.
const PLANS_MAX: usize = 8;
/// Largest number of steps of rebalancing, and of moves of trees, after a plan.
const STEPS_MAX: usize = 64;

/// A change of the policy, and the state of the manager that it is proposed to.
#[derive(Clone, Debug)]
pub struct Preview {
    /// Plans the whole fabric with the proposed policy.
    pub plan: PlanFabric,
    /// Multicast groups and their trees.
    pub trees: TreesInForce,
    /// Switches that get no multicast tables, because they did not take one.
    pub without_trees: BTreeSet<Guid>,
    /// Alias GUIDs.
    pub aliases: AliasBook,
    /// Ports that get no alias GUIDs, because they did not take them.
    pub without_aliases: BTreeSet<Guid>,
    /// The policy of the next plan, if ports get another M_Key once it is stored.
    pub then: Option<Arc<Policy>>,
}

/// The plan and the Sets of a proposed change.
#[derive(Clone, Debug, Default)]
pub struct Previewed {
    /// The first plan. Without an outcome, the change would be rolled back.
    pub first: PlanResult,
    /// What is sent, in order. A step begins when all Sets of the one before are acknowledged.
    pub steps: Vec<Step>,
}

/// The Sets of one plan, or of one change of multicast tables or of alias GUIDs.
#[derive(Clone, Debug)]
pub struct Step {
    /// The fabric before the step.
    pub inventory: Arc<Inventory>,
    /// The LFT blocks and lane tables before the step.
    pub installed: Arc<Installed>,
    /// The Sets.
    pub sets: StepSets,
}

/// The Sets of a step.
#[derive(Clone, Debug)]
pub enum StepSets {
    /// The Sets of a plan.
    Plan(Arc<Outcome>),
    /// The Sets of multicast tables, with the tables that switches held before.
    Multicast(MulticastChange, TreesInForce),
    /// The Sets of alias GUIDs.
    Aliases(AliasChange),
}

impl Preview {
    /// Plans with the proposed policy once.
    #[must_use]
    pub fn first(&self, par: Par) -> PlanResult {
        self.plan.run(par)
    }

    /// Returns all Sets of the change.
    #[must_use]
    pub fn run(&self, par: Par) -> Previewed {
        let first = self.first(par);
        let mut agents = Agents::of(self);
        let (mut task, mut result) = (self.plan.clone(), first.clone());
        let mut then = self.then.clone();
        for _ in 0..PLANS_MAX {
            let Some(outcome) = result.outcome.clone() else { break };
            agents.take_apart(result.copies_first.as_deref());
            agents.apply(&outcome);
            self.write_trees(&task.basis, &outcome.plan, &mut agents);
            self.write_aliases(&task.basis, &mut agents);
            let mut plan = Arc::clone(&outcome.plan);
            if task.basis.policy.rebalance == RebalanceWhen::AtOnce {
                plan = self.rebalance(&task.basis, &outcome, &mut agents, par);
                self.move_trees(&task.basis, &plan, &mut agents);
            }
            let Some(next) = next_plan(&task, (&result, &plan), then.take(), &mut agents) else {
                break;
            };
            result = next.run(par);
            task = next;
        }
        Previewed {
            first,
            steps: agents.steps,
        }
    }

    /// Plans all trees beside a plan, and writes them. If they have to wait until packets are gone, they are planned
    /// once more without these packets.
    fn write_trees(&self, basis: &Basis, plan: &Arc<Plan>, agents: &mut Agents) {
        for _ in 0..2 {
            if agents.trees.copies.groups.is_empty() {
                return;
            }
            let task = agents
                .trees
                .task(agents.basis(basis), Arc::clone(plan), self.without_trees(agents));
            match task.run().trees {
                PlannedTrees::Accepted(planned) => return agents.take_trees(*planned),
                PlannedTrees::Later(first) => agents.take_apart(first.as_deref()),
                PlannedTrees::Unchanged | PlannedTrees::Refused => return,
            }
            agents.under_way = None;
        }
    }

    /// Replaces trees by better ones, as a manager does when rebalancing cannot make the load of routes more even.
    fn move_trees(&self, basis: &Basis, plan: &Arc<Plan>, agents: &mut Agents) {
        for _ in 0..STEPS_MAX {
            if agents.trees.copies.groups.is_empty() {
                return;
            }
            let mut task = agents
                .trees
                .task(agents.basis(basis), Arc::clone(plan), self.without_trees(agents));
            task.stale.clear();
            task.moves = Some(budget(&basis.policy, &plan.tables));
            let PlannedTrees::Accepted(planned) = task.run().trees else {
                return;
            };
            let left = planned.moved.1;
            agents.take_trees(*planned);
            if left == 0 {
                return;
            }
        }
    }

    fn without_trees(&self, agents: &Agents) -> BTreeSet<Guid> {
        let mut left_out = agents.inventory.out_of_reach();
        left_out.extend(&self.without_trees);
        left_out
    }

    /// Writes alias GUIDs until ports hold the wanted ones.
    fn write_aliases(&self, basis: &Basis, agents: &mut Agents) {
        let fabric = Arc::clone(&agents.inventory.fabric);
        agents.aliases.yield_to(&fabric);
        for _ in 0..STEPS_MAX {
            agents.aliases.take_as_read(&fabric, &self.without_aliases);
            let next = agents.aliases.next(&fabric, &self.without_aliases);
            agents.aliases.settle(&next.done);
            if next.change.sets() == 0 {
                return;
            }
            let (held, wanted) = (agents.aliases.held(), agents.aliases.wanted());
            let judged = basis.judge.judge_aliases(&agents.inventory, held, wanted, next.change);
            let Ok(change) = judged else { return };
            agents.take_aliases(change.value());
        }
    }

    /// Takes the steps of rebalancing that begin at once. Returns the plan that is in force then.
    fn rebalance(&self, basis: &Basis, outcome: &Outcome, agents: &mut Agents, par: Par) -> Arc<Plan> {
        let (mut plan, mut busiest) = (Arc::clone(&outcome.plan), outcome.verdict.figures.load.max);
        let mut goal = None;
        for _ in 0..STEPS_MAX {
            let task = Rebalance {
                basis: agents.basis(basis),
                plan: Arc::clone(&plan),
                blocks: None,
                busiest,
                goal: goal.take(),
            };
            let result = task.run(par);
            let Some(Balance::Step(step)) = result.balance else {
                break;
            };
            agents.take_apart(result.copies_first.as_deref());
            agents.apply(&step.outcome);
            plan = Arc::clone(&step.outcome.plan);
            self.write_trees(basis, &plan, agents);
            if step.left.blocks == 0 {
                break;
            }
            (busiest, goal) = (step.load_max, Some(step.goal));
        }
        plan
    }
}

/// Returns the task of the next plan, which the manager makes when the plan of `task` is in force; `None` if it makes
/// none. There is a next plan
///
/// - when ports get another M_Key,
/// - when links that are out of service still carried packets, or were not disabled or enabled yet, in the fabric that
///   the task was for,
/// - when ports wait for LIDs that other ports had before.
fn next_plan(
    task: &PlanFabric,
    (result, plan): (&PlanResult, &Plan),
    then: Option<Arc<Policy>>,
    agents: &mut Agents,
) -> Option<PlanFabric> {
    let seen = &task.basis.inventory;
    let (fabric, before) = (Arc::clone(&agents.inventory.fabric), &task.basis.policy);
    let is_sent = result
        .outcome
        .as_ref()
        .is_some_and(|made| !made.changes.value().is_empty());
    let waits_for_lids = is_sent && lid::is_short(&fabric, before, &plan.lids);
    if then.is_none() && !seen.is_withdrawing() && !seen.has_orders_left() && !waits_for_lids {
        return None;
    }
    let policy = then.unwrap_or_else(|| Arc::clone(before));
    let claims = LidClaims {
        known: Arc::new(agents.lids_with(&task.claims.known, plan)),
        ..LidClaims::default()
    };
    let relied_on = (plan.lanes > 1).then(|| lanes_in_force(&fabric, &plan.lids, &plan.service_levels));
    let told = match policy.assume_sl_aware {
        true => Arc::new(Told::default().with_plan(&fabric, plan)),
        false => Arc::default(),
    };
    agents.sweep(&policy.out_of_service);
    let basis = Basis {
        generation: Generation(plan.generation.0 + 1),
        policy,
        under_way: None,
        ..agents.basis(&task.basis)
    };
    Some(PlanFabric {
        claims,
        known_lanes: Arc::new(relied_on.unwrap_or_default()),
        told,
        declined: Arc::clone(&task.declined),
        fog: Duration::ZERO,
        rebalances: false,
        asks: Asks::Nobody,
        adopt: Adopt::of(true, result.keeps_found, false),
        aim: None,
        in_force: None,
        basis,
    })
}
