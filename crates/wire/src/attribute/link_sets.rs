//! Sets of link widths and speeds, and numbers of lanes, in the encoding of PortInfo.

use core::fmt;
use core::num::NonZeroU8;

use selvedge_types::{LinkSpeed, LinkWidth};

/// A non-empty set of link widths: LinkWidthSupported, LinkWidthEnabled, LinkWidthActive.
///
/// Source: IBA vol 1 §14.2.5.6: bit 0 1x, 1 4x, 2 8x, 3 12x, 4 2x.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkWidths(NonZeroU8);

impl LinkWidths {
    /// In LinkWidthEnabled of a Set: enables all supported widths.
    pub const ALL_SUPPORTED: Self = Self(NonZeroU8::MAX);

    /// Decodes the bits. `None` for 0, which means "no change" in a Set and "none" in a response.
    #[must_use]
    pub const fn new(bits: u8) -> Option<Self> {
        match NonZeroU8::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// Returns the set of one width.
    #[must_use]
    pub const fn only(width: LinkWidth) -> Self {
        match Self::new(width.bit()) {
            Some(set) => set,
            // Every width has a bit.
            None => Self::ALL_SUPPORTED,
        }
    }

    /// Returns the bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0.get()
    }

    /// True if `width` is in the set.
    #[must_use]
    pub const fn contains(self, width: LinkWidth) -> bool {
        self.bits() & width.bit() != 0
    }

    /// Returns the width, if the set has exactly one.
    #[must_use]
    pub fn single(self) -> Option<LinkWidth> {
        LinkWidth::from_bit(self.bits())
    }
}

impl fmt::Display for LinkWidths {
    /// Prints `1x|4x`, or hexadecimal if an undefined bit is set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bits() & !0x1F != 0 {
            return write!(f, "{:#x}", self.bits());
        }
        let members = LinkWidth::ALL.into_iter().filter(|width| self.contains(*width));
        fmt_members(f, members)
    }
}

/// Returns the bit of a speed in the four-bit fields of SDR, DDR and QDR. Source: IBA vol 1 §14.2.5.6.
const fn basic_bit(speed: LinkSpeed) -> u8 {
    match speed {
        LinkSpeed::Sdr => 1,
        LinkSpeed::Ddr => 2,
        LinkSpeed::Qdr => 4,
        LinkSpeed::Fdr10
        | LinkSpeed::Fdr
        | LinkSpeed::Edr
        | LinkSpeed::Hdr
        | LinkSpeed::Ndr
        | LinkSpeed::Xdr
        | LinkSpeed::Unknown => 0,
    }
}

/// Returns the bit of a speed in the extended fields. Source: IBA vol 1 §14.2.5.6.
const fn extended_bit(speed: LinkSpeed) -> u8 {
    match speed {
        LinkSpeed::Fdr => 1,
        LinkSpeed::Edr => 2,
        LinkSpeed::Hdr => 4,
        LinkSpeed::Ndr => 8,
        LinkSpeed::Sdr | LinkSpeed::Ddr | LinkSpeed::Qdr | LinkSpeed::Fdr10 | LinkSpeed::Xdr | LinkSpeed::Unknown => 0,
    }
}

/// Methods that both sets of speeds share. `$bit` returns the bit of a speed.
macro_rules! speeds {
    ($name:ident, $bit:ident) => {
        impl $name {
            /// Decodes the low four bits. `None` for 0, which means "no change" in a Set and "none of these" in a
            /// response.
            #[must_use]
            pub const fn new(bits: u8) -> Option<Self> {
                match NonZeroU8::new(bits & 0x0F) {
                    Some(bits) => Some(Self(bits)),
                    None => None,
                }
            }

            /// Returns the bits.
            #[must_use]
            pub const fn bits(self) -> u8 {
                self.0.get()
            }

            /// True if `speed` is in the set.
            #[must_use]
            pub const fn contains(self, speed: LinkSpeed) -> bool {
                self.bits() & $bit(speed) != 0
            }

            /// Returns the speed, if the set has exactly one.
            #[must_use]
            pub fn single(self) -> Option<LinkSpeed> {
                LinkSpeed::ALL
                    .into_iter()
                    .find(|speed| $bit(*speed) == self.bits())
            }
        }
    };
}

/// A non-empty set of SDR, DDR and QDR: LinkSpeedSupported, LinkSpeedEnabled, LinkSpeedActive (four bits).
///
/// No field of PortInfo contains FDR10; a vendor attribute does (see [`super::MlnxExtPortInfo`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkSpeeds(NonZeroU8);

