//! Errors of the modules, of fault traces and of settings.

use selvedge_hca::VerbsError;

use crate::process::Peer;

/// Reasons why a request is refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToleranceError {
    /// SLV-TOLERANCE-0001: no queue pair of this peer was added.
    #[error("SLV-TOLERANCE-0001: no queue pair of peer {peer} is known; add its queue pairs first")]
    UnknownPeer {
        /// The peer.
        peer: Peer,
    },
    /// SLV-TOLERANCE-0002: the queue pair was not added.
    #[error("SLV-TOLERANCE-0002: the queue pair is not known; add it with its peer first")]
    UnknownQp,
    /// SLV-TOLERANCE-0003: the queue pair is in a state without paths.
    #[error("SLV-TOLERANCE-0003: the queue pair is in {state}; want INIT, RTR, RTS or a drained SQD")]
    NoPaths {
        /// State of the queue pair.
        state: selvedge_hca::QpState,
    },
    /// SLV-TOLERANCE-0004: datagram queue pairs have no alternate path.
    #[error("SLV-TOLERANCE-0004: path migration needs RC or UC, and this queue pair has another transport")]
    NotConnected,
    /// SLV-TOLERANCE-0005: the shared state does not show ARMED.
    #[error("SLV-TOLERANCE-0005: the alternate path is not loaded; request it, and wait for the ARMED event")]
    NotArmed,
    /// SLV-TOLERANCE-0006: the HCA has refused this alternate path since it was loaded.
    #[error("SLV-TOLERANCE-0006: PATH_MIG_ERR has shown that the alternate path is dead; specify another one")]
    AlternateDead,
    /// SLV-TOLERANCE-0007: the verb was refused.
    #[error("SLV-TOLERANCE-0007: modify_qp was refused; the cause follows")]
    Verbs(#[from] VerbsError),
    /// SLV-TOLERANCE-0008: thresholds of the congestion policy contradict each other.
    #[error("SLV-TOLERANCE-0008: {what}: {found}; want {want}")]
    Policy {
        /// The setting.
        what: &'static str,
        /// The value given.
        found: u64,
        /// What is wanted.
        want: &'static str,
    },
    /// SLV-TOLERANCE-0009: the transfer ended: no path is left.
    #[error("SLV-TOLERANCE-0009: path {path} failed, and {failed} of {paths} paths had failed before; nothing is sent")]
    NoPathLeft {
        /// The path that failed last.
        path: usize,
        /// Paths that had failed.
        failed: usize,
        /// All paths.
        paths: usize,
    },
    /// A subnet cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] selvedge_dataplane::BuildError),
    /// Nodes or cables contradict each other.
    #[error(transparent)]
    Fabric(#[from] selvedge_fabric::BuildError),
    /// Two ports have one LID.
    #[error(transparent)]
    Lids(#[from] selvedge_plan::LidConflict),
}

/// Reasons why a trace of faults is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// SLV-TOLERANCE-0020: a line is not `TIME down|up NAME`.
    #[error("SLV-TOLERANCE-0020: line {line}: {what} in '{text}'; want TIME, then down or up, then a link or node")]
    Malformed {
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
        /// The line, shortened.
        text: String,
    },
    /// SLV-TOLERANCE-0021: the fabric has no link or node of this name.
    #[error("SLV-TOLERANCE-0021: line {line}: no link or node is called '{name}'")]
    UnknownName {
        /// Line, from 1.
        line: usize,
        /// The name.
        name: String,
    },
    /// SLV-TOLERANCE-0022: time goes backwards.
    #[error("SLV-TOLERANCE-0022: line {line}: {found_ps} ps come after {before_ps} ps; sort the lines by time")]
    TimeGoesBack {
        /// Line, from 1.
        line: usize,
        /// Time of the line.
        found_ps: u64,
        /// Time of the line before.
        before_ps: u64,
    },
    /// SLV-TOLERANCE-0023: a mean time is 0 or too long.
    #[error("SLV-TOLERANCE-0023: {what} is {found_ps} ps; want 1 to {most_ps}")]
    MeanTime {
        /// MTBF or MTTR.
        what: &'static str,
        /// The value given.
        found_ps: u64,
        /// Largest value.
        most_ps: u64,
    },
    /// SLV-TOLERANCE-0024: too many faults.
    #[error("SLV-TOLERANCE-0024: more than {most} faults; make the trace shorter or the mean times longer")]
    TooMany {
        /// Largest number.
        most: usize,
    },
}
