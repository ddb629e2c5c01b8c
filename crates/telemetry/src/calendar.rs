//! Dates of the Gregorian calendar, in UTC.
//!
//! Days are counted in eras of 400 years that begin on 1 March, so that the leap day is the last one of a year. Source:
//! Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".

/// From 0000-03-01 to the Unix epoch.
const DAYS_BEFORE: u64 = 719_468;
const DAYS_OF_ERA: u64 = 146_097;

/// Returns year, month (1–12) and day (1–31) of a day, counted from 1970-01-01.
#[must_use]
pub const fn date(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(DAYS_BEFORE);
    let (era, day_of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Returns the number of a day, counted from 1970-01-01. `None`: there is no such day, or it is before that or after
/// the year 9999.
#[must_use]
pub fn day(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9_999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let from_march = year - u64::from(month <= 2);
    let (era, year_of_era) = (from_march / 400, from_march % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * DAYS_OF_ERA + day_of_era).checked_sub(DAYS_BEFORE)?;
    // The 31st of February has the same number as a day of March.
    (date(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_read_as_it_is_written() {
        for (days, want) in [
            (0, (1970, 1, 1)),
            (11_015, (2000, 2, 28)),
            (11_016, (2000, 2, 29)),
            (47_541, (2100, 3, 1)),
            (2_932_896, (9_999, 12, 31)),
        ] {
            assert_eq!(date(days), want);
        }
        for days in 0..150_000 {
            let (year, month, of_month) = date(days);
            assert_eq!(day(year, month, of_month), Some(days));
        }
    }

    #[test]
    fn what_is_no_day_is_refused() {
        for (year, month, of_month) in [
            (2001, 2, 29),
            (2100, 2, 29),
            (2026, 2, 31),
            (2026, 4, 31),
            (2026, 13, 1),
            (2026, 0, 1),
            (2026, 1, 0),
            (1969, 12, 31),
            (10_000, 1, 1),
            (0, 1, 1),
            (u64::MAX, u64::MAX, u64::MAX),
        ] {
            assert_eq!(day(year, month, of_month), None, "{year}-{month}-{of_month}");
        }
    }
}
