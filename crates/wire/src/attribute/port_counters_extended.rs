//! PortCountersExtended: traffic and errors of a port in 64-bit counters.

use core::fmt;

use super::bytes::{put, u16_at, u32_at, u64_at};
use super::{AttributeId, GmpAttribute};
use crate::{DecodeError, GmpData};

/// Traffic and errors of a port in 64-bit counters.
///
/// Source: IBA vol 1 §16.1.4.11; offsets as in rdma-core `libibmad/fields.c`.
/// ```text
///  0 reserved | 1 PortSelect | 2 CounterSelect | 4 CounterSelect2 (32 bits)
///  8 PortXmitData          16 PortRcvData            24 PortXmitPkts             32 PortRcvPkts
/// 40 PortUnicastXmitPkts   48 PortUnicastRcvPkts     56 PortMulticastXmitPkts    64 PortMulticastRcvPkts
/// 72 SymbolErrorCounter    80 LinkErrorRecovery      88 LinkDowned               96 PortRcvErrors
/// 104 PortRcvRemotePhysicalErrors  112 PortRcvSwitchRelayErrors  120 PortXmitDiscards
/// 128 PortXmitConstraintErrors     136 PortRcvConstraintErrors   144 LocalLinkIntegrityErrors
/// 152 ExcessiveBufferOverrunErrors 160 VL15Dropped  168 PortXmitWait  176 QP1Dropped
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCountersExtended {
    /// The port; 255 for the sum of all ports.
    pub port_select: u8,
    /// In a Set: the traffic counters to write, one bit each from PortXmitData on.
    pub counter_select: u16,
    /// In a Set: the error counters to write, one bit each from SymbolErrorCounter on.
    pub counter_select2: u32,
    /// Data sent, in units of 4 bytes.
    pub xmit_data: u64,
    /// Data received, in units of 4 bytes.
    pub rcv_data: u64,
    /// Packets sent.
    pub xmit_packets: u64,
    /// Packets received.
    pub rcv_packets: u64,
    /// Unicast packets sent.
    pub unicast_xmit_packets: u64,
    /// Unicast packets received.
    pub unicast_rcv_packets: u64,
    /// Multicast packets sent.
    pub multicast_xmit_packets: u64,
    /// Multicast packets received.
    pub multicast_rcv_packets: u64,
    /// Minor link errors.
    pub symbol_errors: u64,
    /// Successful link recoveries.
    pub link_recoveries: u64,
    /// Failed link recoveries.
    pub link_downed: u64,
    /// Packets received with an error.
    pub rcv_errors: u64,
    /// Packets received that another switch had marked as bad.
    pub rcv_remote_physical_errors: u64,
    /// Packets received that the switch could not forward.
    pub rcv_switch_relay_errors: u64,
    /// Packets not sent because the port was down or congested.
    pub xmit_discards: u64,
    /// Packets not sent because of P_Key or raw filters.
    pub xmit_constraint_errors: u64,
    /// Packets dropped at reception because of P_Key or raw filters.
    pub rcv_constraint_errors: u64,
    /// Number of times that local physical errors exceeded the threshold.
    pub local_link_integrity_errors: u64,
    /// Number of times that buffer overruns lasted too long.
    pub excessive_buffer_overruns: u64,
    /// SMPs dropped because of missing resources.
    pub vl15_dropped: u64,
    /// Ticks with data to send, but without credits or without a turn of the arbiter.
    pub xmit_wait: u64,
    /// Packets for QP1 dropped because of missing resources.
    pub qp1_dropped: u64,
}

impl PortCountersExtended {
    /// Returns the counters in wire order, from byte 8 on.
    #[must_use]
    pub const fn counters(&self) -> [u64; 22] {
        [
            self.xmit_data,
            self.rcv_data,
            self.xmit_packets,
            self.rcv_packets,
            self.unicast_xmit_packets,
            self.unicast_rcv_packets,
            self.multicast_xmit_packets,
            self.multicast_rcv_packets,
            self.symbol_errors,
            self.link_recoveries,
            self.link_downed,
            self.rcv_errors,
            self.rcv_remote_physical_errors,
            self.rcv_switch_relay_errors,
            self.xmit_discards,
            self.xmit_constraint_errors,
            self.rcv_constraint_errors,
            self.local_link_integrity_errors,
            self.excessive_buffer_overruns,
            self.vl15_dropped,
            self.xmit_wait,
            self.qp1_dropped,
        ]
    }
}

impl GmpAttribute for PortCountersExtended {
    const ID: AttributeId = AttributeId::PORT_COUNTERS_EXTENDED;

    fn parse(data: &GmpData) -> Result<Self, DecodeError> {
        let counter = |index: usize| u64_at(data, 8 + 8 * index);
        Ok(Self {
            port_select: data[1],
            counter_select: u16_at(data, 2),
            counter_select2: u32_at(data, 4),
            xmit_data: counter(0),
            rcv_data: counter(1),
            xmit_packets: counter(2),
            rcv_packets: counter(3),
            unicast_xmit_packets: counter(4),
            unicast_rcv_packets: counter(5),
            multicast_xmit_packets: counter(6),
            multicast_rcv_packets: counter(7),
            symbol_errors: counter(8),
            link_recoveries: counter(9),
            link_downed: counter(10),
            rcv_errors: counter(11),
            rcv_remote_physical_errors: counter(12),
            rcv_switch_relay_errors: counter(13),
            xmit_discards: counter(14),
            xmit_constraint_errors: counter(15),
            rcv_constraint_errors: counter(16),
            local_link_integrity_errors: counter(17),
            excessive_buffer_overruns: counter(18),
            vl15_dropped: counter(19),
            xmit_wait: counter(20),
            qp1_dropped: counter(21),
        })
    }

    fn emit(&self) -> GmpData {
        let mut data = [0; 192];
        data[1] = self.port_select;
        put(&mut data, 2, self.counter_select.to_be_bytes());
        put(&mut data, 4, self.counter_select2.to_be_bytes());
        for (index, counter) in self.counters().into_iter().enumerate() {
            put(&mut data, 8 + 8 * index, counter.to_be_bytes());
        }
        data
    }
}

impl fmt::Display for PortCountersExtended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PortCountersExtended port={} select={:#06x}/{:#x} xmit={}/{} rcv={}/{} unicast={}/{} \
             multicast={}/{} wait={}",
            self.port_select,
            self.counter_select,
            self.counter_select2,
            self.xmit_data,
            self.xmit_packets,
            self.rcv_data,
            self.rcv_packets,
            self.unicast_xmit_packets,
            self.unicast_rcv_packets,
            self.multicast_xmit_packets,
            self.multicast_rcv_packets,
            self.xmit_wait,
        )?;
        write!(
            f,
            " symbol={} recovered={} downed={} rcverr={} remphys={} relay={} discards={} xmitcon={} rcvcon={}",
            self.symbol_errors,
            self.link_recoveries,
            self.link_downed,
            self.rcv_errors,
            self.rcv_remote_physical_errors,
            self.rcv_switch_relay_errors,
            self.xmit_discards,
            self.xmit_constraint_errors,
            self.rcv_constraint_errors,
        )?;
        write!(
            f,
            " integrity={} overrun={} qp1={} vl15={}",
            self.local_link_integrity_errors, self.excessive_buffer_overruns, self.qp1_dropped, self.vl15_dropped,
        )
    }
}
