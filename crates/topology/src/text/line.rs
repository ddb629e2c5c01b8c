//! Parsers for parts of lines: numbers, rates, ids, quoted texts.

use selvedge_types::{Guid, LinkSpeed, LinkWidth, Rate};

/// Returns the rate that a text such as `4xEDR` names; `None` unless both width and speed are known.
pub fn parse_rate(text: &str) -> Option<Rate> {
    read_rate(text).filter(|rate| rate.speed != LinkSpeed::Unknown)
}

/// Returns the rate that a listing states; `None` without a known width. A speed that this release does not know, as in
/// `4x???`, becomes [`LinkSpeed::Unknown`].
pub fn read_rate(text: &str) -> Option<Rate> {
    let (lanes, speed) = text.split_once('x')?;
    let lanes: u8 = lanes.parse().ok()?;
    let known = LinkSpeed::ALL.into_iter().find(|s| s.to_string() == speed);
    Some(Rate {
        width: LinkWidth::ALL.into_iter().find(|w| w.lanes() == lanes)?,
        speed: known.unwrap_or(LinkSpeed::Unknown),
    })
}

/// True for a text where a rate is expected: `4xXDR`, `?????`.
pub fn looks_like_rate(text: &str) -> bool {
    let after_lanes = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.starts_with("??") || (after_lanes.len() < text.len() && after_lanes.starts_with('x'))
}

/// Returns the highest width in a PortInfo.LinkWidth* bit set. `None` without a width, or with an undefined bit.
pub fn width_of_bits(bits: u64) -> Option<LinkWidth> {
    let known = LinkWidth::ALL
        .into_iter()
        .fold(0, |all, width| all | u64::from(width.bit()));
    LinkWidth::ALL
        .into_iter()
        .rev()
        .find(|w| bits & u64::from(w.bit()) != 0 && bits & !known == 0)
}

/// Returns the highest speed in PortInfo.LinkSpeed* and LinkSpeedExt* bit sets. `None` without any, unknown if the
/// highest bit is undefined. Source: IBA vol 1 §14.2.5.6.
pub fn speed_of_bits(speeds: u64, extended: u64) -> Option<LinkSpeed> {
    const EXTENDED: [LinkSpeed; 4] = [LinkSpeed::Fdr, LinkSpeed::Edr, LinkSpeed::Hdr, LinkSpeed::Ndr];
    const BASIC: [LinkSpeed; 3] = [LinkSpeed::Sdr, LinkSpeed::Ddr, LinkSpeed::Qdr];
    let highest = |bits: u64, names: &[LinkSpeed]| {
        let place = bits.checked_ilog2()? as usize;
        Some(names.get(place).copied().unwrap_or(LinkSpeed::Unknown))
    };
    highest(extended, &EXTENDED).or_else(|| highest(speeds, &BASIC))
}

/// Parses a number as C's `strtoul(…, 0)` does: `0x` hexadecimal, else decimal. Returns it with the rest of the text.
pub fn leading_number(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start();
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let number = u64::from_str_radix(&digits[..end], radix).ok()?;
    Some((number, &digits[end..]))
}

/// Returns the GUID at the start of a text and ignores punctuation after it, as in `0x0002c90000000001:`.
pub fn leading_guid(text: &str) -> Option<Guid> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Returns the GUID in an id as printed by `ibnetdiscover`: `S-`, `H-` or `R-` and 16 hexadecimal digits.
pub fn guid_of_id(id: &str) -> Option<Guid> {
    let digits = ["S-", "H-", "R-"].iter().find_map(|p| id.strip_prefix(p))?;
    (digits.len() == 16).then(|| digits.parse().ok()).flatten()
}

/// Parses `(2c9020046c588)`. Returns the GUID and the rest.
pub fn guid_in_parentheses(text: &str) -> Option<(Guid, &str)> {
    let (digits, rest) = text.trim_start().strip_prefix('(')?.split_once(')')?;
    Some((digits.parse().ok()?, rest))
}

/// Parses `[12]`. Returns the number and the rest.
pub fn number_in_brackets(text: &str) -> Option<(u64, &str)> {
    let (digits, rest) = text.trim_start().strip_prefix('[')?.split_once(']')?;
    Some((digits.trim().parse().ok()?, rest))
}

