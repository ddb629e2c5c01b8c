//! Enumerations of ports and links, with their codes on the wire.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Type of a node. Source: IBA vol 1 §14.2.5.3 (NodeInfo.NodeType).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Channel adapter (host, storage, aggregation node).
    Ca,
    /// Switch.
    Switch,
    /// Router between subnets.
    Router,
}

impl NodeKind {
    /// Decodes NodeInfo.NodeType.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Ca),
            2 => Some(Self::Switch),
            3 => Some(Self::Router),
            _ => None,
        }
    }

    /// Returns the code for NodeInfo.NodeType.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ca => 1,
            Self::Switch => 2,
            Self::Router => 3,
        }
    }
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ca => "CA",
            Self::Switch => "switch",
            Self::Router => "router",
        })
    }
}

/// Port state. Source: IBA vol 1 §14.2.5.6 (PortInfo.PortState).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortState {
    /// No link.
    #[default]
    Down,
    /// Link trained; only SMPs pass.
    Init,
    /// Configured; only SMPs may be sent, data may be received.
    Armed,
    /// All packets pass.
    Active,
}

impl PortState {
    /// Decodes PortInfo.PortState (1–4; 0 is "no change", only in Sets).
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Down),
            2 => Some(Self::Init),
            3 => Some(Self::Armed),
            4 => Some(Self::Active),
            _ => None,
        }
    }

    /// Returns the code for PortInfo.PortState.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Down => 1,
            Self::Init => 2,
            Self::Armed => 3,
            Self::Active => 4,
        }
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "DOWN",
            Self::Init => "INIT",
            Self::Armed => "ARMED",
            Self::Active => "ACTIVE",
        })
    }
}

/// Physical state of a port. Source: IBA vol 1 §14.2.5.6 (PortInfo.PortPhysicalState).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhysState {
    /// The transmitter is off; the port waits.
    Sleep,
    /// Polling for a peer.
    #[default]
    Polling,
    /// Disabled.
    Disabled,
    /// Negotiating width, speed and lane order.
    Training,
    /// Link is up.
    LinkUp,
    /// Recovering a link that lost lock.
    Recovery,
    /// Under test.
    PhyTest,
}

impl PhysState {
    /// True if the link is trained. During link recovery the port state stays unchanged, and sending pauses for a
    /// moment without further effects. Source: IBA vol 1 §7.2.7 (PhyLinkUp, and LinkActDefer).
    #[must_use]
    pub const fn is_trained(self) -> bool {
        matches!(self, Self::LinkUp | Self::Recovery)
    }

    /// Decodes PortInfo.PortPhysicalState (1–7; 0 is "no change", only in Sets).
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Sleep),
            2 => Some(Self::Polling),
            3 => Some(Self::Disabled),
            4 => Some(Self::Training),
            5 => Some(Self::LinkUp),
            6 => Some(Self::Recovery),
            7 => Some(Self::PhyTest),
            _ => None,
        }
    }

    /// Returns the code for PortInfo.PortPhysicalState.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8 + 1
    }
}

/// Largest payload of a packet. Source: IBA vol 1 §14.2.5.6 (codes 1–5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "u16", try_from = "u16")]
pub enum Mtu {
    /// 256 bytes.
    #[default]
    B256,
    /// 512 bytes.
    B512,
    /// 1,024 bytes.
    B1024,
    /// 2,048 bytes.
    B2048,
    /// 4,096 bytes.
    B4096,
}

impl Mtu {
    /// Decodes the wire code.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::B256),
            2 => Some(Self::B512),
            3 => Some(Self::B1024),
            4 => Some(Self::B2048),
            5 => Some(Self::B4096),
            _ => None,
        }
    }

    /// Returns the wire code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8 + 1
    }

    /// Returns the payload in bytes.
    #[must_use]
    pub const fn bytes(self) -> u16 {
        256 << self as u8
    }
}

impl From<Mtu> for u16 {
    fn from(mtu: Mtu) -> Self {
        mtu.bytes()
    }
}

impl TryFrom<u16> for Mtu {
    type Error = String;

    fn try_from(bytes: u16) -> Result<Self, String> {
        [Self::B256, Self::B512, Self::B1024, Self::B2048, Self::B4096]
            .into_iter()
            .find(|m| m.bytes() == bytes)
            .ok_or_else(|| format!("{bytes} is no MTU: want 256, 512, 1024, 2048 or 4096 bytes"))
    }
}

/// Number of lanes of a link. The bit values are those of PortInfo.LinkWidth*. Source: IBA vol 1 §14.2.5.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LinkWidth {
    /// 1 lane.
    #[serde(rename = "1x")]
    X1,
    /// 2 lanes.
    #[serde(rename = "2x")]
    X2,
    /// 4 lanes.
    #[default]
    #[serde(rename = "4x")]
    X4,
    /// 8 lanes.
    #[serde(rename = "8x")]
    X8,
    /// 12 lanes.
    #[serde(rename = "12x")]
    X12,
}

impl LinkWidth {
    /// All widths, narrowest first.
    pub const ALL: [Self; 5] = [Self::X1, Self::X2, Self::X4, Self::X8, Self::X12];

    /// Returns the bit in LinkWidthSupported, LinkWidthEnabled and LinkWidthActive.
    #[must_use]
    pub const fn bit(self) -> u8 {
        match self {
            Self::X1 => 1,
            Self::X4 => 2,
            Self::X8 => 4,
            Self::X12 => 8,
            Self::X2 => 16,
        }
    }

