//! Reads the operator's files: regular ones, of a bounded size.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::{ConfigError, ConfigWarning};

/// Largest file that is read: a list of a million GUIDs has 20 MB.
const BYTES_MAX: u64 = 64 << 20;
/// Users that are neither the owner nor in its group may read.
const OTHERS_READ: u32 = 0o004;

/// Returns the whole text of a regular file. A pipe or device is refused at once, without waiting for its data.
pub(crate) fn read_text(path: &Path) -> Result<String, ConfigError> {
    let refused = |cause: io::Error| ConfigError::Read {
        path: path.to_owned(),
        cause: match cause.kind() {
            io::ErrorKind::InvalidData => io::Error::new(cause.kind(), "it is not text"),
            _ => cause,
        },
    };
    let file = open(path)?;
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(refused)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(ConfigError::TooLarge {
            path: path.to_owned(),
            limit: BYTES_MAX,
        });
    }
    Ok(text)
}

/// Returns a warning if every user may read a file, for files with keys.
pub(crate) fn readable_by_others(path: &Path) -> Option<ConfigWarning> {
    let mode = fs::metadata(path).map_or(0, |meta| meta.mode());
    (mode & OTHERS_READ != 0).then(|| ConfigWarning::OthersRead { path: path.to_owned() })
}

/// Opens a regular file. The check comes before the opening, which may wait for the writer of a pipe.
fn open(path: &Path) -> Result<File, ConfigError> {
    let refused = |cause| ConfigError::Read {
        path: path.to_owned(),
        cause,
    };
    let check = |meta: Metadata| match kind(&meta) {
        None => Ok(()),
        Some(kind) => Err(ConfigError::NoFile {
            path: path.to_owned(),
            kind,
        }),
    };
    check(fs::metadata(path).map_err(refused)?)?;
    // Between check and opening a pipe may have taken the file's place: do not wait, and check again.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(refused)?;
    check(file.metadata().map_err(refused)?)?;
    Ok(file)
}

/// Names what is there instead of a regular file.
fn kind(meta: &Metadata) -> Option<&'static str> {
    let kind = meta.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a folder"),
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("selvedge-config-{}-{name}", std::process::id()))
    }

    #[test]
    fn only_regular_files_are_read() {
        let check = |path: &Path, want: &str| {
            let error = read_text(path).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        };
        let pipe = scratch("pipe");
        let _ = fs::remove_file(&pipe);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        check(&pipe, &format!("SLV-CONFIG-0042: {} is a pipe", pipe.display()));
        fs::remove_file(&pipe).unwrap();
        check(Path::new("/dev/zero"), "SLV-CONFIG-0042: /dev/zero is a device");
        check(&std::env::temp_dir(), "SLV-CONFIG-0042: ");
        check(Path::new("/nowhere/at/all"), "SLV-CONFIG-0001: ");
        let large = scratch("large");
        File::create(&large).unwrap().set_len(BYTES_MAX + 1).unwrap();
        check(&large, "SLV-CONFIG-0043: ");
        fs::remove_file(&large).unwrap();
    }

    #[test]
    fn files_that_others_may_read_are_named() {
        let path = scratch("open");
        fs::write(&path, "").unwrap();
        for (mode, warns) in [(0o644, true), (0o604, true), (0o640, false), (0o600, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(readable_by_others(&path).is_some(), warns, "{mode:o}");
        }
        fs::remove_file(&path).unwrap();
    }
}
