//! Tables that were there before this manager was: kept as they are while the judge finds nothing wrong with them.
//!
//! Engines keep what fits into an order of their own, or nothing, and do not know the order behind what they find:
//! OpenSM's `updn` and ours rank a random graph differently. What another manager left may be right all the same, and
//! then it stays. Only `fat-tree` keeps whatever leads the right way by itself, and mends faster what it knows.

use std::sync::Arc;

use selvedge_plan::{EngineName, Lids, Policy, ServiceLevels, Tables};
use selvedge_routing::{Engine, Routed};
use selvedge_sim::Par;

use crate::event::Event;
use crate::job::{Job, JobResult, Outcome};
use crate::lanes;

/// What the tables in force are to a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adopt {
    /// An engine of this manager made them, and decides what stays.
    #[default]
    No,
    /// They were found when it became master.
    Found,
    /// They were found, and have been kept since.
    Kept,
}

impl Adopt {
    /// What they are if there is a plan in force, and if that keeps what was found.
    pub const fn of(has_plan: bool, keeps_found: bool) -> Self {
        match (has_plan, keeps_found) {
            (false, _) => Self::Found,
            (true, true) => Self::Kept,
            (true, false) => Self::No,
        }
    }
}

impl Job {
    /// A plan with the tables as they were found, if they are right for this fabric and these LIDs.
    pub(crate) fn kept(
        &self,
        engine: &EngineName,
        lids: &Lids,
        previous: Option<&Arc<Tables>>,
        par: Par,
    ) -> Option<Outcome> {
        let previous = previous.filter(|_| self.adopt != Adopt::No)?;
        // Nobody can read service levels back: tables that need some are not known well enough.
        let relies_on = lanes::to_rely_on(&self.inventory.fabric, &self.policy);
        let builds_on_them = match Engine::try_from(engine).ok()? {
            Engine::Auto | Engine::FatTree | Engine::File => true,
            _ => false,
        };
        if builds_on_them || relies_on > 1 {
            return None;
        }
        let routed = Routed {
            tables: Tables::clone(previous),
            service_levels: ServiceLevels::default(),
            lanes: 1,
            engine: engine.clone(),
            notes: Vec::new(),
        };
        self.attempt(routed, lids, self.plan_ports(lids), par).ok()
    }

    /// It is taken, and said once.
    pub(crate) fn keeps(&self, outcome: Outcome, mut events: Vec<Event>) -> JobResult {
        let engine = outcome.plan.engine.0.clone();
        events.extend((self.adopt == Adopt::Found).then_some(Event::FoundKept { engine }));
        JobResult {
            keeps_found: true,
            ..self.accepted(outcome, events)
        }
    }
}

/// True if both want the same routes of the same fabric.
pub fn route_alike(a: &Policy, b: &Policy) -> bool {
    let lists = |policy: &Policy| [&policy.roots, &policy.compute, &policy.io, &policy.guid_order].map(Vec::clone);
    a.engines == b.engines
        && a.count_switches == b.count_switches
        && a.lmc == b.lmc
        && a.used_lanes == b.used_lanes
        && a.assume_sl_aware == b.assume_sl_aware
        && lists(a) == lists(b)
}
