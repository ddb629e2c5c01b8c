//! Switches, links and ports that the operator has taken out of service.

use serde::{Deserialize, Serialize};

use crate::{Body, WouldSet};

/// A request to take a place out of service, or to put it back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutOfServiceRequest {
    /// A switch or host as `name`, `"name"` or `0xGUID`; a port or link by one of its ends, as `name[port]`.
    pub place: String,
    /// `drain`, `isolate` or `enable`.
    pub service: String,
    /// True: only report what would change.
    pub dry_run: bool,
    /// True: proceed even if hosts lose their last connection.
    pub force: bool,
    /// The reason, for the list; may be empty.
    pub reason: String,
}

/// What a change of the list does, or would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutOfServiceChange {
    /// `drain`, `isolate` or `enable`.
    pub service: String,
    /// The places, in words.
    pub places: Vec<String>,
    /// True if the change begins now; false for a dry run.
    pub started: bool,
    /// Ports of hosts that lose their connection.
    pub hosts_cut: Vec<String>,
    /// Those of these hosts that have no other connection.
    pub hosts_alone: Vec<String>,
    /// Ports that are disabled, once no entry leads over them, or enabled.
    pub ports: Vec<String>,
    /// Figures of the plan; absent on a manager that is not master, because it makes no plan.
    pub figures: Option<OutOfServiceFigures>,
    /// For a dry run, the Sets of the change, in the order in which they may be sent. What is behind a port that is
    /// enabled is not seen, and its Sets are not in it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub sets: Vec<WouldSet>,
}

impl Body for OutOfServiceChange {
    const SCHEMA: &'static str = "selvedge.out-of-service-change";
}

/// Figures of the plan with a changed list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfServiceFigures {
    /// The engine that makes the tables.
    pub engine: String,
    /// Ordered pairs of hosts with packets that take another route.
    pub pairs_moved: u64,
    /// Forwarding entries that change.
    pub entries: u64,
    /// Sets of the first plan. Later Sets change multicast tables, and disable ports.
    pub sets: u64,
    /// Host pairs on the busiest link now.
    pub load_max_before: u64,
    /// Host pairs on the busiest link afterwards.
    pub load_max_after: u64,
}

/// The list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfService {
    /// Number of places.
    pub count: u64,
    /// The places.
    pub places: Vec<OutOfServicePlace>,
}

impl Body for OutOfService {
    const SCHEMA: &'static str = "selvedge.out-of-service";
}

/// A place that is out of service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfServicePlace {
    /// `switch`, `link` or `port`.
    pub kind: String,
    /// Name of the place: a node, or one or both ends of a link.
    pub name: String,
    /// The place by GUID, as stored.
    pub id: String,
    /// `drain`, `isolate`, or `enable` while ports are enabled again.
    pub service: String,
    /// State of the place: `moving` (routes still lead over it), `out`, `needed` (it carries packets, because some
    /// switch can be reached only over it) or `absent` (the fabric has no such place now).
    pub state: String,
    /// When the order for the place was given, in milliseconds since 1970-01-01 UTC.
    pub since_ms: u64,
    /// The operator's reason; may be empty.
    pub reason: String,
}
