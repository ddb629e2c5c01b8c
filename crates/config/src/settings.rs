//! All settings of a configuration file, as values.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use selvedge_plan::Policy;
use selvedge_types::SecretKey;

use crate::{AlarmOptions, HttpUrl, TelemetryChoices};

/// The settings of a configuration file. Each has a default, so an empty file is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Policy for the fabric.
    pub policy: Policy,
    /// Communication of the manager with the fabric and with other managers.
    pub manager: ManagerOptions,
    /// Limits of the subnet administrator.
    pub administrator: AdministratorOptions,
    /// Sampling of counters.
    pub telemetry: TelemetryOptions,
    /// Thresholds of alarms.
    pub alarms: AlarmOptions,
    /// Choices about telemetry.
    pub telemetry_choices: TelemetryChoices,
    /// Storing of sampled counters.
    pub history: HistoryOptions,
    /// Settings of the process.
    pub daemon: DaemonOptions,
}

impl Settings {
    /// True if one of the keys (M_Key, SM_Key, SA key) differs from its public default.
    #[must_use]
    pub fn holds_keys(&self) -> bool {
        let defaults = Self::default();
        let key = |settings: &Self| {
            (
                settings.policy.m_key,
                settings.manager.sm_key,
                settings.administrator.sa_key,
            )
        };
        key(self) != key(&defaults)
    }
}

/// Communication of the manager with the fabric and with other managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagerOptions {
    /// SM priority, 0–15.
    pub priority: u8,
    /// SM_Key.
    pub sm_key: SecretKey,
    /// Most outstanding SMPs.
    pub window: usize,
    /// Largest number of outstanding SMPs to one agent.
    pub agent_window: usize,
    /// Time after which a request is repeated.
    pub timeout: Duration,
    /// Repeats before a request has failed.
    pub retries: u8,
    /// Time between light sweeps; `None`: no periodic sweeps.
    pub sweep_interval: Option<Duration>,
    /// Number of light sweeps in which every table block is read back once; 0: only recently written blocks are read
    /// back.
    pub read_back_sweeps: u32,
    /// Time without events before the repair of each link is computed; `None`: never.
    pub backups_after: Option<Duration>,
    /// Time between a standby's polls of the master.
    pub poll_interval: Duration,
    /// Polls without an answer after which the master is gone.
    pub poll_misses: u32,
    /// True if the port of a babbling host is disabled.
    pub disable_babbling_ports: bool,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            priority: 0,
            sm_key: SecretKey::new(1),
            window: 32,
            agent_window: 2,
            timeout: Duration::from_millis(200),
            retries: 3,
            sweep_interval: Some(Duration::from_secs(10)),
            read_back_sweeps: 360,
            backups_after: Some(Duration::from_secs(2)),
            poll_interval: Duration::from_secs(1),
            poll_misses: 2,
            disable_babbling_ports: false,
        }
    }
}

/// Limits of the subnet administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdministratorOptions {
    /// SM_Key of trusted requests.
    pub sa_key: SecretKey,
    /// Requests that one LID may send at once.
    pub burst: u32,
    /// Requests per second that one LID may send on average.
    pub rate_per_s: u32,
    /// Largest number of long answers in progress to one LID.
    pub transfers_per_client: usize,
    /// Largest number of services of one port.
    pub services_per_client: usize,
    /// Largest number of subscriptions of one port.
    pub subscriptions_per_client: usize,
    /// Most multicast groups.
    pub groups: usize,
    /// Largest number of multicast groups that one port may have joined.
    pub groups_per_client: usize,
}

impl Default for AdministratorOptions {
    fn default() -> Self {
        Self {
            sa_key: SecretKey::new(1),
            burst: 20_000,
            rate_per_s: 20_000,
            transfers_per_client: 8,
            services_per_client: 256,
            subscriptions_per_client: 64,
            groups: 1_024,
            groups_per_client: 512,
        }
    }
}

/// Sampling of the counters of all ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetryOptions {
    /// True if the master samples.
    pub enabled: bool,
    /// Interval of data, packets and PortXmitWait.
    pub interval: Duration,
    /// Interval of error counters.
    pub errors_interval: Duration,
    /// Interval of detailed counters; `None`: never.
    pub detail_interval: Option<Duration>,
    /// Interval of cable information; `None`: never.
    pub cable_interval: Option<Duration>,
    /// True if one end of each healthy link is read, and not both.
    pub is_one_end: bool,
    /// Most requests in flight.
    pub window: usize,
    /// Most requests in flight to one node.
    pub node_window: usize,
    /// Time after which a request is repeated.
    pub timeout: Duration,
    /// Repeats before a request has failed.
    pub retries: u8,
    /// TCP address at which `/metrics` is served; `None`: only on the Unix socket.
    pub metrics_listen: Option<SocketAddr>,
    /// True if `/metrics` has the names of guilbaults' exporter too.
    pub guilbaults: bool,
    /// A Prometheus to which the metrics are written after each slot; `None`: none.
    pub remote_write: Option<HttpUrl>,
}

impl Default for TelemetryOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Duration::from_secs(30),
            errors_interval: Duration::from_secs(30),
            detail_interval: Some(Duration::from_secs(300)),
            cable_interval: Some(Duration::from_secs(3_600)),
            is_one_end: false,
            window: 64,
            node_window: 3,
            timeout: Duration::from_millis(200),
            retries: 1,
            metrics_listen: None,
            guilbaults: false,
            remote_write: None,
        }
    }
}

/// Storing of sampled counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryOptions {
    /// True if counters are stored, given a folder.
    pub enabled: bool,
    /// The folder; `None`: `history` in the state folder.
    pub folder: Option<PathBuf>,
    /// The first sample of each interval of this length is stored.
    pub interval: Duration,
    /// How long samples are kept.
    pub keep: Duration,
    /// Room for files of counters.
    pub bytes_max: u64,
    /// Memory for every sample of the last hour.
    pub window_bytes_max: u64,
    /// Name of the fabric; `None`: the port GUID of the manager.
    pub fabric: Option<String>,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            folder: None,
            interval: Duration::from_secs(30),
            keep: Duration::from_secs(14 * 86_400),
            bytes_max: 64 << 30,
            window_bytes_max: 512 << 20,
            fabric: None,
        }
    }
}

/// Settings of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonOptions {
    /// Unix socket of the HTTP API; `None`: the program chooses it.
    pub socket: Option<PathBuf>,
    /// Folder for state between runs; `None`: nothing is stored.
    pub state_dir: Option<PathBuf>,
    /// Log file; `None`: standard error.
    pub log_file: Option<PathBuf>,
    /// File of names by GUID; `None`: node descriptions are shown.
    pub node_name_map: Option<PathBuf>,
    /// File of the topology with which the fabric is compared; `None`: the configuration names none.
    pub expected: Option<PathBuf>,
    /// Folder for OpenSM's dump files; `None`: they are not written.
    pub dump_dir: Option<PathBuf>,
    /// True to write all of OpenSM's dump files in `dump_dir`, not only the list of links.
    pub dump_routes: bool,
    /// Number of events kept for the API.
    pub event_ring: usize,
}

impl Default for DaemonOptions {
    fn default() -> Self {
        Self {
            socket: None,
            state_dir: None,
            log_file: None,
            node_name_map: None,
            expected: None,
            dump_dir: None,
            dump_routes: false,
            event_ring: 10_000,
        }
    }
}
