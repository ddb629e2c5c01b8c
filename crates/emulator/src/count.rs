//! Counts of MADs by outcome.
//!
//! One equation holds at any time (a test checks it under hostile input): sent + answers + traps + duplicates =
//! delivered + served + dropped + in flight.

use core::fmt;

use selvedge_wire::{AttributeId, Class, Mad, Method};

/// Reason why a MAD was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// SLV-EMU-0101: the base version, hop count or hop pointer is invalid.
    Malformed,
    /// SLV-EMU-0102: the route names a port that the node does not have, or from which the sender cannot send.
    NoSuchPort,
    /// SLV-EMU-0103: the route leads through a node that is not a switch.
    NotASwitch,
    /// SLV-EMU-0104: no cable, or the link is down.
    LinkDown,
    /// SLV-EMU-0105: a GMP arrived at a port that is not ACTIVE.
    NotActive,
    /// SLV-EMU-0106: no forwarding entry, or the LID is above LinearFDBTop.
    NoPath,
    /// SLV-EMU-0107: the forwarding entry leads back to the port of arrival.
    TurnedBack,
    /// SLV-EMU-0108: too many hops: a forwarding loop.
    HopLimit,
    /// SLV-EMU-0109: the MAD arrived at a node that does not have its destination LID.
    WrongLid,
    /// SLV-EMU-0110: the agent's queue was full.
    QueueFull,
    /// SLV-EMU-0111: no client at the port accepts the MAD.
    NoClient,
    /// SLV-EMU-0112: the node has no power, or lost it before the MAD arrived.
    NoPower,
    /// SLV-EMU-0113: wrong M_Key.
    BadMKey,
    /// SLV-EMU-0114: wrong P_Key.
    BadPKey,
    /// SLV-EMU-0115: an agent received a response without having sent a request.
    Unwanted,
    /// SLV-EMU-0116: an injected fault lost the MAD.
    Lost,
    /// SLV-EMU-0117: too many MADs were in flight.
    Crowded,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [Self; 17] = [
        Self::Malformed,
        Self::NoSuchPort,
        Self::NotASwitch,
        Self::LinkDown,
        Self::NotActive,
        Self::NoPath,
        Self::TurnedBack,
        Self::HopLimit,
        Self::WrongLid,
        Self::QueueFull,
        Self::NoClient,
        Self::NoPower,
        Self::BadMKey,
        Self::BadPKey,
        Self::Unwanted,
        Self::Lost,
        Self::Crowded,
    ];

    /// Returns the code of the reason.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Malformed => "SLV-EMU-0101",
            Self::NoSuchPort => "SLV-EMU-0102",
            Self::NotASwitch => "SLV-EMU-0103",
            Self::LinkDown => "SLV-EMU-0104",
            Self::NotActive => "SLV-EMU-0105",
            Self::NoPath => "SLV-EMU-0106",
            Self::TurnedBack => "SLV-EMU-0107",
            Self::HopLimit => "SLV-EMU-0108",
            Self::WrongLid => "SLV-EMU-0109",
            Self::QueueFull => "SLV-EMU-0110",
            Self::NoClient => "SLV-EMU-0111",
            Self::NoPower => "SLV-EMU-0112",
            Self::BadMKey => "SLV-EMU-0113",
            Self::BadPKey => "SLV-EMU-0114",
            Self::Unwanted => "SLV-EMU-0115",
            Self::Lost => "SLV-EMU-0116",
            Self::Crowded => "SLV-EMU-0117",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "malformed header",
            Self::NoSuchPort => "no such port",
            Self::NotASwitch => "route through a node that is no switch",
            Self::LinkDown => "link down",
            Self::NotActive => "port not ACTIVE",
            Self::NoPath => "no forwarding entry",
            Self::TurnedBack => "forwarded to where it came from",
            Self::HopLimit => "forwarding loop",
            Self::WrongLid => "the node there does not have the LID",
            Self::QueueFull => "agent's queue full",
            Self::NoClient => "no client at the port accepts it",
            Self::NoPower => "node without power",
            Self::BadMKey => "wrong M_Key",
            Self::BadPKey => "wrong P_Key",
            Self::Unwanted => "answer without a request",
            Self::Lost => "lost by a fault",
            Self::Crowded => "too many MADs in flight",
        })
    }
}

/// Numbers of MADs by method and attribute. The two SMP classes (LID-routed and directed) are counted together.
/// Attributes that the emulator does not support share one counter per class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadTable(Box<[u64; METHODS * KINDS]>);

const METHODS: usize = 9;
const KINDS: usize = 19;
const SMP_OTHER: usize = 12;
const GMP_OTHER: usize = 16;

impl Default for MadTable {
    fn default() -> Self {
        Self(Box::new([0; METHODS * KINDS]))
    }
}

