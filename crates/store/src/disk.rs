//! The layer beneath a state folder: a few whole-file calls, each of which may fail.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::StoreError;
use crate::error::io_error;

/// Mode of state files: the group may read them, others may not.
const FILE_MODE: u32 = 0o640;
/// Mode of a state folder that is made here.
const FOLDER_MODE: u32 = 0o750;
/// Descriptors in reserve: a save needs one at a time, a mark another.
const RESERVE: usize = 4;
/// The process has no descriptor left. Source: Linux errno(3), EMFILE; ENFILE is the same for the whole system.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
/// Held while a manager runs; its content is the process id, for people.
const LOCK: &str = "selvedge.lock";
/// A number that is another one after each start of the machine.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Files of one folder. Names have no folder in them.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Returns the bytes of a file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// True if there is a file of this name.
    fn has(&self, name: &str) -> io::Result<bool>;

    /// Writes a file from the beginning; when this returns, its bytes survive a crash of the machine. If it fails, the
    /// file may be missing, cut or whole.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Writes a small file that has to survive the end of the process only: it waits for no disk.
    fn note(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Gives a file another name, whatever had that one before. If it fails, that may be done or not.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. If it fails, that may be done or not.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// When this returns, names that were given and removed before survive a crash of the machine.
    fn sync(&self) -> io::Result<()>;

    /// Returns a text that is another one after each start of the machine.
    fn boot(&self) -> String;
}

/// A folder of the operating system, held by this process until this value is dropped.
#[derive(Debug)]
pub struct Files {
    path: PathBuf,
    /// The folder, open, so that a sync needs no descriptor.
    folder: File,
    reserve: Mutex<Vec<File>>,
    _lock: File,
}

impl Files {
    /// Makes the folder if it is missing and takes it for this process.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(path)
            .map_err(|cause| io_error("create folder", path, cause))?;
        let lock_path = path.join(LOCK);
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(FILE_MODE)
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
        let folder = File::open(path).map_err(|cause| io_error("open", path, cause))?;
        let files = Self {
            path: path.to_owned(),
            folder,
            reserve: Mutex::default(),
            _lock: lock,
        };
        files.fill(&mut files.reserve());
        Ok(files)
    }

    /// A thread that panicked while it held the lock has left fewer descriptors at worst.
    fn reserve(&self) -> MutexGuard<'_, Vec<File>> {
        self.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes as many descriptors as are to be in reserve, or as many as there are.
    fn fill(&self, reserve: &mut Vec<File>) {
        while reserve.len() < RESERVE {
            let Ok(spare) = self.folder.try_clone() else { return };
            reserve.push(spare);
        }
    }

    /// Opens a file. If the process has no descriptor left, the reserve is given up for it.
    fn open_file(&self, name: &str, options: &OpenOptions) -> io::Result<File> {
        let path = self.path.join(name);
        match options.open(&path) {
            Err(error) if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) => {
                let mut reserve = self.reserve();
                reserve.clear();
                options.open(&path)
            }
            opened => opened,
        }
    }

    /// Opens a file, does something with it and closes it.
    fn with<T>(
        &self,
        name: &str,
        options: &OpenOptions,
        act: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut file = self.open_file(name, options)?;
        let result = act(&mut file);
        drop(file);
        // At once: what was closed may be the last descriptor that is free.
        self.fill(&mut self.reserve());
        result
    }

    fn create(&self, name: &str, act: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(FILE_MODE);
        self.with(name, &options, act)
    }
}

impl Disk for Files {
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.with(name, OpenOptions::new().read(true), |file| file.read_to_end(&mut bytes))?;
        Ok(bytes)
    }

    fn has(&self, name: &str) -> io::Result<bool> {
        fs::exists(self.path.join(name))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.create(name, |file| file.write_all(bytes).and_then(|()| file.sync_all()))
    }

    fn note(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.create(name, |file| file.write_all(bytes))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        self.folder.sync_all()
    }

    fn boot(&self) -> String {
        // Where the system does not tell, every start of the machine looks like the same one.
        fs::read_to_string(BOOT).unwrap_or_default().trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use selvedge_sa::Registrations;
    use selvedge_sm::PersistentState;

    use super::*;
    use crate::StateDir;

    /// Names the folder in the process that runs out of descriptors.
    const CHILD: &str = "SELVEDGE_STORE_CHILD";

    fn save_all(dir: &StateDir) {
        dir.save_state(&PersistentState::default(), None).unwrap();
        dir.save_registrations(&Registrations::default()).unwrap();
        dir.mark_unstored().unwrap();
        dir.mark_stored(false).unwrap();
    }

    /// Uses up all descriptors, then stores again and again.
    fn store_without_descriptors(path: &Path) {
        let dir = StateDir::open(path).unwrap();
        let mut taken = Vec::new();
        let mut take = || loop {
            match File::open("/dev/null") {
                Ok(file) => taken.push(file),
                Err(error) => break error.raw_os_error(),
            }
        };
        for _ in 0..3 {
            assert_eq!(take(), Some(EMFILE));
            save_all(&dir);
        }
        assert!(taken.len() > 8, "{}", taken.len());
    }

    #[test]
    fn state_is_stored_when_no_descriptor_is_left() {
        if let Ok(path) = std::env::var(CHILD) {
            return store_without_descriptors(Path::new(&path));
        }
        let path = std::env::temp_dir().join(format!("selvedge-store-{}-descriptors", std::process::id()));
        let script = "ulimit -n 48; exec \"$0\" --exact disk::tests::state_is_stored_when_no_descriptor_is_left";
        let child = Command::new("sh")
            .args(["-c", script])
            .arg(std::env::current_exe().unwrap())
            .env(CHILD, &path)
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
        assert!(StateDir::open(&path).unwrap().load_registrations().unwrap().unwrap().1);
        fs::remove_dir_all(path).unwrap();
    }
}
