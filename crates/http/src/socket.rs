//! Where sockets are.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use selvedge_daemon::user_id;

use crate::HttpError;

/// Name of a manager's socket.
pub const MANAGER_SOCKET: &str = "selvedge.sock";
/// Name of the socket of an emulated fabric without a manager.
pub const EMULATOR_SOCKET: &str = "emulator.sock";
/// The system's folder, made by the service manager.
const SYSTEM_FOLDER: &str = "/run/selvedge";

/// Where a socket of this name is made: in the system's folder if this user may write there, else in the user's.
#[must_use]
pub fn default_path(name: &str) -> PathBuf {
    let folder = folders().into_iter().find(|folder| is_writable(folder));
    folder.unwrap_or_else(user_folder).join(name)
}

/// Where somebody listens: the first of the places that [`default_path`] chooses from; else that path.
#[must_use]
pub fn existing_path(name: &str) -> PathBuf {
    let listening = |path: &PathBuf| UnixStream::connect(path).is_ok();
    let mut paths = folders().into_iter().map(|folder| folder.join(name));
    paths.find(listening).unwrap_or_else(|| default_path(name))
}

fn folders() -> Vec<PathBuf> {
    vec![PathBuf::from(SYSTEM_FOLDER), user_folder()]
}

/// `$XDG_RUNTIME_DIR/selvedge`, or a folder of this user's under the temporary one.
fn user_folder() -> PathBuf {
    match env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
    {
        Some(dir) => dir.join("selvedge"),
        None => env::temp_dir().join(format!("selvedge-{}", user_id())),
    }
}

fn is_writable(folder: &Path) -> bool {
    let Ok(meta) = fs::metadata(folder) else { return false };
    let mode = meta.permissions().mode();
    meta.is_dir() && (user_id() == 0 || meta.uid() == user_id() && mode & 0o200 != 0)
}

/// A socket that is taken, but not yet served; clients wait. Its file goes when this does.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    pub(crate) listener: Option<UnixListener>,
}

impl Socket {
    /// Takes `path`; a socket that nobody listens on any more is replaced.
    pub fn bind(path: &Path) -> Result<Self, HttpError> {
        Ok(Self {
            listener: Some(bind(path)?),
            path: path.to_owned(),
        })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A leftover socket is recognised and replaced by the next process.
        let _ = fs::remove_file(&self.path);
    }
}

fn bind(path: &Path) -> Result<UnixListener, HttpError> {
    let failed = |cause: io::Error| HttpError::Bind {
        path: path.to_owned(),
        cause,
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        // Only this user may enter a folder that is made here.
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
    }
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if UnixStream::connect(path).is_ok() {
                return Err(HttpError::InUse { path: path.to_owned() });
            }
            let is_socket = fs::symlink_metadata(path).map_err(failed)?.file_type().is_socket();
            if !is_socket {
                return Err(HttpError::NoSocket { path: path.to_owned() });
            }
            fs::remove_file(path).map_err(failed)?;
            UnixListener::bind(path).map_err(failed)?
        }
        other => other.map_err(failed)?,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(0o660)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}
