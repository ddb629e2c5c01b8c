//! Connects the election with the rest of the manager: carries out its effects.

use std::sync::Arc;

use selvedge_mad::AgentId;
use selvedge_plan::Installed;
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::{Guid, SecretKey};
use selvedge_verify::phases::is_live;
use selvedge_wire::SmInfo;

use crate::change::Later;
use crate::core::Sm;
use crate::election::{Ctx, Effect, Election, Foreign, In, Other, Role, Wait};
use crate::event::{Event, ManagerName};
use crate::io::Output;
use crate::milestone::Milestone;
use crate::stage::{Stage, Token};
use crate::{change, drain, key_ring, lid_book, registration, report, sweep};

impl Sm {
    /// Returns the SMInfo that this manager shows to others.
    #[must_use]
    pub fn own_sm_info(&self) -> SmInfo {
        self.election.sm_info(&self.config, self.act_count())
    }

    /// Returns the election, for queries.
    pub(crate) const fn election(&self) -> &Election {
        &self.election
    }

    /// Returns the number of SMPs that this manager has sent. It is shown as ActCount, by which other managers see that
    /// this one runs. Source: OpenSM (`stats.qp0_mads_sent`).
    const fn act_count(&self) -> u32 {
        let counters = self.exchange.counters();
        (counters.sent + counters.alone) as u32
    }

    /// Hands an input to the election, and carries out its effects.
    pub(crate) fn run_election(&mut self, input: In<'_>, out: &mut Vec<Output>) {
        // A manager that was started or reloaded with the proposed policy has only its key.
        let proposed = self.changes.wanted().map(|policy| SecretKey::new(policy.m_key));
        let other_m_keys = self.keys.others(proposed);
        let former_sm_keys = self.sm_keys.believed(self.now);
        let ctx = Ctx {
            now: self.now,
            config: &self.config,
            other_m_keys: &other_m_keys,
            former_sm_keys: &former_sm_keys,
            inventory: self.inventory.as_deref(),
            planned: self.in_force.planned().map(Arc::as_ref),
            sweep_reason: self.sweep_reason(),
            act_count: self.act_count(),
            is_waiting: self.exchange.open() > 0,
        };
        let mut effects = Vec::new();
        self.election.handle(&ctx, input, &mut effects);
        for effect in effects {
            self.election_effect(effect, out);
        }
    }

    /// Carries out one effect of the election.
    fn election_effect(&mut self, effect: Effect, out: &mut Vec<Output>) {
        match effect {
            Effect::Request { at, ask, smp } => self.exchange.submit(AgentId(at.node.0), (Token::SmInfo(ask), smp)),
            Effect::Answer(datagram) => self.send_only(*datagram, out),
            Effect::Notify(datagram) => self.send_unasked(*datagram, out),
            Effect::Acknowledge(smp) => self.send_unasked(self.with_key(&smp), out),
            Effect::PeerAsked(key) => self.run_keys(key_ring::In::PeerAsked(key), out),
            Effect::Drop => self.exchange.drops(),
            Effect::ClearRequests => self.exchange.clear(),
            Effect::Event(event) => out.push(Output::Event(event)),
            Effect::Obey(control, sender) => self.run_election(In::Control(control, sender), out),
            Effect::Sweep(reason) => self.want_sweep(reason),
            Effect::RoleChanged { role, other } => self.role_changed(role, other, out),
            Effect::ForgetPlan => self.forget_plan(),
            Effect::NoOtherMaster => self.update_registration(registration::In::NoOtherMaster),
            Effect::ForeignPackets(last) => self.await_foreign_packets(last),
            Effect::Yield(master) => self.yield_to(master, out),
            Effect::Weigh(to) => {
                let changing = self.ports_that_change_keys();
                let wait = Wait {
                    is_draining: self.is_draining(),
                    are_keys_changing: !changing.is_empty(),
                    has_new_ports: changing.iter().any(|port| self.keys.is_newly_found(port)),
                };
                self.run_election(In::Weighed { to, wait }, out);
            }
            Effect::Lead => {
                self.run_election(In::Lead, out);
                self.begin_reading_tables();
            }
            Effect::StayMaster => self.begin_reading_tables(),
            Effect::StoodBy => self.stood_by(out),
            Effect::Disabled => {
                self.stage = Stage::Disabled;
                self.change_policy(change::In::NotNow(Later::Disabled), out);
            }
            Effect::Offered => self.stage = Stage::HandingOver,
            Effect::Rival => self.light_sweep_differs(),
            Effect::ShowIsSm => out.push(Output::SetIsSm(true)),
            Effect::Reregister => self.update_registration(registration::In::AllLost),
        }
    }

