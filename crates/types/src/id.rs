//! Addresses and other identifiers.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// Local identifier of a port inside one subnet.
///
/// Source: IBA vol 1 §4.1.3: 0 is reserved, 1–0xBFFF unicast, 0xC000–0xFFFE multicast, 0xFFFF permissive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lid(pub u16);

impl Lid {
    /// "No LID": the LID of an unconfigured port.
    pub const NONE: Self = Self(0);
    /// Highest unicast LID.
    pub const UNICAST_MAX: Self = Self(0xBFFF);
    /// Lowest multicast LID.
    pub const MULTICAST_MIN: Self = Self(0xC000);
    /// The permissive LID, accepted by every receiver and used by directed-route SMPs.
    pub const PERMISSIVE: Self = Self(0xFFFF);

    /// True for 1–0xBFFF.
    #[must_use]
    pub const fn is_unicast(self) -> bool {
        self.0 >= 1 && self.0 <= Self::UNICAST_MAX.0
    }

    /// True for 0xC000–0xFFFE.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0 >= Self::MULTICAST_MIN.0 && self.0 < Self::PERMISSIVE.0
    }

    /// Returns the LID as an array index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Lid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// LID mask control: a port has `2^lmc` consecutive LIDs.
///
/// Source: IBA vol 1 §14.2.5.6 (PortInfo.LMC, 3 bits): 0–7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lmc(u8);

impl Lmc {
    /// One LID per port.
    pub const ZERO: Self = Self(0);

    /// Accepts 0–7.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value <= 7 { Some(Self(value)) } else { None }
    }

    /// Returns the three-bit value.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the number of LIDs per port: 1–128.
    #[must_use]
    pub const fn lids(self) -> u16 {
        1 << self.0
    }
}

/// The LIDs of a port: `base ..= base + 2^lmc - 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LidRange {
    /// Lowest LID; a multiple of `2^lmc`.
    pub base: Lid,
    /// Number of LIDs, as a power of two.
    pub lmc: Lmc,
}

impl LidRange {
    /// Returns the range of a single LID.
    #[must_use]
    pub const fn single(base: Lid) -> Self {
        Self { base, lmc: Lmc::ZERO }
    }

    /// Returns the highest LID of the range.
    #[must_use]
    pub const fn last(self) -> Lid {
        Lid(self.base.0.saturating_add(self.lmc.lids() - 1))
    }

    /// Iterates over all LIDs, ascending.
    pub fn iter(self) -> impl Iterator<Item = Lid> + Clone {
        (self.base.0..=self.last().0).map(Lid)
    }

    /// True if `lid` is in the range.
    #[must_use]
    pub const fn contains(self, lid: Lid) -> bool {
        lid.0 >= self.base.0 && lid.0 <= self.last().0
    }
}

/// EUI-64 of a node, port or system image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Guid(pub u64);

impl Guid {
    /// "No GUID".
    pub const NONE: Self = Self(0);

    /// Returns a sort key in the order in which OpenSM sorts GUIDs on x86: its maps compare network-order integers as
    /// host integers.
    #[must_use]
    pub const fn opensm_order(self) -> u64 {
        self.0.swap_bytes()
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl From<Guid> for String {
    fn from(guid: Guid) -> Self {
        guid.to_string()
    }
}

/// A text that is not a GUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no GUID: want up to 16 hexadecimal digits, as in 0x0002c90300001234")]
pub struct GuidParseError {
    /// The text given.
    pub text: String,
}

impl FromStr for Guid {
    type Err = GuidParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text
            .strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))
            .unwrap_or(text);
        let valid = !digits.is_empty() && digits.len() <= 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        match u64::from_str_radix(digits, 16) {
            Ok(value) if valid => Ok(Self(value)),
            _ => Err(GuidParseError { text: text.to_owned() }),
        }
    }
}

