//! The list of places out of service of a master: the table for its standbys, and its decoding.
//!
//! A standby that takes over must not lead routes over a place that the operator has drained. It knows by a number in
//! the [revision](mod@crate::revision) that the master has another list.

use std::sync::Arc;

use selvedge_plan::OutOfService;
use selvedge_wire::sa::{SaData, records};

use crate::query::{Cursor, Ground, Step};
use crate::text_rows::{joined, piece};

/// Writes the text of the list, a piece a row.
pub fn rows(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let text = &ground.registered.out_of_service;
    piece(text, records::out_of_service::TEXT, cursor, row)
}

/// Decodes rows that [`rows`] wrote into the list with a number; `None` if they are not this list.
pub fn read(rows: impl Iterator<Item = SaData>, number: u32) -> Option<Arc<OutOfService>> {
    OutOfService::parse(&joined(rows, number)?).ok().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_rows::{PIECE, number};

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
