//! Pauses of an agent or a port that does not answer.

use core::time::Duration;

use selvedge_sim::Time;

/// How long an agent or port that does not answer is left alone. The pause doubles with each failure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    failures: u32,
    until: Time,
}

impl Silence {
    /// Answers, as far as is known.
    pub(super) const NONE: Self = Self {
        failures: 0,
        until: Time::ZERO,
    };

    /// Notes a failure and returns the pause. `None`: it is paused already, so this is the same failure once more.
    pub(super) fn fail(&mut self, now: Time, first: Duration, longest: Duration) -> Option<Duration> {
        if self.is_paused(now) {
            return None;
        }
        let doubled = first.saturating_mul(1 << self.failures.min(16));
        let pause = doubled.min(longest);
        self.failures = self.failures.saturating_add(1);
        self.until = now + pause;
        Some(pause)
    }

    /// Ends the silence. Returns true if there was one.
    pub(super) fn end(&mut self) -> bool {
        core::mem::take(self).failures > 0
    }

    /// True if the pause is not over, so that no request may be sent.
    pub(super) fn is_paused(&self, now: Time) -> bool {
        now < self.until
    }

    /// True from the first failure until the next answer.
    pub(super) const fn is_silent(&self) -> bool {
        self.failures > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let (first, longest) = (Duration::from_secs(5), Duration::from_secs(30));
        let mut silence = Silence::default();
        let mut now = Time::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..5 {
            let pause = silence.fail(now, first, longest).expect("not paused");
            assert_eq!(silence.fail(now, first, longest), None, "once a pause");
            assert!(silence.is_paused(now));
            pauses.push(pause.as_secs());
            now += pause;
            assert!(!silence.is_paused(now));
        }
        assert_eq!(pauses, [5, 10, 20, 30, 30]);
        assert!(silence.end());
        assert!(!silence.end());
        assert_eq!(silence.fail(now, first, longest), Some(first));
    }
}
