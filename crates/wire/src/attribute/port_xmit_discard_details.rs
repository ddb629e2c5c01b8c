//! PortXmitDiscardDetails: the causes of PortXmitDiscards.

use core::fmt;

use super::bytes::{put, u16_at};
use super::{AttributeId, CounterBlock, GmpAttribute};
use crate::{DecodeError, GmpData};

/// The causes of PortXmitDiscards, in counters of 16 bits that stop at their maximum.
///
/// Source: IBA vol 1 §16.1.4.2; offsets as in rdma-core `libibmad/fields.c`.
/// ```text
///  0 reserved | 1 PortSelect | 2 CounterSelect
///  4 PortInactiveDiscards        | 6 PortNeighborMTUDiscards
///  8 PortSwLifetimeLimitDiscards | 10 PortSwHOQLifetimeLimitDiscards
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortXmitDiscardDetails {
    /// The port; 255 for the sum of all ports.
    pub port_select: u8,
    /// In a Set: the counters to write, one bit each from PortInactiveDiscards on.
    pub counter_select: u16,
    /// Packets discarded because the port was not ACTIVE.
    pub inactive_discards: u16,
    /// Packets discarded because they were longer than NeighborMTU.
    pub neighbor_mtu_discards: u16,
    /// Packets discarded because they reached the switch's lifetime limit.
    pub lifetime_discards: u16,
    /// Packets discarded because they reached the HOQ limit.
    pub hoq_lifetime_discards: u16,
}

impl PortXmitDiscardDetails {
    /// Number of counters.
    pub const COUNTERS: usize = 4;

    /// Returns the counters in wire order.
    #[must_use]
    pub const fn counters(&self) -> [u16; Self::COUNTERS] {
        [
            self.inactive_discards,
            self.neighbor_mtu_discards,
            self.lifetime_discards,
            self.hoq_lifetime_discards,
        ]
    }
}

impl GmpAttribute for PortXmitDiscardDetails {
    const ID: AttributeId = AttributeId::PORT_XMIT_DISCARD_DETAILS;

    fn parse(data: &GmpData) -> Result<Self, DecodeError> {
        Ok(Self {
            port_select: data[1],
            counter_select: u16_at(data, 2),
            inactive_discards: u16_at(data, 4),
            neighbor_mtu_discards: u16_at(data, 6),
            lifetime_discards: u16_at(data, 8),
            hoq_lifetime_discards: u16_at(data, 10),
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

impl CounterBlock for PortXmitDiscardDetails {
    const COUNT: usize = Self::COUNTERS;
    const BITS: u32 = 16;

    fn block(port_select: u8, counter_select: u16, values: [u32; 16]) -> Self {
        let fits = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
        Self {
            port_select,
            counter_select,
            inactive_discards: fits(values[0]),
            neighbor_mtu_discards: fits(values[1]),
            lifetime_discards: fits(values[2]),
            hoq_lifetime_discards: fits(values[3]),
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

impl fmt::Display for PortXmitDiscardDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PortXmitDiscardDetails port={} select={:#06x} inactive={} mtu={} lifetime={} hoq={}",
            self.port_select,
            self.counter_select,
            self.inactive_discards,
            self.neighbor_mtu_discards,
            self.lifetime_discards,
            self.hoq_lifetime_discards,
        )
    }
}
