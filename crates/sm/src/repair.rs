//! Plans around lost links: the plan in force with as few entries changed as can be.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{ChangeSet, Installed, Lids, Op, Phase, Plan, Tables};
use selvedge_routing::{Engine, Options, WeaveOptions};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Lid, PortNum};

use crate::damage::Damage;
use crate::event::Event;
use crate::inventory::Inventory;
use crate::job::{Job, JobResult, Outcome};
use crate::warm::Warm;

/// What a repair starts from.
#[derive(Clone, Debug)]
pub struct Repair {
    /// What was lost.
    pub damage: Damage,
    /// The plan in force.
    pub plan: Arc<Plan>,
    /// What was prepared for it.
    pub warm: Option<Box<Warm>>,
}

impl Repair {
    /// Makes the repaired plan; no outcome means that only a sweep can help.
    pub fn run(&mut self, job: &mut Job, par: Par) -> JobResult {
        let mut warm = self.warm.take().unwrap_or_default();
        let mut result = JobResult::default();
        let Some(inventory) = self.damage.apply_to(&job.inventory).map(Arc::new) else {
            return result;
        };
        let made = self.tables(&inventory, job, par);
        let made = made.and_then(|tables| self.judged(&inventory, job, tables, &mut warm, par));
        match made {
            Ok(outcome) => {
                let count = outcome.changes.value().count();
                result.events.push(Event::PlanAccepted {
                    engine: outcome.plan.engine.0.clone(),
                    sets: count.total(),
                    lft_blocks: count.lft_blocks,
                });
                job.inventory = Arc::clone(&inventory);
                result.inventory = Some(inventory);
                result.outcome = Some(Arc::new(outcome));
                result.warm = warm.standing.is_some().then_some(warm);
            }
            Err(why) => result.events.push(Event::PlanRefused {
                engine: self.plan.engine.0.clone(),
                why,
            }),
        }
        result
    }

    fn tables(&self, inventory: &Inventory, job: &Job, par: Par) -> Result<Tables, String> {
        let (fabric, plan) = (&inventory.fabric, &self.plan);
        let between_switches = |at: &PortRef| {
            let is_switch = |end: PortRef| fabric.switch_index(end.node).is_some();
            is_switch(*at) && fabric.peer(*at).is_some_and(is_switch)
        };
        if !self.damage.lost.iter().any(between_switches) {
            // Whoever went away comes back to the same place, more often than not.
            return Ok(plan.tables.clone());
        }
        let away = away(fabric, &plan.lids);
        let mut lids = plan.lids.clone();
        for &at in &away {
            lids.remove(at);
        }
        let engine = Engine::try_from(&plan.engine).map_err(|e| e.to_string())?;
        let options = Options {
            weave: WeaveOptions {
                previous_levels: Some(Arc::new(plan.service_levels.clone())),
                ..WeaveOptions::default()
            },
            lanes: Some(plan.lanes),
            ..job.options(Some(Arc::new(plan.tables.clone())))
        };
        let routed = engine
            .route(fabric, &lids, &options, Seed(0), par)
            .map_err(|e| e.to_string())?;
        if routed.lanes != plan.lanes || routed.service_levels != plan.service_levels {
            return Err("service levels would change".to_owned());
        }
        Ok(with_columns_of(&plan.tables, routed.tables, &plan.lids, &away))
    }

    fn judged(
        &self,
        inventory: &Inventory,
        job: &Job,
        tables: Tables,
        warm: &mut Warm,
        par: Par,
    ) -> Result<Outcome, String> {
        let mut plan = Plan {
            generation: job.generation,
            tables,
            ..Plan::clone(&self.plan)
        };
        for at in self.damage.ends(&inventory.fabric) {
            plan.ports.remove(&at);
            plan.end_ports.remove(&at);
        }
        let change_set = || changes(&inventory.fabric, &job.installed, &plan);
        let accepted = job
            .judge
            .judge_repair(&mut warm.standing, inventory, &job.installed, &plan, &change_set, par)
            .map_err(|refusal| crate::job::in_words(&refusal))?;
        Ok(Outcome {
            plan: Arc::new(plan),
            changes: accepted.changes,
            verdict: Arc::new(accepted.verdict),
        })
    }
}

/// End ports that have LIDs and no link.
fn away(fabric: &Fabric, lids: &Lids) -> BTreeSet<PortRef> {
    let is_away = |at: &PortRef| at.port != PortNum::MANAGEMENT && !fabric.link_is_up(*at);
    lids.iter().map(|(at, _)| at).filter(is_away).collect()
}

/// New tables with the old entries of hosts that are away: nobody has to forget them.
fn with_columns_of(old: &Tables, new: Tables, lids: &Lids, away: &BTreeSet<PortRef>) -> Tables {
    let mut tables = new;
    if tables.top() != old.top() {
        let mut wider = Tables::new(old.switches(), old.top());
        for switch in old.switch_indices() {
            for block in 0..tables.blocks().min(wider.blocks()) {
                *wider.block_mut(switch, block) = *tables.block(switch, block);
            }
        }
        tables = wider;
    }
    let columns: Vec<Lid> = away
        .iter()
        .filter_map(|&at| lids.range(at))
        .flat_map(|range| range.iter().collect::<Vec<_>>())
        .collect();
    for switch in old.switch_indices() {
        for &lid in &columns {
            tables.set(switch, lid, old.get(switch, lid));
        }
    }
    tables
}

/// The Sets of a repair: blocks with entries of hosts first, then those of agents, then what switches are told.
fn changes(fabric: &Fabric, installed: &Installed, plan: &Plan) -> ChangeSet {
    let (mut traffic, mut agents, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for block in 0..plan.tables.blocks() {
        for (row, &node) in plan.tables.tile(block).iter().zip(fabric.switches().iter()) {
            let Some(switch) = fabric.switch_index(node) else { continue };
            let held = installed.block(switch, block);
            if held == Some(row) {
                continue;
            }
            let first = block * row.len();
            let differs = |i: &usize| held.is_none_or(|held| held[*i] != row[*i]);
            let lid = |i: usize| Lid(u16::try_from(first + i).unwrap_or(u16::MAX));
            let of_host = |i: usize| plan.lids.owner(lid(i)).is_some_and(|at| at.port != PortNum::MANAGEMENT);
            let is_urgent = (0..row.len()).filter(differs).any(of_host);
            let op = Op::Lft {
                node,
                block: u16::try_from(block).unwrap_or(u16::MAX),
                data: *row,
            };
            if is_urgent { traffic.push(op) } else { agents.push(op) }
        }
    }
    for (switch, &settings) in plan.switches.iter_enumerated() {
        let node = fabric.switches()[switch];
        if fabric.node(node).switch_settings != settings {
            rest.push(Op::Switch { node, settings });
        }
    }
    let mut ops = traffic;
    ops.append(&mut agents);
    let phases = [("repair tables", ops), ("clear PortStateChange", rest)];
    let phases = phases.into_iter().filter(|(_, ops)| !ops.is_empty());
    ChangeSet {
        generation: plan.generation,
        phases: phases
            .map(|(label, ops)| Phase {
                label,
                wait_before_ns: 0,
                ops,
            })
            .collect(),
    }
}
