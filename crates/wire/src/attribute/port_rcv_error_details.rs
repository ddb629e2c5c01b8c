//! PortRcvErrorDetails: the causes of PortRcvErrors.

use core::fmt;

use super::bytes::{put, u16_at};
use super::{AttributeId, CounterBlock, GmpAttribute};
use crate::{DecodeError, GmpData};

/// The causes of PortRcvErrors and of PortRcvSwitchRelayErrors, in counters of 16 bits that stop at their maximum.
///
/// Source: IBA vol 1 §16.1.4.1; offsets as in rdma-core `libibmad/fields.c`.
/// ```text
///  0 reserved | 1 PortSelect | 2 CounterSelect
///  4 PortLocalPhysicalErrors  |  6 PortMalformedPktErrors | 8 PortBufferOverrunErrors
/// 10 PortDLIDMappingErrors    | 12 PortVLMappingErrors    | 14 PortLoopingErrors
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortRcvErrorDetails {
    /// The port; 255 for the sum of all ports.
    pub port_select: u8,
    /// In a Set: the counters to write, one bit each from PortLocalPhysicalErrors on.
    pub counter_select: u16,
    /// Packets with a CRC error, or marked bad by the physical layer.
    pub local_physical_errors: u16,
    /// Packets with a wrong version, length or VL.
    pub malformed_packet_errors: u16,
    /// Packets dropped because the input buffer was full.
    pub buffer_overrun_errors: u16,
    /// Packets dropped because the switch has no forwarding entry for their DLID.
    pub dlid_mapping_errors: u16,
    /// Packets dropped because the SLtoVL table gives VL15 for them.
    pub vl_mapping_errors: u16,
    /// Packets dropped because they would leave by the port of their arrival.
    pub looping_errors: u16,
}

impl PortRcvErrorDetails {
    /// Number of counters.
    pub const COUNTERS: usize = 6;

    /// Returns the counters in wire order.
    #[must_use]
    pub const fn counters(&self) -> [u16; Self::COUNTERS] {
        [
            self.local_physical_errors,
            self.malformed_packet_errors,
            self.buffer_overrun_errors,
            self.dlid_mapping_errors,
            self.vl_mapping_errors,
            self.looping_errors,
        ]
    }
}

impl GmpAttribute for PortRcvErrorDetails {
    const ID: AttributeId = AttributeId::PORT_RCV_ERROR_DETAILS;

    fn parse(data: &GmpData) -> Result<Self, DecodeError> {
        Ok(Self {
            port_select: data[1],
            counter_select: u16_at(data, 2),
            local_physical_errors: u16_at(data, 4),
            malformed_packet_errors: u16_at(data, 6),
            buffer_overrun_errors: u16_at(data, 8),
            dlid_mapping_errors: u16_at(data, 10),
            vl_mapping_errors: u16_at(data, 12),
            looping_errors: u16_at(data, 14),
        })
    }

    fn emit(&self) -> GmpData {
        let mut data = [0; 192];
        data[1] = self.port_select;
        put(&mut data, 2, self.counter_select.to_be_bytes());
        for (i, counter) in self.counters().into_iter().enumerate() {
            put(&mut data, 4 + 2 * i, counter.to_be_bytes());
        }
        data
    }
}

impl CounterBlock for PortRcvErrorDetails {
    const COUNT: usize = Self::COUNTERS;
    const BITS: u32 = 16;

    fn block(port_select: u8, counter_select: u16, values: [u32; 16]) -> Self {
        let fits = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
        Self {
            port_select,
            counter_select,
            local_physical_errors: fits(values[0]),
            malformed_packet_errors: fits(values[1]),
            buffer_overrun_errors: fits(values[2]),
            dlid_mapping_errors: fits(values[3]),
            vl_mapping_errors: fits(values[4]),
            looping_errors: fits(values[5]),
        }
    }

    fn selects(&self) -> (u8, u16) {
        (self.port_select, self.counter_select)
    }

    fn row(&self) -> [u32; 16] {
        let counters = self.counters();
        core::array::from_fn(|i| counters.get(i).copied().unwrap_or(0).into())
    }
}

impl fmt::Display for PortRcvErrorDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PortRcvErrorDetails port={} select={:#06x} physical={} malformed={} overrun={} dlid={} vl={} looping={}",
            self.port_select,
            self.counter_select,
            self.local_physical_errors,
            self.malformed_packet_errors,
            self.buffer_overrun_errors,
            self.dlid_mapping_errors,
            self.vl_mapping_errors,
            self.looping_errors,
        )
    }
}
