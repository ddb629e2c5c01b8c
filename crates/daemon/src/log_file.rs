//! Log lines in a file, and on standard error.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use selvedge_api::Severity;

use crate::DaemonError;
use crate::events::LogSink;

/// Mode of a log file: the group may read it, others may not.
const LOG_MODE: u32 = 0o640;

/// A log file that can be moved away and opened again.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens a file to append to.
    pub fn open(path: &Path) -> Result<Self, DaemonError> {
        let file = append(path).map_err(|cause| DaemonError::Write {
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
    /// A full disk must not stop a manager: lines that cannot be written are lost.
    fn line(&mut self, _severity: Severity, line: &str) {
        let _ = writeln!(self.file, "{line}");
    }

    fn reopen(&mut self) {
        // If the new file cannot be had, the old one is better than none.
        if let Ok(file) = append(&self.path) {
            self.file = file;
        }
    }
}

/// Log lines on standard error.
#[derive(Clone, Copy, Debug, Default)]
pub struct StderrLog;

impl LogSink for StderrLog {
    fn line(&mut self, _severity: Severity, line: &str) {
        let _ = writeln!(io::stderr(), "{line}");
    }
}

fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(LOG_MODE).open(path)
}