    /// Decodes LinkWidthActive (exactly one bit).
    #[must_use]
    pub fn from_bit(bit: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|w| w.bit() == bit)
    }

    /// Returns the number of lanes.
    #[must_use]
    pub const fn lanes(self) -> u8 {
        match self {
            Self::X1 => 1,
            Self::X2 => 2,
            Self::X4 => 4,
            Self::X8 => 8,
            Self::X12 => 12,
        }
    }
}

impl fmt::Display for LinkWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x", self.lanes())
    }
}

/// Signalling speed of one lane, slowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum LinkSpeed {
    /// 2.5 Gbit/s.
    #[default]
    Sdr,
    /// 5 Gbit/s.
    Ddr,
    /// 10 Gbit/s.
    Qdr,
    /// 10.3125 Gbit/s (vendor's FDR10).
    Fdr10,
    /// 14.0625 Gbit/s.
    Fdr,
    /// 25.78125 Gbit/s.
    Edr,
    /// 53.125 Gbit/s.
    Hdr,
    /// 106.25 Gbit/s.
    Ndr,
    /// 212.5 Gbit/s.
    Xdr,
    /// A code or name that this release does not know. New speeds are faster than known ones, so it sorts as the
    /// fastest, and its rate counts as that of [`Self::Xdr`]. It is always shown as unknown.
    #[serde(rename = "unknown")]
    Unknown,
}

impl LinkSpeed {
    /// All known speeds, slowest first.
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

    /// Returns the signalling rate of one lane in kbit/s.
    #[must_use]
    pub const fn kbit_per_s(self) -> u64 {
        match self {
            Self::Sdr => 2_500_000,
            Self::Ddr => 5_000_000,
            Self::Qdr => 10_000_000,
            Self::Fdr10 => 10_312_500,
            Self::Fdr => 14_062_500,
            Self::Edr => 25_781_250,
            Self::Hdr => 53_125_000,
            Self::Ndr => 106_250_000,
            Self::Xdr | Self::Unknown => 212_500_000,
        }
    }

    /// Returns the signalling rate of one lane in Mbit/s, rounded down.
    #[must_use]
    pub const fn mbit_per_s(self) -> u32 {
        (self.kbit_per_s() / 1_000) as u32
    }

    /// Returns the share of the signalling rate that data gets, as a ratio: 8b/10b up to QDR, 64b/66b up to EDR, from
    /// HDR on 256b/257b inside Reed-Solomon (544,514). Source: IBA vol 2 §5.
    #[must_use]
    pub const fn coding(self) -> (u64, u64) {
        match self {
            Self::Sdr | Self::Ddr | Self::Qdr => (8, 10),
            Self::Fdr10 | Self::Fdr | Self::Edr => (64, 66),
            Self::Hdr | Self::Ndr | Self::Xdr | Self::Unknown => (256 * 514, 257 * 544),
        }
    }

    /// Returns the data rate of one lane after coding, in bit/s, as a ratio: FDR is 150,000,000,000 / 11.
    #[must_use]
    pub const fn data_bit_per_s(self) -> (u64, u64) {
        let (data, coded) = self.coding();
        (self.kbit_per_s() * 1_000 * data, coded)
    }
}

impl fmt::Display for LinkSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sdr => "SDR",
            Self::Ddr => "DDR",
            Self::Qdr => "QDR",
            Self::Fdr10 => "FDR10",
            Self::Fdr => "FDR",
            Self::Edr => "EDR",
            Self::Hdr => "HDR",
            Self::Ndr => "NDR",
            Self::Xdr => "XDR",
            // As printed by `ibnetdiscover`.
            Self::Unknown => "???",
        })
    }
}

/// Width and speed of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rate {
    /// Lanes.
    pub width: LinkWidth,
    /// Speed of each lane.
    pub speed: LinkSpeed,
}

impl Rate {
    /// Returns the signalling rate of the link in Mbit/s.
    #[must_use]
    pub const fn mbit_per_s(self) -> u32 {
        self.width.lanes() as u32 * self.speed.mbit_per_s()
    }

    /// Returns the data rate of the link after coding, in bytes per second, rounded down.
    #[must_use]
    pub const fn data_bytes_per_s(self) -> u64 {
        let (bits, over) = self.speed.data_bit_per_s();
        self.width.lanes() as u64 * bits / (8 * over)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.width, self.speed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data rates that the industry states for four lanes, in Gbit/s: SDR 8 to XDR 800, EDR 100, FDR 600/11.
    #[test]
    fn data_rates_are_signalling_rates_without_coding() {
        let check = |speed, raw_kbit: u64, bytes: u64| {
            let rate = Rate {
                width: LinkWidth::X4,
                speed,
            };
            assert_eq!(
                (4 * speed.kbit_per_s(), rate.data_bytes_per_s()),
                (raw_kbit, bytes),
                "{speed}"
            );
        };
        check(LinkSpeed::Sdr, 10_000_000, 1_000_000_000);
        check(LinkSpeed::Ddr, 20_000_000, 2_000_000_000);
        check(LinkSpeed::Qdr, 40_000_000, 4_000_000_000);
        check(LinkSpeed::Fdr10, 41_250_000, 5_000_000_000);
        check(LinkSpeed::Fdr, 56_250_000, 6_818_181_818);
        check(LinkSpeed::Edr, 103_125_000, 12_500_000_000);
        check(LinkSpeed::Hdr, 212_500_000, 25_000_000_000);
        check(LinkSpeed::Ndr, 425_000_000, 50_000_000_000);
        check(LinkSpeed::Xdr, 850_000_000, 100_000_000_000);
        // Rounded down, as before.
        assert_eq!(
            (LinkSpeed::Fdr10.mbit_per_s(), LinkSpeed::Fdr.mbit_per_s()),
            (10_312, 14_062)
        );
    }
}
