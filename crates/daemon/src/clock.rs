//! Real time for cores that read no clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use selvedge_sim::Time;

/// Time since the process began to work, and what the calendar said then.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    start_ms: u64,
}

impl Clock {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            start: Instant::now(),
            start_ms: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Time since the start.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The calendar's milliseconds since 1970-01-01 UTC at `time`.
    #[must_use]
    pub const fn unix_ms(&self, time: Time) -> u64 {
        self.start_ms + time.0 / 1_000_000
    }
}

/// `2026-03-30T12:34:56.789Z`.
#[must_use]
pub fn utc_text(unix_ms: u64) -> String {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    // Days to civil date, counted in eras of 400 years that begin on 1 March.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        ms % 1_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |ms: u64, want: &str| assert_eq!(utc_text(ms), want);
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(1_709_251_199_999, "2024-02-29T23:59:59.999Z");
        check(4_102_444_800_000, "2100-01-01T00:00:00.000Z");
    }
}
