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
/// Name of the file that holds keys: only its owner may read it.
pub(crate) const SECRET: &str = "plan-state.toml";
const SECRET_MODE: u32 = 0o600;
/// Mode of a state folder that is made here.
const FOLDER_MODE: u32 = 0o750;
/// Descriptors kept in reserve: a save needs one at a time, the mark needs another.
const RESERVE: usize = 4;
/// The process has no descriptor left. ENFILE means the same for the whole system. Source: Linux errno(3).
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
/// The lock file of a running manager. Its content is the process id, for people.
pub(crate) const LOCK: &str = "selvedge.lock";
/// The system file that holds a random identifier of the current boot.
pub(crate) const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Reads and writes the files of one folder. File names contain no folder.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Returns the bytes of a file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// True if a file with this name exists.
    fn has(&self, name: &str) -> io::Result<bool>;

    /// Writes a file from its beginning. On return, its bytes survive a crash of the machine. After an error, the file
    /// may be missing, cut short or whole.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Writes a small file that only has to survive the end of the process. Does not wait for the disk.
    fn note(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Renames a file and replaces any file of the new name. After an error, the rename may or may not be done.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. After an error, the file may or may not be there.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Syncs the folder. On return, earlier renames and removals survive a crash of the machine.
    fn sync(&self) -> io::Result<()>;

    /// Returns a text that differs after each boot of the machine.
    fn boot(&self) -> String;
}

/// A folder of the operating system. This process holds its lock until the value is dropped.
#[derive(Debug)]
pub struct Files {
    path: PathBuf,
    /// The open folder, so that a sync needs no further descriptor.
    folder: File,
    reserve: Mutex<Vec<File>>,
    /// See [`Disk::boot`].
    boot: String,
    _lock: File,
}

impl Files {
    /// Creates the folder if it is missing and locks it for this process.
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
            // If the boot identifier cannot be read, all boots count as the same one.
            boot: fs::read_to_string(BOOT).unwrap_or_default().trim().to_owned(),
            _lock: lock,
        };
        files.fill(&mut files.reserve());
        Ok(files)
    }

    /// Returns the reserve of descriptors. A thread that panicked with the lock held can only have left fewer of them.
    fn reserve(&self) -> MutexGuard<'_, Vec<File>> {
        self.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refills the reserve, as far as the process gets descriptors.
    fn fill(&self, reserve: &mut Vec<File>) {
        while reserve.len() < RESERVE {
            let Ok(spare) = self.folder.try_clone() else { return };
            reserve.push(spare);
        }
    }

    /// Opens a file. If the process has no descriptor left, gives up the reserve for it.
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

    /// Opens a file, runs `act` on it and closes the file.
    fn with<T>(
        &self,
        name: &str,
        options: &OpenOptions,
        act: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut file = self.open_file(name, options)?;
        let result = act(&mut file);
        drop(file);
        // Refill at once: the descriptor just closed may be the last free one.
        self.fill(&mut self.reserve());
        result
    }

    fn create(&self, name: &str, act: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(mode(name));
        self.with(name, &options, act)
    }
}

/// Returns the mode of a new file. Its name may have another suffix while it is written.
fn mode(name: &str) -> u32 {
    match Path::new(name).file_stem() == Path::new(SECRET).file_stem() {
        true => SECRET_MODE,
        false => FILE_MODE,
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
        self.boot.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use selvedge_sa::Registrations;
    use selvedge_sm::PersistentState;

    use super::*;
    use crate::StateDir;

    /// Environment variable that holds the folder for the child process, which runs out of descriptors.
    const CHILD: &str = "SELVEDGE_STORE_CHILD";

    fn save_all(dir: &StateDir) {
        dir.save_state(&PersistentState::default(), None).unwrap();
        dir.save_registrations(&Registrations::default()).unwrap();
        dir.mark_unstored().unwrap();
        dir.mark_stored(false).unwrap();
    }

    /// Uses up all descriptors, then stores state repeatedly.
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
