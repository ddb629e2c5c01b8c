//! Opens a history folder: which fabric it is of, what a crash left behind, where sampling goes on.

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use selvedge_telemetry::{Group, Row, Sample, SampleKey, Slot, Wall};

use crate::config::{Config, micros};
use crate::disk::{Disk, read_all};
use crate::history::History;
use crate::hour::Fault;
use crate::names::{DAMAGED, FABRIC, HourId, Kind, NEW};
use crate::reading::{Moment, Reading};
use crate::shelf::Shelf;
use crate::table::Table;
use crate::{HistoryError, Notice};

/// First word of the file that names the fabric, and the number of the folder's format.
const FABRIC_HEAD: &str = "selvedge-history 1";
/// Characters of a foreign file that are shown.
const SHOWN_MAX: usize = 60;

/// What opening a folder found.
#[derive(Debug)]
pub struct Opened {
    /// The history.
    pub history: History,
    /// Where the counters stood: a sampler that takes them goes on from there.
    pub resume: Vec<Resume>,
    /// What was lost or is damaged.
    pub notices: Vec<Notice>,
}

/// Where the counters of a port and group stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Node, port, group.
    pub key: SampleKey,
    /// The last stored row.
    pub reading: Reading,
}

impl Resume {
    /// Returns the sample with which a sampler continues, of a class with this number and interval.
    #[must_use]
    pub fn sample(&self, class: u8, interval: Duration) -> Sample {
        let row = &self.reading;
        let raw = |lead: Row| core::array::from_fn(|i| row.totals[i].wrapping_sub(lead[i]));
        let interval_us = micros(interval).max(1);
        Sample {
            key: self.key,
            class,
            slot: Slot {
                epoch: row.moment.epoch,
                number: row.moment.at_us / interval_us,
            },
            offset_us: row.offset_us,
            rtt_us: 0,
            agent: 0,
            how: row.how,
            totals: row.totals,
            raw: row.lead.map(raw),
            known: row.known,
            full: row.full,
            resets: row.resets,
        }
    }

    /// Returns when the row's slot began.
    #[must_use]
    pub const fn begin(&self) -> Wall {
        Wall(self.reading.moment.at_us.saturating_mul(1_000))
    }
}

impl History {
    /// Opens the history of a fabric in the folder of `disk`; `folder` is its name for messages. An empty folder
    /// becomes that fabric's.
    ///
    /// What a crash damaged is set aside and reported; the rest is used.
    ///
    /// # Errors
    ///
    /// A folder or file of another fabric; a failing disk. The folder is then as it was.
    pub fn open(disk: Arc<dyn Disk>, folder: &Path, fabric: &str, config: Config) -> Result<Opened, HistoryError> {
        // The name is a line of several files.
        let fabric: String = fabric.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mut opening = Opening {
            history: History::new(disk, folder, &fabric, config),
            notices: Vec::new(),
        };
        let names = opening
            .shelf()
            .disk
            .list()
            .map_err(|cause| opening.shelf().error("list", "", cause))?;
        opening.claim(&names)?;
        let mut found: BTreeMap<HourId, (bool, bool)> = BTreeMap::new();
        for (name, _) in &names {
            if let Some((id, kind)) = HourId::parse(name) {
                let (parquet, journal) = found.entry(id).or_default();
                *(if kind == Kind::Parquet { parquet } else { journal }) = true;
            }
        }
        // First what may refuse the folder, so that nothing was changed in it by then.
        let mut files = BTreeMap::new();
        for (id, (parquet, _)) in &mut found {
            if *parquet {
                *parquet = opening.open_file(*id, &mut files)?;
            }
        }
        for (id, (parquet, journal)) in &found {
            if *journal {
                opening.open_journal(*id, *parquet)?;
            }
        }
        opening.clean(&names, &found);
        Ok(opening.finish(files))
    }
}

struct Opening {
    history: History,
    notices: Vec<Notice>,
}

impl Opening {
    fn shelf(&self) -> &Shelf {
        &self.history.shelf
    }

    fn table(&mut self, group: Group) -> &mut Table {
        self.history.tables.entry(group).or_insert_with(|| Table::new(group))
    }

    /// Makes sure that the folder belongs to this fabric.
    fn claim(&self, names: &[(String, u64)]) -> Result<(), HistoryError> {
        let shelf = self.shelf();
        let path = shelf.folder.join(FABRIC);
        if names.iter().any(|(name, _)| name == FABRIC) {
            let bytes = read_all(&*shelf.disk, FABRIC).map_err(|cause| shelf.error("read", FABRIC, cause))?;
            let text = String::from_utf8_lossy(&bytes);
            let found = text.strip_prefix(FABRIC_HEAD).and_then(|rest| rest.strip_prefix('\n'));
            return match found.and_then(|rest| rest.strip_suffix('\n')) {
                Some(found) if found == shelf.fabric => Ok(()),
                Some(found) => Err(HistoryError::OtherFabric {
                    path: shelf.folder.clone(),
                    found: found.to_owned(),
                    want: shelf.fabric.clone(),
                }),
                None => Err(HistoryError::NoFabric {
                    path,
                    found: text.chars().take(SHOWN_MAX).collect(),
                }),
            };
        }
        if names.iter().any(|(name, _)| HourId::parse(name).is_some()) {
            let found = String::new();
            return Err(HistoryError::NoFabric { path, found });
        }
        let new = format!("{FABRIC}{NEW}");
        let text = format!("{FABRIC_HEAD}\n{}\n", shelf.fabric);
        let made = shelf
            .disk
            .write(&new, &mut |out| out.write_all(text.as_bytes()))
            .and_then(|_| shelf.disk.rename(&new, FABRIC))
            .and_then(|()| shelf.disk.sync());
        made.map_err(|cause| shelf.error("write", FABRIC, cause))
    }

