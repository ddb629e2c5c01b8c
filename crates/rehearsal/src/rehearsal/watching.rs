//! Calls the checkers of a rehearsal.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use selvedge_chassis::PortIdx;
use selvedge_fabric::NodeIdx;

use super::Rehearsal;
use crate::checkers::{Checker, Exemptions, Findings, Hosts, Rule, Seen, Stage};
use crate::clients::served::Served;
use crate::{ManagerId, RehearsalError, Tamper, Violation};

impl Rehearsal {
    /// Lets checkers follow every Set that an agent executes, every fault and every timer from now on. Call it before
    /// any manager is added, because changes that judges accept are recorded only from then on.
    pub fn watch(&mut self) {
        self.checkers.watch(&mut self.emulator);
    }

    /// Returns how often managers have asked a host to register again.
    #[must_use]
    pub const fn asks(&self) -> u64 {
        self.counts.asks
    }

    /// Returns the events as text, a line each.
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

    /// Returns the number of violations that rules excused, by checker and rule.
    #[must_use]
    pub fn exemptions(&self) -> Exemptions {
        self.checkers.exemptions().clone()
    }

    /// Shows checkers an observation.
    pub(crate) fn observe(&mut self, seen: &Seen<'_>) -> Result<(), RehearsalError> {
        self.show(seen).map_err(|violation| self.violated(violation))
    }

    fn show(&mut self, seen: &Seen<'_>) -> Result<(), Violation> {
        let stage = Stage::new(self.now, &self.emulator, &self.managers);
        self.checkers.see(&stage, seen)
    }

    /// Returns violations that checkers found during the run, and for how long packets looped; of programs only.
    #[must_use]
    pub fn findings(&self) -> (Findings, Duration) {
        self.checkers.findings()
    }

    /// True if a switch holds another block than it acknowledged last, and the manager that wrote the block can read
    /// it.
    pub(crate) fn is_any_block_astray(&self) -> bool {
        self.checkers
            .is_any_block_astray(&Stage::new(self.now, &self.emulator, &self.managers))
    }

    /// Returns the hosts and their administrators, as input for checks.
    pub(crate) fn hosts<'a>(&'a self, served: Served<'a>) -> Hosts<'a> {
        let stage = Stage::new(self.now, &self.emulator, &self.managers);
        self.checkers.hosts(&stage, served)
    }

    /// Checks the subnet of a port in which no work is left.
    pub(crate) fn rest_around(&mut self, at: PortIdx) -> Result<(), Violation> {
        self.show(&Seen::Rest(at))
    }

    /// Notes that a link is not ACTIVE because it went down too often.
    pub(crate) fn count_left_out(&mut self) {
        self.checkers.count(Checker::Convergence, Rule::LeftOut);
    }

    /// Returns how long a port may be locked after a flipped bit gave it an M_Key other than this one.
    pub(crate) fn locked_for(&self, m_key: u64) -> Option<Duration> {
        self.checkers
            .locked_for(self.emulator.chassis(), &self.known_keys(m_key))
    }

    /// Returns the nodes at which a flipped bit has replaced this M_Key by one that no manager knows.
    pub(crate) fn keys_flipped(&self, m_key: u64) -> Vec<NodeIdx> {
        let chassis = self.emulator.chassis();
        let ports = self.checkers.keys_flipped(chassis, &self.known_keys(m_key)).into_iter();
        ports.map(|port| chassis.wire(port).node()).collect()
    }

    /// Returns this M_Key, and those that managers have stored as present or former ones.
    fn known_keys(&self, m_key: u64) -> Vec<u64> {
        let stored = self.managers.iter().map(|manager| &manager.stored);
        let stored = stored.flat_map(|stored| stored.m_keys.iter().chain(&stored.m_keys_retired));
        let mut known = vec![m_key];
        known.extend(stored.map(|key| key.expose()));
        known
    }

    /// M_Keys of ports in reach of a manager that neither it was ever given, nor another manager in its reach that
    /// should have put another key in their place.
    pub(crate) fn keys_never_given(&self, id: ManagerId) -> BTreeSet<u64> {
        let stage = Stage::new(self.now, &self.emulator, &self.managers);
        self.checkers.keys_never_given(&stage, id)
    }

    /// Counts a manager that waited until the operator gave it a former M_Key.
    pub(crate) fn count_never_given(&mut self) {
        self.checkers.count(Checker::Convergence, Rule::KeyNeverGiven);
    }

    /// Counts a port that could not be set up in time because its M_Key locked it.
    pub(crate) fn count_locked(&mut self) {
        self.checkers.count(Checker::Convergence, Rule::Locked);
    }

    /// Returns the number of Sets that agents took, and of checks after events, while every Set was followed.
    #[must_use]
    pub fn watched(&self) -> (u64, u64) {
        self.checkers.counts()
    }

    /// Puts a [`Tamper`] between a manager and the world.
    pub fn tamper(&mut self, id: ManagerId, tamper: Box<dyn Tamper>) {
        if let Some(manager) = self.managers.get_mut(id.0) {
            manager.tamper = Some(tamper);
        }
    }

    /// Checks every subnet with an idle master.
    pub(crate) fn at_rest(&mut self) -> Result<(), Violation> {
        self.checkers
            .at_rest(&Stage::new(self.now, &self.emulator, &self.managers))
    }

    /// Runs all checkers.
    pub(crate) fn check(&mut self) -> Result<(), RehearsalError> {
        let (emulator, managers) = (&mut self.emulator, &self.managers);
        let checked = match self.tools.is_setting() {
            true => self.checkers.foreign_set(self.now, emulator, managers),
            false => self.checkers.after_event(self.now, emulator, managers),
        };
        checked.map_err(|violation| self.violated(violation))
    }
}
