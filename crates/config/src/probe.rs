//! Checks whether a start could write a file, a folder or a socket. Existing files stay unchanged.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Fails if a file cannot be opened for writing, or created at its path.
pub(crate) fn file(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        // A pipe is not opened: the probe would wait for a reader, or end the reader's input.
        Ok(meta) if !meta.is_file() && !meta.is_dir() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
        Err(_) => {
            // Under another name, because other programs may open the path at this moment.
            let beside = path.with_file_name(format!(".selvedge-probe-{}", std::process::id()));
            OpenOptions::new().create_new(true).write(true).open(&beside)?;
            fs::remove_file(&beside)
        }
    }
}

/// Fails if a folder does not exist and cannot be created, because its path leads through something else.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    let nearest = path.ancestors().find_map(|folder| fs::metadata(folder).ok());
    match nearest {
        Some(meta) if !meta.is_dir() => Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "a part of the path is not a folder",
        )),
        _ => Ok(()),
    }
}

/// Fails if the path holds something other than a socket, or its folder cannot be created.
pub(crate) fn socket(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is not a socket"))
        }
        Ok(_) => Ok(()),
        Err(_) => path.parent().map_or(Ok(()), folder),
    }
}
