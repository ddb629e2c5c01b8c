//! How the administrator behaves; values only.

use std::time::Duration;

use selvedge_types::debug_without_keys;

/// Limits and keys of the administrator.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// SM_Key that requests must show to be trusted. Default 1, OpenSM's `sa_key`: as long as it is 1, "trusted" keeps
    /// mistakes out, not enemies.
    pub sa_key: u64,
    /// Tells this life of the administrator from others, so that a standby does not take the numbers of one for those
    /// of another. Default 0.
    pub life: u64,
    /// Requests that one LID may send at once. More are answered with BUSY. Default 20,000: the start of a large job.
    pub burst: u32,
    /// Requests that one LID may send a second in the long run. Default 20,000: at 2 µs each it takes 4 % of a core.
    pub rate_per_s: u32,
    /// Answers of several datagrams that may be under way to one LID. Default 8: a host has few who ask for tables.
    pub transfers_per_client: usize,
    /// The same to all. Default 1,024: each holds at most a window, 13 KB.
    pub transfers: usize,
    /// Records that one answer may have. Default 4,000,000: every pair of 2,000 ports; more would occupy both sides for
    /// minutes.
    pub records_max: u64,
    /// Time after which what is not acknowledged is sent again. Default 500 ms.
    pub timeout: Duration,
    /// Repeats before a client is taken for gone. Default 3.
    pub retries: u8,
    /// Segments in flight to one client. Default 64, as Linux allows.
    pub window: u32,
    /// Services in all. Default 16,384. More are answered with NO_RESOURCES.
    pub services: usize,
    /// Services of one port. Default 256.
    pub services_per_client: usize,
    /// Subscriptions in all. Default 65,536.
    pub subscriptions: usize,
    /// Subscriptions of one port. Default 64.
    pub subscriptions_per_client: usize,
    /// Multicast groups in all. Default 1,024; switches may hold fewer.
    pub groups: usize,
    /// Multicast groups that one port may have created or joined. Default 512.
    pub groups_per_client: usize,
    /// Alias GUIDs in all, and as many that were given out. Default 262,144: sixteen functions of 16,384 ports. Beyond,
    /// those of ports that are not there are forgotten; more are answered with NO_RESOURCES.
    pub aliases: usize,
    /// Reports that wait for their answers. Default 65,536: each subscriber there may be is told of one event; one
    /// needs 400 bytes. More are dropped and counted.
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
