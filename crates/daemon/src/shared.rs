//! State of the core's thread that other threads show.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use selvedge_api::{Administration, Intake, NotStored, Severity};
use selvedge_coordinator::Retry;
use selvedge_health::{Deviation, Health, News};
use selvedge_sim::Time;
use selvedge_sm::View;
use selvedge_store::StoreError;
use selvedge_types::Guid;
use selvedge_wire::{LocalPort, PortError};

use crate::changes::FilesDesk;
use crate::clock::Clock;
use crate::events::{EventLog, LogSink};
use crate::health::{self, HealthDesk};
use crate::names::Names;
use crate::notice::Notice;
use crate::storing::{Promise, Storing};
use crate::telemetry::Telemetry;

/// State of the core's thread that other threads show.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) names: Names,
    pub(crate) events: EventLog,
    /// The port to the fabric, as named on the command line.
    pub(crate) port: String,
    pub(crate) local: LocalPort,
    shown: Mutex<Shown>,
    administration: Mutex<Administration>,
    intake: Mutex<Intake>,
    storing: Mutex<Storing>,
    health: HealthDesk,
    /// Findings from reading files at reloads.
    pub(crate) files: FilesDesk,
    /// What the sampler found.
    pub(crate) telemetry: Telemetry,
}

#[derive(Clone, Debug, Default)]
struct Shown {
    view: Arc<View>,
    /// Number of views shown so far.
    number: u64,
    first_up: Option<Time>,
}

impl Shared {
    pub(crate) fn new(
        clock: Clock,
        names: Names,
        (capacity, sink): (usize, Box<dyn LogSink>),
        (port, local): (String, LocalPort),
        telemetry: Telemetry,
    ) -> Self {
        Self {
            clock,
            names,
            events: EventLog::new(clock, capacity, sink),
            port,
            local,
            shown: Mutex::default(),
            administration: Mutex::default(),
            intake: Mutex::default(),
            storing: Mutex::default(),
            health: HealthDesk::default(),
            files: FilesDesk::default(),
            telemetry,
        }
    }

    pub(crate) fn event(&self, now: Time, severity: Severity, code: &str, text: &str) {
        self.events.push(now, severity, code, self.names.apply_text(text));
    }

    pub(crate) fn notice(&self, notice: &Notice) {
        self.notice_of(self.clock.now(), notice);
    }

    /// Reports a notice with a former time.
    pub(crate) fn notice_of(&self, at: Time, notice: &Notice) {
        self.event(at, notice.severity(), notice.code(), &notice.to_string());
    }

    /// Publishes a state. Returns the conditions that began or cleared with it. The caller passes them to
    /// [`Self::report`] after it has reported the events that caused them.
    #[must_use]
    pub(crate) fn show(&self, now: Time, view: View) -> Vec<News> {
        if let Some(fabric) = &view.fabric {
            // Later events use the names of this snapshot.
            let _ = self.names.apply(fabric);
        }
        let news = self.health.take_manager(now, view.facts.clone());
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.first_up.is_none() && view.is_up() {
            shown.first_up = Some(now);
        }
        shown.view = Arc::new(view);
        shown.number += 1;
        drop(shown);
        news
    }

    /// Reports conditions that began or cleared.
    pub(crate) fn report(&self, now: Time, news: Vec<News>) {
        for news in news {
            self.notice_of(
                now,
                &match news {
                    News::Began(condition) => Notice::ConditionBegan(condition),
                    News::Cleared(condition) => Notice::ConditionCleared(condition),
                },
            );
        }
    }

    /// Stores the deviations from the expected topology.
    pub(crate) fn take_deviations(&self, deviations: Vec<Deviation>) {
        let now = self.clock.now();
        self.report(now, self.health.take_deviations(now, deviations));
    }

    /// Called when the manager's local port is gone, or open again.
    pub(crate) fn port_gone(&self, error: Option<&PortError>) {
        let now = self.clock.now();
        self.report(now, self.health.take_port_gone(now, error.map(ToString::to_string)));
    }

    /// Takes the reason why counters or events are not stored; `None` if they are.
    pub(crate) fn history_stopped(&self, why: Option<String>) {
        let now = self.clock.now();
        self.report(now, self.health.take_history_stopped(now, why));
    }

    /// Returns the health as a value.
    pub(crate) fn manager_health(&self) -> Arc<Health> {
        self.health.health()
    }

    /// Returns the current verdict and conditions.
    pub(crate) fn health(&self) -> selvedge_api::Health {
        health::shown(&self.health.health(), self.clock, &self.names)
    }

    /// Replaces the names of nodes.
    pub(crate) fn rename(&self, names: BTreeMap<Guid, String>) {
        self.names.replace(names);
        if let Some(fabric) = &self.view().0.fabric {
            let _ = self.names.apply(fabric);
        }
        // New number, because lists show the new names.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).number += 1;
    }

    pub(crate) fn view(&self) -> (Arc<View>, Option<Time>) {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        (Arc::clone(&shown.view), shown.first_up)
    }

    /// Returns the number of the present view.
    pub(crate) fn view_number(&self) -> u64 {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).number
    }

    /// Handles the result of an attempt to store, with the number of failures so far in `retry`. Updates the status,
    /// and reports the change if there is one.
    pub(crate) fn store_ended(&self, now: Time, what: Promise, retry: &Retry, result: Result<(), StoreError>) {
        let mut storing = self.storing.lock().unwrap_or_else(PoisonError::into_inner);
        if result.is_ok() && storing.is_empty() {
            return;
        }
        let notice = storing.ended(now, what, retry, result);
        let not_stored = storing.facts();
        drop(storing);
        let news = self.health.take_not_stored(now, not_stored);
        self.report(now, news);
        if let Some(notice) = notice {
            self.notice_of(now, &notice);
        }
    }

    /// Returns the data that cannot be stored at present.
    pub(crate) fn not_stored(&self) -> Vec<NotStored> {
        self.storing.lock().unwrap_or_else(PoisonError::into_inner).shown()
    }

    pub(crate) fn show_administration(&self, counts: Administration) {
        *self.administration.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }

    pub(crate) fn show_intake(&self, counts: Intake) {
        *self.intake.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }

    pub(crate) fn intake(&self) -> Intake {
        self.intake.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn administration(&self) -> Administration {
        *self.administration.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