/// Returns the text after `[ext 12]`, the port number printed on a chassis, or the whole text if it does not start so.
pub fn without_ext(text: &str) -> &str {
    let Some(rest) = text.trim_start().strip_prefix("[ext") else {
        return text;
    };
    rest.split_once(']').map_or(text, |(_, rest)| rest)
}

/// Parses `"text"`. Returns the text between the first two quotes, and the rest.
pub fn quoted(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.split_once('"')?;
    rest.split_once('"')
}

/// Returns the quoted part of a comment (from its first to its last quote, because descriptions may contain quotes),
/// with the parts before and after it.
pub fn outer_quoted(comment: &str) -> (&str, Option<&str>, &str) {
    match (comment.find('"'), comment.rfind('"')) {
        (Some(first), Some(last)) if first < last => {
            (&comment[..first], Some(&comment[first + 1..last]), &comment[last + 1..])
        }
        _ => ("", None, comment),
    }
}

/// Returns the number after a word: 4 in `lid 4 lmc 0` for `lid`.
pub fn number_after(text: &str, word: &str) -> Option<u64> {
    let mut words = text.split_ascii_whitespace();
    words.find(|w| *w == word)?;
    leading_number(words.next()?).map(|(n, _)| n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        let check = |text: &str, want: &str, looks: bool| {
            let rate = parse_rate(text).map_or_else(String::new, |r| r.to_string());
            assert_eq!((rate.as_str(), looks_like_rate(text)), (want, looks), "{text}");
        };
        check("4xEDR", "4xEDR", true);
        check("2xNDR", "2xNDR", true);
        check("12xFDR10", "12xFDR10", true);
        check("4xXDR", "4xXDR", true);
        check("4xGDR", "", true);
        check("4x???", "", true);
        check("16xNDR", "", true);
        check("?????", "", true);
        check("lid", "", false);
        check("x", "", false);
    }

    #[test]
    fn speeds_of_tomorrow_are_unknown_and_never_slow() {
        let check = |text: &str, want: Option<(LinkWidth, LinkSpeed)>| {
            assert_eq!(read_rate(text).map(|rate| (rate.width, rate.speed)), want, "{text}");
        };
        check("4x???", Some((LinkWidth::X4, LinkSpeed::Unknown)));
        check("2xGDR", Some((LinkWidth::X2, LinkSpeed::Unknown)));
        check("8xXDR", Some((LinkWidth::X8, LinkSpeed::Xdr)));
        check("16xXDR", None);
        check("??NDR", None);
        check("?????", None);
    }

    #[test]
    fn numbers_as_c_reads_them() {
        let check = |text: &str, want: Option<(u64, &str)>| assert_eq!(leading_number(text), want, "{text}");
        check("12ab", Some((12, "ab")));
        check(" 0x1f(2)", Some((31, "(2)")));
        check("0x", None);
        check("x", None);
        check("99999999999999999999", None);
    }

    #[test]
    fn bits_of_port_info() {
        assert_eq!(width_of_bits(3), Some(LinkWidth::X4));
        assert_eq!(width_of_bits(16), Some(LinkWidth::X2));
        assert_eq!(width_of_bits(0), None);
        assert_eq!(width_of_bits(0x22), None, "32 is no width");
        assert_eq!(width_of_bits(1 << 40), None);
        assert_eq!(speed_of_bits(7, 0), Some(LinkSpeed::Qdr));
        assert_eq!(speed_of_bits(7, 3), Some(LinkSpeed::Edr));
        assert_eq!(speed_of_bits(0, 0), None);
        assert_eq!(speed_of_bits(7, 16), Some(LinkSpeed::Unknown));
        assert_eq!(speed_of_bits(15, 0), Some(LinkSpeed::Unknown));
        assert_eq!(speed_of_bits(u64::MAX, u64::MAX), Some(LinkSpeed::Unknown));
    }

    #[test]
    fn quotes_inside_descriptions() {
        assert_eq!(
            outer_quoted(" lid 1 lmc 0 \"a \"b\" c\" lid 2 4xSDR"),
            (" lid 1 lmc 0 ", Some("a \"b\" c"), " lid 2 4xSDR")
        );
        assert_eq!(outer_quoted(" no \" pair"), ("", None, " no \" pair"));
    }
}
