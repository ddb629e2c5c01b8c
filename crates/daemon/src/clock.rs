//! Real time for cores that read no clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use selvedge_sim::Time;
use selvedge_telemetry::calendar;

/// The time since the process started, and the calendar date.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// Reads the calendar. It may be corrected at any time, so every date reads it again.
    calendar: fn() -> SystemTime,
}

impl Clock {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self::with_calendar(SystemTime::now)
    }

    fn with_calendar(calendar: fn() -> SystemTime) -> Self {
        Self {
            start: Instant::now(),
            calendar,
        }
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the calendar's present setting, in nanoseconds since 1970-01-01 UTC.
    #[must_use]
    pub fn unix_ns(&self) -> u64 {
        let now = (self.calendar)().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns `time` in milliseconds since 1970-01-01 UTC, by the calendar's present setting.
    #[must_use]
    pub fn unix_ms(&self, time: Time) -> u64 {
        let now = (self.calendar)().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = now.saturating_sub(self.now().since(time));
        u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
    }
}

/// `2026-03-30T12:34:56.789Z`.
#[must_use]
pub fn utc_text(unix_ms: u64) -> String {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let (year, month, day) = calendar::date(days);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        ms % 1_000
    )
}

/// Reads a UTC date, with a time of day if it has one: `2026-03-30`, `2026-03-30T12:34`, `2026-03-30 12:34:56.789Z`.
/// Returns milliseconds since 1970-01-01 UTC; `None` if it is no such date.
#[must_use]
pub fn utc_ms(text: &str) -> Option<u64> {
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let (date, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00"));
    let mut numbers = date.split('-').map(digits);
    let (year, month, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let mut of_day = time.split(':');
    let (hour, minute) = (digits(of_day.next()?)?, digits(of_day.next()?)?);
    let (second, fraction) = match of_day.next() {
        Some(second) => second.split_once('.').unwrap_or((second, "0")),
        None => ("0", "0"),
    };
    let is_over = numbers.next().is_none() && of_day.next().is_none();
    let (second, ms) = (digits(second)?, digits(fraction.get(..3).unwrap_or(fraction))?);
    let ms = ms * [1, 100, 10, 1][fraction.len().min(3)];
    let days = calendar::day(year, month, day)?;
    if !is_over || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + ms)
}

fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_follow_a_correction_of_the_calendar() {
        static UNIX_S: AtomicU64 = AtomicU64::new(0);
        let clock = Clock::with_calendar(|| UNIX_EPOCH + Duration::from_secs(UNIX_S.load(Ordering::SeqCst)));
        let check = |unix_s: u64| {
            UNIX_S.store(unix_s, Ordering::SeqCst);
            let begin = clock.now();
            let shown = clock.unix_ms(begin);
            // The process may have slept between the two readings of the clock.
            let late = u64::try_from(clock.now().since(begin).as_millis()).unwrap() + 1;
            assert!(
                (unix_s * 1_000 - late..=unix_s * 1_000).contains(&shown),
                "{shown} at {unix_s} s"
            );
        };
        check(1_000_000);
        // One hour forward, as at the first answer of a time server; one day back.
        check(1_003_600);
        check(917_200);
        let earlier = Clock::with_calendar(|| UNIX_EPOCH);
        assert_eq!(earlier.unix_ms(Time::ZERO), 0, "a calendar that was never set");
    }

    #[test]
    fn dates() {
        let check = |ms: u64, want: &str| assert_eq!(utc_text(ms), want);
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(1_709_251_199_999, "2024-02-29T23:59:59.999Z");
        check(4_102_444_800_000, "2100-01-01T00:00:00.000Z");
    }

    #[test]
    fn dates_are_read_as_they_are_written() {
        let check = |text: &str, want: Option<u64>| assert_eq!(utc_ms(text), want, "{text}");
        for day in 0..150_000 {
            let ms = day * 86_400_000 + day % 1_000;
            check(&utc_text(ms), Some(ms));
        }
        check("2000-02-29", Some(951_782_400_000));
        check("2000-02-29 01:00", Some(951_786_000_000));
        check("2000-02-29t00:00:01.5z", Some(951_782_401_500));
        check("2000-02-29T00:00:01.2349", Some(951_782_401_234));
        for wrong in [
            "",
            "today",
            "2001-02-29",
            "2000-13-01",
            "2000-00-01",
            "2000-01-00",
            "2000-01-01T24:00",
            "2000-01-01T00",
            "2000-01-01T00:00:00:00",
            "2000-01-01-01",
            "1969-12-31",
            "2000-1-+1",
            "2000-01-01T00:00:0x",
            "99999999999999999999-01-01",
        ] {
            check(wrong, None);
        }
    }
}
