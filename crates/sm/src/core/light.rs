//! Routes between light sweeps, the check after a plan, and the rest of the manager.

use selvedge_mad::AgentId;
use selvedge_planner::{Inventory, PortReason};
use selvedge_sim::Time;
use selvedge_wire::Mad;

use super::{Sm, ok};
use crate::election::Role;
use crate::io::Output;
use crate::readback;
use crate::stage::{Stage, Token};
use crate::sweep::{Ask, Effect, In, own_port};
use crate::timer::Timer;

impl Sm {
    /// Asks every switch whether a port changed its state; goes for a heavy sweep at once where that says too little.
    pub(super) fn begin_light_sweep(&mut self, out: &mut Vec<Output>) {
        self.tell_read_back(readback::In::LightSweepDue);
        let input = In::LightSweepDue {
            has_failed: self.in_force.failed() > 0 || self.has_unexplained(),
            are_lids_free: self.drain.are_lids_due(self.now),
        };
        self.run_sweep(input, out);
    }

    /// Returns true if a port of the plan in force is not ACTIVE, and nothing that is known says why.
    fn has_unexplained(&self) -> bool {
        let mut ports = self.in_force.ports().iter();
        self.role() == Role::Master && ports.any(|port| port.reason == PortReason::Unexplained)
    }

    /// A light sweep has asked its first questions.
    pub(super) fn light_sweep_begins(&mut self) {
        self.tell_read_back(readback::In::LightSweepBegins);
        if self.is_read_back_overdue() {
            // At once: whoever does not answer the other questions, and the next trap, would keep it waiting.
            self.begin_reading_back(false);
        }
        self.stage = Stage::LightSweep;
    }

    /// A question of a light sweep or of the check has ended.
    pub(super) fn look_ended(&mut self, ask: Ask, answer: Option<&Mad>, out: &mut Vec<Output>) {
        self.run_sweep(In::Answered(ask, ok(answer)), out);
    }

    /// The light sweep at hand is not through, and something is not as known.
    pub(super) fn light_sweep_differs(&mut self) {
        self.tell_sweep(In::Differs);
    }

    /// Returns true if the light sweep or the check at hand has found something that is not as known.
    pub(crate) const fn has_light_sweep_found(&self) -> bool {
        self.sweep().light().has_changed()
    }

    /// Everything that a light sweep or the check asked is answered.
    pub(super) fn light_sweep_settled(&mut self, now: Time) {
        let (changed, is_check) = (self.has_light_sweep_found(), self.sweep().check().is_alone());
        if !is_check {
            if self.begin_reading_back(changed) {
                self.stage = Stage::LightSweep;
                return;
            }
            self.tell_read_back(readback::In::LightSweepEnds);
        }
        let is_of_links = self.sweep().check().is_of_links();
        self.tell_sweep(In::AllAnswered);
        if !changed {
            self.rest(now);
            if !is_of_links {
                self.read_copies_back();
            }
        }
    }

    /// Asks for our own port: if its cable was moved, everybody else is somewhere else.
    pub(crate) fn ask_own_port(&mut self, inventory: &Inventory) {
        let at = inventory.local;
        let get = own_port(at.port, self.config.policy.m_key);
        self.exchange
            .submit(AgentId(at.node.0), (Token::Look(Ask::Held(at)), get));
    }

    /// When the check is due, to whoever is idle: while packets go by entries that nobody knows it waits for their end.
    pub(crate) fn second_look_due(&self) -> Option<Time> {
        let fog = self.drain.fog(self.now);
        let due = self.sweep().check().due()?;
        match fog.is_zero() {
            true => self.knows_the_fabric().then_some(due),
            false => Some(due.max(self.now + fog)),
        }
    }

    /// Begins the check, if it is time and it can be made now.
    pub(super) fn look_again_if_due(&mut self, out: &mut Vec<Output>) {
        if self.is_due(Timer::SecondLook) && self.may_look_again() {
            self.run_sweep(In::CheckDue, out);
        }
    }

    /// Looks behind links, where that is to be done at once. It waits for a wake-up: who manages until the subnet is
    /// up, and no longer, is not to be kept by what nobody would mend.
    pub(super) fn look_behind_links_at_once(&mut self, out: &mut Vec<Output>) {
        if self.may_look_again() {
            self.run_sweep(In::Woken, out);
        }
    }

    fn may_look_again(&self) -> bool {
        matches!(self.stage, Stage::Idle) && self.knows_the_fabric()
    }

    /// Returns true if no look is owed at what happened while the plan was on its way.
    pub(crate) fn has_looked_again(&self) -> bool {
        let is_asking = matches!(self.stage, Stage::LightSweep) && self.exchange.open() > 0;
        !self.sweep().check().is_owed(is_asking)
    }

    /// Keeps questions open about who is behind which link.
    pub(super) fn ask_behind_links(&mut self) {
        while self.exchange.open() < self.config.ready() {
            let Some(Effect::Ask(agent, ask, get)) = self.tell_sweep(In::Room).pop() else {
                return;
            };
            self.exchange.submit(agent, (Token::Look(ask), get));
        }
    }
}
