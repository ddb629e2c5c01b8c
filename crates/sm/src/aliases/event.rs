//! Events about alias GUIDs.

use std::fmt;

use selvedge_planner::Severity;
use selvedge_types::Guid;

/// An event about alias GUIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AliasEvent {
    /// All ports hold the alias GUIDs that the administrator assigned.
    InForce {
        /// Ports that have aliases.
        ports: usize,
        /// Number of acknowledged Sets of the change.
        sets: usize,
    },
    /// The judge refuses the planned change of alias GUIDs: no Set was sent.
    Refused {
        /// The reason.
        why: String,
    },
    /// A port does not answer a request for its GUIDInfo, or refuses its alias GUIDs.
    Silent {
        /// Name of the port.
        what: String,
    },
    /// A GUIDInfo block of a port differs from the block that was written.
    Differs {
        /// Name of the port.
        what: String,
        /// The block.
        block: u8,
    },
    /// A new port has an alias GUID of another port as its own GUID: the alias is removed from the other port.
    Taken {
        /// The GUID.
        guid: Guid,
        /// The port that had the alias.
        from: String,
        /// The port that has this GUID as its own.
        owner: String,
    },
}

impl AliasEvent {
    /// Returns the stable code of this event.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InForce { .. } => "SLV-SM-0080",
            Self::Refused { .. } => "SLV-SM-0081",
            Self::Silent { .. } => "SLV-SM-0082",
            Self::Differs { .. } => "SLV-SM-0083",
            Self::Taken { .. } => "SLV-SM-0084",
        }
    }

    /// Returns the severity of this event.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::InForce { .. } => Severity::Info,
            Self::Silent { .. } | Self::Differs { .. } | Self::Taken { .. } => Severity::Warning,
            Self::Refused { .. } => Severity::Error,
        }
    }
}

impl fmt::Display for AliasEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InForce { ports, sets } => write!(f, "alias GUIDs of {ports} ports in force, {sets} Sets"),
            Self::Refused { why } => write!(
                f,
                "alias GUIDs refused by the judge, ports keep their present ones: {why}"
            ),
            Self::Silent { what } => write!(
                f,
                "{what} does not take its alias GUIDs; the manager tries again in 4 s, then once a minute; check that \
                 its agent supports GUIDInfo"
            ),
            Self::Differs { what, block } => write!(
                f,
                "{what} holds other contents in GUIDInfo block {block} than were written; the block is written again"
            ),
            Self::Taken { guid, from, owner } => write!(
                f,
                "alias GUID {guid} of {from} is the own GUID of {owner}: it is taken away from {from}; give its \
                 virtual function another GUID"
            ),
        }
    }
}
