//! An alarm: one record.

use core::fmt;

use selvedge_health::Since;

use crate::{End, Metric};

/// How grave an alarm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Worth knowing; nothing has to be done.
    Info,
    /// Something has to be done in time: a cable, a port or a host degrades.
    Warning,
    /// Something has to be done now: traffic suffers.
    Critical,
}

impl Level {
    /// Returns its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// Returns the level with this name in JSON.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Info, Self::Warning, Self::Critical]
            .into_iter()
            .find(|level| level.name() == name)
    }
}

/// What an alarm is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A counter grew too fast.
    Counter(Metric),
    /// A link goes down again and again.
    Flaps,
    /// A link has too many bit errors.
    BitErrors,
    /// A link is the root of congestion.
    Congestion,
}

impl Subject {
    /// Returns its name in JSON: that of the counter in the standard, or a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter(metric) => metric.iba_name(),
            Self::Flaps => "flaps",
            Self::BitErrors => "bit_errors",
            Self::Congestion => "congestion",
        }
    }

    /// Returns the subject with this name in JSON.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let words = [Self::Flaps, Self::BitErrors, Self::Congestion].into_iter();
        let counters = Metric::ALL.into_iter().map(Self::Counter);
        words.chain(counters).find(|subject| subject.name() == name)
    }

    /// Returns what an operator can do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Counter(
                Metric::SymbolErrors | Metric::LinkRecoveries | Metric::RcvErrors | Metric::LocalLinkIntegrityErrors,
            )
            | Self::BitErrors => "reseat the cable, clean its connectors, then replace it",
            Self::Counter(Metric::LinkDowned) => "check whether the node was restarted; else reseat the cable",
            Self::Counter(Metric::RcvRemotePhysicalErrors) => "check the ports on the way to this one for errors",
            Self::Counter(Metric::RcvSwitchRelayErrors) => "check the forwarding tables: 'selvedge status findings'",
            Self::Counter(Metric::XmitDiscards) => "check whether the receiver is congested, slow, or gone",
            Self::Counter(Metric::XmitConstraintErrors | Metric::RcvConstraintErrors) => {
                "check the partitions of the hosts that send over this link"
            }
            Self::Counter(Metric::ExcessiveBufferOverruns) => "update the firmware of the port at the other end",
            Self::Counter(Metric::Vl15Dropped | Metric::Qp1Dropped) => {
                "poll less: management packets arrive faster than the agent takes them"
            }
            Self::Counter(_) => "check the port's counters",
            Self::Flaps => "reseat or replace the cable; isolate the link until then",
            Self::Congestion => "check the jobs of the hosts that wait for it, and the balance of routes",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counter(metric) => f.write_str(metric.iba_name()),
            Self::Flaps => f.write_str("link flaps"),
            Self::BitErrors => f.write_str("bit errors"),
            Self::Congestion => f.write_str("congestion"),
        }
    }
}

/// Identity of an alarm: of two with the same one, the second is the first again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlarmId {
    /// The port: the one that counted; of an alarm of a link as a whole, the lower of its two ends.
    pub at: End,
    /// What the alarm is about.
    pub subject: Subject,
}

/// An operator has seen an alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// When the operator acknowledged the alarm.
    pub at: Since,
    /// The operator.
    pub by: String,
    /// What the operator wrote.
    pub note: String,
}

/// An alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Port and subject.
    pub id: AlarmId,
    /// The other end of the alarm's link; `None`: not known.
    pub peer: Option<End>,
    /// Level of the alarm.
    pub level: Level,
    /// When the alarm began.
    pub since: Since,
    /// When there was evidence last.
    pub last: Since,
    /// What was measured, against which threshold.
    pub evidence: String,
    /// What clears the alarm.
    pub clears: String,
    /// Set if an operator has seen it at this level.
    pub ack: Option<Ack>,
}

/// Why an alarm ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The value that the alarm was about is below the threshold, and the alarm's time to live has passed.
    Below,
    /// An operator cleared the alarm.
    Operator,
    /// The port or its node has left the fabric.
    Gone,
    /// The alarm was dropped, because there were more alarms than are kept.
    Dropped,
}

impl Ended {
    /// Returns its name in JSON and in stored records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Below => "below",
            Self::Operator => "operator",
            Self::Gone => "gone",
            Self::Dropped => "dropped",
        }
    }

    /// Returns the reason with this name in JSON.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Below, Self::Operator, Self::Gone, Self::Dropped]
            .into_iter()
            .find(|why| why.name() == name)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Below => "it is below its threshold",
            Self::Operator => "an operator cleared it",
            Self::Gone => "the node has left the fabric",
            Self::Dropped => "there are more alarms than are kept; raise the thresholds",
        })
    }
}