    /// Opens a Parquet file; false if it is damaged.
    fn open_file(&mut self, id: HourId, files: &mut BTreeMap<HourId, u64>) -> Result<bool, HistoryError> {
        match crate::parquet_read::HourFile::open(&*self.shelf().disk, &self.shelf().folder, id, &self.shelf().fabric) {
            Ok(file) => {
                files.insert(id, file.bytes());
                self.table(id.group).note_complete(id, file.newest());
                Ok(true)
            }
            Err(HistoryError::Damaged { what, .. }) => {
                self.notices.push(Notice::Damaged {
                    file: id.parquet(),
                    what,
                    is_kept: false,
                });
                Ok(false)
            }
            Err(other) => Err(other),
        }
    }

    /// Reads a journal. `is_complete`: its hour is a Parquet file already.
    fn open_journal(&mut self, id: HourId, is_complete: bool) -> Result<(), HistoryError> {
        let (hour, fault) = match self.shelf().journal(id)? {
            Ok(replayed) => replayed,
            Err(Fault::OtherFabric(found)) => {
                return Err(HistoryError::OtherFabric {
                    path: self.shelf().folder.join(id.journal()),
                    found,
                    want: self.shelf().fabric.clone(),
                });
            }
            // Killed before the first rows were written, or damaged from the start on.
            Err(Fault::NoJournal | Fault::Torn { .. }) => {
                if !is_complete {
                    let what = "it does not begin as a journal".to_owned();
                    self.notices.push(Notice::Damaged {
                        file: id.journal(),
                        what,
                        is_kept: false,
                    });
                }
                return Ok(());
            }
        };
        if let (Some(Fault::Torn { lost, .. }), false) = (&fault, is_complete) {
            self.notices.push(Notice::TornJournal {
                file: id.journal(),
                lost_bytes: *lost,
                kept: hour.newest(),
            });
        }
        if !is_complete {
            let was_damaged =
                |notice: &&mut Notice| matches!(notice, Notice::Damaged { file, .. } if *file == id.parquet());
            if let Some(Notice::Damaged { is_kept, .. }) = self.notices.iter_mut().find(was_damaged) {
                *is_kept = true;
            }
        }
        // Killed before its first rows were whole: the hour before is still the last one.
        if hour.book().len() == 0 {
            return Ok(());
        }
        // Journals come in order of time: the last one is the hour in progress.
        let table = self.table(id.group);
        if let Some(before) = table.open.take().filter(|_| !table.is_open_complete) {
            table.wait(before);
        }
        table.open = Some(hour);
        table.is_open_complete = is_complete;
        Ok(())
    }

    /// Removes what is of no use any more, and sets aside what cannot be read. A failure leaves the file for the next
    /// start.
    fn clean(&self, names: &[(String, u64)], found: &BTreeMap<HourId, (bool, bool)>) {
        let disk = &self.shelf().disk;
        let set_aside = |name: &str| drop(disk.rename(name, &format!("{name}{DAMAGED}")));
        for (name, _) in names.iter().filter(|(name, _)| name.ends_with(NEW)) {
            let _ = disk.remove(name);
        }
        for notice in &self.notices {
            if let Notice::Damaged { file, .. } = notice {
                set_aside(file);
            }
        }
        for (id, (parquet, journal)) in found {
            let is_last = |table: &Table| table.open.as_ref().is_some_and(|open| open.id == *id);
            // The journal of the last hour stays until the next one has its rows.
            if *parquet && *journal && !self.history.tables.get(&id.group).is_some_and(is_last) {
                let _ = disk.remove(&id.journal());
            }
        }
    }

    fn finish(mut self, files: BTreeMap<HourId, u64>) -> Opened {
        self.history.files = files;
        for table in self.history.tables.values_mut() {
            // A file without a journal may be later than the last journal.
            let open = table.open.as_ref().map(|open| (open.id.epoch, open.id.hour));
            if !table.is_open_complete && open.is_some() && open <= table.complete {
                if let Some(open) = table.open.as_ref().map(|open| open.id) {
                    table.waiting.push((open, None));
                }
                table.is_open_complete = true;
            }
        }
        let last = |(key, track): (SampleKey, &crate::book::Track)| {
            let reading = *track.last()?;
            Some(Resume { key, reading })
        };
        let open = self.history.tables.values().filter_map(|table| table.open.as_ref());
        let resume = open.flat_map(|hour| hour.book().iter().filter_map(last)).collect();
        Opened {
            history: self.history,
            resume,
            notices: self.notices,
        }
    }
}

impl Opened {
    /// Returns the last slot of each group.
    #[must_use]
    pub fn newest(&self) -> Vec<(Group, Moment)> {
        let tables = self.history.tables.iter();
        tables
            .filter_map(|(group, table)| Some((*group, table.newest()?)))
            .collect()
    }
}
