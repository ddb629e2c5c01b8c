//! The reasons for which the process cannot do its work.

use std::io;
use std::path::PathBuf;

use selvedge_config::ConfigError;
use selvedge_emulator::EmulatorError;
use selvedge_store::{StoreError, advice};
use selvedge_telemetry::exposition::expected::ExpectedError;
use selvedge_telemetry::selection::SelectionError;
use selvedge_transport::ibsim::ServerError;
use selvedge_wire::PortError;

/// The reasons for which the process cannot do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// A configuration that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An emulated fabric that cannot be had.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// The port to the fabric failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A server for outside clients.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// State between runs.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A metric selection file that cannot be used.
    #[error("{cause} (file {})", path.display())]
    Selection {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: SelectionError,
    },
    /// A file of expected types that cannot be used.
    #[error("{cause} (file {})", path.display())]
    ExpectedTypes {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: ExpectedError,
    },
    /// SLV-DAEMON-0005: a file that the configuration names cannot be read.
    #[error(
        "SLV-DAEMON-0005: cannot read {}: {cause}; correct {key} in the configuration, or delete it",
        path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// The key that names it.
        key: &'static str,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// SLV-DAEMON-0001: a file of this process cannot be written.
    #[error(
        "SLV-DAEMON-0001: cannot write {}: {cause}; {}",
        path.display(), advice(cause, "name a file that this user can write")
    )]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// SLV-DAEMON-0002: a thread cannot be started.
    #[error("SLV-DAEMON-0002: cannot start a thread: {cause}; raise the limit of processes (ulimit -u)")]
    Thread {
        /// The error of the operating system.
        cause: io::Error,
    },
    /// SLV-DAEMON-0003: the emulated fabric has no port for a manager.
    #[error(
        "SLV-DAEMON-0003: the fabric has no port for a manager{wanted}; give it a host, or name a switch with --at"
    )]
    NoSeat {
        /// ` at '…'`, or empty.
        wanted: String,
    },
    /// SLV-DAEMON-0004: a record cannot be read.
    #[error("SLV-DAEMON-0004: {}: {what}; give a file that 'selvedge run --record' wrote", path.display())]
    BadRecord {
        /// Path of the file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
}
