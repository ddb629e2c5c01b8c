//! Inputs and outputs of a sampler.

use core::time::Duration;
use std::sync::Arc;

use selvedge_types::Guid;
use selvedge_wire::Datagram;

use crate::cable::CableReading;
use crate::clock::{Slot, Wall};
use crate::group::{Group, Row};
use crate::{Assignment, Event, Inventory};

/// The inputs of a sampler.
#[derive(Clone, Debug)]
pub enum In {
    /// The wall clock shows this time now. Nothing is sampled before the first such input.
    Clock(Wall),
    /// The fabric as the manager knows it.
    Inventory(Arc<Inventory>),
    /// The ports that this sampler reads.
    Assign(Assignment),
    /// An answer.
    Received(Datagram),
    /// A request of the sampler that the layer below gave up.
    Returned(Datagram),
    /// The time of [`crate::Sampler::next_wake`] has come.
    Wake,
}

/// The outputs of a sampler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// Send this request. The layer below may wait this long before it returns the request.
    Send(Datagram, Duration),
    /// Counters of a port.
    Sample(Box<Sample>),
    /// What a port read from its cable.
    Cable(Box<CableReading>),
    /// A slot is complete: every port of the class has a sample, or is listed as missing.
    Ended(SlotReport),
    /// An event for the operator.
    Event(Event),
}

/// The counters that a sample is about. With the slot it is the identity of a sample: of two with the same one, the
/// second is a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleKey {
    /// The node.
    pub node: Guid,
    /// The port.
    pub port: u8,
    /// The counters.
    pub group: Group,
}

/// How the values of a sample were obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// The port's agent was asked.
    Read,
    /// The sum of all ports of the switch shows no new error, so the values are those of the last reading.
    Unchanged,
    /// The port was not read: the other end of its link was, and counts the same packets.
    Derived,
    /// The manager knows that the link is down, so the values are those of the last reading.
    Down,
}

/// Counters of a port in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Node, port, group.
    pub key: SampleKey,
    /// Number of the class.
    pub class: u8,
    /// The slot.
    pub slot: Slot,
    /// Time from the start of the slot until the values were known, in microseconds.
    pub offset_us: u32,
    /// Time from the first sending of the request to its answer, in microseconds; 0 if the port itself was not asked.
    pub rtt_us: u32,
    /// Number of the sampler.
    pub agent: u32,
    /// How the values were obtained.
    pub how: How,
    /// Accumulated counters. They never fall.
    pub totals: Row,
    /// The last reading, if the totals belong to it; with it, a new sampler continues them.
    pub raw: Option<Row>,
    /// Bit mask of the counters that have a value.
    pub known: u32,
    /// Bit mask of the counters that stand at their maximum, so that they may miss events.
    pub full: u32,
    /// How many readings showed a reset of a counter.
    pub resets: u32,
}

/// The reasons for which a port has no sample in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// No answer.
    Silent,
    /// The agent was silent before, and is asked again later.
    BackOff,
    /// The answer was another port's, another attribute's, from another LID, or not plausible.
    Refused,
    /// The agent answered with an error status.
    Status(u16),
    /// The next slot began first.
    Late,
    /// The node left the fabric, or its LID moved, during the slot.
    Moved,
}

/// A port without a sample in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Missing {
    /// Node, port, group.
    pub key: SampleKey,
    /// Why the sample is missing.
    pub why: Why,
}

/// The results of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotReport {
    /// Number of the class.
    pub class: u8,
    /// The slot.
    pub slot: Slot,
    /// Slots before this one in which nothing was sampled, because the clock was set forward or the driver was late.
    pub skipped: u64,
    /// Ports and groups that were read.
    pub read: u32,
    /// Number of samples with unchanged values, by the sum of all ports.
    pub unchanged: u32,
    /// Number of samples derived from the other end of the link.
    pub derived: u32,
    /// Number of samples of ports with a link that is down.
    pub down: u32,
    /// Requests sent, without repeats.
    pub requests: u32,
    /// Duration of the slot.
    pub took: Duration,
    /// Ports and groups without a sample.
    pub missing: Vec<Missing>,
}
