//! Simulated time, rates, and sizes of packets.

use core::fmt;
use core::str::FromStr;

use selvedge_types::{LinkSpeed, LinkWidth, Rate};
use serde::{Deserialize, Serialize};

/// Time in picoseconds since the start of a simulation; 213 days fit.
pub type Ps = u64;

/// Picoseconds per nanosecond.
pub const PS_PER_NS: Ps = 1_000;
/// Later than any time.
pub const NEVER: Ps = u64::MAX;

/// Bytes per credit block of flow control. Source: IBA vol 1 §7.9.4.
pub const BLOCK_BYTES: u32 = 64;
/// Most outstanding blocks on a lane: half of the range of the 12-bit counter FCCL. Source: IBA vol 1 §7.9.4.4.
pub const BLOCKS_MAX: u32 = 2_048;

/// Bytes of headers. Source: IBA vol 1 §5.2.
pub mod header {
    /// Local route header.
    pub const LRH: u16 = 8;
    /// Global route header.
    pub const GRH: u16 = 40;
    /// Base transport header.
    pub const BTH: u16 = 12;
    /// ACK extended transport header.
    pub const AETH: u16 = 4;
    /// RDMA extended transport header.
    pub const RETH: u16 = 16;
    /// Datagram extended transport header.
    pub const DETH: u16 = 8;
    /// Immediate data.
    pub const IMMEDIATE: u16 = 4;
    /// Invariant CRC.
    pub const ICRC: u16 = 4;
    /// Variant CRC.
    pub const VCRC: u16 = 2;
    /// Overhead of every packet of a connection within a subnet.
    pub const LOCAL: u16 = LRH + BTH + ICRC + VCRC;
    /// Length of an acknowledgement, which has no payload.
    pub const ACK: u16 = LOCAL + AETH;

    /// Returns the bytes that pad a payload to a multiple of four. Source: IBA vol 1 §9.2 (PadCnt).
    #[must_use]
    #[inline]
    pub const fn pad(payload: u32) -> u32 {
        payload.wrapping_neg() & 3
    }
}

/// Returns the number of blocks of a packet with this length in bytes.
#[must_use]
#[inline]
pub const fn blocks(wire_bytes: u32) -> u32 {
    wire_bytes.div_ceil(BLOCK_BYTES)
}

/// Signalling speeds of the simulator: all known speeds of [`LinkSpeed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speed {
    /// 2.5 Gbit/s a lane, 8b/10b.
    Sdr,
    /// 5 Gbit/s a lane, 8b/10b.
    Ddr,
    /// 10 Gbit/s a lane, 8b/10b.
    Qdr,
    /// 10.3125 Gbit/s a lane, 64b/66b.
    Fdr10,
    /// 14.0625 Gbit/s a lane, 64b/66b.
    Fdr,
    /// 25.78125 Gbit/s a lane, 64b/66b.
    Edr,
    /// 53.125 Gbit/s a lane, 256b/257b inside Reed-Solomon (544,514).
    Hdr,
    /// 106.25 Gbit/s a lane, encoded as HDR.
    Ndr,
    /// 212.5 Gbit/s a lane, encoded as HDR.
    Xdr,
}

impl Speed {
    /// All speeds, slowest first.
    pub const ALL: [Self; 9] = [
        Self::Sdr,
        Self::Ddr,
        Self::Qdr,
        Self::Fdr10,
        Self::Fdr,
        Self::Edr,
        Self::Hdr,
        Self::Ndr,
        Self::Xdr,
    ];

    /// Returns the speed as that of a link.
    #[must_use]
    pub const fn of_link(self) -> LinkSpeed {
        match self {
            Self::Sdr => LinkSpeed::Sdr,
            Self::Ddr => LinkSpeed::Ddr,
            Self::Qdr => LinkSpeed::Qdr,
            Self::Fdr10 => LinkSpeed::Fdr10,
            Self::Fdr => LinkSpeed::Fdr,
            Self::Edr => LinkSpeed::Edr,
            Self::Hdr => LinkSpeed::Hdr,
            Self::Ndr => LinkSpeed::Ndr,
            Self::Xdr => LinkSpeed::Xdr,
        }
    }

    /// Returns the name of the speed in texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sdr => "sdr",
            Self::Ddr => "ddr",
            Self::Qdr => "qdr",
            Self::Fdr10 => "fdr10",
            Self::Fdr => "fdr",
            Self::Edr => "edr",
            Self::Hdr => "hdr",
            Self::Ndr => "ndr",
            Self::Xdr => "xdr",
        }
    }
}

impl From<LinkSpeed> for Speed {
    fn from(speed: LinkSpeed) -> Self {
        match speed {
            LinkSpeed::Sdr => Self::Sdr,
            LinkSpeed::Ddr => Self::Ddr,
            LinkSpeed::Qdr => Self::Qdr,
            LinkSpeed::Fdr10 => Self::Fdr10,
            LinkSpeed::Fdr => Self::Fdr,
            LinkSpeed::Edr => Self::Edr,
            LinkSpeed::Hdr => Self::Hdr,
            LinkSpeed::Ndr => Self::Ndr,
            // A fabric with a link of unknown speed is refused before a simulation (SLV-DATA-0012).
            LinkSpeed::Xdr | LinkSpeed::Unknown => Self::Xdr,
        }
    }
}

