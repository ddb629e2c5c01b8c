//! Ports with forgotten registrations: the table of a master for its standbys, and its decoding.
//!
//! A port that left and came back does not know that its registrations were removed, so the manager asks it to register
//! again. A standby that takes over can do so only if it knows these ports, because the copied tables no longer contain
//! their registrations.

use std::collections::BTreeSet;

use selvedge_types::Guid;
use selvedge_wire::sa::{SaData, records};

use crate::query::{Cursor, Ground, Step};

/// Writes the ports as rows, by GUID.
pub fn rows(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let all = &ground.registered.forgotten;
    let Some(&guid) = all.range(Guid(cursor.outer)..).next() else {
        return Step::End;
    };
    // The largest GUID is at the end of any table.
    *cursor = Cursor {
        outer: guid.0.saturating_add(1),
        inner: 0,
    };
    records::forgotten::GUID.set(row, guid.0);
    Step::Row
}

/// Decodes rows that [`rows`] wrote.
pub fn read(rows: impl Iterator<Item = SaData>) -> BTreeSet<Guid> {
    let guids = rows.map(|row| Guid(records::forgotten::GUID.get(&row)));
    guids.filter(|guid| *guid != Guid::NONE).collect()
}
