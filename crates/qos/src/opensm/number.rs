//! Numbers as OpenSM's files have them.

/// Parses a number as C's `strtoul` with base 0 does: hexadecimal after 0x, octal after 0, else decimal. Unlike C it
/// accepts neither a sign nor text after the number.
pub(crate) fn number(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = match hex {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    // `from_str_radix` accepts a sign.
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_those_of_c() {
        let check = |text: &str, want: Option<u64>| assert_eq!(number(text), want, "{text}");
        check("0", Some(0));
        check("00", Some(0));
        check("017", Some(15));
        check("0x1F", Some(31));
        check("0XfF", Some(255));
        check("19", Some(19));
        check("0xffffffffffffffff", Some(u64::MAX));
        check("08", None);
        check("0x", None);
        check("+1", None);
        check("0x-1", None);
        check("4k", None);
        check("", None);
        check("18446744073709551616", None);
    }
}
