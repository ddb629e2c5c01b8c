//! The reasons for which a study has no answer.

use selvedge_apm::ApmError;
use selvedge_dataplane::BuildError;
use selvedge_model::NoSeat;
use selvedge_planner::lid::OutOfLids;
use selvedge_routing::{EngineError, Note};
use selvedge_topology::DamageError;
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
