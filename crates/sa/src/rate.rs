//! Static rates, and selection by MTU, rate and packet lifetime.

use selvedge_types::{LinkSpeed, LinkWidth, Rate};

/// Codes of static rates, slowest first. Source: IBA vol 1 §15.2.5.16 (PathRecord.Rate), as OpenSM orders them.
const ASCENDING: [u8; 23] = [
    2, 5, 3, 11, 6, 15, 19, 4, 7, 20, 12, 8, 9, 16, 13, 10, 14, 17, 18, 21, 22, 23, 24,
];

/// A static rate as its index in ascending order, so that rates compare as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaticRate(u8);

impl StaticRate {
    /// The slowest of all.
    pub const MIN: Self = Self(0);
    /// The fastest of all.
    pub const MAX: Self = Self(ASCENDING.len() as u8 - 1);

    /// Returns the static rate of a link.
    #[must_use]
    pub const fn of(rate: Rate) -> Self {
        use LinkWidth::{X1, X2, X4, X8, X12};
        let code = match (rate.speed, rate.width) {
            (LinkSpeed::Sdr, X1) => 2,
            (LinkSpeed::Sdr, X2) | (LinkSpeed::Ddr, X1) => 5,
            (LinkSpeed::Sdr, X4) | (LinkSpeed::Ddr, X2) | (LinkSpeed::Qdr | LinkSpeed::Fdr10, X1) => 3,
            (LinkSpeed::Sdr, X8) | (LinkSpeed::Ddr, X4) | (LinkSpeed::Qdr | LinkSpeed::Fdr10, X2) => 6,
            (LinkSpeed::Sdr, X12) => 4,
            (LinkSpeed::Ddr, X8) | (LinkSpeed::Qdr | LinkSpeed::Fdr10, X4) => 7,
            (LinkSpeed::Ddr, X12) => 8,
            (LinkSpeed::Qdr | LinkSpeed::Fdr10, X8) => 9,
            (LinkSpeed::Qdr | LinkSpeed::Fdr10, X12) => 10,
            (LinkSpeed::Fdr, X1) => 11,
            (LinkSpeed::Fdr, X2) => 19,
            (LinkSpeed::Fdr, X4) => 12,
            (LinkSpeed::Fdr, X8) => 13,
            (LinkSpeed::Fdr, X12) => 14,
            (LinkSpeed::Edr, X1) => 15,
            (LinkSpeed::Edr, X2) | (LinkSpeed::Hdr, X1) => 20,
            (LinkSpeed::Edr, X4) | (LinkSpeed::Hdr, X2) | (LinkSpeed::Ndr, X1) => 16,
            (LinkSpeed::Edr, X8)
            | (LinkSpeed::Hdr, X4)
            | (LinkSpeed::Ndr, X2)
            | (LinkSpeed::Xdr | LinkSpeed::Unknown, X1) => 17,
            (LinkSpeed::Edr, X12) => 18,
            (LinkSpeed::Hdr, X8) | (LinkSpeed::Ndr, X4) | (LinkSpeed::Xdr | LinkSpeed::Unknown, X2) => 21,
            (LinkSpeed::Hdr, X12) => 22,
            (LinkSpeed::Ndr, X8) | (LinkSpeed::Xdr | LinkSpeed::Unknown, X4) => 23,
            // 1,200 Gbit/s is the highest code; these links have 1,600 and 2,400.
            (LinkSpeed::Ndr, X12) | (LinkSpeed::Xdr | LinkSpeed::Unknown, X8 | X12) => 24,
        };
        match Self::from_code(code) {
            Some(rate) => rate,
            None => Self(0),
        }
    }

