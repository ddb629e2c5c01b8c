//! Faults in the built-in emulator.

use serde::{Deserialize, Serialize};

use crate::Body;

/// A fault to inject. A port is `"name"[N]`, `name[N]` or `0xGUID[N]`; a node is a name or a GUID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultRequest {
    /// Unplugs a cable.
    CutLink {
        /// One of its two ports.
        port: String,
    },
    /// Plugs a cable in again that was cut.
    RestoreLink {
        /// One of its two ports.
        port: String,
    },
    /// Cuts and restores a cable several times.
    FlapLink {
        /// One of its two ports.
        port: String,
        /// How often.
        times: u32,
        /// Time down, and time up, of each turn.
        period_ms: u64,
    },
    /// Takes a node's power: all its links go down.
    KillNode {
        /// The node.
        node: String,
    },
    /// Gives a node its power again; it comes up with empty tables.
    ReviveNode {
        /// The node.
        node: String,
    },
    /// Restarts a node: links go down and up again, tables are empty.
    RebootNode {
        /// The node.
        node: String,
    },
    /// An agent stops answering; its links stay up.
    HangAgent {
        /// The node.
        node: String,
    },
    /// A hung agent answers again.
    ReleaseAgent {
        /// The node.
        node: String,
    },
    /// Loses, repeats, damages and delays datagrams by chance on every link.
    Noise {
        /// Datagrams lost per million.
        loss_ppm: u32,
        /// Datagrams repeated per million.
        duplicate_ppm: u32,
        /// Datagrams of which one bit is turned per million.
        corrupt_ppm: u32,
        /// Extra delay of each datagram, at most.
        delay_us: u64,
    },
    /// Ends hung agents and noise, and restores every cut cable and dead node.
    Clear,
}

/// What a fault did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultReport {
    /// In words.
    pub done: String,
    /// Number of the last event before the fault: ask for events since this one to see what it caused.
    pub events_since: u64,
}

impl Body for FaultReport {
    const SCHEMA: &'static str = "selvedge.fault";
}
