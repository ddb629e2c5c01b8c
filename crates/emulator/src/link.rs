//! Links: how they train, come up and go down, and the traps that switches send about this.

use selvedge_chassis::{PortIdx, TableKind};
use selvedge_fabric::NodeIdx;
use selvedge_types::{PhysState, PortState};
use selvedge_wire::{CapabilityMask, Trap};

use crate::config::nanos;
use crate::emulator::Emulator;
use crate::fault::Action;
use crate::watch::Change;

impl Emulator {
    /// Starts training if power and cable allow it.
    pub(crate) fn try_train(&mut self, port: PortIdx) {
        if !self.chassis.can_train(port) {
            return;
        }
        let port = self.lower_end(port);
        let attempt = &mut self.attempts[port.0 as usize];
        *attempt = attempt.wrapping_add(1);
        let attempt = *attempt;
        for end in self.both_ends(port) {
            self.chassis.set_physical(end, PhysState::Polling);
        }
        self.command_in(nanos(self.config.polling_time), Action::Train { port, attempt });
    }

    /// Makes one step of training: Polling to Training, Training to LinkUp and INIT.
    fn train(&mut self, port: PortIdx, attempt: u32) {
        if self.attempts[port.0 as usize] != attempt || !self.chassis.can_train(port) {
            return;
        }
        if self.chassis.wire(port).phys() == PhysState::Polling {
            for end in self.both_ends(port) {
                self.chassis.set_physical(end, PhysState::Training);
            }
            self.command_in(nanos(self.config.training_time), Action::Train { port, attempt });
        } else if self.chassis.bring_up(port) {
            for end in self.both_ends(port) {
                self.cables.link_changed(&self.chassis, self.now, end);
                self.state_changed(end);
            }
        }
    }

    /// Handles a Set by which a manager resets a port's state: both ends are in INIT afterwards. At the other end the
    /// link state machine makes the change.
    pub(crate) fn reset_link(&mut self, port: PortIdx) {
        for end in self.both_ends(port) {
            let changes = self.chassis.wire(end).state() > PortState::Init;
            self.chassis.set_logical(end, PortState::Init);
            if changes && end != port {
                self.state_changed(end);
            }
        }
    }

    /// Takes a link down. `by_manager`: the port that a SubnSet addressed, at which the change does not set
    /// PortStateChange.
    pub(crate) fn link_down(&mut self, port: PortIdx, by_manager: Option<PortIdx>) {
        let lower = self.lower_end(port);
        self.attempts[lower.0 as usize] = self.attempts[lower.0 as usize].wrapping_add(1);
        if !self.chassis.take_down(port) {
            return;
        }
        for end in self.both_ends(port) {
            self.traffic.stop(self.now, end);
            self.cables.link_changed(&self.chassis, self.now, end);
            if by_manager != Some(end) {
                self.state_changed(end);
            }
        }
    }

    /// Handles a port that the link state machine moved to or from DOWN: a switch sets PortStateChange and sends a
    /// trap.
    ///
    /// Source: IBA vol 1 §14.2.5.4 (PortStateChange: changes that a SubnSet made do not count), §14.3.4 (trap 128).
    fn state_changed(&mut self, port: PortIdx) {
        let node = self.chassis.wire(port).node();
        if !self.chassis.is_switch(node) || !self.chassis.is_powered(node) {
            return;
        }
        self.chassis.set_port_state_change(node, true);
        let own = self.chassis.end_port(port);
        let lid = self.chassis.port(own).settings().lids.base;
        self.raise_trap(own, &Trap::LinkState { lid });
    }

    /// Handles a manager's request for another state of a port's link.
    fn link_command(&mut self, port: PortIdx, state: PhysState) {
        self.link_down(port, Some(port));
        self.chassis.set_physical(port, state);
        self.try_train(port);
    }

