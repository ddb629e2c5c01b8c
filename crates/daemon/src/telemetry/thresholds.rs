//! Thresholds of alarms, from the operator's settings into the book of alarms.

use selvedge_config::{AlarmOptions, CounterThresholds};
use selvedge_telemetry::Metric;
use selvedge_telemetry::alarm::{AlarmIn, AlarmRules, CounterRule};

use super::alarms::publish;
use crate::shared::Shared;

/// Takes the thresholds at the start, and with each reload.
pub(crate) fn take(shared: &Shared, options: &AlarmOptions) {
    let inventory = shared.telemetry.snapshot().inventory;
    let rules = rules(options);
    let mut state = shared.telemetry.meaning.lock();
    if state.rules == rules {
        return;
    }
    state.rules = rules.clone();
    let mut news = Vec::new();
    let input = AlarmIn::Rules(Box::new(rules));
    state.alarms.handle(shared.clock.now(), input, &mut news);
    publish(shared, &state, &inventory, &news);
}

fn rules(options: &AlarmOptions) -> AlarmRules {
    let counters = Metric::ALL.into_iter().filter_map(|metric| {
        let CounterThresholds {
            levels: [info, warning, critical],
            clear,
            ttl,
        } = *options.counters.get(metric.iba_name())?;
        let rule = CounterRule {
            info,
            warning,
            critical,
            clears_below: clear,
            ttl,
        };
        Some((metric, rule))
    });
    AlarmRules {
        window: options.window,
        ttl: options.ttl,
        counters: counters.collect(),
        flaps: options.flaps,
        flap_window: options.flap_window,
        ber_max: options.bit_errors.get(),
        ber_critical: options.bit_errors_critical.get(),
        congested_for: options.congested_for,
        ..AlarmRules::default()
    }
}

#[cfg(test)]
mod tests {
    use selvedge_config::Key;

    use super::*;

    #[test]
    fn default_settings_are_the_default_rules() {
        assert_eq!(rules(&AlarmOptions::default()), AlarmRules::default());
    }

    #[test]
    fn every_error_counter_has_a_key() {
        let keys = Key::ALL.iter().filter(|key| key.section == "telemetry.alarms");
        let keys: Vec<&str> = keys.map(|key| key.name).collect();
        for metric in Metric::ALL.into_iter().filter(|metric| metric.is_error()) {
            assert!(keys.contains(&metric.iba_name()), "{}", metric.iba_name());
        }
    }
}
