//! Finishes a plan that a sweep interrupted, if nothing has changed since.
//!
//! A sweep may begin between two steps of a plan, when some entries are new and some are old. An engine that starts
//! from such a mix may make a third plan, and the next sweep may interrupt the third plan too. This could go on for
//! ever: a trap repeats every second while its TrapRepress is lost, because the entries that would lead it to the agent
//! are not written yet. So the interrupted plan is stored as the *aim*, and finished first.

use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, Plan, Policy};

use crate::adopt::route_alike;
use crate::basis::Basis;

/// A plan that was interrupted before it was in force, with its inputs.
#[derive(Clone, Debug)]
pub struct Aim {
    /// The plan.
    pub plan: Arc<Plan>,
    /// The fabric that it was made for, with the Sets that agents have acknowledged so far.
    pub fabric: Arc<Fabric>,
    /// The policy that it was made under.
    pub policy: Arc<Policy>,
    /// True if its tables were found, except for some entries.
    pub keeps_found: bool,
}

impl Aim {
    /// True if the plan is still what the operator wants, for the same fabric and LIDs, and with at most `lanes` lanes
    /// for routes.
    pub(crate) fn is_wanted(&self, basis: &Basis, lids: &Lids, lanes: u8) -> bool {
        self.plan.lids == *lids
            && self.plan.lanes <= lanes
            && route_alike(&self.policy, &basis.policy)
            && has_same_ways(&self.fabric, &basis.inventory.fabric)
    }
}

/// True if both fabrics have the same nodes, and the same links are up.
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
    use selvedge_sim::Par;
    use selvedge_types::PortState;

    use super::*;
    use crate::fabric_plan::PlanFabric;
    use crate::inventory::Inventory;
    use crate::made::{FAR, FIRST, SECOND, info, inventory, row};

    /// Returns the row with one end of one of its links in this state.
    fn row_with(at: usize, port: usize, state: PortState) -> Inventory {
        let mut found = row();
        found[at].ports[port].info = Some(info(state));
        inventory(found)
    }

    fn task(inventory: Inventory, policy: Policy) -> PlanFabric {
        let installed = Installed::unknown(inventory.fabric.switches().len());
        PlanFabric::new(Basis::new(&Arc::new(inventory), &Arc::new(installed), Arc::new(policy)))
    }

    fn policy(engine: &str) -> Policy {
        Policy {
            engines: vec![EngineName(engine.to_owned())],
            ..Policy::default()
        }
    }

    #[test]
    fn a_plan_that_was_left_is_made_again_of_what_it_was_made_of() {
        let first = task(row_with(FIRST, 2, PortState::Active), policy("updn"));
        let outcome = first.run(Par::Sequential).outcome.unwrap();
        // This engine is not called. Its name shows that the result is the interrupted plan.
        let plan = |name: &str| Plan {
            engine: EngineName(name.to_owned()),
            ..Plan::clone(&outcome.plan)
        };
        let check = |mut task: PlanFabric, left: Plan, want: &str| {
            task.aim = Some(Arc::new(Aim {
                plan: Arc::new(left),
                fabric: Arc::clone(&first.basis.inventory.fabric),
                policy: Arc::clone(&first.basis.policy),
                keeps_found: true,
            }));
            let result = task.run(Par::Sequential);
            let made = &result.outcome.as_ref().unwrap().plan;
            assert_eq!(made.engine.0, want);
            assert_eq!(result.keeps_found, want == "minhop", "{want}");
        };
        let again = || task(row_with(FIRST, 2, PortState::Init), policy("updn"));
        // A link that comes up later leads to the same port as before.
        check(again(), plan("minhop"), "minhop");
        check(again(), plan("file"), "updn");
        check(
            task(row_with(FIRST, 2, PortState::Active), policy("weave")),
            plan("minhop"),
            "weave",
        );
        check(
            task(row_with(FAR, 1, PortState::Down), policy("updn")),
            plan("minhop"),
            "updn",
        );
        let lidless = Plan {
            lids: Lids::new(),
            ..plan("minhop")
        };
        check(again(), lidless, "updn");
        // The judge refuses it.
        let mut broken = plan("minhop");
        let (lid, _) = broken.lids.by_lid().last().unwrap();
        let switch = first.basis.inventory.fabric.switches().indices().next().unwrap();
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
