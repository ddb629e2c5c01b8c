//! Creates files that other users cannot read, without following a symbolic link of another user.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use selvedge_store::can_create_in;

/// Mode of a file that only its owner reads and writes.
const PRIVATE: u32 = 0o600;
/// Mode of a log, which the owner's group may read.
const LOG: u32 = 0o640;
/// Permission bit of a folder in which every user may create files.
const OTHERS_WRITE: u32 = 0o002;

/// Returns the user of this process: the owner of /proc/self.
#[must_use]
pub fn user_id() -> u32 {
    fs::metadata("/proc/self").map_or(0, |meta| meta.uid())
}

/// Creates or empties a file that only its owner may read and write. Follows no symbolic links. Refuses a file of
/// another user, because its owner could make it readable again.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(name_link)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Ok(file);
    }
    if meta.uid() != user_id() {
        return Err(of_other_user(&meta));
    }
    // The mode above applies to a new file only; this file may have existed.
    file.set_permissions(Permissions::from_mode(PRIVATE))?;
    file.set_len(0)?;
    Ok(file)
}

/// Fails if [`create_private`] would fail. Changes nothing.
pub(crate) fn can_create_private(path: &Path) -> io::Result<()> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return can_create_in(path.parent().unwrap_or(Path::new("")));
        }
        found => found?,
    };
    if meta.is_symlink() {
        return Err(name_link(io::Error::from_raw_os_error(libc::ELOOP)));
    }
    if meta.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !meta.is_file() {
        // Opening a device or a pipe may already act on it.
        return Ok(());
    }
    if meta.uid() != user_id() {
        return Err(of_other_user(&meta));
    }
    OpenOptions::new().write(true).open(path).map(drop)
}

fn of_other_user(meta: &Metadata) -> io::Error {
    let what = format!("it belongs to user {}", meta.uid());
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

/// Opens a log for appending. Follows no symbolic links in a folder where every user may create files (`/tmp`). Fails
/// for a pipe without a reader instead of waiting.
pub(crate) fn append_log(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::metadata(folder.unwrap_or(Path::new(".")))?;
    let no_follow = match folder.mode() & OTHERS_WRITE {
        0 => 0,
        _ => libc::O_NOFOLLOW,
    };
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(LOG);
    options
        .custom_flags(no_follow | libc::O_NONBLOCK)
        .open(path)
        .map_err(name_link)
}

/// Rewords "too many levels of symbolic links", which an operator would misread.
fn name_link(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::new(error.kind(), "it is a symbolic link, which is not followed here"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, mode: u32) -> Self {
            let path = std::env::temp_dir().join(format!("selvedge-files-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_private_file_is_no_link() {
        let folder = Folder::new("private", 0o755);
        let (target, link, new) = (folder.0.join("target"), folder.0.join("link"), folder.0.join("new"));
        fs::write(&target, "kept").unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o644)).unwrap();
        symlink(&target, &link).unwrap();
        let error = create_private(&link).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert_eq!(
            (fs::read_to_string(&target).unwrap().as_str(), mode(&target)),
            ("kept", 0o644)
        );
        symlink("nowhere", folder.0.join("dangling")).unwrap();
        assert!(create_private(&folder.0.join("dangling")).is_err());
        assert!(!folder.0.join("nowhere").exists());
        create_private(&new).unwrap();
        assert_eq!(mode(&new), PRIVATE);
        drop(create_private(&target).unwrap());
        assert_eq!((fs::read(&target).unwrap().len(), mode(&target)), (0, PRIVATE));
    }

    #[test]
    fn a_log_follows_links_only_where_others_can_make_none() {
        for (folder_mode, follows) in [(0o755, true), (0o777, false), (0o1777, false)] {
            let folder = Folder::new(&format!("log-{folder_mode:o}"), folder_mode);
            let (target, link) = (folder.0.join("target"), folder.0.join("link"));
            symlink(&target, &link).unwrap();
            let opened = append_log(&link);
            assert_eq!((opened.is_ok(), target.exists()), (follows, follows), "{folder_mode:o}");
            append_log(&folder.0.join("log")).unwrap().write_all(b"line\n").unwrap();
            assert_eq!(mode(&folder.0.join("log")) & 0o007, 0, "others may not read it");
        }
    }

    #[test]
    fn what_cannot_be_created_is_found_without_a_trace() {
        let folder = Folder::new("can", 0o755);
        fs::create_dir(folder.0.join("folder")).unwrap();
        fs::write(folder.0.join("old"), "old").unwrap();
        symlink(folder.0.join("old"), folder.0.join("link")).unwrap();
        for name in ["old", "new"] {
            can_create_private(&folder.0.join(name)).unwrap();
        }
        assert_eq!(fs::read_to_string(folder.0.join("old")).unwrap(), "old");
        assert!(!folder.0.join("new").exists());
        for name in ["folder", "link", "nowhere/new", "old/new"] {
            let path = folder.0.join(name);
            assert!(can_create_private(&path).is_err(), "{name}");
            assert!(create_private(&path).is_err(), "{name}");
        }
    }

    #[test]
    fn a_pipe_without_a_reader_is_an_error() {
        let folder = Folder::new("pipe", 0o755);
        let pipe = folder.0.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert!(append_log(&pipe).is_err());
    }
}
