//! The second half of a heavy sweep, and the end of each application.
//!
//! - After the election: reads the tables that are not known, and hands out the job that plans.
//! - Takes a plan, or a repair, from its job. The plan goes on to `core/persist.rs` and to `Sm::begin_applying` in
//!   `core/multicast.rs`.
//! - `applied`: the last Set has ended, and the plan is in force. The administrator is told by a milestone.
//! - `interrupted`: a sweep takes the place of a plan whose phases wait.
//!
//! Tables that are read after they were written are the business of `readback`.

use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, Port};
use selvedge_mad::AgentId;
use selvedge_plan::Installed;
use selvedge_planner::held::{LastKnown, carried, may_have_been_off, unread};
use selvedge_planner::past::{After, with_links_asleep};
use selvedge_planner::{Adopt, Aim, Inventory, LidClaims, PlanFabric, PlanResult, RepairResult, Task, lanes, lid};
use selvedge_sim::Time;
use selvedge_types::PortState;
use selvedge_verify::phases::is_live;
use selvedge_wire::AttributeId;

use crate::apply::{Applied, Apply, Counts};
use crate::config::Mode;
use crate::core::Sm;
use crate::election::{Foreign, Role};
use crate::event::{Event, SweepReason};
use crate::io::Output;
use crate::milestone::coming;
use crate::report::NothingSent;
use crate::stage::{Stage, Token};
use crate::{election, lane_smp, persist, readback, registration, report, smp};

/// Sweeps in a row that begin anew because of a table that nobody answers for, while packets flow by it.
const UNREAD_LOOKS_MAX: u32 = 2;
/// How often a table is asked for that nobody answers, each time with all retries: beyond, its agent hangs.
const READ_ROUNDS: u32 = 3;

impl Sm {
    /// Reads back the tables of switches that hold some and are not known already.
    pub(crate) fn begin_reading(&mut self, inventory: Arc<Inventory>) {
        // A LID that a port shows is kept, and not set again: once more tells whether it does hold that.
        let strangers = self.lids.strangers(&inventory.fabric);
        let before = std::mem::replace(&mut self.strangers, strangers);
        if self.config.mode == Mode::Manage && !self.strangers.is_subset(&before) {
            self.sweep_due = Some(self.sweep_reason.again());
            return;
        }
        let mut installed = self.carried_tables(&inventory);
        for (switch, &node) in inventory.fabric.switches().iter_enumerated() {
            if inventory.fabric.node(node).switch_settings.linear_top == 0 {
                // Fresh: it looks up no LID, so what its table holds does not matter; all of it will be written.
                installed.lfts[switch].clear();
            }
        }
        self.forget_copies(&inventory.fabric, &installed);
        self.doubt_tables(&inventory.fabric, &mut installed);
        self.read_tables(inventory, installed, 1);
    }

    fn read_tables(&mut self, inventory: Arc<Inventory>, installed: Installed, round: u32) {
        self.silent.forget();
        let todo = unread(&inventory.fabric, &installed);
        let lanes = lanes::unread(&inventory.fabric, &self.config.policy, &installed.lanes);
        // What is not answered is written, whatever it is.
        let lanes = if round == 1 { lanes } else { Vec::new() };
        self.stage = Stage::Reading {
            inventory,
            installed,
            total: (todo.len() + lanes.len()) as u64,
            todo,
            lanes,
            round,
        };
    }

    /// Everything was asked for. What nobody answered is asked for again, as nothing is proved of a switch that
    /// forwards by entries nobody knows.
    pub(crate) fn tables_asked(
        &mut self,
        (inventory, mut installed, round): (Arc<Inventory>, Installed, u32),
        now: Time,
        out: &mut Vec<Output>,
    ) {
        self.believe_tables(&inventory.fabric, &mut installed);
        let is_complete = unread(&inventory.fabric, &installed).is_empty();
        if !is_complete && round < READ_ROUNDS {
            return self.read_tables(inventory, installed, round + 1);
        }
        let is_live = self.config.mode == Mode::Manage && is_live(&inventory.fabric);
        if !is_complete && is_live && self.silence.unread_looks < UNREAD_LOOKS_MAX {
            // Who is silent now will not take its new table either: a sweep finds who is there.
            self.silence.unread_looks += 1;
            self.sweep_due = Some(SweepReason::Again);
            return;
        }
        self.silence.unread_looks = 0;
        self.tables_read(inventory, installed, now, out);
    }

