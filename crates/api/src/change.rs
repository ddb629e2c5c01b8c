//! Changes of the operator's policy, and the Sets that a change would send.

use serde::{Deserialize, Serialize};

use crate::{Body, Finding, OpenSmLine};

/// A change of the policy: the proposal and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// Number of the change, from 1 in each process.
    pub serial: u64,
    /// The keys with other values than in the policy in force when it was proposed, as `routing.lmc`.
    pub changed: Vec<String>,
    /// State of the change: `proposed` (a sweep comes first), `planned`, `judged` (the plan is accepted and Sets are
    /// sent) or `applied` (some Sets failed and are sent again). At the end it is `kept`, `kept_for_later`,
    /// `rolled_back` or `superseded`.
    pub state: String,
    /// When the change was proposed, in milliseconds since 1970 UTC.
    pub proposed_ms: u64,
    /// When the change got this state, in milliseconds since 1970 UTC.
    pub since_ms: u64,
    /// Why the change was rolled back, is kept for later or was superseded, or how many Sets failed; empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub why: String,
    /// The judge's findings on the plan that was refused.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub findings: Vec<Finding>,
    /// Keys of the files that take effect at the next start only.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub needs_restart: Vec<String>,
    /// Lines, flags and keys with a verdict worth reporting, if files were read for the change.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub lines: Vec<OpenSmLine>,
}

impl PolicyChange {
    /// True if the manager does nothing more for the change, or only repeats Sets.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !matches!(&*self.state, "proposed" | "planned" | "judged")
    }

    /// True if the policy of the change is not in force, and will not be.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(&*self.state, "rolled_back" | "superseded")
    }
}

impl Body for PolicyChange {
    const SCHEMA: &'static str = "selvedge.change";
}

/// The last changes of the policy since the process started, the newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChanges {
    /// The changes.
    pub changes: Vec<PolicyChange>,
}

impl Body for PolicyChanges {
    const SCHEMA: &'static str = "selvedge.changes";
}

/// The Sets that a plan would send. Nothing is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WouldSend {
    /// The keys that differ from the policy in force, as `routing.lmc`.
    pub changed: Vec<String>,
    /// The engine of the plan; empty if none was accepted.
    pub engine: String,
    /// True if the judge accepts the plan.
    pub accepted: bool,
    /// The reason for which no plan is accepted; empty if one is.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub why: String,
    /// The judge's findings on a plan that it refuses.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub findings: Vec<Finding>,
    /// The Sets, in the order in which they may be sent.
    pub sets: Vec<WouldSet>,
    /// Keys of the files that take effect at the next start only.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub needs_restart: Vec<String>,
    /// Lines, flags and keys with a verdict worth reporting.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub lines: Vec<OpenSmLine>,
}

impl Body for WouldSend {
    const SCHEMA: &'static str = "selvedge.would_send";
}

/// One Set that would be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WouldSet {
    /// The step, from 1: the next one begins when all Sets of this one are acknowledged.
    pub step: u64,
    /// The node with the agent that gets the Set.
    pub node: String,
    /// The attribute, as `LinearForwardingTable`.
    pub attribute: String,
    /// The port that the Set concerns, if it concerns one.
    pub port: Option<u8>,
    /// The block, if the attribute has blocks.
    pub block: Option<u16>,
    /// Number of table entries that change; `None` if the attribute has no entries, or the former ones are not known.
    pub entries: Option<u64>,
    /// The new contents, in words.
    pub what: String,
}
