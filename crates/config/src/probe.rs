//! Whether a start could write a file, a folder or a socket. Nothing that is there is changed.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Fails if a file cannot be opened for writing, or made where it is to be.
pub(crate) fn file(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        // A pipe would wait for its reader, or lose it.
        Ok(meta) if !meta.is_file() && !meta.is_dir() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
        Err(_) => {
            // Another name, because the path may be opened by others at this moment.
            let beside = path.with_file_name(format!(".selvedge-probe-{}", std::process::id()));
            OpenOptions::new().create_new(true).write(true).open(&beside)?;
            fs::remove_file(&beside)
        }
    }
}

/// Fails if a folder is not there and cannot be made, because something else than a folder is in the way.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    let nearest = path.ancestors().find_map(|folder| fs::metadata(folder).ok());
    match nearest {
        Some(meta) if !meta.is_dir() => Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "something else than a folder is in the way",
        )),
        _ => Ok(()),
    }
}

/// Fails if something else than a socket is there, or its folder cannot be made.
pub(crate) fn socket(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "what is there is no socket",
        )),
        Ok(_) => Ok(()),
        Err(_) => path.parent().map_or(Ok(()), folder),
    }
}
