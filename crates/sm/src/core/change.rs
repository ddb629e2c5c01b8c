//! Connects changes of policy with the rest of the manager.

use std::sync::Arc;

use selvedge_plan::partition::Partition;
use selvedge_plan::{Installed, Policy};
use selvedge_planner::preview::Preview;
use selvedge_planner::{JobId, PlanFabric};
use selvedge_types::SecretKey;

use super::{Sm, keys};
use crate::change::{Ctx, Effect, In, Later, PlansWith, PolicyChange};
use crate::config::Mode;
use crate::event::{Event, SweepReason};
use crate::io::Output;
use crate::milestone::Milestone;
use crate::stage::Stage;
use crate::withdrawal;

impl Sm {
    /// Hands an input to changes of policy, and carries out their effects.
    pub(crate) fn change_policy(&mut self, input: In, out: &mut Vec<Output>) {
        // A key of the policy in force that is not stored yet is in it: a rollback of another change must not lose it.
        let in_force = keys::with_m_key(Arc::clone(&self.config.policy), self.keys.wanted());
        let ctx = Ctx {
            now: self.now,
            in_force: &in_force,
        };
        let mut effects = Vec::new();
        let waits = matches!(input, In::NotNow(_));
        self.changes.handle(&ctx, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Event(event) => out.push(Output::Event(Event::Change(event))),
                Effect::Take(policy) => {
                    self.set_policy(policy, out);
                    self.tell_withdrawal(withdrawal::In::Wanted);
                }
                Effect::Show(key) => self.set_sm_key(key, out),
                Effect::RolledBack { why } => {
                    let policy = Arc::clone(&self.config.policy);
                    out.push(Output::Milestone(Milestone::RolledBack { policy, why }));
                }
            }
        }
        // The M_Key does not wait for a plan of this manager: the master gives it to ports meanwhile, or it is the one
        // that opens them.
        let key = self.changes.wanted().map(|policy| SecretKey::new(policy.m_key));
        if let Some(key) = key.filter(|key| waits && *key != self.keys.wanted()) {
            self.want_key(key, out);
        }
    }

    /// Handles a policy that the operator proposes: the next heavy sweep plans with it.
    pub(super) fn propose(&mut self, policy: Arc<Policy>, out: &mut Vec<Output>) {
        self.change_policy(In::Proposed(policy), out);
        match self.stage {
            Stage::Standby => self.change_policy(In::NotNow(Later::Standby), out),
            Stage::Disabled => self.change_policy(In::NotNow(Later::Disabled), out),
            _ => {}
        }
        self.want_sweep(SweepReason::Command);
    }

    /// Returns a policy that the operator proposes, with the partitions of jobs, which are not the operator's.
    pub(super) fn with_jobs(&self, mut policy: Arc<Policy>) -> Arc<Policy> {
        let jobs = self.wanted_policy().partitions.partitions_of_jobs();
        if jobs != policy.partitions.partitions_of_jobs() {
            let partitions = Arc::new(policy.partitions.with_jobs(&jobs));
            Arc::make_mut(&mut policy).partitions = partitions;
        }
        policy
    }

    /// Proposes the wanted policy with other partitions of jobs.
    pub(super) fn follow_jobs(&mut self, list: &[Partition], out: &mut Vec<Output>) {
        let mut policy = self.wanted_policy();
        let with = policy.partitions.with_jobs(list);
        if with != *policy.partitions {
            Arc::make_mut(&mut policy).partitions = Arc::new(with);
            self.propose(policy, out);
        }
    }

    /// Returns the policy that a heavy sweep plans with and reads tables for: the proposed policy, if there is one. It
    /// has the M_Key that ports hold now, even if the operator proposes another M_Key. Ports get the new M_Key when the
    /// policy is accepted and the key is stored.
    pub(crate) fn policy_to_plan(&self) -> Arc<Policy> {
        let policy = self.changes.wanted().unwrap_or(&self.config.policy);
        keys::with_m_key(Arc::clone(policy), self.keys.present())
    }

    /// Returns the policy in force.
    #[must_use]
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.config.policy
    }

    /// Returns the policy that the operator wants: the proposed one if there is one, otherwise the one in force. It has
    /// the M_Key that the operator wants, even if that key is not stored yet. If the operator changes one setting, the
    /// new proposal is made from this policy.
    #[must_use]
    pub fn wanted_policy(&self) -> Arc<Policy> {
        match self.changes.wanted() {
            Some(policy) => Arc::clone(policy),
            None => keys::with_m_key(Arc::clone(&self.config.policy), self.keys.wanted()),
        }
    }

    /// Returns the policy that a job plans with.
    pub(crate) fn plans_with(&self, job: JobId) -> PlansWith {
        self.changes.plans_with(job)
    }

    /// Returns a job that finds the Sets which this policy leads to on the known fabric. The manager does not wait for
    /// the result. `None`: too little of the fabric is known.
    pub fn preview(&mut self, policy: Arc<Policy>) -> Option<Preview> {
        // The tables that are known belong to it, also while a sweep is under way.
        let known = self.in_force.inventory().cloned().filter(|_| !self.is_cut_off())?;
        if self.in_force.sweeps() == 0 || self.config.mode == Mode::Watch {
            return None;
        }
        let mut inventory = known.as_found();
        self.leave_out_of_service(&policy.out_of_service, &mut inventory);
        let inventory = Arc::new(inventory);
        let installed = Installed::clone(self.in_force.installed());
        let (under_way, installed) = self.with_what_is_under_way(&inventory.fabric, installed);
        let first = keys::with_m_key(Arc::clone(&policy), self.keys.present());
        let plan = PlanFabric {
            rebalances: true,
            asks: self.registration.asks(self.config.mode),
            ..self.whole_plan(&first, &inventory, &installed, under_way)
        };
        Some(Preview {
            plan,
            trees: self.multicast.trees_in_force(),
            without_trees: self.multicast.left_out(),
            aliases: self.aliases.book().clone(),
            without_aliases: self.aliases.left_out(),
            then: (first.m_key != policy.m_key).then_some(policy),
        })
    }

    /// Returns the last changes of policy, the newest last.
    #[must_use]
    pub fn policy_changes(&self) -> &[PolicyChange] {
        self.changes.list()
    }
}
