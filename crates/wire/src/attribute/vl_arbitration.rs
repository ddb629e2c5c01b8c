//! VLArbitrationTable: the order in which lanes send, and how much each may send.

use core::fmt;

use selvedge_types::Vl;

use super::{Attribute, AttributeId};
use crate::{DecodeError, SmpData};

/// One entry of the arbitration table: a turn of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlArbEntry {
    /// The lane.
    pub vl: Vl,
    /// Amount that the lane may send in its turn, in units of 64 bytes; 0 skips the entry.
    pub weight: u8,
}

/// Number of a block within the two arbitration tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VlArbBlock {
    /// Low priority, entries 0–31.
    LowFirst,
    /// Low priority, entries 32–63.
    LowSecond,
    /// High priority, entries 0–31.
    HighFirst,
    /// High priority, entries 32–63.
    HighSecond,
}

impl VlArbBlock {
    /// All blocks in the order of their codes.
    pub const ALL: [Self; 4] = [Self::LowFirst, Self::LowSecond, Self::HighFirst, Self::HighSecond];

    /// Decodes bits 16–31 of the modifier (1–4).
    #[must_use]
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            1 => Some(Self::LowFirst),
            2 => Some(Self::LowSecond),
            3 => Some(Self::HighFirst),
            4 => Some(Self::HighSecond),
            _ => None,
        }
    }

    /// Returns bits 16–31 of the modifier.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16 + 1
    }
}

/// One block of a port's arbitration tables.
///
/// Source: IBA vol 1 §14.2.5.9. Modifier: bits 16–31 the block (1–4), bits 0–15 the port (of a switch).
/// ```text
///  0 reserved (4 bits), VL (4 bits) | 1 weight | 2 VL | 3 weight | … | 62 VL | 63 weight
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlArbitration {
    /// The entries, in order.
    pub entries: [VlArbEntry; Self::PER_BLOCK],
}

impl VlArbitration {
    /// Entries in a block.
    pub const PER_BLOCK: usize = 32;

    /// Returns the modifier of `block` of switch port `port` (0 on a CA).
    #[must_use]
    pub const fn modifier(block: VlArbBlock, port: u8) -> u32 {
        (block.code() as u32) << 16 | port as u32
    }

    /// Returns the block of a modifier.
    #[must_use]
    pub const fn block(modifier: u32) -> Option<VlArbBlock> {
        VlArbBlock::from_code((modifier >> 16) as u16)
    }

    /// Returns the port of a modifier; values above 255 are not ports.
    #[must_use]
    pub const fn port(modifier: u32) -> u16 {
        modifier as u16
    }
}

impl Attribute for VlArbitration {
    const ID: AttributeId = AttributeId::VL_ARBITRATION;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        Ok(Self {
            entries: core::array::from_fn(|i| VlArbEntry {
                // Four bits are always a lane, so the default is never taken.
                vl: Vl::new(data[2 * i] & 0x0F).unwrap_or_default(),
                weight: data[2 * i + 1],
            }),
        })
    }

    fn emit(&self) -> SmpData {
        let mut data = [0; 64];
        for (i, entry) in self.entries.iter().enumerate() {
            data[2 * i] = entry.vl.get();
            data[2 * i + 1] = entry.weight;
        }
        data
    }
}

impl fmt::Display for VlArbitration {
    /// Prints `VL:weight` up to the last entry that is not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VLArbitrationTable")?;
        let used = self
            .entries
            .iter()
            .rposition(|entry| *entry != VlArbEntry::default())
            .map_or(0, |last| last + 1);
        self.entries[..used].iter().enumerate().try_for_each(|(i, entry)| {
            write!(
                f,
                "{}{}:{}",
                if i == 0 { ' ' } else { ',' },
                entry.vl.get(),
                entry.weight
            )
        })
    }
}
