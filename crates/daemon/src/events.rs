//! Events, kept for the API and written to the log.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use selvedge_api::{Event, Events, Severity};
use selvedge_sim::Time;
use selvedge_types::printable;

use crate::clock::{Clock, utc_text};

/// The destination of log lines.
pub trait LogSink: Send {
    /// Writes one line, given without its line end.
    fn line(&mut self, severity: Severity, line: &str);
    /// Closes and opens again a file that may have been moved away (SIGUSR1).
    fn reopen(&mut self) {}
}

/// Drops every line.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl LogSink for NoLog {
    fn line(&mut self, _severity: Severity, _line: &str) {}
}

/// The last events, and the log.
pub struct EventLog {
    clock: Clock,
    inner: Mutex<Inner>,
}

struct Inner {
    ring: VecDeque<Event>,
    capacity: usize,
    last: u64,
    /// The time of the newest event.
    newest: Time,
    sink: Box<dyn LogSink>,
}

impl EventLog {
    /// Returns a log that keeps `capacity` events, at least one.
    #[must_use]
    pub fn new(clock: Clock, capacity: usize, sink: Box<dyn LogSink>) -> Self {
        Self {
            clock,
            inner: Mutex::new(Inner {
                ring: VecDeque::new(),
                capacity: capacity.max(1),
                last: 0,
                newest: Time::ZERO,
                sink,
            }),
        }
    }

    /// Keeps and logs an event. Events are in order of time: if an event of another thread comes late, it gets the time
    /// of the event before it.
    pub fn push(&self, time: Time, severity: Severity, code: &str, text: String) {
        let mut inner = self.lock();
        let time = time.max(inner.newest);
        inner.newest = time;
        let time_ms = self.clock.unix_ms(time);
        inner.last += 1;
        inner.sink.line(severity, &log_line(time_ms, severity, code, &text));
        if inner.ring.len() == inner.capacity {
            inner.ring.pop_front();
        }
        let number = inner.last;
        inner.ring.push_back(Event {
            number,
            time_ms,
            uptime_ns: time.0,
            severity,
            code: code.to_owned(),
            text,
        });
    }

    /// Events after number `since`.
    #[must_use]
    pub fn since(&self, since: u64) -> Events {
        let inner = self.lock();
        let oldest = inner.ring.front().map_or(inner.last + 1, |event| event.number);
        Events {
            last: inner.last,
            dropped: oldest.saturating_sub(since.saturating_add(1)),
            events: inner
                .ring
                .iter()
                .filter(|event| event.number > since)
                .cloned()
                .collect(),
        }
    }

    /// Number of the last event; 0 before the first.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.lock().last
    }

    /// Opens the log again.
    pub fn reopen(&self) {
        self.lock().sink.reopen();
    }

    /// Locks the log. A thread that panicked while it held the lock has at worst lost its own event.
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the log line of an event. It is always one line, whatever the names in its text contain.
fn log_line(time_ms: u64, severity: Severity, code: &str, text: &str) -> String {
    format!("{} {severity:<7} {code} {}", utc_text(time_ms), printable(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_their_line_of_the_log() {
        let line = |text| log_line(0, Severity::Info, "SLV-SM-0001", text);
        assert!(line("\"a\u{1b}[31m\nb\"[1]").ends_with("SLV-SM-0001 \"a\\u{1b}[31m\\u{a}b\"[1]"));
        assert!(line("\u{202e}x").ends_with(" \\u{202e}x"));
        assert!(line("\"leaf 1\"[2]").ends_with(" \"leaf 1\"[2]"));
    }

    #[test]
    fn events_are_in_order_of_time() {
        let log = EventLog::new(Clock::start(), 9, Box::new(NoLog));
        for ns in [104, 103, 110] {
            log.push(Time(ns), Severity::Info, "SLV-SM-0001", String::new());
        }
        let times: Vec<u64> = log.since(0).events.iter().map(|event| event.uptime_ns).collect();
        assert_eq!(times, [104, 104, 110]);
    }

    #[test]
    fn the_ring_keeps_the_newest_and_says_what_it_lost() {
        let log = EventLog::new(Clock::start(), 3, Box::new(NoLog));
        for i in 0..5 {
            log.push(Time(i), Severity::Info, "SLV-SM-0001", format!("event {i}"));
        }
        let check = |since: u64, dropped: u64, numbers: &[u64]| {
            let events = log.since(since);
            let found: Vec<u64> = events.events.iter().map(|event| event.number).collect();
            assert_eq!(
                (events.last, events.dropped, found.as_slice()),
                (5, dropped, numbers),
                "since {since}"
            );
        };
        check(0, 2, &[3, 4, 5]);
        check(3, 0, &[4, 5]);
        check(5, 0, &[]);
        check(u64::MAX, 0, &[]);
    }
}
