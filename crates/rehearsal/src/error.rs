//! Errors of a rehearsal.

use std::time::Duration;

use selvedge_emulator::EmulatorError;
use selvedge_sim::Time;

use crate::Violation;

/// The reasons for which a rehearsal ends early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RehearsalError {
    /// SLV-REHEARSAL-0001: the emulator cannot do what it was asked for.
    #[error("SLV-REHEARSAL-0001: {0}")]
    Emulator(#[from] EmulatorError),
    /// SLV-REHEARSAL-0002: the condition that a run waits for did not come true within the time limit.
    #[error("SLV-REHEARSAL-0002: at {now}, after {bound:?}, still waiting until {what}")]
    Bound {
        /// When the run was given up.
        now: Time,
        /// How long the run had waited for the condition.
        bound: Duration,
        /// What the run had waited for.
        what: String,
    },
    /// SLV-REHEARSAL-0003: virtual time does not advance: managers or the emulator do work without end at one instant.
    #[error("SLV-REHEARSAL-0003: {steps} steps at {now} and time does not advance: a wake-up is never served")]
    Stuck {
        /// The instant.
        now: Time,
        /// Steps made.
        steps: u32,
    },
    /// SLV-REHEARSAL-0004: no manager with this name or number, or it is not running.
    #[error("SLV-REHEARSAL-0004: manager {name} {problem}")]
    Manager {
        /// Name or number of the manager.
        name: String,
        /// The problem of the manager.
        problem: &'static str,
    },
    /// SLV-REHEARSAL-0005: a violation: a condition occurred that must never occur.
    #[error("SLV-REHEARSAL-0005: at {now}: {violation}")]
    Violated {
        /// The time.
        now: Time,
        /// The violation.
        violation: Violation,
    },
    /// SLV-REHEARSAL-0006: a manager that is a program of its own cannot be started, configured or reached.
    #[error("SLV-REHEARSAL-0006: {what}")]
    Outside {
        /// Description of what happened.
        what: String,
    },
    /// SLV-REHEARSAL-0007: a manager cannot read its stored state, and ends.
    #[error("SLV-REHEARSAL-0007: manager {name} cannot start: {why}")]
    Disk {
        /// Name of the manager.
        name: String,
        /// The error of the manager's store.
        why: String,
    },
}
