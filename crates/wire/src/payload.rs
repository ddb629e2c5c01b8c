//! The attribute of a datagram, of any kind.

use core::fmt;

use crate::attribute::{
    Attribute, AttributeId, CableInfo, ClassPortInfo, GmpAttribute, GuidInfo, LinearForwardingTable, MlnxExtPortInfo,
    MulticastForwardingTable, NodeDescription, NodeInfo, Notice, PKeyTable, PortBer, PortCounters,
    PortCountersExtended, PortExtSpeedsCounters, PortFlowCtl, PortInfo, PortOpRcv, PortRcvConCtrl, PortRcvDataSl,
    PortRcvErrorDetails, PortSlRcvBecn, PortSlRcvFecn, PortVlOpData, PortVlOpPackets, PortVlXmitTimeCong,
    PortVlXmitWait, PortXmitConCtrl, PortXmitDataSl, PortXmitDiscardDetails, SlToVl, SmInfo, SwPortVlCongestion,
    SwitchInfo, VlArbitration,
};
use crate::sa::Record;
use crate::{Class, DecodeError, Mad};

/// The attribute of a datagram, for code that handles all attributes in the same way: printing, decoding, recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Payload {
    /// SubnMgt: Notice.
    Notice(Notice),
    /// SubnMgt: NodeDescription.
    NodeDescription(NodeDescription),
    /// SubnMgt: NodeInfo.
    NodeInfo(NodeInfo),
    /// SubnMgt: SwitchInfo.
    SwitchInfo(SwitchInfo),
    /// SubnMgt: GUIDInfo.
    GuidInfo(GuidInfo),
    /// SubnMgt: PortInfo.
    PortInfo(PortInfo),
    /// SubnMgt: P_KeyTable.
    PKeyTable(PKeyTable),
    /// SubnMgt: SLtoVLMappingTable.
    SlToVl(SlToVl),
    /// SubnMgt: VLArbitrationTable.
    VlArbitration(VlArbitration),
    /// SubnMgt: LinearForwardingTable.
    LinearForwarding(LinearForwardingTable),
    /// SubnMgt: MulticastForwardingTable.
    MulticastForwarding(MulticastForwardingTable),
    /// SubnMgt: SMInfo.
    SmInfo(SmInfo),
    /// SubnMgt: Mellanox's ExtendedPortInfo.
    MlnxExtPortInfo(MlnxExtPortInfo),
    /// PerfMgt: ClassPortInfo.
    ClassPortInfo(ClassPortInfo),
    /// PerfMgt: PortCounters.
    PortCounters(PortCounters),
    /// PerfMgt: PortCountersExtended.
    PortCountersExtended(PortCountersExtended),
    /// PerfMgt: PortRcvErrorDetails.
    PortRcvErrorDetails(PortRcvErrorDetails),
    /// PerfMgt: PortXmitDiscardDetails.
    PortXmitDiscardDetails(PortXmitDiscardDetails),
    /// PerfMgt: PortOpRcvCounters.
    PortOpRcv(PortOpRcv),
    /// PerfMgt: PortFlowCtlCounters.
    PortFlowCtl(PortFlowCtl),
    /// PerfMgt: PortExtendedSpeedsCounters.
    PortExtSpeedsCounters(PortExtSpeedsCounters),
    /// PerfMgt: PortVLOpPackets.
    PortVlOpPackets(PortVlOpPackets),
    /// PerfMgt: PortVLOpData.
    PortVlOpData(PortVlOpData),
    /// PerfMgt: PortVLXmitWaitCounters.
    PortVlXmitWait(PortVlXmitWait),
    /// PerfMgt: SwPortVLCongestion.
    SwPortVlCongestion(SwPortVlCongestion),
    /// PerfMgt: PortRcvConCtrl.
    PortRcvConCtrl(PortRcvConCtrl),
    /// PerfMgt: PortSLRcvFECN.
    PortSlRcvFecn(PortSlRcvFecn),
    /// PerfMgt: PortSLRcvBECN.
    PortSlRcvBecn(PortSlRcvBecn),
    /// PerfMgt: PortXmitConCtrl.
    PortXmitConCtrl(PortXmitConCtrl),
    /// PerfMgt: PortVLXmitTimeCong.
    PortVlXmitTimeCong(PortVlXmitTimeCong),
    /// PerfMgt: PortXmitDataSL.
    PortXmitDataSl(PortXmitDataSl),
    /// PerfMgt: PortRcvDataSL.
    PortRcvDataSl(PortRcvDataSl),
    /// Our own vendor class: PortBer.
    PortBer(PortBer),
    /// Our own vendor class: CableInfo.
    CableInfo(CableInfo),
    /// SubnAdm: the first record of any kind.
    Record(Record),
}

