//! The query engine for all records: rows from a table, compared with a component mask, in pieces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_plan::multicast::MftBlocks;
use selvedge_types::Guid;
use selvedge_wire::sa::{Filter, Layout, SaData};

use crate::alias::Aliases;
use crate::inform::Subscriptions;
use crate::jobs::JobBook;
use crate::member::{self, Groups};
use crate::path::Paths;
use crate::service::Services;
use crate::snapshot::Snapshot;

/// Number of rows examined per piece of an answer: about 0.3 ms.
pub(crate) const ROWS_PER_PIECE: u32 = 2_000;

/// Registrations of clients.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    pub services: Services,
    pub groups: Groups,
    pub subscriptions: Subscriptions,
    /// Alias GUIDs of ports.
    pub aliases: Aliases,
    /// Current MFT blocks of switches, by GUID.
    pub copies: Arc<BTreeMap<Guid, MftBlocks>>,
    /// Absent ports that had registered something.
    pub forgotten: BTreeSet<Guid>,
    /// The text of the list of places out of service, for standbys.
    pub out_of_service: Arc<str>,
    /// Jobs, and the ports of their hosts.
    pub jobs: JobBook,
}

impl Registered {
    /// Records absent ports with registrations. Ports that are back are removed from the record when the manager has
    /// asked them to register again. Returns true if the record changed.
    pub fn note_gone(&mut self, is_there: impl Fn(Guid) -> bool, unasked: &BTreeSet<Guid>) -> bool {
        let before = self.forgotten.clone();
        self.forgotten.retain(|guid| !is_there(*guid));
        self.forgotten.extend(unasked);
        let members = self
            .groups
            .iter()
            .flat_map(|group| group.members.iter().map(|m| self.aliases.port_of(m.guid)));
        let all = members.chain(self.subscriptions.owners()).chain(self.services.owners());
        self.forgotten.extend(all.filter(|guid| !is_there(*guid)));
        self.forgotten != before
    }
}

/// The data from which rows are written.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub snapshot: &'a Snapshot,
    pub registered: &'a Registered,
    /// True if the requester is trusted: keys and members are shown.
    pub trusted: bool,
}

/// Position of a query in a table: an outer index (an end port, a registration) and an inner one (a port, a block).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub outer: u64,
    pub inner: u32,
}

impl Cursor {
    /// Moves to the next outer index.
    pub const fn next_outer(&mut self) {
        *self = Self {
            outer: self.outer + 1,
            inner: 0,
        };
    }
}

/// Result of one step through a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A row was written. The cursor is after it.
    Row,
    /// There is no row here. The cursor has moved to the next place.
    Nothing,
    /// The table ends here.
    End,
}

/// A table: a function that moves a cursor to the next row and writes the row into zeroed bytes.
pub(crate) type Advance = fn(&Ground<'_>, &mut Cursor, &mut SaData) -> Step;

/// Source of rows.
#[derive(Debug)]
pub(crate) enum Source {
    /// A table, from the cursor up to this outer index (exclusive).
    Table { advance: Advance, cursor: Cursor, end: u64 },
    /// Paths.
    Paths(Box<Paths>),
    /// One row; `None`: it was returned already.
    Ready(Option<Box<SaData>>),
}

/// A query and its progress.
#[derive(Debug)]
pub(crate) struct Query {
    pub layout: &'static Layout,
    pub filter: Filter,
    /// Special conditions of a query for groups.
    pub member_wishes: Option<member::Wishes>,
    pub source: Source,
    pub snapshot: Arc<Snapshot>,
    pub trusted: bool,
}

/// Result of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A row.
    Row,
    /// No row yet, because the budget is used up.
    Later,
    /// There are no more rows.
    End,
}

impl Query {
    /// Returns the next matching row. Examines at most `budget` rows, and subtracts their number from it.
    pub fn next(&mut self, registered: &Registered, row: &mut SaData, budget: &mut u32) -> Found {
        let ground = Ground {
            snapshot: &self.snapshot,
            registered,
            trusted: self.trusted,
        };
        while *budget > 0 {
            *budget -= 1;
            row.fill(0);
            let step = match &mut self.source {
                Source::Table { cursor, end, .. } if cursor.outer >= *end => Step::End,
                Source::Table { advance, cursor, .. } => advance(&ground, cursor, row),
                Source::Paths(paths) => paths.next((&self.snapshot, registered), row),
                Source::Ready(ready) => match ready.take() {
                    Some(only) => {
                        *row = *only;
                        Step::Row
                    }
                    None => Step::End,
                },
            };
            let suits = |row: &SaData| {
                let wished = self.member_wishes.is_none_or(|wishes| wishes.accepts(row));
                wished && self.filter.accepts(row)
            };
            match step {
                Step::Row if suits(row) => return Found::Row,
                Step::Row | Step::Nothing => {}
                Step::End => return Found::End,
            }
        }
        Found::Later
    }
}
