//! Events of sampling for the operator.

use core::fmt;
use core::time::Duration;

use selvedge_types::{Guid, Lid};

use crate::SampleKey;
use crate::clock::Slot;

/// Events of sampling for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// SLV-TELEMETRY-0001: the performance management agent of a node does not answer. Its ports have no samples; it
    /// is asked again later.
    Silent {
        /// The node.
        node: Guid,
        /// The LID that was asked.
        lid: Lid,
        /// Pause until the agent is asked again.
        pause: Duration,
    },
    /// SLV-TELEMETRY-0002: a silent agent answers again.
    Answers {
        /// The node.
        node: Guid,
    },
    /// SLV-TELEMETRY-0003: an answer has another port, attribute or LID than the request. It was dropped.
    Stranger {
        /// The port and group that were asked.
        key: SampleKey,
        /// The LID that was asked.
        lid: Lid,
        /// The LID of the sender.
        from: Lid,
    },
    /// SLV-TELEMETRY-0004: data counters grew by more than the link can carry. The answer was dropped. If the next
    /// answer continues from its values, the counters are taken to have been reset.
    Implausible {
        /// The port and group that were asked.
        key: SampleKey,
    },
    /// SLV-TELEMETRY-0005: counters of a port were reset, by a reboot or by another program. Totals continue.
    Reset {
        /// Node, port, group.
        key: SampleKey,
        /// The counters, a bit each.
        counters: u32,
    },
    /// SLV-TELEMETRY-0006: counters of a port stand at their maximum and miss further events until they are reset.
    Full {
        /// Node, port, group.
        key: SampleKey,
        /// The counters, a bit each.
        counters: u32,
    },
    /// SLV-TELEMETRY-0007: the wall clock was set. Slots are missing, or sampling waits until the clock has passed the
    /// last slot.
    ClockSet {
        /// Difference in nanoseconds; negative: back.
        by_ns: i64,
    },
    /// SLV-TELEMETRY-0008: the wall clock was set back too far to wait. Slots of the class are numbered from the
    /// beginning, in a new epoch.
    Renumbered {
        /// Number of the class.
        class: u8,
    },
    /// SLV-TELEMETRY-0009: a slot was not complete when the next one began. Ports without an answer have no sample in
    /// it.
    Overrun {
        /// Number of the class.
        class: u8,
        /// The slot that was not complete.
        slot: Slot,
        /// Ports and groups without a sample.
        missing: u32,
    },
    /// SLV-TELEMETRY-0010: an agent does not have a counter group. The group is not requested from it again.
    Unsupported {
        /// The port where this was found.
        key: SampleKey,
    },
}

impl Event {
    /// Returns the code of the event.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Silent { .. } => "SLV-TELEMETRY-0001",
            Self::Answers { .. } => "SLV-TELEMETRY-0002",
            Self::Stranger { .. } => "SLV-TELEMETRY-0003",
            Self::Implausible { .. } => "SLV-TELEMETRY-0004",
            Self::Reset { .. } => "SLV-TELEMETRY-0005",
            Self::Full { .. } => "SLV-TELEMETRY-0006",
            Self::ClockSet { .. } => "SLV-TELEMETRY-0007",
            Self::Renumbered { .. } => "SLV-TELEMETRY-0008",
            Self::Overrun { .. } => "SLV-TELEMETRY-0009",
            Self::Unsupported { .. } => "SLV-TELEMETRY-0010",
        }
    }
}

impl fmt::Display for SampleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attribute = self.group.name();
        write!(f, "{attribute} of port {} of node {}", self.port, self.node)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.code())?;
        match self {
            Self::Silent { node, lid, pause } => write!(
                f,
                "the agent of node {node} at LID {lid} does not answer; its ports have no samples, next attempt in \
                 {} s; check that the node runs",
                pause.as_secs()
            ),
            Self::Answers { node } => write!(f, "the agent of node {node} answers again"),
            Self::Stranger { key, lid, from } => write!(
                f,
                "LID {lid} was asked for {key}, but LID {from} answered with another attribute or port; the \
                 answer was dropped"
            ),
            Self::Implausible { key } => write!(
                f,
                "{key} grew by more than the link can carry; the answer was dropped; check whether LIDs moved"
            ),
            Self::Reset { key, counters } => write!(
                f,
                "{} of {key} went back, by a reboot or another program; totals continue",
                key.group.names(*counters)
            ),
            Self::Full { key, counters } => write!(
                f,
                "{} of {key} cannot count further, and misses events; reset it with perfquery -R",
                key.group.names(*counters)
            ),
            Self::ClockSet { by_ns } => write!(
                f,
                "the clock was set by {}.{:03} s; slots are missing, or sampling waits until the clock has \
                 passed the last slot",
                by_ns / 1_000_000_000,
                (by_ns / 1_000_000 % 1000).abs()
            ),
            Self::Renumbered { class } => write!(
                f,
                "the clock was set back too far to wait; slots of class {class} begin a new epoch"
            ),
            Self::Overrun { class, slot, missing } => write!(
                f,
                "slot {slot} of class {class} was not complete when the next one began: {missing} samples are missing; \
                 lengthen the interval or widen the window"
            ),
            Self::Unsupported { key } => write!(f, "the agent does not support {key}; it is not requested again"),
        }
    }
}