impl Payload {
    /// Decodes the attribute of `mad`. `None` for classes and attributes without a type in this crate.
    pub fn of(mad: &Mad) -> Option<Result<Self, DecodeError>> {
        match mad.class() {
            Class::SubnLid | Class::SubnDirected => Self::of_smp(mad),
            Class::PerfMgt => Self::of_gmp(mad),
            Class::SubnAdm => Record::of(mad).map(|record| Ok(Self::Record(record))),
            Class::Other(_) if mad.is_vendor() => Self::of_vendor(mad),
            Class::Other(_) => None,
        }
    }

    fn of_vendor(mad: &Mad) -> Option<Result<Self, DecodeError>> {
        let data = mad.gmp_data();
        Some(match mad.attribute() {
            AttributeId::PORT_BER => PortBer::parse(data).map(Self::PortBer),
            AttributeId::CABLE_INFO => CableInfo::parse(data).map(Self::CableInfo),
            _ => return None,
        })
    }

    fn of_smp(mad: &Mad) -> Option<Result<Self, DecodeError>> {
        let data = mad.smp_data();
        Some(match mad.attribute() {
            AttributeId::NOTICE => Notice::parse(data).map(Self::Notice),
            AttributeId::NODE_DESCRIPTION => NodeDescription::parse(data).map(Self::NodeDescription),
            AttributeId::NODE_INFO => NodeInfo::parse(data).map(Self::NodeInfo),
            AttributeId::SWITCH_INFO => SwitchInfo::parse(data).map(Self::SwitchInfo),
            AttributeId::GUID_INFO => GuidInfo::parse(data).map(Self::GuidInfo),
            AttributeId::PORT_INFO => PortInfo::parse(data).map(Self::PortInfo),
            AttributeId::PKEY_TABLE => PKeyTable::parse(data).map(Self::PKeyTable),
            AttributeId::SL_TO_VL => SlToVl::parse(data).map(Self::SlToVl),
            AttributeId::VL_ARBITRATION => VlArbitration::parse(data).map(Self::VlArbitration),
            AttributeId::LINEAR_FORWARDING => LinearForwardingTable::parse(data).map(Self::LinearForwarding),
            AttributeId::MULTICAST_FORWARDING => MulticastForwardingTable::parse(data).map(Self::MulticastForwarding),
            AttributeId::SM_INFO => SmInfo::parse(data).map(Self::SmInfo),
            AttributeId::MLNX_EXT_PORT_INFO => MlnxExtPortInfo::parse(data).map(Self::MlnxExtPortInfo),
            _ => return None,
        })
    }

