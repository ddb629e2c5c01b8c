//! guid2lid: the LIDs of every port, in OpenSM's file format.
//!
//! One entry per port, `0x<guid, 16 digits> 0x<first LID, 4 digits> 0x<last LID, 4 digits>`, each followed by a blank
//! line. Source: OpenSM 3.3.23 observed, and the layout that its reader accepts (osm_db_files.c, osm_db_pack.c).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use selvedge_types::{Guid, Lid, LidRange, Lmc};

use crate::error::LineError;

/// LIDs by port GUID.
pub type LidMap = BTreeMap<Guid, LidRange>;

/// Reads a guid2lid file; an error comes with its line, counted from 1.
pub fn parse_guid2lid(bytes: &[u8]) -> Result<LidMap, (usize, LineError)> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err((1, LineError::NoText));
    };
    let mut map = LidMap::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let result = match words[..] {
            [] => continue,
            [guid, min, max] => parse_entry(guid, min, max, &mut map),
            _ => Err(LineError::Shape {
                found: line.chars().take(60).collect(),
            }),
        };
        result.map_err(|error| (number + 1, error))?;
    }
    Ok(map)
}

/// Writes a guid2lid file as OpenSM does; ports in ascending GUID order.
#[must_use]
pub fn print_guid2lid(map: &LidMap) -> String {
    let mut text = String::with_capacity(map.len() * 35);
    for (guid, range) in map {
        // Writing to a String cannot fail.
        let _ = write!(text, "{guid} {:#06x} {:#06x}\n\n", range.base.0, range.last().0);
    }
    text
}

fn parse_entry(guid: &str, min: &str, max: &str, map: &mut LidMap) -> Result<(), LineError> {
    let key: Guid = guid.parse().map_err(|_| LineError::Guid { found: guid.to_owned() })?;
    let range = range(min, max).ok_or_else(|| LineError::Lids {
        min: min.to_owned(),
        max: max.to_owned(),
    })?;
    match map.insert(key, range) {
        None => Ok(()),
        Some(_) => Err(LineError::Twice { found: guid.to_owned() }),
    }
}

fn range(min: &str, max: &str) -> Option<LidRange> {
    let lid = |text: &str| match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let (min, max) = (lid(min)?, lid(max)?);
    let count = max.checked_sub(min)?.checked_add(1)?;
    let lmc = Lmc::new(u8::try_from(count.ilog2()).ok()?)?;
    let is_range = count.is_power_of_two() && Lid(min).is_unicast() && Lid(max).is_unicast();
    is_range.then_some(LidRange { base: Lid(min), lmc })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by OpenSM 3.3.23 (`lmc 1`) on an ibsim fabric of one switch and two hosts; it writes hash order.
    const OPENSM: &str = "0x0000000000100003 0x0006 0x0007\n\n0x0000000000200000 0x0004 0x0004\n\n\
                          0x0000000000100001 0x0002 0x0003\n\n";

    #[test]
    fn opensm_files_come_back_sorted() {
        let map = parse_guid2lid(OPENSM.as_bytes()).unwrap();
        assert_eq!(map[&Guid(0x10_0001)].lmc.get(), 1);
        let mut sorted: Vec<&str> = OPENSM.split_inclusive("\n\n").collect();
        sorted.sort_unstable();
        assert_eq!(print_guid2lid(&map), sorted.concat());
    }

    #[test]
    fn what_is_no_entry_is_refused_with_its_line() {
        let check = |text: &str, line: usize, want: &str| {
            let (at, error) = parse_guid2lid(text.as_bytes()).unwrap_err();
            assert_eq!((at, error.to_string()), (line, want.to_owned()), "{text:?}");
        };
        check("hello\n", 1, "want '0xGUID 0xMINLID 0xMAXLID', found 'hello'");
        check("\n\n0x1 0x2\n", 3, "want '0xGUID 0xMINLID 0xMAXLID', found '0x1 0x2'");
        check("0xzz 0x1 0x1\n", 1, "'0xzz' is no GUID");
        let lids = |min, max| format!("LIDs '{min}' to '{max}' are no unicast range of 2^LMC LIDs (0x0001-0xbfff)");
        check("0x1 0x0 0x0\n", 1, &lids("0x0", "0x0"));
        check("0x1 0x4 0x3\n", 1, &lids("0x4", "0x3"));
        check("0x1 0x4 0x6\n", 1, &lids("0x4", "0x6"));
        check("0x1 0xc000 0xc000\n", 1, &lids("0xc000", "0xc000"));
        check("0x1 0x0 0xffff\n", 1, &lids("0x0", "0xffff"));
        check("0x1 0x1 0x1\n\n0x01 0x2 0x2\n", 3, "the GUID 0x01 has an entry already");
    }

    #[test]
    fn bytes_of_any_kind_do_not_panic() {
        assert_eq!(parse_guid2lid(b"\xff\xfe 0x1 0x1"), Err((1, LineError::NoText)));
        assert_eq!(parse_guid2lid(b""), Ok(LidMap::new()));
    }
}
