//! How much a link carries, in packets of one size.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::WaitTick;
use selvedge_types::Rate;

/// The size of all packets of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    payload: u16,
}

impl Packet {
    /// Local route header, base transport header, invariant CRC. Source: IBA vol 1 §5.2.
    const COUNTED_HEADERS: u64 = 8 + 12 + 4;
    /// Variant CRC, which PortXmitData does not count. Source: IBA vol 1 §16.1.3.5.
    const VARIANT_CRC: u64 = 2;

    /// Returns a packet with a payload of `payload` bytes, rounded up to a multiple of four.
    pub const fn new(payload: u16) -> Self {
        Self { payload }
    }

    /// Returns its length as PortXmitData counts it, in words of four bytes.
    pub const fn words(self) -> u64 {
        ((self.payload as u64).next_multiple_of(4) + Self::COUNTED_HEADERS) / 4
    }

    const fn wire_bytes(self) -> u64 {
        4 * self.words() + Self::VARIANT_CRC
    }

    /// Returns the packets that a link carries in a million seconds.
    pub fn capacity(self, rate: Rate) -> u64 {
        // XDR, 12 lanes: 3 · 10^17 bytes in a million seconds, so nothing overflows.
        rate.data_bytes_per_s() * 1_000_000 / self.wire_bytes()
    }

    /// Returns the ticks of PortXmitWait in the time of `packets` packets. A tick is the time of `tick_bytes` on the
    /// link.
    pub fn ticks(self, packets: u64, tick_bytes: u64) -> u64 {
        let bytes = u128::from(packets) * 4 * u128::from(self.words());
        u64::try_from(bytes / u128::from(tick_bytes.max(1))).unwrap_or(u64::MAX)
    }
}

/// Returns the ticks of PortXmitWait of a port in a time.
pub(crate) fn wait_ticks(chassis: &Chassis, port: PortIdx, ns: u64) -> u64 {
    let bytes = u128::from(chassis.port(port).rate.data_bytes_per_s()) * u128::from(ns) / 1_000_000_000;
    u64::try_from(bytes / u128::from(tick_bytes(chassis, port).max(1))).unwrap_or(u64::MAX)
}

/// Returns how many bytes a port could send within a tick of PortXmitWait: the standard leaves its length to the
/// device.
pub(super) fn tick_bytes(chassis: &Chassis, port: PortIdx) -> u64 {
    let node = chassis.fabric().node(chassis.wire(port).node());
    let lanes = chassis.port(port).rate.width.lanes();
    WaitTick::of_node(node).port_bytes(lanes).unwrap_or(4)
}

#[cfg(test)]
mod tests {
    use selvedge_types::{LinkSpeed, LinkWidth};

    use super::*;

    #[test]
    fn packets_of_a_link() {
        let packet = Packet::new(2_048);
        assert_eq!((packet.words(), packet.wire_bytes()), (518, 2_074));
        assert_eq!(Packet::new(1).words(), 7);
        let edr = Rate {
            width: LinkWidth::X4,
            speed: LinkSpeed::Edr,
        };
        assert_eq!(
            (packet.ticks(10, 4), packet.ticks(10, 8), packet.ticks(u64::MAX, 0)),
            (5_180, 2_590, u64::MAX)
        );
        // 12.5 GB/s.
        assert_eq!(packet.capacity(edr), 12_500_000_000_000_000 / 2_074);
        let widest = Rate {
            width: LinkWidth::X12,
            speed: LinkSpeed::Xdr,
        };
        assert!(Packet::new(0).capacity(widest) > Packet::new(4_096).capacity(widest));
    }
}
