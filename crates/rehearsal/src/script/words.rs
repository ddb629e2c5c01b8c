//! Words of a command line.

use std::time::Duration;

use super::ScriptError;

/// Splits at spaces outside quotes. Quotes stay, because names are read with them.
pub fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        quoted ^= c == '"';
        match words.last_mut() {
            Some(word) if quoted || !c.is_whitespace() => word.push(c),
            _ => words.push(String::new()),
        }
    }
    words.retain(|w| !w.is_empty());
    words
}

/// Reads a span of time, such as `250ns`, `10us`, `5ms` or `2s`.
pub fn span(text: &str) -> Result<Duration, ScriptError> {
    let bad = || syntax(text, "a time span as 10us, 5ms or 2s");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let number: u64 = text[..digits].parse().map_err(|_| bad())?;
    match &text[digits..] {
        "ns" => Ok(Duration::from_nanos(number)),
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        _ => Err(bad()),
    }
}

/// Returns a number, decimal or `0x…`.
pub fn number<T: TryFrom<u64>>(text: &str) -> Result<T, ScriptError> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let value = parsed.and_then(|n| T::try_from(n).ok());
    value.ok_or_else(|| syntax(text, "a number that fits, decimal or 0x…"))
}

/// Splits a word `key=value`.
pub fn pair(word: &str) -> Result<(&str, &str), ScriptError> {
    word.split_once('=').ok_or_else(|| syntax(word, "key=value"))
}

/// Returns the error for a word that cannot be parsed.
pub fn syntax(text: &str, want: &'static str) -> ScriptError {
    ScriptError::Syntax {
        text: text.to_owned(),
        want,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(split("cut  \"a b\"[3] x=1 "), ["cut", "\"a b\"[3]", "x=1"]);
        assert!(split("  ").is_empty());
    }

    #[test]
    fn spans_and_numbers() {
        assert_eq!(span("5ms").unwrap(), Duration::from_millis(5));
        assert!(span("5").is_err() && span("ms").is_err() && span("5h").is_err());
        assert_eq!(number::<u8>("0x10").unwrap(), 16);
        assert!(number::<u8>("256").is_err() && number::<u64>("x").is_err());
    }
}