/// Width and speed of a link, written `4x-hdr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LinkRate {
    /// Lanes.
    pub width: LinkWidth,
    /// Speed of each lane of the link.
    pub speed: Speed,
}

impl LinkRate {
    /// Returns the rate of four lanes.
    #[must_use]
    pub const fn four(speed: Speed) -> Self {
        Self {
            width: LinkWidth::X4,
            speed,
        }
    }

    /// Returns the time per byte.
    #[must_use]
    pub const fn byte_time(self) -> ByteTime {
        let (bits, over) = self.speed.of_link().data_bit_per_s();
        // 8 bit · 10^12 ps/s over the rate. The largest products are those of XDR: 1.1 · 10^18, 3.4 · 10^17 for 12x.
        let (mut num, mut den) = (8_000_000_000_000 * over, bits * self.width.lanes() as u64);
        let common = gcd(num, den);
        num /= common;
        den /= common;
        // The slowest is 4,000 / 1; the largest values are those of FDR 1x, 1,760 / 3.
        ByteTime {
            num: num as u32,
            den: den as u32,
        }
    }

    /// Returns the data rate of the link in bytes per second, including headers.
    #[must_use]
    pub fn bytes_per_s(self) -> f64 {
        let time = self.byte_time();
        1e12 * time.den as f64 / time.num as f64
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl From<Rate> for LinkRate {
    fn from(rate: Rate) -> Self {
        Self {
            width: rate.width,
            speed: rate.speed.into(),
        }
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.width, self.speed.name())
    }
}

impl From<LinkRate> for String {
    fn from(rate: LinkRate) -> Self {
        rate.to_string()
    }
}

/// SLV-DATA-0001: the text is not a link width and speed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "SLV-DATA-0001: '{text}' is no link; want a width (1x, 2x, 4x, 8x, 12x), a dash and a speed (sdr, ddr, qdr, fdr10, \
     fdr, edr, hdr, ndr, xdr), as in 4x-hdr"
)]
pub struct LinkRateError {
    /// The text given.
    pub text: String,
}

impl FromStr for LinkRate {
    type Err = LinkRateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.to_lowercase();
        let parsed = lower.split_once('-').and_then(|(width, speed)| {
            let width = LinkWidth::ALL.into_iter().find(|w| w.to_string() == width)?;
            let speed = Speed::ALL.into_iter().find(|s| s.name() == speed)?;
            Some(Self { width, speed })
        });
        parsed.ok_or_else(|| LinkRateError { text: text.to_owned() })
    }
}

impl TryFrom<String> for LinkRate {
    type Error = LinkRateError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Time per byte on a link: `num / den` picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteTime {
    num: u32,
    den: u32,
}

impl ByteTime {
    /// Returns the time that this number of bytes takes, rounded up to a picosecond.
    #[must_use]
    #[inline]
    pub const fn of(self, bytes: u32) -> Ps {
        let product = bytes as u64 * self.num as u64;
        // A division takes as long as the rest of an event; only FDR needs one.
        if self.den == 1 {
            product
        } else {
            product.div_ceil(self.den as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_rates_of_four_lanes() {
        let check = |speed, gbit: f64| {
            let found = LinkRate::four(speed).bytes_per_s() * 8e-9;
            assert!((found - gbit).abs() < 1e-9 * gbit, "{found} {gbit}");
        };
        check(Speed::Sdr, 8.0);
        check(Speed::Ddr, 16.0);
        check(Speed::Qdr, 32.0);
        check(Speed::Fdr10, 40.0);
        check(Speed::Fdr, 4.0 * 14.0625 * 64.0 / 66.0);
        check(Speed::Edr, 4.0 * 25.78125 * 64.0 / 66.0);
        check(Speed::Hdr, 4.0 * 53.125 * 256.0 / 257.0 * 514.0 / 544.0);
        check(Speed::Ndr, 400.0);
        check(Speed::Xdr, 800.0);
    }

    #[test]
    fn times_are_rounded_up() {
        let check = |text: &str, bytes, want| {
            let rate: LinkRate = text.parse().unwrap();
            assert_eq!(rate.byte_time().of(bytes), want, "{text}");
        };
        check("4x-hdr", 2_074, 82_960);
        check("4x-sdr", 1, 1_000);
        check("4x-fdr", 1, 147);
        check("4x-fdr", 3, 440);
        check("12x-EDR", 3, 80);
        check("1x-xdr", 2, 80);
    }

    #[test]
    fn payloads_are_padded() {
        let check = |payload, want| assert_eq!(header::pad(payload), want, "{payload}");
        check(0, 0);
        check(1, 3);
        check(2_046, 2);
        check(2_047, 1);
        check(2_048, 0);
    }

    #[test]
    fn packets_take_whole_blocks() {
        assert_eq!(blocks(2_048 + u32::from(header::LOCAL)), 33);
        assert_eq!(blocks(64), 1);
        assert_eq!(header::ACK, 30);
    }

    #[test]
    fn what_is_no_link_is_refused_with_what_is_one() {
        let error = "4x-hrd".parse::<LinkRate>().unwrap_err().to_string();
        assert!(error.contains("4x-hrd") && error.contains("ndr"), "{error}");
    }
}
