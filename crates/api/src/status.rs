//! The state of the manager.

use selvedge_types::Guid;
use serde::{Deserialize, Serialize};

use crate::{Administration, Body, Fabric, Health, Intake, Plan, Port, ReasonCount, RebalanceStatus, WouldSet};

/// Role of a manager. Source: IBA vol 1 §14.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The manager searches for other managers.
    Discovering,
    /// Another manager is master; this one polls it.
    Standby,
    /// Master of the subnet.
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

/// The current work of a manager.
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
    /// Probing switches that reported a change.
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
            Self::Probing => "probing ports",
        })
    }
}

/// Progress of a stage: work done, and work in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Steps done.
    pub done: u64,
    /// Number of steps known so far; it grows during discovery.
    pub total: u64,
}

/// A change that is being applied: its steps, each of which begins when the previous one is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    /// Number of the current step, from 1.
    pub step: u64,
    /// All steps of the change.
    pub steps: Vec<ApplicationStep>,
    /// SMPs that are answered, of all steps together.
    pub sets_done: u64,
    /// SMPs of all steps.
    pub sets: u64,
    /// The wait before the current step, if it is in progress.
    pub wait: Option<ApplicationWait>,
}

/// A step of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationStep {
    /// The current step.
    pub what: String,
    /// SMPs.
    pub sets: u64,
    /// How long the manager waits before the step.
    pub wait_before_ns: u64,
}

/// A wait of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationWait {
    /// The reason of the wait.
    pub why: String,
    /// Total length of the wait.
    pub wait_ns: u64,
    /// The remaining time.
    pub left_ms: u64,
    /// When the wait ends, as time since the process started.
    pub until_ms: u64,
}

/// The port at which a manager runs.
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
    /// MADs that were not used: late answers, and those that are not decodable or not meant for a manager in this
    /// SMInfo state.
    pub dropped: u64,
    /// Late answers among the unused MADs: their requests had ended, or a sweep had cancelled them.
    #[serde(default)]
    pub late: u64,
}

/// The state of the manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub selvedge_version: String,
    /// Time since the process started.
    pub uptime_ms: u64,
    /// The port to the fabric, as given on the command line.
    pub port: String,
    /// The local port.
    pub local: LocalPort,
    /// SMInfo state of the manager.
    pub role: Role,
    /// Port GUID of the master, if it is another manager.
    pub master: Option<Guid>,
    /// Node and port of the master, as `"H-3"[1]`, if it is another manager and its port was found.
    #[serde(default)]
    pub master_name: Option<String>,
    /// The current stage.
    pub stage: Stage,
    /// Progress of the current stage.
    pub progress: Progress,
    /// The change that is being applied, if one is.
    pub application: Option<Application>,
    /// State of rebalancing.
    pub rebalance: Option<RebalanceStatus>,
    /// True if the judged plan is in every agent and every port that is not ACTIVE has a known reason.
    pub up: bool,
    /// Heavy sweeps that came to an end.
    pub sweeps: u64,
    /// Number of heavy sweeps that have begun; each is an event SLV-SM-0001. A sweep that did not end was repeated, was
    /// interrupted by another one, or found the local port down.
    #[serde(default)]
    pub sweeps_begun: u64,
    /// Time from the start of the process until the subnet was first up.
    pub first_up_ms: Option<u64>,
    /// The last complete snapshot.
    pub fabric: Option<Fabric>,
    /// Known nodes that `fabric` does not count, because an agent does not answer.
    #[serde(default)]
    pub silent: SilentNodes,
    /// The plan in force.
    pub plan: Option<Plan>,
    /// The judge's verdict on the plan in force: no error, and no host is isolated from others or out of reach.
    pub judged_ok: Option<bool>,
    /// True if a lost link is repaired in place from prepared data; if not, a sweep handles it.
    #[serde(default)]
    pub repairs_ready: bool,
    /// Ports that are not ACTIVE, by reason.
    pub ports_not_active: Vec<ReasonCount>,
    /// Multicast groups that have members, by LID.
    #[serde(default)]
    pub multicast: Vec<MulticastGroup>,
    /// MADs sent and received so far.
    pub mads: MadCounts,
    /// Requests of hosts to the subnet administrator; absent if there is none.
    #[serde(default)]
    pub administration: Option<Administration>,
    /// Traps and commands beyond the limits of their sources; the manager did not handle them.
    #[serde(default)]
    pub intake: Option<Intake>,
    /// Data that cannot be stored at present and is retried; empty in normal operation.
    #[serde(default)]
    pub not_stored: Vec<NotStored>,
    /// The verdict, and the conditions from which it follows.
    #[serde(default)]
    pub health: Health,
}

