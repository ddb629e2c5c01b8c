//! Reports the state of the manager to systemd: READY=1, STATUS=, WATCHDOG=1, STOPPING=1. Source: sd_notify(3).
//!
//! The manager's own thread sends these reports, once in each turn of its loop. So a manager that hangs stops feeding
//! the watchdog, and systemd starts it again. Without NOTIFY_SOCKET in the environment nothing is sent.

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use selvedge_health::{Health, Verdict};
use selvedge_sim::Time;

/// Number of feeds of the watchdog within its time limit, as sd_watchdog_enabled(3) recommends.
const FEEDS: u32 = 2;

/// The last report to systemd.
pub(crate) struct Systemd {
    /// Sends a report: the function of the crate, or of a test.
    send: fn(&[NotifyState<'_>]),
    is_ready: bool,
    /// The health that was reported last.
    told: Option<Arc<Health>>,
    /// The time between two feeds of the watchdog, if systemd wants them.
    feeds_each: Option<Duration>,
    fed_at: Option<Time>,
}

impl Systemd {
    /// Reads from the environment whether systemd wants reports, and whether its watchdog is on.
    pub(crate) fn of_environment() -> Self {
        Self {
            send: |states| {
                // Without a socket nothing is reported. If the socket is full, the next change is a new report.
                let _ = sd_notify::notify(states);
            },
            is_ready: false,
            told: None,
            feeds_each: sd_notify::watchdog_enabled().map(|every| every / FEEDS),
            fed_at: None,
        }
    }

    /// True if [`Self::turn`] has to feed the watchdog.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        let is_hungry = |each: Duration| self.fed_at.is_none_or(|fed| now.since(fed) >= each);
        self.feeds_each.is_some_and(is_hungry)
    }

    /// Reports a change of health, and feeds the watchdog if it is time.
    pub(crate) fn turn(&mut self, now: Time, health: &Arc<Health>) {
        let becomes_ready = !self.is_ready && health.verdict != Verdict::Starting;
        let is_due = self.is_due(now);
        if becomes_ready {
            self.is_ready = true;
            (self.send)(&[NotifyState::Ready]);
        }
        if !self.told.as_ref().is_some_and(|told| Arc::ptr_eq(told, health)) {
            (self.send)(&[NotifyState::Status(&health.summary())]);
            self.told = Some(Arc::clone(health));
        }
        if is_due {
            self.fed_at = Some(now);
            (self.send)(&[NotifyState::Watchdog]);
        }
    }

    /// Reports that the manager ends.
    pub(crate) fn end(&self) {
        (self.send)(&[NotifyState::Stopping]);
    }
}
