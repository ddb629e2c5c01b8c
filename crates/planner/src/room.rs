//! The choice among the plans that engines make of a whole fabric: the first one that the judge accepts and that leaves
//! room for multicast trees.
//!
//! Routes are planned for packets of one sender to one receiver, and trees are planned beside routes. Some engines
//! promise that a tree always fits ([`Capability::LeavesRoomForCopies`]). For the routes of others, and for tables
//! that another manager left, trees are planned here before the routes are accepted. If they leave members apart, the
//! same engine plans from scratch, and then the other engines of the policy are tried. If none leaves room, the plan
//! with the fewest members apart is taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_plan::{EngineName, Lids, Tables};
use selvedge_routing::{Capability, Engine};
use selvedge_sim::Par;
use selvedge_types::{Guid, Lid};
use selvedge_verify::Verdict;

use crate::basis::{Basis, Outcome};
use crate::copies::Copies;
use crate::engine::choices;
use crate::event::PlanEvent;
use crate::fabric_plan::{NotAccepted, PlanFabric, PlanResult};
use crate::held::previous_tables;
use crate::multicast::{PlannedTrees, TreesInForce};
use crate::{lanes, lid};

impl PlanFabric {
    /// Makes the plan with the engines in the policy's order, until the judge accepts one.
    pub(crate) fn plan(&self, par: Par) -> PlanResult {
        let mut events = Vec::new();
        let fabric = &self.basis.inventory.fabric;
        let known = (&*self.claims.known, self.claims.spared.as_slice());
        let lids = match lid::assign_sparing(fabric, &self.basis.policy, known, &self.claims.resting, &mut events) {
            Ok(lids) => lids,
            Err(error) => {
                events.push(PlanEvent::OutOfLids { wanted: error.wanted });
                return self.without_another(events, par);
            }
        };
        events.extend(self.needed_links());
        let ports = lid::short(fabric, &self.basis.policy, &lids).count();
        events.extend((ports > 0).then_some(PlanEvent::LidsLater { ports }));
        let is_afresh = self.balances_afresh();
        let mut room = Room::new(self);
        let aimed = (!is_afresh).then(|| self.aimed(&lids, par)).flatten();
        if let Some(result) = aimed.and_then(|aimed| room.take(self.aims(aimed), &mut events)) {
            return result;
        }
        let previous = match is_afresh {
            true => None,
            false => previous_tables(&self.basis.installed, fabric.switches().len(), lids.top()).map(Arc::new),
        };
        let mut refused = None;
        for engine in &self.basis.policy.engines {
            let sought = (&mut room, &mut events, &mut refused);
            if let Some(result) = self.by_engine(engine, &lids, previous.as_ref(), sought, par) {
                return result;
            }
        }
        if let Some(result) = room.least(&mut events) {
            return result;
        }
        let mut result = self.without_levels(events, par);
        result.refused = refused.filter(|_| result.outcome.is_none() || result.stays);
        result
    }

    /// Makes a plan with one engine of the policy. Returns it if the judge accepts it, and if it leaves room for
    /// multicast trees. The last value of `sought` is the judge's verdict on a refused plan.
    fn by_engine(
        &self,
        engine: &EngineName,
        lids: &Lids,
        previous: Option<&Arc<Tables>>,
        (room, events, refused): (&mut Room<'_>, &mut Vec<PlanEvent>, &mut Option<Arc<Verdict>>),
        par: Par,
    ) -> Option<PlanResult> {
        let fabric = &self.basis.inventory.fabric;
        let found = previous.map(Arc::as_ref);
        if let Some(outcome) = self.kept(engine, lids, found, par)
            && let Some(result) = room.take(self.keeps(outcome), events)
        {
            return Some(result);
        }
        // Port settings depend on no table, so they are planned in parallel.
        let (ports, routed) = par.join(
            || self.plan_ports(lids),
            || self.route(engine, lids, previous.cloned(), par),
        );
        events.extend(self.full_tables(&ports));
        events.extend(lanes::short(fabric, &self.basis.policy, &ports.settings));
        events.extend(ports.quality.event());
        events.extend(routed.iter().flat_map(choices));
        let made = (engine, routed.as_ref().ok());
        if let Some(outcome) = self.kept_instead(made, lids, found, par)
            && let Some(result) = room.take(self.keeps(outcome), events)
        {
            return Some(result);
        }
        let attempted = routed.map_err(NotAccepted::from);
        match attempted.and_then(|routed| self.attempt(routed, lids, ports, par)) {
            Ok(outcome) => room.take(self.accepted(outcome), events).or_else(|| {
                // Entries that stay may be in the way of trees.
                let afresh = previous.and_then(|_| self.route(engine, lids, None, par).ok())?;
                let outcome = self.attempt(afresh, lids, self.plan_ports(lids), par).ok()?;
                room.take(self.accepted(outcome), events)
            }),
            Err(NotAccepted { why, verdict }) => {
                *refused = verdict.or(refused.take());
                events.push(PlanEvent::Refused {
                    engine: engine.0.clone(),
                    why,
                });
                let outcome = self.on_all_lanes(engine, lids, previous.cloned(), par)?;
                room.take(self.accepted(outcome), events)
            }
        }
    }
}

/// The accepted plans of a fabric that leave members apart, while others are made.
struct Room<'a> {
    task: &'a PlanFabric,
    /// The plan with the fewest members apart, with the number of these members.
    best: Option<(usize, PlanResult)>,
}

