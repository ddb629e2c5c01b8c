//! The messages of the ibsim protocol: control messages and data packets. Pure: no socket, no clock.
//!
//! Panic contract: `parse` checks the length once and returns an error for everything that it cannot decode; `emit`
//! cannot fail. Integers are in host byte order unless stated otherwise, because both ends always run on one machine.

use selvedge_types::{Lid, PKey};
use selvedge_wire::sa::RmppFlags;
use selvedge_wire::{Address, Class, MAD_LEN, Mad, SMP_DATA_LEN, SmpData};

/// First word of every control message.
pub const MAGIC: u32 = 0xDEAD_BEEF;
/// Length of a control message, in bytes.
pub const CONTROL_LEN: usize = 16 + CONTROL_DATA_LEN;
/// Length of the data field of a control message, in bytes.
pub const CONTROL_DATA_LEN: usize = 64;
/// Length of a data packet, in bytes.
pub const PACKET_LEN: usize = 32 + MAD_LEN;
/// Length of a node's name in [`Connect`], in bytes; the last byte is always NUL.
pub const NODE_NAME_LEN: usize = 32;
/// Largest number of P_Keys in one answer.
pub const PKEYS_MAX: usize = CONTROL_DATA_LEN / 2;
/// Packet status of a request without a response. Source: Linux ETIMEDOUT.
pub const STATUS_TIMED_OUT: u32 = 110;

const _: () = assert!(CONTROL_DATA_LEN == SMP_DATA_LEN);

/// An invalid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// SLV-PORT-0101: a message has a wrong length.
    #[error("SLV-PORT-0101: {what} has {have} bytes, want {need}")]
    Length {
        /// The kind of message.
        what: &'static str,
        /// Required length in bytes.
        need: usize,
        /// Actual length in bytes.
        have: usize,
    },
    /// SLV-PORT-0102: a control message of ibsim does not begin with the magic number of its protocol.
    #[error("SLV-PORT-0102: control message starts with {found:#010x}, want {MAGIC:#010x}")]
    Magic {
        /// The value found instead.
        found: u32,
    },
    /// SLV-PORT-0103: a control message has an unknown type.
    #[error("SLV-PORT-0103: control message of unknown type {found}")]
    Kind {
        /// The type found.
        found: u32,
    },
}

/// Type of a control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Refusal; in answers only.
    Error,
    /// Attach to a node.
    Connect,
    /// Detach.
    Disconnect,
    /// LID and state of the attached port.
    Port,
    /// Vendor, device and revision.
    Vendor,
    /// GID of the attached port.
    Gid,
    /// GUID of the attached port.
    Guid,
    /// NodeInfo of the attached node.
    NodeInfo,
    /// PortInfo of a port.
    PortInfo,
    /// Set or clear IsSM.
    SetIsSm,
    /// P_Keys of the attached port.
    PKeys,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Error,
        Self::Connect,
        Self::Disconnect,
        Self::Port,
        Self::Vendor,
        Self::Gid,
        Self::Guid,
        Self::NodeInfo,
        Self::PortInfo,
        Self::SetIsSm,
        Self::PKeys,
    ];

    /// Decodes the wire code.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// Returns the wire code.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// A control message, or its answer. An answer is the same message with other data.
///
/// ```text
///  0 magic | 4 client (slot) | 8 type | 12 length of the data in use | 16 data, 64 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Type of the message.
    pub kind: Kind,
    /// Slot of the client; meaningless in CONNECT.
    pub client: u32,
    /// Bytes of `data` in use; answers repeat it.
    pub length: u32,
    /// Data of the request or answer.
    pub data: [u8; CONTROL_DATA_LEN],
}

impl Control {
    /// Returns a message with `data`, padded with zeros; data beyond 64 bytes is cut off.
    #[must_use]
    pub fn new(kind: Kind, client: u32, data: &[u8]) -> Self {
        let used = data.len().min(CONTROL_DATA_LEN);
        let mut message = Self {
            kind,
            client,
            length: used as u32, // <= 64
            data: [0; CONTROL_DATA_LEN],
        };
        message.data[..used].copy_from_slice(&data[..used]);
        message
    }

    /// Decodes a message.
    pub fn parse(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let bytes: &[u8; CONTROL_LEN] = bytes.try_into().map_err(|_| ProtocolError::Length {
            what: "control message",
            need: CONTROL_LEN,
            have: bytes.len(),
        })?;
        let magic = u32_at(bytes, 0);
        if magic != MAGIC {
            return Err(ProtocolError::Magic { found: magic });
        }
        let code = u32_at(bytes, 8);
        let mut data = [0; CONTROL_DATA_LEN];
        data.copy_from_slice(&bytes[16..]);
        Ok(Self {
            kind: Kind::from_code(code).ok_or(ProtocolError::Kind { found: code })?,
            client: u32_at(bytes, 4),
            length: u32_at(bytes, 12),
            data,
        })
    }

