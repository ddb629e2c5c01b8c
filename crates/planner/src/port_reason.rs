//! Reasons why a port is not ACTIVE, or why the node behind it is left out of the fabric.

use std::fmt;

/// Reason why a port is not ACTIVE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PortReason {
    /// There is no link: no cable is plugged in, or the peer is off.
    NoLink,
    /// The port is disabled: its PortPhysicalState is Disabled.
    Disabled,
    /// The link is training.
    Training,
    /// The link is up, but no agent answers behind it.
    PeerSilent,
    /// The link is up, but the node behind it is beyond the 63 hops of a directed route.
    BeyondReach,
    /// An M_Key forbids Sets.
    MKey,
    /// A Set was refused or not answered.
    SetFailed,
    /// The node behind the port has the GUID of another node, so the port is ignored.
    DuplicateGuid,
    /// No Set was sent because of the mode: dry run, watch or standby.
    NotOurs,
    /// The agent did not report the port, or the port cannot be queried from here, because it is on another rail of its
    /// HCA.
    NotSeen,
    /// No plan was accepted, so nothing is sent.
    NoPlan,
    /// The link went down too often and is left out of routing for a while.
    LeftOut,
    /// The operator has taken the link out of service.
    OutOfService,
    /// The port has no LID yet, and new LIDs cannot be stored. It gets one as soon as they can.
    NotStored,
    /// No known reason: a defect of the manager.
    Unexplained,
}

impl PortReason {
    /// Returns the stable code of the reason.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NoLink => "SLV-PORTSTATE-0001",
            Self::Disabled => "SLV-PORTSTATE-0002",
            Self::Training => "SLV-PORTSTATE-0003",
            Self::PeerSilent => "SLV-PORTSTATE-0004",
            Self::MKey => "SLV-PORTSTATE-0005",
            Self::SetFailed => "SLV-PORTSTATE-0006",
            Self::DuplicateGuid => "SLV-PORTSTATE-0007",
            Self::NotOurs => "SLV-PORTSTATE-0008",
            Self::NotSeen => "SLV-PORTSTATE-0009",
            Self::NoPlan => "SLV-PORTSTATE-0010",
            Self::LeftOut => "SLV-PORTSTATE-0011",
            Self::BeyondReach => "SLV-PORTSTATE-0012",
            Self::NotStored => "SLV-PORTSTATE-0013",
            Self::OutOfService => "SLV-PORTSTATE-0014",
            Self::Unexplained => "SLV-PORTSTATE-0099",
        }
    }
}

impl fmt::Display for PortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLink => "no link",
            Self::Disabled => "disabled",
            Self::Training => "training",
            Self::PeerSilent => "no agent answers behind it",
            Self::BeyondReach => "the node behind it is beyond the 63 hops of a directed route",
            Self::MKey => "an M_Key forbids Sets",
            Self::SetFailed => "a Set failed",
            Self::DuplicateGuid => "duplicate GUID behind it",
            Self::NotOurs => "not managed by this process",
            Self::NotSeen => "its agent did not report it, or is on another rail",
            Self::NoPlan => "no plan was accepted",
            Self::LeftOut => "went down too often, left out for a while",
            Self::OutOfService => "out of service",
            Self::NotStored => "waits for a LID until state can be stored",
            Self::Unexplained => "unexplained",
        })
    }
}
