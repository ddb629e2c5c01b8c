//! Connects traps with the rest of the manager.

use std::sync::Arc;

use selvedge_sim::Time;

use super::Sm;
use crate::election::Role;
use crate::event::Event;
use crate::intake::IntakeEvent;
use crate::io::Output;
use crate::milestone::Milestone;
use crate::timer::Timer;
use crate::trap::{Ctx, Effect, In};

impl Sm {
    /// Hands an input to the trap machine, and carries out its effects.
    pub(crate) fn trap(&mut self, input: In, out: &mut Vec<Output>) {
        let m_key = match &input {
            In::Received(datagram) => self.key_of_lid(datagram.address.lid),
            In::RepressDue | In::Babbles { .. } => self.keys.present(),
        };
        let ctx = Ctx {
            now: self.now,
            config: &self.config,
            is_master: self.role() == Role::Master,
            waiting: self.election().waiting(self.now),
            plan: self.in_force.plan().map(Arc::as_ref),
            inventory: self.inventory.as_deref(),
            m_key,
        };
        let mut effects = Vec::new();
        self.traps.handle(&ctx, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Drop => self.exchange.drops(),
                Effect::Event(event) => out.push(Output::Event(event)),
                Effect::Taken(datagram) => out.push(Output::Milestone(Milestone::TrapTaken(datagram))),
                Effect::Probe { lid, reason } => {
                    if !self.suspect_lid(lid, reason) {
                        self.want_sweep_unless_due(reason);
                    }
                }
                Effect::Sweep(reason) => {
                    self.want_sweep_unless_due(reason);
                }
                Effect::Repress(answers) => answers.into_iter().for_each(|answer| self.send_only(answer, out)),
                Effect::Disable { lid, what, set } => {
                    self.send_unasked(self.with_key(&set), out);
                    out.push(Output::Event(Event::Intake(IntakeEvent::Disabled { lid, what })));
                }
                Effect::KeepEnabled { lid, why } => {
                    out.push(Output::Event(Event::Intake(IntakeEvent::NotDisabled { lid, why })));
                }
            }
        }
    }

    /// Returns when the traps that are not repressed yet must be repressed.
    pub(crate) fn repress_at(&self) -> Option<Time> {
        self.traps.due(self.is_mending())
    }

    /// Represses the traps that are due to be repressed.
    pub(crate) fn repress(&mut self, out: &mut Vec<Output>) {
        if self.is_due(Timer::Repress) {
            self.trap(In::RepressDue, out);
        }
    }
}
