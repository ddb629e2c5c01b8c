//! Requests a plan of the whole fabric when the tables have been read, and handles the plans and repairs that jobs
//! return. `core/persist.rs` stores their LIDs, and `Sm::begin_applying` applies them.

use std::sync::Arc;

use selvedge_fabric::{Fabric, Port};
use selvedge_plan::{Installed, Policy, UnderWay};
use selvedge_planner::past::with_links_asleep;
use selvedge_planner::{
    Aim, Basis, Inventory, LidClaims, PlanEvent, PlanFabric, PlanResult, RepairResult, Task, route_alike,
};
use selvedge_sim::Time;
use selvedge_types::SecretKey;

use super::{Sm, keys};
use crate::apply::Apply;
use crate::change::{Later, PlansWith};
use crate::commit::NoPlan;
use crate::config::Mode;
use crate::event::{Event, SweepReason};
use crate::io::Output;
use crate::milestone::coming;
use crate::report::NothingSent;
use crate::stage::Stage;
use crate::{change, commit, multicast, persist, registration, report, sweep};

impl Sm {
    /// Called when all tables are read as far as possible: has a plan made.
    pub(crate) fn tables_read(
        &mut self,
        inventory: Arc<Inventory>,
        installed: Installed,
        now: Time,
        out: &mut Vec<Output>,
    ) {
        if self.config.mode == Mode::Watch {
            self.finish(
                &inventory,
                Arc::clone(&inventory.fabric),
                installed,
                &report::Failures::none(),
            );
            self.change_policy(change::In::NotNow(Later::Watching), out);
            return self.rest(now);
        }
        let ours = |port: &Port| self.lids.is_known(port);
        let opens = |key: u64| self.keys.opens(SecretKey::new(key));
        let foreign = report::foreign_m_keys(&inventory.fabric, opens, ours);
        let locked: Option<Arc<str>> = foreign.in_words(&inventory.fabric).map(Into::into);
        let refused = locked.iter().map(|ports| Event::MKeyRefused {
            what: ports.to_string(),
        });
        out.extend(refused.map(Output::Event));
        self.tell_in_force(commit::In::Locked(locked));
        if foreign.is_anothers() {
            let failures = report::Failures::locked(foreign);
            self.update_registration(registration::In::Dropped);
            self.tell_in_force(commit::In::NothingSent(NoPlan::MKey));
            self.finish(&inventory, Arc::clone(&inventory.fabric), installed, &failures);
            self.change_policy(change::In::NotNow(Later::MKey), out);
            return self.rest(now);
        }
        self.note_keys_found(&inventory.fabric, out);
        self.settle_whose_lids(&inventory.fabric, out);
        self.note_what_was_done_unseen(&inventory, &installed, out);
        let rebalances = self.sweep_reason() == SweepReason::Command;
        self.plan_whole(inventory, installed, rebalances, out);
    }

    /// Requests a plan of the whole fabric, with the proposed policy if there is one. `rebalances`: the operator asked
    /// for the sweep.
    fn plan_whole(&mut self, inventory: Arc<Inventory>, installed: Installed, rebalances: bool, out: &mut Vec<Output>) {
        let (under_way, installed) = self.with_what_is_under_way(&inventory.fabric, installed);
        let asks = self.plan_to_ask_hosts(&inventory);
        let task = PlanFabric {
            rebalances,
            asks,
            in_force: self.plan_that_stays(),
            ..self.whole_plan(&self.policy_to_plan(), &inventory, &installed, under_way)
        };
        let job = self.compute(Task::Plan(Box::new(task)), out);
        self.stage = Stage::Planning {
            job,
            inventory,
            installed,
        };
        self.change_policy(change::In::HandedOut(job), out);
    }

    /// Returns the plan in force, which stays if no engine's plan is accepted. `None` while a change waits for its
    /// plan: if that plan is refused, the change is rolled back first.
    fn plan_that_stays(&self) -> Option<Arc<Aim>> {
        let is_free = self.config.mode == Mode::Manage && !self.changes.awaits_plan();
        let in_force = is_free.then(|| self.in_force.as_aim(&self.config.policy));
        in_force.flatten().map(Arc::new)
    }

