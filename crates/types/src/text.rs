//! Text from devices, escaped for output to people.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns `text` with every control and format character escaped, as `\u{1b}`. So no name can move a terminal's
/// cursor, set its colours, break a line or change the direction of the following text.
///
/// A node's description may contain any character. JSON keeps it unchanged; text for people is escaped here.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Returns `text` as [`printable`] does, except that line breaks stay.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\n')
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_shown = |c: char| stays(c) || !is_hidden(c);
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_shown(c) {
            true => shown.push(c),
            // Writing to memory cannot fail.
            false => drop(write!(shown, "{}", c.escape_unicode())),
        }
    }
    Cow::Owned(shown)
}

/// Returns true for characters that show nothing themselves. Source: Unicode 16, categories Cc, Cf, Zl and Zp.
const fn is_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{ad}'
        | '\u{600}'..='\u{605}'
        | '\u{61c}'
        | '\u{6dd}'
        | '\u{70f}'
        | '\u{890}'..='\u{891}'
        | '\u{8e2}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{110bd}'
        | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_no_others() {
        let check = |text: &str, want: &str| assert_eq!(printable(text), want, "{text:?}");
        check("\u{1b}[31mX", "\\u{1b}[31mX");
        check("S\u{202e}X", "S\\u{202e}X");
        check("a\nb\tc\r\u{7f}\u{9b}0m", "a\\u{a}b\\u{9}c\\u{d}\\u{7f}\\u{9b}0m");
        check(
            "\u{2066}\u{200b}\u{feff}\u{2028}",
            "\\u{2066}\\u{200b}\\u{feff}\\u{2028}",
        );
        check("\u{e0041}", "\\u{e0041}");
        for plain in ["", "leaf 1", "Gerät – 北京 – \\u{1b}", "שלום", "🖧", "½ × …"] {
            assert!(
                matches!(printable(plain), Cow::Borrowed(text) if text == plain),
                "{plain}"
            );
        }
    }

    #[test]
    fn lines_stay() {
        assert_eq!(printable_lines("a\nb\u{1b}c\n"), "a\nb\\u{1b}c\n");
        assert_eq!(printable_lines("a\rb"), "a\\u{d}b");
    }
}