/// Nodes that an earlier sweep found and the last one did not, because an agent does not answer. Links still lead to
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentNodes {
    /// Switches with an agent that does not answer.
    pub switches: u64,
    /// Hosts and routers with an agent that does not answer.
    pub hosts: u64,
    /// Switches that are not found now, because every route to them leads through a silent switch.
    pub switches_behind: u64,
    /// Hosts and routers that are not found now, because every route to them leads through a silent switch.
    pub hosts_behind: u64,
}

/// Data that must survive a restart and cannot be stored at present.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotStored {
    /// Which data it is: `state` (LIDs and plan state), `known_fabric` (nodes and links that were found),
    /// `registrations` (of hosts) or `mark` (the file that shows that the stored registrations are complete).
    pub what: String,
    /// Time of the first failure, in ms since the process started.
    pub since_ms: u64,
    /// Number of failed attempts since that time.
    pub failures: u32,
    /// Time of the next attempt, in ms since the process started.
    pub next_try_ms: u64,
    /// The last error: code, file, reason, advice.
    pub error: String,
}

/// A multicast group that has members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MulticastGroup {
    /// LID of the group.
    pub mlid: u16,
    /// Largest payload.
    pub mtu_bytes: u32,
    /// Members.
    pub members: u64,
    /// Number of members that receive packets of other members.
    pub receivers: u64,
    /// Switches that copy the group's packets.
    pub switches: u64,
}

impl Body for Status {
    const SCHEMA: &'static str = "selvedge.status";
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Outcome of the run: `good`, `not_good`, `unmanaged`, `standby`, `refused`, `no_fabric` or `interrupted`.
    pub outcome: String,
    /// Exit code for this outcome.
    pub exit_code: u8,
    /// The manager's last state.
    pub status: Status,
    /// Every port that is not ACTIVE, with its reason.
    pub ports_not_active: Vec<Port>,
    /// Names of hosts of the emulated fabric that the manager did not find.
    #[serde(default)]
    pub hosts_not_found: Vec<String>,
    /// In a dry run: the Sets that the plan would send.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub would_send: Vec<WouldSet>,
    /// In a dry run: the tables that switches hold already; absent if they hold none.
    #[serde(default)]
    pub found_tables: Option<FoundTables>,
}

/// Tables that switches hold before a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundTables {
    /// Entries that switches hold for LIDs of the plan.
    pub entries: u64,
    /// Number of these entries that the plan keeps.
    pub kept: u64,
    /// Engines with tables that agree in at least 95 % of these entries, and in no fewer than those of any other
    /// engine. Empty: no known engine made the tables.
    pub engines: Vec<String>,
    /// Number of entries that equal those of the engine with the most similar tables.
    pub equal: u64,
    /// Host pairs on the busiest link of the plan.
    pub load_max: u64,
    /// The engine that would plan if there were no tables; absent if it refuses the fabric.
    pub own: Option<OwnTables>,
}

/// Tables that an engine would make if switches held none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTables {
    /// Name of the engine.
    pub engine: String,
    /// Host pairs on the busiest link of these tables.
    pub load_max: u64,
}

impl Body for Run {
    const SCHEMA: &'static str = "selvedge.run";
}
