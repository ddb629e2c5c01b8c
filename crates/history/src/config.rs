//! What is kept, and for how long.

use core::time::Duration;

/// What is kept, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long every sample stays in memory. Default: one hour.
    pub window_age: Duration,
    /// Memory for the samples of the window. When it is used up, the window is shorter than its age. Default: 512 MiB,
    /// which holds 9 minutes of 34,992 ports at one second; 0: no window.
    pub window_bytes_max: usize,
    /// The history holds the first sample of each interval of this length. Default: 30 s. Totals are exact at any step;
    /// a longer one hides short bursts.
    pub step: Duration,
    /// How long files are kept. Default: 14 days.
    pub keep: Duration,
    /// Room for all files together; when it is used up, the oldest are removed. Default: 64 GiB.
    pub files_bytes_max: u64,
    /// Memory for rows that cannot be stored because the disk is full or fails. When it is used up, further rows are
    /// lost. Default: 64 MiB, which holds 25 minutes of 34,992 ports.
    pub pending_bytes_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window_age: Duration::from_secs(3_600),
            window_bytes_max: 512 << 20,
            step: Duration::from_secs(30),
            keep: Duration::from_secs(14 * 86_400),
            files_bytes_max: 64 << 30,
            pending_bytes_max: 64 << 20,
        }
    }
}

impl Config {
    /// Returns the step in microseconds, at least 1.
    pub(crate) fn step_us(&self) -> u64 {
        micros(self.step).max(1)
    }
}

/// Microseconds of a duration, 584,000 years at most.
pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
