//! Attributes: one file each.

mod node_info;

use crate::{DecodeError, SmpData};

pub use node_info::NodeInfo;

/// Attribute of a MAD; the meaning of a code depends on the class. Source: IBA vol 1 §14.2.5, §16.1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributeId(u16);

impl AttributeId {
    /// SubnMgt and every class: Notice.
    pub const NOTICE: Self = Self(0x0002);
    /// SubnMgt: NodeDescription.
    pub const NODE_DESCRIPTION: Self = Self(0x0010);
    /// SubnMgt: NodeInfo.
    pub const NODE_INFO: Self = Self(0x0011);
    /// SubnMgt: SwitchInfo.
    pub const SWITCH_INFO: Self = Self(0x0012);
    /// SubnMgt: GUIDInfo.
    pub const GUID_INFO: Self = Self(0x0014);
    /// SubnMgt: PortInfo.
    pub const PORT_INFO: Self = Self(0x0015);
    /// SubnMgt: P_KeyTable.
    pub const PKEY_TABLE: Self = Self(0x0016);
    /// SubnMgt: SLtoVLMappingTable.
    pub const SL_TO_VL: Self = Self(0x0017);
    /// SubnMgt: VLArbitrationTable.
    pub const VL_ARBITRATION: Self = Self(0x0018);
    /// SubnMgt: LinearForwardingTable.
    pub const LINEAR_FORWARDING: Self = Self(0x0019);
    /// SubnMgt: MulticastForwardingTable.
    pub const MULTICAST_FORWARDING: Self = Self(0x001B);
    /// SubnMgt: SMInfo.
    pub const SM_INFO: Self = Self(0x0020);
    /// Every class: ClassPortInfo.
    pub const CLASS_PORT_INFO: Self = Self(0x0001);
    /// PerfMgt: PortCounters.
    pub const PORT_COUNTERS: Self = Self(0x0012);
    /// PerfMgt: PortCountersExtended.
    pub const PORT_COUNTERS_EXTENDED: Self = Self(0x001D);

    /// From the wire; every code is an attribute of some class.
    #[must_use]
    pub const fn from_code(code: u16) -> Self {
        Self(code)
    }

    /// To the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }
}

/// An attribute of the subnet management class: 64 bytes with a meaning.
pub trait Attribute: Sized + core::fmt::Display {
    /// Its id.
    const ID: AttributeId;

    /// Reads it.
    fn parse(data: &SmpData) -> Result<Self, DecodeError>;

    /// Writes it.
    fn emit(&self) -> SmpData;
}
