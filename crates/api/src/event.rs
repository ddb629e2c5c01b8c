//! What happened.

use serde::{Deserialize, Serialize};

use crate::Body;

/// How much an event or finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Needs a look.
    Warning,
    /// Something does not work.
    Error,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts from 1 since the process started.
    pub number: u64,
    /// When, in milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// When, in nanoseconds since the process started.
    pub uptime_ns: u64,
    /// How much it matters.
    pub severity: Severity,
    /// Stable code.
    pub code: String,
    /// In words, without the code.
    pub text: String,
}

/// Events after a given number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// Ask with `since` = this for what comes next.
    pub last: u64,
    /// Events asked for that the ring no longer holds.
    pub dropped: u64,
    /// The events, oldest first.
    pub events: Vec<Event>,
}

impl Body for Events {
    const SCHEMA: &'static str = "selvedge.events";
}
