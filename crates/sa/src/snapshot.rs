//! The committed fabric and plan, indexed for queries. Immutable.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use selvedge_apm::{Index, Routes, Subnet};
use selvedge_fabric::{Fabric, NodeIdx, Port, PortRef, SwitchIdx};
use selvedge_plan::partition::Partitions;
use selvedge_plan::{Generation, HeldLanes, Plan, Tables};
use selvedge_types::{Guid, Lid, LidRange, PKey, PortNum, PortState, Sl, Vl};
use selvedge_wire::{CapabilityMask, Gid, PortInfo, SmInfo, SwitchInfo};

use crate::rate::StaticRate;

/// What agents answered, as far as a [`Fabric`] does not contain it. Unknown values are left out of query answers.
pub trait Agents: Send + Sync {
    /// Returns the last known PortInfo.
    fn port_info(&self, at: PortRef) -> Option<&PortInfo>;
    /// Returns the last known SwitchInfo.
    fn switch_info(&self, node: NodeIdx) -> Option<&SwitchInfo>;
}

/// Inputs of a snapshot.
#[derive(Clone)]
pub struct Sources {
    /// The fabric after the plan was applied.
    pub fabric: Arc<Fabric>,
    /// The plan in force, with the indices of the fabric.
    pub plan: Arc<Plan>,
    /// What the agents answered.
    pub agents: Arc<dyn Agents>,
    /// Known lane tables. A snapshot keeps the rows that no plan contains, and drops the others.
    pub lanes: Arc<HeldLanes>,
    /// Ports of the plan that must still be asked to register again, because the registrations that they made before
    /// are unknown.
    pub unasked: Arc<BTreeSet<Guid>>,
    /// The end port that the manager runs on, and its SMInfo. The SM_Key is never shown.
    pub manager: (PortRef, SmInfo),
    /// The partitions of the policy.
    pub partitions: Arc<Partitions>,
}

/// The lane of each service level.
type LaneRow = [Vl; Sl::COUNT];

/// Stands for no switch or no end port, in a 32-bit index.
const NONE: u32 = u32::MAX;
/// Marks a hop that leads to an end port instead of a switch.
const TO_END: u32 = 1 << 31;
/// Number of hops after which a path counts as a loop. The longest useful path is in a ring: 500 hops with a thousand
/// switches.
const HOPS_MAX: u32 = 1_000;

/// An end port, with the data for queries.
#[derive(Clone, Debug)]
pub struct EndPort {
    /// Position of the end port in the fabric.
    pub at: PortRef,
    /// GUID of the end port.
    pub guid: Guid,
    /// LIDs of the end port.
    pub lids: LidRange,
    /// The first switch on the end port's paths: its own switch, or the switch at the other end of its cable.
    switch: u32,
    /// If no switch is on the paths: the end port at the other end of its cable.
    beside: u32,
    /// True for port 0 of a switch.
    pub is_switch: bool,
    /// Largest payload of the end port's link, as an IBA code.
    mtu: u8,
    /// Rate of the end port's link.
    rate: StaticRate,
    /// Index of the end port's P_Keys among all different tables.
    keys: u32,
}

/// An egress port of a switch.
#[derive(Clone, Copy, Debug)]
struct Hop {
    /// The switch behind the hop or, with [`TO_END`], the end port.
    to: u32,
    mtu: u8,
    rate: StaticRate,
    is_up: bool,
}

/// Properties of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quality {
    /// Largest payload, as an IBA code.
    pub mtu: u8,
    /// Rate of the slowest link.
    pub rate: StaticRate,
}

/// The committed fabric and plan, indexed for queries.
pub struct Snapshot {
    pub(crate) sources: Sources,
    /// End ports, by base LID.
    ends: Vec<EndPort>,
    /// Index in `ends`, by LID.
    owner: Vec<u32>,
    /// Index in `ends`, by GUID.
    by_guid: Vec<(Guid, u32)>,
    /// Index in `hops` of each switch's first egress port.
    first: Vec<u32>,
    hops: Vec<Hop>,
    key_tables: Vec<Vec<PKey>>,
    /// The row of each switch from port 0 to itself, if known, while lanes are planned.
    own_rows: Vec<Option<LaneRow>>,
    /// Index for the order of several paths; without several LIDs of a port it is made when a query needs it.
    paths: OnceLock<Index>,
    prefix: u64,
    life: u8,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generation = self.generation();
        f.debug_struct("Snapshot")
            .field("generation", &generation)
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Indexes a committed plan. Takes about 100 ns per port and, if ports have several LIDs, 5 ns per forwarding
    /// entry: paths are then ordered by load.
    #[must_use]
    pub fn new(mut sources: Sources) -> Self {
        let held = std::mem::take(&mut sources.lanes);
        let any = sources.plan.ports.values().next();
        let (prefix, life) = any.map_or((0, 0), |p| (p.subnet_prefix, p.subnet_timeout));
        let mut snapshot = Self {
            ends: Vec::new(),
            owner: vec![NONE; sources.plan.lids.top().index() + 1],
            by_guid: Vec::new(),
            first: Vec::new(),
            hops: Vec::new(),
            key_tables: Vec::new(),
            own_rows: Vec::new(),
            paths: OnceLock::new(),
            prefix,
            life,
            sources,
        };
        snapshot.index_ends();
        snapshot.index_hops();
        if snapshot.ends.iter().any(|end| end.lids.lmc.lids() > 1) {
            snapshot.paths = OnceLock::from(Index::new(snapshot.subnet()));
        }
        if snapshot.plan().lane_tables.is_some() {
            let (fabric, own) = (snapshot.fabric(), PortNum::MANAGEMENT);
            let row = |node: &NodeIdx| held.row(fabric.node(*node).guid, own, own).copied();
            snapshot.own_rows = fabric.switches().iter().map(row).collect();
        }
        snapshot
    }

