//! Faults in the built-in emulator.

use serde::{Deserialize, Serialize};

use crate::Body;

/// A fault to inject, in the one grammar that command line, scenarios and API share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRequest {
    /// The fault, as `cut "S-L1-0"[20]` or `kill 0x0002c90300001234`.
    pub fault: String,
}

/// The effect of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultReport {
    /// The fault, as it was understood.
    pub done: String,
    /// Number of the last event before the fault: later events show its effects.
    pub events_since: u64,
}

impl Body for FaultReport {
    const SCHEMA: &'static str = "selvedge.fault";
}
