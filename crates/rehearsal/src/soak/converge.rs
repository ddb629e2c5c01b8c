//! The required end of a schedule: the faults are mended, and all is well within a bounded time.
//!
//! This is not a checker, because it drives the world: what is wrong at one instant may be well before the bound, and
//! until then the operator may request a sweep or reset a port. The checkers ([`crate::Rehearsal::at_rest`]) and
//! [`Observed::trouble`] judge single instants.

use std::time::Duration;

use selvedge_sm::{ChangeState, Role};

use super::action::Action;
use super::wishes::KEPT_FOR_OTHERS;
use super::world::{CONVERGE_REST, SWEEPS_TO_CONVERGE, World};
use crate::observed::{Observed, Trouble};
use crate::{RehearsalError, Violation};

impl World<'_> {
    /// Restores agents and the medium, makes GUIDs unique, and starts managers. Cables stay unplugged and nodes off.
    pub(super) fn calm(&mut self) -> Result<(), RehearsalError> {
        for (_, action) in std::mem::take(&mut self.undo) {
            self.act(action)?;
        }
        self.cure_disks()?;
        for which in 0..self.managers.ids().len() {
            if !self.managers.is_running(which) {
                self.act(Action::Start(which))?;
            }
        }
        Ok(())
    }

    /// Gives all nodes power, and plugs in all cables.
    pub(super) fn heal(&mut self) -> Result<(), RehearsalError> {
        let nodes = self.ground.fabric.nodes().iter();
        let mut faults: Vec<String> = nodes.map(|node| format!("revive \"{}\"", node.description)).collect();
        // Swapped cables have other ends: both are plugged in.
        let ends = self.ground.links.iter().flat_map(|link| [link.a, link.b]);
        faults.extend(ends.map(|end| format!("restore {}", self.ground.fabric.port_name(end))));
        faults
            .iter()
            .try_for_each(|fault| self.rehearsal.fault(&fault.parse()?))
    }

    /// Waits until everything is well, within a bounded time, and hosts are served.
    pub(super) fn all_well(&mut self, when: &'static str) -> Result<(), RehearsalError> {
        self.converge(when)?;
        self.serve(when)?;
        self.well()
    }

    /// Records the digest of the end state. If the schedule is recorded for a later replay, this waits for one more
    /// light sweep: a slower manager in the replay must have reached the same state by this time.
    pub(super) fn well(&mut self) -> Result<(), RehearsalError> {
        if self.keeps_actions() {
            self.run_for(self.schedule.setup.sweep())?;
        }
        self.act(Action::Well)
    }

    /// Waits until everything is well, within a bounded time.
    fn converge(&mut self, when: &'static str) -> Result<(), RehearsalError> {
        let sweep = self.schedule.setup.sweep();
        let bound = SWEEPS_TO_CONVERGE * sweep + CONVERGE_REST;
        if self.rehearsal.is_open() {
            return self.converge_outside(when, bound);
        }
        let began = self.rehearsal.now();
        let mut bound = bound;
        let (mut was_locked, mut were_kept) = (false, false);
        // A manager must first see what has just happened.
        self.run_for(Duration::from_millis(100))?;
        loop {
            let left = (began + bound).since(self.rehearsal.now());
            // While a port is locked, traps about it may keep managers busy until its lease ends: after that it is no
            // longer visible.
            let locked = self.rehearsal.locked_for(self.operator.policy.m_key);
            let quiet = self.run_until(left, |world| world.rehearsal.is_quiet())?;
            let trouble = match quiet {
                true => self.trouble()?,
                false => Some("it does not become idle".to_owned()),
            };
            let whole = || SWEEPS_TO_CONVERGE * sweep + CONVERGE_REST;
            let Some(what) = trouble else {
                if !self.load_wanted_key()? {
                    return Ok(());
                }
                bound = self.rehearsal.now().since(began) + whole();
                self.run_for(Duration::from_millis(100))?;
                continue;
            };
            // The lease may end just before the bound, and cannot be seen then.
            let locked = locked.or_else(|| self.rehearsal.locked_for(self.operator.policy.m_key));
            if !was_locked && let Some(lease) = locked {
                self.rehearsal.count_locked();
                // The lease began when a manager first tried to set the port, at the latest a moment ago.
                was_locked = true;
                bound += lease + SWEEPS_TO_CONVERGE * sweep;
            }
            // A manager keeps former keys until no other one has asked with them for a minute.
            if !were_kept && self.are_former_keys_kept() {
                were_kept = true;
                bound += KEPT_FOR_OTHERS + sweep;
            }
            if self.reset_keys()? || self.give_former_key()? {
                bound = self.rehearsal.now().since(began) + whole();
            }
            if self.rehearsal.now() >= began + bound {
                let (now, seconds) = (self.rehearsal.now(), bound.as_secs());
                let violation = Violation::NotConverged { what, when, seconds };
                return Err(RehearsalError::Violated { now, violation });
            }
            self.run_for((sweep / 4).max(Duration::from_millis(500)))?;
        }
    }

    /// Returns the first fault while all managers are idle, if there is one.
    fn trouble(&mut self) -> Result<Option<String>, RehearsalError> {
        let mut masters = Vec::new();
        for &id in self.managers.ids() {
            let (Some(view), Some(client)) = (self.rehearsal.view(id), self.rehearsal.client(id)) else {
                return Ok(Some(format!("manager {} does not run", id.0)));
            };
            let Some(at) = self.rehearsal.emulator().port_of(client) else {
                continue;
            };
            let observed = Observed::around(self.rehearsal.emulator(), at);
            if observed.fabric.nodes().is_empty() {
                continue; // Its host is off or cut off.
            }
            match view.role {
                Role::Master => masters.push(at),
                Role::Standby => continue,
                other => return Ok(Some(format!("manager {} is {other}", id.0))),
            }
            // A fault at that time was to blame: the operator loads the policy again.
            if let Some(ChangeState::RolledBack { why, .. }) = view.policy_changes.last().map(|change| &change.state) {
                self.propose_again()?;
                return Ok(Some(format!("manager {} rolled a policy back: {why}", id.0)));
            }
            if !view.is_up() {
                return Ok(Some(format!("manager {} is not up: {} Sets failed", id.0, view.failed)));
            }
            let kept_off = self.kept_off(&view, &observed.fabric);
            if let Some(trouble) = observed.trouble(Some(self.operator.policy.lmc), &kept_off) {
                if let Trouble::NotActive(port) = &trouble {
                    self.let_in(id, port)?;
                }
                return Ok(Some(trouble.to_string()));
            }
            if let Some(what) = self.unlike_wishes(id, &view, &observed) {
                return Ok(Some(what));
            }
        }
        for (which, &id) in self.managers.ids().iter().enumerate() {
            let at = self
                .rehearsal
                .client(id)
                .and_then(|client| self.rehearsal.emulator().port_of(client));
            let Some(at) = at else { continue };
            let here = masters
                .iter()
                .filter(|&&master| self.rehearsal.connected(master, at))
                .count();
            if here > 1 {
                return Ok(Some(format!("{here} masters around manager {which}")));
            }
        }
        Ok(self.rehearsal.at_rest().err().map(|violation| violation.to_string()))
    }
}
