//! The times that IBA codes mean, in the unit of the packet simulator.

pub use selvedge_dataplane::{PS_PER_NS, Ps, ack_timeout};

/// Picoseconds per microsecond.
pub const PS_PER_US: Ps = 1_000_000;

/// Hundredths of a millisecond of each RNR NAK timer code. Source: IBA vol 1 §9.7.5.2.8, table 45.
const RNR: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072,
    4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// Returns the time to wait after an RNR NAK with this timer code, of which the lower five bits count.
#[must_use]
pub const fn rnr_timer(code: u8) -> Ps {
    RNR[(code & 31) as usize] as Ps * 10 * PS_PER_US
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_standard() {
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(14), Some(67_108_864_000));
        assert_eq!(ack_timeout(31), Some(8_796_093_022_208_000));
        assert_eq!(rnr_timer(0), 655_360_000_000, "655.36 ms");
        assert_eq!(rnr_timer(1), 10_000_000, "0.01 ms");
        assert_eq!(rnr_timer(12), 640_000_000, "0.64 ms");
        assert_eq!(rnr_timer(31), 491_520_000_000, "491.52 ms");
    }
}
