//! Events about sources that send too much.

use std::fmt;
use std::time::Duration;

use selvedge_planner::Severity;
use selvedge_types::Lid;

use super::Kind;

/// An event about a source that sends one kind of datagram again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IntakeEvent {
    /// A source sent more datagrams of a kind within an interval than the log lists singly.
    More {
        /// LID of the source.
        lid: Lid,
        /// The kind of the datagrams.
        kind: Kind,
        /// Number of further datagrams.
        more: u32,
        /// Number of datagrams that the manager did not handle.
        held: u32,
        /// The interval.
        within: Duration,
    },
    /// A source babbles: it sends more datagrams of a kind than any working agent.
    Babbles {
        /// LID of the source.
        lid: Lid,
        /// The kind of these datagrams.
        kind: Kind,
        /// Number of datagrams that an interval of one second may have.
        most: u32,
    },
    /// A source no longer babbles.
    Calm {
        /// LID of the source.
        lid: Lid,
        /// The kind of these datagrams.
        kind: Kind,
        /// Number of datagrams in all.
        came: u64,
        /// How long the source babbled.
        lasted: Duration,
    },
    /// A babbling port is disabled, as the operator's settings ask.
    Disabled {
        /// LID of the source.
        lid: Lid,
        /// The port that is set to Disabled: the end of the link that is nearer to the manager.
        what: String,
    },
    /// The operator's settings require that a babbling source is disabled, but it cannot be.
    NotDisabled {
        /// LID of the source.
        lid: Lid,
        /// The reason.
        why: &'static str,
    },
}

impl IntakeEvent {
    /// Returns the stable code of this event.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::More { .. } => "SLV-SM-0090",
            Self::Babbles { .. } => "SLV-SM-0091",
            Self::Calm { .. } => "SLV-SM-0092",
            Self::Disabled { .. } => "SLV-SM-0093",
            Self::NotDisabled { .. } => "SLV-SM-0094",
        }
    }

    /// Returns the severity of this event.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::More { .. } | Self::Calm { .. } => Severity::Info,
            Self::Babbles { .. } | Self::Disabled { .. } | Self::NotDisabled { .. } => Severity::Warning,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trap(number) => write!(f, "trap {number}"),
            Self::OtherTrap => f.write_str("traps of unknown numbers"),
            Self::Command => f.write_str("commands of another manager"),
            Self::Unserved => f.write_str("requests that no manager serves"),
        }
    }
}

/// Names a source.
struct Source(Lid);

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Lid::PERMISSIVE => f.write_str("a directed route"),
            Lid::NONE => f.write_str("several sources"),
            lid => write!(f, "LID {lid}"),
        }
    }
}

impl fmt::Display for IntakeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::More {
                lid,
                kind,
                more,
                held,
                within,
            } => write!(
                f,
                "{more} more {kind} from {} within {:.1} s; {held} of them were not handled",
                Source(*lid),
                within.as_secs_f64()
            ),
            Self::Babbles { lid, kind, most } => write!(
                f,
                "{} babbles: more than {most} of {kind} within a second; the manager handles one each 1 to 8 s until \
                 this ends; check that node, or set manager.disable_babbling_ports",
                Source(*lid)
            ),
            Self::Calm {
                lid,
                kind,
                came,
                lasted,
            } => write!(
                f,
                "{} no longer babbles: it sent {came} {kind} within {:.1} s",
                Source(*lid),
                lasted.as_secs_f64()
            ),
            Self::Disabled { lid, what } => write!(
                f,
                "port {what} is disabled because LID {lid} babbles; repair the node, then enable the port (ibportstate)"
            ),
            Self::NotDisabled { lid, why } => write!(f, "the babbling port of LID {lid} is not disabled: {why}"),
        }
    }
}
