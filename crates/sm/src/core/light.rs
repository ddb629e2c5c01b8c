//! Connects light sweeps and the check after a plan with the rest of the manager.

use selvedge_mad::AgentId;
use selvedge_planner::{Inventory, PortReason};
use selvedge_sim::Time;
use selvedge_wire::{Mad, PortInfo};

use super::{Sm, ok};
use crate::config::Mode;
use crate::election::Role;
use crate::io::Output;
use crate::stage::{Stage, Token};
use crate::sweep::{Ask, Effect, In, own_port};
use crate::timer::Timer;
use crate::{key_ring, readback};

impl Sm {
    /// Asks every switch whether a port changed its state; begins a heavy sweep at once if that is not enough.
    pub(super) fn begin_light_sweep(&mut self, out: &mut Vec<Output>) {
        self.run_keys(key_ring::In::LightSweep, out);
        self.tell_read_back(readback::In::LightSweepDue);
        let input = In::LightSweepDue {
            has_failed: self.in_force.failed() > 0 || self.in_force.no_plan().is_some() || self.has_unexplained(),
            are_lids_free: self.drain.are_lids_due(self.now),
        };
        self.run_sweep(input, out);
    }

    /// Returns true if a port of the plan in force is not ACTIVE, and no known fault explains this.
    fn has_unexplained(&self) -> bool {
        let mut ports = self.in_force.ports().iter();
        self.role() == Role::Master && ports.any(|port| port.reason == PortReason::Unexplained)
    }

    /// Notes that a light sweep has sent its first Gets.
    pub(super) fn light_sweep_begins(&mut self) {
        self.tell_read_back(readback::In::LightSweepBegins);
        if self.is_read_back_overdue() {
            // At once: agents that do not answer the other requests, and the next trap, would delay it.
            self.begin_reading_back(false);
        }
        self.stage = Stage::LightSweep;
    }

    /// Handles the end of a Get of a light sweep or of the check after a plan.
    pub(super) fn look_ended(&mut self, ask: Ask, answer: Option<&Mad>, out: &mut Vec<Output>) {
        let own = self.inventory.as_ref().map(|inventory| inventory.local);
        if let (Ask::Held(at), Some(mad)) = (ask, ok(answer))
            && (own == Some(at) && self.config.mode == Mode::Manage)
            && let Ok(info) = mad.read::<PortInfo>()
        {
            self.run_election(crate::election::In::OwnPort(info.capabilities), out);
        }
        self.run_sweep(In::Answered(ask, ok(answer)), out);
    }

    /// Ends the current light sweep early, because an answer differs from the known state.
    pub(super) fn light_sweep_differs(&mut self) {
        self.tell_sweep(In::Differs);
    }

    /// Returns true if the current light sweep or check has found a difference.
    pub(crate) const fn has_light_sweep_found(&self) -> bool {
        self.sweep().light().has_changed()
    }

    /// Called when every Get of a light sweep or of the check has ended.
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

    /// Reads PortInfo of the local port: if its cable was moved, every directed route leads to another node.
    pub(crate) fn ask_own_port(&mut self, inventory: &Inventory) {
        let at = inventory.local;
        let get = own_port(at.port);
        self.exchange
            .submit(AgentId(at.node.0), (Token::Look(Ask::Held(at)), get));
    }

    /// Returns when the check after a plan is due, if the manager is idle. While packets may be in flight that unknown
    /// entries forwarded, the check waits.
    pub(crate) fn second_look_due(&self) -> Option<Time> {
        let fog = self.drain.fog(self.now);
        let due = self.sweep().check().due()?;
        match fog.is_zero() {
            true => self.knows_the_fabric().then_some(due),
            false => Some(due.max(self.now + fog)),
        }
    }

    /// Begins the check after a plan, if it is due and the stage allows it.
    pub(super) fn look_again_if_due(&mut self, out: &mut Vec<Output>) {
        if self.is_due(Timer::SecondLook) && self.may_look_again() {
            self.run_sweep(In::CheckDue, out);
        }
    }

    /// Requests NodeInfo behind links if that is due. It is called only at a wake-up. A process that ends when the
    /// subnet is up would make no repair after this check, so the check must not delay its end.
    pub(super) fn look_behind_links_at_once(&mut self, out: &mut Vec<Output>) {
        if self.may_look_again() {
            self.run_sweep(In::Woken, out);
        }
    }

    fn may_look_again(&self) -> bool {
        matches!(self.stage, Stage::Idle) && self.knows_the_fabric()
    }

    /// Returns true if the check for changes during the plan is done.
    pub(crate) fn has_looked_again(&self) -> bool {
        let is_asking = matches!(self.stage, Stage::LightSweep) && self.exchange.open() > 0;
        !self.sweep().check().is_owed(is_asking)
    }

    /// Keeps the window full of NodeInfo Gets to the nodes behind links.
    pub(super) fn ask_behind_links(&mut self) {
        while self.exchange.open() < self.config.ready() {
            let Some(Effect::Ask(agent, ask, get)) = self.tell_sweep(In::Room).pop() else {
                return;
            };
            self.exchange.submit(agent, (Token::Look(ask), get));
        }
    }
}