impl<'a> Room<'a> {
    const fn new(task: &'a PlanFabric) -> Self {
        Self { task, best: None }
    }

    /// Returns a result with these events before its own, if trees reach all members beside its routes. Otherwise the
    /// result is kept for [`Self::least`], and an event with the reason is added.
    fn take(&mut self, result: PlanResult, events: &mut Vec<PlanEvent>) -> Option<PlanResult> {
        let apart = result
            .outcome
            .as_ref()
            .map_or_else(Vec::new, |outcome| self.apart(outcome, &result));
        let Some(&(mlid, first)) = apart.first() else {
            return Some(after(events, result));
        };
        if self.best.as_ref().is_none_or(|(least, _)| apart.len() < *least) {
            let engine = result.outcome.as_ref().map(|outcome| outcome.plan.engine.0.clone());
            events.push(PlanEvent::Refused {
                engine: engine.unwrap_or_default(),
                why: format!(
                    "beside its routes no multicast tree without a deadlock reaches {} members, one of them {first} of \
                     group {:#06x}; if other routes do no better, it is accepted all the same",
                    apart.len(),
                    mlid.0
                ),
            });
            self.best = Some((apart.len(), result));
        }
        None
    }

    /// Returns the result with the fewest members apart, with these events before its own.
    fn least(&mut self, events: &mut Vec<PlanEvent>) -> Option<PlanResult> {
        self.best.take().map(|(_, result)| after(events, result))
    }

    /// Returns the members that trees beside a plan's routes leave apart. All members count if the judge accepts no
    /// trees. The trees are made from nothing, because those in force may be such as fit only the routes in force.
    fn apart(&self, outcome: &Outcome, result: &PlanResult) -> Vec<(Lid, Guid)> {
        let (basis, plan) = (&self.task.basis, &outcome.plan);
        let groups = &basis.copies.groups;
        if groups.is_empty() || !result.keeps_found && plan.lanes <= 1 && leaves_room(&plan.engine) {
            return Vec::new();
        }
        let from_nothing = TreesInForce {
            copies: Copies {
                groups: Arc::clone(groups),
                ..Copies::default()
            },
            roots: BTreeMap::new(),
            apart: Vec::new(),
        };
        let basis = Basis {
            inventory: Arc::clone(&outcome.inventory),
            installed: Arc::default(),
            under_way: None,
            ..basis.clone()
        };
        let left_out = outcome.inventory.out_of_reach();
        match from_nothing.task(basis, Arc::clone(plan), left_out).run().trees {
            PlannedTrees::Accepted(planned) => planned.apart,
            PlannedTrees::Unchanged => Vec::new(),
            PlannedTrees::Refused | PlannedTrees::Later(_) => {
                let all = groups.iter().flat_map(|group| {
                    let members = group.members.iter();
                    members.map(|member| (group.mlid, member.guid))
                });
                all.collect()
            }
        }
    }
}

/// True if an engine promises that trees fit beside its routes.
fn leaves_room(engine: &EngineName) -> bool {
    Engine::try_from(engine).is_ok_and(|engine| engine.can(Capability::LeavesRoomForCopies))
}

fn after(events: &mut Vec<PlanEvent>, mut result: PlanResult) -> PlanResult {
    events.append(&mut result.events);
    PlanResult {
        events: std::mem::take(events),
        ..result
    }
}
