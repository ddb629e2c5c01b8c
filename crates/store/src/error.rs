//! Errors of reading and storing state.

use std::io;
use std::path::{Path, PathBuf};

use selvedge_plan::out_of_service::LineFault;
use selvedge_types::Guid;

/// State that cannot be read or stored: what, where, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SLV-STORE-0001: the operating system reported an error.
    #[error("SLV-STORE-0001: cannot {operation} {}: {cause}; {}",
        path.display(), advice(cause, "name a folder that this user can write (--state)"))]
    Io {
        /// The attempted operation.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// SLV-STORE-0002: another manager uses the folder.
    #[error("SLV-STORE-0002: {} is in use by another selvedge; stop it, or give this one a folder of its own \
        (--state)", path.display())]
    Locked {
        /// Path of the folder.
        path: PathBuf,
    },
    /// SLV-STORE-0003: a line is not a guid2lid entry.
    #[error(
        "SLV-STORE-0003: {}, line {line}: {what}; correct or move the file away (then ports keep the LIDs they hold)",
        path.display()
    )]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The problem of the line.
        what: LineError,
    },
    /// SLV-STORE-0004: a file of plan state cannot be read.
    #[error(
        "SLV-STORE-0004: {}: {what}; correct or move the file away (then plans are numbered from 1 and engines choose \
         lanes again)",
        path.display()
    )]
    PlanState {
        /// Path of the file.
        path: PathBuf,
        /// The problem of the file.
        what: PlanStateError,
    },
    /// SLV-STORE-0006: a sealed file has changed since it was written.
    #[error(
        "SLV-STORE-0006: {} is damaged: {what}; put a good copy back; if the file was edited on purpose, delete its \
            first line",
        path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// How the change was detected.
        what: SealError,
    },
    /// SLV-STORE-0007: LIDs were stored earlier, but their file is empty.
    #[error(
        "SLV-STORE-0007: {} is empty, but had generation {known} when plan-state.toml was written; put a good copy \
            back, or delete the empty file (then ports keep the LIDs they hold)",
        path.display()
    )]
    Emptied {
        /// Path of the file.
        path: PathBuf,
        /// The generation that plan-state.toml names.
        known: u64,
    },
    /// SLV-STORE-0018: a line does not name a switch, link or port that is out of service.
    #[error(
        "SLV-STORE-0018: {}, line {line}: {what}; correct or remove the line (without the file, routes lead over \
         places that were taken out of service)",
        path.display()
    )]
    OutOfService {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The problem of the line.
        what: LineFault,
    },
    /// SLV-STORE-0005: a line is not a registration of a host.
    #[error(
        "SLV-STORE-0005: {}, line {line}: no group, member, subscription or service; move the file away (then hosts \
            are asked to register again)",
        path.display()
    )]
    Registrations {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
    },
}

/// How a change to a sealed file was detected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The first line begins like a seal but is not one.
    #[error("its first line (generation, length and check sum) is damaged")]
    Line,
    /// The file is shorter or longer than its seal states.
    #[error("its first line announces {want} bytes, and {found} follow")]
    Length {
        /// Length in bytes that the seal states.
        want: usize,
        /// Length in bytes that was found.
        found: usize,
    },
    /// The check sum differs.
    #[error("its check sum differs from the one in its first line")]
    Sum,
}

/// Returns advice for a failure of the operating system: the advice for its cause if there is any, otherwise
/// `otherwise`.
#[must_use]
pub fn advice(cause: &io::Error, otherwise: &'static str) -> &'static str {
    match cause.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => "make room on this file system (df, df -i, quota)",
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (ulimit -n, LimitNOFILE=)",
        Some(libc::EROFS) => "name a folder that is not mounted read-only, or mount this one for writing",
        Some(libc::EIO) => "check the kernel's log (dmesg) for errors of the disk",
        _ => otherwise,
    }
}

pub(crate) fn io_error(operation: &'static str, path: &Path, cause: io::Error) -> StoreError {
    StoreError::Io {
        operation,
        path: path.to_owned(),
        cause,
    }
}

/// The problem of a file of plan state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanStateError {
    /// The bytes are not text.
    #[error("the file is not UTF-8 text")]
    NoText,
    /// A key has another form; its text is not shown.
    #[error("a key is not 0x and 16 hexadecimal digits (its text is not shown)")]
    Key,
    /// Not TOML, or unknown keys or values; with the message of the TOML reader.
    #[error("{what}")]
    Toml {
        /// The problem, and its place.
        what: String,
    },
    /// Written by another version.
    #[error("it has format {found}, this version knows {known}: it was written by another version of selvedge")]
    Format {
        /// Format of the file.
        found: u32,
        /// The format that this version supports.
        known: u32,
    },
    /// The name of a lane entry is not a GUID.
    #[error("'{found}' is no GUID")]
    Guid {
        /// The text found.
        found: String,
    },
    /// A lane that no SL leads to.
    #[error("switch {guid} has lane {lane}; lanes are 0 to 14")]
    Lane {
        /// The switch.
        guid: Guid,
        /// The lane.
        lane: u8,
    },
    /// LIDs that no port can have.
    #[error("{first} to {last} of port {guid} are no LIDs of one port")]
    Lids {
        /// The port.
        guid: Guid,
        /// The first.
        first: u16,
        /// The last.
        last: u16,
    },
}

/// The problem of a line of a guid2lid file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The line does not have three words.
    #[error("want '0xGUID 0xMINLID 0xMAXLID', found '{found}'")]
    Shape {
        /// The line, cut to 60 characters.
        found: String,
    },
    /// Invalid GUID.
    #[error("'{found}' is no GUID")]
    Guid {
        /// The text found.
        found: String,
    },
    /// LIDs that are not an aligned range of unicast LIDs with a power of two as length.
    #[error("LIDs '{min}' to '{max}' are no unicast range of 2^LMC LIDs (0x0001-0xbfff)")]
    Lids {
        /// First LID as written.
        min: String,
        /// Last LID as written.
        max: String,
    },
    /// An earlier line has the same GUID.
    #[error("the GUID {found} has an entry already")]
    Twice {
        /// The GUID as written.
        found: String,
    },
    /// The bytes are not text.
    #[error("the file is not UTF-8 text")]
    NoText,
    /// A key has another form; its text is not shown.
    #[error("a key is not 0x and 16 hexadecimal digits (its text is not shown)")]
    Key,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_follows_the_cause() {
        let said = |code| io_error("open", Path::new("x"), io::Error::from_raw_os_error(code)).to_string();
        for (code, want) in [
            (libc::ENOSPC, "make room"),
            (libc::EDQUOT, "make room"),
            (libc::EMFILE, "limit of open files"),
            (libc::ENFILE, "limit of open files"),
            (libc::EROFS, "read-only, or mount"),
            (libc::EIO, "dmesg"),
            (libc::EACCES, "name a folder that this user can write (--state)"),
        ] {
            assert!(said(code).contains(want), "{}", said(code));
        }
    }
}
