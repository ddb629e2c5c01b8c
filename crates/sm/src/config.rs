//! The settings of a manager; plain values only.

use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::Policy;
use selvedge_types::debug_without_keys;
use selvedge_wire::LocalPort;

/// The shortest time in which a cable can be unplugged and plugged in elsewhere.
pub const CABLE_MOVE_MIN: Duration = Duration::from_millis(100);

/// The mode of a manager: what it may do to the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Manage: takes part in elections and, as master, brings the subnet to the plan.
    Manage,
    /// Discover, plan and judge, but send no Set and take no part in elections.
    DryRun,
    /// Sweep again and again; sends only Gets, plans nothing.
    Watch,
}

/// Configuration of a manager.
#[derive(Clone)]
pub struct Config {
    /// The mode: what the manager is allowed to do.
    pub mode: Mode,
    /// The port that the manager runs at.
    pub local: LocalPort,
    /// The operator's policy.
    pub policy: Arc<Policy>,
    /// SM priority, 0–15; the higher one becomes master, then the lower port GUID. Default 0.
    pub priority: u8,
    /// SM_Key. Default 1, OpenSM's.
    pub sm_key: u64,
    /// SMPs outstanding in all. Default 32: VL15 has no flow control, more overruns agents and sockets.
    pub window: usize,
    /// SMPs outstanding at one agent. Default 2: an agent is one processor. Twice as many while a lost link is mended.
    pub agent_window: usize,
    /// Time after which a request is repeated. Default 200 ms, OpenSM's.
    pub timeout: Duration,
    /// Repeats before a request has failed. Default 3, OpenSM's.
    pub retries: u8,
    /// Time between light sweeps; `None`: no sweeps by time. Default 10 s, OpenSM's.
    pub sweep_interval: Option<Duration>,
    /// Number of light sweeps in which every table block is read back once; each light sweep reads an equal share. In
    /// addition each light sweep reads the blocks that were written since the last light sweep. 0: only the written
    /// blocks are read. Default 360: an hour.
    pub read_back_sweeps: u32,
    /// Time between a standby's polls of the master. Default 1 s.
    pub poll_interval: Duration,
    /// How long the fabric must be unchanged before the repair of each link is computed in advance. Default `None`:
    /// never. Each change of the fabric costs processor time: one repair is planned and judged for each link.
    pub backups_after: Option<Duration>,
    /// Polls without an answer after which the master is gone. Default 2: each is repeated like any request.
    pub poll_misses: u32,
    /// True if the port of a host that babbles is disabled. Default false: the port is only reported.
    pub disable_babbling_ports: bool,
}

debug_without_keys!(
    Config {
        mode, local, policy, priority, window, agent_window, timeout, retries, sweep_interval,
        read_back_sweeps, poll_interval, backups_after, poll_misses, disable_babbling_ports
    } keys { sm_key }
);

impl Config {
    /// Returns the defaults for a manager at `local`.
    #[must_use]
    pub fn new(mode: Mode, local: LocalPort, policy: Arc<Policy>) -> Self {
        Self {
            mode,
            local,
            policy,
            priority: 0,
            sm_key: 1,
            window: 32,
            agent_window: 2,
            timeout: Duration::from_millis(200),
            retries: 3,
            sweep_interval: Some(Duration::from_secs(10)),
            read_back_sweeps: 360,
            poll_interval: Duration::from_secs(1),
            backups_after: None,
            poll_misses: 2,
            disable_babbling_ports: false,
        }
    }

    /// Returns the largest number of prepared requests: the window, and some more. So if the window of one agent is
    /// full, requests to other agents are still ready to be sent.
    #[must_use]
    pub(crate) const fn ready(&self) -> usize {
        4 * self.window
    }
}
