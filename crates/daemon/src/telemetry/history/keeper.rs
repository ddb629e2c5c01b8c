//! The threads that open the folder and write.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use selvedge_api::{Error, Severity};
use selvedge_history::{Database, Disk, Files, History, HistoryError, Notice, Opened};
use selvedge_telemetry::{Config, Consumer, Sample, SlotData, Wall};
use selvedge_transport::put_this_thread_last;

use super::book::Book;
use super::{DATABASE_PART, Place, Stage, Store};
use crate::DaemonError;
use crate::shared::Shared;

/// How often events are stored, and how often a failed write is tried again.
const PACE: Duration = Duration::from_secs(1);

/// Brings the samples from which the sampler goes on, once the folder is open.
pub(crate) type Resumed = Receiver<Vec<Sample>>;

/// Takes slots of the sampler. When it is dropped, everything is on the disk and the folder is closed.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Consumer for Keeper {
    fn take(&mut self, slot: &SlotData) {
        if self.shared.telemetry.store.take(slot) {
            let _ = self.wake.as_ref().map(|wake| wake.send(()));
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts the thread that opens the folder, and then writes. Returns what hands it slots, and the samples from which
/// the sampler goes on; `None`: nothing is stored.
pub(crate) fn begin(shared: &Arc<Shared>) -> Result<Option<(Keeper, Resumed)>, DaemonError> {
    if shared.telemetry.store.place.is_none() {
        return Ok(None);
    }
    let (wake, woken) = channel();
    let (resume, resumed) = channel();
    let thread = thread::Builder::new().name("history".to_owned()).spawn({
        let shared = Arc::clone(shared);
        move || Writer { shared: &shared }.run(&woken, &resume)
    });
    let keeper = Keeper {
        shared: Arc::clone(shared),
        wake: Some(wake),
        thread: Some(thread.map_err(|cause| DaemonError::Thread { cause })?),
    };
    Ok(Some((keeper, resumed)))
}

/// The work of the thread "history".
struct Writer<'a> {
    shared: &'a Arc<Shared>,
}

impl Writer<'_> {
    fn run(&self, woken: &Receiver<()>, resume: &Sender<Vec<Sample>>) {
        let store = self.store();
        let Some(place) = &store.place else { return };
        let opened = open(place);
        match opened {
            Ok(opened) => self.opened(place, opened, resume),
            Err(error) => {
                self.refused(&error);
                // The sampler waits no longer.
                let _ = resume.send(Vec::new());
            }
        }
        self.open_database(place);
        let mut book = Book::new(place.config.keep);
        let mut parquet = None;
        while woken.recv_timeout(PACE) != Err(RecvTimeoutError::Disconnected) {
            // Slots of several classes may have come.
            while woken.try_recv().is_ok() {}
            self.flush();
            self.begin_job(&mut parquet);
            book.turn(self.shared);
        }
        self.flush();
        if let Some(thread) = parquet {
            // An hour that is being written: seconds.
            let _ = thread.join();
        }
        book.end(self.shared);
        // Closes the folder.
        *store.stage() = Stage::Off;
        *store.database.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn store(&self) -> &Store {
        &self.shared.telemetry.store
    }

    /// Takes the history, and hands over where counters stood, unless the sampler has begun without it.
    fn opened(&self, place: &Place, opened: Opened, resume: &Sender<Vec<Sample>>) {
        let samples = samples(&opened, &self.shared.telemetry.config());
        let Opened { history, notices, .. } = opened;
        let mut stage = self.store().stage();
        let is_late = matches!(&*stage, Stage::Refused(_));
        if !is_late {
            // If the process is ending, no sampler takes them.
            let _ = resume.send(samples);
            *stage = Stage::Open(Box::new(history));
        }
        let why = match &*stage {
            Stage::Refused(why) => Some(format!("{}: {why}", place.folder.display())),
            Stage::Off | Stage::Opening | Stage::Open(_) => None,
        };
        drop(stage);
        notices.iter().for_each(|notice| self.tell(notice));
        if why.is_some() {
            self.trouble(|troubles| troubles.counters = why);
        }
    }

    fn refused(&self, error: &HistoryError) {
        let text = error.to_string();
        *self.store().stage() = Stage::Refused(text.clone());
        self.event(Severity::Error, &text);
        self.trouble(|troubles| troubles.counters = Some(text));
    }

    /// Opens the database, unless the folder was refused: it may be another manager's.
    fn open_database(&self, place: &Place) {
        if place.disk.is_some() || !matches!(*self.store().stage(), Stage::Open(_)) {
            return;
        }
        let opened = Database::open(&place.folder.join(Database::NAME), &place.fabric).and_then(|database| {
            database.set_bytes_max(place.config.files_bytes_max / DATABASE_PART)?;
            Ok(database)
        });
        match opened {
            Ok(database) => {
                // What cannot be read now is reported with the next events that are stored.
                self.shared
                    .telemetry
                    .take_baselines(database.baselines().unwrap_or_default());
                *self.store().database.lock().unwrap_or_else(PoisonError::into_inner) = Some(database);
            }
            Err(error) => {
                let text = error.to_string();
                self.event(Severity::Error, &text);
                self.trouble(|troubles| troubles.events = Some(text));
            }
        }
    }

    fn flush(&self) {
        let now = Wall(self.shared.clock.unix_ns());
        let is_open = matches!(*self.store().stage(), Stage::Open(_));
        let (notices, stopped) = self.store().flush(now);
        notices.iter().for_each(|notice| self.tell(notice));
        if is_open {
            self.trouble(|troubles| troubles.counters = stopped);
        }
    }

    /// Begins to write an hour as a Parquet file, if one is complete. Only one is written at a time.
    fn begin_job(&self, parquet: &mut Option<JoinHandle<()>>) {
        let Some(job) = self.store().job() else { return };
        let shared = Arc::clone(self.shared);
        let thread = thread::Builder::new().name("parquet".to_owned()).spawn(move || {
            put_this_thread_last();
            shared.telemetry.store.done(job.run());
        });
        // Without a thread the hour stays a journal until the next start.
        *parquet = thread.ok();
    }

    fn trouble(&self, change: impl FnOnce(&mut super::Troubles)) {
        if let Some(why) = self.store().note(change) {
            self.shared.history_stopped(why);
        }
    }

    fn tell(&self, notice: &Notice) {
        let severity = match notice {
            Notice::Stopped { .. } => Severity::Error,
            Notice::TornJournal { .. }
            | Notice::Damaged { .. }
            | Notice::Late { .. }
            | Notice::Unfinished { .. }
            | Notice::Resumed { lost_rows: 1.., .. } => Severity::Warning,
            _ => Severity::Info,
        };
        self.event(severity, &notice.to_string());
    }

    /// Reports an event. Its text begins with its code.
    fn event(&self, severity: Severity, text: &str) {
        let (code, text) = text.split_once(": ").unwrap_or(("SLV-HISTORY-0001", text));
        self.shared.event(self.shared.clock.now(), severity, code, text);
    }
}

fn open(place: &Place) -> Result<Opened, HistoryError> {
    let disk: Arc<dyn Disk> = match &place.disk {
        Some(disk) => Arc::clone(disk),
        None => Arc::new(Files::open(&place.folder)?),
    };
    History::open(disk, &place.folder, &place.fabric, place.config.clone())
}

/// Returns the samples from which a sampler with these parameters goes on, in order of time.
fn samples(opened: &Opened, config: &Config) -> Vec<Sample> {
    let classes = || (0..).zip(&config.classes);
    let mut samples: Vec<Sample> = opened
        .resume
        .iter()
        .filter_map(|resume| {
            let (number, class) = classes().find(|(_, class)| class.groups.contains(&resume.key.group))?;
            Some(resume.sample(number, class.interval))
        })
        .collect();
    samples.sort_by_key(|sample| (sample.class, sample.slot, sample.offset_us));
    samples
}

/// Returns what the API answers when the database fails.
pub(in crate::telemetry) fn refusal(error: &HistoryError) -> Error {
    Error::of_text(&error.to_string())
}
