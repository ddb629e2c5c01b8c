//! Alias GUIDs of ports (GUIDInfo): the planned ones, and the Sets that write them.
//!
//! A virtual function of a channel adapter has its own GUID behind the LID of its port. The subnet administrator
//! assigns these GUIDs, and the manager writes them. Forwarding does not depend on them.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_types::{Guid, PortNum, PortState};

/// GUIDs per block of GUIDInfo, which one SMP reads or writes. Source: IBA vol 1 §14.2.5.5.
pub const BLOCK_GUIDS: usize = 8;

/// A block of GUIDInfo; [`Guid::NONE`] for an empty entry.
pub type GuidBlock = [Guid; BLOCK_GUIDS];

/// Known blocks of GUIDInfo, by port GUID and block number.
pub type HeldGuids = BTreeMap<(Guid, u8), GuidBlock>;

/// The planned aliases of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortAliases {
    /// The port's own GUID, which is entry 0.
    pub port: Guid,
    /// Alias GUIDs, by entry.
    pub guids: BTreeMap<u8, Guid>,
}

impl PortAliases {
    /// Returns the planned contents of a block.
    #[must_use]
    pub fn block(&self, block: u8) -> GuidBlock {
        let first = usize::from(block) * BLOCK_GUIDS;
        core::array::from_fn(|place| match u8::try_from(first + place) {
            Ok(0) => self.port,
            Ok(entry) => self.guids.get(&entry).copied().unwrap_or(Guid::NONE),
            Err(_) => Guid::NONE,
        })
    }

    /// Returns the blocks with aliases.
    pub fn blocks(&self) -> impl Iterator<Item = u8> + '_ {
        let mut last = None;
        let blocks = self.guids.keys().map(|entry| entry / BLOCK_GUIDS as u8);
        blocks.filter(move |&block| last.replace(block) != Some(block))
    }
}

/// Returns the aliases in a block: all entries except the port's own GUID and empty ones.
pub fn aliases_in(port: Guid, block: &GuidBlock) -> impl Iterator<Item = Guid> + '_ {
    block
        .iter()
        .copied()
        .filter(move |&guid| guid != Guid::NONE && guid != port)
}

/// Returns the port with a GUID, if its link is up. Otherwise its GUIDs are set when the link comes up.
#[must_use]
pub fn reachable(fabric: &Fabric, port: Guid) -> Option<PortRef> {
    let at = fabric.find_port(port)?;
    let is_up = at.port == PortNum::MANAGEMENT || fabric.port(at)?.link.state == PortState::Active;
    is_up.then_some(at)
}

/// One Set of GUIDInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuidSet {
    /// The port.
    pub port: PortRef,
    /// Block number.
    pub block: u8,
    /// GUIDs to write.
    pub guids: GuidBlock,
}

/// Sets in phases: all Sets of one phase are acknowledged before the next begins. So a GUID that one phase removes from
/// a port may be given to another port in the next phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AliasChange {
    /// The phases, in order.
    pub phases: Vec<Vec<GuidSet>>,
}

impl AliasChange {
    /// Returns the number of Sets.
    #[must_use]
    pub fn sets(&self) -> usize {
        self.phases.iter().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_ports_own_guid_first() {
        let aliases = PortAliases {
            port: Guid(1),
            guids: [(1, Guid(11)), (7, Guid(17)), (8, Guid(18)), (255, Guid(19))].into(),
        };
        let check = |block: u8, want: [u64; 8]| assert_eq!(aliases.block(block), want.map(Guid), "block {block}");
        check(0, [1, 11, 0, 0, 0, 0, 0, 17]);
        check(1, [18, 0, 0, 0, 0, 0, 0, 0]);
        check(2, [0; 8]);
        check(31, [0, 0, 0, 0, 0, 0, 0, 19]);
        // Beyond the last block number.
        check(32, [0; 8]);
        assert_eq!(aliases.blocks().collect::<Vec<_>>(), [0, 1, 31]);
        let found: Vec<Guid> = aliases_in(Guid(1), &aliases.block(0)).collect();
        assert_eq!(found, [Guid(11), Guid(17)]);
    }
}
