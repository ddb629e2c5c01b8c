//! What the operator wants.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::COPIES_LEVEL;
use crate::partition::Partitions;
use selvedge_fabric::PortSettings;
use selvedge_types::{Guid, LidRange, Lmc, Mtu, Sl, debug_without_keys};

/// Name of a routing engine, as in `-R` and `routing_engine`. Which names there are says the registry of `routing`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EngineName(pub String);

/// In which order LIDs are given out in a fabric in which no port holds one and none is known. A LID that is held,
/// stored or in guid2lid never changes for it, and ports that come later get the lowest free LIDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LidLayout {
    /// Ascending by node GUID.
    Sequential,
    /// In a fat tree so that the LIDs which a lost link concerns stand in few blocks of the tables; elsewhere as
    /// [`Self::Sequential`].
    #[default]
    ByPlane,
}

impl LidLayout {
    /// Each with its name.
    pub const ALL: [(&'static str, Self); 2] = [("sequential", Self::Sequential), ("by-plane", Self::ByPlane)];

    /// The name of a configuration file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => Self::ALL[0].0,
            Self::ByPlane => Self::ALL[1].0,
        }
    }
}

impl std::str::FromStr for LidLayout {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, layout)| layout).ok_or("want sequential or by-plane")
    }
}

/// When tables that have drifted from what the engine would make afresh are brought back to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RebalanceWhen {
    /// Not at all: entries move only where they must.
    Never,
    /// When nothing has happened for a while, in steps of bounded size, none of which waits or drops a packet.
    #[default]
    Later,
    /// As soon as what happened is dealt with, in one change, whatever waits that takes.
    AtOnce,
}

impl RebalanceWhen {
    /// Its name in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Later => "later",
            Self::AtOnce => "at-once",
        }
    }
}

/// Whether copies of multicast packets have a lane of their own where routes rely on several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MulticastLane {
    /// One more than routes have, if all links can have so many; else the last of theirs, if that leaves them three and
    /// they can do with these. Never one that routes in force rely on.
    #[default]
    Auto,
    /// Wherever there are two lanes, at the cost of routes if need be.
    Own,
    /// Never: copies share lanes with routes. Members that no tree reaches without a deadlock are left apart.
    Shared,
}

impl MulticastLane {
    /// Each with its name.
    pub const ALL: [(&'static str, Self); 3] = [("auto", Self::Auto), ("own", Self::Own), ("shared", Self::Shared)];

    /// The name of a configuration file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => Self::ALL[0].0,
            Self::Own => Self::ALL[1].0,
            Self::Shared => Self::ALL[2].0,
        }
    }
}

impl std::str::FromStr for MulticastLane {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, lane)| lane).ok_or("want auto, own or shared")
    }
}

/// At which side of a host's link its switch drops packets with keys that the host does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartEnforce {
    /// At none.
    #[default]
    Off,
    /// Of packets from the host.
    In,
    /// Of packets to the host.
    Out,
    /// Of both.
    Both,
}

impl PartEnforce {
    /// Each with its name, OpenSM's.
    pub const ALL: [(&'static str, Self); 4] = [
        ("off", Self::Off),
        ("in", Self::In),
        ("out", Self::Out),
        ("both", Self::Both),
    ];

    /// The name of a configuration file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => Self::ALL[0].0,
            Self::In => Self::ALL[1].0,
            Self::Out => Self::ALL[2].0,
            Self::Both => Self::ALL[3].0,
        }
    }

    /// As [`PortSettings::enforcement`] has it.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::In => PortSettings::ENFORCE_IN,
            Self::Out => PortSettings::ENFORCE_OUT,
            Self::Both => PortSettings::ENFORCE_IN | PortSettings::ENFORCE_OUT,
        }
    }
}

impl std::str::FromStr for PartEnforce {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, enforce)| enforce).ok_or("want off, in, out or both")
    }
}

