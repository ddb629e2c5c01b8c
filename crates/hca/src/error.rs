//! Errors of verbs. A verb that returns an error has changed nothing.

use crate::attr::{AttrMask, PathState, QpState, Transport};

/// Reasons why a verb is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// SLV-HCA-0001: the handle names no object of this HCA.
    #[error("SLV-HCA-0001: this HCA has no such {what}; it was destroyed, or the handle is of another HCA")]
    UnknownHandle {
        /// Kind of the object.
        what: &'static str,
    },
    /// SLV-HCA-0002: the HCA has no room for another object.
    #[error("SLV-HCA-0002: the HCA holds {limit} objects of kind {what}; destroy one, or raise the limit")]
    TooMany {
        /// Kind of the object.
        what: &'static str,
        /// Largest number.
        limit: u32,
    },
    /// SLV-HCA-0003: a value is out of range.
    #[error("SLV-HCA-0003: {what} is {value}; want {least} to {most}")]
    OutOfRange {
        /// The attribute.
        what: &'static str,
        /// The value given.
        value: u64,
        /// Smallest value.
        least: u64,
        /// Largest value.
        most: u64,
    },
    /// SLV-HCA-0004: an object is in use.
    #[error("SLV-HCA-0004: the {what} is used by a {by}; destroy that first")]
    InUse {
        /// Kind of the object.
        what: &'static str,
        /// Kind of its user.
        by: &'static str,
    },
    /// SLV-HCA-0005: events of the object are not acknowledged.
    #[error("SLV-HCA-0005: {count} events of the {what} are not acknowledged; acknowledge them, then destroy it")]
    EventsPending {
        /// Kind of the object.
        what: &'static str,
        /// Number of events that were fetched and not acknowledged.
        count: u32,
    },
    /// SLV-HCA-0006: two objects belong to different contexts or protection domains.
    #[error("SLV-HCA-0006: the {what} belongs to another {owner}; want objects of one {owner}")]
    Foreign {
        /// Kind of the object.
        what: &'static str,
        /// Kind of the owner.
        owner: &'static str,
    },
    /// SLV-HCA-0007: no such change of state.
    #[error("SLV-HCA-0007: a queue pair cannot go from {from} to {to}")]
    Transition {
        /// Present state.
        from: QpState,
        /// State wanted.
        to: QpState,
    },
    /// SLV-HCA-0008: a required attribute is missing.
    #[error("SLV-HCA-0008: {transport} from {from} to {to} needs {missing}; set it in the mask")]
    AttributeMissing {
        /// Transport of the queue pair.
        transport: Transport,
        /// Present state.
        from: QpState,
        /// State wanted.
        to: QpState,
        /// All missing attributes.
        missing: AttrMask,
    },
    /// SLV-HCA-0009: an attribute cannot be modified in this change of state.
    #[error("SLV-HCA-0009: {transport} from {from} to {to} does not take {forbidden}; remove it from the mask")]
    AttributeForbidden {
        /// Transport of the queue pair.
        transport: Transport,
        /// Present state.
        from: QpState,
        /// State wanted.
        to: QpState,
        /// All attributes that are not allowed.
        forbidden: AttrMask,
    },
    /// SLV-HCA-0010: the queue pair is not in the state that the program assumes.
    #[error("SLV-HCA-0010: cur_qp_state is {assumed}, but the queue pair is in {found}")]
    NotInState {
        /// State that the program assumes.
        assumed: QpState,
        /// Present state.
        found: QpState,
    },
    /// SLV-HCA-0011: the verb is not allowed in this state.
    #[error("SLV-HCA-0011: {verb} is not possible in {state}")]
    WrongState {
        /// The verb.
        verb: &'static str,
        /// Present state.
        state: QpState,
    },
    /// SLV-HCA-0012: a queue is full.
    #[error("SLV-HCA-0012: the {what} is full with {limit} work requests; wait for completions")]
    QueueFull {
        /// The queue.
        what: &'static str,
        /// Its size.
        limit: u32,
    },
    /// SLV-HCA-0013: the transport does not have the operation.
    #[error("SLV-HCA-0013: {transport} has no {operation}")]
    NoSuchOperation {
        /// Transport of the queue pair.
        transport: Transport,
        /// The operation.
        operation: &'static str,
    },
    /// SLV-HCA-0014: a message is too long.
    #[error("SLV-HCA-0014: a message of {bytes} bytes; {transport} carries at most {most}")]
    TooLong {
        /// Length given.
        bytes: u64,
        /// Transport of the queue pair.
        transport: Transport,
        /// Largest length.
        most: u64,
    },
    /// SLV-HCA-0015: no alternate path that differs from the primary one.
    #[error(
        "SLV-HCA-0015: the alternate path is the primary path, or was used by a migration and not loaded since; load \
         another one with the attribute ALT_PATH"
    )]
    NoAlternate,
    /// SLV-HCA-0016: no such change of the path migration state.
    #[error(
        "SLV-HCA-0016: path_mig_state {wanted} in {found} and {state}; want REARM in MIGRATED, or MIGRATED in ARMED \
             and RTS"
    )]
    PathTransition {
        /// Present path migration state.
        found: PathState,
        /// State wanted.
        wanted: PathState,
        /// State of the queue pair after the change.
        state: QpState,
    },
    /// SLV-HCA-0017: the send queue is not drained yet.
    #[error("SLV-HCA-0017: the send queue is still draining; wait for SQ_DRAINED, then modify attributes in SQD")]
    Draining,
    /// SLV-HCA-0018: the completion queue cannot hold what is in it.
    #[error("SLV-HCA-0018: {found} completions wait in the queue; it cannot shrink to {wanted}")]
    TooSmall {
        /// Completions in the queue.
        found: usize,
        /// Size wanted.
        wanted: u32,
    },
}

/// Fails if a value is outside a range.
pub(crate) fn in_range(what: &'static str, value: u64, least: u64, most: u64) -> Result<(), VerbsError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(VerbsError::OutOfRange {
            what,
            value,
            least,
            most,
        })
    }
}
