//! Texts as tables for standbys: the rows of a text, and the text of rows.
//!
//! A standby learns by a number in the [revision](mod@crate::revision) that the master has another text.

use selvedge_wire::sa::{Field, SaData};

use crate::query::{Cursor, Step};

/// Bytes of the text in a row.
pub const PIECE: usize = 64;

/// Writes the next piece of a text.
pub fn piece(text: &str, field: Field, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let begin = usize::try_from(cursor.outer).unwrap_or(usize::MAX);
    let left = text.as_bytes().get(begin..).unwrap_or_default();
    if left.is_empty() {
        return Step::End;
    }
    field.put(row, &left[..left.len().min(PIECE)]);
    cursor.outer += PIECE as u64;
    Step::Row
}

/// Puts pieces together into the text with a number; `None` if they are another text.
pub fn joined(rows: impl Iterator<Item = SaData>, number: u32) -> Option<String> {
    let mut bytes: Vec<u8> = rows.flat_map(|row| row.into_iter().take(PIECE)).collect();
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(end);
    let text = String::from_utf8(bytes).ok()?;
    (self::number(&text) == number).then_some(text)
}

/// Returns a number that differs for different texts, and is 0 for no text. It is the FNV-1a hash of the text.
pub fn number(text: &str) -> u32 {
    if text.is_empty() {
        return 0;
    }
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step).max(1)
}
