//! GUIDInfo: eight GUIDs of a port.

use core::fmt;

use selvedge_types::Guid;

use super::bytes::{put, u64_at};
use super::{Attribute, AttributeId};
use crate::{DecodeError, SmpData};

/// One block of a port's GUID table; the modifier is the block.
///
/// Source: IBA vol 1 §14.2.5.5. Entry 0 of block 0 is the port's own GUID and read-only.
/// ```text
///  0 GUID 0    8 GUID 1    …    56 GUID 7
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuidInfo {
    /// The GUIDs; [`Guid::NONE`] for an empty entry.
    pub guids: [Guid; Self::PER_BLOCK],
}

impl GuidInfo {
    /// GUIDs in a block.
    pub const PER_BLOCK: usize = 8;
}

impl Attribute for GuidInfo {
    const ID: AttributeId = AttributeId::GUID_INFO;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        Ok(Self {
            guids: core::array::from_fn(|i| Guid(u64_at(data, 8 * i))),
        })
    }

    fn emit(&self) -> SmpData {
        let mut data = [0; 64];
        for (i, guid) in self.guids.iter().enumerate() {
            put(&mut data, 8 * i, guid.0.to_be_bytes());
        }
        data
    }
}

impl fmt::Display for GuidInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GUIDInfo")?;
        self.guids
            .iter()
            .enumerate()
            .filter(|(_, guid)| **guid != Guid::NONE)
            .try_for_each(|(i, guid)| write!(f, " {i}={guid}"))
    }
}
