//! Traps of subnet management: the details of generic notices (64–67, 128–131, 144, 145, 256–259).

use core::fmt;

use selvedge_types::{Guid, Lid, PKey, Sl};

use super::bytes::{Hex, array_at, put, put_u24, u16_at, u24_at, u32_at, u64_at};
use super::notice::NoticeType;
use super::{CapabilityMask, CapabilityMask2};
use crate::{Gid, SmpData};

/// The decoded details of a trap. Source: IBA vol 1 §14.2.5.1 (details), §14.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// 64: a port came into service.
    GidInService {
        /// The port.
        gid: Gid,
    },
    /// 65: a port went out of service.
    GidOutOfService {
        /// The port.
        gid: Gid,
    },
    /// 66: a multicast group was created.
    GroupCreated {
        /// The group.
        gid: Gid,
    },
    /// 67: a multicast group was deleted.
    GroupDeleted {
        /// The group.
        gid: Gid,
    },
    /// 128: a port of a switch changed its link state.
    LinkState {
        /// The switch.
        lid: Lid,
    },
    /// 129: too many local link integrity errors.
    LinkIntegrity {
        /// The port's node.
        lid: Lid,
        /// The port.
        port: u8,
    },
    /// 130: too many buffer overruns.
    BufferOverrun {
        /// The port's node.
        lid: Lid,
        /// The port.
        port: u8,
    },
    /// 131: no flow-control updates.
    FlowControl {
        /// The port's node.
        lid: Lid,
        /// The port.
        port: u8,
    },
    /// 144: capabilities or other local properties changed.
    LocalChange(LocalChange),
    /// 145: the system image GUID changed.
    SystemImageGuid {
        /// The port.
        lid: Lid,
        /// The new GUID.
        guid: Guid,
    },
    /// 256: an SMP with a wrong M_Key.
    BadMKey(BadMKey),
    /// 257: a packet with a wrong P_Key.
    BadPKey(BadKey),
    /// 258: a packet with a wrong Q_Key.
    BadQKey(BadKey),
    /// 259: a packet with a wrong P_Key at an external port of a switch.
    SwitchBadPKey(SwitchBadPKey),
}

/// Details of trap 144.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalChange {
    /// The port.
    pub lid: Lid,
    /// True if `changes` is valid.
    pub other_local_changes: bool,
    /// The mask after the change.
    pub capabilities: CapabilityMask,
    /// Other changes: bit 0 NodeDescription, 1 LinkWidthEnabled, 2 LinkSpeedEnabled, 3 SM priority, 4 hierarchy, 5
    /// CapabilityMask2.
    pub changes: u16,
    /// The second mask after the change.
    pub capabilities2: CapabilityMask2,
}

/// Details of trap 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMKey {
    /// Source of the SMP.
    pub lid: Lid,
    /// DrSLID of the SMP.
    pub dr_slid: Lid,
    /// Method of the SMP.
    pub method: u8,
    /// Attribute of the SMP.
    pub attribute: u16,
    /// Attribute modifier of the SMP.
    pub modifier: u32,
    /// M_Key of the SMP.
    pub m_key: u64,
    /// True if the SMP had a directed route.
    pub directed: bool,
    /// True if `return_path` is shorter than the route.
    pub truncated: bool,
    /// Number of hops of the route, 6 bits.
    pub hop_count: u8,
    /// Return path of the SMP, from byte 0 on.
    pub return_path: [u8; 30],
}

/// Details of traps 257 and 258.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BadKey {
    /// Source of the packet.
    pub slid: Lid,
    /// Destination of the packet.
    pub dlid: Lid,
    /// The key: a P_Key in the low 16 bits, or a Q_Key.
    pub key: u32,
    /// Service level of the packet.
    pub sl: Sl,
    /// Source queue pair, 24 bits.
    pub source_qp: u32,
    /// Destination queue pair, 24 bits.
    pub destination_qp: u32,
    /// Source GID.
    pub sgid: Gid,
    /// Destination GID.
    pub dgid: Gid,
}

