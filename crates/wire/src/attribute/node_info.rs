//! NodeInfo: type and identity of a node, and the port that received the request.

use core::fmt;

use selvedge_types::{Guid, NodeKind};

use super::{Attribute, AttributeId};
use crate::{DecodeError, SmpData};

/// Type and identity of a node, and the port that received the request.
///
/// Source: IBA vol 1 §14.2.5.3; offsets as in rdma-core `libibmad/fields.c`.
/// ```text
///  0 base version | class version | node type | ports
///  4 system image GUID   12 node GUID   20 port GUID
/// 28 partition capacity  30 device id   32 revision
/// 36 local port          37 vendor id (24 bits)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Base version; always 1.
    pub base_version: u8,
    /// Class version; always 1.
    pub class_version: u8,
    /// Node type.
    pub kind: NodeKind,
    /// Number of external ports; 255 is refused.
    pub port_count: u8,
    /// GUID of the system to which the node belongs; 0 if there is none.
    pub system_guid: Guid,
    /// GUID of the node.
    pub node_guid: Guid,
    /// GUID of the port that received the request; on a switch that of port 0.
    pub port_guid: Guid,
    /// Number of entries of the P_Key table.
    pub partition_cap: u16,
    /// Vendor's device id.
    pub device_id: u16,
    /// Vendor's revision.
    pub revision: u32,
    /// Port by which the request arrived.
    pub local_port: u8,
    /// Vendor's OUI, 24 bits.
    pub vendor_id: u32,
}

impl Attribute for NodeInfo {
    const ID: AttributeId = AttributeId::NODE_INFO;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        let kind = NodeKind::from_code(data[2]).ok_or(DecodeError::Field {
            field: "NodeInfo.NodeType",
            want: "1 CA, 2 switch or 3 router",
            found: u64::from(data[2]),
        })?;
        if data[3] == 255 {
            return Err(DecodeError::Field {
                field: "NodeInfo.NumPorts",
                want: "0-254",
                found: 255,
            });
        }
        let u64_at = |at: usize| u64::from_be_bytes(core::array::from_fn(|i| data[at + i]));
        Ok(Self {
            base_version: data[0],
            class_version: data[1],
            kind,
            port_count: data[3],
            system_guid: Guid(u64_at(4)),
            node_guid: Guid(u64_at(12)),
            port_guid: Guid(u64_at(20)),
            partition_cap: u16::from_be_bytes([data[28], data[29]]),
            device_id: u16::from_be_bytes([data[30], data[31]]),
            revision: u32::from_be_bytes([data[32], data[33], data[34], data[35]]),
            local_port: data[36],
            vendor_id: u32::from_be_bytes([0, data[37], data[38], data[39]]),
        })
    }

    fn emit(&self) -> SmpData {
        let mut data = [0; 64];
        data[0] = self.base_version;
        data[1] = self.class_version;
        data[2] = self.kind.code();
        data[3] = self.port_count;
        data[4..12].copy_from_slice(&self.system_guid.0.to_be_bytes());
        data[12..20].copy_from_slice(&self.node_guid.0.to_be_bytes());
        data[20..28].copy_from_slice(&self.port_guid.0.to_be_bytes());
        data[28..30].copy_from_slice(&self.partition_cap.to_be_bytes());
        data[30..32].copy_from_slice(&self.device_id.to_be_bytes());
        data[32..36].copy_from_slice(&self.revision.to_be_bytes());
        data[36] = self.local_port;
        data[37..40].copy_from_slice(&self.vendor_id.to_be_bytes()[1..]);
        data
    }
}

impl fmt::Display for NodeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "NodeInfo {} ports={} node={} port={} system={} pkeys={} vendor={:#08x} device={} revision={:#x} \
             local_port={}",
            self.kind,
            self.port_count,
            self.node_guid,
            self.port_guid,
            self.system_guid,
            self.partition_cap,
            self.vendor_id,
            self.device_id,
            self.revision,
            self.local_port,
        )
    }
}
