//! Checks that a master with a plan in force does not lose it because a change of policy is refused.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_sim::Time;
use selvedge_sm::{ChangeState, Role};

use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::masters::{lives, masters};
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::manager::Life;

/// The masters that have a plan in force.
#[derive(Debug, Default)]
pub(super) struct PlanKept {
    /// Numbers of the processes that were master with a plan in force at the last check.
    have: Vec<u64>,
    /// How many sweeps each process had begun when a fault last struck, or the fabric last changed other than by a Set.
    /// If a master becomes idle with a plan after a later sweep, its plan already takes this change into account, so
    /// the change is no reason to lose the plan.
    begun: BTreeMap<u64, u64>,
    /// The processes that have become idle in this way.
    rested: BTreeSet<u64>,
}

impl Check for PlanKept {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        match seen {
            Seen::Fault(_) | Seen::Happened { .. } => (self.begun, self.rested) = Default::default(),
            Seen::Step => return self.kept(ctx),
            _ => {}
        }
        Ok(())
    }
}

impl PlanKept {
    fn kept(&mut self, scene: &Scene<'_>) -> Result<(), Violation> {
        for (manager, life) in lives(scene.managers) {
            let has_lost = self.have.contains(&life.number) && !life.sm.has_plan();
            if let Some(change) = has_lost.then(|| self.refused_change(scene.now, life)).flatten() {
                let manager = manager.name.clone();
                return Err(Violation::PlanLost { manager, change });
            }
        }
        self.have.clear();
        let have = masters(scene.managers).filter(|(_, life)| life.sm.has_plan());
        self.have.extend(have.map(|(_, life)| life.number));
        for (_, life) in lives(scene.managers) {
            let now = life.sm.sweeps_begun();
            let before = *self.begun.entry(life.number).or_insert(now);
            if now > before && life.sm.is_resting() && self.have.contains(&life.number) {
                self.rested.insert(life.number);
            }
        }
        Ok(())
    }

    /// Returns, in words, the change of policy because of which a master lost its plan. Other causes are no violation:
    /// another master, a part of the fabric that returns and may have had one, the cable of the manager, a foreign
    /// M_Key, or a fault after which no plan is possible with the policy in force.
    fn refused_change(&self, now: Time, life: &Life) -> Option<String> {
        let view = life.sm.view();
        let is_taken = view
            .facts
            .m_key_foreign
            .as_ref()
            .is_some_and(|foreign| foreign.is_anothers);
        let is_of_fabric = view.facts.own_port_down.is_some() || is_taken;
        let last = view.policy_changes.last()?;
        let is_refused = matches!(last.state, ChangeState::RolledBack { .. });
        let is_cause = view.role == Role::Master && !is_of_fabric && is_refused;
        let is_of_rest = self.rested.contains(&life.number) && view.facts.refused.is_some();
        (is_cause && (last.since == now || is_of_rest))
            .then(|| format!("change {} of {}", last.serial, last.changed.join(", ")))
    }
}
