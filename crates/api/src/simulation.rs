//! Answers of the packet simulator.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Body;

/// One simulation: its settings, results and cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// The fabric as named in the request.
    pub fabric: String,
    /// Number of parts that no link joins. Ports of different parts cannot talk.
    pub parts: u64,
    /// The engine that made the tables; for `auto`, the engine that it chose.
    pub engine: String,
    /// Name of the traffic pattern.
    pub traffic: String,
    /// How the times of messages are chosen.
    pub arrivals: String,
    /// Payload bytes of a message.
    pub message_bytes: u32,
    /// The requested load: a fraction of the links' payload rate at the MTU.
    pub load: f64,
    /// The seed.
    pub seed: u64,
    /// The results, with all settings, defaults included.
    #[serde(flatten)]
    pub results: Value,
    /// The jobs, if there were several workloads at once.
    pub jobs: Vec<SimulatedJob>,
    /// Processor time of an event; absent if not requested.
    pub ns_per_event: Option<f64>,
    /// Time per event of the bare event queue, with the same events.
    pub queue_ns_per_event: Option<f64>,
    /// Processor time of the whole process, in seconds; absent if the system does not report it.
    pub cpu_seconds: Option<f64>,
    /// Highest resident memory of the whole process; absent if the system does not report it.
    pub peak_rss_bytes: Option<u64>,
}

/// One of several workloads at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedJob {
    /// Name of the job, as in the request.
    pub job: String,
    /// The host of each rank.
    pub hosts: Vec<u32>,
    /// When the job was completed; absent if it has no end, or did not reach it.
    pub completed_ns: Option<u64>,
}

impl Body for Simulation {
    const SCHEMA: &'static str = "selvedge.simulation";
}