    /// Decodes the wire code.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        let mut at = 0;
        while at < ASCENDING.len() {
            if ASCENDING[at] == code {
                return Some(Self(at as u8));
            }
            at += 1;
        }
        None
    }

    /// Returns the wire code.
    #[must_use]
    pub const fn code(self) -> u8 {
        ASCENDING[self.0 as usize]
    }

    /// Returns by how many steps this rate is faster than `other`.
    #[must_use]
    pub const fn steps_above(self, other: Self) -> u64 {
        self.0.saturating_sub(other.0) as u64
    }

    /// Returns the next lower rate.
    #[must_use]
    pub const fn slower(self) -> Option<Self> {
        match self.0 {
            0 => None,
            place => Some(Self(place - 1)),
        }
    }
}

/// Meaning of a value in a query. Source: IBA vol 1 §15.2.5.16 (MtuSelector, RateSelector, PacketLifeTimeSelector).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Greater than the value (0).
    Greater,
    /// Less than the value (1).
    Less,
    /// Exactly the value (2).
    Exactly,
    /// The largest available; for packet lifetimes the smallest (3).
    Best,
}

impl Selector {
    /// Decodes two bits.
    #[must_use]
    pub const fn from_code(code: u64) -> Self {
        match code & 3 {
            0 => Self::Greater,
            1 => Self::Less,
            2 => Self::Exactly,
            _ => Self::Best,
        }
    }

    /// The selector "exactly" in answers, above a six-bit value.
    pub const EXACTLY: u8 = 2 << 6;
}

/// A requested MTU, rate or packet lifetime: selector and code, if the query has both.
pub type Wish = Option<(Selector, u8)>;

/// Returns the MTU to answer for a path with MTU code `have` (1–5); `None` if the path does not match.
#[must_use]
pub const fn mtu(wish: Wish, have: u8) -> Option<u8> {
    match wish {
        None | Some((Selector::Best, _)) => Some(have),
        Some((Selector::Greater, wanted)) => {
            if have > wanted {
                Some(have)
            } else {
                None
            }
        }
        // Any MTU up to that of the path is valid.
        Some((Selector::Less, wanted)) => match wanted {
            0 | 1 => None,
            _ if have < wanted => Some(have),
            _ => Some(wanted - 1),
        },
        Some((Selector::Exactly, wanted)) => {
            if wanted > 0 && have >= wanted {
                Some(wanted)
            } else {
                None
            }
        }
    }
}

/// Returns the rate to answer for a path with slowest link `have`; `None` if the path does not match.
#[must_use]
pub fn rate(wish: Wish, have: StaticRate) -> Option<StaticRate> {
    let Some((selector, code)) = wish else {
        return Some(have);
    };
    if selector == Selector::Best {
        return Some(have);
    }
    let Some(wanted) = StaticRate::from_code(code) else {
        // Codes below all rates and above all rates.
        let suits = match selector {
            Selector::Greater => code < 2,
            Selector::Less => code > 2,
            Selector::Exactly | Selector::Best => false,
        };
        return suits.then_some(have);
    };
    match selector {
        Selector::Greater => (have > wanted).then_some(have),
        Selector::Less if have < wanted => Some(have),
        Selector::Less => wanted.slower(),
        // As in OpenSM: a rate below that of the path does not match "exactly".
        Selector::Exactly => (have == wanted).then_some(have),
        Selector::Best => Some(have),
    }
}