    /// Returns the row of a switch from port 0 to itself, as read from its agent; `None` while the plan does not write
    /// lane tables.
    pub(crate) fn own_row(&self, switch: SwitchIdx) -> Option<LaneRow> {
        self.own_rows.get(switch.0 as usize).copied().flatten()
    }

    fn index_ends(&mut self) {
        let Sources { fabric, plan, .. } = &self.sources;
        let mut ends: Vec<EndPort> = Vec::with_capacity(plan.lids.len());
        for (at, lids) in plan.lids.iter() {
            let Some(port) = fabric.port(at) else { continue };
            let keys = match plan.end_ports.get(&at) {
                Some(end) => &end.pkeys,
                None => &port.pkeys,
            };
            let known = self.key_tables.iter().position(|table| table == keys);
            let known = known.unwrap_or_else(|| {
                self.key_tables.push(keys.clone());
                self.key_tables.len() - 1
            });
            let own = fabric.switch_index(at.node);
            let beside = port.peer.and_then(|peer| fabric.switch_index(peer.node));
            ends.push(EndPort {
                at,
                guid: port.guid,
                lids,
                switch: own.or(beside).map_or(NONE, |s| s.0),
                beside: NONE,
                is_switch: own.is_some(),
                mtu: mtu_of(at, port),
                rate: if own.is_some() {
                    StaticRate::MAX
                } else {
                    StaticRate::of(port.link.rate)
                },
                keys: u32::try_from(known).unwrap_or(NONE),
            });
        }
        ends.sort_by_key(|end| end.lids.base);
        for (end, place) in ends.iter().zip(0..) {
            for lid in end.lids.iter() {
                if let Some(slot) = self.owner.get_mut(lid.index()) {
                    *slot = place;
                }
            }
            self.by_guid.push((end.guid, place));
        }
        self.by_guid.sort_unstable();
        for end in ends.iter_mut().filter(|end| end.switch == NONE) {
            let base = fabric.peer(end.at).and_then(|peer| plan.lids.base(peer));
            end.beside = base.map_or(NONE, |lid| self.owner[lid.index()]);
        }
        self.ends = ends;
    }

    fn index_hops(&mut self) {
        let Sources { fabric, plan, .. } = &self.sources;
        for &node in fabric.switches().iter() {
            self.first.push(u32::try_from(self.hops.len()).unwrap_or(NONE));
            let switch = fabric.node(node);
            for num in 0..=switch.port_count() {
                let at = PortNum::new(num).map(|port| PortRef { node, port });
                let hop = at.and_then(|at| {
                    let (port, peer) = (fabric.port(at)?, fabric.peer(at)?);
                    let is_active = |at| fabric.port(at).is_some_and(|p| p.link.state == PortState::Active);
                    let to = match fabric.switch_index(peer.node) {
                        Some(next) => next.0,
                        None => TO_END | *self.owner.get(plan.lids.base(peer)?.index())?,
                    };
                    Some(Hop {
                        to,
                        mtu: mtu_of(at, port),
                        rate: StaticRate::of(port.link.rate),
                        is_up: is_active(at) && is_active(peer),
                    })
                });
                self.hops.push(hop.unwrap_or(Hop {
                    to: NONE,
                    mtu: 0,
                    rate: StaticRate::MAX,
                    is_up: false,
                }));
            }
        }
    }

