//! The files of a history, shared by the history itself, its jobs and its queries.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use parquet::errors::ParquetError;

use crate::HistoryError;
use crate::disk::{Disk, read_all};
use crate::error::io_error;
use crate::hour::{Fault, Hour};
use crate::names::{HourId, NEW};
use crate::parquet_read::HourFile;
use crate::parquet_write::write_hour;

/// Files that stay open between queries. Each takes a descriptor and about 1 MB for its footer.
const OPEN_MAX: usize = 32;

/// The files of a history.
#[derive(Debug)]
pub(crate) struct Shelf {
    pub disk: Arc<dyn Disk>,
    /// For messages.
    pub folder: PathBuf,
    pub fabric: String,
    open: Mutex<BTreeMap<HourId, Arc<HourFile>>>,
}

impl Shelf {
    pub fn new(disk: Arc<dyn Disk>, folder: &Path, fabric: &str) -> Self {
        Self {
            disk,
            folder: folder.to_owned(),
            fabric: fabric.to_owned(),
            open: Mutex::default(),
        }
    }

    pub fn error(&self, operation: &'static str, name: &str, cause: io::Error) -> HistoryError {
        io_error(operation, &self.folder.join(name), cause)
    }

    /// Returns a file that is complete.
    pub fn file(&self, id: HourId) -> Result<Arc<HourFile>, HistoryError> {
        if let Some(file) = self.cache().get(&id) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(HourFile::open(&*self.disk, &self.folder, id, &self.fabric)?);
        let mut open = self.cache();
        // Queries go from old to new, and the newest files are asked for most.
        while open.len() >= OPEN_MAX {
            open.pop_first();
        }
        open.insert(id, Arc::clone(&file));
        Ok(file)
    }

    /// Closes a file that was removed or replaced.
    pub fn forget(&self, id: HourId) {
        self.cache().remove(&id);
    }

    /// A thread that panicked with the lock held has left whole entries.
    fn cache(&self) -> std::sync::MutexGuard<'_, BTreeMap<HourId, Arc<HourFile>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a journal.
    pub fn journal(&self, id: HourId) -> Result<Result<(Hour, Option<Fault>), Fault>, HistoryError> {
        let name = id.journal();
        let bytes = read_all(&*self.disk, &name).map_err(|cause| self.error("read", &name, cause))?;
        Ok(Hour::replay(id, &self.fabric, &bytes))
    }

    /// Writes an hour as a Parquet file and removes its journal; returns the length of the file, 0 if the hour has no
    /// row.
    pub fn complete(&self, hour: &Hour) -> Result<u64, HistoryError> {
        if hour.count() == 0 {
            // Only last rows of the hour before: nothing to write.
            let _ = self.disk.remove(&hour.id.journal());
            return Ok(0);
        }
        let name = hour.id.parquet();
        let new = format!("{name}{NEW}");
        let written = self.disk.write(&new, &mut |out| {
            write_hour(hour, &self.fabric, out).map_err(|error| match error {
                // The cause distinguishes a full disk from a broken one.
                ParquetError::External(cause) => cause
                    .downcast::<io::Error>()
                    .map_or_else(io::Error::other, |cause| *cause),
                other => io::Error::other(other),
            })
        });
        let in_place = written
            .map_err(|cause| self.error("write", &new, cause))
            .and_then(|bytes| {
                let renamed = self.disk.rename(&new, &name);
                renamed
                    .map(|()| bytes)
                    .map_err(|cause| self.error("rename to", &name, cause))
            });
        let bytes = in_place.inspect_err(|_| drop(self.disk.remove(&new)))?;
        self.disk
            .sync()
            .map_err(|cause| self.error("sync folder of", &name, cause))?;
        self.forget(hour.id);
        // A journal that stays is removed at the next start.
        let _ = self.disk.remove(&hour.id.journal());
        Ok(bytes)
    }
}
