//! The crate that owns the clock: one emulator and any number of managers, stepped to the earliest wake-up.
//!
//! - [`Rehearsal`]: virtual time. Managers' jobs run in the same thread, and their results arrive after a time by a
//!   documented formula (`Job::virtual_cost`). A manager that was killed and is started again finds only its stored
//!   state. Every run is bounded: it fails instead of hanging.
//! - Checkers outside the managers check the hardware after every event; a [`Violation`] ends the run.
//! - [`Script`]: scenarios as text, with their transcript. `tests/scenarios/*.txt` are some.
//!
//! The same fabric, seed and commands give the same bytes in [`Rehearsal::log_text`], and the same
//! [`Rehearsal::digest`] over all datagrams that a manager sent.

mod checkers;
pub mod clients;
mod digest;
mod error;
mod lanes;
mod manager;
mod observed;
mod outside;
mod passed;
mod rehearsal;
mod script;
mod simulated;
pub mod soak;
mod subnet;
mod violation;
mod wire_log;

pub use checkers::{Checker, Exemptions, Findings, Found, Rule};
pub use digest::Digests;
pub use error::RehearsalError;
pub use manager::{ManagerId, RefuseAll, Tamper};
pub use observed::Observed;
pub use outside::{Mail, Outside};
pub use rehearsal::{LogEntry, Options, Rehearsal};
pub use script::{FabricLoader, GRAMMAR, Script, ScriptError, Transcript};
pub use simulated::count_simulated;
pub use violation::Violation;
