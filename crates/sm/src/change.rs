//! Changes of the operator's policy, as transactions.
//!
//! A proposal ([`In::Proposed`]) waits for a heavy sweep, which plans with it. The policy in force stays until the
//! judge accepts that plan; repairs and steps of rebalancing use it meanwhile. If the judge refuses the plan, the
//! change is rolled back: the sweep plans once more, with the policy in force, and the plan in force stays in force. A
//! second proposal supersedes one that the judge has not accepted.
//!
//! A change can still be rolled back after its plan was accepted, as long as the plan is not applied: a sweep may
//! interrupt it, and the judge may refuse the next plan. A change is final when every Set of its plan has ended.
//!
//! Changes are not stored. After a crash the process reads the operator's file, and plans with the settings in it.

use std::fmt;
use std::sync::Arc;

use selvedge_plan::Policy;
use selvedge_planner::JobId;
use selvedge_sim::Time;
use selvedge_types::SecretKey;
use selvedge_verify::Verdict;

mod event;

pub use event::ChangeEvent;

/// Largest number of changes that are listed. An operator makes a few a day.
const LISTED_MAX: usize = 16;

/// Changes of policy: the open one, and the last ones that have ended.
#[derive(Debug, Default)]
pub struct Changes {
    /// The last changes, the newest last. The open one is the last of them.
    list: Arc<Vec<PolicyChange>>,
    /// The number of the last proposal.
    last: u64,
    /// The change that has not ended.
    open: Option<Open>,
    /// A job that plans with a superseded policy.
    superseded: Option<JobId>,
    /// The last change that was refused and rolled back, in words; `None` if a later change was kept.
    rolled_back: Option<Arc<str>>,
}

/// A change that has not ended.
#[derive(Debug)]
struct Open {
    /// The policy that a rollback restores: the last one that was accepted.
    before: Arc<Policy>,
    /// The job that plans with the proposed policy.
    job: Option<JobId>,
    /// The SM_Key that was loaded with the proposed policy, until the manager shows it to others.
    sm_key: Option<SecretKey>,
    /// True if this change, or one that it superseded, was kept for later. Its M_Key took effect at once: this manager
    /// uses the new key. But another manager was master in the meantime, and only ports show which M_Key that master
    /// gave them.
    was_later: bool,
}

/// A proposed policy, and the state of the proposal.
#[derive(Clone, Debug)]
pub struct PolicyChange {
    /// Number of the change, from 1 in each process.
    pub serial: u64,
    /// The proposed policy.
    pub policy: Arc<Policy>,
    /// The keys with other values than in the policy in force when it was proposed.
    pub changed: Arc<[&'static str]>,
    /// When the policy was proposed.
    pub proposed: Time,
    /// The state of the change.
    pub state: ChangeState,
    /// When the change got this state.
    pub since: Time,
}

/// The state of a change of policy.
#[derive(Clone, Debug)]
pub enum ChangeState {
    /// The change waits for a heavy sweep that plans with it.
    Proposed,
    /// A job plans with the change, and the judge checks the plan.
    Planned,
    /// The judge accepted the plan. It is the policy now, and Sets are sent.
    Judged,
    /// Every Set of the plan has ended, and some failed. The next sweep sends them again.
    Applied {
        /// Number of Sets that failed.
        failed: usize,
    },
    /// Final: every agent holds the plan, or there was nothing to change.
    Kept,
    /// This manager cannot plan now. The change is decided when it makes its first plan.
    KeptForLater {
        /// The reason why the change waits.
        why: Later,
    },
    /// Final: no plan with the change was accepted. The former policy is in force.
    RolledBack {
        /// The reason in words: for each engine, the first finding.
        why: Arc<str>,
        /// The judge's verdict on the last plan that it refused, if any.
        verdict: Option<Arc<Verdict>>,
    },
    /// End: another proposal came before the judge accepted a plan.
    Superseded {
        /// The number of the other proposal.
        by: u64,
    },
}

/// Why a manager makes no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// Another manager is master.
    Standby,
    /// Another manager disabled this one.
    Disabled,
    /// The manager only watches.
    Watching,
    /// The local port is down.
    CutOff,
    /// Ports are guarded by another M_Key.
    MKey,
}

