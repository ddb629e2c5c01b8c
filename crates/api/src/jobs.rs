//! Jobs: what they ask of the QoS classes, and what they got.

use serde::{Deserialize, Serialize};

use crate::Body;

/// A job that starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobRequest {
    /// Name of the job, unique among running and waiting jobs.
    pub id: String,
    /// Hosts, by name, by the first word of their adapters' descriptions, or by node GUID.
    pub hosts: Vec<String>,
    /// The class of its traffic; absent: the default class.
    pub class: Option<String>,
    /// The class of its small messages; `small_bytes` belongs to it.
    pub small_class: Option<String>,
    /// Size in bytes up to which a message is small.
    pub small_bytes: Option<u32>,
    /// Part of a link that it wants of its class, in percent; absent: what other jobs leave.
    pub share: Option<u8>,
    /// True if it wants a partition of its own.
    pub isolated: bool,
    /// True if it wants alternate paths.
    pub alternates: bool,
    /// True if it waits until there is room; else it is refused.
    pub waits: bool,
}

/// A job that ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobEndRequest {
    /// Name of the job.
    pub id: String,
}

/// A variable that the processes of a job export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobVariable {
    /// Name of the variable, as `UCX_IB_SL`.
    pub name: String,
    /// Value of the variable.
    pub value: String,
}

/// A running or waiting job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The job as it was asked for.
    #[serde(flatten)]
    pub request: JobRequest,
    /// `running` or `waiting`.
    pub state: String,
    /// Service levels of its class, by routing layer; empty while it waits.
    pub sls: Vec<u8>,
    /// Service levels of its small messages, by routing layer; empty: as its other messages.
    pub small_sls: Vec<u8>,
    /// P_Key of its own partition, as `0xc000`.
    pub pkey: Option<String>,
    /// What its processes export.
    pub environment: Vec<JobVariable>,
}

/// The answer to a job that starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStarted {
    /// The job.
    pub job: Job,
    /// Why it waits; absent if it runs.
    pub wait: Option<JobWait>,
}

impl Body for JobStarted {
    const SCHEMA: &'static str = "selvedge.job-started";
}

/// Why a job waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobWait {
    /// Parts of the running jobs of its class and of this one, in percent of a link.
    pub sum_percent: u32,
    /// Share of the class, in percent of a link.
    pub share_percent: u8,
    /// Jobs of its class that wait before it.
    pub before: u64,
}

/// The answer to a job that ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnded {
    /// Name of the job.
    pub id: String,
    /// Jobs that waited, and run now.
    pub started: Vec<Job>,
}

impl Body for JobEnded {
    const SCHEMA: &'static str = "selvedge.job-ended";
}

/// A class, and what jobs have of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobClass {
    /// Name of the class.
    pub name: String,
    /// Share that jobs may have, in percent of a link.
    pub share_percent: u8,
    /// Parts of the running jobs, in percent of a link.
    pub sum_percent: u32,
    /// True for the class of jobs that name none.
    pub is_default: bool,
    /// Running jobs.
    pub running: u64,
    /// Waiting jobs.
    pub waiting: u64,
}

/// All jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobs {
    /// Number of running and waiting jobs.
    pub count: u64,
    /// Running jobs by name, then waiting ones in order of arrival.
    pub jobs: Vec<Job>,
    /// The classes of the plan in force.
    pub classes: Vec<JobClass>,
}

impl Body for Jobs {
    const SCHEMA: &'static str = "selvedge.jobs";
}

/// A job with its class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobExplained {
    /// The job.
    pub job: Job,
    /// Its class; absent if the plan in force has no such class.
    pub class: Option<JobClass>,
    /// Jobs of its class that wait before it.
    pub before: u64,
}

impl Body for JobExplained {
    const SCHEMA: &'static str = "selvedge.job";
}
