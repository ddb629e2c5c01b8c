//! The operator's policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::COPIES_LEVEL;
use crate::out_of_service::OutOfService;
use crate::partition::Partitions;
use crate::qos::QosPolicy;
use selvedge_fabric::PortSettings;
use selvedge_types::{Guid, LidRange, Lmc, Mtu, Sl, debug_without_keys};

/// Name of a routing engine, as in `-R` and `routing_engine`. The registry of crate `routing` lists the names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EngineName(pub String);

/// The order in which LIDs are given out in a fabric where no port has a LID and none is known. This order never
/// changes a LID that a port holds, or that is stored or in guid2lid. Ports that join later get the lowest free LIDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LidLayout {
    /// Ascending by node GUID.
    Sequential,
    /// In a fat tree, LIDs that one lost link affects are put into few LFT blocks; elsewhere the same as
    /// [`Self::Sequential`].
    #[default]
    ByPlane,
}

impl LidLayout {
    /// All values with their names.
    pub const ALL: [(&'static str, Self); 2] = [("sequential", Self::Sequential), ("by-plane", Self::ByPlane)];

    /// Returns the name in a configuration file.
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

/// When load is balanced again after repairs have left it uneven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RebalanceWhen {
    /// Never: entries move only where a fault forces them to.
    Never,
    /// After a quiet time, in steps of limited size. No step waits or drops a packet.
    #[default]
    Later,
    /// As soon as an event has been handled, in one change, with all waits that it needs.
    AtOnce,
}

impl RebalanceWhen {
    /// Returns the name of the value in a configuration file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Later => "later",
            Self::AtOnce => "at-once",
        }
    }
}

/// Whether multicast copies have a lane of their own if routes use several lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MulticastLane {
    /// Multicast copies get one lane more than the routes use, if all links have that many lanes. Otherwise they get
    /// the last lane of the routes, if at least three lanes remain for routes and suffice for them. Copies never get a
    /// lane that routes in force use.
    #[default]
    Auto,
    /// Multicast copies get a lane whenever there are two lanes, even at the cost of routes.
    Own,
    /// Multicast copies never get a lane: they share lanes with routes. Members that no deadlock-free tree reaches are
    /// left out.
    Shared,
}

