//! Errors of serving or reaching the API.

use std::io;
use std::path::PathBuf;

/// Reason why the API cannot be served or reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// SLV-HTTP-0001: the socket cannot be created.
    #[error("SLV-HTTP-0001: cannot listen on {}: {cause}; name another path (--socket)", path.display())]
    Bind {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// SLV-HTTP-0002: another process listens on the socket.
    #[error("SLV-HTTP-0002: another selvedge answers on {}; stop it, or name another path (--socket)", path.display())]
    InUse {
        /// Path of the socket.
        path: PathBuf,
    },
    /// SLV-HTTP-0003: no process listens on the socket.
    #[error(
        "SLV-HTTP-0003: no selvedge answers on {}{looked}: {cause}; start 'selvedge run', or name its socket \
         (--socket)",
        path.display()
    )]
    Unreachable {
        /// Path of the socket.
        path: PathBuf,
        /// ` or PATH` for each other socket path that was tried; empty if the user named the socket.
        looked: String,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// SLV-HTTP-0004: the connection was interrupted.
    #[error("SLV-HTTP-0004: the answer from {} was cut off: {cause}; see the log of that process", path.display())]
    Broken {
        /// Path of the socket.
        path: PathBuf,
        /// The cause of the failure.
        cause: String,
    },
    /// SLV-HTTP-0005: the answer is not that of a Selvedge process.
    #[error("SLV-HTTP-0005: the program that answers on {} is no selvedge of this version: {what}", path.display())]
    Foreign {
        /// Path of the socket.
        path: PathBuf,
        /// The fault of the answer.
        what: String,
    },
    /// SLV-HTTP-0006: the server's thread cannot be started.
    #[error("SLV-HTTP-0006: cannot start the API's thread: {cause}; raise the limit of processes (ulimit -u)")]
    Thread {
        /// Error of the operating system.
        cause: io::Error,
    },
    /// SLV-HTTP-0007: the path of the socket is in use by a file or folder.
    #[error("SLV-HTTP-0007: {} is no socket; name another path (--socket)", path.display())]
    NoSocket {
        /// The file or folder.
        path: PathBuf,
    },
    /// SLV-HTTP-0008: metrics cannot be served at a TCP address.
    #[error("SLV-HTTP-0008: cannot listen on {address}: {cause}; name another address (telemetry.metrics_listen)")]
    BindTcp {
        /// The address.
        address: std::net::SocketAddr,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The process behind the socket refused the request.
    #[error(transparent)]
    Refused(#[from] selvedge_api::Error),
}
