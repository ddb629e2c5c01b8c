//! Times as an operator writes them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use selvedge_daemon::utc_ms;

/// A time: so long ago, or a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// This long before now.
    Ago(Duration),
    /// A date, in milliseconds since 1970-01-01 UTC.
    At(u64),
}

impl When {
    /// This moment.
    pub const NOW: Self = Self::Ago(Duration::ZERO);

    /// Reads `90s`, `10m`, `2h`, `3d`, or a UTC date.
    pub fn read(text: &str) -> Option<Self> {
        let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
        let ago = units.into_iter().find_map(|(unit, seconds)| {
            let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
            Some(Self::Ago(Duration::from_secs(u64::from(number) * seconds)))
        });
        ago.or_else(|| utc_ms(text).map(Self::At))
    }

    /// Returns the time, in milliseconds since 1970-01-01 UTC.
    pub fn unix_ms(self, now: SystemTime) -> u64 {
        match self {
            Self::Ago(ago) => {
                let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(now.saturating_sub(ago).as_millis()).unwrap_or(u64::MAX)
            }
            Self::At(unix_ms) => unix_ms,
        }
    }
}

/// Reads a time for a flag.
pub fn when(text: &str) -> Result<When, String> {
    When::read(text)
        .ok_or_else(|| "want a time ago as 90s, 10m, 2h or 3d, or a UTC date as 2026-03-30T12:34".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_so_long_ago_or_a_date() {
        let ago = |seconds| When::Ago(Duration::from_secs(seconds));
        let check = |text: &str, want: When| assert_eq!(when(text), Ok(want), "{text}");
        check("90s", ago(90));
        check("10m", ago(600));
        check("2h", ago(7_200));
        check("3d", ago(259_200));
        check("1970-01-01T00:01Z", When::At(60_000));
        for wrong in ["", "17", "s", "-1s", "1w", "1.5h", "yesterday", "99999999999d"] {
            assert!(when(wrong).is_err(), "{wrong}");
        }
        let now = UNIX_EPOCH + Duration::from_secs(100);
        assert_eq!([90, 900].map(|seconds| ago(seconds).unix_ms(now)), [10_000, 0]);
    }
}