impl MulticastLane {
    /// All values with their names.
    pub const ALL: [(&'static str, Self); 3] = [("auto", Self::Auto), ("own", Self::Own), ("shared", Self::Shared)];

    /// Returns the name in a configuration file.
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

/// Direction in which a switch drops packets with P_Keys that the host of a port does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartEnforce {
    /// No packets are dropped.
    #[default]
    Off,
    /// Packets from the host.
    In,
    /// Packets to the host.
    Out,
    /// Packets from and to the host.
    Both,
}

impl PartEnforce {
    /// All values with their names, which are OpenSM's.
    pub const ALL: [(&'static str, Self); 4] = [
        ("off", Self::Off),
        ("in", Self::In),
        ("out", Self::Out),
        ("both", Self::Both),
    ];

    /// Returns the name in a configuration file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => Self::ALL[0].0,
            Self::In => Self::ALL[1].0,
            Self::Out => Self::ALL[2].0,
            Self::Both => Self::ALL[3].0,
        }
    }

    /// Returns the bits for [`PortSettings::enforcement`].
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

/// The operator's policy as values. Every field has the default for a fabric without a configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct Policy {
    /// Routing engines in order of preference. The first one with a plan that the judge accepts is used, and each
    /// refusal is reported. Default: `auto` (`fat-tree` if the fabric is one, else `weave`), then `updn`.
    pub engines: Vec<EngineName>,
    /// Roots for `updn`: GUIDs of switches, or GUIDs of hosts that stand for their switch. Empty: the engine finds
    /// them.
    pub roots: Vec<Guid>,
    /// Port GUIDs of compute nodes. Engines that distinguish them (fat-tree, ftree, sssp, dfsssp) balance them first
    /// and separately. Empty: all hosts except I/O nodes.
    pub compute: Vec<Guid>,
    /// Port GUIDs of I/O nodes, which the engines named at [`Self::compute`] balance after compute nodes.
    pub io: Vec<Guid>,
    /// GUIDs of ports that are routed first, in this order (minhop, updn, dnup, fat-tree).
    pub guid_order: Vec<Guid>,
    /// True if the engines named at [`Self::guid_order`] also count routes to switches when they spread load. Default
    /// false: switches receive next to no traffic.
    pub count_switches: bool,
    /// LIDs per end port as a power of two. Default 0.
    pub lmc: Lmc,
    /// LIDs by port GUID to keep if possible (guid2lid).
    pub known_lids: BTreeMap<Guid, LidRange>,
    /// True to give new LIDs even to ports with valid ones. Default false: the LID of a live port never changes.
    pub reassign_lids: bool,
    /// The order in which LIDs are assigned in a fabric without LIDs.
    pub lid_layout: LidLayout,
    /// Data lanes that links are set up for (OperationalVLs), 1–15. Default 1.
    pub lanes: u8,
    /// Data lanes that packets use, 1–15. Default 1: SLtoVLMappingTables and VLArbitrationTables are not written.
    pub used_lanes: u8,
    /// True if every sender uses the service levels in its path records. Default false: no proof depends on service
    /// levels, and packets may have any level.
    pub assume_sl_aware: bool,
    /// Whether multicast copies have a lane of their own if routes use several lanes. Default: if that costs the routes
    /// little.
    pub multicast_lane: MulticastLane,
    /// Quality of service. Default: none; then [`Self::used_lanes`] alone decides about lane tables.
    pub qos: Option<Arc<QosPolicy>>,
    /// Number of times that a link between switches may go down within [`Self::flap_window_s`]. After that it is left
    /// out of routing, even if it is up, until [`Self::flap_hold_s`] after it last went down. Default 10; 0: links are
    /// never left out.
    pub flap_downs: u8,
    /// Length of the window in which [`Self::flap_downs`] are counted, in seconds. Default 60.
    pub flap_window_s: u32,
    /// How long a link that reached [`Self::flap_downs`] is left out after it last went down, in seconds. Default 600.
    pub flap_hold_s: u32,
    /// When load is balanced again after links were lost or came back. Default: later.
    pub rebalance: RebalanceWhen,
    /// LFT blocks that one step of rebalancing may write. Default 0: a hundredth of all blocks, at least 64. So even if
    /// all entries move there are about a hundred steps.
    pub rebalance_blocks: u32,
    /// Time without events in the fabric before rebalancing begins, in seconds. Default 300.
    pub rebalance_quiet_s: u32,
    /// Pause between two steps, in seconds. Default 30: packets of the previous step have usually drained then.
    pub rebalance_pause_s: u32,
    /// Partitions. Default: every port is a full member of the default partition.
    pub partitions: Arc<Partitions>,
    /// Where switches enforce partitions, in addition to the hosts' own ports. Default: off.
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
    /// M_Key of every port. Default 0: unprotected.
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
    /// Service level of packets to the subnet manager. Default 0.
    pub sm_sl: Sl,
    /// Switches, links and ports that are out of service. No configuration file sets it: the process adds the list that
    /// it has stored. Default: none.
    pub out_of_service: Arc<OutOfService>,
}

debug_without_keys!(
    Policy {
        engines, roots, compute, io, guid_order, count_switches, lmc, known_lids, reassign_lids, lid_layout,
        lanes, used_lanes, assume_sl_aware, multicast_lane, qos, flap_downs, flap_window_s, flap_hold_s, rebalance,
        rebalance_blocks, rebalance_quiet_s, rebalance_pause_s, partitions, part_enforce, mtu_max,
        packet_life, hoq_life, leaf_hoq_life, vl_stall_count, m_key_lease_s, m_key_protect, subnet_prefix,
        subnet_timeout, local_phy_errors, overrun_errors, sm_sl, out_of_service
    } keys { m_key }
);

impl Policy {
    /// If multicast copies may have a separate lane, returns the service level of groups that have no level of their
    /// own. It depends only on the operator's settings, so it is the same for every fabric and engine. With quality of
    /// service copies have no lane of their own: their service level belongs to a class.
    #[must_use]
    pub fn copies_level(&self) -> Option<Sl> {
        let may_have = self.assume_sl_aware && self.used_lanes > 1 && self.multicast_lane != MulticastLane::Shared;
        (may_have && self.qos.is_none()).then_some(COPIES_LEVEL)
    }

    /// Returns the number of lanes that links are set up for, if they have that many: one more if multicast copies are
    /// to have their own.
    #[must_use]
    pub fn link_lanes(&self) -> u8 {
        match self.qos.as_deref() {
            Some(QosPolicy::OpenSm(opensm)) => return opensm.lanes.clamp(1, 15),
            Some(QosPolicy::Classes(intent)) => {
                let layers = if self.assume_sl_aware {
                    self.used_lanes.max(1)
                } else {
                    1
                };
                let lanes = intent.classes.len().saturating_mul(usize::from(layers)).min(15);
                return self.lanes.max(lanes as u8).min(15);
            }
            None => {}
        }
        let used = self.used_lanes + u8::from(self.copies_level().is_some());
        self.lanes.max(used).min(15)
    }

    /// Returns the partitions, with their groups on the service level of [`Self::copies_level`], if there is one.
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
            qos: None,
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
            out_of_service: Arc::default(),
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
