//! Parsers for values, compatible with OpenSM.

use std::time::Duration;

/// Parses a number: decimal, octal with 0, hexadecimal with 0x, as `strtoull` does.
pub(super) fn number(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    match lower.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if lower.len() > 1 && lower.starts_with('0') => u64::from_str_radix(&lower[1..], 8).ok(),
        None => lower.parse().ok(),
    }
}

/// Parses a number from `min` to `max`.
pub(super) fn within(text: &str, min: u64, max: u64) -> Option<u64> {
    number(text).filter(|n| (min..=max).contains(n))
}

/// Parses a number from 0 to `max`.
pub(super) fn small(text: &str, max: u8) -> Option<u8> {
    within(text, 0, u64::from(max)).and_then(|n| u8::try_from(n).ok())
}

/// Parses a boolean: `TRUE` is true. OpenSM takes everything else for false; here only `FALSE` is accepted.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "TRUE" => Some(true),
        "FALSE" => Some(false),
        _ => None,
    }
}

/// Parses a time in milliseconds, which must not be zero.
pub(super) fn millis(text: &str) -> Option<Duration> {
    within(text, 1, 3_600_000).map(Duration::from_millis)
}

/// True if OpenSM treats a value like the option's default. Numbers compare by value, booleans as OpenSM reads them
/// (everything except `TRUE` is false), paths without a trailing slash, and other texts character by character.
pub(super) fn same(value: &str, default: &str) -> bool {
    let is_boolean = matches!(default, "TRUE" | "FALSE");
    let is_path = default.starts_with('/');
    let numbers = (number(value), number(default));
    value == default
        || is_boolean && (value == "TRUE") == (default == "TRUE")
        || is_path && value.trim_end_matches('/') == default.trim_end_matches('/')
        || matches!(numbers, (Some(a), Some(b)) if a == b)
}

/// True if an option with this default holds a text, which `(null)` clears.
pub(super) fn is_text(default: &str) -> bool {
    number(default).is_none() && !matches!(default, "TRUE" | "FALSE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        let check = |text: &str, want: Option<u64>| assert_eq!(number(text), want, "{text}");
        check("18", Some(18));
        check("0x12", Some(18));
        check("0X12", Some(18));
        check("022", Some(18));
        check("0", Some(0));
        check("08", None);
        check("-1", None);
        check("", None);
        check("0x", None);
        check("18 ", None);
    }

    #[test]
    fn defaults_are_recognised_however_written() {
        let check = |one: &str, other: &str, want: bool| assert_eq!(same(one, other), want, "{one} {other}");
        check("0x12", "18", true);
        check("TRUE", "TRUE", true);
        check("TRUE", "FALSE", false);
        check("false", "FALSE", true);
        check("no", "FALSE", true);
        check("true", "TRUE", false);
        check("/var/log", "/var/log/", true);
        check("/var", "/var/log/", false);
        check("(null)", "(null)", true);
        check("minhop", "(null)", false);
    }
}