    fn of_gmp(mad: &Mad) -> Option<Result<Self, DecodeError>> {
        let data = mad.gmp_data();
        Some(match mad.attribute() {
            AttributeId::CLASS_PORT_INFO => ClassPortInfo::parse(data).map(Self::ClassPortInfo),
            AttributeId::PORT_COUNTERS => PortCounters::parse(data).map(Self::PortCounters),
            AttributeId::PORT_COUNTERS_EXTENDED => PortCountersExtended::parse(data).map(Self::PortCountersExtended),
            AttributeId::PORT_RCV_ERROR_DETAILS => PortRcvErrorDetails::parse(data).map(Self::PortRcvErrorDetails),
            AttributeId::PORT_XMIT_DISCARD_DETAILS => {
                PortXmitDiscardDetails::parse(data).map(Self::PortXmitDiscardDetails)
            }
            AttributeId::PORT_OP_RCV => PortOpRcv::parse(data).map(Self::PortOpRcv),
            AttributeId::PORT_FLOW_CTL => PortFlowCtl::parse(data).map(Self::PortFlowCtl),
            AttributeId::PORT_EXT_SPEEDS_COUNTERS => {
                PortExtSpeedsCounters::parse(data).map(Self::PortExtSpeedsCounters)
            }
            AttributeId::PORT_VL_OP_PACKETS => PortVlOpPackets::parse(data).map(Self::PortVlOpPackets),
            AttributeId::PORT_VL_OP_DATA => PortVlOpData::parse(data).map(Self::PortVlOpData),
            AttributeId::PORT_VL_XMIT_WAIT => PortVlXmitWait::parse(data).map(Self::PortVlXmitWait),
            AttributeId::SW_PORT_VL_CONGESTION => SwPortVlCongestion::parse(data).map(Self::SwPortVlCongestion),
            AttributeId::PORT_RCV_CON_CTRL => PortRcvConCtrl::parse(data).map(Self::PortRcvConCtrl),
            AttributeId::PORT_SL_RCV_FECN => PortSlRcvFecn::parse(data).map(Self::PortSlRcvFecn),
            AttributeId::PORT_SL_RCV_BECN => PortSlRcvBecn::parse(data).map(Self::PortSlRcvBecn),
            AttributeId::PORT_XMIT_CON_CTRL => PortXmitConCtrl::parse(data).map(Self::PortXmitConCtrl),
            AttributeId::PORT_VL_XMIT_TIME_CONG => PortVlXmitTimeCong::parse(data).map(Self::PortVlXmitTimeCong),
            AttributeId::PORT_XMIT_DATA_SL => PortXmitDataSl::parse(data).map(Self::PortXmitDataSl),
            AttributeId::PORT_RCV_DATA_SL => PortRcvDataSl::parse(data).map(Self::PortRcvDataSl),
            _ => return None,
        })
    }