/// The policy that a job plans with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlansWith {
    /// The policy in force.
    InForce,
    /// The policy of the open change.
    Proposed,
    /// A policy that was superseded while the job ran: its plan cannot be used.
    Superseded,
}

/// What a change depends on.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// When the input arrived.
    pub now: Time,
    /// The policy in force, but with the M_Key that the operator wants: ports get this key when it is stored.
    pub in_force: &'a Arc<Policy>,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In {
    /// The operator proposes a policy.
    Proposed(Arc<Policy>),
    /// The operator loads an SM_Key, with the last policy that was proposed.
    SmKey(SecretKey),
    /// A heavy sweep begins: a plan that is being made is dropped.
    SweepBegins,
    /// A sweep has ended, or none will begin, and no plan can be made.
    NotNow(Later),
    /// This job makes a plan of the whole fabric. It plans with [`Changes::wanted`], if that is a policy.
    HandedOut(JobId),
    /// The judge accepted a plan with the proposed policy.
    Accepted,
    /// No plan was accepted, and [`Changes::would_roll_back`] is true for its job.
    Refused {
        /// The reason in words.
        why: Arc<str>,
        /// The judge's verdict on the last plan that it refused.
        verdict: Option<Arc<Verdict>>,
        /// The M_Key that ports hold, if they all hold the same one.
        held: Option<SecretKey>,
    },
    /// Every Set of a plan has ended.
    Applied {
        /// Number of Sets that failed.
        failed: usize,
    },
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Report this event.
    Event(ChangeEvent),
    /// Put this policy in force.
    Take(Arc<Policy>),
    /// Show this SM_Key to other managers from now on.
    Show(SecretKey),
    /// The last change was rolled back.
    RolledBack {
        /// The reason in words.
        why: Arc<str>,
    },
}

