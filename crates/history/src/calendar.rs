//! Hours and times in UTC, as text.

use core::fmt;

use selvedge_telemetry::calendar::{date, day};

const HOUR_US: u64 = 3_600_000_000;

/// An hour, counted since the Unix epoch. Prints as `20261129T07`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hour(pub u64);

impl Hour {
    /// Returns the hour of a time in microseconds since the Unix epoch.
    pub const fn of(at_us: u64) -> Self {
        Self(at_us / HOUR_US)
    }

    /// Returns when the hour begins, in microseconds since the Unix epoch.
    pub const fn begin_us(self) -> u64 {
        self.0.saturating_mul(HOUR_US)
    }

    /// Returns when the hour ends, in microseconds since the Unix epoch.
    pub const fn end_us(self) -> u64 {
        self.begin_us().saturating_add(HOUR_US)
    }

    /// Reads what [`fmt::Display`] prints.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, hour) = text.split_once('T')?;
        let is_digits = |text: &str, len: usize| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
        if !is_digits(date, 8) || !is_digits(hour, 2) {
            return None;
        }
        let number = |text: &str| text.parse::<u64>().ok();
        let days = day(number(&date[..4])?, number(&date[4..6])?, number(&date[6..])?)?;
        let hour = number(hour).filter(|hour| *hour < 24)?;
        Some(Self(days * 24 + hour))
    }
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.0 / 24);
        write!(f, "{year:04}{month:02}{day:02}T{:02}", self.0 % 24)
    }
}

/// Microseconds since the Unix epoch. Prints as `2026-11-29T07:30:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Utc(pub u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1_000_000;
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours() {
        for (hour, text) in [
            (0, "19700101T00"),
            (951_782_399 / 3_600, "20000228T23"),
            (951_782_400 / 3_600, "20000229T00"),
            (4_107_542_400 / 3_600, "21000301T00"),
        ] {
            assert_eq!(Hour(hour).to_string(), text);
            assert_eq!(Hour::parse(text), Some(Hour(hour)));
        }
        for hour in (0..2_000_000).step_by(7) {
            assert_eq!(Hour::parse(&Hour(hour).to_string()), Some(Hour(hour)));
        }
        for text in [
            "",
            "T",
            "20260231T00",
            "20261301T00",
            "20260101T24",
            "2026010aT00",
            "+2026010T00",
            "19691231T23",
        ] {
            assert_eq!(Hour::parse(text), None, "{text}");
        }
        assert_eq!(Utc(951_782_399_999_999).to_string(), "2000-02-28T23:59:59Z");
    }
}
