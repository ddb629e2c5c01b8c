//! Why a study has no answer.

use selvedge_dataplane::BuildError;
use selvedge_model::NoSeat;
use selvedge_planner::lid::OutOfLids;
use selvedge_routing::{EngineError, Note};
use selvedge_topology::DamageError;
use selvedge_workload::{JobError, ReceiversError, TooManyOps};

/// Why a study has no answer.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// SLV-STUDY-0001: the caller cancelled the study.
    #[error("SLV-STUDY-0001: the study was cancelled and has no answer; ask again")]
    Cancelled,
    /// SLV-STUDY-0002: the question names no engine.
    #[error("SLV-STUDY-0002: the question names no engine; name at least one")]
    NoEngine,
    /// SLV-STUDY-0003: the question names no seed.
    #[error("SLV-STUDY-0003: the question names no seed to draw lost links by; name at least one")]
    NoSeed,
    /// Links that are to be lost.
    #[error("{cause}")]
    Damage {
        /// The level of faults as the question names it.
        level: String,
        /// Why the fabric cannot lose them.
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
        /// The notes of the engines before it, with their reasons.
        notes: Vec<Note>,
    },
    /// Too many LIDs.
    #[error(transparent)]
    Lids(#[from] OutOfLids),
    /// A place at which no manager can sit.
    #[error(transparent)]
    Seat(#[from] NoSeat),
    /// A simulation that cannot begin.
    #[error(transparent)]
    Simulation(#[from] BuildError),
    /// Jobs that do not fit on the hosts.
    #[error(transparent)]
    Job(#[from] JobError),
    /// Traffic that the hosts cannot carry out.
    #[error(transparent)]
    Receivers(#[from] ReceiversError),
    /// A collective operation that would need too much memory.
    #[error(transparent)]
    TooManyOps(#[from] TooManyOps),
}
