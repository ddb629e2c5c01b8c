//! What can go wrong in a lab.

use std::fmt;
use std::io;
use std::time::Duration;

/// A lab that cannot do what a test asks.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// SLV-LAB-0001: a program to compare with is not installed.
    #[error("SLV-LAB-0001: '{program}' is missing: install the Debian package '{package}'")]
    MissingPeer {
        /// The program.
        program: String,
        /// Where it comes from.
        package: &'static str,
    },
    /// SLV-LAB-0002: the operating system refused an operation.
    #[error("SLV-LAB-0002: {operation} {what}: {cause}")]
    Io {
        /// The operation.
        operation: &'static str,
        /// The file, program or socket that the operation is applied to.
        what: String,
        /// Why not.
        cause: io::Error,
    },
    /// SLV-LAB-0003: a condition was not met in time.
    #[error("SLV-LAB-0003: after {after:?} still waiting for {what}; last output:\n{output}")]
    TimedOut {
        /// The condition.
        what: String,
        /// How long was waited.
        after: Duration,
        /// The last output of the peer.
        output: String,
    },
    /// SLV-LAB-0004: a command failed.
    #[error("SLV-LAB-0004: '{command}' ended with {status}; output:\n{output}")]
    Failed {
        /// The command.
        command: String,
        /// How it ended.
        status: String,
        /// Its output.
        output: String,
    },
    /// SLV-LAB-0005: the parser does not know a part of the output of another program.
    #[error("SLV-LAB-0005: cannot read {what} in line '{line}'")]
    Parse {
        /// The expected text.
        what: &'static str,
        /// The line that cannot be read.
        line: String,
    },
    /// SLV-LAB-0006: the program under test, `selvedge`, is not built.
    #[error(
        "SLV-LAB-0006: no 'selvedge' beside this test program: run 'cargo build --workspace', or name one in SELVEDGE"
    )]
    MissingSubject,
    /// SLV-LAB-0007: a request of the test itself to the fabric failed.
    #[error("SLV-LAB-0007: {cause}")]
    Probe {
        /// The request, and its result.
        cause: String,
    },
}

/// As `Display`: tests show errors through `Debug`.
impl fmt::Debug for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl LabError {
    /// Wraps an I/O error.
    pub(crate) fn io(operation: &'static str, what: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io {
            operation,
            what: what.to_string(),
            cause,
        }
    }
}
