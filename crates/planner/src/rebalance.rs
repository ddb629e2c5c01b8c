//! Restores the balance of tables that repairs have left uneven, step by step, towards the tables that their engine
//! would make from scratch.
//!
//! A step is a plan like any other: planned here, judged, and with a proved transition.

use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::{ChangeSet, Installed, NO_PATH, Op, Plan, Policy, Tables};
pub use selvedge_routing::Difference;
use selvedge_routing::{Capability, Engine, Options, Rebalance as Spread, difference, goal_for, step_towards};
use selvedge_sim::{Par, Seed};
use selvedge_verify::phases::{Passage, passage};
use selvedge_verify::{JudgeOptions, Load, Subject, verify};

use crate::basis::{Basis, Outcome};
use crate::copies::TakenApart;
use crate::engine::{in_words, options};
use crate::held::with_top;
use crate::repair::away;
use crate::way::{self, WayOptions};

/// Task: plan a step towards balance.
#[derive(Clone, Debug)]
pub struct Rebalance {
    /// The state that the task starts from.
    pub basis: Basis,
    /// The plan in force.
    pub plan: Arc<Plan>,
    /// Largest number of LFT blocks that the step may write; such a step neither waits nor drops packets. `None`: one
    /// step changes everything, with the waits that it needs.
    pub blocks: Option<usize>,
    /// Host pairs on the busiest link. No step increases it.
    pub busiest: u64,
    /// The tables that rebalancing shall reach, if they are known.
    pub goal: Option<Arc<Goal>>,
}

/// Tables with a better load than those in force, measured by the judge.
#[derive(Clone, Debug)]
pub struct Goal {
    /// The tables.
    pub tables: Tables,
    /// Host pairs on links with the tables in force, when the goal was found.
    pub before: Load,
    /// Host pairs on links with the tables of the goal.
    pub after: Load,
}

/// Result of [`Rebalance`].
#[derive(Clone, Debug, Default)]
pub struct RebalanceResult {
    /// The step, or the reason why there is none. `None`: the job was not run.
    pub balance: Option<Balance>,
    /// Multicast groups that must be taken apart before the step is applied.
    pub copies_first: Option<Box<TakenApart>>,
}

/// Result of planning a step.
#[derive(Clone, Debug)]
pub enum Balance {
    /// No better tables were found.
    Even,
    /// An accepted step.
    Step(Box<Step>),
    /// No step is safe.
    Held {
        /// The reason.
        why: String,
    },
}

/// A step of rebalancing.
#[derive(Clone, Debug)]
pub struct Step {
    /// The plan, and the change set that leads to it.
    pub outcome: Arc<Outcome>,
    /// Difference from the tables in force.
    pub changed: Difference,
    /// Remaining difference from the goal.
    pub left: Difference,
    /// Host pairs on the busiest link afterwards.
    pub load_max: u64,
    /// The tables to reach.
    pub goal: Arc<Goal>,
}

/// Smallest size of a step, in blocks, if the policy does not set it.
const BLOCKS_MIN: usize = 64;
/// Number of steps for all blocks together, if the policy does not set the size.
const STEPS: usize = 100;
/// Entries move if the new unevenness is at most this share of the old one, even if the load of the busiest link stays
/// the same. A smaller gain does not justify that packets arrive out of order.
const WORTH: f64 = 0.99;

/// Returns how many LFT blocks a step may write.
#[must_use]
pub fn budget(policy: &Policy, tables: &Tables) -> usize {
    match policy.rebalance_blocks {
        0 => (tables.switches() * tables.blocks() / STEPS).max(BLOCKS_MIN),
        blocks => blocks as usize,
    }
}

/// Preview of a rebalancing: the changes and their gain.
#[derive(Clone, Debug)]
pub struct Preview {
    /// All changes; `None`: no better tables were found.
    pub change: Option<(Difference, Arc<Goal>)>,
    /// Host pairs on links now.
    pub load: Load,
    /// LFT blocks that a step may write.
    pub blocks: usize,
}

