//! SwitchInfo: table sizes and settings of a whole switch.

use core::fmt;

use selvedge_types::Lid;

use super::bytes::{Bits, put, u16_at};
use super::{Attribute, AttributeId};
use crate::{DecodeError, SmpData};

/// Table sizes and settings of a whole switch.
///
/// Source: IBA vol 1 §14.2.5.4; offsets as in rdma-core `libibmad/fields.c`.
/// ```text
///  0 LinearFDBCap       2 RandomFDBCap
///  4 MulticastFDBCap    6 LinearFDBTop
///  8 DefaultPort        9 DefaultMulticastPrimaryPort  10 DefaultMulticastNotPrimaryPort
/// 11 LifeTimeValue (5 bits), PortStateChange (1), OptimizedSLtoVLMapping (2)
/// 12 LIDsPerPort       14 PartitionEnforcementCap
/// 16 InboundEnforcementCap, OutboundEnforcementCap, FilterRawInboundCap, FilterRawOutboundCap,
///    EnhancedPort0 (1 bit each), reserved (3)
/// 17 reserved          18 MulticastFDBTop
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchInfo {
    /// Number of entries of the linear forwarding table; 0 if the switch has none.
    pub linear_cap: u16,
    /// Number of entries of the random forwarding table.
    pub random_cap: u16,
    /// Number of entries of the multicast forwarding table.
    pub mcast_cap: u16,
    /// LinearFDBTop: the highest LID that is looked up in the linear table. Packets to higher LIDs are dropped.
    pub linear_top: Lid,
    /// Port for LIDs that are not in the random table.
    pub default_port: u8,
    /// Port for multicast packets without an entry. A packet that arrived by this port is not sent back.
    pub default_mcast_primary: u8,
    /// Port for multicast packets without an entry that arrived by the primary port.
    pub default_mcast_not_primary: u8,
    /// Longest time of a packet in the switch: 4.096 µs · 2^value; above 19: unlimited.
    pub lifetime_value: Bits<5>,
    /// True if a port has changed state since this bit was cleared. In a Set, true clears it.
    pub port_state_change: bool,
    /// Supported wildcards in SLtoVLMappingTable modifiers; 0: none.
    pub optimized_sl2vl: Bits<2>,
    /// Number of LIDs per port that the random table supports.
    pub lids_per_port: u16,
    /// Number of P_Keys per port that can be enforced.
    pub enforce_cap: u16,
    /// Can check P_Keys of incoming packets.
    pub inbound_enforcement: bool,
    /// Can check P_Keys of outgoing packets.
    pub outbound_enforcement: bool,
    /// Can drop incoming raw packets.
    pub filter_raw_inbound: bool,
    /// Can drop outgoing raw packets.
    pub filter_raw_outbound: bool,
    /// Port 0 has a PortInfo like an external port's.
    pub enhanced_port0: bool,
    /// Highest multicast LID that is looked up; 0: unused. Source: IBA vol 1 §14.2.5.4 (MulticastFDBTop).
    pub mcast_top: Lid,
}

impl Attribute for SwitchInfo {
    const ID: AttributeId = AttributeId::SWITCH_INFO;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        Ok(Self {
            linear_cap: u16_at(data, 0),
            random_cap: u16_at(data, 2),
            mcast_cap: u16_at(data, 4),
            linear_top: Lid(u16_at(data, 6)),
            default_port: data[8],
            default_mcast_primary: data[9],
            default_mcast_not_primary: data[10],
            lifetime_value: Bits::low(data[11] >> 3),
            port_state_change: data[11] & 0x04 != 0,
            optimized_sl2vl: Bits::low(data[11]),
            lids_per_port: u16_at(data, 12),
            enforce_cap: u16_at(data, 14),
            inbound_enforcement: data[16] & 0x80 != 0,
            outbound_enforcement: data[16] & 0x40 != 0,
            filter_raw_inbound: data[16] & 0x20 != 0,
            filter_raw_outbound: data[16] & 0x10 != 0,
            enhanced_port0: data[16] & 0x08 != 0,
            mcast_top: Lid(u16_at(data, 18)),
        })
    }

    fn emit(&self) -> SmpData {
        let mut data = [0; 64];
        put(&mut data, 0, self.linear_cap.to_be_bytes());
        put(&mut data, 2, self.random_cap.to_be_bytes());
        put(&mut data, 4, self.mcast_cap.to_be_bytes());
        put(&mut data, 6, self.linear_top.0.to_be_bytes());
        data[8] = self.default_port;
        data[9] = self.default_mcast_primary;
        data[10] = self.default_mcast_not_primary;
        data[11] = self.lifetime_value.get() << 3 | u8::from(self.port_state_change) << 2 | self.optimized_sl2vl.get();
        put(&mut data, 12, self.lids_per_port.to_be_bytes());
        put(&mut data, 14, self.enforce_cap.to_be_bytes());
        data[16] = u8::from(self.inbound_enforcement) << 7
            | u8::from(self.outbound_enforcement) << 6
            | u8::from(self.filter_raw_inbound) << 5
            | u8::from(self.filter_raw_outbound) << 4
            | u8::from(self.enhanced_port0) << 3;
        put(&mut data, 18, self.mcast_top.0.to_be_bytes());
        data
    }
}

impl fmt::Display for SwitchInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SwitchInfo linear={}/{} random={} mcast={}/{:#x} default={},{},{} life={} psc={} optsl2vl={} \
             lids_per_port={} enforce={} in={} out={} rawin={} rawout={} enhanced0={}",
            self.linear_top,
            self.linear_cap,
            self.random_cap,
            self.mcast_cap,
            self.mcast_top.0,
            self.default_port,
            self.default_mcast_primary,
            self.default_mcast_not_primary,
            self.lifetime_value,
            u8::from(self.port_state_change),
            self.optimized_sl2vl,
            self.lids_per_port,
            self.enforce_cap,
            u8::from(self.inbound_enforcement),
            u8::from(self.outbound_enforcement),
            u8::from(self.filter_raw_inbound),
            u8::from(self.filter_raw_outbound),
            u8::from(self.enhanced_port0),
        )
    }
}