impl TryFrom<String> for Guid {
    type Error = GuidParseError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// Number of a port on a node: 0 is a switch's management port, 1–254 are external ports.
///
/// 255 is not a port (in forwarding tables it means "drop"). A value from the wire stays a `u8` until [`PortNum::new`]
/// or [`PortNum::of_node`] accepts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PortNum(u8);

impl PortNum {
    /// A switch's management port.
    pub const MANAGEMENT: Self = Self(0);
    /// Highest external port number. Source: IBA vol 1 §18.2.4.3: port 255 is reserved.
    pub const MAX: Self = Self(254);

    /// Accepts 0–254.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value < 255 { Some(Self(value)) } else { None }
    }

    /// Accepts 0–`port_count`.
    #[must_use]
    pub const fn of_node(value: u8, port_count: u8) -> Option<Self> {
        if value <= port_count { Self::new(value) } else { None }
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the number as an array index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PortNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Service level: 0–15, the same from end to end of a packet's path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sl(u8);

impl Sl {
    /// Number of service levels.
    pub const COUNT: usize = 16;

    /// Accepts 0–15.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value < 16 { Some(Self(value)) } else { None }
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Virtual lane: 0–14 carry data, 15 carries SMPs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Vl(u8);

impl Vl {
    /// The management lane; as an SL2VL entry it means "drop".
    pub const MANAGEMENT: Self = Self(15);

    /// Accepts 0–15.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value < 16 { Some(Self(value)) } else { None }
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Partition key: bit 15 set means full membership.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PKey(pub u16);

impl PKey {
    /// The default partition, full membership. Source: IBA vol 1 §10.9.1.2.
    pub const DEFAULT_FULL: Self = Self(0xFFFF);

    /// A P_Key that is not 0 and belongs to no partition. It is as invalid as 0, because its lower 15 bits are 0, but
    /// unlike 0 it shows that the table entry was written. Source: IBA vol 1 §10.9.1.2.
    pub const NOBODYS: Self = Self(0x8000);

    /// True if ports with these P_Keys may communicate: same partition, at least one full member. Source: IBA vol 1
    /// §10.9.3.
    #[must_use]
    pub const fn matches(self, other: Self) -> bool {
        self.0 & 0x7FFF == other.0 & 0x7FFF && self.0 & 0x7FFF != 0 && (self.0 | other.0) & 0x8000 != 0
    }
}

/// Transaction id of a MAD: chosen by the requester, returned unchanged.
///
/// The kernel's umad layer uses the upper 32 bits for its agent number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guid_texts() {
        let check = |text: &str, want: Option<u64>| assert_eq!(text.parse::<Guid>().ok().map(|g| g.0), want, "{text}");
        check("0x10", Some(0x10));
        check("ffffffffffffffff", Some(u64::MAX));
        check("0x", None);
        check("", None);
        check("0x+1", None);
        check("0x00000000000000001", None);
        check("12g4", None);
    }

    #[test]
    fn pkeys_match_with_one_full_member() {
        let check = |a: u16, b: u16, want: bool| assert_eq!(PKey(a).matches(PKey(b)), want, "{a:#x} {b:#x}");
        check(0xFFFF, 0x7FFF, true);
        check(0x7FFF, 0x7FFF, false);
        check(0x8001, 0x8002, false);
        check(0x8000, 0x8000, false);
    }

    #[test]
    fn lid_ranges() {
        let range = LidRange {
            base: Lid(8),
            lmc: Lmc::new(2).unwrap(),
        };
        assert_eq!(range.iter().map(|l| l.0).collect::<Vec<_>>(), [8, 9, 10, 11]);
        assert!(range.contains(Lid(11)));
        assert!(!range.contains(Lid(12)));
    }

    #[test]
    fn port_255_is_no_port() {
        assert_eq!(PortNum::new(255), None);
        assert_eq!(PortNum::of_node(254, 254), Some(PortNum::MAX));
        assert_eq!(PortNum::of_node(37, 36), None);
    }
}