    /// Writes the attribute data into `mad`; header and attribute id stay unchanged.
    pub fn write_to(&self, mad: &mut Mad) {
        match self {
            Self::Notice(attribute) => mad.write(attribute),
            Self::NodeDescription(attribute) => mad.write(attribute),
            Self::NodeInfo(attribute) => mad.write(attribute),
            Self::SwitchInfo(attribute) => mad.write(attribute),
            Self::GuidInfo(attribute) => mad.write(attribute),
            Self::PortInfo(attribute) => mad.write(attribute),
            Self::PKeyTable(attribute) => mad.write(attribute),
            Self::SlToVl(attribute) => mad.write(attribute),
            Self::VlArbitration(attribute) => mad.write(attribute),
            Self::LinearForwarding(attribute) => mad.write(attribute),
            Self::MulticastForwarding(attribute) => mad.write(attribute),
            Self::SmInfo(attribute) => mad.write(attribute),
            Self::MlnxExtPortInfo(attribute) => mad.write(attribute),
            Self::ClassPortInfo(attribute) => mad.write_gmp(attribute),
            Self::PortCounters(attribute) => mad.write_gmp(attribute),
            Self::PortCountersExtended(attribute) => mad.write_gmp(attribute),
            Self::PortRcvErrorDetails(attribute) => mad.write_gmp(attribute),
            Self::PortXmitDiscardDetails(attribute) => mad.write_gmp(attribute),
            Self::PortOpRcv(attribute) => mad.write_gmp(attribute),
            Self::PortFlowCtl(attribute) => mad.write_gmp(attribute),
            Self::PortExtSpeedsCounters(attribute) => mad.write_gmp(attribute),
            Self::PortVlOpPackets(attribute) => mad.write_gmp(attribute),
            Self::PortVlOpData(attribute) => mad.write_gmp(attribute),
            Self::PortVlXmitWait(attribute) => mad.write_gmp(attribute),
            Self::SwPortVlCongestion(attribute) => mad.write_gmp(attribute),
            Self::PortRcvConCtrl(attribute) => mad.write_gmp(attribute),
            Self::PortSlRcvFecn(attribute) => mad.write_gmp(attribute),
            Self::PortSlRcvBecn(attribute) => mad.write_gmp(attribute),
            Self::PortXmitConCtrl(attribute) => mad.write_gmp(attribute),
            Self::PortVlXmitTimeCong(attribute) => mad.write_gmp(attribute),
            Self::PortXmitDataSl(attribute) => mad.write_gmp(attribute),
            Self::PortRcvDataSl(attribute) => mad.write_gmp(attribute),
            Self::PortBer(attribute) => mad.write_gmp(attribute),
            Self::CableInfo(attribute) => mad.write_gmp(attribute),
            Self::Record(record) => *mad.sa_data_mut() = *record.data(),
        }
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Notice(attribute) => attribute.fmt(f),
            Self::NodeDescription(attribute) => attribute.fmt(f),
            Self::NodeInfo(attribute) => attribute.fmt(f),
            Self::SwitchInfo(attribute) => attribute.fmt(f),
            Self::GuidInfo(attribute) => attribute.fmt(f),
            Self::PortInfo(attribute) => attribute.fmt(f),
            Self::PKeyTable(attribute) => attribute.fmt(f),
            Self::SlToVl(attribute) => attribute.fmt(f),
            Self::VlArbitration(attribute) => attribute.fmt(f),
            Self::LinearForwarding(attribute) => attribute.fmt(f),
            Self::MulticastForwarding(attribute) => attribute.fmt(f),
            Self::SmInfo(attribute) => attribute.fmt(f),
            Self::MlnxExtPortInfo(attribute) => attribute.fmt(f),
            Self::ClassPortInfo(attribute) => attribute.fmt(f),
            Self::PortCounters(attribute) => attribute.fmt(f),
            Self::PortCountersExtended(attribute) => attribute.fmt(f),
            Self::PortRcvErrorDetails(attribute) => attribute.fmt(f),
            Self::PortXmitDiscardDetails(attribute) => attribute.fmt(f),
            Self::PortOpRcv(attribute) => attribute.fmt(f),
            Self::PortFlowCtl(attribute) => attribute.fmt(f),
            Self::PortExtSpeedsCounters(attribute) => attribute.fmt(f),
            Self::PortVlOpPackets(attribute) => attribute.fmt(f),
            Self::PortVlOpData(attribute) => attribute.fmt(f),
            Self::PortVlXmitWait(attribute) => attribute.fmt(f),
            Self::SwPortVlCongestion(attribute) => attribute.fmt(f),
            Self::PortRcvConCtrl(attribute) => attribute.fmt(f),
            Self::PortSlRcvFecn(attribute) => attribute.fmt(f),
            Self::PortSlRcvBecn(attribute) => attribute.fmt(f),
            Self::PortXmitConCtrl(attribute) => attribute.fmt(f),
            Self::PortVlXmitTimeCong(attribute) => attribute.fmt(f),
            Self::PortXmitDataSl(attribute) => attribute.fmt(f),
            Self::PortRcvDataSl(attribute) => attribute.fmt(f),
            Self::PortBer(attribute) => attribute.fmt(f),
            Self::CableInfo(attribute) => attribute.fmt(f),
            Self::Record(record) => record.fmt(f),
        }
    }
}
