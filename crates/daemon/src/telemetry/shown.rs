//! The state of sampling as the API shows it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use selvedge_api as api;
use selvedge_telemetry::{Ends, SamplingClass, SlotReport, Why};

use super::state::{ClassState, Snapshot, Telemetry};

/// Largest number of silent nodes that one answer lists.
const SILENT_MAX: usize = 1_000;

impl Telemetry {
    /// Returns how sampling goes.
    pub(crate) fn shown(&self) -> api::Telemetry {
        let (config, snapshot) = (self.config(), self.snapshot());
        let state = match self.has_sampler() {
            false => api::TelemetryState::Off,
            true if snapshot.inventory.nodes.is_empty() => api::TelemetryState::Waiting,
            true => api::TelemetryState::Sampling,
        };
        let ports = snapshot.inventory.nodes.values().flat_map(|node| &node.ports);
        let (mut up, mut down) = (0, 0);
        for port in ports {
            *(if port.is_up() { &mut up } else { &mut down }) += 1;
        }
        let requests = snapshot.requests;
        let classes = config.classes.iter().zip(snapshot.classes.iter());
        api::Telemetry {
            state,
            agent: config.agent,
            nodes: snapshot.inventory.nodes.len() as u64,
            ports_up: up,
            ports_down: down,
            requests: api::TelemetryRequests {
                sent: requests.sent,
                repeats: requests.repeats,
                answered: requests.answered,
                timeouts: requests.failed,
                stray: requests.stray,
            },
            clock_sets: snapshot.clock_sets,
            slots_lost: self.lost.load(Ordering::Relaxed),
            classes: classes.map(|(class, state)| shown_class(class, state)).collect(),
            silent: silent(&snapshot),
            unexpected: self.hardware.differences(),
        }
    }
}

fn silent(snapshot: &Snapshot) -> Vec<api::SilentNode> {
    let silent = snapshot.silent().into_iter().take(SILENT_MAX);
    let shown = silent.map(|(node_guid, ports)| api::SilentNode {
        node_guid,
        node_name: snapshot
            .inventory
            .nodes
            .get(&node_guid)
            .map_or_else(String::new, |node| node.description.clone()),
        ports,
    });
    shown.collect()
}

fn shown_class(class: &SamplingClass, state: &ClassState) -> api::TelemetryClass {
    let interval = class.interval;
    let last_sample = std::time::Duration::from_micros(state.last_sample_us);
    let is_late = |report: &SlotReport| report.skipped > 0 || last_sample >= interval;
    api::TelemetryClass {
        name: class.name.clone(),
        interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
        groups: class.groups.iter().map(|group| group.name().to_owned()).collect(),
        ends: match class.ends {
            Ends::Both => "both",
            Ends::One { .. } => "one",
        }
        .to_owned(),
        slots: state.slots,
        overruns: state.overruns,
        skipped: state.skipped,
        in_step: !state.has_overrun && !state.last.as_ref().is_some_and(is_late),
        last: state.last.as_ref().map(|report| shown_slot(class, report, state)),
    }
}

fn shown_slot(class: &SamplingClass, report: &SlotReport, state: &ClassState) -> api::TelemetrySlot {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for missing in &report.missing {
        *reasons.entry(why(missing.why)).or_default() += 1;
    }
    api::TelemetrySlot {
        number: report.slot.number,
        epoch: report.slot.epoch,
        begin_ms: report.slot.begin(class.interval).0 / 1_000_000,
        took_us: u64::try_from(report.took.as_micros()).unwrap_or(u64::MAX),
        last_sample_us: state.last_sample_us,
        read: report.read.into(),
        unchanged: report.unchanged.into(),
        derived: report.derived.into(),
        down: report.down.into(),
        requests: report.requests.into(),
        missing: report.missing.len() as u64,
        missing_by: reasons
            .into_iter()
            .map(|(why, samples)| api::MissingReason {
                why: why.to_owned(),
                samples,
            })
            .collect(),
    }
}

const fn why(why: Why) -> &'static str {
    match why {
        Why::Silent => "silent",
        Why::BackOff => "back_off",
        Why::Refused => "refused",
        Why::Status(_) => "status",
        Why::Late => "late",
        Why::Moved => "moved",
    }
}