const fn method_index(method: Method) -> usize {
    match method {
        Method::Get => 0,
        Method::Set => 1,
        Method::Send => 2,
        Method::Trap => 3,
        Method::Report => 4,
        Method::TrapRepress => 5,
        Method::GetResp => 6,
        Method::ReportResp => 7,
        Method::GetTable
        | Method::GetMulti
        | Method::Delete
        | Method::GetTableResp
        | Method::GetMultiResp
        | Method::DeleteResp
        | Method::Other(_) => 8,
    }
}

const fn kind_index(class: Class, attribute: AttributeId) -> usize {
    match (class, attribute) {
        (Class::SubnLid | Class::SubnDirected, attribute) => match attribute {
            AttributeId::NOTICE => 0,
            AttributeId::NODE_DESCRIPTION => 1,
            AttributeId::NODE_INFO => 2,
            AttributeId::SWITCH_INFO => 3,
            AttributeId::GUID_INFO => 4,
            AttributeId::PORT_INFO => 5,
            AttributeId::PKEY_TABLE => 6,
            AttributeId::SL_TO_VL => 7,
            AttributeId::VL_ARBITRATION => 8,
            AttributeId::LINEAR_FORWARDING => 9,
            AttributeId::MULTICAST_FORWARDING => 10,
            AttributeId::SM_INFO => 11,
            _ => SMP_OTHER,
        },
        (Class::PerfMgt, attribute) => match attribute {
            AttributeId::CLASS_PORT_INFO => 13,
            AttributeId::PORT_COUNTERS => 14,
            AttributeId::PORT_COUNTERS_EXTENDED => 15,
            _ => GMP_OTHER,
        },
        (Class::SubnAdm, _) => 17,
        (Class::Other(_), _) => 18,
    }
}

const fn index(class: Class, method: Method, attribute: AttributeId) -> usize {
    method_index(method) * KINDS + kind_index(class, attribute)
}

impl MadTable {
    /// Returns the number of MADs with this class, method and attribute.
    #[must_use]
    pub fn of(&self, class: Class, method: Method, attribute: AttributeId) -> u64 {
        self.0[index(class, method, attribute)]
    }

    /// Returns the number of MADs with this method, of any class and attribute.
    #[must_use]
    pub fn of_method(&self, method: Method) -> u64 {
        let first = method_index(method) * KINDS;
        self.0[first..first + KINDS].iter().sum()
    }

    /// Returns the total number.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn add(&mut self, mad: &Mad) {
        self.0[index(mad.class(), mad.method(), mad.attribute())] += 1;
    }
}

/// Counts of MADs by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// MADs sent by clients.
    pub sent: MadTable,
    /// Requests that agents carried out: they were answered with status 0, or they acknowledged a trap.
    pub accepted: MadTable,
    /// Requests that agents answered with another status.
    pub refused: MadTable,
    /// MADs delivered to clients.
    pub delivered: MadTable,
    /// MADs dropped, for any reason.
    pub dropped: MadTable,
    /// Responses that agents sent.
    pub answers: u64,
    /// Traps that agents sent, including repetitions.
    pub traps: u64,
    /// Traps not sent because the port has no LID of a subnet manager, or because its capabilities do not include them.
    pub traps_suppressed: u64,
    /// Traps given up after `EmulatorConfig::trap_sends_max`.
    pub traps_given_up: u64,
    /// Copies of MADs made by a fault.
    pub duplicates: u64,
    pub(crate) drops: [u64; DropReason::ALL.len()],
}

impl Counts {
    /// Returns the number of MADs dropped for a reason.
    #[must_use]
    pub const fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Returns the number of Sets that agents carried out.
    #[must_use]
    pub fn sets_accepted(&self) -> u64 {
        self.accepted.of_method(Method::Set)
    }

    /// Returns the number of MADs created.
    #[must_use]
    pub fn created(&self) -> u64 {
        self.sent.total() + self.answers + self.traps + self.duplicates
    }

    /// Returns the number of MADs delivered, served or dropped.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.delivered.total() + self.accepted.total() + self.refused.total() + self.drops.iter().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_has_its_code_and_place() {
        let codes: BTreeSet<_> = DropReason::ALL.iter().map(|r| r.code()).collect();
        assert_eq!(codes.len(), DropReason::ALL.len());
        for (i, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
        }
    }

    #[test]
    fn every_kind_has_its_place() {
        let mut places = BTreeSet::new();
        for class in [Class::SubnLid, Class::PerfMgt, Class::SubnAdm, Class::Other(9)] {
            for attribute in 0..0x40 {
                places.insert(kind_index(class, AttributeId::from_code(attribute)));
            }
        }
        assert_eq!(places.into_iter().collect::<Vec<_>>(), (0..KINDS).collect::<Vec<_>>());
        assert_eq!(method_index(Method::Other(0x7F)), METHODS - 1);
    }
}
