//! Replaces files as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::error::io_error;

/// Number of characters of the file's name that the temporary name keeps.
const NAME_MAX: usize = 50;
/// Largest number of temporary names that are tried. Fewer threads replace one file at the same time.
const ATTEMPTS_MAX: u32 = 100;

/// Replaces the file at `path` by what `write` writes. A reader finds the old file or the new one, never a part. On
/// return, the new file survives a crash of the machine. After an error, the old file is unchanged.
///
/// An existing file keeps its mode. A symbolic link stays, and the file that it names is replaced. Pipes, terminals and
/// other devices are written to directly.
///
/// # Errors
///
/// [`StoreError::Io`] with the operation that failed.
pub fn replace_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), StoreError> {
    match Target::of(path)? {
        Target::Stream => {
            let file = OpenOptions::new().write(true).open(path);
            let mut file = BufWriter::new(file.map_err(|cause| io_error("open", path, cause))?);
            let written = write(&mut file).and_then(|()| file.flush());
            written.map_err(|cause| io_error("write", path, cause))
        }
        Target::File { path, old } => {
            let (new, file) = create_beside(&path)?;
            if let Some(old) = &old {
                let kept = file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777));
                kept.map_err(|cause| io_error("set the mode of", &new, cause))
                    .inspect_err(|_| remove(&new))?;
                // Only root may give a file away; else the new file belongs to this user.
                let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
            }
            replace_by(&new, file, &path, write)
        }
    }
}

/// Fails if [`replace_file`] would fail before writing. Leaves no file behind.
///
/// # Errors
///
/// [`StoreError::Io`] with the operation that failed.
pub fn can_replace_file(path: &Path) -> Result<(), StoreError> {
    if let Target::File { path, .. } = Target::of(path)? {
        let (new, _) = create_beside(&path)?;
        remove(&new);
    }
    Ok(())
}

/// Writes to `file`, which is at `new`, then renames it to `path`. Removes `new` if that fails.
fn replace_by(
    new: &Path,
    file: File,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), StoreError> {
    let mut file = BufWriter::new(file);
    let written = write(&mut file).and_then(|()| file.flush());
    let written = written.and_then(|()| file.get_ref().sync_all());
    drop(file);
    written
        .map_err(|cause| io_error("write", new, cause))
        .and_then(|()| fs::rename(new, path).map_err(|cause| io_error("rename to", path, cause)))
        .inspect_err(|_| remove(new))?;
    // The rename survives a crash only after the folder is synced.
    let folder = folder(path);
    File::open(folder)
        .and_then(|dir| dir.sync_all())
        .map_err(|cause| io_error("sync folder", folder, cause))
}

/// The kind of target that a path leads to.
enum Target {
    /// A pipe, a terminal or another device.
    Stream,
    /// A regular file, or a path at which none exists yet.
    File { path: PathBuf, old: Option<fs::Metadata> },
}

impl Target {
    fn of(path: &Path) -> Result<Self, StoreError> {
        match fs::metadata(path) {
            Ok(old) if old.is_dir() => Err(io_error("write", path, io::ErrorKind::IsADirectory.into())),
            Ok(old) if old.is_file() => {
                let path = fs::canonicalize(path).map_err(|cause| io_error("find", path, cause))?;
                Ok(Self::File { path, old: Some(old) })
            }
            Ok(_) => Ok(Self::Stream),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // The link names a file that does not exist yet: create the file there.
                let path = match fs::read_link(path) {
                    Ok(target) => folder(path).join(target),
                    Err(_) => path.to_owned(),
                };
                Ok(Self::File { path, old: None })
            }
            Err(cause) => Err(io_error("find", path, cause)),
        }
    }
}

/// Creates a file in the same folder, under a name that no other process or thread takes.
fn create_beside(path: &Path) -> Result<(PathBuf, File), StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A name may have 255 bytes; the temporary name is longer than the file's.
    let name: String = name.chars().take(NAME_MAX).collect();
    let mut attempt = 0_u32;
    loop {
        let new = folder(path).join(format!(".{name}.{}-{attempt}.new", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&new) {
            Ok(file) => return Ok((new, file)),
            // Another thread uses this name, or a killed process left the file.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < ATTEMPTS_MAX => attempt += 1,
            Err(cause) => return Err(io_error("create", &new, cause)),
        }
    }
}

fn folder(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Removes a file that was never put in place.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("selvedge-whole-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn text(text: &'static str) -> impl FnOnce(&mut dyn Write) -> io::Result<()> {
        move |file| file.write_all(text.as_bytes())
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_made_and_replaced_and_keeps_its_mode() {
        let folder = scratch("replaced");
        let path = folder.join("file");
        replace_file(&path, text("old")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace_file(&path, text("new")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(names(&folder), ["file"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = scratch("failed");
        let path = folder.join("file");
        replace_file(&path, text("old")).unwrap();
        let full = |file: &mut dyn Write| {
            file.write_all(&[b'x'; 100_000])?;
            Err(io::ErrorKind::StorageFull.into())
        };
        let error = replace_file(&path, full).unwrap_err();
        assert!(matches!(error, StoreError::Io { operation: "write", .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(&folder), ["file"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_stays_and_what_it_names_is_replaced() {
        let folder = scratch("link");
        fs::create_dir(folder.join("real")).unwrap();
        let link = folder.join("link");
        symlink("real/file", &link).unwrap();
        for want in ["first", "second"] {
            replace_file(&link, text(want)).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::read_to_string(folder.join("real/file")).unwrap(), want);
        }
        assert_eq!(names(&folder.join("real")), ["file"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_file_is_written_to_directly() {
        replace_file(Path::new("/dev/null"), text("gone")).unwrap();
        assert!(fs::metadata("/dev/null").unwrap().mode() & 0o170_000 == 0o020_000);
        let error = replace_file(Path::new("/dev/full"), text("no room")).unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }

    #[test]
    fn a_place_is_tried_without_a_trace() {
        let folder = scratch("tried");
        let path = folder.join("file");
        can_replace_file(&path).unwrap();
        assert_eq!(names(&folder), [""; 0]);
        assert!(can_replace_file(&folder).is_err());
        assert!(can_replace_file(&folder.join("no/such")).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
