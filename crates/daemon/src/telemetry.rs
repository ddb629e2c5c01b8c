//! Telemetry beside the manager: what the sampler found goes from the desk to a thread of its own, which keeps the last
//! totals for readers and hands every slot to the consumers.
//!
//! ```text
//!   desk: Coordinator ── Sampled ──► Gatherer ── slots ──► thread "telemetry" ──► Telemetry (readers)
//!                                                                     ├─────────► Interpreter ──► Meaning (readers),
//!                                                                     │                           events, health
//!                                                                     └─────────► Consumer, Consumer, …
//! ```
//! Neither the manager nor the sampler waits for that thread. If it falls behind by [`BACKLOG_MAX`] slots, slots are
//! dropped and counted.

mod alarms;
mod baseline;
mod cables;
mod choices;
mod congestion;
mod counters;
mod gather;
mod hardware;
pub(crate) mod history;
mod host_counters;
mod isolation;
mod meaning;
mod metrics;
mod nodes;
mod place;
mod remote_write;
mod reports;
mod service;
mod sets;
mod shown;
mod state;
mod survey;
pub(crate) mod thresholds;

use std::time::Duration;

use selvedge_config::TelemetryOptions;
use selvedge_telemetry::{Config, Ends, Group, SamplingClass, Triage};

pub(crate) use self::choices::Chosen;
pub use self::choices::check_telemetry_files;
pub(crate) use self::gather::Gatherer;
pub use self::metrics::Metrics;
pub(crate) use self::remote_write::RemoteWriter;
pub use self::service::TelemetryService;
pub use self::state::{Snapshot, Telemetry};
pub(crate) use self::survey::{Surveyor, surveyor};

/// Slots that may wait for the thread. One of 5,832 hosts takes 20 MB.
const BACKLOG_MAX: usize = 8;
/// How long both ends of a link are read after an error, if else one end is.
const BOTH_AFTER_ERROR: Duration = Duration::from_secs(600);
/// Slots of error counters from one in which every port is read to the next.
const FULL_READ_EVERY: u32 = 20;

/// Returns the text of the event that stands for those after the first `named` of `count` similar ones; `None` if there
/// are no more. `command` says what an operator finds where.
fn others(count: usize, named: usize, command: &str) -> Option<String> {
    let more = count.checked_sub(named).filter(|more| *more > 0)?;
    Some(format!("and {more} more like these; 'selvedge telemetry {command}"))
}

/// Returns the parameters of the sampler that these options and attributes stand for. Only agents of the built-in
/// emulator have our own vendor class, and others would be silent about it: only of an emulated fabric it is read, in a
/// class of its own.
pub(crate) fn config(options: &TelemetryOptions, detail: &[String], is_emulated: bool) -> Config {
    let ends = match options.is_one_end {
        true => Ends::One {
            both_after_error: BOTH_AFTER_ERROR,
        },
        false => Ends::Both,
    };
    let data = SamplingClass {
        ends,
        ..SamplingClass::new("data", options.interval, &[Group::Extended])
    };
    // Errors are counted by the receiver, so both ends are read.
    let errors = SamplingClass {
        triage: Triage::BySum {
            full_read_every: FULL_READ_EVERY,
        },
        ..SamplingClass::new("errors", options.errors_interval, &[Group::Base])
    };
    let details = choices::groups(detail);
    let detail = options
        .detail_interval
        .map(|interval| SamplingClass::new("detail", interval, &details));
    let cable = options.detail_interval.filter(|_| is_emulated);
    let cable = cable.map(|interval| SamplingClass::new("cable", interval, &[Group::BitErrors]));
    Config {
        cable_info: options.cable_interval.filter(|_| is_emulated),
        window: options.window,
        node_window: u8::try_from(options.node_window).unwrap_or(u8::MAX),
        timeout: options.timeout,
        retries: options.retries,
        ..Config::new([data, errors].into_iter().chain(detail).chain(cable).collect())
    }
}

#[cfg(test)]
mod tests {
    use selvedge_config::TelemetryChoices;

    use super::*;

    #[test]
    fn default_settings_are_the_samplers_defaults() {
        let ours = config(&TelemetryOptions::default(), &TelemetryChoices::default().detail, false);
        let defaults = Config::new(ours.classes.clone());
        assert_eq!(ours, defaults);
        let names: Vec<&str> = ours.classes.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["data", "errors", "detail"]);
        let emulated = config(&TelemetryOptions::default(), &[], true);
        assert_eq!(emulated.classes[3].name, "cable");
        assert_eq!(
            (ours.cable_info, emulated.cable_info),
            (None, Some(Duration::from_secs(3_600)))
        );
        assert_eq!(emulated.classes[..2], ours.classes[..2]);
    }

    #[test]
    fn one_end_is_of_data_only() {
        let options = TelemetryOptions {
            is_one_end: true,
            detail_interval: None,
            ..TelemetryOptions::default()
        };
        let config = config(&options, &[], true);
        let both: Vec<bool> = config.classes.iter().map(|class| class.ends == Ends::Both).collect();
        assert_eq!(both, [false, true]);
    }
}