    /// Adds a record to the known tables: the packets that may be in flight because entries that are now replaced
    /// forwarded them. Returns these packets as well.
    pub(super) fn with_what_is_under_way(
        &mut self,
        fabric: &Fabric,
        installed: Installed,
    ) -> (Option<Arc<UnderWay>>, Arc<Installed>) {
        let under_way = self.under_way(fabric);
        let asleep = self.in_force.fabric().map(Arc::as_ref);
        let installed = Installed {
            under_way: with_links_asleep(under_way.clone(), asleep, fabric, &installed),
            ..installed
        };
        (under_way, Arc::new(installed))
    }

    /// Returns the task to plan the whole fabric with a policy.
    pub(super) fn whole_plan(
        &self,
        policy: &Arc<Policy>,
        inventory: &Arc<Inventory>,
        installed: &Arc<Installed>,
        under_way: Option<Arc<UnderWay>>,
    ) -> PlanFabric {
        let (known, spared) = self.lids.known(policy, &inventory.fabric);
        let is_alike = route_alike(policy, &self.config.policy);
        let wants_others = self.stored().wants_other_routes(policy);
        let basis = Basis {
            policy: Arc::clone(policy),
            ..self.basis(inventory, installed, under_way)
        };
        PlanFabric {
            claims: LidClaims {
                known: Arc::new(known),
                spared: Arc::new(spared),
                resting: Arc::new(self.drain.resting(self.now)),
            },
            known_lanes: Arc::new(self.stored().lanes().clone()),
            told: self.told_levels(policy, inventory),
            declined: Arc::new(self.in_force.declined().clone()),
            fog: self.drain.fog(self.now),
            adopt: self.in_force.adopt_found(is_alike, wants_others),
            aim: self.in_force.aim().cloned(),
            ..PlanFabric::new(basis)
        }
    }

    /// Handles a plan of the whole fabric.
    pub(crate) fn planned(&mut self, result: PlanResult, out: &mut Vec<Output>) {
        let &Stage::Planning {
            job,
            ref inventory,
            ref installed,
        } = &self.stage
        else {
            return;
        };
        let (inventory, installed) = (Arc::clone(inventory), Arc::clone(installed));
        match self.plans_with(job) {
            PlansWith::InForce => {}
            PlansWith::Proposed if result.outcome.is_none() => {}
            PlansWith::Proposed => self.change_policy(change::In::Accepted, out),
            // The sweep for the policy that superseded it is due.
            PlansWith::Superseded => {
                self.tell_sweep(sweep::In::PlanDropped);
                self.stage = Stage::Idle;
                return;
            }
        }
        let why = refusals(&result.events);
        if result.outcome.is_none() && self.changes.would_roll_back(job) {
            return self.roll_back(result, why, (inventory, &*installed), out);
        }
        self.tell_in_force(commit::In::Planned {
            keeps_found: result.keeps_found,
        });
        self.note_copies_first(result.copies_first);
        let mut absent = Vec::new();
        self.listed.handle(&inventory.fabric, &self.config.policy, &mut absent);
        let absent = absent.into_iter().map(Event::ListedAbsent);
        let events = absent.chain(result.events.into_iter().map(Event::Plan));
        out.extend(events.map(Output::Event));
        let Some(outcome) = result.outcome else {
            return self.not_planned(
                NoPlan::Refused {
                    why,
                    verdict: result.refused,
                },
                &inventory,
                &installed,
            );
        };
        self.tell_in_force(commit::In::Accepted(&outcome));
        self.tell_multicast(multicast::In::Whole(Arc::clone(&outcome.plan), result.groups));
        if result.stays {
            let verdict = result.refused;
            self.tell_in_force(commit::In::Stays(NoPlan::Refused { why, verdict }));
        }
        if self.config.mode == Mode::DryRun {
            self.tell_in_force(commit::In::DryRun(&outcome));
            let (fabric, held) = (Arc::clone(&inventory.fabric), Installed::clone(&installed));
            self.finish(&inventory, fabric, held, &report::Failures::none());
            self.change_policy(change::In::Applied { failed: 0 }, out);
            self.end_without_plan();
            return;
        }
        self.settle_out_of_service(&inventory, out);
        out.push(Output::Milestone(coming(&inventory, &outcome, false)));
        self.persist(inventory, installed, outcome, out);
    }