speeds!(LinkSpeeds, basic_bit);

impl LinkSpeeds {
    /// In LinkSpeedEnabled of a Set: enables all supported speeds (15).
    pub const ALL_SUPPORTED: Self = Self(NonZeroU8::MIN.saturating_add(14));
}

impl fmt::Display for LinkSpeeds {
    /// Prints `SDR|DDR`, or hexadecimal if an undefined bit is set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bits() & !0x7 != 0 {
            return write!(f, "{:#x}", self.bits());
        }
        let members = LinkSpeed::ALL.into_iter().filter(|speed| self.contains(*speed));
        fmt_members(f, members)
    }
}

/// A non-empty set of FDR, EDR, HDR and NDR: LinkSpeedExtSupported, LinkSpeedExtActive (four bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtLinkSpeeds(NonZeroU8);

speeds!(ExtLinkSpeeds, extended_bit);

impl fmt::Display for ExtLinkSpeeds {
    /// Prints `FDR|EDR`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = LinkSpeed::ALL.into_iter().filter(|speed| self.contains(*speed));
        fmt_members(f, members)
    }
}

/// LinkSpeedExtEnabled (five bits). Source: IBA vol 1 §14.2.5.6; codes 30 and 31 as in OpenSM's `ib_types.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtSpeedEnable(NonZeroU8);

impl ExtSpeedEnable {
    /// No extended speed (30).
    pub const DISABLED: Self = Self(NonZeroU8::MIN.saturating_add(29));
    /// In a Set: enables all supported extended speeds (31).
    pub const ALL_SUPPORTED: Self = Self(NonZeroU8::MIN.saturating_add(30));

    /// Decodes the low five bits. `None` for 0: "no change" in a Set.
    #[must_use]
    pub const fn new(bits: u8) -> Option<Self> {
        match NonZeroU8::new(bits & 0x1F) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// Returns the code for exactly these speeds.
    #[must_use]
    pub const fn only(speeds: ExtLinkSpeeds) -> Self {
        Self(speeds.0)
    }

    /// Returns the bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0.get()
    }

    /// Returns the speeds. `None` for the two special codes and for reserved ones.
    #[must_use]
    pub const fn speeds(self) -> Option<ExtLinkSpeeds> {
        if self.bits() < 16 {
            ExtLinkSpeeds::new(self.bits())
        } else {
            None
        }
    }
}

impl fmt::Display for ExtSpeedEnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.speeds()) {
            (_, Some(speeds)) => speeds.fmt(f),
            (Self::DISABLED, None) => f.write_str("off"),
            (_, None) => write!(f, "{:#x}", self.bits()),
        }
    }
}

fn fmt_members<T: fmt::Display>(f: &mut fmt::Formatter<'_>, members: impl Iterator<Item = T>) -> fmt::Result {
    for (i, member) in members.enumerate() {
        if i > 0 {
            f.write_str("|")?;
        }
        member.fmt(f)?;
    }
    Ok(())
}

/// Number of data lanes that a port has or uses: VLCap and OperationalVLs. Source: IBA vol 1 §14.2.5.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VlCount {
    /// VL0 (code 1).
    One,
    /// VL0–1 (code 2).
    Two,
    /// VL0–3 (code 3).
    Four,
    /// VL0–7 (code 4).
    Eight,
    /// VL0–14 (code 5).
    Fifteen,
}

impl VlCount {
    /// Decodes the wire code (1–5).
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            3 => Some(Self::Four),
            4 => Some(Self::Eight),
            5 => Some(Self::Fifteen),
            _ => None,
        }
    }

    /// Returns the wire code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8 + 1
    }

    /// Returns the number of data lanes: 1, 2, 4, 8 or 15.
    #[must_use]
    pub const fn lanes(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
            Self::Fifteen => 15,
        }
    }

    /// Returns the largest count with at most `lanes` lanes; `None` for 0 lanes.
    #[must_use]
    pub const fn at_most(lanes: u8) -> Option<Self> {
        match lanes {
            0 => None,
            1 => Some(Self::One),
            2..=3 => Some(Self::Two),
            4..=7 => Some(Self::Four),
            8..=14 => Some(Self::Eight),
            15.. => Some(Self::Fifteen),
        }
    }
}

impl fmt::Display for VlCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.lanes())
    }
}
