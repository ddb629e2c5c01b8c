//! A refused change of policy takes no plan away: a master with a plan in force keeps one.

use selvedge_sim::Time;
use selvedge_sm::{ChangeState, Role};

use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::masters::{lives, masters};
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::manager::Life;

/// Which masters have a plan in force.
#[derive(Debug, Default)]
pub(super) struct PlanKept {
    /// Numbers of the processes that were master with a plan in force at the last check.
    have: Vec<u64>,
    /// Of these managers, those that have been idle with the plan in force since the last fault, or since the fabric
    /// last changed other than by a Set. If one of them loses its plan, the fabric is not the reason.
    rested: Vec<u64>,
}

impl Check for PlanKept {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        match seen {
            Seen::Fault(_) | Seen::Happened { .. } => self.rested.clear(),
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
        let rest = lives(scene.managers).filter(|(_, life)| life.sm.is_resting());
        for (_, life) in rest.filter(|(_, life)| self.have.contains(&life.number)) {
            if !self.rested.contains(&life.number) {
                self.rested.push(life.number);
            }
        }
        Ok(())
    }

    /// Returns, in words, the change of policy because of which a master lost its plan. There are also other causes,
    /// which are no violation: another master, the cable of the manager, a foreign M_Key, or a fault after which no
    /// plan is possible with the policy in force.
    fn refused_change(&self, now: Time, life: &Life) -> Option<String> {
        let view = life.sm.view();
        let is_of_fabric = view.facts.own_port_down.is_some() || view.facts.m_key_foreign.is_some();
        let last = view.policy_changes.last()?;
        let is_refused = matches!(last.state, ChangeState::RolledBack { .. });
        let is_cause = view.role == Role::Master && !is_of_fabric && is_refused;
        (is_cause && (last.since == now || self.rested.contains(&life.number)))
            .then(|| format!("change {} of {}", last.serial, last.changed.join(", ")))
    }
}
