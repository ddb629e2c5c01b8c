//! The store beside the sampler: every slot goes into memory on the thread "telemetry", and to the disk on the thread
//! "history", which stores events and versions of the topology too.
//!
//! ```text
//!   thread "telemetry": Keeper ── rows ──► Store ◄── flush ── thread "history" ──► journals, events.sqlite
//!                        front ends: questions ┘                 └── thread "parquet": an hour becomes a file
//! ```
//! The manager waits for none of them. The sampler begins after the folder was opened, so that totals go on where they
//! stood; if that takes longer than [`OPEN_MAX`], it begins anew and nothing is stored.

pub(super) mod alarms;
mod book;
mod keeper;
mod shown;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selvedge_api::{Error, ErrorKind};
use selvedge_config::Settings;
use selvedge_history::{Config, Database, Disk, Done, History, HistoryError, Job, Notice};
use selvedge_telemetry::{SlotData, Wall};

pub(super) use self::keeper::refusal;
pub(crate) use self::keeper::{Resumed, begin};

/// How long the sampler waits for the folder to be opened.
pub(super) const OPEN_MAX: Duration = Duration::from_secs(30);
/// The folder in the state folder.
const FOLDER: &str = "history";
/// Events and versions of the topology may take this part of the room for counters.
const DATABASE_PART: u64 = 16;

/// What is stored where.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    fabric: String,
    config: Config,
    /// The disk; `None`: the operating system's.
    disk: Option<Arc<dyn Disk>>,
}

impl Place {
    /// Returns what these settings ask for: `None` if they name no folder. `fabric` is the name of the fabric if they
    /// give none.
    pub(crate) fn of(settings: &Settings, fabric: String, disk: Option<Arc<dyn Disk>>) -> Option<Self> {
        let options = &settings.history;
        let state = settings.daemon.state_dir.as_ref();
        let folder = options.folder.clone().or_else(|| Some(state?.join(FOLDER)));
        let folder = folder.filter(|_| options.enabled)?;
        Some(Self {
            folder,
            fabric: options.fabric.clone().unwrap_or(fabric),
            config: Config {
                window_bytes_max: usize::try_from(options.window_bytes_max).unwrap_or(usize::MAX),
                step: options.interval,
                keep: options.keep,
                files_bytes_max: options.bytes_max,
                ..Config::default()
            },
            disk,
        })
    }
}

/// The store, for the threads that fill it and for readers.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// `None`: nothing is stored.
    place: Option<Place>,
    stage: Mutex<Stage>,
    database: Mutex<Option<Database>>,
    /// Alarms that have changed since they were stored.
    waiting: Mutex<alarms::Waiting>,
    troubles: Mutex<Troubles>,
    /// Events that were stored.
    events: AtomicU64,
}

#[derive(Debug, Default)]
enum Stage {
    /// Nothing is stored, or not any more.
    #[default]
    Off,
    Opening,
    Open(Box<History>),
    Refused(String),
}

/// Why something is not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Troubles {
    counters: Option<String>,
    events: Option<String>,
}

impl Troubles {
    /// Returns the reasons in one sentence.
    fn text(&self) -> Option<String> {
        let all = [("counters", &self.counters), ("events", &self.events)];
        let said = all
            .into_iter()
            .filter_map(|(what, why)| Some(format!("{what}: {}", why.as_ref()?)));
        let said: Vec<String> = said.collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

impl Store {
    pub(crate) fn new(place: Option<Place>) -> Self {
        Self {
            stage: Mutex::new(if place.is_some() { Stage::Opening } else { Stage::Off }),
            place,
            ..Self::default()
        }
    }

    /// Gives up a folder that is still being opened: the sampler begins without it.
    pub(super) fn give_up(&self) {
        let mut stage = self.stage();
        if let Stage::Opening = *stage {
            let seconds = OPEN_MAX.as_secs();
            *stage = Stage::Refused(format!(
                "the folder was not open within {seconds} s; see the disk, then restart"
            ));
        }
    }

    /// Takes a slot into memory; false if nothing is stored.
    fn take(&self, slot: &SlotData) -> bool {
        let mut stage = self.stage();
        let Stage::Open(history) = &mut *stage else {
            return false;
        };
        for sample in &slot.samples {
            history.push(sample, slot.interval);
        }
        true
    }

    /// Writes what was taken. Returns what an operator should know, and why storing fails, while it does.
    fn flush(&self, now: Wall) -> (Vec<Notice>, Option<String>) {
        match &mut *self.stage() {
            Stage::Open(history) => {
                let notices = history.flush(now);
                (notices, history.stopped().map(str::to_owned))
            }
            Stage::Off | Stage::Opening | Stage::Refused(_) => Default::default(),
        }
    }

    fn job(&self) -> Option<Job> {
        match &mut *self.stage() {
            Stage::Open(history) => history.job(),
            Stage::Off | Stage::Opening | Stage::Refused(_) => None,
        }
    }

    fn done(&self, done: Done) {
        if let Stage::Open(history) = &mut *self.stage() {
            history.done(done);
        }
    }

    /// Asks the history. `ask` must not read files: the lock is held meanwhile.
    fn ask<T>(&self, ask: impl FnOnce(&History) -> Result<T, HistoryError>) -> Result<T, Error> {
        match &*self.stage() {
            Stage::Open(history) => ask(history).map_err(|error| Error::of_text(&error.to_string())),
            Stage::Opening => Err(ErrorKind::Busy.error("the folder of stored counters is being opened")),
            Stage::Refused(why) => Err(ErrorKind::NoHistory.error(format!("no counters are stored: {why}"))),
            Stage::Off => {
                let what = "this process stores no counters: it has no state folder, or no sampler";
                Err(ErrorKind::NoHistory.error(what))
            }
        }
    }

    /// Reads or writes the database of events, alarms, topology versions and baselines; `None` if there is none. What a
    /// write fails with becomes a condition of the manager's health at the next attempt to store events.
    pub(crate) fn database<T>(
        &self,
        act: impl FnOnce(&Database) -> Result<T, HistoryError>,
    ) -> Option<Result<T, HistoryError>> {
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        database.as_ref().map(act)
    }

    /// Writes to the database; false if there is none.
    pub(super) fn written(&self, act: impl FnOnce(&Database) -> Result<(), HistoryError>) -> Result<bool, Error> {
        let written = self.database(act).transpose();
        let written = written.map_err(|error| Error::of_text(&error.to_string()))?;
        Ok(written.is_some())
    }

    /// Notes why something is not stored. Returns the new text if it has changed; inside, `None`: everything is stored.
    fn note(&self, change: impl FnOnce(&mut Troubles)) -> Option<Option<String>> {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let before = troubles.clone();
        change(&mut troubles);
        (*troubles != before).then(|| troubles.text())
    }

    /// Returns why something is not stored.
    fn troubles(&self) -> Troubles {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the stage. A thread that panicked with the lock held has lost a slot at worst.
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