/// The operator's intent, as values. Every field has the default that a fabric without a configuration gets.
#[derive(Clone, PartialEq, Eq)]
pub struct Policy {
    /// Routing engines in order of preference: the first whose plan the judge accepts is taken, and each refusal is
    /// reported. Default: `auto` (`fat-tree` where the fabric is one, else `weave`), then `updn`.
    pub engines: Vec<EngineName>,
    /// Roots for `updn`: switch GUIDs, or GUIDs of hosts whose switch is meant. Empty: found by the engine.
    pub roots: Vec<Guid>,
    /// GUIDs of compute nodes' ports, balanced first and on their own, by engines that tell them apart (fat-tree,
    /// ftree, sssp, dfsssp). Empty: all hosts that are no I/O nodes.
    pub compute: Vec<Guid>,
    /// GUIDs of I/O nodes' ports, balanced after compute nodes by the same engines.
    pub io: Vec<Guid>,
    /// GUIDs of ports that are routed first, in this order (minhop, updn, dnup, fat-tree).
    pub guid_order: Vec<Guid>,
    /// Count routes to switches when load is spread, by the same engines. Default false: they receive next to nothing.
    pub count_switches: bool,
    /// LIDs per end port as a power of two. Default 0.
    pub lmc: Lmc,
    /// LIDs by port GUID that must be kept where possible (guid2lid).
    pub known_lids: BTreeMap<Guid, LidRange>,
    /// Give new LIDs even to ports that have valid ones. Default false: a live port's LID never changes.
    pub reassign_lids: bool,
    /// The order in which LIDs are assigned in a fabric without LIDs.
    pub lid_layout: LidLayout,
    /// Data lanes that links are set up for (OperationalVLs), 1–15. Default 1.
    pub lanes: u8,
    /// Data lanes that packets are put on, 1–15. Default 1: SLtoVLMappingTables and VLArbitrationTables are left alone.
    pub used_lanes: u8,
    /// Every sender uses the service levels that it is told. Default false: no proof relies on it, and packets may have
    /// any.
    pub assume_sl_aware: bool,
    /// Whether copies have a lane of their own if so. Default: where that costs routes little.
    pub multicast_lane: MulticastLane,
    /// A link between switches that goes down so often within [`Self::flap_window_s`] is left out of routing, though it
    /// may be up, for [`Self::flap_hold_s`] since it last did. Default 10; 0: never.
    pub flap_downs: u8,
    /// See [`Self::flap_downs`], in seconds. Default 60.
    pub flap_window_s: u32,
    /// See [`Self::flap_downs`], in seconds. Default 600.
    pub flap_hold_s: u32,
    /// When load is spread anew after links were lost or came back. Default: later.
    pub rebalance: RebalanceWhen,
    /// LFT blocks that one step of it may write. Default 0: a hundredth of all blocks, at least 64; so even if all
    /// entries move there are about a hundred steps.
    pub rebalance_blocks: u32,
    /// So long nothing must have happened to the fabric before it begins, in seconds. Default 300.
    pub rebalance_quiet_s: u32,
    /// Pause between two steps, in seconds. Default 30: packets of the step before are gone then, as a rule.
    pub rebalance_pause_s: u32,
    /// Partitions. Default: every port is a full member of the default partition.
    pub partitions: Arc<Partitions>,
    /// Where switches enforce them beside the hosts' own ports. Default: off.
    pub part_enforce: PartEnforce,
    /// Largest MTU to plan. Default 4096.
    pub mtu_max: Mtu,
    /// Switch lifetime: 4.096 µs × 2^value. Default 18 (1.07 s), OpenSM's.
    pub packet_life: u8,
    /// Head-of-queue lifetime between switches: 4.096 µs × 2^value. Default 18 (1.07 s), OpenSM's.
    pub hoq_life: u8,
    /// Head-of-queue lifetime towards hosts: 4.096 µs × 2^value. Default 16 (0.27 s), OpenSM's.
    pub leaf_hoq_life: u8,
    /// Head-of-queue drops in a row after which a lane stalls. Default 7, OpenSM's.
    pub vl_stall_count: u8,
    /// M_Key given to every port. Default 0: unprotected.
    pub m_key: u64,
    /// Lease of the M_Key in seconds; 0: infinite. Default 0.
    pub m_key_lease_s: u16,
    /// M_Key protection bits, 0–3. Default 0.
    pub m_key_protect: u8,
    /// Subnet prefix. Default 0xfe80000000000000.
    pub subnet_prefix: u64,
    /// SubnetTimeOut: 4.096 µs × 2^value. Default 18 (1.07 s), OpenSM's.
    pub subnet_timeout: u8,
    /// Threshold of local physical errors, 0–15. Default 8, OpenSM's.
    pub local_phy_errors: u8,
    /// Threshold of buffer overruns, 0–15. Default 8, OpenSM's.
    pub overrun_errors: u8,
    /// Service level for talking to the subnet manager. Default 0.
    pub sm_sl: Sl,
}

