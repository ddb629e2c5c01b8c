//! Reads files that the operator names, up to a stated size.
//!
//! The name may lead to an endless device or to a FIFO without a writer. Therefore only regular files are read, up to a
//! limit: a wrong name costs neither memory nor time. All code that reads an operator's file uses this module.

use std::fmt;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Size limit in bytes of settings files: configuration, partitions, GUID lists, node names, experiments. A file with
/// one line for each of the 49,151 LIDs of a subnet has a tenth of this size.
pub const SETTINGS_MAX: u64 = 64 << 20;

/// Size limit in bytes of data files: topologies, table dumps, traces, records, state. The largest known file is a dump
/// of forwarding tables: 60 bytes for each switch and LID, 2.9 GB for 3,000 switches and 16,000 LIDs.
pub const DATA_MAX: u64 = 4 << 30;

/// Returns the bytes of a regular file of at most `limit` bytes.
///
/// Refuses devices, FIFOs, sockets, folders and longer files. It neither waits for a writer nor allocates memory first.
pub fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Check before opening: opening a device may already act on it.
    refuse_irregular(&fs::metadata(path)?)?;
    // The name may lead to a FIFO by now. O_NONBLOCK opens a FIFO without a writer; for regular files it changes
    // nothing.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let found = file.metadata()?;
    refuse_irregular(&found)?;
    if found.len() > limit {
        return Err(too_long(limit));
    }
    read_up_to(file, limit)
}

/// Returns the text of a regular file of at most `limit` bytes. Refuses bytes that are not UTF-8.
pub fn read_text_file(path: &Path, limit: u64) -> io::Result<String> {
    let bytes = read_file(path, limit)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text"))
}

/// Returns all bytes of a stream. Fails if there are more than `limit`.
pub fn read_up_to(stream: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than allowed shows that the stream is too long.
    stream.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_long(limit));
    }
    Ok(bytes)
}

fn refuse_irregular(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, NotRegular(what)))
}

fn too_long(limit: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, TooLong(limit))
}

/// The kind of a file that is not a regular one.
#[derive(Debug)]
struct NotRegular(&'static str);

impl fmt::Display for NotRegular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}, and only regular files are read", self.0)
    }
}

impl std::error::Error for NotRegular {}

/// The file exceeds this limit, in bytes.
#[derive(Debug)]
struct TooLong(u64);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 >> 20 {
            0 => write!(f, "it has more than {} bytes, the limit for such a file", self.0),
            mib => write!(f, "it has more than {mib} MiB, the limit for such a file"),
        }
    }
}

impl std::error::Error for TooLong {}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("selvedge-file-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn refused(path: &Path) -> String {
        read_file(path, 100).unwrap_err().to_string()
    }

    #[test]
    fn regular_files_are_read_up_to_the_limit() {
        let folder = scratch("limit");
        let path = folder.join("file");
        for (len, is_read) in [(0, true), (99, true), (100, true), (101, false), (100_000, false)] {
            fs::write(&path, vec![7; len]).unwrap();
            assert_eq!(
                read_file(&path, 100).is_ok_and(|bytes| bytes.len() == len),
                is_read,
                "{len}"
            );
        }
        assert_eq!(refused(&path), "it has more than 100 bytes, the limit for such a file");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = scratch("kinds");
        let fifo = folder.join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let socket = folder.join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let link = folder.join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        // No program ever opens the FIFO for writing: a read that waits for a writer would never return.
        assert_eq!(refused(&fifo), "it is a FIFO, and only regular files are read");
        assert_eq!(refused(&socket), "it is a socket, and only regular files are read");
        assert_eq!(refused(&folder), "it is a folder, and only regular files are read");
        for device in [Path::new("/dev/zero"), Path::new("/dev/full"), &link] {
            assert_eq!(refused(device), "it is a device, and only regular files are read");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn streams_are_read_up_to_the_limit() {
        assert_eq!(read_up_to(&b"abc"[..], 3).unwrap(), b"abc");
        assert!(read_up_to(&b"abcd"[..], 3).is_err());
        let error = read_up_to(io::repeat(0), 2 << 20).unwrap_err().to_string();
        assert_eq!(error, "it has more than 2 MiB, the limit for such a file");
    }

    #[test]
    fn text_is_utf_8() {
        let folder = scratch("text");
        let path = folder.join("file");
        fs::write(&path, b"caf\xe9").unwrap();
        assert_eq!(read_text_file(&path, 100).unwrap_err().to_string(), "it is not text");
        fs::remove_dir_all(folder).unwrap();
    }
}
