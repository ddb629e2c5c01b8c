//! The time when a condition or a loss began.

use selvedge_sim::Time;

/// A time when a condition or a loss began: in this run of the manager, or in an earlier one. Times of earlier runs
/// come first in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Since {
    /// In an earlier run, by the calendar, in milliseconds since 1970-01-01 UTC.
    Calendar(u64),
    /// At a time of this run.
    Run(Time),
}

impl Since {
    /// Returns the calendar time in milliseconds since 1970-01-01 UTC. `unix_ms` converts times of this run.
    #[must_use]
    pub fn unix_ms(self, unix_ms: impl Fn(Time) -> u64) -> u64 {
        match self {
            Self::Run(time) => unix_ms(time),
            Self::Calendar(ms) => ms,
        }
    }
}

impl Default for Since {
    fn default() -> Self {
        Self::Run(Time::ZERO)
    }
}
