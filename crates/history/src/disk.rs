//! The layer beneath a history folder: a few calls on files, each of which may fail.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::HistoryError;
use crate::error::io_error;

/// Mode of files: the group may read them, others may not.
const FILE_MODE: u32 = 0o640;
/// Mode of a folder that is made here.
const FOLDER_MODE: u32 = 0o750;
/// The lock file of a running manager. Its content is the process id, for people.
pub(crate) const LOCK: &str = "history.lock";
/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes the content of a file.
pub type Content<'a> = &'a mut dyn FnMut(&mut (dyn Write + Send)) -> io::Result<()>;

/// A file that is open for reading at any place.
pub trait Source: fmt::Debug + Send + Sync {
    /// Returns its length in bytes.
    fn len(&self) -> u64;

    /// True if the file is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads bytes from `offset` on; returns how many, 0 at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// Reads and writes the files of one folder. File names contain no folder.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Returns the names and lengths of all files.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;

    /// Opens a file for reading.
    fn open(&self, name: &str) -> io::Result<Arc<dyn Source>>;

    /// Cuts a file to the length `at`, or creates it, and appends `bytes`. On return, the bytes survive a crash of the
    /// machine. After an error, a part of them may be there.
    fn append(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Writes a file from its beginning; returns its length. On return, its bytes survive a crash of the machine. After
    /// an error, the file may be missing, cut short or whole.
    fn write(&self, name: &str, content: Content<'_>) -> io::Result<u64>;

    /// Renames a file and replaces any file of the new name. After an error, the rename may or may not be done.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. After an error, the file may or may not be there.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Syncs the folder. On return, earlier renames and removals survive a crash of the machine.
    fn sync(&self) -> io::Result<()>;
}

/// Returns the bytes of a file.
///
/// # Errors
///
/// What opening or reading the file reports.
pub fn read_all(disk: &dyn Disk, name: &str) -> io::Result<Vec<u8>> {
    let source = disk.open(name)?;
    let mut bytes = vec![0; usize::try_from(source.len()).map_err(io::Error::other)?];
    let read = read_full(&*source, 0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Reads until the buffer is full or the file ends; returns how many bytes.
pub(crate) fn read_full(source: &dyn Source, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match source.read_at(offset + read as u64, &mut buffer[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// A folder of the operating system. This process holds its lock until the value is dropped.
#[derive(Debug)]
pub struct Files {
    path: PathBuf,
    /// The open folder, for syncs.
    folder: File,
    _lock: File,
}

impl Files {
    /// Creates the folder if it is missing and locks it for this process.
    ///
    /// # Errors
    ///
    /// [`HistoryError::Locked`] if another manager uses the folder; [`HistoryError::Io`] otherwise.
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
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
            Err(TryLockError::WouldBlock) => return Err(HistoryError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(cause)) => return Err(io_error("lock", &lock_path, cause)),
        }
        // The note is for people. On a full disk it may be missing; the lock holds all the same.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        let folder = File::open(path).map_err(|cause| io_error("open", path, cause))?;
        Ok(Self {
            path: path.to_owned(),
            folder,
            _lock: lock,
        })
    }

    /// Returns the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A file with its length when it was opened.
#[derive(Debug)]
struct OpenFile {
    file: File,
    len: u64,
}

impl Source for OpenFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
}

impl Disk for Files {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let about = entry.metadata()?;
            // Names that are not UTF-8 are not ours.
            if let (true, Ok(name)) = (about.is_file(), entry.file_name().into_string()) {
                found.push((name, about.len()));
            }
        }
        found.sort();
        Ok(found)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn Source>> {
        let file = File::open(self.path.join(name))?;
        let len = file.metadata()?.len();
        Ok(Arc::new(OpenFile { file, len }))
    }

    fn append(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(FILE_MODE);
        let mut file = options.open(self.path.join(name))?;
        file.set_len(at)?;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)?;
        file.sync_data()
    }

    fn write(&self, name: &str, content: Content<'_>) -> io::Result<u64> {
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(FILE_MODE);
        let file = options.open(self.path.join(name))?;
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
        content(&mut file)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
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
}
