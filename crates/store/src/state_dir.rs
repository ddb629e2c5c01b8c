//! The folder of one manager.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::plan_state::{PlanState, parse_plan_state, print_plan_state};
use crate::whole_file::replace_by;
use crate::{LidMap, StoreError, parse_guid2lid, print_guid2lid};

const GUID2LID: &str = "guid2lid";
const PLAN_STATE: &str = "plan-state.toml";
const REGISTRATIONS: &str = "registrations.txt";
/// There while hosts may have registered something that the file does not have.
const UNSTORED: &str = "registrations.unstored";
/// Ends the name of a file while it is written.
const NEW: &str = "new";
/// Ends the name of a file that belongs to another fabric.
const SET_ASIDE: &str = "set-aside";
/// Held while a manager runs; its content is the process id, for people.
const LOCK: &str = "selvedge.lock";

/// A manager's folder, held until this value is dropped.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    _lock: File,
}

impl StateDir {
    /// Makes the folder if it is missing and takes it for this process.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(|cause| io_error("create folder", path, cause))?;
        let lock_path = path.join(LOCK);
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(|cause| io_error("open", &lock_path, cause))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(cause)) => return Err(io_error("lock", &lock_path, cause)),
        }
        let note = format!("{}\n", std::process::id());
        lock.set_len(0)
            .and_then(|()| lock.write_all(note.as_bytes()))
            .map_err(|cause| io_error("write", &lock_path, cause))?;
        let dir = Self {
            path: path.to_owned(),
            _lock: lock,
        };
        dir.remove_leftovers()?;
        Ok(dir)
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stored LIDs; none if nothing was stored yet.
    pub fn load_lids(&self) -> Result<LidMap, StoreError> {
        let path = self.path.join(GUID2LID);
        let Some(bytes) = read(&path)? else {
            return Ok(LidMap::new());
        };
        parse_guid2lid(&bytes).map_err(|(line, what)| StoreError::Line { path, line, what })
    }

    /// Stores LIDs; when this returns they survive a crash of the machine. LIDs of another fabric (no GUID in common
    /// with `map`) are kept beside, as `guid2lid.set-aside`, unless something was set aside before.
    pub fn save_lids(&self, map: &LidMap) -> Result<(), StoreError> {
        let path = self.path.join(GUID2LID);
        let aside = path.with_extension(SET_ASIDE);
        let old = self.load_lids()?;
        if !old.is_empty() && !map.is_empty() && !old.keys().any(|guid| map.contains_key(guid)) && !aside.exists() {
            fs::rename(&path, &aside).map_err(|cause| io_error("rename to", &aside, cause))?;
        }
        self.replace(GUID2LID, &print_guid2lid(map))
    }

    /// What else is stored of the plan in force; nothing if nothing was stored yet.
    pub fn load_plan_state(&self) -> Result<PlanState, StoreError> {
        let path = self.path.join(PLAN_STATE);
        let Some(bytes) = read(&path)? else {
            return Ok(PlanState::default());
        };
        parse_plan_state(&bytes).map_err(|what| StoreError::PlanState { path, what })
    }

    /// Stores it; when this returns it survives a crash of the machine.
    pub fn save_plan_state(&self, state: &PlanState) -> Result<(), StoreError> {
        self.replace(PLAN_STATE, &print_plan_state(state))
    }

    /// What hosts have registered, as text, and whether that is all; `None` if nothing was stored yet.
    pub fn load_registrations(&self) -> Result<Option<(String, bool)>, StoreError> {
        let path = self.path.join(REGISTRATIONS);
        let Some(bytes) = read(&path)? else { return Ok(None) };
        let is_all = !self.path.join(UNSTORED).exists();
        // Bytes that are no text are no lines of ours either.
        let text = String::from_utf8(bytes).map_err(|_| StoreError::Registrations { path, line: 1 })?;
        Ok(Some((text, is_all)))
    }

    /// A line of what [`Self::load_registrations`] gave makes no sense.
    #[must_use]
    pub fn bad_registrations(&self, line: usize) -> StoreError {
        let path = self.path.join(REGISTRATIONS);
        StoreError::Registrations { path, line }
    }

    /// Stores what hosts have registered; when this returns it survives a crash of the machine.
    pub fn save_registrations(&self, text: &str) -> Result<(), StoreError> {
        self.replace(REGISTRATIONS, text)
    }

    /// Notes whether what is stored is all that hosts have registered. It costs a directory entry and waits for no
    /// disk: it survives the end of the process, which is what it is for.
    pub fn mark_registrations(&self, is_all: bool) -> Result<(), StoreError> {
        let path = self.path.join(UNSTORED);
        let result = if is_all {
            fs::remove_file(&path)
        } else {
            File::create(&path).map(drop)
        };
        match result {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("mark", &path, error)),
            _ => Ok(()),
        }
    }

    fn replace(&self, name: &str, text: &str) -> Result<(), StoreError> {
        let path = self.path.join(name);
        let new = path.with_extension(NEW);
        let file = File::create(&new).map_err(|cause| io_error("create", &new, cause))?;
        replace_by(&new, file, &path, |file| file.write_all(text.as_bytes()))
    }

    /// A crash between writing and renaming leaves a half-written file behind: it was never in force.
    fn remove_leftovers(&self) -> Result<(), StoreError> {
        for name in [GUID2LID, PLAN_STATE, REGISTRATIONS] {
            let leftover = self.path.join(name).with_extension(NEW);
            match fs::remove_file(&leftover) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => return Err(io_error("remove", &leftover, cause)),
            }
        }
        Ok(())
    }
}