/// Returns what rebalancing would change in the plan in force on `fabric`, or why no step can be planned.
pub fn preview(fabric: &Fabric, plan: &Plan, policy: &Policy, par: Par) -> Result<Preview, String> {
    let options = options(policy, &Arc::default(), None);
    let preview = |found: Result<Goal, Load>| Preview {
        load: found.as_ref().map_or_else(|load| *load, |goal| goal.before),
        change: found.ok().map(|goal| {
            let change = difference(fabric, &plan.lids, &plan.tables, &goal.tables);
            (change, Arc::new(goal))
        }),
        blocks: budget(policy, &plan.tables),
    };
    find_goal(fabric, plan, &options, par).map(preview)
}

/// Returns the best tables that the plan's engine makes from scratch. If no such tables are better, returns the load in
/// force instead.
fn find_goal(fabric: &Fabric, plan: &Plan, options: &Options, par: Par) -> Result<Result<Goal, Load>, String> {
    let engine = Engine::try_from(&plan.engine).map_err(|e| e.to_string())?;
    let mut lids = plan.lids.clone();
    for at in away(fabric, &plan.lids) {
        lids.remove(at);
    }
    let load = |tables: &Tables| {
        let subject = Subject::tables(fabric, &plan.lids, tables, &plan.service_levels, &plan.sl_to_vl);
        let judge = JudgeOptions {
            par,
            ..JudgeOptions::default()
        };
        let verdict = verify(subject, &judge);
        (verdict.is_ok(), verdict.figures.load)
    };
    let (_, before) = load(&plan.tables);
    let spreads: &[Spread] = match engine.can(Capability::SpreadsAnew) {
        true => &[Spread::Minimal, Spread::Full],
        false => &[Spread::Minimal],
    };
    let mut best: Option<Goal> = None;
    for &rebalance in spreads {
        let options = Options {
            rebalance,
            previous: None,
            lanes: Some(plan.lanes),
            ..options.clone()
        };
        let routed = engine
            .route(fabric, &lids, &options, Seed(0), par)
            .map_err(|e| e.to_string())?;
        if routed.lanes != plan.lanes || routed.service_levels != plan.service_levels {
            return Err("service levels would change".to_owned());
        }
        let tables = goal_for(
            fabric,
            &plan.lids,
            &plan.tables,
            &with_top(routed.tables, plan.tables.top()),
        );
        if tables == plan.tables || best.as_ref().is_some_and(|best| best.tables == tables) {
            continue;
        }
        let (is_ok, after) = load(&tables);
        if is_ok && best.as_ref().is_none_or(|best| is_less(&after, &best.after)) {
            best = Some(Goal { tables, before, after });
        }
    }
    let is_better = |goal: &Goal| {
        let worth = Load {
            sd: before.sd * WORTH,
            ..before
        };
        is_less(&goal.after, &worth)
    };
    Ok(best.filter(is_better).ok_or(before))
}

/// Compares two loads: first the busiest link, then the evenness.
fn is_less(a: &Load, b: &Load) -> bool {
    a.max.cmp(&b.max).then(a.sd.total_cmp(&b.sd)).is_lt()
}

impl Rebalance {
    /// Plans a step, and determines which multicast groups must be taken apart first.
    pub(crate) fn run(&self, par: Par) -> RebalanceResult {
        let basis = &self.basis;
        let balance = self.balance(par);
        let copies_first = match &balance {
            Balance::Step(step) => basis.copies_first(&step.outcome, &basis.installed),
            Balance::Even | Balance::Held { .. } => None,
        };
        RebalanceResult {
            balance: Some(balance),
            copies_first,
        }
    }

    fn balance(&self, par: Par) -> Balance {
        let found = match &self.goal {
            Some(goal) => Ok(Ok(Arc::clone(goal))),
            None => {
                let options = options(&self.basis.policy, &Arc::default(), None);
                find_goal(&self.basis.inventory.fabric, &self.plan, &options, par).map(|f| f.map(Arc::new))
            }
        };
        match found {
            Ok(Ok(goal)) => self.step(&goal, par),
            Ok(Err(_)) => Balance::Even,
            Err(why) => Balance::Held { why },
        }
    }

