//! Answers of the packet simulator about reliable connections and faults.

use serde::{Deserialize, Serialize};

use crate::Body;

/// Reliable connections between hosts while cables are cut, with and without path migration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Migration {
    /// The fabric as named in the request.
    pub fabric: String,
    /// The engine that made the tables; for `auto`, the engine that it chose.
    pub engine: String,
    /// Name of the traffic pattern.
    pub traffic: String,
    /// When connections migrate: `off`, `error`, `request` or `policy`.
    pub apm: String,
    /// Software that recovers instead: `failover` or `striping`; absent without one.
    pub rival: Option<String>,
    /// From a fault until programs are told of it.
    pub told_ns: u64,
    /// True if programs load another alternate path where a fault has broken the one that is loaded.
    pub respecify: bool,
    /// How the alternate path is chosen; absent without one.
    pub alternate: Option<String>,
    /// Local ACK time-out: 4.096 µs × 2^value; 0: never.
    pub ack_timeout: u8,
    /// Repeats after time-outs.
    pub retries: u8,
    /// Payload bytes of a message.
    pub message_bytes: u32,
    /// From a cut to the manager's new entries in all switches; absent: nothing is repaired.
    pub repair_ns: Option<u64>,
    /// Time that was simulated, from the moment when all connections stand.
    pub duration_ns: u64,
    /// The seed.
    pub seed: u64,
    /// Hosts.
    pub hosts: u32,
    /// Queue pairs of all hosts: two for each connection.
    pub queue_pairs: u64,
    /// Faults, in order of time.
    pub faults: Vec<MigrationFault>,
    /// Width of a step of the time lines.
    pub step_ns: u64,
    /// The run with the faults.
    pub run: MigrationRun,
    /// The same run without faults; absent if there are none.
    pub whole: Option<MigrationRun>,
    /// Time in which the run without faults carries the bytes that are missing.
    pub lost_ns: u64,
    /// Processor time of the whole process, in seconds; absent if the system does not report it.
    pub cpu_seconds: Option<f64>,
    /// Highest resident memory of the whole process; absent if the system does not report it.
    pub peak_rss_bytes: Option<u64>,
}

/// A fault, and what the manager does about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationFault {
    /// The time.
    pub at_ns: u64,
    /// The change, as in the request; of a drawn cut, with the cable.
    pub what: String,
    /// Forwarding entries that the repair changes.
    pub entries: u64,
    /// Why there is no repair; absent if there is one, or none is due.
    pub refused: Option<String>,
}

/// What connections did in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationRun {
    /// Messages that were sent and acknowledged.
    pub messages: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Messages that ended with an error.
    pub messages_failed: u64,
    /// Queue pairs that went to ERR.
    pub qp_errors: u64,
    /// The first of these.
    pub errors: Vec<MigrationError>,
    /// Migrations of queue pairs: a connection that migrates counts at both ends.
    pub migrations: u64,
    /// Of these, to a path that the faults had broken.
    pub dead_alternates: u64,
    /// Queue pairs that could not migrate (PATH_MIG_ERR).
    pub migrations_failed: u64,
    /// Queue pairs that were armed again after a migration.
    pub rearmed: u64,
    /// Queue pairs that were asked to migrate.
    pub requested: u64,
    /// Of these, not ARMED, so that they did not.
    pub not_armed: u64,
    /// Of those asked, the ones for which congestion was the reason.
    pub congested: u64,
    /// Queue pairs that loaded another alternate path because a fault had broken theirs.
    pub respecified: u64,
    /// Queue pairs of which the alternate path was broken, and that had no other one.
    pub without_other: u64,
    /// Loading requests that were refused: of queue pairs in ERR.
    pub loads_refused: u64,
    /// Messages, or parts of them, that software sent again.
    pub repeated: u64,
    /// Packets that were lost.
    pub packets_lost: u64,
    /// By step: payload bytes of messages that were acknowledged.
    pub goodput: Vec<u64>,
    /// By step: migrations.
    pub migrated: Vec<u64>,
    /// By step: queue pairs that went to ERR.
    pub failed: Vec<u64>,
    /// By step: queue pairs of which programs learned that the loaded alternate path is broken; needs `respecify`.
    pub deaths: Vec<u64>,
}

/// A queue pair that went to ERR.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationError {
    /// The time.
    pub at_ns: u64,
    /// The host with the queue pair.
    pub host: String,
    /// The host at the other end.
    pub peer: String,
    /// Status of the first completion with an error.
    pub status: String,
}

impl Body for Migration {
    const SCHEMA: &'static str = "selvedge.migration";
}
