//! The state folder of one manager.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use selvedge_health::Known;
use selvedge_plan::{EngineName, Generation, OutOfService};
use selvedge_sa::Registrations;
use selvedge_sim::Time;
use selvedge_sm::PersistentState;

use crate::disk::{Disk, Files, SECRET};
use crate::error::io_error;
use crate::known_fabric::{parse_known_fabric, print_known_fabric};
use crate::plan_state::{PlanState, parse_plan_state, print_plan_state};
use crate::seal::{Seal, seal, unseal};
use crate::warning::{StateWarning, overlaps};
use crate::{LidMap, StoreError, parse_guid2lid, print_guid2lid};

const GUID2LID: &str = "guid2lid";
/// Name of the file that holds keys.
const PLAN_STATE: &str = SECRET;
const REGISTRATIONS: &str = "registrations.txt";
const KNOWN_FABRIC: &str = "known-fabric.txt";
const OUT_OF_SERVICE: &str = "out-of-service.txt";
/// The mark file: present while the stored registrations include all registrations that were confirmed to hosts. It
/// names the file's generation and the boot of the machine. After another boot the mark is ignored, because it may have
/// been removed although the removal did not reach the disk.
const STORED: &str = "registrations.stored";
/// The opposite mark of older releases: present while the stored registrations were incomplete.
const UNSTORED: &str = "registrations.unstored";
/// Replaces the boot in a mark if the process ended normally and the mark is synced.
const ENDED: &str = "ended";
/// Files that are written under a temporary name first; a crash may leave the temporary file.
const LEFTOVERS: [&str; 5] = [GUID2LID, PLAN_STATE, REGISTRATIONS, KNOWN_FABRIC, OUT_OF_SERVICE];
/// First line of the list of places out of service.
const OUT_OF_SERVICE_HEAD: &str = "# places out of service; 'since' is in milliseconds since 1970-01-01 UTC\n";
/// Suffix of a file name while the file is written.
const NEW: &str = "new";
/// The LIDs of another fabric, set aside.
const SET_ASIDE: &str = "guid2lid.set-aside";

/// The content of a state file.
#[derive(Debug)]
struct Content {
    /// The bytes after the seal.
    body: Vec<u8>,
    seal: Option<Seal>,
}

impl Content {
    /// Returns the number that an editor shows for a line of the body.
    fn line(&self, of_body: usize) -> usize {
        of_body + usize::from(self.seal.is_some())
    }
}

/// The state folder of a manager.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// Generation of the registrations file as last read or written here; 0 if none is known.
    registered: AtomicU64,
    /// Only one file is written at a time, because the temporary name of a file is fixed.
    writing: Mutex<()>,
}

