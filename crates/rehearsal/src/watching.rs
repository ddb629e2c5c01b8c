//! Where the checkers of a rehearsal are called.

use crate::invariant::is_content;
use std::fmt::Write as _;
use std::time::Duration;

use selvedge_chassis::PortIdx;
use selvedge_emulator::Fault;
use selvedge_fabric::NodeIdx;

use crate::watch::{Checker, Exemptions, Findings, Rule, Watcher};
use crate::{ManagerId, Rehearsal, RehearsalError, Tamper, Violation};

impl Rehearsal {
    /// From now on somebody looks after every Set that an agent takes, every fault and every timer, and not only when
    /// time goes on. Before any manager is added: what judges pass is noted from then on.
    pub fn watch(&mut self) {
        self.watcher = Some(Box::new(Watcher::new(&mut self.emulator)));
    }

    /// How often managers have asked a host to register again.
    #[must_use]
    pub const fn asks(&self) -> u64 {
        self.asks
    }

    /// The events as text, a line each.
    #[must_use]
    pub fn log_text(&self) -> String {
        let mut text = String::new();
        for entry in &self.log {
            let name = self.managers.get(entry.manager.0).map_or("?", |m| m.name.as_str());
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {name} {}", entry.at, entry.event);
        }
        text
    }

    /// What was found and excused, by checker and rule.
    #[must_use]
    pub fn exemptions(&self) -> Exemptions {
        self.watcher
            .as_ref()
            .map(|w| w.exemptions().clone())
            .unwrap_or_default()
    }

    /// A fault that rules go by is about to strike.
    pub(crate) fn note_fault(&mut self, fault: &Fault) {
        let Some(watcher) = &mut self.watcher else { return };
        match fault {
            Fault::Corrupt(ratio, _) => watcher.set_corrupting(self.now, ratio.numerator > 0),
            Fault::Hang(_) => watcher.hides(self.now, true),
            Fault::Unhang(_) => watcher.hides(self.now, false),
            Fault::Loss(ratio, Some(_)) => watcher.hides(self.now, ratio.numerator > 0),
            _ => {}
        }
    }

    /// What checkers found while the run went on, and for how long packets went in circles; of programs only.
    #[must_use]
    pub fn findings(&self) -> (Findings, Duration) {
        self.watcher.as_ref().map_or_else(Default::default, |w| w.findings())
    }

    /// True if a switch holds another block than it acknowledged last, and the manager that wrote the block can read
    /// it.
    pub(crate) fn is_any_block_astray(&self) -> bool {
        let subnets = self.invariants.subnets();
        let is_astray = |watcher: &Watcher| watcher.is_any_block_astray(&self.emulator, &self.managers, subnets);
        self.watcher.as_deref().is_some_and(is_astray)
    }

    /// What must hold around a port where nothing is left to do.
    pub(crate) fn rest_around(&mut self, at: PortIdx) -> Result<(), Violation> {
        let (chassis, subnets) = (self.emulator.chassis(), self.invariants.subnets());
        match &mut self.watcher {
            Some(watcher) => watcher.at_rest(self.now, chassis, subnets, at),
            None => Ok(()),
        }
    }

    /// A link is not ACTIVE because it went down too often.
    pub(crate) fn count_left_out(&mut self) {
        if let Some(watcher) = &mut self.watcher {
            watcher.count(Checker::Convergence, Rule::LeftOut);
        }
    }

    /// How long a port may be locked that a flipped bit gave another M_Key than this.
    pub(crate) fn locked_for(&self, m_key: u64) -> Option<Duration> {
        self.watcher.as_ref()?.locked_for(self.emulator.chassis(), m_key)
    }

    /// Nodes at which a flipped bit has put an M_Key that nobody knows in place of this.
    pub(crate) fn keys_flipped(&self, m_key: u64) -> Vec<NodeIdx> {
        let chassis = self.emulator.chassis();
        let ports = self.watcher.as_ref().map(|w| w.keys_flipped(chassis, m_key));
        let ports = ports.into_iter().flatten();
        ports.map(|port| chassis.wire(port).node()).collect()
    }

    /// Such a port is why not all was well in time.
    pub(crate) fn count_locked(&mut self) {
        if let Some(watcher) = &mut self.watcher {
            watcher.count(Checker::Convergence, Rule::Locked);
        }
    }

    /// Sets that agents took, and looks after events, while somebody watched.
    #[must_use]
    pub fn watched(&self) -> (u64, u64) {
        self.watcher.as_ref().map_or((0, 0), |w| (w.sets, w.looks))
    }

    /// Puts somebody between a manager and the world.
    pub fn tamper(&mut self, id: ManagerId, tamper: Box<dyn Tamper>) {
        if let Some(manager) = self.managers.get_mut(id.0) {
            manager.tamper = Some(tamper);
        }
    }

    /// What must hold in a subnet whose master has nothing left to do.
    pub(crate) fn at_rest(&mut self) -> Result<(), Violation> {
        self.invariants.at_rest(&self.emulator, &self.managers)?;
        let Some(watcher) = &mut self.watcher else {
            return Ok(());
        };
        let (chassis, subnets) = (self.emulator.chassis(), self.invariants.subnets());
        for life in self.managers.iter().filter_map(|m| m.life.as_ref()) {
            let at = self.emulator.port_of(life.client);
            if let Some(at) = at.filter(|_| is_content(life)) {
                watcher.at_rest(self.now, chassis, subnets, at)?;
            }
        }
        Ok(())
    }

    /// All checkers look.
    pub(crate) fn check(&mut self) -> Result<(), RehearsalError> {
        if self.foreign_hands {
            self.invariants.excuse(&self.emulator);
            if let Some(watcher) = &mut self.watcher {
                watcher.excuse(&mut self.emulator);
            }
            return Ok(());
        }
        let mut seen = Ok(());
        if let Some(watcher) = &mut self.watcher {
            let subnets = self.invariants.subnets();
            seen = watcher.after_event(self.now, &mut self.emulator, &self.managers, subnets);
        }
        let mut result = self.invariants.after_event(self.now, &self.emulator, &self.managers);
        if let (Err(violation), Some(watcher)) = (&result, &mut self.watcher)
            && watcher.excuses(self.now, violation, self.emulator.chassis(), &self.managers)
        {
            result = Ok(());
        }
        seen.and(result).map_err(|violation| self.violated(violation))
    }
}
