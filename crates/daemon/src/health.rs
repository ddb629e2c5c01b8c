//! The health of the manager and its subnet. It follows from facts of the manager and of this process, and is assessed
//! when they change.

use std::sync::{Arc, Mutex, PoisonError};

use selvedge_api as api;
use selvedge_health::{
    Alarm, Condition, Deviation, End, Facts, Health, News, NodeName, NotStored, Place, Severity, Since, Watch,
};
use selvedge_sim::Time;

use crate::clock::Clock;
use crate::names::Names;

/// Largest number of conditions that one answer lists. Its counts are those of all conditions.
const LISTED_MAX: usize = 10_000;

/// The last facts, with the health that follows from them.
#[derive(Debug, Default)]
pub(crate) struct HealthDesk(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    manager: Facts,
    not_stored: Vec<NotStored>,
    deviations: Arc<Vec<Deviation>>,
    alarms: Arc<Vec<Alarm>>,
    /// Why counters or events are not stored.
    history_stopped: Option<Arc<str>>,
    /// The reason why the manager's own port is not open.
    port_gone: Option<Arc<str>>,
    watch: Watch,
}

impl HealthDesk {
    /// Handles the manager's facts. Returns the conditions that began or cleared.
    pub(crate) fn take_manager(&self, now: Time, facts: Facts) -> Vec<News> {
        self.change(now, |state| state.manager = facts)
    }

    /// Handles the data that cannot be stored at present.
    pub(crate) fn take_not_stored(&self, now: Time, not_stored: Vec<NotStored>) -> Vec<News> {
        self.change(now, |state| state.not_stored = not_stored)
    }

    /// Handles deviations from the expected topology.
    pub(crate) fn take_deviations(&self, now: Time, deviations: Vec<Deviation>) -> Vec<News> {
        self.change(now, |state| {
            if *state.deviations != deviations {
                state.deviations = Arc::new(deviations);
            }
        })
    }

    /// Handles the alarms of telemetry that are worth a condition. They come with every slot, and change rarely.
    pub(crate) fn take_alarms(&self, now: Time, alarms: Vec<Alarm>) -> Vec<News> {
        if *self.lock().alarms == alarms {
            return Vec::new();
        }
        self.change(now, |state| state.alarms = Arc::new(alarms))
    }

    /// Takes the reason why the manager's own port is not open; `None` if it is open.
    pub(crate) fn take_port_gone(&self, now: Time, why: Option<String>) -> Vec<News> {
        self.change(now, |state| state.port_gone = why.map(Arc::from))
    }

    /// Takes the reason why counters or events are not stored; `None` if they are.
    pub(crate) fn take_history_stopped(&self, now: Time, why: Option<String>) -> Vec<News> {
        self.change(now, |state| state.history_stopped = why.map(Arc::from))
    }

    /// Returns the last health.
    pub(crate) fn health(&self) -> Arc<Health> {
        Arc::clone(self.lock().watch.health())
    }

    fn change(&self, now: Time, change: impl FnOnce(&mut State)) -> Vec<News> {
        let mut state = self.lock();
        change(&mut state);
        let facts = Facts {
            not_stored: state.not_stored.clone(),
            history_stopped: state.history_stopped.clone(),
            deviations: Arc::clone(&state.deviations),
            alarms: Arc::clone(&state.alarms),
            own_port_down: state.port_gone.clone().or_else(|| state.manager.own_port_down.clone()),
            ..state.manager.clone()
        };
        state.watch.take(Since::Run(now), facts)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a health as the API writes it.
pub(crate) fn shown(health: &Health, clock: Clock, names: &Names) -> api::Health {
    let conditions = health.conditions.iter().take(LISTED_MAX);
    api::Health {
        verdict: health.verdict.name().to_owned(),
        summary: health.summary(),
        good: health.verdict.is_good(),
        nagios_code: health.verdict.nagios(),
        count: health.conditions.len() as u64,
        conditions: conditions.map(|condition| of(condition, clock, names)).collect(),
    }
}

fn of(condition: &Condition, clock: Clock, names: &Names) -> api::Condition {
    let place = named(&condition.place, names);
    api::Condition {
        code: condition.what.code().to_owned(),
        kind: condition.what.name().to_owned(),
        severity: severity(condition.severity),
        text: format!("{place}: {}", condition.what),
        place: match place {
            Place::Manager => api::Place::default(),
            Place::Node(NodeName { guid, kind, name }) => api::Place {
                node: Some(api::NodeName { guid, kind, name }),
                ..api::Place::default()
            },
            Place::Port(a) | Place::Peer(a) => api::Place {
                a: Some(end(a)),
                ..api::Place::default()
            },
            Place::Link(a, b) => api::Place {
                node: None,
                a: Some(end(a)),
                b: Some(end(b)),
            },
        },
        since_ms: condition.since.unix_ms(|time| clock.unix_ms(time)),
        evidence: names.apply_text(&condition.evidence),
        clears: condition.clears().to_owned(),
    }
}

/// Returns a place with the operator's names.
fn named(place: &Place, names: &Names) -> Place {
    let node = |node: &NodeName| NodeName {
        name: names.of(node.guid).unwrap_or_else(|| node.name.clone()),
        ..node.clone()
    };
    let end = |end: &End| End {
        name: names.of(end.node).unwrap_or_else(|| end.name.clone()),
        ..end.clone()
    };
    match place {
        Place::Manager => Place::Manager,
        Place::Node(of) => Place::Node(node(of)),
        Place::Port(at) => Place::Port(end(at)),
        Place::Peer(at) => Place::Peer(end(at)),
        Place::Link(a, b) => Place::Link(end(a), end(b)),
    }
}

fn end(end: End) -> api::End {
    api::End {
        node_guid: end.node,
        node_name: end.name,
        port: end.port.get(),
    }
}

pub(crate) const fn severity(severity: Severity) -> api::Severity {
    match severity {
        Severity::Warning => api::Severity::Warning,
        Severity::Error => api::Severity::Error,
    }
}
