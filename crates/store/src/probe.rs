//! Checks what a start will need of the file system. Every file and folder stays as it was.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Longest name of a file or folder, in bytes. Source: Linux limits.h, NAME_MAX.
const NAME_MAX: usize = 255;
/// Error numbers of a file system or kernel without nameless files. Source: open(2), O_TMPFILE.
const NOT_SUPPORTED: [i32; 3] = [libc::EOPNOTSUPP, libc::EISDIR, libc::ENOENT];

/// Fails if this process cannot create files in an existing folder.
///
/// # Errors
///
/// The error that creating a file would give: a read-only file system, no permission, no room for a file.
pub fn can_create_in(folder: &Path) -> io::Result<()> {
    let folder = or_here(folder);
    if !fs::metadata(folder)?.is_dir() {
        return Err(no_folder());
    }
    // A nameless file: it exists until it is closed, and the folder does not change.
    let nameless = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(folder);
    match nameless {
        Err(error) if error.raw_os_error().is_some_and(|code| NOT_SUPPORTED.contains(&code)) => {
            let named = folder.join(format!(".selvedge-probe-{}", std::process::id()));
            OpenOptions::new().create_new(true).write(true).open(&named)?;
            fs::remove_file(&named)
        }
        opened => opened.map(drop),
    }
}

/// Fails if this process cannot create files in a folder, or cannot create the missing folder.
///
/// # Errors
///
/// The error that creating the folder, or a file in it, would give.
pub fn can_have_folder(path: &Path) -> io::Result<()> {
    if path.components().any(|part| part.as_os_str().len() > NAME_MAX) {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    for folder in path.ancestors() {
        match fs::symlink_metadata(or_here(folder)) {
            // A link that leads nowhere fails in the call.
            Ok(_) => return can_create_in(folder),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(no_folder()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the path, or the current folder for the parent of a bare name.
fn or_here(folder: &Path) -> &Path {
    match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    }
}

fn no_folder() -> io::Error {
    io::Error::new(io::ErrorKind::NotADirectory, "a part of the path is not a folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_leaves_nothing_behind() {
        let folder = std::env::temp_dir().join(format!("selvedge-store-{}-probe", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        std::os::unix::fs::symlink(folder.join("nowhere"), folder.join("link")).unwrap();
        can_create_in(&folder).unwrap();
        can_have_folder(&folder).unwrap();
        can_have_folder(&folder.join("new/newer")).unwrap();
        assert!(can_create_in(&folder.join("new")).is_err());
        for wrong in ["file", "file/new", "link", "link/new"] {
            assert!(can_have_folder(&folder.join(wrong)).is_err(), "{wrong}");
        }
        let long = folder.join("new").join("x".repeat(NAME_MAX + 1));
        assert!(can_have_folder(&long).is_err());
        assert!(can_have_folder(Path::new("/proc/x")).is_err());
        assert!(can_have_folder(Path::new("nul\0")).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(folder).unwrap();
    }
}
