//! Errors and events of stored telemetry.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

use selvedge_telemetry::Group;

use crate::reading::Moment;

/// Why a history cannot be opened, written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// SLV-HISTORY-0001: the operating system reported an error.
    #[error("SLV-HISTORY-0001: cannot {operation} {}: {cause}; {}", path.display(), advice(cause))]
    Io {
        /// The attempted operation.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// SLV-HISTORY-0002: another manager uses the folder.
    #[error("SLV-HISTORY-0002: {} is in use by another selvedge; stop it, or give this one a folder of its own",
        path.display())]
    Locked {
        /// Path of the folder.
        path: PathBuf,
    },
    /// SLV-HISTORY-0003: the folder or file holds the telemetry of another fabric.
    #[error("SLV-HISTORY-0003: {} holds telemetry of fabric '{found}', and this is fabric '{want}'; name another \
        folder, so that counters of different fabrics are not mixed", path.display())]
    OtherFabric {
        /// The folder or file.
        path: PathBuf,
        /// The fabric that the folder or file belongs to.
        found: String,
        /// The fabric that the manager manages.
        want: String,
    },
    /// SLV-HISTORY-0004: the folder does not state in a known form which fabric its files belong to.
    #[error("SLV-HISTORY-0004: {} does not name a fabric in a form that this version knows: '{found}'; restore the \
        file, or name an empty folder", path.display())]
    NoFabric {
        /// Path of the file.
        path: PathBuf,
        /// The beginning of the file's text; empty if the file is missing.
        found: String,
    },
    /// SLV-HISTORY-0005: the content of a file does not match its name, or was damaged.
    #[error("SLV-HISTORY-0005: {} cannot be read: {what}; restore it from a copy, or remove it: its hour is then \
        missing", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with the file.
        what: String,
    },
    /// SLV-HISTORY-0006: the group has no counter with this number.
    #[error("SLV-HISTORY-0006: {} has {} counters, there is no counter {counter}; count from 0", group.name(),
        group.counters())]
    NoCounter {
        /// The group.
        group: Group,
        /// The counter that was asked for.
        counter: usize,
    },
    /// SLV-HISTORY-0007: the database was made by another program.
    #[error("SLV-HISTORY-0007: {} is no database of selvedge: {what}; move it away, or name another folder",
        path.display())]
    ForeignDatabase {
        /// Path of the file.
        path: PathBuf,
        /// What shows that another program made the database.
        what: String,
    },
    /// SLV-HISTORY-0008: the database was written by a newer version.
    #[error("SLV-HISTORY-0008: {} has format {found}, this version knows {known}; use the version that wrote it, or \
        move the file away", path.display())]
    NewerDatabase {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        found: i64,
        /// The format that this version writes.
        known: i64,
    },
    /// SLV-HISTORY-0009: the database is damaged.
    #[error("SLV-HISTORY-0009: {} is damaged: {what}; restore it from a copy, or move it away: events and alarms then \
        begin anew", path.display())]
    DamagedDatabase {
        /// Path of the file.
        path: PathBuf,
        /// What SQLite found.
        what: String,
    },
    /// SLV-HISTORY-0010: the database could not be read or written.
    #[error("SLV-HISTORY-0010: cannot {operation} {}: {what}; check the file system (df, dmesg)", path.display())]
    Database {
        /// The attempted operation.
        operation: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// What SQLite reported.
        what: String,
        /// True if the file system is full.
        is_full: bool,
    },
}

impl HistoryError {
    /// True if there is no room on the file system.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { cause, .. } => is_full(cause),
            Self::Database { is_full, .. } => *is_full,
            _ => false,
        }
    }
}

