//! How the manager is doing.

use selvedge_types::Guid;
use serde::{Deserialize, Serialize};

use crate::{Body, Fabric, Plan, Port, ReasonCount};

/// Role of a manager. Source: IBA vol 1 §14.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Finding out who else is there.
    Discovering,
    /// Another manager is master; this one watches it.
    Standby,
    /// In charge.
    Master,
    /// Takes no part (dry run, watch, stopped).
    NotActive,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Discovering => "discovering",
            Self::Standby => "standby",
            Self::Master => "master",
            Self::NotActive => "not active",
        })
    }
}

/// What a manager is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Nothing, until something happens.
    Idle,
    /// Walking the fabric.
    Discovering,
    /// Reading forwarding tables back.
    ReadingTables,
    /// A plan is being computed and judged.
    Planning,
    /// Waiting until state is stored.
    Persisting,
    /// Sending Sets.
    Applying,
    /// Asking switches whether anything changed.
    LightSweep,
    /// Looking for what changed at some switches.
    Probing,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Idle => "idle",
            Self::Discovering => "discovering",
            Self::ReadingTables => "reading tables",
            Self::Planning => "planning",
            Self::Persisting => "storing",
            Self::Applying => "applying",
            Self::LightSweep => "light sweep",
            Self::Probing => "looking at ports",
        })
    }
}

/// How far a stage is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Steps done.
    pub done: u64,
    /// Steps known so far; grows while discovering.
    pub total: u64,
}

/// The port a manager sits at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalPort {
    /// GUID of the node.
    pub node_guid: Guid,
    /// GUID of the port.
    pub port_guid: Guid,
    /// Number of the port.
    pub port: u8,
}

/// MADs since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadCounts {
    /// Gets sent, repeats included.
    pub gets: u64,
    /// Sets sent, repeats included.
    pub sets: u64,
    /// Other MADs sent (answers, TrapRepress).
    pub others: u64,
    /// Repeats among the Gets and Sets.
    pub repeats: u64,
    /// Requests that failed for good.
    pub failures: u64,
    /// MADs received.
    pub received: u64,
    /// MADs dropped: late, duplicate or not decodable.
    pub dropped: u64,
}

/// How the manager is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub selvedge_version: String,
    /// Time since the process started.
    pub uptime_ms: u64,
    /// The door to the fabric, as given on the command line.
    pub port: String,
    /// Where that is.
    pub local: LocalPort,
    /// Its role.
    pub role: Role,
    /// Port GUID of the master, if it is another manager.
    pub master: Option<Guid>,
    /// What it is doing.
    pub stage: Stage,
    /// How far that is.
    pub progress: Progress,
    /// True if the judged plan is in every agent and every port that is not ACTIVE has a known reason.
    pub up: bool,
    /// Finished sweeps.
    pub sweeps: u64,
    /// Time from the start to the first time that the subnet was up.
    pub first_up_ms: Option<u64>,
    /// The last complete snapshot.
    pub fabric: Option<Fabric>,
    /// The plan in force.
    pub plan: Option<Plan>,
    /// What the judge says of it: none is an error.
    pub judged_ok: Option<bool>,
    /// Ports that are not ACTIVE, by reason.
    pub ports_not_active: Vec<ReasonCount>,
    /// MADs so far.
    pub mads: MadCounts,
}

impl Body for Status {
    const SCHEMA: &'static str = "selvedge.status";
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// How it ended: `good`, `not_good`, `standby`, `refused`, `no_fabric` or `interrupted`.
    pub outcome: String,
    /// The exit code that goes with it.
    pub exit_code: u8,
    /// The manager's last state.
    pub status: Status,
    /// Every port that is not ACTIVE, with its reason.
    pub ports_not_active: Vec<Port>,
}

impl Body for Run {
    const SCHEMA: &'static str = "selvedge.run";
}
