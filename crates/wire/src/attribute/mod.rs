//! Attributes, one per file.

mod bytes;
mod cable_info;
mod capability;
mod class_port_info;
mod counter_attribute;
mod guid_info;
mod lane_counters;
mod linear_forwarding;
mod link_sets;
mod mlnx_ext_port_info;
mod multicast_forwarding;
mod node_description;
mod node_info;
mod notice;
mod pkey_table;
mod port_ber;
mod port_counters;
mod port_counters_extended;
mod port_ext_speeds_counters;
mod port_info;
mod port_rcv_error_details;
mod port_xmit_discard_details;
mod sl_to_vl;
mod sm_info;
mod switch_info;
mod trap;
mod vl_arbitration;

use crate::{DecodeError, GmpData, SmpData};

pub use bytes::Bits;
pub(crate) use bytes::Hex;
pub use cable_info::{CableInfo, CableKind};
pub use capability::{CapabilityMask, CapabilityMask2};
pub use class_port_info::{ClassAddress, ClassPortInfo};
pub use counter_attribute::{CounterAttribute, SelectedRow};
pub use guid_info::GuidInfo;
pub use lane_counters::{
    CounterBlock, CounterRow, LaneCounters, PortFlowCtl, PortOpRcv, PortRcvConCtrl, PortRcvDataSl, PortSlRcvBecn,
    PortSlRcvFecn, PortVlOpData, PortVlOpPackets, PortVlXmitTimeCong, PortVlXmitWait, PortXmitConCtrl, PortXmitDataSl,
    SwPortVlCongestion,
};
pub use linear_forwarding::LinearForwardingTable;
pub use link_sets::{ExtLinkSpeeds, ExtSpeedEnable, LinkSpeeds, LinkWidths, VlCount};
pub use mlnx_ext_port_info::MlnxExtPortInfo;
pub use multicast_forwarding::MulticastForwardingTable;
pub use node_description::NodeDescription;
pub use node_info::NodeInfo;
pub use notice::{
    NOTICE_DETAILS_LEN, Notice, NoticeSource, NoticeType, PRODUCER_CA, PRODUCER_CLASS_MANAGER, PRODUCER_ROUTER,
    PRODUCER_SWITCH,
};
pub use pkey_table::PKeyTable;
pub use port_ber::{Ber, PortBer};
pub use port_counters::PortCounters;
pub use port_counters_extended::PortCountersExtended;
pub use port_ext_speeds_counters::PortExtSpeedsCounters;
pub use port_info::{LinkDownDefault, PortInfo};
pub use port_rcv_error_details::PortRcvErrorDetails;
pub use port_xmit_discard_details::PortXmitDiscardDetails;
pub use sl_to_vl::SlToVl;
pub use sm_info::{SmControl, SmInfo, SmState};
pub use switch_info::SwitchInfo;
pub use trap::{BadKey, BadMKey, LocalChange, SwitchBadPKey, Trap};
pub use vl_arbitration::{VlArbBlock, VlArbEntry, VlArbitration};

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
    /// SubnMgt: Mellanox's ExtendedPortInfo.
    pub const MLNX_EXT_PORT_INFO: Self = Self(0xFF90);
    /// Every class: ClassPortInfo.
    pub const CLASS_PORT_INFO: Self = Self(0x0001);
    /// PerfMgt: PortCounters.
    pub const PORT_COUNTERS: Self = Self(0x0012);
    /// PerfMgt: PortCountersExtended.
    pub const PORT_COUNTERS_EXTENDED: Self = Self(0x001D);
    /// PerfMgt: PortRcvErrorDetails.
    pub const PORT_RCV_ERROR_DETAILS: Self = Self(0x0015);
    /// PerfMgt: PortXmitDiscardDetails.
    pub const PORT_XMIT_DISCARD_DETAILS: Self = Self(0x0016);
    /// PerfMgt: PortOpRcvCounters.
    pub const PORT_OP_RCV: Self = Self(0x0017);
    /// PerfMgt: PortFlowCtlCounters.
    pub const PORT_FLOW_CTL: Self = Self(0x0018);
    /// PerfMgt: PortVLOpPackets.
    pub const PORT_VL_OP_PACKETS: Self = Self(0x0019);
    /// PerfMgt: PortVLOpData.
    pub const PORT_VL_OP_DATA: Self = Self(0x001A);
    /// PerfMgt: PortVLXmitWaitCounters.
    pub const PORT_VL_XMIT_WAIT: Self = Self(0x001C);
    /// PerfMgt: PortExtendedSpeedsCounters.
    pub const PORT_EXT_SPEEDS_COUNTERS: Self = Self(0x001F);
    /// PerfMgt: SwPortVLCongestion.
    pub const SW_PORT_VL_CONGESTION: Self = Self(0x0030);
    /// PerfMgt: PortRcvConCtrl.
    pub const PORT_RCV_CON_CTRL: Self = Self(0x0031);
    /// PerfMgt: PortSLRcvFECN.
    pub const PORT_SL_RCV_FECN: Self = Self(0x0032);
    /// PerfMgt: PortSLRcvBECN.
    pub const PORT_SL_RCV_BECN: Self = Self(0x0033);
    /// PerfMgt: PortXmitConCtrl.
    pub const PORT_XMIT_CON_CTRL: Self = Self(0x0034);
    /// PerfMgt: PortVLXmitTimeCong.
    pub const PORT_VL_XMIT_TIME_CONG: Self = Self(0x0035);
    /// PerfMgt: PortXmitDataSL.
    pub const PORT_XMIT_DATA_SL: Self = Self(0x0036);
    /// PerfMgt: PortRcvDataSL.
    pub const PORT_RCV_DATA_SL: Self = Self(0x0037);

    /// Our own vendor class: PortBer.
    pub const PORT_BER: Self = Self(0x0010);
    /// Our own vendor class: CableInfo.
    pub const CABLE_INFO: Self = Self(0x0011);

    /// Decodes a wire code. Every code is an attribute of some class.
    #[must_use]
    pub const fn from_code(code: u16) -> Self {
        Self(code)
    }

    /// Returns the wire code.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }
}

/// An attribute of the subnet management class: 64 data bytes.
pub trait Attribute: Sized + core::fmt::Display {
    /// Id of the attribute.
    const ID: AttributeId;

    /// Decodes the attribute.
    fn parse(data: &SmpData) -> Result<Self, DecodeError>;

    /// Encodes the attribute.
    fn emit(&self) -> SmpData;
}

/// An attribute of performance management or of our own vendor class: up to 192 data bytes; unused ones are 0.
pub trait GmpAttribute: Sized + core::fmt::Display {
    /// Id of the attribute.
    const ID: AttributeId;

    /// Decodes the attribute.
    fn parse(data: &GmpData) -> Result<Self, DecodeError>;

    /// Encodes the attribute.
    fn emit(&self) -> GmpData;
}