    /// Keeps so many questions open while tables are read: a switch may say that it has 768 blocks.
    pub(crate) fn ask_for_tables(&mut self) {
        let Stage::Reading { inventory, todo, .. } = &mut self.stage else {
            return;
        };
        while self.exchange.open() < self.config.ready() {
            let Some((switch, block)) = todo.pop() else { break };
            let node = inventory.fabric.switches()[switch];
            let modifier = u32::try_from(block).unwrap_or(u32::MAX);
            let (route, m_key) = (&inventory.agents[node].route, self.config.policy.m_key);
            if !self.silent.is_silent(route) {
                let get = smp::get(AttributeId::LINEAR_FORWARDING, modifier, route, m_key);
                self.exchange
                    .submit(AgentId(node.0), (Token::Table { switch, block }, get));
            }
        }
        self.ask_for_lanes();
    }

    /// Keeps questions for lane tables open while tables are read.
    fn ask_for_lanes(&mut self) {
        let Stage::Reading { inventory, lanes, .. } = &mut self.stage else {
            return;
        };
        while self.exchange.open() < self.config.ready() {
            let Some(table) = lanes.pop() else { return };
            let at = table.port();
            let (attribute, modifier) = lane_smp::question(&inventory.fabric, table);
            let route = inventory.agents[at.node].route_to(at.port);
            if self.silent.is_silent(route) {
                continue;
            }
            let get = smp::get(attribute, modifier, route, self.config.policy.m_key);
            self.exchange.submit(AgentId(at.node.0), (Token::Lanes(table), get));
        }
    }

    /// Tables that this manager wrote and that stay known. In any other mode than this, or if another master was met,
    /// tables may have been written since.
    fn carried_tables(&self, inventory: &Inventory) -> Installed {
        match (&self.view.fabric, &self.view.plan, self.config.mode) {
            (Some(fabric), Some(plan), Mode::Manage) if !self.election().has_met_another() => {
                let last = LastKnown {
                    plan,
                    fabric,
                    seen: self.planned_on.as_ref().unwrap_or(fabric),
                    installed: &self.view.installed,
                };
                carried(&last, inventory)
            }
            _ => Installed::unknown(inventory.fabric.switches().len()),
        }
    }

    /// A plan that was made of what was `seen` is in force: a switch that may have been off since, and all of whose
    /// links were activated by the plan, shows it by its tables only, once its LID and its LinearFDBTop are back.
    fn read_who_may_have_been_off(&mut self, seen: &Fabric, now: &Fabric, installed: &Installed) {
        for (switch, &node) in now.switches().iter_enumerated() {
            let mut ports = now.node(node).external_ports();
            let carries = ports.any(|(_, port)| port.link.state == PortState::Active);
            if carries && may_have_been_off(now, node, seen, now) {
                self.tell_read_back(readback::In::MayHaveLost {
                    switch: now.node(node).guid,
                    blocks: u16::try_from(installed.lfts.get(switch).map_or(0, Vec::len)).unwrap_or(u16::MAX),
                });
            }
        }
    }

    fn tables_read(&mut self, inventory: Arc<Inventory>, installed: Installed, now: Time, out: &mut Vec<Output>) {
        if self.config.mode == Mode::Watch {
            self.finish(
                &inventory,
                Arc::clone(&inventory.fabric),
                installed,
                &report::Failures::none(),
            );
            return self.rest(now);
        }
        let ours = |port: &Port| {
            let known = [self.lids.planned.get(&port.guid), self.lids.before.get(&port.guid)];
            known.contains(&Some(&port.settings.lids))
        };
        if let Some(what) = report::foreign_m_keys(&inventory.fabric, self.config.policy.m_key, ours) {
            out.push(Output::Event(Event::MKeyRefused { what }));
            let failures = report::Failures::nothing_sent(NothingSent::MKey(self.config.policy.m_key));
            self.update_registration(registration::In::Dropped);
            self.drop_plans();
            self.view.failed = 0;
            self.finish(&inventory, Arc::clone(&inventory.fabric), installed, &failures);
            return self.rest(now);
        }
        self.set_foreign_state_aside(&inventory.fabric, out);
        self.note_what_was_done_unseen(&inventory, &installed, out);
        let under_way = self.past.under_way(&inventory.fabric, now);
        let asleep = self.view.fabric.as_deref();
        let installed = Arc::new(Installed {
            under_way: with_links_asleep(under_way.clone(), asleep, &inventory.fabric, &installed),
            ..installed
        });
        self.lids.restore_yielded(&inventory.fabric);
        let (known, spared) = self.lids.known(&self.config.policy, &inventory.fabric);
        let told = self.told_levels(&inventory);
        let asks = self.plan_to_ask_hosts(&inventory);
        let wants_others = self.stored().wants_other_routes(&self.config.policy);
        let task = PlanFabric {
            basis: self.basis(&inventory, &installed, under_way),
            claims: LidClaims {
                known: Arc::new(known),
                spared: Arc::new(spared),
                resting: Arc::new(self.given_up.resting(now)),
            },
            known_lanes: Arc::new(self.stored().lanes().clone()),
            told,
            declined: Arc::new(self.declined.clone()),
            fog: self.past.fog(now),
            rebalances: self.sweep_reason == SweepReason::Command,
            asks,
            adopt: Adopt::of(self.view.plan.is_some(), self.keeps_found, wants_others),
            aim: self.aim.clone(),
        };
        let job = self.compute(Task::Plan(Box::new(task)), out);
        self.stage = Stage::Planning {
            job,
            inventory,
            installed,
        };
    }