    fn step(&self, goal: &Arc<Goal>, par: Par) -> Balance {
        let (fabric, tables) = (&self.basis.inventory.fabric, &self.plan.tables);
        let mut why = "every possible step would load some link more than the busiest link".to_owned();
        // Fewer entries at once may be safe where more are not.
        let sizes = match self.blocks {
            Some(blocks) => vec![blocks, blocks / 4, blocks / 16],
            None => vec![usize::MAX],
        };
        for blocks in sizes {
            let Some(step) = step_towards(fabric, &self.plan.lids, (tables, &goal.tables), blocks, par) else {
                continue;
            };
            match self.taken(step.tables, par) {
                Ok(outcome) => {
                    let of = |from, to| difference(fabric, &self.plan.lids, from, to);
                    let taken = &outcome.plan.tables;
                    return Balance::Step(Box::new(Step {
                        changed: of(tables, taken),
                        left: of(taken, &goal.tables),
                        load_max: outcome.verdict.figures.load.max,
                        goal: Arc::clone(goal),
                        outcome: Arc::new(outcome),
                    }));
                }
                Err(refused) => why = refused,
            }
        }
        match *tables == goal.tables {
            true => Balance::Even,
            false => Balance::Held { why },
        }
    }

    /// Returns the plan with these tables. If the transition has to wait, returns a plan with only the changes before
    /// the wait; a later step makes the other changes.
    fn taken(&self, tables: Tables, par: Par) -> Result<Outcome, String> {
        let fabric = &self.basis.inventory.fabric;
        let outcome = self.judged(tables, par)?;
        let changes = outcome.changes.value();
        let waits = |changes: &ChangeSet| changes.phases.iter().any(|phase| phase.wait_before_ns > 0);
        if self.blocks.is_none() || !waits(changes) {
            return Ok(outcome);
        }
        let why = why_it_waits(&self.basis, &outcome.plan, changes);
        let Some(first) = before_the_wait(fabric, &self.plan.tables, changes) else {
            return Err(why);
        };
        let outcome = self.judged(first, par)?;
        let is_fuller = outcome.verdict.figures.load.max > self.busiest;
        match waits(outcome.changes.value()) || is_fuller {
            true => Err(why),
            false => Ok(outcome),
        }
    }

    fn judged(&self, tables: Tables, par: Par) -> Result<Outcome, String> {
        let (basis, inventory) = (&self.basis, &self.basis.inventory);
        let plan = Plan {
            generation: basis.generation,
            tables,
            ..Plan::clone(&self.plan)
        };
        let installed = installed(basis);
        let change_set = || {
            let options = WayOptions {
                par,
                ..WayOptions::default()
            };
            way::propose(&inventory.fabric, &installed, &plan, &options)
        };
        let accepted = (basis.judge)
            .judge(inventory, &installed, &plan, &change_set, par)
            .map_err(|refusal| in_words(&refusal))?;
        Ok(Outcome::in_place(Arc::clone(inventory), plan, accepted))
    }
}

/// Returns the known tables, with packets that may be in flight.
fn installed(basis: &Basis) -> Installed {
    Installed {
        under_way: basis.under_way.clone(),
        ..Installed::clone(&basis.installed)
    }
}

/// Returns the tables before the first wait. `None` if these are the tables in force, or if entries are dropped before
/// the wait.
fn before_the_wait(fabric: &Fabric, in_force: &Tables, changes: &ChangeSet) -> Option<Tables> {
    let mut tables = in_force.clone();
    for phase in changes.phases.iter().take_while(|phase| phase.wait_before_ns == 0) {
        for op in &phase.ops {
            let Op::Lft { node, block, data } = op else { continue };
            let held = tables.block_mut(fabric.switch_index(*node)?, usize::from(*block));
            let is_dropped = |(old, new): (&u8, &u8)| *old != NO_PATH && *new == NO_PATH;
            if held.iter().zip(data).any(is_dropped) {
                return None;
            }
            *held = *data;
        }
    }
    (tables != *in_force).then_some(tables)
}

/// Returns the judge's reason for refusing the steps without their waits.
fn why_it_waits(basis: &Basis, plan: &Plan, changes: &ChangeSet) -> String {
    let (fabric, installed) = (&basis.inventory.fabric, installed(basis));
    let mut hasty = changes.clone();
    hasty.phases.iter_mut().for_each(|phase| phase.wait_before_ns = 0);
    let found = match passage(fabric, &installed, plan, &hasty, None, &JudgeOptions::default()) {
        Passage::Refused(refusal) | Passage::Inherited(refusal) => refusal.findings.first().map(ToString::to_string),
        Passage::Still | Passage::Quick(_) | Passage::Proved(_) => None,
    };
    let without = found.map_or_else(String::new, |found| format!("; without that {found}"));
    format!("it would have to wait until packets are gone, or to drop some{without}")
}
