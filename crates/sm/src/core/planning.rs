//! Requests a plan of the whole fabric when tables are read, and handles the plans and repairs that jobs return. They
//! go on to `core/persist.rs` and to `Sm::begin_applying`.

use std::sync::Arc;

use selvedge_fabric::Port;
use selvedge_plan::Installed;
use selvedge_planner::past::with_links_asleep;
use selvedge_planner::{Inventory, LidClaims, PlanEvent, PlanFabric, PlanResult, RepairResult, Task};
use selvedge_sim::Time;

use super::Sm;
use crate::apply::Apply;
use crate::commit::NoPlan;
use crate::config::Mode;
use crate::event::{Event, SweepReason};
use crate::io::Output;
use crate::milestone::coming;
use crate::report::NothingSent;
use crate::stage::Stage;
use crate::{commit, persist, registration, report};

impl Sm {
    /// All tables are read as far as possible: has a plan made.
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
            return self.rest(now);
        }
        let ours = |port: &Port| self.lids.is_known(port);
        if let Some(what) = report::foreign_m_keys(&inventory.fabric, self.config.policy.m_key, ours) {
            let ports = what.as_str().into();
            out.push(Output::Event(Event::MKeyRefused { what }));
            let failures = report::Failures::nothing_sent(NothingSent::MKey(self.config.policy.m_key));
            self.update_registration(registration::In::Dropped);
            self.tell_in_force(commit::In::NothingSent(NoPlan::MKey(ports)));
            self.finish(&inventory, Arc::clone(&inventory.fabric), installed, &failures);
            return self.rest(now);
        }
        self.settle_whose_lids(&inventory.fabric, out);
        self.note_what_was_done_unseen(&inventory, &installed, out);
        let under_way = self.under_way(&inventory.fabric);
        let asleep = self.in_force.fabric().map(Arc::as_ref);
        let installed = Arc::new(Installed {
            under_way: with_links_asleep(under_way.clone(), asleep, &inventory.fabric, &installed),
            ..installed
        });
        let (known, spared) = self.lids.known(&self.config.policy, &inventory.fabric);
        let told = self.told_levels(&inventory);
        let asks = self.plan_to_ask_hosts(&inventory);
        let wants_others = self.stored().wants_other_routes(&self.config.policy);
        let task = PlanFabric {
            basis: self.basis(&inventory, &installed, under_way),
            claims: LidClaims {
                known: Arc::new(known),
                spared: Arc::new(spared),
                resting: Arc::new(self.drain.resting(now)),
            },
            known_lanes: Arc::new(self.stored().lanes().clone()),
            told,
            declined: Arc::new(self.in_force.declined().clone()),
            fog: self.drain.fog(now),
            rebalances: self.sweep_reason() == SweepReason::Command,
            asks,
            adopt: self.in_force.adopt_found(wants_others),
            aim: self.in_force.aim().cloned(),
        };
        let job = self.compute(Task::Plan(Box::new(task)), out);
        self.stage = Stage::Planning {
            job,
            inventory,
            installed,
        };
    }

    /// Handles a plan of the whole fabric.
    pub(crate) fn planned(&mut self, result: PlanResult, out: &mut Vec<Output>) {
        let Stage::Planning {
            inventory, installed, ..
        } = &self.stage
        else {
            return;
        };
        let (inventory, installed) = (Arc::clone(inventory), Arc::clone(installed));
        self.tell_in_force(commit::In::Planned {
            keeps_found: result.keeps_found,
        });
        self.note_copies_first(result.copies_first);
        let mut absent = Vec::new();
        self.listed.handle(&inventory.fabric, &self.config.policy, &mut absent);
        let absent = absent.into_iter().map(Event::ListedAbsent);
        let why = refusals(&result.events);
        let events = absent.chain(result.events.into_iter().map(Event::Plan));
        out.extend(events.map(Output::Event));
        let Some(outcome) = result.outcome else {
            self.update_registration(registration::In::Dropped);
            let verdict = result.refused;
            self.tell_in_force(commit::In::NothingSent(NoPlan::Refused { why, verdict }));
            let failures = report::Failures::nothing_sent(NothingSent::NoPlan);
            self.finish(
                &inventory,
                Arc::clone(&inventory.fabric),
                Installed::clone(&installed),
                &failures,
            );
            self.end_without_plan();
            return;
        };
        self.tell_in_force(commit::In::Accepted(&outcome));
        if self.config.mode == Mode::DryRun {
            self.tell_in_force(commit::In::DryRun(&outcome));
            let (fabric, held) = (Arc::clone(&inventory.fabric), Installed::clone(&installed));
            self.finish(&inventory, fabric, held, &report::Failures::none());
            self.end_without_plan();
            return;
        }
        out.push(Output::Milestone(coming(&inventory, &outcome, false)));
        self.persist(inventory, installed, outcome, out);
    }

    /// Handles a repair that was planned.
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

/// Returns why no plan was accepted, in words: what each engine gave up for, or what its plan was refused for.
fn refusals(events: &[PlanEvent]) -> Arc<str> {
    let of_engine = |event: &PlanEvent| match event {
        PlanEvent::Refused { engine, why } => Some(format!("{engine}: {why}")),
        PlanEvent::OutOfLids { wanted } => Some(format!("{wanted} LIDs are wanted, more than there are")),
        _ => None,
    };
    let words: Vec<String> = events.iter().filter_map(of_engine).collect();
    words.join("; ").into()
}
