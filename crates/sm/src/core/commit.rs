//! Connects the plan in force with the rest of the manager.
//!
//! - `applied`: the last Set has ended, and the plan is in force. A milestone informs the administrator.
//! - `interrupted`: a sweep takes the place of a plan that waits before a phase.

use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::Installed;
use selvedge_planner::held::may_have_been_off;
use selvedge_planner::past::After;
use selvedge_planner::{Inventory, lid};
use selvedge_sim::Time;
use selvedge_types::PortState;

use super::Sm;
use crate::apply::{Applied, Apply, Counts};
use crate::commit::{Ctx, Effect, In, Known, Sent};
use crate::config::Mode;
use crate::drain::Step;
use crate::election::{Foreign, Role};
use crate::event::Event;
use crate::io::Output;
use crate::milestone::{Committed, Milestone};
use crate::report::Failures;
use crate::{change, drain, election, key_ring, lid_book, presence, readback};

impl Sm {
    /// Hands an input to the plan in force; returns its effects.
    pub(crate) fn tell_in_force(&mut self, input: In<'_>) -> Vec<Effect> {
        let ctx = Ctx {
            mode: match self.role() {
                Role::Standby => Mode::Watch,
                _ => self.config.mode,
            },
            policy: &self.config.policy,
            found: self.inventory.as_deref(),
        };
        let mut effects = Vec::new();
        self.in_force.handle(&ctx, input, &mut effects);
        effects
    }

    /// Hands an input to the plan in force, and reports its events.
    pub(crate) fn update_in_force(&mut self, input: In<'_>, out: &mut Vec<Output>) {
        for effect in self.tell_in_force(input) {
            match effect {
                Effect::Event(event) => out.push(Output::Event(event)),
                Effect::CopiesChanged(held) => out.push(Output::Milestone(Milestone::CopiesChanged(held))),
                Effect::Astray => {}
            }
        }
    }

    /// Drops the plan in force, and an interrupted plan if there is one.
    pub(crate) fn drop_plans(&mut self) {
        self.tell_in_force(In::Dropped);
    }

    /// Returns true if a table differs from what this manager believed it had written.
    pub(crate) fn take_astray(&mut self, fabric: &Fabric, read: &Installed) -> bool {
        !self.tell_in_force(In::Read(fabric, read)).is_empty()
    }

    /// Handles the state at the end of a sweep or of a change of tables.
    pub(crate) fn finish(
        &mut self,
        inventory: &Inventory,
        fabric: Arc<Fabric>,
        installed: impl Into<Arc<Installed>>,
        failures: &Failures,
    ) {
        self.know(Known {
            inventory,
            fabric: &fabric,
            installed: &installed.into(),
            failures,
            is_of_sweep: !self.is_repairing() && !self.is_balancing(),
            is_cut_off: false,
        });
    }

    /// Ends a sweep that could reach no node. Front ends then show that there is no fabric.
    pub(super) fn finish_cut_off(&mut self, inventory: &Inventory) {
        self.know(Known {
            inventory,
            fabric: &inventory.fabric,
            installed: &Arc::default(),
            failures: &Failures::none(),
            is_of_sweep: !self.is_repairing() && !self.is_balancing(),
            is_cut_off: true,
        });
    }

    fn know(&mut self, known: Known<'_>) {
        self.note_who_is_gone(known.fabric, known.installed);
        self.tell_in_force(In::Known(known));
        self.inventory = self.in_force.inventory().cloned();
    }

    /// Called when the last Set has ended: the plan is in force.
    pub(super) fn applied(&mut self, apply: Apply, inventory: &Arc<Inventory>, now: Time, out: &mut Vec<Output>) {
        let Applied {
            outcome,
            fabric,
            installed,
            counts,
            failures,
            declined,
            traffic,
            ..
        } = apply.end();
        let sent = sent(counts, &failures);
        let installed = Arc::new(installed);
        let after = After {
            fabric: Arc::clone(&fabric),
            plan: Arc::clone(&outcome.plan),
            installed: Arc::clone(&installed),
        };
        let step = Step {
            taken: traffic.taken,
            has_drained: traffic.has_drained,
            at: now,
            after,
        };
        self.tell_drain(drain::In::Applied {
            step,
            unanswered: traffic.unanswered,
            // Where no plan gives them, ports do not wait for LIDs.
            is_short: self.in_force.no_plan().is_none()
                && lid::is_short(&fabric, &self.config.policy, &outcome.plan.lids),
        });
        self.tell_lids(lid_book::In::Applied(&fabric, &outcome.plan.lids));
        self.read_who_may_have_been_off(&inventory.fabric, &fabric, &installed);
        self.tell_read_back(readback::In::Written {
            fabric: &fabric,
            changes: outcome.changes.value(),
            is_live: traffic.may_be_live,
        });
        self.hosts_asked(&fabric, &outcome, sent.failed);
        self.tell_in_force(In::Applied {
            outcome: &outcome,
            fabric: &fabric,
            declined,
            sent,
        });
        self.watch_ports(&inventory.fabric, &fabric);
        self.aliases_after_apply(&fabric, outcome.changes.value());
        self.finish(inventory, fabric, installed, &failures);
        if let Some(left) = self.inventory.clone().filter(|_| self.is_repairing()) {
            self.note_presence(presence::In::Repaired(left), out);
        }
        self.tell_of_plan(out);
        self.rest(now);
        self.after_apply(inventory, out);
        self.run_keys(key_ring::In::Applied, out);
    }

