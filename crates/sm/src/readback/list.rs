//! The tables of one kind that are to be read back: their order, and which of them have been read.

use std::collections::BTreeSet;

use super::table::Table;
use super::turn::share;

/// The tables of one kind that are to be read back.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    /// Tables that were written and not read since, and tables that did not answer when it was their turn.
    unread: BTreeSet<Table>,
    /// The tables of the current read-back, in the order of the Gets.
    tables: Vec<Table>,
    /// Which of these tables have been read.
    is_read: Vec<bool>,
    /// Number of tables at the head of the list that were written and not read since; the others are read in turn.
    urgent: usize,
    /// Index of the next table to request.
    next: usize,
    /// The table that was read last, among those that are read in turn.
    last: Option<Table>,
}

impl List {
    /// Adds tables that are to be read in the next read-back.
    pub(super) fn add(&mut self, tables: impl IntoIterator<Item = Table>) {
        match self.unread.is_empty() {
            // Sorted at once: a bring-up writes a million blocks.
            true => self.unread = tables.into_iter().collect(),
            false => self.unread.extend(tables),
        }
    }

    /// Adds the share of the `known` tables that is read in this turn, in their order.
    pub(super) fn add_turn<I: Iterator<Item = Table>>(&mut self, known: impl Fn() -> I, read_backs: u32) {
        let (last, share) = (self.last, share(known().count(), read_backs));
        let behind = |table: &Table| last.is_none_or(|last| *table > last);
        let turn: Vec<Table> = known().filter(behind).chain(known()).take(share).collect();
        self.last = turn.last().copied().or(last);
        self.add(turn);
    }

    /// Returns the tables that are to be read in the next read-back.
    pub(super) const fn unread(&self) -> &BTreeSet<Table> {
        &self.unread
    }

    /// Drops unread tables that no longer count.
    pub(super) fn retain_unread(&mut self, counts: impl FnMut(&Table) -> bool) {
        self.unread.retain(counts);
    }

    /// Begins a read-back: first the unread tables, then the `others`. In both lists, only tables that `counts` accepts
    /// are read.
    pub(super) fn begin(&mut self, others: Vec<Table>, counts: impl Fn(&Table) -> bool) {
        let unread = std::mem::take(&mut self.unread);
        self.tables = unread.into_iter().filter(&counts).collect();
        self.urgent = self.tables.len();
        let is_new = |table: &Table| counts(table) && self.tables.binary_search(table).is_err();
        let others: Vec<Table> = others.into_iter().filter(is_new).collect();
        self.tables.extend(others);
        self.is_read = vec![false; self.tables.len()];
        self.next = 0;
    }

    /// Returns true if a read-back has begun and has tables to read.
    pub(super) const fn has_begun(&self) -> bool {
        !self.tables.is_empty()
    }

    /// Returns the next table to request, with its number.
    pub(super) fn next(&mut self) -> Option<(usize, Table)> {
        let table = *self.tables.get(self.next)?;
        self.next += 1;
        Some((self.next - 1, table))
    }

    /// Returns the table of a number.
    pub(super) fn get(&self, number: usize) -> Option<Table> {
        self.tables.get(number).copied()
    }

    /// Records that a table has been read.
    pub(super) fn note_read(&mut self, number: usize) {
        if let Some(is_read) = self.is_read.get_mut(number) {
            *is_read = true;
        }
    }

    /// Postpones the tables that are read in turn and have not been requested yet.
    pub(super) fn leave_others(&mut self) {
        let asked = self.next.max(self.urgent);
        self.tables.truncate(asked);
        self.is_read.truncate(asked);
    }

    /// Ends the read-back: tables that have not been read are read in the next one.
    pub(super) fn settle(&mut self) {
        let is_read = std::mem::take(&mut self.is_read);
        let tables = std::mem::take(&mut self.tables).into_iter().zip(is_read);
        self.add(tables.filter(|(_, is_read)| !is_read).map(|(table, _)| table));
    }

    /// Interrupts the read-back. The next one reads all its tables, even those that have been read.
    pub(super) fn start_over(&mut self) {
        self.is_read.fill(false);
        self.settle();
    }

    /// Drops the tables of the next read-back, and the position of the turn.
    pub(super) fn forget(&mut self) {
        self.unread.clear();
        self.last = None;
    }

    /// Ends the read-back. Tables that were not read are read again when it is their turn.
    pub(super) fn drop_all(&mut self) {
        *self = Self::default();
    }
}
