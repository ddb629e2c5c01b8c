//! Classes of traffic with promises: as the operator asks for them, and as they are planned.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_types::{Guid, Mtu, Sl};

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
    /// Port groups: GUIDs of ports.
    pub groups: BTreeMap<String, BTreeSet<Guid>>,
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

/// What a class became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassPlan {
    /// The class as it was asked for.
    pub class: Class,
    /// Service levels of the class, by routing layer.
    pub sls: Vec<Sl>,
    /// Largest MTU of the class's paths.
    pub mtu: Mtu,
    /// Packets of the links' MTU that each of its lanes sends in a round of the low-priority table; 0: the class is in
    /// the high-priority table.
    pub packets: u32,
}

/// An intent that keeps its promises on links of this hardware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The hardware.
    pub hardware: Hardware,
    /// Layers of routing: lanes that each class has.
    pub layers: u8,
    /// The classes, in the order of the intent.
    pub classes: Vec<ClassPlan>,
    /// The class of traffic that no class matches, by index.
    pub default: usize,
    /// Port groups: GUIDs of ports.
    pub groups: BTreeMap<String, BTreeSet<Guid>>,
}
