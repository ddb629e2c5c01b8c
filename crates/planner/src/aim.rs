//! Finishes a plan that a sweep interrupted, if nothing has changed since.
//!
//! A sweep may begin between two steps of a plan, when some entries are new and some are old. An engine that starts
//! from such a mix may make a third plan, and the next sweep may interrupt the third plan too. This could go on for
//! ever: a trap repeats every second while its TrapRepress is lost, because the entries that would lead it to the agent
//! are not written yet. So the interrupted plan is stored as the *aim*, and finished first.

use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, Plan, Policy};
use selvedge_types::{Lid, LidRange};

use crate::adopt::route_alike;
use crate::basis::Basis;

/// A plan that the next one may repeat, with its inputs: one that was interrupted, or the plan in force.
#[derive(Clone, Debug)]
pub struct Aim {
    /// The plan.
    pub plan: Arc<Plan>,
    /// The fabric of the plan, with the settings that agents have acknowledged so far.
    pub fabric: Arc<Fabric>,
    /// The policy of the plan.
    pub policy: Arc<Policy>,
    /// True if the plan keeps found tables, except for some entries.
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

    /// True if the plan can stay in force when no engine makes another one: the same nodes are present, and each port
    /// has its LID of the plan, or none. The judge decides whether packets still arrive.
    pub(crate) fn can_stay(&self, fabric: &Fabric, lanes: u8) -> bool {
        let holds = |(at, range): (PortRef, LidRange)| {
            let held = fabric.port(at).map(|port| port.settings.lids.base);
            held.is_some_and(|held| held == range.base || held == Lid::NONE)
        };
        self.plan.lanes <= lanes
            && self.plan.tables.switches() == fabric.switches().len()
            && has_same_nodes(&self.fabric, fabric)
            && self.plan.lids.iter().all(holds)
    }
}

fn has_same_nodes(before: &Fabric, now: &Fabric) -> bool {
    let nodes = |fabric: &Fabric| {
        fabric
            .nodes()
            .iter()
            .map(|node| (node.guid, node.kind))
            .collect::<Vec<_>>()
    };
    nodes(before) == nodes(now)
}

/// True if both fabrics have the same nodes, and the same links are up.
fn has_same_ways(before: &Fabric, now: &Fabric) -> bool {
    has_same_nodes(before, now)
        && before.nodes().indices().all(|idx| {
            let ways = |fabric: &Fabric| {
                let ports = fabric.node(idx).external_ports();
                let ways = ports.map(|(_, port)| port.peer.filter(|_| port.is_up()));
                ways.collect::<Vec<_>>()
            };
            ways(before) == ways(now)
        })
}

#[cfg(test)]
mod tests {
    use selvedge_plan::{EngineName, Installed};
    use selvedge_sim::Par;
    use selvedge_types::PortState;

    use super::*;
    use crate::event::PlanEvent;
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
    fn the_plan_in_force_stays_where_no_engine_makes_another_one() {
        let first = task(row_with(FIRST, 2, PortState::Active), policy("updn"));
        let plan = first.run(Par::Sequential).outcome.unwrap().plan.clone();
        let check = |found: Inventory, has_plan: bool, want: Option<&str>| {
            let mut task = task(found, policy("none"));
            task.in_force = has_plan.then(|| {
                Arc::new(Aim {
                    plan: Arc::clone(&plan),
                    fabric: Arc::clone(&first.basis.inventory.fabric),
                    policy: Arc::clone(&first.basis.policy),
                    keeps_found: false,
                })
            });
            let result = task.run(Par::Sequential);
            let codes: Vec<&str> = result.events.iter().map(PlanEvent::code).collect();
            let end = want.map_or("SLV-SM-0006", |_| "SLV-SM-0104");
            assert!(
                codes.contains(&"SLV-SM-0005") && codes.last() == Some(&end),
                "{codes:?}"
            );
            assert_eq!(result.stays, want.is_some());
            let made = result.outcome.map(|outcome| Arc::clone(&outcome.plan));
            assert_eq!(made.as_ref().map(|made| &*made.engine.0), want);
            assert!(made.is_none_or(|made| made.lids == plan.lids));
        };
        let active = || row_with(FIRST, 2, PortState::Active);
        check(active(), true, Some("updn"));
        check(active(), false, None);
        // Another plan may have given this LID away.
        let mut with_other_lid = row();
        with_other_lid[FIRST].ports[0].info.as_mut().unwrap().lid = Lid(77);
        check(inventory(with_other_lid), true, None);
        let mut without_host = row();
        without_host[SECOND].ports[2].peer = None;
        without_host.truncate(FAR);
        check(inventory(without_host), true, None);
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