impl Changes {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In, effects: &mut Vec<Effect>) {
        match input {
            In::Proposed(policy) => self.propose(ctx, policy, effects),
            In::SmKey(key) => self.load_sm_key(key, effects),
            In::SweepBegins => {
                self.superseded = None;
                if let (Some(open), Some(ChangeState::Planned)) = (&mut self.open, self.list.last().map(state_of)) {
                    open.job = None;
                    self.enter(ctx, ChangeState::Proposed);
                }
            }
            In::NotNow(why) => self.keep_for_later(ctx, why, effects),
            In::HandedOut(job) => {
                if self.wanted().is_some() {
                    self.open.iter_mut().for_each(|open| open.job = Some(job));
                    self.enter(ctx, ChangeState::Planned);
                }
            }
            In::Accepted => {
                if let Some(policy) = self.wanted().cloned() {
                    self.open.iter_mut().for_each(|open| open.job = None);
                    self.enter(ctx, ChangeState::Judged);
                    take(ctx, policy, effects);
                }
            }
            In::Refused { why, verdict, held } => self.roll_back(ctx, (why, verdict), held, effects),
            In::Applied { failed } => match (self.list.last().map(state_of), failed) {
                (Some(ChangeState::Judged | ChangeState::Applied { .. }), 0) if self.open.is_some() => {
                    self.keep(ctx, effects);
                }
                (Some(ChangeState::Judged), _) => self.enter(ctx, ChangeState::Applied { failed }),
                _ => {}
            },
        }
    }

    /// Returns the policy that the next plan of the whole fabric is made with; `None`: the policy in force.
    pub fn wanted(&self) -> Option<&Arc<Policy>> {
        let last = self.list.last().filter(|_| self.open.is_some())?;
        match last.state {
            ChangeState::Proposed | ChangeState::Planned | ChangeState::KeptForLater { .. } => Some(&last.policy),
            ChangeState::Judged
            | ChangeState::Applied { .. }
            | ChangeState::Kept
            | ChangeState::RolledBack { .. }
            | ChangeState::Superseded { .. } => None,
        }
    }

    /// Returns the policy that a job plans with.
    pub fn plans_with(&self, job: JobId) -> PlansWith {
        if self.superseded == Some(job) {
            PlansWith::Superseded
        } else if self.open.as_ref().is_some_and(|open| open.job == Some(job)) {
            PlansWith::Proposed
        } else {
            PlansWith::InForce
        }
    }

    /// Returns true if a refusal of this job's plan rolls the open change back. That is so if the job plans with the
    /// policy of the change, or if that policy was accepted before and its plan was not applied.
    pub fn would_roll_back(&self, job: JobId) -> bool {
        match self.plans_with(job) {
            PlansWith::Proposed => true,
            PlansWith::InForce => self.awaits_plan() && self.wanted().is_none(),
            PlansWith::Superseded => false,
        }
    }

    /// True while a change waits for a plan of the whole fabric that is accepted and applied: if that plan is refused,
    /// the change is rolled back.
    pub fn awaits_plan(&self) -> bool {
        let is_judged = matches!(self.list.last().map(state_of), Some(ChangeState::Judged));
        self.open.is_some() && (is_judged || self.wanted().is_some())
    }

    /// Returns the last changes, the newest last.
    pub const fn list(&self) -> &Arc<Vec<PolicyChange>> {
        &self.list
    }

    /// Returns, in words, the last change that was refused and rolled back; `None` if a later change was kept.
    pub const fn rolled_back(&self) -> Option<&Arc<str>> {
        self.rolled_back.as_ref()
    }

    fn propose(&mut self, ctx: &Ctx<'_>, policy: Arc<Policy>, effects: &mut Vec<Effect>) {
        self.last += 1;
        let superseded = self.make_way(ctx, effects);
        let list = Arc::make_mut(&mut self.list);
        list.drain(..(list.len() + 1).saturating_sub(LISTED_MAX));
        list.push(PolicyChange {
            serial: self.last,
            changed: policy.changed_from(ctx.in_force).into(),
            policy,
            proposed: ctx.now,
            state: ChangeState::Proposed,
            since: ctx.now,
        });
        let is_change = list.last().is_some_and(|change| !change.changed.is_empty());
        self.open = Some(Open {
            before: Arc::clone(ctx.in_force),
            job: None,
            sm_key: superseded.as_ref().and_then(|open| open.sm_key),
            was_later: superseded.is_some_and(|open| open.was_later),
        });
        if !is_change {
            self.keep(ctx, effects);
        }
    }

    /// Loads an SM_Key. It takes effect when the change that it was loaded with ends. If this manager makes no plan
    /// now, the key takes effect at once: other managers decide, and this one shows the key that the operator wants all
    /// of them to show.
    fn load_sm_key(&mut self, key: SecretKey, effects: &mut Vec<Effect>) {
        let is_later = matches!(self.list.last().map(state_of), Some(ChangeState::KeptForLater { .. }));
        match self.open.as_mut().filter(|_| !is_later) {
            Some(open) => open.sm_key = Some(key),
            None => effects.push(Effect::Show(key)),
        }
    }

    /// Ends the open change because another one is proposed. A policy that was accepted stays in force. Returns the
    /// superseded change: its SM_Key is still wanted by the operator.
    fn make_way(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) -> Option<Open> {
        if self.wanted().is_none() {
            if self.open.is_some() {
                self.keep(ctx, effects);
            }
            return None;
        }
        let open = self.open.take()?;
        self.superseded = open.job.or(self.superseded);
        let by = self.last;
        self.enter(ctx, ChangeState::Superseded { by });
        self.report(effects, |serial, changed| ChangeEvent::Superseded {
            serial,
            changed,
            by,
        });
        Some(open)
    }

    fn keep(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) {
        let key = self.open.take().and_then(|open| open.sm_key);
        effects.extend(key.map(Effect::Show));
        self.rolled_back = None;
        self.enter(ctx, ChangeState::Kept);
        self.report(effects, |serial, changed| ChangeEvent::Kept { serial, changed });
    }

    /// Keeps the change until a plan can be made, because none can be made now.
    fn keep_for_later(&mut self, ctx: &Ctx<'_>, why: Later, effects: &mut Vec<Effect>) {
        let Some(open) = &mut self.open else { return };
        open.job = None;
        let was = self.list.last().map(state_of);
        let is_news = !matches!(was, Some(ChangeState::KeptForLater { .. }));
        // Its Sets have ended: there is nothing left to decide.
        if matches!(was, Some(ChangeState::Applied { .. })) {
            return;
        }
        effects.extend(open.sm_key.take().map(Effect::Show));
        open.was_later = true;
        self.enter(ctx, ChangeState::KeptForLater { why });
        if is_news {
            self.report(effects, |serial, changed| ChangeEvent::KeptForLater {
                serial,
                changed,
                why,
            });
        }
    }

    /// Rolls a change back: the policy from before it is in force again. If the change was kept for later, ports keep
    /// the M_Key that they hold. Ports that may have been disabled by the change are enabled again.
    fn roll_back(
        &mut self,
        ctx: &Ctx<'_>,
        (why, verdict): (Arc<str>, Option<Arc<Verdict>>),
        held: Option<SecretKey>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut open) = self.open.take() else { return };
        if let Some(held) = held.filter(|_| open.was_later) {
            Arc::make_mut(&mut open.before).m_key = held.expose();
        }
        let list = open.before.out_of_service.enabling(&ctx.in_force.out_of_service);
        if list != *open.before.out_of_service {
            Arc::make_mut(&mut open.before).out_of_service = Arc::new(list);
        }
        let state = ChangeState::RolledBack {
            why: Arc::clone(&why),
            verdict,
        };
        self.enter(ctx, state);
        self.rolled_back = self.list.last().map(|change| in_words(change, &why));
        effects.push(Effect::Take(open.before));
        effects.push(Effect::RolledBack { why: Arc::clone(&why) });
        self.report(effects, |serial, changed| ChangeEvent::RolledBack {
            serial,
            changed,
            why,
        });
    }

    /// Records that the last change enters a state.
    fn enter(&mut self, ctx: &Ctx<'_>, state: ChangeState) {
        if let Some(last) = Arc::make_mut(&mut self.list).last_mut() {
            (last.state, last.since) = (state, ctx.now);
        }
    }

    /// Reports an event of the last change.
    fn report(&self, effects: &mut Vec<Effect>, event: impl FnOnce(u64, Arc<[&'static str]>) -> ChangeEvent) {
        let last = self.list.last();
        effects.extend(last.map(|last| Effect::Event(event(last.serial, Arc::clone(&last.changed)))));
    }
}

const fn state_of(change: &PolicyChange) -> &ChangeState {
    &change.state
}

/// Puts a policy in force, unless it already is.
fn take(ctx: &Ctx<'_>, policy: Arc<Policy>, effects: &mut Vec<Effect>) {
    if **ctx.in_force != *policy {
        effects.push(Effect::Take(policy));
    }
}

/// Describes a change and the reason for its refusal, in words.
fn in_words(change: &PolicyChange, why: &str) -> Arc<str> {
    format!("change {} of {}: {why}", change.serial, change.changed.join(", ")).into()
}

impl ChangeState {
    /// Returns the name of the state in JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Planned => "planned",
            Self::Judged => "judged",
            Self::Applied { .. } => "applied",
            Self::Kept => "kept",
            Self::KeptForLater { .. } => "kept_for_later",
            Self::RolledBack { .. } => "rolled_back",
            Self::Superseded { .. } => "superseded",
        }
    }
}

impl fmt::Display for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standby => "this manager is standby",
            Self::Disabled => "another manager disabled this one",
            Self::Watching => "this process only watches the fabric",
            Self::CutOff => "the manager's own port is down",
            Self::MKey => "ports are guarded by another M_Key",
        })
    }
}

#[cfg(test)]
mod tests;