impl StateDir {
    /// Creates the folder if it is missing and locks it for this process until the value is dropped.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::on(path, Arc::new(Files::open(path)?))
    }

    /// Returns a state folder with its files on `disk`. Messages name it by `path`.
    pub fn on(path: &Path, disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        let dir = Self::new(path, disk);
        dir.remove_leftovers()?;
        Ok(dir)
    }

    /// Returns a state folder for reading. Fails if [`StateDir::on`] could not remove a leftover, which is a folder.
    pub(crate) fn to_read(path: &Path, disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        let dir = Self::new(path, disk);
        for name in LEFTOVERS.map(new_name) {
            if path.join(&name).is_dir() {
                return Err(dir.failed("remove", &name, io::ErrorKind::IsADirectory.into()));
            }
        }
        Ok(dir)
    }

    fn new(path: &Path, disk: Arc<dyn Disk>) -> Self {
        Self {
            path: path.to_owned(),
            disk,
            registered: AtomicU64::new(0),
            writing: Mutex::new(()),
        }
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the stored state of earlier processes, and warnings about contradictions in it.
    pub fn load_state(&self) -> Result<(PersistentState, Vec<StateWarning>), StoreError> {
        let (plan, known) = self.load_plan_state()?;
        let (lids, generation, is_empty_file) = self.read_lids()?;
        let path = || self.path.join(GUID2LID);
        if let Some(known) = known.filter(|_| is_empty_file) {
            return Err(StoreError::Emptied { path: path(), known });
        }
        let mut warnings = overlaps(&path(), &lids);
        if let (Some(known), Some(found)) = (known, generation)
            && found < known
        {
            let path = path();
            warnings.push(StateWarning::OldLids { path, found, known });
        }
        let state = PersistentState {
            lids,
            lids_before: plan.lids_before,
            lids_aside: plan.lids_aside,
            generation: Generation(plan.generation),
            lanes: plan.lanes,
            levels: plan.levels,
            engines: plan.engines.into_iter().map(EngineName).collect(),
            lane_count: plan.lane_count,
            lanes_wanted: plan.lanes_wanted,
            m_keys: plan.m_keys,
            m_keys_retired: plan.m_keys_retired,
            sm_keys: plan.sm_keys,
        };
        Ok((state, warnings))
    }

    /// Stores a manager's state. On return it survives a crash of the machine. `last` is the state that this process
    /// stored last, if any. LIDs come first, so that a newer plan state is never combined with older LIDs.
    pub fn save_state(&self, state: &PersistentState, last: Option<&PersistentState>) -> Result<(), StoreError> {
        if last.is_none_or(|last| last.lids != state.lids) {
            self.save_lids(&state.lids)?;
        }
        self.save_plan_state(&PlanState {
            generation: state.generation.0,
            lanes: state.lanes.clone(),
            levels: state.levels.clone(),
            lids_before: state.lids_before.clone(),
            lids_aside: state.lids_aside.clone(),
            engines: state.engines.iter().map(|engine| engine.0.clone()).collect(),
            lane_count: state.lane_count,
            lanes_wanted: state.lanes_wanted,
            m_keys: state.m_keys.clone(),
            m_keys_retired: state.m_keys_retired.clone(),
            sm_keys: state.sm_keys.clone(),
        })
    }

    /// Returns the stored registrations, and whether they include all that were confirmed to hosts; `None` if nothing
    /// is stored yet.
    pub fn load_registrations(&self) -> Result<Option<(Registrations, bool)>, StoreError> {
        let path = self.path.join(REGISTRATIONS);
        let Some(content) = self.read(REGISTRATIONS)? else {
            return Ok(None);
        };
        let has = |name| {
            self.disk
                .has(name)
                .map_err(|cause| self.failed("look for", name, cause))
        };
        let is_all = match content.seal {
            Some(found) => self.vouches_for(found.generation)?,
            None => !has(UNSTORED)?,
        };
        let line = |line| StoreError::Registrations {
            path: path.clone(),
            line: content.line(line),
        };
        // A file that is not UTF-8 was not written by this program.
        let text = std::str::from_utf8(&content.body).map_err(|_| line(1))?;
        let registrations = Registrations::from_text(text).map_err(|error| line(error.line))?;
        let generation = content.seal.map_or(0, |seal| seal.generation);
        self.registered.store(generation, Ordering::Relaxed);
        Ok(Some((registrations, is_all)))
    }

    /// Stores the registrations. On return they survive a crash of the machine.
    pub fn save_registrations(&self, registrations: &Registrations) -> Result<(), StoreError> {
        let generation = self.replace(REGISTRATIONS, None, &registrations.to_text())?;
        self.registered.store(generation, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the nodes and links that earlier processes have found. Only the list of missing nodes and links depends
    /// on them. So if the file cannot be read, this is only a warning, and the list begins empty.
    pub fn load_known_fabric(&self) -> (Known, Option<StateWarning>) {
        let lost = |why: String| StateWarning::KnownFabric {
            path: self.path.join(KNOWN_FABRIC),
            why,
        };
        let content = match self.read(KNOWN_FABRIC) {
            Ok(content) => content,
            Err(error) => return (Known::default(), Some(lost(error.to_string()))),
        };
        let Some(content) = content else {
            return (Known::default(), None);
        };
        match parse_known_fabric(&content.body) {
            Ok(known) => (known, None),
            Err(line) => (
                Known::default(),
                Some(lost(format!("line {} cannot be read", content.line(line)))),
            ),
        }
    }

    /// Stores the nodes and links that were found. `unix_ms` converts times of this process.
    pub fn save_known_fabric(&self, known: &Known, unix_ms: impl Fn(Time) -> u64) -> Result<(), StoreError> {
        let text = print_known_fabric(known, unix_ms);
        self.replace_any(KNOWN_FABRIC, &text)
    }

    /// Returns the places that the operator has taken out of service. A file that cannot be read is an error: without
    /// it, routes would lead over links that are known to be bad.
    pub fn load_out_of_service(&self) -> Result<OutOfService, StoreError> {
        let Some(content) = self.read(OUT_OF_SERVICE)? else {
            return Ok(OutOfService::default());
        };
        let text = String::from_utf8_lossy(&content.body);
        OutOfService::parse(&text).map_err(|(line, what)| StoreError::OutOfService {
            path: self.path.join(OUT_OF_SERVICE),
            line: content.line(line),
            what,
        })
    }

    /// Stores the places that are out of service. On return they survive a crash of the machine.
    pub fn save_out_of_service(&self, list: &OutOfService) -> Result<(), StoreError> {
        let text = format!("{OUT_OF_SERVICE_HEAD}{}", list.to_text());
        self.replace(OUT_OF_SERVICE, None, &text).map(drop)
    }

    /// Removes the mark: from now on the stored registrations are incomplete. Removing a file needs no descriptor and
    /// no room. It survives the end of the process without waiting for the disk.
    pub fn mark_unstored(&self) -> Result<(), StoreError> {
        self.remove("mark", STORED)
    }

    /// Writes the mark: the stored registrations are complete. With `has_ended`, no registration can follow, and the
    /// mark is synced to survive a crash of the machine.
    pub fn mark_stored(&self, has_ended: bool) -> Result<(), StoreError> {
        let generation = self.registered.load(Ordering::Relaxed);
        if generation == 0 {
            // Without a file, or without a generation in it, the next process asks hosts.
            return Ok(());
        }
        let boot = if has_ended { ENDED.to_owned() } else { self.disk.boot() };
        let text = mark(generation, &boot);
        let written = match has_ended {
            true => self.disk.write(STORED, text.as_bytes()).and_then(|()| self.disk.sync()),
            false => self.disk.note(STORED, text.as_bytes()),
        };
        written.map_err(|cause| self.failed("mark", STORED, cause))?;
        self.remove("remove", UNSTORED)
    }

    /// True if the mark shows that the registrations file of this generation is complete.
    fn vouches_for(&self, generation: u64) -> Result<bool, StoreError> {
        let found = match self.disk.read(STORED) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(cause) => return Err(self.failed("read", STORED, cause)),
        };
        let marks = [ENDED, &self.disk.boot()].map(|boot| mark(generation, boot));
        Ok(marks.iter().any(|mark| mark.as_bytes() == found))
    }

    /// Returns the LIDs, the generation of a sealed file, and whether the file exists but is empty.
    fn read_lids(&self) -> Result<(LidMap, Option<u64>, bool), StoreError> {
        let path = self.path.join(GUID2LID);
        let Some(content) = self.read(GUID2LID)? else {
            return Ok((LidMap::new(), None, false));
        };
        let lids = parse_guid2lid(&content.body).map_err(|(line, what)| StoreError::Line {
            path,
            line: content.line(line),
            what,
        })?;
        let is_empty = content.seal.is_none() && content.body.is_empty();
        Ok((lids, content.seal.map(|seal| seal.generation), is_empty))
    }

    /// Stores LIDs. If `map` shares no GUID with the stored LIDs, these belong to another fabric: they are kept as
    /// `guid2lid.set-aside`, unless that file exists.
    fn save_lids(&self, map: &LidMap) -> Result<(), StoreError> {
        let (old, ..) = self.read_lids()?;
        let is_foreign = !old.is_empty() && !map.is_empty() && !old.keys().any(|guid| map.contains_key(guid));
        let failed = |operation, cause| self.failed(operation, SET_ASIDE, cause);
        if is_foreign && !self.disk.has(SET_ASIDE).map_err(|cause| failed("look for", cause))? {
            let renamed = self.disk.rename(GUID2LID, SET_ASIDE);
            renamed.map_err(|cause| failed("rename to", cause))?;
        }
        // OpenSM reads all lines up to an empty one as one entry: the seal must not be part of the first port's.
        self.replace(GUID2LID, None, &format!("\n{}", print_guid2lid(map)))
            .map(drop)
    }

    /// Returns the stored state of the plan in force except LIDs, and the generation that guid2lid had when that state
    /// was stored.
    fn load_plan_state(&self) -> Result<(PlanState, Option<u64>), StoreError> {
        let path = self.path.join(PLAN_STATE);
        let Some(content) = self.read(PLAN_STATE)? else {
            return Ok((PlanState::default(), None));
        };
        let state = parse_plan_state(&content.body).map_err(|what| StoreError::PlanState { path, what })?;
        Ok((state, content.seal.and_then(|seal| seal.lids)))
    }

    fn save_plan_state(&self, state: &PlanState) -> Result<(), StoreError> {
        let lids = self.read(GUID2LID)?.and_then(|content| content.seal);
        let lids = lids.map(|seal| seal.generation);
        self.replace(PLAN_STATE, lids, &print_plan_state(state)).map(drop)
    }

    /// Replaces a file as a whole. Returns its generation, which is one more than the old file's.
    fn replace(&self, name: &str, lids: Option<u64>, body: &str) -> Result<u64, StoreError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.read(name)?.and_then(|content| content.seal);
        let generation = old.map_or(0, |seal| seal.generation) + 1;
        let (new, text) = (new_name(name), seal(Seal { generation, lids }, body));
        let written = self.disk.write(&new, text.as_bytes());
        written.map_err(|cause| self.failed("write", &new, cause))?;
        let renamed = self.disk.rename(&new, name);
        renamed.map_err(|cause| self.failed("rename to", name, cause))?;
        // The rename itself is only safe once the folder is.
        self.disk
            .sync()
            .map_err(|cause| io_error("sync folder", &self.path, cause))?;
        Ok(generation)
    }

    /// Replaces a file as a whole, even if the old one is damaged and cannot be read.
    fn replace_any(&self, name: &str, body: &str) -> Result<(), StoreError> {
        if self.read(name).is_err() {
            self.remove("remove", name)?;
        }
        self.replace(name, None, body).map(drop)
    }

    /// Returns the content of a file; `None` if there is no such file.
    fn read(&self, name: &str) -> Result<Option<Content>, StoreError> {
        let bytes = match self.disk.read(name) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(self.failed("read", name, cause)),
        };
        let (body, seal) = unseal(&bytes).map_err(|what| StoreError::Damaged {
            path: self.path.join(name),
            what,
        })?;
        let body = body.to_vec();
        Ok(Some(Content { body, seal }))
    }

    /// Removes half-written files that a crash between writing and renaming left; they were never in use.
    fn remove_leftovers(&self) -> Result<(), StoreError> {
        let mut names = LEFTOVERS.into_iter();
        names.try_for_each(|name| self.remove("remove", &new_name(name)))
    }

    /// Removes a file, if there is one.
    fn remove(&self, operation: &'static str, name: &str) -> Result<(), StoreError> {
        match self.disk.remove(name) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(self.failed(operation, name, cause)),
            _ => Ok(()),
        }
    }

    fn failed(&self, operation: &'static str, name: &str, cause: io::Error) -> StoreError {
        io_error(operation, &self.path.join(name), cause)
    }
}

/// Returns the temporary name of a file while it is written.
fn new_name(name: &str) -> String {
    let name = Path::new(name).with_extension(NEW);
    name.to_string_lossy().into_owned()
}

/// Returns the text of a mark: the file of this generation is complete until the next boot of the machine.
fn mark(generation: u64, boot: &str) -> String {
    format!("generation {generation}\nmachine {boot}\n")
}

#[cfg(test)]
mod tests;
