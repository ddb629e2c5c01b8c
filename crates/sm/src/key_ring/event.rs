//! Events of a change of the M_Key or the SM_Key.

use std::fmt;

use selvedge_planner::Severity;

/// An event about the change of the M_Key of all ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyEvent {
    /// Ports with a former M_Key get the present M_Key.
    Begins {
        /// Number of these ports.
        ports: usize,
    },
    /// Every port has the present M_Key, and the former ones are retired: they are used again only if a port with one
    /// comes into sight.
    Done,
    /// Every port that was found has the present M_Key; the former ones are kept, because they may still be needed.
    Kept {
        /// Missing nodes and links, which may hold a former key. 0: another manager has asked with a former key.
        missing: usize,
    },
    /// Ports still have a former M_Key.
    Left {
        /// Number of these ports.
        ports: usize,
        /// The first of these ports.
        what: String,
    },
    /// This manager shows a new SM_Key in SMInfo.
    SmKeyChanged,
}

impl KeyEvent {
    /// Returns the stable code of this event.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Begins { .. } => "SLV-KEYS-0001",
            Self::Done => "SLV-KEYS-0002",
            Self::Kept { .. } => "SLV-KEYS-0003",
            Self::Left { .. } => "SLV-KEYS-0004",
            Self::SmKeyChanged => "SLV-KEYS-0005",
        }
    }

    /// Returns the severity of this event.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::Begins { .. } | Self::Done | Self::Kept { .. } | Self::SmKeyChanged => Severity::Info,
            Self::Left { .. } => Severity::Warning,
        }
    }
}

impl fmt::Display for KeyEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begins { ports } => write!(f, "the M_Key of {ports} ports changes to the configured one"),
            Self::Done => f.write_str(
                "every port has the configured M_Key; former keys are used again only if a port with one comes into \
                 sight",
            ),
            Self::Kept { missing: 0 } => f.write_str(
                "every port has the configured M_Key; former keys are kept until no other manager has used one for a \
                 minute: reload the configuration of standbys",
            ),
            Self::Kept { missing } => write!(
                f,
                "every port found has the configured M_Key; former keys are kept for {missing} missing nodes and \
                 links, until they return or 'selvedge forget' removes them"
            ),
            Self::Left { ports, what } => write!(
                f,
                "{ports} ports still have a former M_Key: {what}; the next sweep sets the key again; if this does not \
                 help, reset these nodes"
            ),
            Self::SmKeyChanged => f.write_str(
                "this manager shows the new SM_Key; managers that show the former one are trusted for an hour: reload \
                 their configuration, the master's last",
            ),
        }
    }
}