    /// Handles a change of the role: drops the state of the former role, and reports the change.
    fn role_changed(&mut self, role: Role, other: Option<Guid>, out: &mut Vec<Output>) {
        self.update_registration(registration::In::RoleChanged);
        match role {
            Role::Master => {}
            Role::Discovering | Role::Standby | Role::NotActive => self.leave_what_hosts_registered(),
        }
        out.push(Output::Milestone(Milestone::RoleChanged { role }));
        let other = other.map(|guid| ManagerName::of(self.inventory.as_deref(), guid));
        out.push(Output::Event(Event::Role { role, other }));
    }

    /// Called when another manager was master: the contents of the plan in force are no longer known.
    fn forget_plan(&mut self) {
        self.update_registration(registration::In::OtherMaster);
        self.drop_plans();
    }

    /// Records that packets may be in flight which entries of another master have forwarded. That master may have sent
    /// Sets until `last`.
    fn await_foreign_packets(&mut self, last: Time) {
        if let Some(inventory) = self.inventory.clone().filter(|inventory| is_live(&inventory.fabric)) {
            self.tell_drain(drain::In::Stranger(last, &inventory.fabric));
        }
    }

    /// True if packets are in flight that were forwarded by entries which have changed since, or that go to LIDs which
    /// were given up. Also true if an earlier copy of a Set may still arrive: it could undo a Set of the next master.
    fn is_draining(&mut self) -> bool {
        let inventory = self.inventory.clone();
        let is_under_way = inventory.is_some_and(|inventory| self.under_way(&inventory.fabric).is_some());
        let is_resting = !self.drain.resting(self.now).is_empty();
        is_under_way || is_resting || self.may_copies_come()
    }

    /// Begins to read tables, as master.
    fn begin_reading_tables(&mut self) {
        if let Some(inventory) = self.inventory.clone() {
            self.begin_reading(inventory);
        }
    }

    /// Stands by for another manager, with the state that is needed to take over from it.
    fn yield_to(&mut self, master: Other, out: &mut Vec<Output>) {
        let Some(inventory) = self.inventory.clone() else {
            return;
        };
        // Should the master die, these are the LIDs to keep, also of ports that are away just then.
        self.tell_lids(lid_book::In::OfAnother(&inventory.fabric));
        // Whatever this manager planned, the master writes over it.
        self.drop_plans();
        self.run_election(In::StandBy(master), out);
        let (fabric, installed) = (Arc::clone(&inventory.fabric), Installed::default());
        self.finish(&inventory, fabric, installed, &report::Failures::none());
    }

    /// Begins to stand by.
    fn stood_by(&mut self, out: &mut Vec<Output>) {
        if let Some(inventory) = &self.inventory {
            let fabric = Arc::clone(&inventory.fabric);
            self.update_registration(registration::In::StoodBy(fabric));
        }
        self.forget_told(out);
        self.tell_sweep(sweep::In::StoodBy);
        self.stage = Stage::Standby;
        self.change_policy(change::In::NotNow(Later::Standby), out);
    }

    /// Checks the inventory of a heavy sweep for signs of other masters.
    pub(crate) fn note_other_masters(&mut self, found: &Inventory, out: &mut Vec<Output>) {
        let own = found.fabric.node(found.local.node).guid;
        if self.sweep().light().was_twin(own) {
            self.run_election(In::Foreign(Foreign::OwnGuid), out);
        }
        let planned = self.in_force.planned();
        // Should this sweep be repeated, the next one has seen them before.
        if planned.is_some_and(|planned| self.sweep().wires().has_new_active(planned, &found.fabric)) {
            self.run_election(In::Foreign(Foreign::Links), out);
        }
    }

    /// Called when this manager becomes idle. Returns the time of the next offer of the subnet to a better manager that
    /// had to wait; `None` if no manager waits.
    pub(crate) fn next_offer(&mut self) -> Option<Time> {
        // This has no effects.
        self.run_election(In::Resting, &mut Vec::new());
        self.election.offer_due(self.now)
    }
}
