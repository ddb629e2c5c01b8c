//! Reads a state folder as a start does, without a lock and without a change.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{BOOT, Disk, LOCK};
use crate::error::io_error;
use crate::probe::can_have_folder;
use crate::{DATA_MAX, Found, StateDir, StateWarning, StoreError, read_file};

/// The state of an earlier manager, as far as a check needs it.
#[derive(Debug, Default)]
pub struct Checked {
    /// Contradictions in the state.
    pub warnings: Vec<StateWarning>,
    /// True if ports may hold an M_Key.
    pub has_m_key: bool,
}

/// Fails if a manager could not start with this state folder. Changes nothing, and does not ask whether another process
/// holds the lock.
///
/// # Errors
///
/// The error of [`StateDir::open`], of [`Found::read`] or of [`StateDir::load_state`].
pub fn check_state(path: &Path) -> Result<Checked, StoreError> {
    can_have_folder(path).map_err(|cause| io_error("write to", path, cause))?;
    if !path.is_dir() {
        return Ok(Checked::default());
    }
    let lock = path.join(LOCK);
    match OpenOptions::new().write(true).open(&lock) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(io_error("open", &lock, cause)),
        _ => {}
    }
    let folder = StateDir::to_read(path, Arc::new(Peek(path.to_owned())))?;
    Found::read(Some(&folder))?;
    let (state, warnings) = folder.load_state()?;
    Ok(Checked {
        warnings,
        has_m_key: !state.m_keys.is_empty(),
    })
}

/// A folder that is only read.
#[derive(Debug)]
struct Peek(PathBuf);

impl Disk for Peek {
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        read_file(&self.0.join(name), DATA_MAX)
    }

    fn has(&self, name: &str) -> io::Result<bool> {
        fs::exists(self.0.join(name))
    }

    fn write(&self, _: &str, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn note(&self, _: &str, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn boot(&self) -> String {
        fs::read_to_string(BOOT).unwrap_or_default().trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use selvedge_sm::PersistentState;

    use super::*;

    /// Returns the result of a check. Fails if a start gives another result, or if the check changes the folder.
    fn checked(path: &Path) -> Result<(), String> {
        let listed = || {
            let entries = fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap());
            let mut all: Vec<_> = entries
                .map(|entry| (entry.file_name(), entry.metadata().unwrap().modified().unwrap()))
                .collect();
            all.sort();
            (path.exists(), all)
        };
        let before = listed();
        let found = check_state(path).map(drop).map_err(|error| error.to_string());
        assert_eq!(listed(), before);
        let start = || {
            let folder = StateDir::open(path)?;
            Found::read(Some(&folder))?;
            folder.load_state()
        };
        assert_eq!(start().map(drop).map_err(|error| error.to_string()), found);
        found
    }

    #[test]
    fn a_check_says_what_the_start_says() {
        let path = std::env::temp_dir().join(format!("selvedge-store-{}-peek", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        checked(&path).unwrap();
        StateDir::open(&path)
            .unwrap()
            .save_state(&PersistentState::default(), None)
            .unwrap();
        checked(&path).unwrap();
        let lids = path.join("guid2lid");
        let good = fs::read(&lids).unwrap();
        let cases: [(&str, &[u8], &str); 5] = [
            ("guid2lid", b"nonsense\n", "SLV-STORE-0003"),
            ("guid2lid", b"", "SLV-STORE-0007"),
            ("guid2lid", &good[..good.len() - 1], "SLV-STORE-0006"),
            ("plan-state.toml", b"nonsense\n", "SLV-STORE-0004"),
            ("registrations.txt", b"nonsense\n", "SLV-STORE-0005"),
        ];
        for (name, bytes, code) in cases {
            let file = path.join(name);
            let old = fs::read(&file).ok();
            fs::write(&file, bytes).unwrap();
            let error = checked(&path).unwrap_err();
            assert!(error.contains(code), "{name}: {error}");
            match old {
                Some(old) => fs::write(&file, old).unwrap(),
                None => fs::remove_file(&file).unwrap(),
            }
        }
        fs::remove_file(&lids).unwrap();
        fs::create_dir(&lids).unwrap();
        assert!(check_state(&path).is_err());
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_folder_in_use_can_be_checked() {
        let path = std::env::temp_dir().join(format!("selvedge-store-{}-peek-lock", std::process::id()));
        let held = StateDir::open(&path).unwrap();
        check_state(&path).unwrap();
        drop(held);
        fs::remove_dir_all(&path).unwrap();
    }
}
