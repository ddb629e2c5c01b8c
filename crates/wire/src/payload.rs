//! The attribute of a datagram, of any kind.

use core::fmt;

use crate::attribute::{
    Attribute, AttributeId, ClassPortInfo, GmpAttribute, GuidInfo, LinearForwardingTable, MlnxExtPortInfo,
    MulticastForwardingTable, NodeDescription, NodeInfo, Notice, PKeyTable, PortCounters, PortCountersExtended,
    PortInfo, SlToVl, SmInfo, SwitchInfo, VlArbitration,
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
            Class::Other(_) => None,
        }
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
            Self::Record(record) => record.fmt(f),
        }
    }
}
