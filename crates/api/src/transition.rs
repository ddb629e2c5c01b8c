//! The transition from one set of tables to another under traffic.

use serde::{Deserialize, Serialize};

use crate::Body;

/// The change from tables in force to others, in steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The fabric as named in the request.
    pub fabric: String,
    /// Number of parts that no link joins. Ports of different parts cannot talk.
    pub parts: u64,
    /// The tables in force: the engine that makes them, or the file.
    pub from: String,
    /// The engine of the new tables; for `auto`, the engine that it chooses.
    pub to: String,
    /// Data lanes of the tables in force.
    pub lanes_from: u8,
    /// Data lanes of the new tables.
    pub lanes_to: u8,
    /// True if the judge proves the change.
    pub ok: bool,
    /// The judge's verdict: `still`, `proved`, `inherited` (the tables in force are not safe themselves) or `refused`.
    pub passage: String,
    /// The reasons for which the transition is not proved, if it is not.
    pub why: Vec<String>,
    /// All waits together, in nanoseconds.
    pub wait_ns: u64,
    /// The steps, first to last.
    pub steps: Vec<TransitionStep>,
}

impl Body for Transition {
    const SCHEMA: &'static str = "selvedge.transition";
}

/// Sets that go out in any order; the next step begins when all are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransitionStep {
    /// Number of the step, from 1.
    pub step: u64,
    /// The action of the step.
    pub what: String,
    /// How long the manager waits before the step, in nanoseconds: until packets that old entries have forwarded are
    /// gone.
    pub wait_before_ns: u64,
    /// Sets.
    pub sets: u64,
    /// Forwarding entries that change.
    pub entries: u64,
    /// Number of these entries that become 255: packets are dropped until a later step.
    pub dropped: u64,
    /// Switches with entries that change.
    pub switches: u64,
}