/// Details of trap 259.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchBadPKey {
    /// Bit mask of the valid fields, as defined by the standard.
    pub valid: u16,
    /// Source of the packet.
    pub slid: Lid,
    /// Destination of the packet.
    pub dlid: Lid,
    /// The key.
    pub key: PKey,
    /// Service level of the packet.
    pub sl: Sl,
    /// Source queue pair, 24 bits.
    pub source_qp: u32,
    /// Destination queue pair, 24 bits.
    pub destination_qp: u32,
    /// Source GID.
    pub sgid: Gid,
    /// Destination GID.
    pub dgid: Gid,
    /// The switch.
    pub switch: Lid,
    /// Port of the switch.
    pub port: u8,
}

impl Trap {
    /// Returns the number of the trap.
    #[must_use]
    pub const fn number(&self) -> u16 {
        match self {
            Self::GidInService { .. } => 64,
            Self::GidOutOfService { .. } => 65,
            Self::GroupCreated { .. } => 66,
            Self::GroupDeleted { .. } => 67,
            Self::LinkState { .. } => 128,
            Self::LinkIntegrity { .. } => 129,
            Self::BufferOverrun { .. } => 130,
            Self::FlowControl { .. } => 131,
            Self::LocalChange(_) => 144,
            Self::SystemImageGuid { .. } => 145,
            Self::BadMKey(_) => 256,
            Self::BadPKey(_) => 257,
            Self::BadQKey(_) => 258,
            Self::SwitchBadPKey(_) => 259,
        }
    }

    /// Returns the type that the standard defines for the trap. Source: IBA vol 1 §14.2.5.1.
    #[must_use]
    pub const fn kind(&self) -> NoticeType {
        match self.number() {
            64..=67 => NoticeType::SUBNET_MANAGEMENT,
            128..=131 => NoticeType::URGENT,
            144 | 145 => NoticeType::INFO,
            _ => NoticeType::SECURITY,
        }
    }

    /// Decodes the details; `data` is the whole notice.
    pub(super) fn parse(number: u16, data: &SmpData) -> Option<Self> {
        let gid = Gid(array_at(data, 16));
        let lid = Lid(u16_at(data, 12));
        let port = data[14];
        Some(match number {
            64 => Self::GidInService { gid },
            65 => Self::GidOutOfService { gid },
            66 => Self::GroupCreated { gid },
            67 => Self::GroupDeleted { gid },
            128 => Self::LinkState {
                lid: Lid(u16_at(data, 10)),
            },
            129 => Self::LinkIntegrity { lid, port },
            130 => Self::BufferOverrun { lid, port },
            131 => Self::FlowControl { lid, port },
            144 => Self::LocalChange(LocalChange {
                lid,
                other_local_changes: data[15] & 1 != 0,
                capabilities: CapabilityMask(u32_at(data, 16)),
                changes: u16_at(data, 20),
                capabilities2: CapabilityMask2(u16_at(data, 22)),
            }),
            145 => Self::SystemImageGuid {
                lid,
                guid: Guid(u64_at(data, 16)),
            },
            256 => Self::BadMKey(BadMKey::parse(data)),
            257 => Self::BadPKey(BadKey::parse(data)),
            258 => Self::BadQKey(BadKey::parse(data)),
            259 => Self::SwitchBadPKey(SwitchBadPKey::parse(data)),
            _ => return None,
        })
    }

