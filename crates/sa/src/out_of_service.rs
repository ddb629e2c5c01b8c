//! The list of places out of service of a master: the table for its standbys, and its decoding.
//!
//! A standby that takes over must not lead routes over a place that the operator has drained. It knows by a number in
//! the [revision](mod@crate::revision) that the master has another list.

use std::sync::Arc;

use selvedge_plan::OutOfService;
use selvedge_wire::sa::{SaData, records};

use crate::query::{Cursor, Ground, Step};

/// Bytes of the text in a row.
const PIECE: usize = 64;

/// Writes the text of the list, a piece a row.
pub fn rows(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let text = ground.registered.out_of_service.as_bytes();
    let begin = usize::try_from(cursor.outer).unwrap_or(usize::MAX);
    let left = text.get(begin..).unwrap_or_default();
    if left.is_empty() {
        return Step::End;
    }
    records::out_of_service::TEXT.put(row, &left[..left.len().min(PIECE)]);
    cursor.outer += PIECE as u64;
    Step::Row
}

/// Decodes rows that [`rows`] wrote into the list with a number; `None` if they are not this list.
pub fn read(rows: impl Iterator<Item = SaData>, number: u32) -> Option<Arc<OutOfService>> {
    let mut bytes: Vec<u8> = rows.flat_map(|row| row.into_iter().take(PIECE)).collect();
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(end);
    let text = String::from_utf8(bytes)
        .ok()
        .filter(|text| self::number(text) == number)?;
    OutOfService::parse(&text).ok().map(Arc::new)
}

/// Returns a number that differs for different texts, and is 0 for no text. It is the FNV-1a hash of the text.
pub fn number(text: &str) -> u32 {
    if text.is_empty() {
        return 0;
    }
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_put_together_and_another_list_is_none() {
        let text = "drain switch 0x0000000000000010 since 5 reason the fan of the second power supply is broken\n";
        let pieces = || {
            text.as_bytes().chunks(PIECE).map(|piece| {
                let mut row: SaData = [0; selvedge_wire::sa::SA_DATA_LEN];
                records::out_of_service::TEXT.put(&mut row, piece);
                row
            })
        };
        assert!(pieces().count() > 1 && records::OUT_OF_SERVICE.len == PIECE);
        let read_again = read(pieces(), number(text)).map(|list| list.to_text());
        assert_eq!(read_again.as_deref(), Some(text));
        assert_eq!(read(pieces().take(1), number(text)), None, "it is cut short");
        assert_eq!(read(pieces(), 7), None, "it has changed meanwhile");
        assert_eq!(read(std::iter::empty(), 0).map(|list| list.len()), Some(0));
        assert_eq!((number(""), number(text) == 0), (0, false));
    }
}