    /// Informs the other parts that a plan is in force.
    fn tell_of_plan(&mut self, out: &mut Vec<Output>) {
        self.run_election(election::In::Foreign(Foreign::Applied), out);
        out.extend(self.committed());
        let change = self.in_force.change();
        out.push(Output::Event(match change.failed {
            0 => Event::SubnetUp {
                sets: change.acknowledged,
            },
            failed => Event::SubnetUpWithErrors { failed },
        }));
        let failed = change.failed;
        self.change_policy(change::In::Applied { failed }, out);
        self.store_in_force(out);
        self.balance_applied(out);
    }

    /// Ends a plan while one of its phases waits, because a sweep is due. Acknowledged Sets stay; the remaining ones
    /// are planned again.
    pub(super) fn interrupted(&mut self, apply: Apply, inventory: &Arc<Inventory>, now: Time, out: &mut Vec<Output>) {
        let apply = apply.end();
        let traffic = apply.traffic;
        // A step towards balance begins again by itself when what happened has been dealt with.
        if !self.is_balancing() {
            self.tell_in_force(In::LeftHalfWay {
                plan: &apply.outcome.plan,
                fabric: &apply.fabric,
            });
        }
        let installed = Arc::new(apply.installed);
        let step = apply.wait.map(|wait| {
            out.push(Output::Event(Event::WaitEnded { wait }));
            // It began with the last acknowledgement.
            let at = wait
                .until
                .since(Time::ZERO)
                .saturating_sub(Duration::from_nanos(wait.wait_ns));
            Step {
                taken: traffic.taken,
                has_drained: traffic.has_drained,
                at: (Time::ZERO + at).min(now),
                after: After {
                    fabric: Arc::clone(&apply.fabric),
                    plan: Arc::clone(&apply.outcome.plan),
                    installed: Arc::clone(&installed),
                },
            }
        });
        self.tell_drain(drain::In::Interrupted {
            unanswered: traffic.unanswered,
            step,
        });
        self.tell_read_back(readback::In::Written {
            fabric: &apply.fabric,
            changes: apply.outcome.changes.value(),
            is_live: traffic.may_be_live,
        });
        self.tell_lids(lid_book::In::Applied(&apply.fabric, &apply.outcome.plan.lids));
        self.tell_in_force(In::Sent(sent(apply.counts, &apply.failures)));
        self.finish(inventory, apply.fabric, installed, &apply.failures);
        self.run_election(election::In::Foreign(Foreign::Applied), out);
    }

    /// Reads the tables of switches that may have been off after a plan for the fabric `seen` came into force. If a
    /// plan has since restored the LID, LinearFDBTop and links of such a switch, only its tables still show that it was
    /// off.
    pub(super) fn read_who_may_have_been_off(&mut self, seen: &Fabric, now: &Fabric, installed: &Installed) {
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

    /// Returns the milestone of the plan in force; `None` without one.
    pub(crate) fn committed(&self) -> Option<Output> {
        Some(Output::Milestone(Milestone::Committed(Box::new(Committed {
            fabric: self.in_force.fabric().cloned()?,
            plan: self.in_force.plan().cloned()?,
            inventory: self.in_force.inventory().cloned()?,
            lanes: Arc::clone(&self.in_force.installed().lanes),
            policy: Arc::clone(&self.config.policy),
            unasked: Arc::clone(self.registration().unasked()),
            asks_all: self.registration().asks_all(),
            manager: self.own_sm_info(),
        }))))
    }
}

/// Returns how the Sets of a plan have ended.
fn sent(counts: Counts, failures: &Failures) -> Sent {
    Sent {
        acknowledged: counts.acknowledged,
        failed: counts.failed,
        tables_failed: !failures.nodes.is_empty(),
    }
}
