//! The times that IBA codes mean, in the unit of the packet simulator.

use selvedge_dataplane::{LinkRate, Speed};
pub use selvedge_dataplane::{PS_PER_NS, Ps, ack_timeout};
use selvedge_types::LinkWidth;

/// Picoseconds per microsecond.
pub const PS_PER_US: Ps = 1_000_000;

/// Hundredths of a millisecond of each RNR NAK timer code. Source: IBA vol 1 §9.7.5.2.8, table 45.
const RNR: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072,
    4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// Returns the time that this number of bytes takes at a static rate, which is an IBA code; 0 for code 0, the rate of
/// the port, and for codes that are no rate. Source: IBA vol 1 §9.11.1; codes of `ib_rate` in Linux 6.8.
#[must_use]
pub const fn rate_time(code: u8, bytes: u32) -> Ps {
    use LinkWidth::{X1, X2, X4, X8, X12};
    use Speed::{Ddr, Edr, Fdr, Hdr, Ndr, Qdr, Sdr, Xdr};
    let (width, speed) = match code {
        2 => (X1, Sdr),
        3 => (X4, Sdr),
        4 => (X12, Sdr),
        5 => (X1, Ddr),
        6 => (X4, Ddr),
        7 => (X4, Qdr),
        8 => (X12, Ddr),
        9 => (X8, Qdr),
        10 => (X12, Qdr),
        11 => (X1, Fdr),
        12 => (X4, Fdr),
        13 => (X8, Fdr),
        14 => (X12, Fdr),
        15 => (X1, Edr),
        16 => (X4, Edr),
        17 => (X4, Hdr),
        18 => (X12, Edr),
        19 => (X2, Fdr),
        20 => (X1, Hdr),
        21 => (X4, Ndr),
        22 => (X12, Hdr),
        23 => (X4, Xdr),
        24 => (X12, Ndr),
        _ => return 0,
    };
    LinkRate { width, speed }.byte_time().of(bytes)
}

/// Returns the time to wait after an RNR NAK with this timer code, of which the lower five bits count.
#[must_use]
pub const fn rnr_timer(code: u8) -> Ps {
    RNR[(code & 31) as usize] as Ps * 10 * PS_PER_US
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_rates_are_those_of_links() {
        assert_eq!([0, 1, 25].map(|code| rate_time(code, 2_048)), [0; 3]);
        assert_eq!(rate_time(2, 1_000), 4_000_000, "1x SDR, 2 Gbit/s of data");
        assert_eq!(rate_time(17, 2_074), 82_960, "200 Gbit/s");
        let per_byte: Vec<Ps> = [2, 5, 3, 6, 7, 16, 17, 21, 23]
            .map(|code| rate_time(code, 1_000))
            .to_vec();
        assert!(per_byte.is_sorted_by(|slow, fast| slow > fast), "{per_byte:?}");
    }

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