    /// Encodes the details; `data` is the whole notice.
    pub(super) fn emit(&self, data: &mut SmpData) {
        match self {
            Self::GidInService { gid }
            | Self::GidOutOfService { gid }
            | Self::GroupCreated { gid }
            | Self::GroupDeleted { gid } => put(data, 16, gid.0),
            Self::LinkState { lid } => put(data, 10, lid.0.to_be_bytes()),
            Self::LinkIntegrity { lid, port } | Self::BufferOverrun { lid, port } | Self::FlowControl { lid, port } => {
                put(data, 12, lid.0.to_be_bytes());
                data[14] = *port;
            }
            Self::LocalChange(change) => {
                put(data, 12, change.lid.0.to_be_bytes());
                data[15] = u8::from(change.other_local_changes);
                put(data, 16, change.capabilities.0.to_be_bytes());
                put(data, 20, change.changes.to_be_bytes());
                put(data, 22, change.capabilities2.0.to_be_bytes());
            }
            Self::SystemImageGuid { lid, guid } => {
                put(data, 12, lid.0.to_be_bytes());
                put(data, 16, guid.0.to_be_bytes());
            }
            Self::BadMKey(bad) => bad.emit(data),
            Self::BadPKey(bad) | Self::BadQKey(bad) => bad.emit(data),
            Self::SwitchBadPKey(bad) => bad.emit(data),
        }
    }
}

impl BadMKey {
    /// ```text
    /// 12 LID | 14 DrSLID | 16 method | 18 attribute | 20 modifier | 24 M_Key
    /// 33 DRNotice (1 bit), DRPathTruncated (1), DRHopCount (6) | 34 return path, 30 bytes
    /// ```
    fn parse(data: &SmpData) -> Self {
        Self {
            lid: Lid(u16_at(data, 12)),
            dr_slid: Lid(u16_at(data, 14)),
            method: data[16],
            attribute: u16_at(data, 18),
            modifier: u32_at(data, 20),
            m_key: u64_at(data, 24),
            directed: data[33] & 0x80 != 0,
            truncated: data[33] & 0x40 != 0,
            hop_count: data[33] & 0x3F,
            return_path: array_at(data, 34),
        }
    }

    fn emit(&self, data: &mut SmpData) {
        put(data, 12, self.lid.0.to_be_bytes());
        put(data, 14, self.dr_slid.0.to_be_bytes());
        data[16] = self.method;
        put(data, 18, self.attribute.to_be_bytes());
        put(data, 20, self.modifier.to_be_bytes());
        put(data, 24, self.m_key.to_be_bytes());
        data[33] = u8::from(self.directed) << 7 | u8::from(self.truncated) << 6 | self.hop_count & 0x3F;
        put(data, 34, self.return_path);
    }
}

impl BadKey {
    /// ```text
    /// 12 LID 1 | 14 LID 2 | 16 key | 20 SL (4 bits) | 21 QP 1 (24 bits) | 25 QP 2 (24 bits) | 28 GID 1 | 44 GID 2
    /// ```
    fn parse(data: &SmpData) -> Self {
        Self {
            slid: Lid(u16_at(data, 12)),
            dlid: Lid(u16_at(data, 14)),
            key: u32_at(data, 16),
            // Four bits are always an SL, so the default is never taken.
            sl: Sl::new(data[20] >> 4).unwrap_or_default(),
            source_qp: u24_at(data, 21),
            destination_qp: u24_at(data, 25),
            sgid: Gid(array_at(data, 28)),
            dgid: Gid(array_at(data, 44)),
        }
    }

    fn emit(&self, data: &mut SmpData) {
        put(data, 12, self.slid.0.to_be_bytes());
        put(data, 14, self.dlid.0.to_be_bytes());
        put(data, 16, self.key.to_be_bytes());
        data[20] = self.sl.get() << 4;
        put_u24(data, 21, self.source_qp);
        put_u24(data, 25, self.destination_qp);
        put(data, 28, self.sgid.0);
        put(data, 44, self.dgid.0);
    }
}

