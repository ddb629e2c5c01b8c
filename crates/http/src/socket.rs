//! Paths of sockets.

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
/// Parent of the socket folder of a user without a run-time folder. Not `$TMPDIR`: server and clients may differ in it.
const TEMPORARY_FOLDER: &str = "/tmp";

/// Returns the path at which a server creates a socket of this name: in the first default folder that this user may
/// write to.
#[must_use]
pub fn default_path(name: &str) -> PathBuf {
    let folders = folders();
    let usable = folders.iter().find(|folder| is_usable(folder)).or(folders.last());
    usable.map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
}

/// Returns every path at which a process of this user or of the system user creates a socket of this name, in the order
/// of [`default_path`].
#[must_use]
pub fn default_paths(name: &str) -> Vec<PathBuf> {
    folders().iter().map(|folder| folder.join(name)).collect()
}

/// Returns the first of [`default_paths`] with a listening process; otherwise [`default_path`].
#[must_use]
pub fn existing_path(name: &str) -> PathBuf {
    let listening = |path: &PathBuf| UnixStream::connect(path).is_ok();
    let mut paths = default_paths(name).into_iter();
    paths.find(listening).unwrap_or_else(|| default_path(name))
}

/// Returns `/run/selvedge`, `$XDG_RUNTIME_DIR/selvedge` if that is set, and `/tmp/selvedge-UID`. Servers and clients
/// use the same list in this order.
fn folders() -> Vec<PathBuf> {
    let run_time = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let run_time = run_time.filter(|dir| dir.is_absolute()).map(|dir| dir.join("selvedge"));
    let temporary = Path::new(TEMPORARY_FOLDER).join(format!("selvedge-{}", user_id()));
    let temporary = Some(temporary).filter(|folder| is_own(folder));
    let system = PathBuf::from(SYSTEM_FOLDER);
    [Some(system), run_time, temporary].into_iter().flatten().collect()
}

/// True unless another user created the folder: any user may create one in a folder of temporary files.
fn is_own(folder: &Path) -> bool {
    match fs::symlink_metadata(folder) {
        Ok(meta) => meta.is_dir() && meta.uid() == user_id(),
        Err(_) => true,
    }
}

/// True if this user may create a socket in the folder. Creates missing folders, except the system's.
fn is_usable(folder: &Path) -> bool {
    match (folder.exists(), folder == Path::new(SYSTEM_FOLDER)) {
        (true, _) => is_writable(folder),
        (false, true) => false,
        (false, false) => folder.parent().is_some_and(Path::is_dir),
    }
}

fn is_writable(folder: &Path) -> bool {
    let Ok(meta) = fs::metadata(folder) else { return false };
    let mode = meta.permissions().mode();
    meta.is_dir() && (user_id() == 0 || meta.uid() == user_id() && mode & 0o200 != 0)
}

/// A bound socket that is not served yet; clients wait. Dropping it removes its file.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    pub(crate) listener: Option<UnixListener>,
}

impl Socket {
    /// Binds `path`. Replaces a socket without a listening process.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_looks_wherever_a_server_may_be() {
        let paths = default_paths(MANAGER_SOCKET);
        assert!(paths.contains(&default_path(MANAGER_SOCKET)), "{paths:?}");
        assert!(paths.contains(&existing_path(MANAGER_SOCKET)), "{paths:?}");
        let temporary = format!("/tmp/selvedge-{}/{MANAGER_SOCKET}", user_id());
        assert_eq!(paths.last(), Some(&PathBuf::from(temporary)));
    }

    #[test]
    fn a_folder_that_another_user_or_a_link_made_is_not_ours() {
        let own = env::temp_dir().join(format!("selvedge-http-own-{}", std::process::id()));
        assert!(is_own(&own));
        fs::create_dir(&own).unwrap();
        assert!(is_own(&own));
        let link = own.join("link");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert!(!is_own(&link));
        assert!(!is_own(Path::new("/proc/1/cmdline")));
        fs::remove_dir_all(own).unwrap();
    }
}