    /// Returns the generation of the plan.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.sources.plan.generation
    }

    /// Returns the fabric.
    #[must_use]
    pub fn fabric(&self) -> &Fabric {
        &self.sources.fabric
    }

    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.sources.plan
    }

    /// Returns what alternate paths depend on.
    fn subnet(&self) -> Subnet<'_> {
        let plan = self.plan();
        Subnet {
            fabric: self.fabric(),
            lids: &plan.lids,
            tables: &plan.tables,
            levels: plan.told_levels(),
        }
    }

    /// Returns the paths of the subnet, to order several of them; `None` if no port has several LIDs.
    pub(crate) fn routes(&self) -> Option<Routes<'_>> {
        let subnet = self.subnet();
        self.paths.get().map(|index| Routes { subnet, index })
    }

    /// Returns the paths of the subnet, to order those of several ports.
    pub(crate) fn routes_of_ports(&self) -> Routes<'_> {
        let subnet = self.subnet();
        let index = self.paths.get_or_init(|| Index::new(subnet));
        Routes { subnet, index }
    }

    fn tables(&self) -> &Tables {
        &self.sources.plan.tables
    }

    /// Returns the memory of the indexes in bytes, without fabric and plan, which the manager has anyway.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        size_of_val(&*self.ends)
            + size_of_val(&*self.owner)
            + size_of_val(&*self.by_guid)
            + size_of_val(&*self.first)
            + size_of_val(&*self.hops)
            + self.paths.get().map_or(0, Index::bytes)
    }

    /// Returns the GIDs that can be reached here but not in another snapshot, by GUID. One pass over both.
    pub(crate) fn gids_not_in(&self, other: &Self) -> Vec<Gid> {
        let is_same_subnet = self.prefix == other.prefix;
        let mut others = other.in_service().map(|end| end.guid).peekable();
        let missing = self.in_service().filter(|end| {
            while others.next_if(|other| *other < end.guid).is_some() {}
            !is_same_subnet || others.peek() != Some(&end.guid)
        });
        missing.map(|end| self.gid(end)).collect()
    }

    /// Returns the end ports in order of GUIDs, without ports that have no link: a repair leaves these in the plan with
    /// their LIDs.
    pub(crate) fn in_service(&self) -> impl Iterator<Item = &EndPort> {
        let ports = &self.sources.plan.ports;
        let ends = self.by_guid.iter().filter_map(|(_, place)| self.end(*place));
        ends.filter(|end| end.is_switch || ports.contains_key(&end.at))
    }

    /// True if an end port with this GUID can be reached.
    #[must_use]
    pub fn is_in_service(&self, guid: Guid) -> bool {
        let end = self.by_guid(guid).and_then(|place| self.end(place));
        end.is_some_and(|end| end.is_switch || self.sources.plan.ports.contains_key(&end.at))
    }

    /// Returns the number of end ports with LIDs.
    #[must_use]
    pub fn end_count(&self) -> u32 {
        u32::try_from(self.ends.len()).unwrap_or(NONE)
    }

    /// Returns an end port by its index, in order of LIDs.
    #[must_use]
    pub fn end(&self, place: u32) -> Option<&EndPort> {
        self.ends.get(place as usize)
    }

    /// Returns the index of the end port with a LID.
    #[must_use]
    pub fn by_lid(&self, lid: Lid) -> Option<u32> {
        self.owner.get(lid.index()).copied().filter(|&place| place != NONE)
    }

    /// Returns the base LIDs of the other ports that show IsSM.
    pub(crate) fn other_managers(&self) -> impl Iterator<Item = Lid> + '_ {
        let (own, _) = self.sources.manager;
        let others = self.ends.iter().filter(move |end| {
            let port = self.sources.fabric.port(end.at);
            end.at != own
                && port.is_some_and(|port| CapabilityMask(port.capability.mask).contains(CapabilityMask::IS_SM))
        });
        others.map(|end| end.lids.base)
    }

    /// Returns the index of the end port with a GUID.
    #[must_use]
    pub fn by_guid(&self, guid: Guid) -> Option<u32> {
        let at = self.by_guid.binary_search_by_key(&guid, |(guid, _)| *guid).ok()?;
        Some(self.by_guid[at].1)
    }

    /// Returns the index of the end port with a GID of this subnet.
    #[must_use]
    pub fn by_gid(&self, gid: Gid) -> Option<u32> {
        let is_ours = gid.prefix() == self.prefix || gid.prefix() == Self::LINK_LOCAL;
        is_ours.then(|| self.by_guid(gid.guid())).flatten()
    }

    /// The link-local prefix, valid in every subnet. Source: IBA vol 1 §4.1.1.
    const LINK_LOCAL: u64 = 0xFE80_0000_0000_0000;

    /// Returns the GID of an end port.
    #[must_use]
    pub fn gid(&self, end: &EndPort) -> Gid {
        self.gid_of(end.guid)
    }

    /// Returns the GID that a GUID has in this subnet.
    #[must_use]
    pub fn gid_of(&self, guid: Guid) -> Gid {
        Gid::new(self.prefix, guid)
    }

    /// Returns the longest time of a packet in flight, as a code: 4.096 µs · 2^value.
    #[must_use]
    pub const fn life(&self) -> u8 {
        self.life
    }

    /// Returns the properties of an end port's link.
    #[must_use]
    pub const fn quality_of(end: &EndPort) -> Quality {
        Quality {
            mtu: end.mtu,
            rate: end.rate,
        }
    }

    /// Returns the properties of the path from an end port to a LID of another, or of itself; `None` if there is none.
    #[must_use]
    pub fn walk(&self, from: &EndPort, to: u32, dlid: Lid) -> Option<Quality> {
        let target = self.end(to)?;
        let (mut mtu, mut rate) = (from.mtu.min(target.mtu), from.rate.min(target.rate));
        let done = |mtu, rate| Some(Quality { mtu, rate });
        if target.at == from.at {
            // Port 0 of a switch has no link, but its PortInfo has the properties.
            let port = self.fabric().port(from.at)?;
            return done(mtu, StaticRate::of(port.link.rate));
        }
        if from.beside == to {
            return done(mtu, rate);
        }
        let mut switch = from.switch;
        for _ in 0..HOPS_MAX {
            if target.is_switch && target.switch == switch {
                return done(mtu, rate);
            }
            // An end port without a link has no switch: the plan keeps its LID, and a client may query its paths.
            let first = *self.first.get(switch as usize)?;
            let egress = self.tables().get(SwitchIdx(switch), dlid);
            let beyond = self
                .first
                .get(switch as usize + 1)
                .map_or(self.hops.len(), |&next| next as usize);
            let at = first as usize + usize::from(egress);
            let hop = self.hops.get(at).filter(|hop| at < beyond && hop.is_up)?;
            (mtu, rate) = (mtu.min(hop.mtu), rate.min(hop.rate));
            if hop.to & TO_END != 0 {
                return if hop.to & !TO_END == to { done(mtu, rate) } else { None };
            }
            switch = hop.to;
        }
        None
    }

    /// Returns the planned rows of the SLtoVLMappingTables on the path from an end port to a LID of another; a hop
    /// without one is left out.
    #[must_use]
    pub(crate) fn rows_along(&self, from: &EndPort, to: u32, dlid: Lid) -> Vec<LaneRow> {
        let plan = self.plan();
        let mut rows = Vec::new();
        let mut push = |egress: PortRef, ingress: PortNum| rows.extend(plan.row(egress, ingress));
        let mut ingress = PortNum::MANAGEMENT;
        if !from.is_switch {
            push(from.at, ingress);
            let peer = self.fabric().peer(from.at);
            ingress = peer.map_or(PortNum::MANAGEMENT, |peer| peer.port);
        }
        let (mut switch, target) = (from.switch, self.end(to));
        for _ in 0..HOPS_MAX {
            let is_there = |target: &EndPort| target.at == from.at || target.is_switch && target.switch == switch;
            if target.is_none_or(is_there) || from.beside == to {
                break;
            }
            let node = self.fabric().switches().get(SwitchIdx(switch)).copied();
            let egress = PortNum::new(self.tables().get(SwitchIdx(switch), dlid));
            let Some((node, port)) = node.zip(egress) else { break };
            let at = PortRef { node, port };
            push(at, ingress);
            let Some(peer) = self.fabric().peer(at) else { break };
            match self.fabric().switch_index(peer.node) {
                Some(next) => (switch, ingress) = (next.0, peer.port),
                None => break,
            }
        }
        rows
    }

    /// Returns the service level of a partition; 0 if there is no partition with this P_Key.
    #[must_use]
    pub(crate) fn sl_of_partition(&self, pkey: PKey) -> Sl {
        let partition = self.sources.partitions.partitions.get(&(pkey.0 & 0x7FFF));
        partition.map_or_else(Sl::default, |partition| partition.sl)
    }

    /// Returns the P_Keys of an end port.
    #[must_use]
    pub fn keys(&self, end: &EndPort) -> &[PKey] {
        self.key_tables.get(end.keys as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the first P_Key of `from` that allows it to talk to `to`, in partition `wanted` if given.
    #[must_use]
    pub fn shared_key(&self, from: &EndPort, to: &EndPort, wanted: Option<PKey>) -> Option<PKey> {
        let theirs = self.keys(to);
        let is_wanted = |key: &PKey| wanted.is_none_or(|wanted| wanted.0 & 0x7FFF == key.0 & 0x7FFF);
        let talks = |key: &&PKey| is_wanted(key) && theirs.iter().any(|other| key.matches(*other));
        self.keys(from).iter().find(talks).copied()
    }
}

/// Returns the largest payload on a port's link, as an IBA code; port 0 of a switch has no link.
fn mtu_of(at: PortRef, port: &Port) -> u8 {
    if at.port == PortNum::MANAGEMENT {
        port.capability.mtu.code()
    } else {
        port.settings.mtu.code()
    }
}
