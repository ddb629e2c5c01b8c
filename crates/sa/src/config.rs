//! Configuration of the administrator; values only.

use std::time::Duration;

use selvedge_types::debug_without_keys;

/// Limits and keys of the administrator.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// SM_Key of trusted requests. Default 1, OpenSM's `sa_key`. As long as it is 1, the key protects only against
    /// mistakes, not against attackers.
    pub sa_key: u64,
    /// Random identity of this run of the administrator, so that a standby can distinguish revision numbers of
    /// different runs. Default 0.
    pub life: u64,
    /// Requests that one LID may send at once. Further requests are answered with BUSY. Default 20,000: the start of a
    /// large job.
    pub burst: u32,
    /// Requests per second that one LID may send on average. Default 20,000: at 2 µs each they take 4 % of a core.
    pub rate_per_s: u32,
    /// Answers of several segments in progress to one LID. Default 8: few programs of a host query tables.
    pub transfers_per_client: usize,
    /// Answers of several segments in progress to all clients. Default 1,024: each needs at most a window, 13 KB.
    pub transfers: usize,
    /// Largest number of records in one answer. Default 4,000,000: every pair of 2,000 ports; a larger answer would
    /// occupy both sides for minutes.
    pub records_max: u64,
    /// Time after which unacknowledged segments are sent again. Default 500 ms.
    pub timeout: Duration,
    /// Repeats before a client counts as gone. Default 3.
    pub retries: u8,
    /// Segments in flight to one client. Default 64, as Linux allows.
    pub window: u32,
    /// Largest number of services. Default 16,384. Further requests are answered with NO_RESOURCES.
    pub services: usize,
    /// Largest number of services of one port. Default 256.
    pub services_per_client: usize,
    /// Largest number of subscriptions. Default 65,536.
    pub subscriptions: usize,
    /// Largest number of subscriptions of one port. Default 64.
    pub subscriptions_per_client: usize,
    /// Most multicast groups. Default 1,024; switches may support fewer.
    pub groups: usize,
    /// Largest number of multicast groups that one port may have created or joined. Default 512.
    pub groups_per_client: usize,
    /// Largest number of alias GUIDs, and largest number of assigned GUIDs. Default 262,144: sixteen virtual functions
    /// on 16,384 ports. At the limit, aliases of absent ports are removed; further requests are answered with
    /// NO_RESOURCES.
    pub aliases: usize,
    /// Largest number of reports that wait for their responses. Default 65,536: one event to the largest number of
    /// subscribers; each report needs 400 bytes. Further reports are dropped and counted.
    pub reports: usize,
}

debug_without_keys!(
    Config {
        life, burst, rate_per_s, transfers_per_client, transfers, records_max, timeout, retries, window,
        services, services_per_client, subscriptions, subscriptions_per_client, groups, groups_per_client,
        aliases, reports
    } keys { sa_key }
);

impl Default for Config {
    fn default() -> Self {
        Self {
            sa_key: 1,
            life: 0,
            burst: 20_000,
            rate_per_s: 20_000,
            transfers_per_client: 8,
            transfers: 1_024,
            records_max: 4_000_000,
            timeout: Duration::from_millis(500),
            retries: 3,
            window: 64,
            services: 16_384,
            services_per_client: 256,
            subscriptions: 65_536,
            subscriptions_per_client: 64,
            groups: 1_024,
            groups_per_client: 512,
            aliases: 262_144,
            reports: 65_536,
        }
    }
}
