//! One finding: the fault, its place, its severity and a concrete witness. Its text is in `text`.

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_types::{Guid, Lid, LidRange, Mtu, PKey, PortNum, PortState, Sl, Vl};
use serde::Serialize;

use crate::Kind;
use crate::aliases::AliasFault;
use crate::multicast::Stray;
use crate::phases::PhaseFinding;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Information only.
    Info,
    /// The fabric works, but an operator should check.
    Warning,
    /// The plan must not be sent.
    Error,
}

/// A node or port, with the name that is shown to operators and programs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// GUID of the node; 0 if the node does not exist.
    pub node_guid: Guid,
    /// The port, or `None` for the node as a whole.
    pub port: Option<PortNum>,
    /// Node description in quotes, followed by `[port]` for a port.
    pub name: String,
}

impl Place {
    /// Returns the place of a port.
    #[must_use]
    pub fn port(fabric: &Fabric, at: PortRef) -> Self {
        Self {
            node_guid: fabric.nodes().get(at.node).map_or(Guid::NONE, |n| n.guid),
            port: Some(at.port),
            name: fabric.port_name(at),
        }
    }

    /// Returns the place of a node.
    #[must_use]
    pub fn node(fabric: &Fabric, idx: NodeIdx) -> Self {
        let node = fabric.nodes().get(idx);
        Self {
            node_guid: node.map_or(Guid::NONE, |n| n.guid),
            port: None,
            name: match node {
                Some(node) if node.description.is_empty() => node.guid.to_string(),
                Some(node) => format!("\"{}\"", node.description),
                None => format!("node {}", idx.0),
            },
        }
    }
}

/// Number of affected sources: end ports, each towards one LID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Sources {
    /// Host ports.
    pub hosts: u64,
    /// Switches (their port 0).
    pub switches: u64,
}

/// Why a switch drops a packet before a lane is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The entry is 255.
    NoEntry,
    /// The LID is above the switch's LinearFDBTop.
    AboveTop,
    /// The switch has no port with that number.
    NoSuchPort,
    /// No cable is plugged in at the egress port.
    Uncabled,
    /// The link at the egress port is down on at least one side.
    LinkDown,
}

/// Class of traffic that a cycle of dependencies consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// From hosts to every LID.
    Hosts,
    /// The traffic of `Hosts`, and from switches to hosts.
    Agents,
    /// Traffic from hosts, from switches to hosts, and from switches to switches.
    Switches,
}

/// The attribute that a Set writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribute {
    /// One block of LinearForwardingTable.
    LftBlock(u16),
    /// P_KeyTable.
    PKeyTable,
    /// PortInfo.
    PortInfo,
    /// The port state in PortInfo.
    PortState,
    /// SwitchInfo.
    SwitchInfo,
    /// The row of SLtoVLMappingTable for packets that arrive by this port.
    SlToVl(PortNum),
    /// One block of VLArbitrationTable.
    VlArbitration(u8),
}

/// Why a lane is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneFault {
    /// The link does not have the lane, so packets are dropped.
    NoSuchLane,
    /// The arbiter never serves the lane, so packets wait for ever.
    NeverServed,
    /// The routes were proved on another lane.
    NotProved,
    /// The lane is used before the link and the arbiter have it.
    Early,
    /// The arbiter stops to serve the lane while packets may be on it.
    Cut,
}

/// How the tables of a port do not give what the plan's quality of service promises.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QualityFault {
    /// The port has no tables.
    NoTables,
    /// PortInfo.VLHighLimit is not that of the tables.
    HighLimit {
        /// Limit that the tables need.
        tables: u8,
        /// Planned limit of the port.
        port: u8,
    },
    /// A service level that paths get is dropped.
    Dropped {
        /// The service level.
        sl: Sl,
    },
    /// A service level is on a lane that the link does not have.
    NoLane {
        /// The service level.
        sl: Sl,
        /// The lane.
        vl: Vl,
    },
    /// The arbiter never serves the lane of a service level.
    NeverServed {
        /// The service level.
        sl: Sl,
        /// The lane.
        vl: Vl,
    },
    /// Two service levels of different layers of routing share a lane.
    Mixed {
        /// A service level.
        sl: Sl,
        /// The lane.
        vl: Vl,
        /// A service level of another layer.
        other: Sl,
    },
    /// VLHighLimit 255 lets a lane of high priority take the whole link.
    Starved {
        /// A service level that may wait for ever.
        sl: Sl,
        /// Its lane, which has entries of low priority only.
        vl: Vl,
        /// A lane of high priority that packets use.
        high: Vl,
    },
    /// A class shares a lane with another class.
    Shared {
        /// The class.
        class: String,
        /// A service level of another class.
        other: Sl,
    },
    /// A class of low latency has no entry of high priority for one of its lanes.
    NotFirst {
        /// The class.
        class: String,
    },
    /// A class gets a smaller share than promised.
    Share {
        /// The class.
        class: String,
        /// Promised share in percent.
        promised: u8,
        /// Share in percent by the weights, rounded down.
        found: u8,
    },
}

