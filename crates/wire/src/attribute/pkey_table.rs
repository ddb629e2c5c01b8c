//! P_KeyTable: the partitions of a port.

use core::fmt;

use selvedge_types::PKey;

use super::bytes::{put, u16_at};
use super::{Attribute, AttributeId};
use crate::{DecodeError, SmpData};

/// One block of a port's P_Key table.
///
/// Source: IBA vol 1 §14.2.5.7. Modifier: bits 0–15 the block, bits 16–31 the port of a switch (0 on a CA).
/// ```text
///  0 P_Key 0 (membership bit, 15 bits key) | 2 P_Key 1 | … | 62 P_Key 31
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PKeyTable {
    /// The P_Keys; 0 for an empty entry.
    pub keys: [PKey; Self::PER_BLOCK],
}

impl PKeyTable {
    /// P_Keys per block.
    pub const PER_BLOCK: usize = 32;

    /// Returns the modifier of block `block` of switch port `port` (0 on a CA and for a switch's port 0).
    #[must_use]
    pub const fn modifier(block: u16, port: u8) -> u32 {
        (port as u32) << 16 | block as u32
    }

    /// Returns the block of a modifier.
    #[must_use]
    pub const fn block(modifier: u32) -> u16 {
        modifier as u16
    }

    /// Returns the port of a modifier; values above 255 are not ports.
    #[must_use]
    pub const fn port(modifier: u32) -> u16 {
        (modifier >> 16) as u16
    }
}

impl Attribute for PKeyTable {
    const ID: AttributeId = AttributeId::PKEY_TABLE;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        Ok(Self {
            keys: core::array::from_fn(|i| PKey(u16_at(data, 2 * i))),
        })
    }

    fn emit(&self) -> SmpData {
        let mut data = [0; 64];
        for (i, key) in self.keys.iter().enumerate() {
            put(&mut data, 2 * i, key.0.to_be_bytes());
        }
        data
    }
}

impl fmt::Display for PKeyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("P_KeyTable")?;
        self.keys
            .iter()
            .enumerate()
            .filter(|(_, key)| key.0 != 0)
            .try_for_each(|(i, key)| write!(f, " {i}={:#06x}", key.0))
    }
}