/// The bytes of a file, if there is one.
fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(io_error("read", path, cause)),
    }
}

fn io_error(operation: &'static str, path: &Path, cause: io::Error) -> StoreError {
    StoreError::Io {
        operation,
        path: path.to_owned(),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::{Guid, Lid, LidRange};
    use std::collections::BTreeMap;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("selvedge-store-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    fn lids(entries: &[(u64, u16)]) -> LidMap {
        entries
            .iter()
            .map(|&(guid, lid)| (Guid(guid), LidRange::single(Lid(lid))))
            .collect()
    }

    #[test]
    fn what_was_saved_is_loaded() {
        let path = scratch("saved");
        let dir = StateDir::open(&path).unwrap();
        assert_eq!(dir.load_lids().unwrap(), LidMap::new());
        dir.save_lids(&lids(&[(1, 7), (2, 8)])).unwrap();
        dir.save_lids(&lids(&[(1, 7)])).unwrap();
        drop(dir);
        assert_eq!(StateDir::open(&path).unwrap().load_lids().unwrap(), lids(&[(1, 7)]));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_crash_before_the_rename_leaves_the_old_file() {
        let path = scratch("crash");
        let dir = StateDir::open(&path).unwrap();
        dir.save_lids(&lids(&[(1, 7)])).unwrap();
        drop(dir);
        let halves = ["guid2lid.new", "plan-state.new"].map(|name| path.join(name));
        for half in &halves {
            fs::write(half, "0x0000000000000001 0x00").unwrap();
        }
        let dir = StateDir::open(&path).unwrap();
        assert_eq!(dir.load_lids().unwrap(), lids(&[(1, 7)]));
        assert_eq!(dir.load_plan_state().unwrap(), PlanState::default());
        assert!(halves.iter().all(|half| !half.exists()));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn two_managers_cannot_share_a_folder() {
        let path = scratch("shared");
        let first = StateDir::open(&path).unwrap();
        let error = StateDir::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
        drop(first);
        StateDir::open(&path).unwrap();
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn plan_state_comes_back() {
        let path = scratch("plan");
        let state = PlanState {
            lane_count: 2,
            lanes_wanted: 4,
            generation: 7,
            lids_before: BTreeMap::new(),
            lids_aside: BTreeMap::new(),
            lanes: [(Guid(1), 3)].into(),
            levels: [(Guid(2), vec![1, 0])].into(),
            engines: vec!["updn".to_owned()],
        };
        StateDir::open(&path).unwrap().save_plan_state(&state).unwrap();
        assert_eq!(StateDir::open(&path).unwrap().load_plan_state().unwrap(), state);
        fs::write(path.join(PLAN_STATE), "format = 9\ngeneration = 1\n").unwrap();
        let error = StateDir::open(&path)
            .unwrap()
            .load_plan_state()
            .unwrap_err()
            .to_string();
        assert!(error.contains("SLV-STORE-0004"), "{error}");
        assert!(error.contains("format 9"), "{error}");
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn registrations_come_back_and_tell_whether_they_are_all() {
        let path = scratch("registrations");
        let load = || StateDir::open(&path).unwrap().load_registrations().unwrap();
        assert_eq!(load(), None);
        let dir = StateDir::open(&path).unwrap();
        dir.mark_registrations(false).unwrap();
        dir.save_registrations("format 1\n").unwrap();
        drop(dir);
        assert_eq!(load(), Some(("format 1\n".to_owned(), false)));
        let dir = StateDir::open(&path).unwrap();
        dir.mark_registrations(true).unwrap();
        dir.mark_registrations(true).unwrap();
        let error = dir.bad_registrations(3).to_string();
        assert!(error.contains("SLV-STORE-0005") && error.contains("line 3"), "{error}");
        drop(dir);
        assert_eq!(load(), Some(("format 1\n".to_owned(), true)));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn lids_of_another_fabric_are_kept_beside() {
        let path = scratch("aside");
        let dir = StateDir::open(&path).unwrap();
        let aside = path.join("guid2lid.set-aside");
        dir.save_lids(&lids(&[(1, 7), (2, 8)])).unwrap();
        dir.save_lids(&lids(&[(2, 8), (3, 9)])).unwrap();
        assert!(!aside.exists());
        dir.save_lids(&lids(&[(4, 7)])).unwrap();
        assert_eq!(
            fs::read_to_string(&aside).unwrap(),
            print_guid2lid(&lids(&[(2, 8), (3, 9)]))
        );
        // What was set aside first is what somebody may look for.
        dir.save_lids(&lids(&[(5, 7)])).unwrap();
        assert_eq!(
            fs::read_to_string(&aside).unwrap(),
            print_guid2lid(&lids(&[(2, 8), (3, 9)]))
        );
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_foreign_file_is_refused_and_kept() {
        let path = scratch("foreign");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(GUID2LID), "not ours\n").unwrap();
        let error = StateDir::open(&path).unwrap().load_lids().unwrap_err().to_string();
        assert!(error.contains("SLV-STORE-0003"), "{error}");
        assert!(error.contains("line 1"), "{error}");
        assert_eq!(fs::read_to_string(path.join(GUID2LID)).unwrap(), "not ours\n");
        fs::remove_dir_all(path).unwrap();
    }
}
