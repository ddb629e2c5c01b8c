//! GIDs: the 128-bit addresses of ports and multicast groups.

use core::fmt;
use core::net::Ipv6Addr;

use selvedge_types::Guid;

/// Address of a port or multicast group across subnets, in wire order. Source: IBA vol 1 §4.1.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Returns the GID of the port `guid` in the subnet `prefix`.
    #[must_use]
    pub fn new(prefix: u64, guid: Guid) -> Self {
        Self((u128::from(prefix) << 64 | u128::from(guid.0)).to_be_bytes())
    }

    /// Returns the upper half: the subnet prefix.
    #[must_use]
    pub const fn prefix(self) -> u64 {
        (u128::from_be_bytes(self.0) >> 64) as u64
    }

    /// Returns the lower half: the port GUID.
    #[must_use]
    pub const fn guid(self) -> Guid {
        Guid(u128::from_be_bytes(self.0) as u64)
    }

    /// True for multicast groups (`ff…`).
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] == 0xFF
    }
}

impl fmt::Display for Gid {
    /// Prints the form of an IPv6 address, as infiniband-diags do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}
