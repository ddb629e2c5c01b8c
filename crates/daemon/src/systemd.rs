//! Tells systemd how the manager is: READY=1, STATUS=, WATCHDOG=1, STOPPING=1. Source: sd_notify(3).
//!
//! The manager's own thread tells it, between two turns of its loop: a manager that hangs stops feeding the watchdog,
//! and systemd starts it again. Without NOTIFY_SOCKET in the environment nothing is sent.

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use selvedge_health::{Health, Verdict};
use selvedge_sim::Time;

/// Parts of the watchdog's time after which it is fed, as sd_watchdog_enabled(3) recommends.
const FEEDS: u32 = 2;

/// What systemd was told last.
pub(crate) struct Systemd {
    /// Sends; the crate's function, or a test's.
    send: fn(&[NotifyState<'_>]),
    is_ready: bool,
    /// The health that was told last.
    told: Option<Arc<Health>>,
    /// How often the watchdog is fed, if systemd wants that.
    feeds_each: Option<Duration>,
    fed_at: Option<Time>,
}

impl Systemd {
    /// Reads from the environment whether systemd listens, and whether it watches.
    pub(crate) fn of_environment() -> Self {
        Self {
            send: |states| {
                // Without a socket there is nothing to tell; a full one is told again with the next change.
                let _ = sd_notify::notify(states);
            },
            is_ready: false,
            told: None,
            feeds_each: sd_notify::watchdog_enabled().map(|every| every / FEEDS),
            fed_at: None,
        }
    }

    /// True if [`Self::turn`] has something to send but for changes of health.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        let is_hungry = |each: Duration| self.fed_at.is_none_or(|fed| now.since(fed) >= each);
        self.feeds_each.is_some_and(is_hungry)
    }

    /// Tells what changed, and feeds the watchdog if it is time.
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

    /// Tells that the manager ends.
    pub(crate) fn end(&self) {
        (self.send)(&[NotifyState::Stopping]);
    }
}