    /// Carries out a command that is due.
    pub(crate) fn act(&mut self, action: Action) {
        if !matches!(action, Action::TrapDue { .. }) {
            self.watch.note(Change::Happened);
        }
        match action {
            Action::Cut(port) => {
                self.link_down(port, None);
                self.chassis.set_plugged(port, false);
            }
            Action::Restore(port) => {
                if !self.chassis.wire(port).is_plugged() {
                    self.chassis.set_plugged(port, true);
                    self.try_train(port);
                }
            }
            Action::Kill(node) => self.power_off(node),
            Action::Revive(node) => {
                if !self.chassis.is_powered(node) {
                    self.power_on(node);
                }
            }
            Action::Reboot(node) => {
                self.power_off(node);
                self.power_on(node);
            }
            Action::Hang(node) => self.hang(node),
            Action::Unhang(node) => self.unhang(node),
            Action::Slow(node, by) => {
                self.slow.insert(node, by);
            }
            Action::Lie(node) => {
                self.liars.insert(node);
                self.watch.note_liar(node);
            }
            Action::Honest(node) => {
                self.liars.remove(&node);
            }
            Action::Shy(node) => {
                self.shy.insert(node);
            }
            Action::Swap(a, b) => self.swap(a, b),
            Action::Clone { node, original } => self.chassis.clone_guids(node, original),
            Action::Impair { link, impairment } => self.impair(link, impairment),
            Action::Load(demands) => self.traffic.replace(&mut self.chassis, self.now, *demands),
            Action::Stall(port, share) => self.traffic.stall(&self.chassis, self.now, port, share),
            Action::Errors(port, counter, amount) => {
                self.errors.inject(&mut self.chassis, self.now, port, (counter, amount));
            }
            Action::Ber(port, ratios) => self.cables.set_ratios(&mut self.chassis, self.now, port, ratios),
            Action::Cable(port, readings) => self.cables.set_readings(port, readings),
            Action::ErrorsOff(port) => self.errors.end(&mut self.chassis, self.now, port),
            Action::Train { port, attempt } => self.train(port, attempt),
            Action::TrapDue { node, serial } => self.repeat_trap(node, serial),
            Action::Link { port, state } => self.link_command(port, state),
            Action::IsSm { port, is_sm } => self.change_is_sm(port, is_sm),
        }
    }

    /// Exchanges the cables of two ports. Faults of the old cables end.
    fn swap(&mut self, a: PortIdx, b: PortIdx) {
        let ends: Vec<PortIdx> = [a, b].into_iter().flat_map(|port| self.both_ends(port)).collect();
        for port in [a, b] {
            self.link_down(port, None);
            self.mend(port);
        }
        if self.chassis.swap_cables(a, b) {
            for port in ends {
                let attempt = &mut self.attempts[port.0 as usize];
                *attempt = attempt.wrapping_add(1);
            }
            self.try_train(a);
            self.try_train(b);
        }
    }

    fn power_off(&mut self, node: NodeIdx) {
        for port in self.external_ports(node) {
            self.link_down(port, None);
        }
        self.chassis.power_off(node);
        self.reset_agents(node);
        self.traps.forget(node);
        self.leases.retain(|port, _| self.chassis.wire(*port).node() != node);
    }

    fn power_on(&mut self, node: NodeIdx) {
        self.chassis.power_on(node);
        self.default_capabilities(node);
        for port in self.external_ports(node) {
            self.forget_counts(port);
            self.try_train(port);
        }
    }

    fn change_is_sm(&mut self, port: PortIdx, is_sm: bool) {
        let before = CapabilityMask(self.chassis.port(port).capability_mask);
        let after = match is_sm {
            true => before.with(CapabilityMask::IS_SM),
            false => before.without(CapabilityMask::IS_SM),
        };
        if before != after {
            self.chassis.port_mut(port, TableKind::Settings).capability_mask = after.0;
            self.raise_capability_trap(port);
        }
    }

    fn external_ports(&self, node: NodeIdx) -> Vec<PortIdx> {
        (1..=u8::MAX).map_while(|num| self.chassis.port_at(node, num)).collect()
    }

    fn both_ends(&self, port: PortIdx) -> impl Iterator<Item = PortIdx> + use<> {
        [Some(port), self.chassis.wire(port).peer()].into_iter().flatten()
    }

    /// Returns the end that identifies a cable.
    pub(crate) fn lower_end(&self, port: PortIdx) -> PortIdx {
        self.chassis.wire(port).peer().map_or(port, |peer| peer.min(port))
    }
}
