//! LinearForwardingTable: the egress port of 64 LIDs.

use core::fmt;

use selvedge_types::Lid;

use super::bytes::Hex;
use super::{Attribute, AttributeId};
use crate::{DecodeError, SmpData};

/// One block of a switch's linear forwarding table.
///
/// Source: IBA vol 1 §14.2.5.10. The modifier is the block: block `b` holds LIDs `64·b` to `64·b + 63`.
/// ```text
///  0 port of LID 64·b | 1 port of LID 64·b + 1 | … | 63 port of LID 64·b + 63
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearForwardingTable {
    /// The egress ports; 255 drops.
    pub ports: [u8; Self::PER_BLOCK],
}

impl LinearForwardingTable {
    /// Entries in a block.
    pub const PER_BLOCK: usize = 64;
    /// Highest block: the block of LID 0xBFFF.
    pub const LAST_BLOCK: u16 = Lid::UNICAST_MAX.0 / 64;
    /// The entry that drops packets.
    pub const DROP: u8 = 255;
    /// A block that drops everything.
    pub const EMPTY: Self = Self {
        ports: [Self::DROP; Self::PER_BLOCK],
    };

    /// Returns the number of the block that contains `lid`.
    #[must_use]
    pub const fn block_of(lid: Lid) -> u16 {
        lid.0 / 64
    }
}

impl Attribute for LinearForwardingTable {
    const ID: AttributeId = AttributeId::LINEAR_FORWARDING;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        Ok(Self { ports: *data })
    }

    fn emit(&self) -> SmpData {
        self.ports
    }
}

impl fmt::Display for LinearForwardingTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinearForwardingTable {}", Hex(&self.ports))
    }
}