impl SwitchBadPKey {
    /// ```text
    /// 10 DataValid | 12 LID 1 | 14 LID 2 | 16 P_Key | 18 SL (4 bits) | 19 QP 1 (24) | 23 QP 2 (24)
    /// 26 GID 1 | 42 GID 2 | 58 LID of the switch | 60 port
    /// ```
    fn parse(data: &SmpData) -> Self {
        Self {
            valid: u16_at(data, 10),
            slid: Lid(u16_at(data, 12)),
            dlid: Lid(u16_at(data, 14)),
            key: PKey(u16_at(data, 16)),
            // Four bits are always an SL, so the default is never taken.
            sl: Sl::new(data[18] >> 4).unwrap_or_default(),
            source_qp: u24_at(data, 19),
            destination_qp: u24_at(data, 23),
            sgid: Gid(array_at(data, 26)),
            dgid: Gid(array_at(data, 42)),
            switch: Lid(u16_at(data, 58)),
            port: data[60],
        }
    }

    fn emit(&self, data: &mut SmpData) {
        put(data, 10, self.valid.to_be_bytes());
        put(data, 12, self.slid.0.to_be_bytes());
        put(data, 14, self.dlid.0.to_be_bytes());
        put(data, 16, self.key.0.to_be_bytes());
        data[18] = self.sl.get() << 4;
        put_u24(data, 19, self.source_qp);
        put_u24(data, 23, self.destination_qp);
        put(data, 26, self.sgid.0);
        put(data, 42, self.dgid.0);
        put(data, 58, self.switch.0.to_be_bytes());
        data[60] = self.port;
    }
}

impl fmt::Display for Trap {
    /// The M_Key of trap 256 may differ from the correct one in a single digit, so the text only shows whether there
    /// was one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GidInService { gid } => write!(f, "in service gid={gid}"),
            Self::GidOutOfService { gid } => write!(f, "out of service gid={gid}"),
            Self::GroupCreated { gid } => write!(f, "group created gid={gid}"),
            Self::GroupDeleted { gid } => write!(f, "group deleted gid={gid}"),
            Self::LinkState { lid } => write!(f, "link state lid={lid}"),
            Self::LinkIntegrity { lid, port } => write!(f, "link integrity lid={lid} port={port}"),
            Self::BufferOverrun { lid, port } => write!(f, "buffer overrun lid={lid} port={port}"),
            Self::FlowControl { lid, port } => write!(f, "flow control lid={lid} port={port}"),
            Self::LocalChange(change) => write!(
                f,
                "local change lid={} cap={} other={} changes={:#x} cap2={}",
                change.lid,
                change.capabilities,
                u8::from(change.other_local_changes),
                change.changes,
                change.capabilities2,
            ),
            Self::SystemImageGuid { lid, guid } => write!(f, "system image lid={lid} guid={guid}"),
            Self::BadMKey(bad) => write!(
                f,
                "bad M_Key lid={} dr_slid={} method={:#x} attribute={:#x} mod={:#x} mkey={} dr={} truncated={} \
                 hops={} path={}",
                bad.lid,
                bad.dr_slid,
                bad.method,
                bad.attribute,
                bad.modifier,
                if bad.m_key == 0 { "none" } else { "set" },
                u8::from(bad.directed),
                u8::from(bad.truncated),
                bad.hop_count,
                Hex(&bad.return_path),
            ),
            Self::BadPKey(bad) => write!(f, "bad P_Key {bad}"),
            Self::BadQKey(bad) => write!(f, "bad Q_Key {bad}"),
            Self::SwitchBadPKey(bad) => write!(
                f,
                "bad P_Key at switch={} port={} valid={:#x} slid={} dlid={} key={:#x} sl={} sqp={:#x} dqp={:#x} \
                 sgid={} dgid={}",
                bad.switch,
                bad.port,
                bad.valid,
                bad.slid,
                bad.dlid,
                bad.key.0,
                bad.sl.get(),
                bad.source_qp,
                bad.destination_qp,
                bad.sgid,
                bad.dgid,
            ),
        }
    }
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "slid={} dlid={} key={:#x} sl={} sqp={:#x} dqp={:#x} sgid={} dgid={}",
            self.slid,
            self.dlid,
            self.key,
            self.sl.get(),
            self.source_qp,
            self.destination_qp,
            self.sgid,
            self.dgid,
        )
    }
}
