//! A counter that advances at a constant rate and costs work only when it is read.

use selvedge_sim::Time;

/// A counter that advances at a constant rate. What it counts at a time depends on the rates and on when they changed,
/// never on when it was read, and no fraction of an event is lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    /// Events per million seconds.
    rate: u64,
    /// Begin of this rate.
    since: Time,
    /// What was counted before, in units of 10^-15 events.
    before: u128,
    /// Events that [`Self::take`] has returned.
    taken: u64,
}

/// One event: a rate per million seconds, multiplied by nanoseconds, counts in 10^-15 events.
const EVENT: u128 = 1_000_000_000_000_000;

/// Events per million seconds of one event per second.
pub(crate) const PER_SECOND: u64 = 1_000_000;

impl Meter {
    /// Changes the rate at `at`, or at the time of the last change if that was later. The unit is events per million
    /// seconds.
    pub fn set_rate(&mut self, at: Time, rate: u64) {
        let at = at.max(self.since);
        self.before = self.sum(at);
        (self.since, self.rate) = (at, rate);
    }

    /// Returns all events up to `now`.
    pub fn total(&self, now: Time) -> u64 {
        u64::try_from(self.sum(now) / EVENT).unwrap_or(u64::MAX)
    }

    /// Returns the events up to `now` that were not returned before.
    pub fn take(&mut self, now: Time) -> u64 {
        let total = self.total(now);
        let new = total.saturating_sub(self.taken);
        self.taken = total.max(self.taken);
        new
    }

    fn sum(&self, now: Time) -> u128 {
        let span = now.0.saturating_sub(self.since.0);
        self.before.saturating_add(u128::from(self.rate) * u128::from(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_at(times: &[u64]) -> u64 {
        let mut meter = Meter::default();
        meter.set_rate(Time::ZERO, 333_333);
        let mut count = 0;
        for &ms in times {
            count += meter.take(Time::from_millis(ms));
        }
        meter.set_rate(Time::from_millis(10_000), 7 * PER_SECOND);
        count + meter.take(Time::from_millis(11_500))
    }

    #[test]
    fn what_is_counted_does_not_depend_on_reads() {
        // 3.33333 and 10.5 events: the fractions of the first rate count with those of the second.
        assert_eq!(read_at(&[]), 13);
        assert_eq!(read_at(&[1, 2, 3, 9_000]), 13);
        assert_eq!(read_at(&(0..10_000).collect::<Vec<_>>()), 13);
    }

    #[test]
    fn a_rate_in_the_past_of_the_last_one_begins_with_it() {
        let mut meter = Meter::default();
        meter.set_rate(Time::from_millis(2_000), PER_SECOND);
        meter.set_rate(Time::from_millis(1_000), 2 * PER_SECOND);
        assert_eq!(meter.take(Time::from_millis(3_000)), 2);
        assert_eq!(
            meter.take(Time::from_millis(2_500)),
            0,
            "time that goes back counts nothing"
        );
        assert_eq!(meter.take(Time::from_millis(4_000)), 2);
    }
}
