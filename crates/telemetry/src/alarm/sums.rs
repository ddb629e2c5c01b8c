//! Sums over a sliding window.

use core::time::Duration;
use std::collections::VecDeque;

use selvedge_sim::Time;

/// Most entries of a window. More frequent values are added to the last entry.
const ENTRIES_MAX: u32 = 64;

/// The sum of what was added within a window of time. Old values leave it with the granularity of a 64th of the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    entries: VecDeque<(Time, u64)>,
    sum: u64,
}

impl Sum {
    /// Adds a value, and returns the sum of the window that ends now.
    pub fn add(&mut self, now: Time, value: u64, window: Duration) -> u64 {
        if value > 0 {
            let step = window / ENTRIES_MAX;
            match self.entries.back_mut() {
                Some((at, last)) if now.since(*at) < step => *last = last.saturating_add(value),
                _ => self.entries.push_back((now, value)),
            }
            self.sum = self.sum.saturating_add(value);
        }
        self.at(now, window)
    }

    /// Returns the sum of the window that ends now.
    pub fn at(&mut self, now: Time, window: Duration) -> u64 {
        while let Some((at, value)) = self.entries.front().copied().filter(|(at, _)| now.since(*at) >= window) {
            debug_assert!(at <= now);
            self.sum = self.sum.saturating_sub(value);
            self.entries.pop_front();
        }
        self.sum
    }

    /// True if nothing is in the window.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_leave_the_window() {
        let window = Duration::from_secs(64);
        let mut sum = Sum::default();
        let found: Vec<u64> = (0..200)
            .map(|s| sum.add(Time::from_millis(1_000 * s), 2, window))
            .collect();
        assert_eq!((found[0], found[63], found[64], found[199]), (2, 128, 128, 128));
        assert_eq!(sum.at(Time::from_millis(1_000 * 230), window), 66);
        assert_eq!(
            (sum.at(Time::from_millis(1_000 * 300), window), sum.is_empty()),
            (0, true)
        );
    }

    #[test]
    fn many_values_take_few_entries() {
        let window = Duration::from_secs(300);
        let mut sum = Sum::default();
        for ms in 0..300_000 {
            sum.add(Time::from_millis(ms), 1, window);
        }
        assert!(sum.entries.len() <= 2 * ENTRIES_MAX as usize, "{}", sum.entries.len());
        assert!(sum.sum > 290_000 && sum.sum <= 300_000, "{}", sum.sum);
    }
}
