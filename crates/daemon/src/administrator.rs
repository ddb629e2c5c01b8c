//! The administrator beside the manager: its settings, and its state for display.

use std::time::{SystemTime, UNIX_EPOCH};

use selvedge_api as api;
use selvedge_config::AdministratorOptions;
use selvedge_sa::{Config, Sa};

/// Returns the configuration of an administrator that starts now.
pub(crate) fn config(options: &AdministratorOptions) -> Config {
    Config {
        life: life(),
        sa_key: options.sa_key.expose(),
        burst: options.burst,
        rate_per_s: options.rate_per_s,
        transfers_per_client: options.transfers_per_client,
        services_per_client: options.services_per_client,
        subscriptions_per_client: options.subscriptions_per_client,
        groups: options.groups,
        groups_per_client: options.groups_per_client,
        ..Config::default()
    }
}

/// Returns a number that no other process of an administrator has: its start time, in nanoseconds.
fn life() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the counts of an administrator so far, for display.
pub(crate) fn counts(of: &Sa) -> api::Administration {
    let counters = of.counters();
    let [services, subscriptions, groups, members, aliases] = of.registered().map(|count| count as u64);
    api::Administration {
        received: counters.received,
        answered: counters.answered,
        refused: counters.refused,
        bad_key: counters.bad_key,
        busy: counters.busy,
        limited: counters.limited,
        most_limited: counters.most_limited.map(|(lid, _)| lid),
        dropped: counters.dropped,
        failed: counters.failed,
        reports: counters.reports,
        reports_lost: counters.reports_lost,
        services,
        subscriptions,
        groups,
        members,
        aliases,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_settings_are_the_administrators_defaults() {
        let ours = Config {
            life: 0,
            ..config(&AdministratorOptions::default())
        };
        assert_eq!(ours, Config::default());
    }
}
