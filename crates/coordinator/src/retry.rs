//! Decides when a failed write is retried.

use std::time::Duration;

use selvedge_sim::Time;

/// Wait after the first failure.
const FIRST: Duration = Duration::from_millis(250);
/// Longest wait: after an operator makes room on the disk, the state is stored within this time.
const LONGEST: Duration = Duration::from_secs(5);

/// Counts failures in a row and schedules the next attempt. The wait doubles with each failure, up to five seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    failures: u32,
    since: Option<Time>,
    next: Option<Time>,
}

impl Retry {
    /// Records a failure.
    pub fn failed(&mut self, now: Time) {
        let wait = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.since.get_or_insert(now);
        self.next = Some(now + wait);
    }

    /// Allows the next attempt at once, because it writes something else.
    pub fn next_at_once(&mut self) {
        self.next = self.next.map(|_| Time::ZERO);
    }

    /// Records a success.
    pub const fn worked(&mut self) {
        (self.failures, self.since, self.next) = (0, None, None);
    }

    /// Returns when the next attempt is due; `None` if nothing has failed since the last success.
    #[must_use]
    pub const fn next(&self) -> Option<Time> {
        self.next
    }

    /// True if an attempt may be made now.
    #[must_use]
    pub fn may_try(&self, now: Time) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    /// Returns the time of the first failure since the last success; `None` if there was none.
    #[must_use]
    pub const fn since(&self) -> Option<Time> {
        self.since
    }

    /// Returns how many attempts have failed since the last success.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_seconds_and_a_success_ends_them() {
        let mut retry = Retry::default();
        let mut now = Time::ZERO;
        let mut waits = Vec::new();
        for _ in 0..40 {
            assert!(retry.may_try(now));
            retry.failed(now);
            let next = retry.next().unwrap();
            assert!(!retry.may_try(now));
            waits.push(next.since(now).as_millis());
            now = next;
        }
        assert_eq!(waits[..7], [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
        assert_eq!(waits[39], 5_000);
        assert_eq!((retry.since(), retry.failures()), (Some(Time::ZERO), 40));
        retry.worked();
        assert_eq!(retry, Retry::default());
    }
}
