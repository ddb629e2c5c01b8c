//! Ports whose registrations are forgotten, as a master tells its standbys and as a standby reads it.
//!
//! Whoever is back after it was forgotten does not know, and is asked to register again. A standby that takes over can
//! ask only if it knows of whom the master had forgotten something: the copy of the tables does not have them any more.

use std::collections::BTreeSet;

use selvedge_types::Guid;
use selvedge_wire::sa::{SaData, records};

use crate::query::{Cursor, Ground, Step};

/// Forgotten ports as rows, by GUID.
pub fn rows(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let all = &ground.registered.forgotten;
    let Some(&guid) = all.range(Guid(cursor.outer)..).next() else {
        return Step::End;
    };
    // The largest GUID is behind the end of any table.
    *cursor = Cursor {
        outer: guid.0.saturating_add(1),
        inner: 0,
    };
    records::forgotten::GUID.set(row, guid.0);
    Step::Row
}

/// What such rows say.
pub fn read(rows: impl Iterator<Item = SaData>) -> BTreeSet<Guid> {
    let guids = rows.map(|row| Guid(records::forgotten::GUID.get(&row)));
    guids.filter(|guid| *guid != Guid::NONE).collect()
}
