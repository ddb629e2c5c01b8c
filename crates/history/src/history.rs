//! The history of a fabric: takes samples, stores them, answers questions.

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use selvedge_telemetry::{Group, Sample, SampleKey, Wall};

use crate::config::{Config, micros};
use crate::disk::Disk;
use crate::hour::Hour;
use crate::job::{Done, Job};
use crate::names::HourId;
use crate::reading::{Moment, Reading};
use crate::shelf::Shelf;
use crate::table::{Table, Taken};
use crate::window::Window;
use crate::{HistoryError, Notice};

/// How long a failed job waits before it is tried again.
const RETRY_US: u64 = 60_000_000;

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The sample is in the window; it is in the history too if it is the first sample of a step.
    Taken,
    /// The port and group has this slot or a later one already: it was dropped.
    Duplicate,
}

/// Rows that could not be kept.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    rows: u64,
    range: Option<(Moment, Moment)>,
}

/// What was done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows that were taken to be stored. A row is one port and one group in one slot.
    pub rows: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Rows that were lost: the disk was full for long, or they came late.
    pub lost_rows: u64,
}

/// The history of a fabric.
///
/// A driver hands in every sample ([`Self::push`]), and calls [`Self::flush`] at the end of each slot and
/// [`Self::job`] now and then. What a manager that is killed loses is the slot since the last flush.
#[derive(Debug)]
pub struct History {
    pub(crate) shelf: Arc<Shelf>,
    config: Config,
    pub(crate) window: Window,
    pub(crate) tables: BTreeMap<Group, Table>,
    /// Complete files and their lengths.
    pub(crate) files: BTreeMap<HourId, u64>,
    /// What was found since the last flush.
    notices: Vec<Notice>,
    /// What failed, while storing fails.
    stopped: Option<String>,
    lost: Lost,
    late: u64,
    counts: Counts,
    /// The job that is being done.
    at_work: Option<HourId>,
    /// Wall time of the last flush, and from when on a job is tried again.
    now_us: u64,
    retry_us: u64,
}

impl History {
    pub(crate) fn new(disk: Arc<dyn Disk>, folder: &Path, fabric: &str, config: Config) -> Self {
        Self {
            shelf: Arc::new(Shelf::new(disk, folder, fabric)),
            window: Window::new(config.window_age, config.window_bytes_max),
            config,
            tables: BTreeMap::new(),
            files: BTreeMap::new(),
            notices: Vec::new(),
            stopped: None,
            lost: Lost::default(),
            late: 0,
            counts: Counts::default(),
            at_work: None,
            now_us: 0,
            retry_us: 0,
        }
    }

    /// Takes a sample of a class with this interval. Does no I/O.
    pub fn push(&mut self, sample: &Sample, interval: Duration) -> Pushed {
        let row = Reading::of(sample, sample.slot.begin(interval));
        let for_window = Reading { lead: None, ..row };
        if self.config.window_bytes_max > 0 && !self.window.push(sample.key, &for_window) {
            return Pushed::Duplicate;
        }
        self.store(sample.key, &row, micros(interval));
        Pushed::Taken
    }

    fn store(&mut self, key: SampleKey, row: &Reading, interval_us: u64) {
        let step_us = self.config.step_us();
        // What cannot be stored for long must not fill the memory: from here on rows are lost.
        if self.stopped.is_some() && self.pending_bytes() >= self.config.pending_bytes_max {
            // Of each step the first slot would have been stored.
            if row.moment.at_us % step_us < interval_us {
                self.lose(row.moment);
            }
            return;
        }
        let table = self.tables.entry(key.group).or_insert_with(|| Table::new(key.group));
        let newest = table.newest();
        match table.push(&self.shelf.fabric, key, row, step_us) {
            Taken::Yes => self.counts.rows += 1,
            Taken::SameStep => return,
            Taken::Late => {
                self.late += 1;
                self.counts.lost_rows += 1;
                return;
            }
        }
        let spacing_us = step_us.max(interval_us);
        if let Some(from) = newest.filter(|from| is_gap(*from, row.moment, spacing_us)) {
            self.notices.push(Notice::Gap {
                group: key.group,
                from,
                to: row.moment,
            });
        }
    }