/// Returns the packet lifetime to answer for a path with lifetime `have`. The path's own value is an upper bound, so no
/// other value is ever returned.
#[must_use]
pub const fn life(wish: Wish, have: u8) -> Option<u8> {
    let suits = match wish {
        None | Some((Selector::Best, _)) => true,
        Some((Selector::Greater, wanted)) => have > wanted,
        Some((Selector::Less, wanted)) => have < wanted,
        Some((Selector::Exactly, wanted)) => have == wanted,
    };
    if suits { Some(have) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_links() {
        let check = |width, speed, code| assert_eq!(StaticRate::of(Rate { width, speed }).code(), code);
        check(LinkWidth::X4, LinkSpeed::Sdr, 3);
        check(LinkWidth::X4, LinkSpeed::Qdr, 7);
        check(LinkWidth::X4, LinkSpeed::Edr, 16);
        check(LinkWidth::X4, LinkSpeed::Hdr, 17);
        check(LinkWidth::X2, LinkSpeed::Ndr, 17);
        check(LinkWidth::X4, LinkSpeed::Ndr, 21);
        // Source: Linux 6.8 (`ib_rate`), rdma-core 65: 23 is 800 Gbit/s, 24 is 1,200 Gbit/s.
        check(LinkWidth::X1, LinkSpeed::Xdr, 17);
        check(LinkWidth::X2, LinkSpeed::Xdr, 21);
        check(LinkWidth::X4, LinkSpeed::Xdr, 23);
        check(LinkWidth::X12, LinkSpeed::Xdr, 24);
        // An unknown speed does not slow senders.
        check(LinkWidth::X4, LinkSpeed::Unknown, 23);
    }

    #[test]
    fn rates_ascend_as_links_do() {
        let mut all: Vec<Rate> = LinkSpeed::ALL
            .into_iter()
            .flat_map(|speed| LinkWidth::ALL.map(|width| Rate { width, speed }))
            .collect();
        // FDR10 shows as QDR.
        all.retain(|rate| rate.speed != LinkSpeed::Fdr10);
        all.sort_by_key(|rate| rate.mbit_per_s());
        for pair in all.windows(2) {
            let (a, b) = (StaticRate::of(pair[0]), StaticRate::of(pair[1]));
            assert!(a <= b, "{} {}", pair[0], pair[1]);
        }
        assert_eq!(StaticRate::from_code(0), None);
        assert_eq!(StaticRate::from_code(25), None);
    }

    #[test]
    fn mtu_selectors() {
        let check =
            |selector, wanted, want| assert_eq!(mtu(Some((selector, wanted)), 4), want, "{selector:?} {wanted}");
        check(Selector::Greater, 3, Some(4));
        check(Selector::Greater, 4, None);
        check(Selector::Less, 5, Some(4));
        check(Selector::Less, 4, Some(3));
        check(Selector::Less, 1, None);
        check(Selector::Exactly, 4, Some(4));
        check(Selector::Exactly, 2, Some(2));
        check(Selector::Exactly, 5, None);
        check(Selector::Best, 1, Some(4));
        assert_eq!(mtu(None, 4), Some(4));
    }

    #[test]
    fn rate_selectors() {
        let have = StaticRate::from_code(16).unwrap();
        let check = |selector, code, want: Option<u8>| {
            assert_eq!(
                rate(Some((selector, code)), have).map(StaticRate::code),
                want,
                "{selector:?} {code}"
            );
        };
        check(Selector::Greater, 7, Some(16));
        check(Selector::Greater, 16, None);
        check(Selector::Less, 17, Some(16));
        check(Selector::Less, 16, Some(9));
        check(Selector::Less, 2, None);
        check(Selector::Exactly, 16, Some(16));
        check(Selector::Exactly, 7, None);
        check(Selector::Best, 0, Some(16));
        check(Selector::Exactly, 63, None);
        check(Selector::Greater, 0, Some(16));
        check(Selector::Greater, 63, None);
        check(Selector::Less, 63, Some(16));
        check(Selector::Less, 0, None);
    }

    #[test]
    fn a_life_time_is_never_invented() {
        let check =
            |selector, wanted, want| assert_eq!(life(Some((selector, wanted)), 18), want, "{selector:?} {wanted}");
        check(Selector::Greater, 17, Some(18));
        check(Selector::Greater, 18, None);
        check(Selector::Less, 19, Some(18));
        check(Selector::Less, 18, None);
        check(Selector::Exactly, 18, Some(18));
        check(Selector::Exactly, 19, None);
        check(Selector::Best, 0, Some(18));
    }
}
