//! One finding: what is wrong, where, how bad, and a concrete witness. Its words are in `text`.

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_types::{Guid, Lid, LidRange, Mtu, PKey, PortNum, PortState, Sl, Vl};
use serde::Serialize;

use crate::Kind;
use crate::aliases::AliasFault;
use crate::multicast::Stray;
use crate::phases::PhaseFinding;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Works, but somebody should look.
    Warning,
    /// Not to be sent.
    Error,
}

/// A node or port as people and programs name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// GUID of the node; 0 if the node does not exist.
    pub node_guid: Guid,
    /// The port; `None`: the node as a whole.
    pub port: Option<PortNum>,
    /// `"description"`, and `[port]` if it is a port.
    pub name: String,
}

impl Place {
    /// A port.
    #[must_use]
    pub fn port(fabric: &Fabric, at: PortRef) -> Self {
        Self {
            node_guid: fabric.nodes().get(at.node).map_or(Guid::NONE, |n| n.guid),
            port: Some(at.port),
            name: fabric.port_name(at),
        }
    }

    /// A node.
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

/// How many sources are hit: end ports, each towards one LID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Sources {
    /// Host ports.
    pub hosts: u64,
    /// Switches (their port 0).
    pub switches: u64,
}

/// Why a switch drops a packet before it asks for a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The entry is 255.
    NoEntry,
    /// The LID is above LinearFDBTop.
    AboveTop,
    /// The switch has no port of that number.
    NoSuchPort,
    /// No cable at the egress port.
    Uncabled,
    /// The link at the egress port is down on one side at least.
    LinkDown,
}

/// Whose traffic a cycle of dependencies is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// From hosts to anywhere.
    Hosts,
    /// That, and from switches to hosts.
    Agents,
    /// All that, and from switches to switches.
    Switches,
}

/// What a Set writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribute {
    /// One block of LinearForwardingTable.
    LftBlock(u16),
    /// P_KeyTable.
    PKeyTable,
    /// PortInfo.
    PortInfo,
    /// The logical state in PortInfo.
    PortState,
    /// SwitchInfo.
    SwitchInfo,
    /// The row of SLtoVLMappingTable for packets that came in by this port.
    SlToVl(PortNum),
    /// One block of VLArbitrationTable.
    VlArbitration(u8),
}

/// Why a lane is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneFault {
    /// The link does not have it: packets are dropped.
    NoSuchLane,
    /// The arbiter never serves it: packets wait for ever.
    NeverServed,
    /// Routes were proved on another one.
    NotProved,
    /// It is used before link and arbiter have it.
    Early,
}

/// What is wrong with partitions that a switch is to enforce at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unlike {
    /// The host's key would not pass.
    Missing(PKey),
    /// The key would pass, and the host does not hold it.
    Beyond(PKey),
    /// No host is behind the port, or its keys are not planned.
    NoHost,
}

/// One step of a packet through a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// The switch.
    pub switch: Place,
    /// Where the packet came in; 0: sent by the switch itself.
    pub ingress: PortNum,
    /// The entry: where it shall go out; 255: nowhere.
    pub egress: u8,
    /// The lane it is given; `None` if it never asks for one.
    pub vl: Option<Vl>,
}

/// One dependency of a cycle: packets to `lid` from `source` hold the lane they came by and wait for the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Who sends.
    pub source: Place,
    /// Where to.
    pub lid: Lid,
    /// Lane on the link they came by.
    pub from_vl: Vl,
    /// The switch they wait in, and what for.
    pub hop: Hop,
}

/// Proof of a finding that a person can follow with a finger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Witness {
    /// Channel dependencies, each waiting for the next and the last for the first.
    Cycle(Vec<Step>),
    /// The way of one packet, to its end or to the first switch it meets again.
    Path {
        /// Who sends.
        source: Place,
        /// Where to.
        lid: Lid,
        /// Switch by switch.
        hops: Vec<Hop>,
    },
    /// The finding itself says all.
    Plain,
}

/// What is wrong. Each variant belongs to the [`Kind`] of its name, where the meaning is written.
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
        /// The place from which a manager reaches most nodes.
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
        /// Of the change; 0: at rest afterwards.
        phase: u32,
        /// Ports by which packets leave, each waiting for the next.
        channels: Vec<Place>,
    },
    MulticastApart {
        mlid: Lid,
        member: Place,
    },
    AliasChange {
        port: Place,
        block: u8,
        why: AliasFault,
    },
}

impl Fault {
    /// The kind, with code and name.
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
            Self::AliasChange { .. } => Kind::AliasChange,
        }
    }
}

/// A fault with its severity and witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind's code.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// True for an error that the operator accepted, and for an accepted warning that would otherwise fail [the
    /// verdict](crate::Verdict::is_good).
    pub accepted: bool,
    /// What is wrong.
    pub fault: Fault,
    /// Proof.
    pub witness: Witness,
}

impl Finding {
    /// A finding that needs no further proof.
    #[must_use]
    pub const fn new(severity: Severity, fault: Fault) -> Self {
        Self::proven(severity, fault, Witness::Plain)
    }

    /// A finding with its witness.
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
