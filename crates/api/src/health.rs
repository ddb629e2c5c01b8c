//! The health of a subnet and its manager: conditions, and a verdict.

use selvedge_types::{Guid, NodeKind};
use serde::{Deserialize, Serialize};

use crate::{Body, End, Severity};

/// A node by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeName {
    /// GUID of the node.
    pub guid: Guid,
    /// Kind of the node.
    pub kind: NodeKind,
    /// Name of the node; empty if none is known.
    pub name: String,
}

/// The place of a condition. If the place is the manager itself, all fields are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node: Option<NodeName>,
    /// The port, or one end of the link.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub a: Option<End>,
    /// The other end of the link.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub b: Option<End>,
}

/// A fault of the subnet or its manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Stable code, as `SLV-HEALTH-0001`.
    pub code: String,
    /// Kind of the condition: `node_missing`, `link_missing`, `agent_silent`, …
    pub kind: String,
    /// `warning` or `error`.
    pub severity: Severity,
    /// The condition and its place, in words.
    pub text: String,
    /// Place of the condition.
    #[serde(rename = "where")]
    pub place: Place,
    /// The time when it began, in milliseconds since 1970-01-01 UTC; it may be of an earlier run.
    pub since_ms: u64,
    /// The evidence, in words.
    pub evidence: String,
    /// The event that clears the condition, in words.
    pub clears: String,
}

/// The verdict, and the conditions from which it follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// `starting`, `healthy`, `degraded`, `failed`, `standby_ready`, `watching` or `unmanaged`.
    pub verdict: String,
    /// The verdict in one sentence, with numbers of conditions.
    pub summary: String,
    /// True if nothing needs an operator.
    pub good: bool,
    /// Exit code of `selvedge health`: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    pub nagios_code: u8,
    /// Number of conditions.
    pub count: u64,
    /// The conditions, the gravest first.
    pub conditions: Vec<Condition>,
}

impl Body for Health {
    const SCHEMA: &'static str = "selvedge.health";
}

/// The answer of `selvedge topology approve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The file with the expected topology.
    pub file: String,
    /// True if the file was written; false in a dry run.
    pub written: bool,
    /// True if the file did not exist before.
    pub is_new: bool,
    /// Switches of the fabric.
    pub switches: u64,
    /// Hosts.
    pub hosts: u64,
    /// Links that are up.
    pub links: u64,
    /// Differences from the former file, as `topology diff` prints them.
    pub changes: Vec<String>,
}

impl Body for Approval {
    const SCHEMA: &'static str = "selvedge.approval";
}

/// A request to remove a node or link from the list of missing ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetRequest {
    /// A node as `"name"`, `name` or `0xGUID`, or a link by one of its ends, as `"name"[port]`.
    pub name: String,
}

/// The nodes and links that are no longer listed as missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// The nodes and links that were forgotten, as texts.
    pub forgotten: Vec<String>,
}

impl Body for Forgotten {
    const SCHEMA: &'static str = "selvedge.forgotten";
}
