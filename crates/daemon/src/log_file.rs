//! Log lines in a file.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use selvedge_api::Severity;

use crate::DaemonError;
use crate::events::LogSink;
use crate::files::append_log;

/// A log file that can be moved away and opened again.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens a file for appending.
    pub fn open(path: &Path) -> Result<Self, DaemonError> {
        let file = append_log(path).map_err(|cause| DaemonError::Write {
            path: path.to_owned(),
            cause,
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }
}

impl LogSink for LogFile {
    /// Writes a line. A full disk must not stop a manager, so a line that cannot be written is lost.
    fn line(&mut self, _severity: Severity, line: &str) {
        let _ = writeln!(self.file, "{line}");
    }

    fn reopen(&mut self) {
        // If the new file cannot be had, the old one is better than none.
        if let Ok(file) = append_log(&self.path) {
            self.file = file;
        }
    }
}