    fn lose(&mut self, moment: Moment) {
        self.lost.rows += 1;
        self.counts.lost_rows += 1;
        let (from, to) = self.lost.range.unwrap_or((moment, moment));
        self.lost.range = Some((from.min(moment), to.max(moment)));
    }

    fn pending_bytes(&self) -> usize {
        self.tables.values().map(Table::pending_bytes).sum()
    }

    /// Writes what was taken since the last flush; returns what an operator should know. Never fails: what cannot be
    /// written stays in memory, up to a bound, and the next flush tries again.
    pub fn flush(&mut self, now: Wall) -> Vec<Notice> {
        self.now_us = now.0 / 1_000;
        for table in self.tables.values_mut() {
            table.close_idle(&self.shelf.fabric, self.now_us);
        }
        let written = self.write_journals();
        self.note_storing(written);
        for table in self.tables.values_mut() {
            table.settle();
        }
        self.keep_bounds();
        if self.late > 0 {
            let stored = self.tables.values().filter_map(Table::newest).max().unwrap_or_default();
            let rows = std::mem::take(&mut self.late);
            self.notices.push(Notice::Late { rows, stored });
        }
        std::mem::take(&mut self.notices)
    }

    fn write_journals(&mut self) -> Result<(), HistoryError> {
        for table in self.tables.values_mut() {
            // An hour that is complete has nothing to write.
            for hour in table.closing.iter_mut().chain(table.open.as_mut()) {
                let name = hour.id.journal();
                if let Some((at, bytes)) = hour.unwritten() {
                    let len = bytes.len() as u64;
                    let appended = self.shelf.disk.append(&name, at, bytes);
                    // A new file is found after a crash of the machine only if its folder was synced.
                    let appended = appended.and_then(|()| if at == 0 { self.shelf.disk.sync() } else { Ok(()) });
                    appended.map_err(|cause| self.shelf.error("write", &name, cause))?;
                    hour.note_written();
                    self.counts.written_bytes += len;
                }
            }
        }
        Ok(())
    }