/// How the partitions that a switch port shall enforce are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unlike {
    /// The host has this P_Key, but it would not pass.
    Missing(PKey),
    /// The P_Key would pass, but the host does not have it.
    Beyond(PKey),
    /// No host is behind the port, or its P_Keys are not planned.
    NoHost,
}

/// One step of a packet through a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// The switch.
    pub switch: Place,
    /// The port by which the packet arrived; 0: sent by the switch itself.
    pub ingress: PortNum,
    /// The table entry: the egress port; 255 means none.
    pub egress: u8,
    /// The lane that the packet is put on; `None` if it is dropped before.
    pub vl: Option<Vl>,
}

/// One dependency of a cycle: packets from `source` to `lid` occupy the lane on which they arrived and wait for the
/// next lane on their path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The port that sends.
    pub source: Place,
    /// The destination.
    pub lid: Lid,
    /// The lane on the link by which the packets arrived.
    pub from_vl: Vl,
    /// The switch in which they wait, and the egress and lane that they wait for.
    pub hop: Hop,
}

/// Evidence for a finding, step by step, that a person can check by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Witness {
    /// Channel dependencies: each waits for the next, and the last for the first.
    Cycle(Vec<Step>),
    /// The path of one packet, to its end or to the first switch that it reaches twice.
    Path {
        /// The port that sends.
        source: Place,
        /// The destination.
        lid: Lid,
        /// Switches on the path, in order.
        hops: Vec<Hop>,
    },
    /// There is no further evidence: the finding itself is complete.
    Plain,
}

/// The fault. Each variant belongs to the [`Kind`] of the same name, which documents its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "the variants are documented in Kind; fields are the finding's nouns"
)]
pub enum Fault {
    BlackHole {
        switch: Place,
        egress: u8,
        lid: Lid,
        owner: Place,
        cause: Cause,
        lost: Sources,
    },
    Loop {
        switch: Place,
        length: u32,
        lid: Lid,
        owner: Place,
        lost: Sources,
    },
    WrongDelivery {
        switch: Place,
        egress: u8,
        lid: Lid,
        owner: Place,
        receiver: Place,
        lost: Sources,
    },
    OwnLid {
        switch: Place,
        lid: Lid,
        egress: u8,
    },
    LaneDrop {
        switch: Place,
        egress: u8,
        lid: Lid,
        owner: Place,
        sl: Sl,
        vl: Vl,
        lanes: u8,
        lost: Sources,
    },
    Cycle {
        traffic: Traffic,
        length: u32,
    },
    LinearTopLow {
        switch: Place,
        top: Lid,
        need: Lid,
    },
    LinearCap {
        switch: Place,
        cap: u16,
        need: Lid,
    },
    StrayEntries {
        lids: u64,
        entries: u64,
        switch: Place,
        lid: Lid,
    },
    TableShape {
        tables: u64,
        fabric: u64,
    },
    LidMissing {
        port: Place,
    },
    LidOfNoPort {
        port: Place,
        lids: LidRange,
    },
    LidDuplicate {
        lid: Lid,
        port: Place,
        other: Place,
    },
    LidMismatch {
        port: Place,
        planned: LidRange,
        settings: LidRange,
    },
    LidRange {
        port: Place,
        lids: LidRange,
    },
    MtuMismatch {
        port: Place,
        mtu: Mtu,
        peer: Place,
        peer_mtu: Mtu,
    },
    LanesMismatch {
        port: Place,
        oper_vls: u8,
        peer: Place,
        peer_oper_vls: u8,
    },
    SettingRange {
        place: Place,
        field: &'static str,
        value: u64,
        limit: u64,
    },
    Unplanned {
        place: Place,
    },
    NoSuchPlace {
        place: Place,
    },
    Separated {
        parts: u64,
        hosts_of_largest: u64,
        hosts: u64,
        host_pairs_apart: u64,
    },
    HostAlone {
        host: Place,
        has_link: bool,
    },
    OutOfReach {
        /// The best port for the manager: it reaches the most nodes from there.
        seat: Place,
        switches: u64,
        hosts: u64,
        first: Place,
    },
    ChangeMissing {
        place: Place,
        attribute: Attribute,
    },
    ChangeBeyond {
        place: Place,
        attribute: Attribute,
    },
    EarlyActivation {
        port: Place,
        phase: u32,
        relies_on: Place,
        attribute: Attribute,
        written_in: u32,
    },
    IllegalState {
        port: Place,
        from: PortState,
        to: PortState,
    },
    Lane {
        port: Place,
        sl: Sl,
        vl: Vl,
        why: LaneFault,
    },
    Quality {
        port: Place,
        why: QualityFault,
    },
    Generation {
        plan: u64,
        changes: u64,
    },
    UnsafeWay {
        first: Box<PhaseFinding>,
    },
    InheritedCycle {
        first: Box<PhaseFinding>,
    },
    Enforcement {
        port: Place,
        why: Unlike,
    },
    EarlyEnforcement {
        port: Place,
        phase: u32,
        written_in: u32,
    },
    MulticastMissed {
        mlid: Lid,
        member: Place,
    },
    MulticastLoop {
        mlid: Lid,
        port: Place,
    },
    MulticastStray {
        mlid: Lid,
        port: Place,
        why: Stray,
    },
    MulticastUnreached {
        mlid: Lid,
        member: Place,
    },
    MulticastWay {
        mlid: Lid,
        phase: u32,
        port: Place,
    },
    MulticastChange {
        switch: Place,
        block: u16,
        position: u8,
    },
    MulticastCircle {
        mlid: Lid,
        vl: u8,
        /// Phase of the change; 0: after the change.
        phase: u32,
        /// Egress ports of packets, each waiting for the next.
        channels: Vec<Place>,
    },
    MulticastApart {
        mlid: Lid,
        member: Place,
    },
    OutOfService {
        port: Place,
        /// Number of LIDs with packets of hosts that leave by the port.
        lids: u64,
        first: Lid,
    },
    AliasChange {
        port: Place,
        block: u8,
        why: AliasFault,
    },
}

