//! PortCounters: traffic and errors of a port in narrow counters that stop at their maximum.

use core::fmt;

use super::bytes::{Bits, put, u16_at, u32_at};
use super::{AttributeId, GmpAttribute};
use crate::{DecodeError, GmpData};

/// Traffic and errors of a port in narrow counters that stop at their maximum.
///
/// Source: IBA vol 1 §16.1.3.5; offsets as in rdma-core `libibmad/fields.c`, except for QP1Dropped: that library reads
/// it where VL15Dropped is.
/// ```text
///  0 reserved | 1 PortSelect | 2 CounterSelect
///  4 SymbolErrorCounter | 6 LinkErrorRecoveryCounter | 7 LinkDownedCounter
///  8 PortRcvErrors | 10 PortRcvRemotePhysicalErrors | 12 PortRcvSwitchRelayErrors | 14 PortXmitDiscards
/// 16 PortXmitConstraintErrors | 17 PortRcvConstraintErrors | 18 CounterSelect2
/// 19 LocalLinkIntegrityErrors (4), ExcessiveBufferOverrunErrors (4) | 20 QP1Dropped | 22 VL15Dropped
/// 24 PortXmitData | 28 PortRcvData | 32 PortXmitPkts | 36 PortRcvPkts | 40 PortXmitWait
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// The port; 255 for the sum of all ports.
    pub port_select: u8,
    /// In a Set: the counters to write, one bit each from SymbolErrorCounter on.
    pub counter_select: u16,
    /// In a Set: bit 0 writes PortXmitWait.
    pub counter_select2: u8,
    /// Minor link errors.
    pub symbol_errors: u16,
    /// Successful link recoveries.
    pub link_recoveries: u8,
    /// Failed link recoveries.
    pub link_downed: u8,
    /// Packets received with an error.
    pub rcv_errors: u16,
    /// Packets received that another switch had marked as bad.
    pub rcv_remote_physical_errors: u16,
    /// Packets received that the switch could not forward.
    pub rcv_switch_relay_errors: u16,
    /// Packets not sent because the port was down or congested.
    pub xmit_discards: u16,
    /// Packets not sent because of P_Key or raw filters.
    pub xmit_constraint_errors: u8,
    /// Packets dropped at reception because of P_Key or raw filters.
    pub rcv_constraint_errors: u8,
    /// Number of times that local physical errors exceeded the threshold.
    pub local_link_integrity_errors: Bits<4>,
    /// Number of times that buffer overruns lasted too long.
    pub excessive_buffer_overruns: Bits<4>,
    /// Packets for QP1 dropped because of missing resources.
    pub qp1_dropped: u16,
    /// SMPs dropped because of missing resources.
    pub vl15_dropped: u16,
    /// Data sent, in units of 4 bytes.
    pub xmit_data: u32,
    /// Data received, in units of 4 bytes.
    pub rcv_data: u32,
    /// Packets sent.
    pub xmit_packets: u32,
    /// Packets received.
    pub rcv_packets: u32,
    /// Ticks with data to send, but without credits or without a turn of the arbiter.
    pub xmit_wait: u32,
}

impl GmpAttribute for PortCounters {
    const ID: AttributeId = AttributeId::PORT_COUNTERS;

    fn parse(data: &GmpData) -> Result<Self, DecodeError> {
        Ok(Self {
            port_select: data[1],
            counter_select: u16_at(data, 2),
            symbol_errors: u16_at(data, 4),
            link_recoveries: data[6],
            link_downed: data[7],
            rcv_errors: u16_at(data, 8),
            rcv_remote_physical_errors: u16_at(data, 10),
            rcv_switch_relay_errors: u16_at(data, 12),
            xmit_discards: u16_at(data, 14),
            xmit_constraint_errors: data[16],
            rcv_constraint_errors: data[17],
            counter_select2: data[18],
            local_link_integrity_errors: Bits::low(data[19] >> 4),
            excessive_buffer_overruns: Bits::low(data[19]),
            qp1_dropped: u16_at(data, 20),
            vl15_dropped: u16_at(data, 22),
            xmit_data: u32_at(data, 24),
            rcv_data: u32_at(data, 28),
            xmit_packets: u32_at(data, 32),
            rcv_packets: u32_at(data, 36),
            xmit_wait: u32_at(data, 40),
        })
    }

    fn emit(&self) -> GmpData {
        let mut data = [0; 192];
        data[1] = self.port_select;
        put(&mut data, 2, self.counter_select.to_be_bytes());
        put(&mut data, 4, self.symbol_errors.to_be_bytes());
        data[6] = self.link_recoveries;
        data[7] = self.link_downed;
        put(&mut data, 8, self.rcv_errors.to_be_bytes());
        put(&mut data, 10, self.rcv_remote_physical_errors.to_be_bytes());
        put(&mut data, 12, self.rcv_switch_relay_errors.to_be_bytes());
        put(&mut data, 14, self.xmit_discards.to_be_bytes());
        data[16] = self.xmit_constraint_errors;
        data[17] = self.rcv_constraint_errors;
        data[18] = self.counter_select2;
        data[19] = self.local_link_integrity_errors.get() << 4 | self.excessive_buffer_overruns.get();
        put(&mut data, 20, self.qp1_dropped.to_be_bytes());
        put(&mut data, 22, self.vl15_dropped.to_be_bytes());
        put(&mut data, 24, self.xmit_data.to_be_bytes());
        put(&mut data, 28, self.rcv_data.to_be_bytes());
        put(&mut data, 32, self.xmit_packets.to_be_bytes());
        put(&mut data, 36, self.rcv_packets.to_be_bytes());
        put(&mut data, 40, self.xmit_wait.to_be_bytes());
        data
    }
}

impl fmt::Display for PortCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PortCounters port={} select={:#06x}/{:#x} xmit={}/{} rcv={}/{} wait={} symbol={} recovered={} downed={}",
            self.port_select,
            self.counter_select,
            self.counter_select2,
            self.xmit_data,
            self.xmit_packets,
            self.rcv_data,
            self.rcv_packets,
            self.xmit_wait,
            self.symbol_errors,
            self.link_recoveries,
            self.link_downed,
        )?;
        write!(
            f,
            " rcverr={} remphys={} relay={} discards={} xmitcon={} rcvcon={} integrity={} overrun={} qp1={} vl15={}",
            self.rcv_errors,
            self.rcv_remote_physical_errors,
            self.rcv_switch_relay_errors,
            self.xmit_discards,
            self.xmit_constraint_errors,
            self.rcv_constraint_errors,
            self.local_link_integrity_errors,
            self.excessive_buffer_overruns,
            self.qp1_dropped,
            self.vl15_dropped,
        )
    }
}