    /// Notes whether storing works.
    fn note_storing(&mut self, result: Result<(), HistoryError>) {
        match (result, self.stopped.take()) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => {
                let lost = std::mem::take(&mut self.lost);
                self.notices.push(Notice::Resumed {
                    lost_rows: lost.rows,
                    lost: lost.range,
                });
            }
            (Err(error), before) => {
                let what = error.to_string();
                if before.is_none() {
                    let is_full = error.is_full();
                    let what = what.clone();
                    self.notices.push(Notice::Stopped { what, is_full });
                }
                self.stopped = Some(what);
            }
        }
    }

    /// Returns what storing fails with, while it fails.
    #[must_use]
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Returns the next piece of work, one at a time. Its result goes to [`Self::done`].
    pub fn job(&mut self) -> Option<Job> {
        if self.at_work.is_some() || self.now_us < self.retry_us {
            return None;
        }
        let ready = |table: &&Table| match &table.open {
            // The last rows of an hour are in the next one's journal before its own journal goes.
            Some(open) => table.is_open_complete || open.written() > 0,
            None => true,
        };
        let (id, hour) = self
            .tables
            .values()
            .filter(ready)
            .find_map(|table| table.waiting.first())?;
        self.at_work = Some(*id);
        Some(Job {
            shelf: Arc::clone(&self.shelf),
            id: *id,
            hour: hour.clone(),
        })
    }

    /// Takes the result of a job. After a failure the job is tried again in a minute.
    pub fn done(&mut self, done: Done) {
        self.at_work = None;
        let Some(table) = self.tables.get_mut(&done.id.group) else {
            return;
        };
        match done.result {
            Ok(bytes) => {
                table.waiting.retain(|(id, _)| *id != done.id);
                self.counts.written_bytes += bytes;
                if bytes > 0 {
                    self.files.insert(done.id, bytes);
                }
            }
            Err(error) => {
                self.retry_us = self.now_us.saturating_add(RETRY_US);
                self.notices.push(Notice::Unfinished {
                    file: done.id.parquet(),
                    what: error.to_string(),
                    is_full: error.is_full(),
                });
            }
        }
    }

    /// Does all work that is ready, on this thread.
    pub fn work(&mut self) {
        while let Some(job) = self.job() {
            let done = job.run();
            self.done(done);
        }
    }

    /// Removes files that are too old, and the oldest ones while all together are too long.
    fn keep_bounds(&mut self) {
        let floor_us = self.now_us.saturating_sub(micros(self.config.keep));
        let old: Vec<HourId> = self
            .files
            .keys()
            .filter(|id| id.hour.end_us() < floor_us)
            .copied()
            .collect();
        for id in old {
            self.remove(id);
        }
        let journals = self.journals_bytes();
        let (mut files, mut bytes) = (0, 0);
        while self.files.values().sum::<u64>() + journals > self.config.files_bytes_max {
            let oldest = self.files.keys().min_by_key(|id| (id.epoch, id.hour)).copied();
            let Some(len) = oldest.and_then(|oldest| self.remove(oldest)) else {
                break;
            };
            files += 1;
            bytes += len;
        }
        if files > 0 {
            self.notices.push(Notice::Removed { files, bytes });
        }
    }

    fn journals_bytes(&self) -> u64 {
        let open = self.tables.values().filter_map(|table| table.open.as_ref());
        open.map(Hour::written).sum()
    }

    /// Removes a file; returns its length. One that cannot be removed is tried again after the next start.
    fn remove(&mut self, id: HourId) -> Option<u64> {
        self.shelf.forget(id);
        let _ = self.shelf.disk.remove(&id.parquet());
        self.files.remove(&id)
    }

    /// Returns what was done since the start.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the begin of the oldest hour and the last slot that are stored, in microseconds since the Unix epoch.
    #[must_use]
    pub fn extent(&self) -> Option<(u64, u64)> {
        let open = self
            .tables
            .values()
            .flat_map(|table| table.closing.iter().chain(&table.open));
        let open = open.filter(|hour| hour.count() > 0).map(|hour| hour.id.hour);
        let waiting = self.tables.values().flat_map(|table| &table.waiting);
        let waiting = waiting.map(|(id, _)| id.hour);
        let oldest = self.files.keys().map(|id| id.hour).chain(waiting).chain(open).min()?;
        let newest = self
            .tables
            .values()
            .filter_map(Table::newest)
            .map(|newest| newest.at_us)
            .max()?;
        Some((oldest.begin_us(), newest))
    }

    /// Returns how much is stored.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let hours = self
            .tables
            .values()
            .flat_map(|table| table.closing.iter().chain(&table.open));
        let waiting = self.tables.values().flat_map(|table| &table.waiting);
        let waiting = waiting.filter_map(|(_, hour)| hour.as_deref());
        Usage {
            window_bytes: self.window.bytes(),
            hour_bytes: hours.chain(waiting).map(Hour::bytes).sum(),
            files: self.files.len(),
            files_bytes: self.files.values().sum(),
            journals_bytes: self.journals_bytes(),
            window_rows: self.window.rows(),
        }
    }

    /// Returns the settings.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }
}

/// How much is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Memory of the window.
    pub window_bytes: usize,
    /// Memory of hours that are not Parquet files yet.
    pub hour_bytes: usize,
    /// Number of Parquet files.
    pub files: usize,
    /// Bytes of the Parquet files.
    pub files_bytes: u64,
    /// Bytes of the journals of hours in progress.
    pub journals_bytes: u64,
    /// Rows in the window.
    pub window_rows: u64,
}

/// True if a slot is missing between two rows that are to be `spacing_us` apart. When the clock was set back, how much
/// time passed is not known.
pub(crate) const fn is_gap(from: Moment, to: Moment, spacing_us: u64) -> bool {
    from.epoch != to.epoch || to.at_us > from.at_us.saturating_add(spacing_us + spacing_us / 2)
}
