//! Connects alias GUIDs with the rest of the manager.

use selvedge_fabric::Fabric;
use selvedge_plan::ChangeSet;
use selvedge_plan::aliases::PortAliases;
use selvedge_sim::Time;

use super::Sm;
use crate::aliases::{Ctx, Effect, In};
use crate::apply::Apply;
use crate::config::Mode;
use crate::election::Role;
use crate::event::Event;
use crate::io::Output;
use crate::stage::Stage;
use crate::timer::Timer;

impl Sm {
    /// Passes an input to the part that sets alias GUIDs; returns its effects.
    pub(crate) fn tell_aliases(&mut self, input: In<'_>) -> Vec<Effect> {
        let ctx = Ctx {
            now: self.now,
            mode: self.config.mode,
            judge: &*self.judge,
            inventory: self.inventory.as_deref(),
        };
        let mut effects = Vec::new();
        self.aliases.handle(&ctx, input, &mut effects);
        effects
    }

    /// Hands an input to alias GUIDs, and carries out their effects.
    pub(crate) fn run_aliases(&mut self, input: In<'_>, out: &mut Vec<Output>) {
        for effect in self.tell_aliases(input) {
            let naming = match (effect, self.inventory.clone()) {
                (Effect::Event(event), _) => {
                    out.push(Output::Event(Event::Aliases(event)));
                    continue;
                }
                (Effect::Read(blocks), Some(inventory)) => Apply::read_guids(inventory, blocks),
                (Effect::Write(change), Some(inventory)) => Apply::write_guids(inventory, &change),
                (Effect::Read(_) | Effect::Write(_), None) => continue,
            };
            self.stage = Stage::GuidBlocks(Some(Box::new(naming)));
        }
    }

    /// Called when the administrator wants other aliases at ports.
    pub(super) fn aliases_changed(&mut self, ports: Vec<PortAliases>) {
        self.tell_aliases(In::Changed(ports));
    }

    /// Notes that a plan is in force: a port that got a Set of PortInfo may have been off.
    pub(crate) fn aliases_after_apply(&mut self, fabric: &Fabric, changes: &ChangeSet) {
        self.tell_aliases(In::PlanInForce(fabric, changes));
    }

    /// Called when another manager is master.
    pub(super) fn leave_aliases(&mut self) {
        self.tell_aliases(In::AnotherManages);
    }

    /// Returns when GUIDInfo is read or written next; `None` while other work takes precedence.
    pub(crate) fn aliases_due(&self) -> Option<Time> {
        let is_ours = self.config.mode == Mode::Manage && self.role() == Role::Master && self.in_force.plan().is_some();
        let is_free = is_ours && self.inventory.is_some() && !self.is_sweep_due() && !self.has_suspects();
        self.aliases.due().filter(|_| is_free)
    }

    /// Reads GUIDInfo, or plans and writes it, if the manager is idle.
    pub(super) fn aliases_if_due(&mut self, out: &mut Vec<Output>) {
        if self.is_due(Timer::AliasGuids) {
            self.run_aliases(In::Due, out);
        }
    }
}