/// What a start found, or what happened to a running history. Sampling goes on in every case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// SLV-HISTORY-0020: the end of a journal was lost in a crash.
    TornJournal {
        /// Name of the file.
        file: String,
        /// Bytes that were not readable.
        lost_bytes: u64,
        /// The last slot that is known.
        kept: Option<Moment>,
    },
    /// SLV-HISTORY-0021: a file cannot be read. It was set aside.
    Damaged {
        /// Name of the file.
        file: String,
        /// What is wrong with the file.
        what: String,
        /// True if the file's rows are still in a journal.
        is_kept: bool,
    },
    /// SLV-HISTORY-0022: storing failed. Samples are kept in memory and stored later.
    Stopped {
        /// What failed.
        what: String,
        /// True if there is no room on the file system.
        is_full: bool,
    },
    /// SLV-HISTORY-0023: storing works again.
    Resumed {
        /// Rows that were not kept in the meantime, as memory is bounded too.
        lost_rows: u64,
        /// From the first lost row to the last one.
        lost: Option<(Moment, Moment)>,
    },
    /// SLV-HISTORY-0024: the folder is at its size limit. The oldest files were removed.
    Removed {
        /// Number of files.
        files: u32,
        /// Bytes of these files.
        bytes: u64,
    },
    /// SLV-HISTORY-0025: samples are older than what is stored and were dropped.
    Late {
        /// Number of rows.
        rows: u64,
        /// The last stored slot.
        stored: Moment,
    },
    /// SLV-HISTORY-0026: storing begins again after a pause.
    Gap {
        /// The group.
        group: Group,
        /// The last stored slot.
        from: Moment,
        /// The first slot after the pause.
        to: Moment,
    },
    /// SLV-HISTORY-0027: an hour could not be written as a Parquet file. Its journal stays; the next attempt is in a
    /// minute.
    Unfinished {
        /// Name of the file.
        file: String,
        /// What failed.
        what: String,
        /// True if there is no room on the file system.
        is_full: bool,
    },
}

impl Notice {
    /// Returns its code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TornJournal { .. } => "SLV-HISTORY-0020",
            Self::Damaged { .. } => "SLV-HISTORY-0021",
            Self::Stopped { .. } => "SLV-HISTORY-0022",
            Self::Resumed { .. } => "SLV-HISTORY-0023",
            Self::Removed { .. } => "SLV-HISTORY-0024",
            Self::Late { .. } => "SLV-HISTORY-0025",
            Self::Gap { .. } => "SLV-HISTORY-0026",
            Self::Unfinished { .. } => "SLV-HISTORY-0027",
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.code())?;
        match self {
            Self::TornJournal { file, lost_bytes, kept } => {
                write!(f, "{lost_bytes} bytes at the end of {file} were lost in a crash; ")?;
                match kept {
                    Some(kept) => write!(f, "history is complete up to {kept}"),
                    None => write!(f, "nothing of this hour is left"),
                }
            }
            Self::Damaged { file, what, is_kept } => {
                let rows = match is_kept {
                    true => "its rows are written again from the journal",
                    false => "its rows are missing",
                };
                write!(f, "{file} cannot be read ({what}) and is now {file}.damaged; {rows}")
            }
            Self::Stopped { what, is_full: true } => {
                write!(
                    f,
                    "history is not stored, the disk is full: {what}; make room (df, or a smaller limit)"
                )
            }
            Self::Stopped { what, is_full: false } => write!(f, "history is not stored: {what}"),
            Self::Resumed { lost_rows: 0, .. } => write!(f, "history is stored again; nothing was lost"),
            Self::Resumed { lost_rows, lost } => {
                write!(f, "history is stored again; {lost_rows} rows were lost")?;
                lost.map_or(Ok(()), |(from, to)| write!(f, " between {from} and {to}"))
            }
            Self::Removed { files, bytes } => write!(
                f,
                "the folder reached its size limit; the {files} oldest files ({} MB) were removed; raise the limit to \
                 keep more",
                bytes / 1_000_000
            ),
            Self::Late { rows, stored } => write!(
                f,
                "{rows} samples are not later than the last stored slot ({stored}) and were dropped; check the clock"
            ),
            Self::Gap { group, from, to } => {
                write!(
                    f,
                    "history of {} has a gap from {from} to {to}: nothing was sampled",
                    group.name()
                )
            }
            Self::Unfinished { file, what, is_full } => {
                let advice = if *is_full {
                    "; make room (df, or a smaller limit)"
                } else {
                    ""
                };
                write!(
                    f,
                    "{file} could not be written, its journal stays: {what}{advice}; next attempt in a minute"
                )
            }
        }
    }
}

/// True if there is no room on the file system.
pub(crate) fn is_full(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        _ if is_full(cause) => "make room on this file system (df, df -i, quota)",
        io::ErrorKind::ReadOnlyFilesystem => "name a place that is not mounted read-only",
        io::ErrorKind::PermissionDenied => "name a folder that this user can write",
        _ => "check the kernel's log (dmesg) for errors of the disk",
    }
}

pub(crate) fn io_error(operation: &'static str, path: &Path, cause: io::Error) -> HistoryError {
    HistoryError::Io {
        operation,
        path: path.to_owned(),
        cause,
    }
}
