//! The reasons for which a study has no answer.

use selvedge_apm::ApmError;
use selvedge_dataplane::BuildError;
use selvedge_hca::VerbsError;
use selvedge_messaging::MessagingError;
use selvedge_model::NoSeat;
use selvedge_plan::LidConflict;
use selvedge_planner::lid::OutOfLids;
use selvedge_qos::intent::IntentError;
use selvedge_routing::{EngineError, Note};
use selvedge_tolerance::{ToleranceError, TraceError};
use selvedge_topology::{DamageError, SpecError};
use selvedge_workload::{JobError, ReceiversError, TooManyOps};

/// The reasons for which a study has no answer.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// SLV-STUDY-0001: the caller cancelled the study.
    #[error("SLV-STUDY-0001: the study was cancelled and has no answer; ask again")]
    Cancelled,
    /// SLV-STUDY-0002: the study's settings name no engine.
    #[error("SLV-STUDY-0002: the study's settings name no engine; name at least one")]
    NoEngine,
    /// SLV-STUDY-0003: the study's settings name no seed for the random choice of lost links.
    #[error("SLV-STUDY-0003: the study's settings name no seed for the random choice of lost links; name at least one")]
    NoSeed,
    /// SLV-STUDY-0004: more queue pairs than an adapter holds.
    #[error("SLV-STUDY-0004: {host} needs {wanted} queue pairs, but an adapter holds {most}; want fewer connections")]
    QueuePairs {
        /// The host.
        host: String,
        /// The number needed.
        wanted: u64,
        /// Largest number.
        most: u32,
    },
    /// SLV-STUDY-0005: changes that are not in order of time.
    #[error(
        "SLV-STUDY-0005: change {number} is at {at_ns} ns, but the one before is at {before_ns} ns; sort them by time"
    )]
    TimeGoesBack {
        /// Position of the change, from 1.
        number: usize,
        /// Its time.
        at_ns: u64,
        /// The time of the change before it.
        before_ns: u64,
    },
    /// SLV-STUDY-0006: the alternate path begins or ends at another adapter.
    #[error(
        "SLV-STUDY-0006: the alternate path from {from} to {to} uses another adapter, where no queue pair can migrate \
             by itself; choose an alternate on the same adapter: port, lmc=N or manager"
    )]
    OtherAdapter {
        /// The source.
        from: String,
        /// The destination.
        to: String,
    },
    /// SLV-STUDY-0007: a drawn cut, but the fabric has no cables between switches.
    #[error(
        "SLV-STUDY-0007: no cable between switches is left to cut; name a cable of a host, or take a larger fabric"
    )]
    NoCable,
    /// SLV-STUDY-0008: no connection, or connections that carry nothing.
    #[error("SLV-STUDY-0008: {what} is 0; want at least 1")]
    Nothing {
        /// What is 0.
        what: &'static str,
    },
    /// SLV-STUDY-0009: what was measured does not end.
    #[error(
        "SLV-STUDY-0009: {what} has not ended after 10 s of simulated time; look for a deadlock, or lower the load"
    )]
    Stalled {
        /// What was measured.
        what: &'static str,
    },
    /// SLV-STUDY-0010: the fabric is too small for the jobs.
    #[error("SLV-STUDY-0010: {found} hosts; want at least {least}, so that jobs have hosts of their own")]
    FewHosts {
        /// Hosts of the fabric.
        found: u32,
        /// Fewest hosts.
        least: u32,
    },
    /// An intent that gives no tables.
    #[error(transparent)]
    Intent(#[from] IntentError),
    /// A policy that cannot be, or messages that are not carried.
    #[error(transparent)]
    Messages(#[from] MessagingError),
    /// A fabric that cannot be generated.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// LIDs that overlap.
    #[error(transparent)]
    Ranges(#[from] LidConflict),
    /// A verb was refused.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// Thresholds that contradict each other, or a module's refusal.
    #[error(transparent)]
    Tolerance(#[from] ToleranceError),
    /// A fault model that cannot be drawn from.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The fabric cannot lose the requested links.
    #[error("{cause}")]
    Damage {
        /// Name of the level of faults, as in the question.
        level: String,
        /// The reason.
        cause: DamageError,
    },
    /// A routing engine refuses the fabric.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// All engines of a list refuse the fabric.
    #[error("{cause}")]
    Refused {
        /// The last engine's reason.
        cause: EngineError,
        /// Remarks of the earlier engines, with their reasons.
        notes: Vec<Note>,
    },
    /// An unknown host, or a pair without an alternate path.
    #[error(transparent)]
    Apm(#[from] ApmError),
    /// Too many LIDs.
    #[error(transparent)]
    Lids(#[from] OutOfLids),
    /// No manager can be attached at this place.
    #[error(transparent)]
    Seat(#[from] NoSeat),
    /// A simulation that cannot begin.
    #[error(transparent)]
    Simulation(#[from] BuildError),
    /// Jobs that do not fit on the hosts.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The hosts cannot carry out the traffic.
    #[error(transparent)]
    Receivers(#[from] ReceiversError),
    /// A collective operation that would need too much memory.
    #[error(transparent)]
    TooManyOps(#[from] TooManyOps),
}
