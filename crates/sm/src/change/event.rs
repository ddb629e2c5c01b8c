//! Events of changes of policy.

use std::fmt;
use std::sync::Arc;

use selvedge_planner::Severity;

use super::Later;

/// The outcome of a change of policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeEvent {
    /// A change of policy is kept: its plan is in force, or nothing changed.
    Kept {
        /// Number of the change.
        serial: u64,
        /// The keys that changed.
        changed: Arc<[&'static str]>,
    },
    /// A change of policy waits, because this manager makes no plan now. It is decided with the first plan that this
    /// manager makes.
    KeptForLater {
        /// Number of the change.
        serial: u64,
        /// The keys that changed.
        changed: Arc<[&'static str]>,
        /// The reason why the change waits.
        why: Later,
    },
    /// A change of policy was refused and rolled back: the former policy is in force.
    RolledBack {
        /// Number of the change.
        serial: u64,
        /// The keys that changed.
        changed: Arc<[&'static str]>,
        /// The reason in words.
        why: Arc<str>,
    },
    /// A change of policy was superseded by another one before a plan with it was accepted.
    Superseded {
        /// Number of the change.
        serial: u64,
        /// The keys that changed.
        changed: Arc<[&'static str]>,
        /// Number of the change that superseded it.
        by: u64,
    },
}

impl ChangeEvent {
    /// Returns the stable code of this event.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Kept { .. } => "SLV-SM-0100",
            Self::KeptForLater { .. } => "SLV-SM-0101",
            Self::RolledBack { .. } => "SLV-SM-0102",
            Self::Superseded { .. } => "SLV-SM-0103",
        }
    }

    /// Returns the severity of this event.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::Kept { .. } | Self::KeptForLater { .. } | Self::Superseded { .. } => Severity::Info,
            Self::RolledBack { .. } => Severity::Warning,
        }
    }
}

impl fmt::Display for ChangeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept { serial, changed } if changed.is_empty() => {
                write!(f, "change {serial} of the policy changes nothing")
            }
            Self::Kept { serial, changed } => write!(f, "change {serial} of {} is kept", changed.join(", ")),
            Self::KeptForLater { serial, changed, why } => write!(
                f,
                "change {serial} of {} is kept for later, because {why}: the first plan that this manager makes \
                 decides whether it stays",
                changed.join(", ")
            ),
            Self::RolledBack { serial, changed, why } => write!(
                f,
                "change {serial} of {} is rolled back, the former policy is in force: {why}; correct the \
                 configuration and reload it ('selvedge status changes' lists the findings)",
                changed.join(", ")
            ),
            Self::Superseded { serial, changed, by } => write!(
                f,
                "change {serial} of {} is superseded by change {by} before a plan with it was accepted",
                changed.join(", ")
            ),
        }
    }
}