    /// Takes a plan of the whole fabric.
    pub(crate) fn planned(&mut self, result: PlanResult, out: &mut Vec<Output>) {
        let Stage::Planning {
            inventory, installed, ..
        } = &self.stage
        else {
            return;
        };
        let (inventory, installed) = (Arc::clone(inventory), Arc::clone(installed));
        self.keeps_found = result.keeps_found;
        self.note_copies_first(result.copies_first);
        self.listed.tell(&inventory.fabric, &self.config.policy, out);
        out.extend(result.events.into_iter().map(Event::Plan).map(Output::Event));
        let Some(outcome) = result.outcome else {
            self.update_registration(registration::In::Dropped);
            self.drop_plans();
            self.view.failed = 0;
            let failures = report::Failures::nothing_sent(NothingSent::NoPlan);
            self.finish(
                &inventory,
                Arc::clone(&inventory.fabric),
                Installed::clone(&installed),
                &failures,
            );
            // Idle through `advance`: an empty light sweep ends at once and sets the timer.
            self.stage = Stage::LightSweep { changed: false };
            return;
        };
        self.view.verdict = Some(Arc::clone(&outcome.verdict));
        self.view.changes = outcome.changes.value().count();
        self.view.acknowledged = 0;
        self.view.failed = 0;
        if self.config.mode == Mode::DryRun {
            self.view.plan = Some(Arc::clone(&outcome.plan));
            self.view.generation = outcome.plan.generation;
            let (fabric, held) = (Arc::clone(&inventory.fabric), Installed::clone(&installed));
            self.finish(&inventory, fabric, held, &report::Failures::none());
            self.stage = Stage::LightSweep { changed: false };
            return;
        }
        out.push(coming(&inventory, &outcome, false));
        self.persist(inventory, installed, outcome, out);
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
        self.view.changes = outcome.changes.value().count();
        out.push(coming(&inventory, &outcome, mended.was_known));
        let (lost, returned) = self.repaired_links();
        out.push(Output::Event(Event::Repaired {
            lost,
            returned,
            blocks: self.view.changes.lft_blocks,
            took: result.took.saturating_sub(mended.judged),
            judged: mended.judged,
            was_known: mended.was_known,
        }));
        self.update_stored(persist::In::Repair(outcome.plan.generation), out);
        let held = mended.installed.unwrap_or_else(|| Installed::clone(&installed));
        self.silent.forget();
        let apply = Apply::new(outcome, Arc::clone(&inventory), held);
        self.begin_applying(apply, inventory, out);
    }

    pub(crate) fn applied(&mut self, apply: Apply, inventory: &Arc<Inventory>, now: Time, out: &mut Vec<Output>) {
        let Applied {
            outcome,
            fabric,
            installed,
            counts: Counts { acknowledged, failed },
            failures,
            declined,
            traffic,
            ..
        } = apply.end();
        let installed = Arc::new(installed);
        let after = After {
            fabric: Arc::clone(&fabric),
            plan: Arc::clone(&outcome.plan),
            installed: Arc::clone(&installed),
        };
        self.past.add(traffic.taken, traffic.has_drained, now, after);
        self.past.note_unanswered(traffic.unanswered);
        self.lids.held(&fabric, &outcome.plan.lids);
        self.silence.forget_looks();
        self.read_who_may_have_been_off(&inventory.fabric, &fabric, &installed);
        self.tell_read_back(readback::In::Written {
            fabric: &fabric,
            changes: outcome.changes.value(),
            is_live: traffic.may_be_live,
        });
        self.given_up.settle(now);
        let is_short = lid::is_short(&fabric, &self.config.policy, &outcome.plan.lids);
        self.given_up.set_short(is_short, now);
        let by_guid = declined.into_iter();
        let by_guid = by_guid.map(|(at, d)| ((fabric.node(at.node).guid, at.port), d));
        self.declined.extend(by_guid);
        self.hosts_asked(&fabric, &outcome, failed);
        (self.view.plan, self.aim) = (Some(Arc::clone(&outcome.plan)), None);
        self.view.verdict = Some(Arc::clone(&outcome.verdict));
        self.view.generation = outcome.plan.generation;
        self.view.acknowledged = acknowledged;
        self.view.failed = failed;
        self.watch_ports(&inventory.fabric, &fabric);
        if !self.is_repairing() {
            self.owe_second_look(&inventory.fabric, &fabric);
        }
        self.aliases_after_apply(&fabric, outcome.changes.value());
        self.finish(inventory, fabric, installed, &failures);
        self.run_election(election::In::Foreign(Foreign::Applied), out);
        out.extend(self.committed());
        out.push(Output::Event(match failed {
            0 => Event::SubnetUp { sets: acknowledged },
            _ => Event::SubnetUpWithErrors { failed },
        }));
        self.store_in_force(out);
        self.balance_applied(out);
        self.rest(now);
        self.after_apply(inventory, out);
    }

