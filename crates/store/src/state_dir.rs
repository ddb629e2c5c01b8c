//! The folder of one manager.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::{LidMap, StoreError, parse_guid2lid, print_guid2lid};

const GUID2LID: &str = "guid2lid";
/// What a file is called while it is written.
const GUID2LID_NEW: &str = "guid2lid.new";
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
        dir.remove_leftover()?;
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
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LidMap::new()),
            Err(cause) => return Err(io_error("read", &path, cause)),
        };
        parse_guid2lid(&bytes).map_err(|(line, what)| StoreError::Line { path, line, what })
    }

    /// Stores LIDs; when this returns they survive a crash of the machine.
    pub fn save_lids(&self, map: &LidMap) -> Result<(), StoreError> {
        let (new, path) = (self.path.join(GUID2LID_NEW), self.path.join(GUID2LID));
        let mut file = File::create(&new).map_err(|cause| io_error("create", &new, cause))?;
        file.write_all(print_guid2lid(map).as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(|cause| io_error("write", &new, cause))?;
        drop(file);
        fs::rename(&new, &path).map_err(|cause| io_error("rename to", &path, cause))?;
        // The rename itself is only safe once the folder is.
        File::open(&self.path)
            .and_then(|dir| dir.sync_all())
            .map_err(|cause| io_error("sync folder", &self.path, cause))
    }

    /// A crash between writing and renaming leaves a half-written file behind: it was never in force.
    fn remove_leftover(&self) -> Result<(), StoreError> {
        let leftover = self.path.join(GUID2LID_NEW);
        match fs::remove_file(&leftover) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(cause) => Err(io_error("remove", &leftover, cause)),
        }
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
        fs::write(path.join(GUID2LID_NEW), "0x0000000000000001 0x00").unwrap();
        let dir = StateDir::open(&path).unwrap();
        assert_eq!(dir.load_lids().unwrap(), lids(&[(1, 7)]));
        assert!(!path.join(GUID2LID_NEW).exists());
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
