//! Words of faults: splitting, numbers with units, and errors that name what is wanted.

use core::fmt;
use core::time::Duration;

use selvedge_sim::Ratio;

use crate::EmulatorError;
use crate::config::nanos;

/// Returns the error for a word that is no name of its kind, with the closest name.
pub(crate) fn unknown(kind: &'static str, word: &str, known: &[&str]) -> EmulatorError {
    /// Letters that may differ in a name that is close.
    const NEAR: usize = 3;
    let distance = |name: &str| strsim::damerau_levenshtein(word, name);
    let close = known.iter().map(|name| (distance(name), *name)).min();
    let close = close.filter(|(distance, name)| *distance <= NEAR.min(name.len() / 2 + 1));
    EmulatorError::UnknownWord {
        kind,
        word: word.to_owned(),
        meant: close.map_or_else(String::new, |(_, name)| format!(" (did you mean '{name}'?)")),
        known: known.join(", "),
    }
}

/// Splits at a character outside quotes.
pub(crate) fn split(text: &str, at: char) -> Vec<String> {
    split_where(text, |c| c == at)
}

/// Returns the error for an invalid text (as short as possible) and the text expected.
pub(crate) fn no(text: &str, want: &'static str) -> EmulatorError {
    EmulatorError::Syntax {
        text: text.to_owned(),
        want,
    }
}

/// Returns the part of a word after `key`.
pub(crate) fn value<T>(
    word: &str,
    key: &str,
    want: &'static str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, EmulatorError> {
    word.strip_prefix(key).and_then(read).ok_or_else(|| no(word, want))
}

pub(crate) fn ratio_word(word: &str) -> Result<Ratio, EmulatorError> {
    ratio(word).ok_or_else(|| no(word, "a RATIO up to 100%, as 1%, 0.25% or 1/200"))
}

/// Splits at spaces outside quotes.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = split_where(text, char::is_whitespace);
    words.retain(|w| !w.is_empty());
    words
}

fn split_where(text: &str, splits: impl Fn(char) -> bool) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        if splits(c) && !quoted {
            words.push(String::new());
        } else if let Some(word) = words.last_mut() {
            word.push(c);
        }
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
    }
    words
}

/// Parses `1%`, `0.25%`, `1/200`.
fn ratio(text: &str) -> Option<Ratio> {
    let ratio = match text.strip_suffix('%') {
        Some(percent) => {
            let (whole, fraction) = percent.split_once('.').unwrap_or((percent, ""));
            let digits = u32::try_from(fraction.len()).ok()?;
            let numeric = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
            if whole.is_empty() || !numeric(whole) || !numeric(fraction) {
                return None;
            }
            Ratio {
                numerator: format!("{whole}{fraction}").parse().ok()?,
                denominator: 10_u32.checked_pow(digits.checked_add(2)?)?,
            }
        }
        None => {
            let (numerator, denominator) = text.split_once('/')?;
            Ratio {
                numerator: numerator.parse().ok()?,
                denominator: denominator.parse().ok()?,
            }
        }
    };
    (ratio.denominator > 0 && ratio.numerator <= ratio.denominator).then_some(ratio)
}

/// Parses `250ns`, `10us`, `5ms`, `2s`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ns" => Some(Duration::from_nanos(number)),
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

/// Prints a ratio so that [`ratio`] can parse it.
pub(crate) struct RatioText(pub Ratio);

impl fmt::Display for RatioText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ratio { numerator, denominator } = self.0;
        let digits = denominator.checked_ilog10().unwrap_or(0);
        if digits < 2 || 10_u32.checked_pow(digits) != Some(denominator) {
            return write!(f, "{numerator}/{denominator}");
        }
        let unit = denominator / 100;
        write!(f, "{}", numerator / unit)?;
        if digits > 2 {
            write!(f, ".{:0width$}", numerator % unit, width = digits as usize - 2)?;
        }
        f.write_str("%")
    }
}

/// Prints a duration in the largest exact unit.
pub(crate) struct DurationText(pub Duration);

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match nanos(self.0) {
            ns if ns % 1_000_000_000 == 0 => write!(f, "{}s", ns / 1_000_000_000),
            ns if ns % 1_000_000 == 0 => write!(f, "{}ms", ns / 1_000_000),
            ns if ns % 1_000 == 0 => write!(f, "{}us", ns / 1_000),
            ns => write!(f, "{ns}ns"),
        }
    }
}