    /// Called when no plan was accepted.
    fn not_planned(&mut self, why: NoPlan, inventory: &Inventory, installed: &Arc<Installed>) {
        self.update_registration(registration::In::Dropped);
        self.tell_in_force(commit::In::NothingSent(why));
        let failures = report::Failures::nothing_sent(NothingSent::NoPlan);
        let (fabric, held) = (Arc::clone(&inventory.fabric), Installed::clone(installed));
        self.finish(inventory, fabric, held, &failures);
        self.end_without_plan();
    }

    /// Called when no plan with the proposed policy was accepted: plans the same fabric with the policy in force.
    fn roll_back(
        &mut self,
        result: PlanResult,
        why: Arc<str>,
        (inventory, installed): (Arc<Inventory>, &Installed),
        out: &mut Vec<Output>,
    ) {
        let (events, verdict) = (result.events, result.refused);
        // A plan follows.
        let events = events.into_iter().filter(|event| *event != PlanEvent::NoPlan);
        out.extend(events.map(Event::Plan).map(Output::Event));
        let left_out = Arc::clone(&self.policy_to_plan().out_of_service);
        let held = keys::held_by_ports(&inventory.fabric);
        self.change_policy(change::In::Refused { why, verdict, held }, out);
        if self.config.policy.out_of_service == left_out {
            return self.plan_whole(inventory, installed.clone(), false, out);
        }
        // The inventory lacks links that are to be used.
        self.tell_sweep(sweep::In::PlanDropped);
        self.stage = Stage::Idle;
        self.want_sweep(SweepReason::Command);
    }

    /// Takes a repair that was planned.
    pub(crate) fn repair_planned(&mut self, result: RepairResult, out: &mut Vec<Output>) {
        let Stage::Planning { installed, .. } = &self.stage else {
            return;
        };
        let installed = Arc::clone(installed);
        out.extend(result.events.into_iter().map(Event::Plan).map(Output::Event));
        self.keep_warm(result.warm);
        let Some(mended) = result.mended else {
            self.note_copies_first(None);
            return self.not_repaired();
        };
        self.note_copies_first(mended.copies_first);
        let outcome = mended.outcome;
        let inventory = Arc::clone(&outcome.inventory);
        self.tell_in_force(commit::In::Repair(&outcome));
        out.push(Output::Milestone(coming(&inventory, &outcome, mended.was_known)));
        let (lost, returned) = self.repaired_links();
        out.push(Output::Event(Event::Repaired {
            lost,
            returned,
            blocks: self.in_force.change().count.lft_blocks,
            took: result.took.saturating_sub(mended.judged),
            judged: mended.judged,
            was_known: mended.was_known,
        }));
        self.update_stored(persist::In::Repair(outcome.plan.generation), out);
        let held = mended.installed.unwrap_or_else(|| Installed::clone(&installed));
        self.forget_silence();
        let apply = Apply::new(outcome, Arc::clone(&inventory), held);
        self.begin_applying(apply, inventory, out);
    }
}

/// Returns in words why no plan was accepted: the reason of each engine, or the judge's reason against its plan.
fn refusals(events: &[PlanEvent]) -> Arc<str> {
    let of_engine = |event: &PlanEvent| match event {
        PlanEvent::Refused { engine, why } => Some(format!("{engine}: {why}")),
        PlanEvent::OutOfLids { wanted } => Some(format!("{wanted} LIDs are wanted, more than there are")),
        _ => None,
    };
    let words: Vec<String> = events.iter().filter_map(of_engine).collect();
    match words.is_empty() {
        true => "no engine made a plan".into(),
        false => words.join("; ").into(),
    }
}
