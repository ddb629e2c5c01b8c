//! Everything a configuration file can say, as values.

use std::path::PathBuf;
use std::time::Duration;

use selvedge_plan::Policy;
use selvedge_types::SecretKey;

/// What a configuration file says; each field has a default, so an empty file is a complete one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What the fabric shall become.
    pub policy: Policy,
    /// How the manager talks to the fabric and to other managers.
    pub manager: ManagerOptions,
    /// What hosts may ask of the subnet administrator.
    pub administrator: AdministratorOptions,
    /// How the process runs.
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

/// How the manager talks to the fabric and to other managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagerOptions {
    /// SM priority, 0–15.
    pub priority: u8,
    /// SM_Key.
    pub sm_key: SecretKey,
    /// SMPs outstanding in all.
    pub window: usize,
    /// SMPs outstanding at one agent.
    pub agent_window: usize,
    /// Time after which a request is repeated.
    pub timeout: Duration,
    /// Repeats before a request has failed.
    pub retries: u8,
    /// Time between light sweeps; none: no sweeps by time.
    pub sweep_interval: Option<Duration>,
    /// Light sweeps in which every table block is read back once; 0: only what was just written.
    pub read_back_sweeps: u32,
    /// So long nothing must have happened before the repair of each link is worked out; none: never.
    pub backups_after: Option<Duration>,
    /// Time between a standby's polls of the master.
    pub poll_interval: Duration,
    /// Polls without an answer after which the master is gone.
    pub poll_misses: u32,
    /// Whether the port of a babbling host is disabled.
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

/// What hosts may ask of the subnet administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdministratorOptions {
    /// SM_Key that trusted requests show.
    pub sa_key: SecretKey,
    /// Requests that one LID may send at once.
    pub burst: u32,
    /// Requests that one LID may send a second in the long run.
    pub rate_per_s: u32,
    /// Answers of several datagrams under way to one LID.
    pub transfers_per_client: usize,
    /// Services of one port.
    pub services_per_client: usize,
    /// Subscriptions of one port.
    pub subscriptions_per_client: usize,
    /// Multicast groups in all.
    pub groups: usize,
    /// Multicast groups that one port may have joined.
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

/// How the process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonOptions {
    /// Unix socket of the HTTP API; `None`: the program chooses it.
    pub socket: Option<PathBuf>,
    /// Folder for state between runs; none: nothing is kept.
    pub state_dir: Option<PathBuf>,
    /// Log file; none: standard error.
    pub log_file: Option<PathBuf>,
    /// File of names by GUID; none: NodeDescriptions.
    pub node_name_map: Option<PathBuf>,
    /// Folder for OpenSM's dump files; none: they are not written.
    pub dump_dir: Option<PathBuf>,
    /// All of OpenSM's dump files are written there, not only the list of links.
    pub dump_routes: bool,
    /// Events kept for the API.
    pub event_ring: usize,
}

impl Default for DaemonOptions {
    fn default() -> Self {
        Self {
            socket: None,
            state_dir: None,
            log_file: None,
            node_name_map: None,
            dump_dir: None,
            dump_routes: false,
            event_ring: 10_000,
        }
    }
}
