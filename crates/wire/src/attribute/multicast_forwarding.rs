//! MulticastForwardingTable: the sets of egress ports of 32 multicast LIDs.

use core::fmt;

use selvedge_types::Lid;

use super::bytes::{put, u16_at};
use super::{Attribute, AttributeId};
use crate::{DecodeError, SmpData};

/// One block of one position of a switch's multicast forwarding table.
///
/// Source: IBA vol 1 §14.2.5.12. Modifier: bits 0–8 the block (32 LIDs from 0xC000 on), bits 28–31 the position
/// (16 ports each: bit `i` of a mask at position `p` is port `16·p + i`).
/// ```text
///  0 mask of LID 0xC000 + 32·b | 2 mask of the next LID | … | 62 mask of LID 0xC000 + 32·b + 31
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MulticastForwardingTable {
    /// The port masks.
    pub masks: [u16; Self::PER_BLOCK],
}

impl MulticastForwardingTable {
    /// LIDs per block.
    pub const PER_BLOCK: usize = 32;
    /// Ports per position.
    pub const PORTS_PER_POSITION: u8 = 16;
    /// Highest block: the block of LID 0xFFFE.
    pub const LAST_BLOCK: u16 = 0x1FF;

    /// Returns the modifier of `block` (0–511) at `position` (0–15); higher bits of either are ignored.
    #[must_use]
    pub const fn modifier(block: u16, position: u8) -> u32 {
        (position as u32 & 0xF) << 28 | block as u32 & 0x1FF
    }

    /// Returns the block of a modifier.
    #[must_use]
    pub const fn block(modifier: u32) -> u16 {
        modifier as u16 & 0x1FF
    }

    /// Returns the position of a modifier.
    #[must_use]
    pub const fn position(modifier: u32) -> u8 {
        (modifier >> 28) as u8
    }

    /// Returns the block and the index in it of `lid`; `None` if the LID is not multicast.
    #[must_use]
    pub const fn place_of(lid: Lid) -> Option<(u16, usize)> {
        if !lid.is_multicast() {
            return None;
        }
        let index = lid.0 - Lid::MULTICAST_MIN.0;
        Some((index / 32, (index % 32) as usize))
    }
}

impl Attribute for MulticastForwardingTable {
    const ID: AttributeId = AttributeId::MULTICAST_FORWARDING;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        Ok(Self {
            masks: core::array::from_fn(|i| u16_at(data, 2 * i)),
        })
    }

    fn emit(&self) -> SmpData {
        let mut data = [0; 64];
        for (i, mask) in self.masks.iter().enumerate() {
            put(&mut data, 2 * i, mask.to_be_bytes());
        }
        data
    }
}

impl fmt::Display for MulticastForwardingTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MulticastForwardingTable")?;
        self.masks
            .iter()
            .enumerate()
            .filter(|(_, mask)| **mask != 0)
            .try_for_each(|(i, mask)| write!(f, " {i}={mask:#06x}"))
    }
}
