//! Intent: classes of traffic with promises, compiled to service levels, lanes and arbitration tables.
//!
//! # What a promise means
//!
//! - A class of **low latency** has entries in the high-priority table, and VLHighLimit 0: after one of its packets a
//!   packet of low priority may go. So it waits for few packets, and takes no more of a link than its packets' size
//!   allows. A cap of such a class is kept by its MTU.
//! - The **share** of another class is its least part of what low-latency classes leave of a link, while it is
//!   backlogged on all its lanes. The share of a low-latency class is its least part of the link.
//! - A class has one lane for each **layer** of routing, because routes keep their layer to be free of deadlock. So
//!   classes × layers lanes are needed. On a link with fewer lanes some classes share lanes; layers are never mixed,
//!   unless the link has fewer lanes than routing has layers.
//!
//! Shares are exact for packets of the MTU, because every weight is a multiple of it.

mod classify;
mod compile;
mod error;
mod link;
mod offer;
mod quota;

pub use classify::Context;
pub use compile::{ClassPlan, Compiled};
pub use error::{IntentError, Refused, Why};
pub use link::{Lanes, LinkTables};
pub use offer::{Distance, Offer};

use selvedge_types::{Mtu, Sl};

/// How long packets of a class may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Latency {
    /// As long as shares of other classes take.
    #[default]
    Normal,
    /// Packets go before those of normal classes.
    Low,
}

/// What brings traffic into a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// A job, by name.
    Job(String),
    /// A partition, by P_Key without the membership bit.
    Partition(u16),
    /// Service IDs from the first to the last.
    ServiceId(u64, u64),
    /// A ULP with the service IDs or the P_Key that it has by default.
    Ulp(Ulp),
    /// A port group, as source or destination.
    PortGroup(String),
    /// TClass of a path query.
    TrafficClass(u8),
    /// A requested service level.
    Sl(Sl),
}

/// An upper-layer protocol with known service IDs or P_Key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ulp {
    /// IP over InfiniBand.
    Ipoib,
    /// iSCSI extensions for RDMA.
    Iser,
    /// Reliable datagram sockets.
    Rds,
    /// Sockets direct protocol.
    Sdp,
}

impl Ulp {
    /// All ULPs.
    pub const ALL: [Self; 4] = [Self::Ipoib, Self::Iser, Self::Rds, Self::Sdp];

    /// Returns the name, as in OpenSM's policy file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipoib => "ipoib",
            Self::Iser => "iser",
            Self::Rds => "rds",
            Self::Sdp => "sdp",
        }
    }
}

impl std::str::FromStr for Ulp {
    type Err = IntentError;

    /// Reads a name in any case.
    fn from_str(name: &str) -> Result<Self, IntentError> {
        let known = Self::ALL.into_iter().find(|ulp| ulp.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| IntentError::UnknownUlp {
            name: name.to_owned(),
            meant: crate::near::meant(name, Self::ALL.map(Self::name)),
        })
    }
}

/// A class of traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Name of the class.
    pub name: String,
    /// Minimum share in percent, 1–100. `None`: what others leave.
    pub share: Option<u8>,
    /// How long packets may wait.
    pub latency: Latency,
    /// Most of a link that a low-latency class may take while others want it, in percent, 1–100.
    pub cap: Option<u8>,
    /// Largest MTU of the class's paths.
    pub mtu: Option<Mtu>,
    /// What belongs to the class.
    pub matches: Vec<Match>,
}

/// What the operator wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intent {
    /// Classes.
    pub classes: Vec<Class>,
    /// The class of traffic that no class matches.
    pub default: String,
}

/// What links can do, as most of them are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Data lanes, 1–15.
    pub lanes: u8,
    /// Entries of the high-priority arbitration table, at most 64.
    pub vl_arb_high: u8,
    /// Entries of the low-priority arbitration table, at most 64.
    pub vl_arb_low: u8,
    /// MTU.
    pub mtu: Mtu,
}

#[cfg(test)]
mod tests;