    /// Encodes the message.
    #[must_use]
    pub fn emit(&self) -> [u8; CONTROL_LEN] {
        let mut bytes = [0; CONTROL_LEN];
        bytes[0..4].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.client.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.kind.code().to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.length.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.data);
        bytes
    }

    /// Returns the answer with `data`, padded with zeros.
    #[must_use]
    pub fn answer(&self, data: &[u8]) -> Self {
        Self {
            length: self.length,
            ..Self::new(self.kind, self.client, data)
        }
    }

    /// Returns the refusal of this message.
    #[must_use]
    pub const fn refusal(&self) -> Self {
        Self {
            kind: Kind::Error,
            ..*self
        }
    }

    /// Returns the value of a SET_ISSM message.
    #[must_use]
    pub fn is_sm(&self) -> bool {
        u32_at(&self.data, 0) != 0
    }
}

/// Data of CONNECT and of its answer.
///
/// ```text
///  0 id: process id of the client; in the answer its slot | 4 queue pair | 8 wants to be SM | 12 node name, 32 bytes
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// In the request: the suffix of the client's socket names. In the answer: its slot.
    pub id: u32,
    /// Queue pair for datagrams to queue pairs other than 0 and 1; libumad2sim sends 0.
    pub qp: u32,
    /// True if the client is an SM from the start (shim: environment variable `SIM_SET_ISSM`).
    pub is_sm: bool,
    /// Node to attach to, empty for the default. In the answer: the attached node. Truncated to 31 bytes.
    pub node: String,
}

impl Connect {
    /// Length of the encoded value in bytes.
    pub const LEN: usize = 12 + NODE_NAME_LEN;

    /// Decodes the value. Invalid UTF-8 is replaced.
    #[must_use]
    pub fn parse(data: &[u8; CONTROL_DATA_LEN]) -> Self {
        let name = &data[12..12 + NODE_NAME_LEN];
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        Self {
            id: u32_at(data, 0),
            qp: u32_at(data, 4),
            is_sm: u32_at(data, 8) != 0,
            node: String::from_utf8_lossy(&name[..end]).into_owned(),
        }
    }

    /// Encodes the value.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0..4].copy_from_slice(&self.id.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.qp.to_ne_bytes());
        bytes[8..12].copy_from_slice(&u32::from(self.is_sm).to_ne_bytes());
        let name = self.node.as_bytes();
        let used = name.len().min(NODE_NAME_LEN - 1);
        bytes[12..12 + used].copy_from_slice(&name[..used]);
        bytes
    }
}

/// Values for answers, read from NodeInfo and PortInfo, so that a backend need not know this protocol.
///
/// Source for the offsets: IBA vol 1 §14.2.5.3 and §14.2.5.6.
pub struct Facts<'a> {
    /// NodeInfo of the attached port.
    pub node_info: &'a SmpData,
    /// PortInfo of the attached port.
    pub port_info: &'a SmpData,
}

impl Facts<'_> {
    /// Returns the data of GET_PORT: LID (u16), state (u8).
    #[must_use]
    pub fn port(&self) -> [u8; 3] {
        let lid = u16::from_be_bytes([self.port_info[16], self.port_info[17]]).to_ne_bytes();
        [lid[0], lid[1], self.port_info[32] & 0x0F]
    }

    /// Returns the data of GET_VENDOR: vendor, device, hardware version (u32 each), padding, firmware version (u64).
    #[must_use]
    pub fn vendor(&self) -> [u8; 24] {
        let info = self.node_info;
        let vendor = u32::from_be_bytes([0, info[37], info[38], info[39]]);
        let device = u32::from(u16::from_be_bytes([info[30], info[31]]));
        let revision = u32::from_be_bytes([info[32], info[33], info[34], info[35]]);
        let mut data = [0; 24];
        data[0..4].copy_from_slice(&vendor.to_ne_bytes());
        data[4..8].copy_from_slice(&device.to_ne_bytes());
        data[8..12].copy_from_slice(&revision.to_ne_bytes());
        data[16..24].copy_from_slice(&1_u64.to_ne_bytes());
        data
    }

    /// Returns the data of GET_GUID: the port's GUID in network order.
    #[must_use]
    pub fn guid(&self) -> [u8; 8] {
        let mut guid = [0; 8];
        guid.copy_from_slice(&self.node_info[20..28]);
        guid
    }

    /// Returns the data of GET_GID: subnet prefix and GUID in network order.
    #[must_use]
    pub fn gid(&self) -> [u8; 16] {
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&self.port_info[8..16]);
        gid[8..].copy_from_slice(&self.guid());
        gid
    }

    /// Returns the data of GET_NODEINFO.
    ///
    /// libumad2sim computes the port GUID that it shows to its program: node GUID + local port (0 on switches). If the
    /// real port GUID differs, this method changes the node GUID so that the sum is right. OpenSM finds its own port by
    /// the port GUID, and reads the node GUID only from the fabric, where NodeInfo is correct.
    #[must_use]
    pub fn shim_node_info(&self) -> SmpData {
        let mut info = *self.node_info;
        let bent = u64::from_be_bytes(self.guid()).wrapping_sub(u64::from(self.port_info[28]));
        info[12..20].copy_from_slice(&bent.to_be_bytes());
        info
    }
}