    /// A plan is left half-way: the next one leads there too, where nothing has changed since. A step towards balance
    /// begins anew by itself when what happened has been dealt with.
    fn note_aim(&mut self, apply: &Applied) {
        if self.is_balancing() {
            return;
        }
        self.aim = Some(Arc::new(Aim {
            plan: Arc::clone(&apply.outcome.plan),
            fabric: Arc::clone(&apply.fabric),
            policy: Arc::clone(&self.config.policy),
            keeps_found: self.keeps_found,
        }));
    }

    /// Neither the plan in force nor one that was left half-way counts any more.
    pub(crate) fn drop_plans(&mut self) {
        self.view.plan = None;
        self.aim = None;
    }

    /// A sweep is due while a phase waits: what has been acknowledged stays, the rest is planned anew.
    pub(crate) fn interrupted(&mut self, apply: Apply, inventory: &Arc<Inventory>, now: Time, out: &mut Vec<Output>) {
        let apply = apply.end();
        self.note_aim(&apply);
        let traffic = apply.traffic;
        let installed = Arc::new(apply.installed);
        self.past.note_unanswered(traffic.unanswered);
        if let Some(wait) = apply.wait {
            out.push(Output::Event(Event::WaitEnded { wait }));
            // It began with the last acknowledgement.
            let at = wait
                .until
                .since(Time::ZERO)
                .saturating_sub(Duration::from_nanos(wait.wait_ns));
            let after = After {
                fabric: Arc::clone(&apply.fabric),
                plan: Arc::clone(&apply.outcome.plan),
                installed: Arc::clone(&installed),
            };
            self.past
                .add(traffic.taken, traffic.has_drained, (Time::ZERO + at).min(now), after);
        }
        self.tell_read_back(readback::In::Written {
            fabric: &apply.fabric,
            changes: apply.outcome.changes.value(),
            is_live: traffic.may_be_live,
        });
        self.lids.held(&apply.fabric, &apply.outcome.plan.lids);
        self.given_up.settle(now);
        self.view.acknowledged = apply.counts.acknowledged;
        self.view.failed = apply.counts.failed;
        self.finish(inventory, apply.fabric, installed, &apply.failures);
        self.run_election(election::In::Foreign(Foreign::Applied), out);
    }

    /// A sweep is over: shows what is known now.
    pub(crate) fn finish(
        &mut self,
        inventory: &Inventory,
        fabric: Arc<Fabric>,
        installed: impl Into<Arc<Installed>>,
        failures: &report::Failures,
    ) {
        let mode = match self.role() {
            Role::Standby => Mode::Watch,
            _ => self.config.mode,
        };
        let installed = installed.into();
        self.note_who_is_gone(&fabric, &installed);
        self.view.ports = Arc::new(report::ports(&fabric, inventory, mode, failures));
        if !self.is_repairing() && !self.is_balancing() {
            self.planned_on = Some(Arc::clone(&inventory.fabric));
        }
        let inventory = Inventory {
            fabric,
            ..inventory.clone()
        };
        self.view.fabric = Some(Arc::clone(&inventory.fabric));
        self.view.seen.clone_from(&self.view.fabric);
        self.view.installed = installed;
        // What is under way is told anew in each job.
        if self.view.installed.under_way.is_some() || self.view.installed.levels.is_some() {
            let installed = Arc::make_mut(&mut self.view.installed);
            (installed.under_way, installed.levels) = (None, None);
        }
        self.view.sweeps += 1;
        self.inventory = Some(Arc::new(inventory));
        self.view.inventory.clone_from(&self.inventory);
    }
}

#[cfg(test)]
mod tests;
