//! Finishes a plan that a sweep interrupted, if nothing has changed since.
//!
//! A sweep may begin between two steps of a plan. Half of the entries are then those of the plan and half are not. An
//! engine that starts from such a mix may want a third plan, and the next sweep may interrupt that one too. A trap
//! repeats every second while its TrapRepress is lost by just the entries that are yet to be written. So without an aim
//! this could go on for ever.

use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, Plan, Policy};
use selvedge_routing::{Engine, Routed};
use selvedge_sim::Par;

use crate::adopt::route_alike;
use crate::event::PlanEvent;
use crate::job::{Job, JobResult, Outcome};

/// A plan that is not in force yet, with what it was made for.
#[derive(Clone, Debug)]
pub struct Aim {
    /// The plan.
    pub plan: Arc<Plan>,
    /// The fabric that it was made for, with what its agents have taken so far.
    pub fabric: Arc<Fabric>,
    /// The policy that it was made by.
    pub policy: Arc<Policy>,
    /// Its tables were found, but for some entries.
    pub keeps_found: bool,
}

impl Job {
    /// The plan that was left half-way, if it is what the operator wants still, of the same fabric and the same LIDs,
    /// and if the judge has nothing against it.
    pub(crate) fn aimed(&self, lids: &Lids, par: Par) -> Option<(Outcome, &Aim)> {
        let is_it = |aim: &&Aim| {
            aim.plan.lids == *lids
                && aim.plan.lanes <= self.lane_use().routes
                && route_alike(&aim.policy, &self.policy)
                && has_same_ways(&aim.fabric, &self.inventory.fabric)
        };
        let aim = self.aim.as_deref().filter(is_it)?;
        let plan = &aim.plan;
        // Of a file the tables are what the operator wants, and it may say something else by now.
        Engine::try_from(&plan.engine)
            .ok()
            .filter(|&engine| engine != Engine::File)?;
        let routed = Routed {
            tables: plan.tables.clone(),
            service_levels: plan.service_levels.clone(),
            lanes: plan.lanes,
            engine: plan.engine.clone(),
            notes: Vec::new(),
        };
        let outcome = self.attempt(routed, lids, self.plan_ports(lids), par).ok()?;
        Some((outcome, aim))
    }

    /// It is taken; what an operator should know was said when it was first.
    pub(crate) fn aims(&self, (outcome, aim): (Outcome, &Aim), events: Vec<PlanEvent>) -> JobResult {
        JobResult {
            keeps_found: aim.keeps_found,
            ..self.accepted(outcome, events)
        }
    }
}

/// True if both have the same nodes, and the same links are up.
fn has_same_ways(before: &Fabric, now: &Fabric) -> bool {
    let nodes = |fabric: &Fabric| fabric.nodes().len();
    nodes(before) == nodes(now)
        && before.nodes().iter_enumerated().all(|(idx, node)| {
            let other = now.node(idx);
            let ways = |fabric: &Fabric| {
                let ports = fabric.node(idx).external_ports();
                let ways = ports.map(|(_, port)| port.peer.filter(|_| port.is_up()));
                ways.collect::<Vec<_>>()
            };
            (node.guid, node.kind) == (other.guid, other.kind) && ways(before) == ways(now)
        })
}

#[cfg(test)]
mod tests {
    use selvedge_plan::{EngineName, Installed};
    use selvedge_types::PortState;

    use super::*;
    use crate::inventory::Inventory;
    use crate::job::Task;
    use crate::made::{FAR, FIRST, SECOND, info, inventory, row};

    /// The row with one end of one of its links in this state.
    fn row_with(at: usize, port: usize, state: PortState) -> Inventory {
        let mut found = row();
        found[at].ports[port].info = Some(info(state));
        inventory(found)
    }

    fn job(inventory: Inventory, policy: Policy) -> Job {
        let installed = Installed::unknown(inventory.fabric.switches().len());
        Job::new(&Arc::new(inventory), &Arc::new(installed), Arc::new(policy), Task::Plan)
    }

    fn policy(engine: &str) -> Policy {
        Policy {
            engines: vec![EngineName(engine.to_owned())],
            ..Policy::default()
        }
    }

    #[test]
    fn a_plan_that_was_left_is_made_again_of_what_it_was_made_of() {
        let first = job(row_with(FIRST, 2, PortState::Active), policy("updn"));
        let outcome = first.clone().run(Par::Sequential).outcome.unwrap();
        // That engine is not asked: where its name appears the plan is the one that was left.
        let plan = |name: &str| Plan {
            engine: EngineName(name.to_owned()),
            ..Plan::clone(&outcome.plan)
        };
        let check = |mut job: Job, left: Plan, want: &str| {
            job.aim = Some(Arc::new(Aim {
                plan: Arc::new(left),
                fabric: Arc::clone(&first.inventory.fabric),
                policy: Arc::clone(&first.policy),
                keeps_found: true,
            }));
            let result = job.run(Par::Sequential);
            let made = &result.outcome.as_ref().unwrap().plan;
            assert_eq!(made.engine.0, want);
            assert_eq!(result.keeps_found, want == "minhop", "{want}");
        };
        let again = || job(row_with(FIRST, 2, PortState::Init), policy("updn"));
        // A link that comes up by and by leads where it led.
        check(again(), plan("minhop"), "minhop");
        check(again(), plan("file"), "updn");
        check(
            job(row_with(FIRST, 2, PortState::Active), policy("weave")),
            plan("minhop"),
            "weave",
        );
        check(
            job(row_with(FAR, 1, PortState::Down), policy("updn")),
            plan("minhop"),
            "updn",
        );
        let lidless = Plan {
            lids: Lids::new(),
            ..plan("minhop")
        };
        check(again(), lidless, "updn");
        // The judge has its word.
        let mut broken = plan("minhop");
        let (lid, _) = broken.lids.by_lid().last().unwrap();
        let switch = first.inventory.fabric.switches().indices().next().unwrap();
        broken.tables.set(switch, lid, selvedge_plan::NO_PATH);
        check(again(), broken, "updn");
    }

    #[test]
    fn ways_are_the_same_while_the_same_links_are_up() {
        let before = row_with(SECOND, 2, PortState::Init).fabric;
        let check = |now: Inventory, want: bool| assert_eq!(has_same_ways(&before, &now.fabric), want);
        check(row_with(SECOND, 2, PortState::Active), true);
        check(row_with(SECOND, 2, PortState::Down), false);
        let mut without = row();
        without[SECOND].ports[2].peer = None;
        without.truncate(FAR);
        check(inventory(without), false);
    }
}
