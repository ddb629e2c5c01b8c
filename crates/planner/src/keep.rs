//! Plans that keep tables: found tables, those of an interrupted plan, or those of the plan in force if no engine makes
//! another one.

use std::sync::Arc;

use selvedge_plan::{BLOCK_LIDS, EngineName, Lids, Plan, ServiceLevels, Tables};
use selvedge_routing::{Capability, Engine, Routed};
use selvedge_sim::Par;

use crate::adopt::{Adopt, drop_idle_circles, mended};
use crate::aim::Aim;
use crate::basis::Outcome;
use crate::event::PlanEvent;
use crate::fabric_plan::{PlanFabric, PlanResult};
use crate::held::covering;

impl PlanFabric {
    /// Returns a plan with the found tables, if they are correct, before the engine is called.
    pub(crate) fn kept(&self, engine: &EngineName, lids: &Lids, found: Option<&Tables>, par: Par) -> Option<Outcome> {
        let engine = Engine::try_from(engine)
            .ok()
            .filter(|engine| !engine.can(Capability::Recognises))?;
        self.as_found(engine, lids, found?, par)
    }

    /// Does the same as [`Self::kept`] after the engine has routed the fabric, for an engine that recognises the
    /// topology first. `routed` is the result of this engine: found tables are kept only if they differ from it.
    pub(crate) fn kept_instead(
        &self,
        (engine, routed): (&EngineName, Option<&Routed>),
        lids: &Lids,
        found: Option<&Tables>,
        par: Par,
    ) -> Option<Outcome> {
        let (routed, found) = routed.zip(found).filter(|(routed, found)| {
            let tells = (&routed.service_levels, routed.lanes);
            routed.tables != **found || !self.told.agrees(&self.basis.inventory.fabric, lids, tells)
        })?;
        Engine::try_from(engine)
            .ok()
            .filter(|engine| engine.can(Capability::Recognises))?;
        self.as_found(Engine::try_from(&routed.engine).ok()?, lids, found, par)
    }

    fn as_found(&self, engine: Engine, lids: &Lids, found: &Tables, par: Par) -> Option<Outcome> {
        if self.adopt == Adopt::No || engine.can(Capability::Given) {
            return None;
        }
        // Service levels cannot be read back. Tables that need some are correct only if these are known from another
        // source.
        let fabric = &self.basis.inventory.fabric;
        let known = self.told.relied_on(fabric, lids);
        let (service_levels, lanes) = known.unwrap_or((ServiceLevels::default(), 1));
        let most = self.lane_use().routes;
        if lanes > most {
            return None;
        }
        let mut tables = covering(found.clone(), &self.basis.installed);
        drop_idle_circles(fabric, lids, &mut tables);
        let attempt = |tables: Tables| {
            let routed = Routed {
                tables,
                service_levels: service_levels.clone(),
                lanes,
                engine: EngineName(engine.name().to_owned()),
                notes: Vec::new(),
            };
            self.attempt(routed, lids, self.plan_ports(lids), par).ok()
        };
        // If the policy allows several lanes, tables that are wrong on one lane may have been correct on more.
        let is_on_one = most == 1;
        let mend = || mended(&self.basis.inventory.in_service(), lids, &tables, par).filter(|_| is_on_one);
        attempt(tables.clone()).or_else(|| attempt(mend()?))
    }

    /// Returns the result with found tables. If they have just been found, it adds the event that they are kept.
    pub(crate) fn keeps(&self, outcome: Outcome) -> PlanResult {
        let engine = outcome.plan.engine.0.clone();
        let entries = self.changed_entries(&outcome);
        let event = match entries {
            0 => PlanEvent::FoundKept { engine },
            entries => PlanEvent::FoundMended { engine, entries },
        };
        let accepted = self.accepted(outcome);
        let kept = (self.adopt == Adopt::Found).then_some(event);
        PlanResult {
            keeps_found: true,
            events: kept.into_iter().chain(accepted.events).collect(),
            ..accepted
        }
    }

    /// Returns the number of entries of the plan's LIDs that differ from the found ones.
    fn changed_entries(&self, outcome: &Outcome) -> usize {
        let (plan, installed) = (&outcome.plan, &self.basis.installed);
        let switches = plan.tables.switch_indices();
        let changed = switches.flat_map(|switch| {
            (plan.lids.by_lid()).filter(move |&(lid, _)| {
                let held = installed.block(switch, lid.index() / BLOCK_LIDS);
                held.is_some_and(|held| held[lid.index() % BLOCK_LIDS] != plan.tables.get(switch, lid))
            })
        });
        changed.count()
    }

    /// Returns the interrupted plan with its aim, if it is still wanted and the judge accepts it.
    pub(crate) fn aimed(&self, lids: &Lids, par: Par) -> Option<(Outcome, &Aim)> {
        let (aim, routes) = (self.aim.as_deref()?, self.lane_use().routes);
        let plan = Some(&aim.plan).filter(|_| aim.is_wanted(&self.basis, lids, routes))?;
        // Given tables may be others by now.
        Engine::try_from(&plan.engine)
            .ok()
            .filter(|engine| !engine.can(Capability::Given))?;
        Some((self.again(plan, plan.tables.clone(), par)?, aim))
    }

    /// Returns a plan that was made before with these tables, if the judge accepts it.
    fn again(&self, plan: &Plan, tables: Tables, par: Par) -> Option<Outcome> {
        let routed = Routed {
            tables,
            service_levels: plan.service_levels.clone(),
            lanes: plan.lanes,
            engine: plan.engine.clone(),
            notes: Vec::new(),
        };
        self.attempt(routed, &plan.lids, self.plan_ports(&plan.lids), par).ok()
    }

    /// Accepts the plan that an aim has made. The aim's events were reported when it was first made.
    pub(crate) fn aims(&self, (outcome, aim): (Outcome, &Aim)) -> PlanResult {
        PlanResult {
            keeps_found: aim.keeps_found,
            ..self.accepted(outcome)
        }
    }
    /// Returns the result if no engine's plan is accepted. The plan in force stays if the judge accepts it on this
    /// fabric, as it is or with new routes for LIDs to which packets would not arrive. Otherwise nothing is sent.
    pub(crate) fn without_another(&self, mut events: Vec<PlanEvent>, par: Par) -> PlanResult {
        let Some((outcome, in_force)) = self.stays(par) else {
            events.push(PlanEvent::NoPlan);
            return PlanResult {
                events,
                ..PlanResult::default()
            };
        };
        events.push(PlanEvent::PlanStays {
            engine: outcome.plan.engine.0.clone(),
            sets: outcome.changes.value().count().total(),
        });
        PlanResult {
            outcome: Some(Arc::new(outcome)),
            events,
            keeps_found: in_force.keeps_found,
            stays: true,
            ..PlanResult::default()
        }
    }

    fn stays(&self, par: Par) -> Option<(Outcome, &Aim)> {
        let (inventory, most) = (&self.basis.inventory, self.lane_use().routes);
        let in_force = self.in_force.as_deref();
        let in_force = in_force.filter(|in_force| in_force.can_stay(&inventory.fabric, most))?;
        let plan = &*in_force.plan;
        let as_it_is = self.again(plan, plan.tables.clone(), par);
        let mend = || mended(&inventory.in_service(), &plan.lids, &plan.tables, par).filter(|_| most == 1);
        let outcome = as_it_is.or_else(|| self.again(plan, mend()?, par))?;
        Some((outcome, in_force))
    }
}
