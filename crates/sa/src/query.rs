//! The engine that answers for every record: rows from a table, compared with a component mask, in pieces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_plan::multicast::MftBlocks;
use selvedge_types::Guid;
use selvedge_wire::sa::{Filter, Layout, SaData};

use crate::alias::Aliases;
use crate::inform::Subscriptions;
use crate::member::{self, Groups};
use crate::path::Paths;
use crate::service::Services;
use crate::snapshot::Snapshot;

/// Rows that one piece looks at: about 0.3 ms.
pub(crate) const ROWS_PER_PIECE: u32 = 2_000;

/// What clients have registered.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    pub services: Services,
    pub groups: Groups,
    pub subscriptions: Subscriptions,
    /// Alias GUIDs of ports.
    pub aliases: Aliases,
    /// What switches copy of multicast, by GUID.
    pub copies: Arc<BTreeMap<Guid, MftBlocks>>,
    /// Ports that had registered something and are gone since.
    pub forgotten: BTreeSet<Guid>,
}

impl Registered {
    /// Ports that have registered anything and are gone are noted; those that are back are not any more, once the
    /// manager has asked them. Returns true if that changed anything.
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

/// What rows are made of.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub snapshot: &'a Snapshot,
    pub registered: &'a Registered,
    /// The requester is trusted: keys and members are shown.
    pub trusted: bool,
}

/// Where in a table a query is: an outer thing (an end port, a registration) and an inner one (a port, a block).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub outer: u64,
    pub inner: u32,
}

impl Cursor {
    /// To the next outer thing.
    pub const fn next_outer(&mut self) {
        *self = Self {
            outer: self.outer + 1,
            inner: 0,
        };
    }
}

/// What one step through a table found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A row, written down; the cursor stands behind it.
    Row,
    /// Nothing here; the cursor has moved on.
    Nothing,
    /// The table ends here.
    End,
}

/// A table: how to get from a cursor to the next row. Rows are written into zeros.
pub(crate) type Advance = fn(&Ground<'_>, &mut Cursor, &mut SaData) -> Step;

/// Where rows come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A table, from here to (not including) this outer thing.
    Table { advance: Advance, cursor: Cursor, end: u64 },
    /// Paths.
    Paths(Box<Paths>),
    /// One row, if it is not taken yet.
    Ready(Option<Box<SaData>>),
}

/// A question and how far its answer is.
#[derive(Debug)]
pub(crate) struct Query {
    pub layout: &'static Layout,
    pub filter: Filter,
    /// What a question about groups asks for beside equality.
    pub member_wishes: Option<member::Wishes>,
    pub source: Source,
    pub snapshot: Arc<Snapshot>,
    pub trusted: bool,
}

/// What a piece of work came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A row.
    Row,
    /// Nothing yet: the budget is spent.
    Later,
    /// There are no more rows.
    End,
}

impl Query {
    /// The next row that suits; looks at no more rows than `budget`, and takes those off it.
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
                Source::Paths(paths) => paths.next(&self.snapshot, row),
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
