//! Checks whether a start could write a file or a socket. Nothing is created or changed.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::SocketAddr;
use std::path::Path;

use selvedge_store::{can_create_in, can_have_folder};

/// Permission bit of a folder in which every user may create files.
const OTHERS_WRITE: u32 = 0o002;

/// Fails if a log cannot be opened for appending, or created at its path.
pub(crate) fn file(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let is_link = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
    if is_link && fs::metadata(folder)?.mode() & OTHERS_WRITE != 0 {
        let what = "it is a symbolic link in a folder of every user, which is not followed";
        return Err(io::Error::other(what));
    }
    match fs::metadata(path) {
        // A pipe of this process, as /dev/stderr, has no path of its own.
        Ok(meta) if meta.file_type().is_fifo() && fs::canonicalize(path).is_ok() => {
            Err(io::Error::other("it is a FIFO, and a log needs a file"))
        }
        Ok(meta) if meta.file_type().is_socket() => Err(io::Error::other("it is a socket, and a log needs a file")),
        // Opening a device may already act on it.
        Ok(meta) if !meta.is_file() && !meta.is_dir() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Err(_) if path.as_os_str().as_encoded_bytes().ends_with(b"/") => Err(io::ErrorKind::IsADirectory.into()),
        Err(_) => match fs::read_link(path) {
            Ok(target) => can_create_in(folder.join(target).parent().unwrap_or(folder)),
            Err(_) => can_create_in(folder),
        },
    }
}

/// Fails if no socket can be bound at the path: the path is too long, another kind of file is there, or the folder
/// cannot be written to or created.
pub(crate) fn socket(path: &Path) -> io::Result<()> {
    SocketAddr::from_pathname(path)?;
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is not a socket"));
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => return Err(error),
        _ => {}
    }
    can_have_folder(path.parent().unwrap_or(Path::new("")))
}
