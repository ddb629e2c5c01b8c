//! The hours of one counter group.

use std::sync::Arc;

use selvedge_telemetry::{Group, SampleKey};

use crate::calendar;
use crate::hour::Hour;
use crate::names::HourId;
use crate::query::Span;
use crate::reading::{Moment, Reading};

/// Complete hours that stay in memory until they are written as Parquet files. Of further ones only the journal stays.
const COMPLETE_MAX: usize = 2;
/// How long after its end an hour is closed if no row of the next one comes.
const IDLE_US: u64 = 10 * 60_000_000;

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The row is stored with the next flush.
    Yes,
    /// The row is dropped: its port already has a row in this step of the history.
    SameStep,
    /// The row is dropped: it is earlier than the last row of its port, or belongs to an hour before the one in
    /// progress.
    Late,
}

/// The hours of one counter group.
#[derive(Debug)]
pub(crate) struct Table {
    group: Group,
    /// The last slot in a complete hour.
    pub complete_to: Option<Moment>,
    /// The last complete hour.
    pub complete: Option<(u32, calendar::Hour)>,
    /// The hour in progress, or the last one: the next one continues from it.
    pub open: Option<Hour>,
    /// True if `open` is a complete hour.
    pub is_open_complete: bool,
    /// Hours without further rows, with journals that are not written to the end yet.
    pub closing: Vec<Hour>,
    /// Hours that are to become Parquet files; `None`: the rows are in the journal only.
    pub waiting: Vec<(HourId, Option<Arc<Hour>>)>,
}

impl Table {
    pub const fn new(group: Group) -> Self {
        Self {
            group,
            complete_to: None,
            complete: None,
            open: None,
            is_open_complete: false,
            closing: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Returns the last slot that has a row.
    pub fn newest(&self) -> Option<Moment> {
        let open = self.open.as_ref().and_then(Hour::newest);
        let closing = self.closing.iter().filter_map(Hour::newest).max();
        let waiting = self
            .waiting
            .iter()
            .filter_map(|(_, hour)| hour.as_ref()?.newest())
            .max();
        open.max(self.complete_to).max(closing).max(waiting)
    }

    /// Takes a row, unless its port has one in this step or a later one.
    pub fn push(&mut self, fabric: &str, key: SampleKey, row: &Reading, step_us: u64) -> Taken {
        let step = |moment: Moment| (moment.epoch, moment.at_us / step_us);
        let hour = (row.moment.epoch, calendar::Hour::of(row.moment.at_us));
        if self.complete.is_some_and(|complete| hour <= complete) {
            return Taken::Late;
        }
        if let Some(open) = &self.open {
            if let Some(last) = open.last(key).filter(|last| step(row.moment) <= step(last.moment)) {
                return match row.moment < last.moment {
                    true => Taken::Late,
                    false => Taken::SameStep,
                };
            }
            if hour < (open.id.epoch, open.id.hour) {
                return Taken::Late;
            }
        }
        let is_new = self.is_open_complete
            || self
                .open
                .as_ref()
                .is_none_or(|open| hour > (open.id.epoch, open.id.hour));
        if is_new {
            self.turn(fabric, hour);
        }
        if let Some(open) = &mut self.open {
            open.push(key, row);
        }
        Taken::Yes
    }

    /// Begins an hour.
    fn turn(&mut self, fabric: &str, (epoch, hour): (u32, calendar::Hour)) {
        let id = HourId {
            group: self.group,
            epoch,
            hour,
        };
        let next = Hour::new(id, fabric, self.open.as_ref());
        let before = self.open.replace(next);
        if let Some(before) = before.filter(|_| !self.is_open_complete) {
            self.closing.push(before);
        }
        self.is_open_complete = false;
    }

    /// Closes an hour that ended a while ago and was followed by none. `now_us` is the wall time.
    pub fn close_idle(&mut self, fabric: &str, now_us: u64) {
        let Some(open) = &self.open else { return };
        let is_idle = open.id.hour.end_us().saturating_add(IDLE_US) < now_us;
        if is_idle && !self.is_open_complete && open.count() > 0 {
            let hour = calendar::Hour::of(now_us);
            self.turn(fabric, (open.id.epoch, hour));
        }
    }

    /// Moves hours with complete journals to those that wait to become Parquet files.
    pub fn settle(&mut self) {
        for hour in std::mem::take(&mut self.closing) {
            match hour.pending_bytes() {
                0 => self.wait(hour),
                _ => self.closing.push(hour),
            }
        }
    }

    /// Adds an hour that is to become a Parquet file.
    pub fn wait(&mut self, hour: Hour) {
        self.note_complete(hour.id, hour.newest());
        self.waiting.push((hour.id, Some(Arc::new(hour))));
        self.trim();
    }

    /// Forgets rows that are in journals, of all hours that wait but the last ones.
    fn trim(&mut self) {
        let in_memory = self.waiting.iter().filter(|(_, hour)| hour.is_some()).count();
        let surplus = in_memory.saturating_sub(COMPLETE_MAX);
        for (_, hour) in self.waiting.iter_mut().filter(|(_, hour)| hour.is_some()).take(surplus) {
            *hour = None;
        }
    }

    /// Notes that no further row of an hour is taken.
    pub fn note_complete(&mut self, id: HourId, newest: Option<Moment>) {
        self.complete = self.complete.max(Some((id.epoch, id.hour)));
        self.complete_to = self.complete_to.max(newest);
    }

    /// Returns all hours in memory that may have rows in a range.
    pub fn hours(&self, span: Span) -> impl Iterator<Item = &Hour> {
        let waiting = self.waiting.iter().filter_map(|(_, hour)| hour.as_deref());
        let open = self.open.iter().filter(|_| !self.is_open_complete);
        let all = waiting.chain(&self.closing).chain(open);
        all.filter(move |hour| hour.newest().is_some_and(|newest| span.may_have(hour.begin(), newest)))
    }

    /// Returns the bytes that are not in a journal yet.
    pub fn pending_bytes(&self) -> usize {
        let open = self.open.iter().filter(|_| !self.is_open_complete);
        self.closing.iter().chain(open).map(Hour::pending_bytes).sum()
    }
}
