//! What sources send to the manager beyond their limits.

use selvedge_types::Lid;
use serde::{Deserialize, Serialize};

/// What sources sent to the manager beyond their limits since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intake {
    /// Datagrams that were held, or dropped.
    pub held: u64,
    /// Sources that babble now.
    pub babbling: Vec<Babbler>,
}

/// A source that sends one kind of datagram again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Babbler {
    /// Its LID; 0xFFFF if it sends by directed route, 0 for several sources together.
    pub lid: Lid,
    /// The port that has this LID, if one of the plan has it.
    pub port: Option<String>,
    /// What it sends.
    pub what: String,
    /// Since when, as time since the process started.
    pub since_ms: u64,
    /// Datagrams since then.
    pub came: u64,
}