impl Fault {
    /// Returns the kind, which has the code and the name.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::BlackHole { .. } => Kind::BlackHole,
            Self::Loop { .. } => Kind::Loop,
            Self::WrongDelivery { .. } => Kind::WrongDelivery,
            Self::OwnLid { .. } => Kind::OwnLid,
            Self::LaneDrop { .. } => Kind::LaneDrop,
            Self::Cycle { traffic, .. } => match traffic {
                Traffic::Hosts => Kind::HostCycle,
                Traffic::Agents => Kind::AgentCycle,
                Traffic::Switches => Kind::SwitchCycle,
            },
            Self::LinearTopLow { .. } => Kind::LinearTopLow,
            Self::LinearCap { .. } => Kind::LinearCap,
            Self::StrayEntries { .. } => Kind::StrayEntries,
            Self::TableShape { .. } => Kind::TableShape,
            Self::LidMissing { .. } => Kind::LidMissing,
            Self::LidOfNoPort { .. } => Kind::LidOfNoPort,
            Self::LidDuplicate { .. } => Kind::LidDuplicate,
            Self::LidMismatch { .. } => Kind::LidMismatch,
            Self::LidRange { .. } => Kind::LidRange,
            Self::MtuMismatch { .. } => Kind::MtuMismatch,
            Self::LanesMismatch { .. } => Kind::LanesMismatch,
            Self::SettingRange { .. } => Kind::SettingRange,
            Self::Unplanned { .. } => Kind::Unplanned,
            Self::NoSuchPlace { .. } => Kind::NoSuchPlace,
            Self::Separated { .. } => Kind::Separated,
            Self::HostAlone { .. } => Kind::HostAlone,
            Self::OutOfReach { .. } => Kind::OutOfReach,
            Self::ChangeMissing { .. } => Kind::ChangeMissing,
            Self::ChangeBeyond { .. } => Kind::ChangeBeyond,
            Self::EarlyActivation { .. } => Kind::EarlyActivation,
            Self::IllegalState { .. } => Kind::IllegalState,
            Self::Lane { .. } => Kind::Lane,
            Self::Quality { .. } => Kind::Quality,
            Self::Generation { .. } => Kind::Generation,
            Self::UnsafeWay { .. } => Kind::UnsafeWay,
            Self::InheritedCycle { .. } => Kind::InheritedCycle,
            Self::Enforcement { .. } => Kind::Enforcement,
            Self::EarlyEnforcement { .. } => Kind::EarlyEnforcement,
            Self::MulticastMissed { .. } => Kind::MulticastMissed,
            Self::MulticastLoop { .. } => Kind::MulticastLoop,
            Self::MulticastStray { .. } => Kind::MulticastStray,
            Self::MulticastUnreached { .. } => Kind::MulticastUnreached,
            Self::MulticastWay { .. } => Kind::MulticastWay,
            Self::MulticastChange { .. } => Kind::MulticastChange,
            Self::MulticastCircle { .. } => Kind::MulticastCircle,
            Self::MulticastApart { .. } => Kind::MulticastApart,
            Self::OutOfService { .. } => Kind::OutOfService,
            Self::AliasChange { .. } => Kind::AliasChange,
        }
    }
}

/// A fault with its severity and witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind's code.
    pub code: &'static str,
    /// Severity of the finding.
    pub severity: Severity,
    /// True if the operator accepts this finding: an error, or a warning that would otherwise fail [the
    /// verdict](crate::Verdict::is_good).
    pub accepted: bool,
    /// The fault.
    pub fault: Fault,
    /// Evidence for the fault.
    pub witness: Witness,
}

impl Finding {
    /// Returns a finding without further evidence.
    #[must_use]
    pub const fn new(severity: Severity, fault: Fault) -> Self {
        Self::proven(severity, fault, Witness::Plain)
    }

    /// Returns a finding with its witness.
    #[must_use]
    pub const fn proven(severity: Severity, fault: Fault, witness: Witness) -> Self {
        Self {
            code: fault.kind().code(),
            severity,
            accepted: false,
            fault,
            witness,
        }
    }
}