/// Returns the data of GET_PKEYS: up to 32 P_Keys in network order.
#[must_use]
pub fn emit_pkeys(keys: &[PKey]) -> [u8; CONTROL_DATA_LEN] {
    let mut data = [0; CONTROL_DATA_LEN];
    for (slot, key) in data.chunks_exact_mut(2).zip(keys) {
        slot.copy_from_slice(&key.0.to_be_bytes());
    }
    data
}

/// The sender or the receiver of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// LID of the port. As the source of a client's packet, 0 means the client's own LID.
    pub lid: Lid,
    /// Queue pair of the port.
    pub qp: u32,
}

impl From<Address> for End {
    fn from(address: Address) -> Self {
        Self {
            lid: address.lid,
            qp: address.qp,
        }
    }
}

impl From<End> for Address {
    /// Converts an end to an address with service level 0, because packets of this protocol have none.
    fn from(end: End) -> Self {
        Self {
            qp: end.qp,
            ..Self::smi(end.lid)
        }
    }
}

/// Offset of the MAD.
const MAD_AT: usize = 32;

/// A MAD in transit between client and server.
///
/// ```text
///  0 destination LID | 4 source LID       each a big-endian u16, widened to a host-order u32
///  8 destination QP | 12 source QP | 16 status | 20 padding | 24 length (u64)      all network order
/// 32 the MAD, 256 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The destination.
    pub to: End,
    /// The source.
    pub from: End,
    /// 0, or [`STATUS_TIMED_OUT`] if a request is returned without a response.
    pub status: u32,
    /// The datagram.
    pub mad: Mad,
}

impl Packet {
    /// Decodes a packet. Bytes of the MAD beyond the stated length are set to zero.
    pub fn parse(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let bytes: &[u8; PACKET_LEN] = bytes.try_into().map_err(|_| ProtocolError::Length {
            what: "data packet",
            need: PACKET_LEN,
            have: bytes.len(),
        })?;
        // On the wire the LID's two bytes are in network order at the low end of a host-order word.
        let lid = |at| Lid(u16::from_be((u32_at(bytes, at) & 0xFFFF) as u16));
        let be = |at| u32::from_be(u32_at(bytes, at));
        let stated = u64::from_be_bytes(std::array::from_fn(|i| bytes[24 + i]));
        let used = usize::try_from(stated).unwrap_or(MAD_LEN).min(MAD_LEN);
        let mut mad = [0; MAD_LEN];
        mad.copy_from_slice(&bytes[MAD_AT..]);
        mad[used..].fill(0);
        Ok(Self {
            to: End { lid: lid(0), qp: be(8) },
            from: End {
                lid: lid(4),
                qp: be(12),
            },
            status: be(16),
            mad: Mad::from_bytes(mad),
        })
    }

    /// Encodes the packet.
    #[must_use]
    pub fn emit(&self) -> [u8; PACKET_LEN] {
        let mut bytes = [0; PACKET_LEN];
        emit(&mut bytes, (self.to, self.from), self.status, &self.mad);
        bytes
    }
}

/// Encodes a packet directly in the send buffer.
pub(super) fn emit(bytes: &mut [u8; PACKET_LEN], (to, from): (End, End), status: u32, mad: &Mad) {
    let lid = |lid: Lid| u32::from(lid.0.to_be()).to_ne_bytes();
    bytes[0..4].copy_from_slice(&lid(to.lid));
    bytes[4..8].copy_from_slice(&lid(from.lid));
    bytes[8..12].copy_from_slice(&to.qp.to_be_bytes());
    bytes[12..16].copy_from_slice(&from.qp.to_be_bytes());
    bytes[16..20].copy_from_slice(&status.to_be_bytes());
    bytes[20..24].fill(0);
    bytes[24..MAD_AT].copy_from_slice(&(used(mad) as u64).to_be_bytes());
    bytes[MAD_AT..].copy_from_slice(mad.as_bytes());
}

/// Returns the number of significant bytes of a MAD. On real hardware the kernel assembles RMPP transfers and reports
/// their length. libumad2sim reports this value instead, and infiniband-diags compute the number of records from it.
fn used(mad: &Mad) -> usize {
    let whole = RmppFlags::FIRST.with(RmppFlags::LAST);
    match mad.rmpp() {
        Some(rmpp) if mad.class() == Class::SubnAdm && rmpp.begins_data() && rmpp.flags.contains(whole) => {
            MAD_LEN.min(RMPP_END + rmpp.length as usize)
        }
        _ => MAD_LEN,
    }
}

/// Offset at which the RMPP header ends and the bytes that count as payload begin.
const RMPP_END: usize = 36;

/// Changes the transaction id of an encoded packet.
pub(super) fn set_transaction(bytes: &mut [u8; PACKET_LEN], transaction: u64) {
    bytes[MAD_AT + 8..MAD_AT + 16].copy_from_slice(&transaction.to_be_bytes());
}

fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|i| bytes.get(at + i).copied().unwrap_or(0)))
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