debug_without_keys!(
    Policy {
        engines, roots, compute, io, guid_order, count_switches, lmc, known_lids, reassign_lids, lid_layout,
        lanes, used_lanes, assume_sl_aware, multicast_lane, flap_downs, flap_window_s, flap_hold_s, rebalance,
        rebalance_blocks, rebalance_quiet_s, rebalance_pause_s, partitions, part_enforce, mtu_max,
        packet_life, hoq_life, leaf_hoq_life, vl_stall_count, m_key_lease_s, m_key_protect, subnet_prefix,
        subnet_timeout, local_phy_errors, overrun_errors, sm_sl
    } keys { m_key }
);

impl Policy {
    /// Returns the service level of groups without a given one, if their copies may have a separate lane. It depends on
    /// the operator's settings only, so it is the same for every fabric and engine.
    #[must_use]
    pub fn copies_level(&self) -> Option<Sl> {
        let may_have = self.assume_sl_aware && self.used_lanes > 1 && self.multicast_lane != MulticastLane::Shared;
        may_have.then_some(COPIES_LEVEL)
    }

    /// Lanes that links are set up for, where they can have so many: one more for copies if they are to have one.
    #[must_use]
    pub fn link_lanes(&self) -> u8 {
        let used = self.used_lanes + u8::from(self.copies_level().is_some());
        self.lanes.max(used).min(15)
    }

    /// The partitions, whose groups have that level.
    #[must_use]
    pub fn partitions_told(&self) -> Arc<Partitions> {
        let mut told = Arc::clone(&self.partitions);
        if let Some(level) = self.copies_level() {
            (Arc::make_mut(&mut told).groups.values_mut()).for_each(|group| group.sl = level.get());
        }
        told
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            engines: vec![EngineName("auto".to_owned()), EngineName("updn".to_owned())],
            roots: Vec::new(),
            compute: Vec::new(),
            io: Vec::new(),
            guid_order: Vec::new(),
            count_switches: false,
            lmc: Lmc::ZERO,
            known_lids: BTreeMap::new(),
            reassign_lids: false,
            lid_layout: LidLayout::default(),
            lanes: 1,
            used_lanes: 1,
            assume_sl_aware: false,
            multicast_lane: MulticastLane::default(),
            flap_downs: 10,
            flap_window_s: 60,
            flap_hold_s: 600,
            rebalance: RebalanceWhen::default(),
            rebalance_blocks: 0,
            rebalance_quiet_s: 300,
            rebalance_pause_s: 30,
            partitions: Arc::default(),
            part_enforce: PartEnforce::Off,
            mtu_max: Mtu::B4096,
            packet_life: 18,
            hoq_life: 18,
            leaf_hoq_life: 16,
            vl_stall_count: 7,
            m_key: 0,
            m_key_lease_s: 0,
            m_key_protect: 0,
            subnet_prefix: PortSettings::DEFAULT_SUBNET_PREFIX,
            subnet_timeout: 18,
            local_phy_errors: 8,
            overrun_errors: 8,
            sm_sl: Sl::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_output_shows_the_key() {
        let policy = Policy {
            m_key: 0xfeed_beef,
            ..Policy::default()
        };
        let shown = format!("{policy:?} {policy:#?}");
        assert!(!shown.contains(&policy.m_key.to_string()), "{shown}");
        assert!(
            shown.contains("m_key: (not shown)") && shown.contains("hoq_life: 18"),
            "{shown}"
        );
    }
}
