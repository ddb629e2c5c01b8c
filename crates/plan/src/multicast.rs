//! Multicast: members of groups, the tables that copy packets to them, and the difference between two such tables.
//!
//! Multicast tables are not part of the plan of unicast routes: trees follow the links that are up, and no route waits
//! for a tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_types::{Guid, IdxVec, Lid, Mtu, PortNum, PortState, Sl};

use crate::Generation;

/// Multicast LIDs per block of a MulticastForwardingTable. Source: IBA vol 1 §14.2.5.12.
pub const MFT_LIDS: usize = 32;
/// Ports per position of a block: the position selects the 16 ports for which a Set carries masks.
pub const MFT_PORTS: usize = 16;
/// An MFT block at one position: for each LID a mask of ports.
pub type MftBlock = [u16; MFT_LIDS];

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// GUID of the member's port.
    pub guid: Guid,
    /// True if the member receives packets of the group; false if it only sends.
    pub receives: bool,
}

/// A multicast group, as far as switches are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastGroup {
    /// LID of the group.
    pub mlid: Lid,
    /// Largest payload of the group's packets.
    pub mtu: Mtu,
    /// Service level of the group's packets.
    pub sl: Sl,
    /// Members of the group, by GUID; empty: the group has ended.
    pub members: Arc<[Member]>,
}

/// All groups by LID; none is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MulticastGroups(BTreeMap<Lid, MulticastGroup>);

impl MulticastGroups {
    /// Adds or replaces a group; a group without members is removed. False if nothing changes.
    pub fn put(&mut self, group: MulticastGroup) -> bool {
        if !group.mlid.is_multicast() {
            return false;
        }
        if group.members.is_empty() {
            return self.0.remove(&group.mlid).is_some();
        }
        if self.0.get(&group.mlid) == Some(&group) {
            return false;
        }
        self.0.insert(group.mlid, group);
        true
    }

    /// Returns a group.
    #[must_use]
    pub fn find(&self, mlid: Lid) -> Option<&MulticastGroup> {
        self.0.get(&mlid)
    }

    /// Returns all groups, by LID.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &MulticastGroup> {
        self.0.values()
    }

    /// Returns the groups with another service level.
    #[must_use]
    pub fn on_level(&self, sl: Sl) -> Self {
        let groups = self.0.iter();
        Self(
            groups
                .map(|(&mlid, group)| (mlid, MulticastGroup { sl, ..group.clone() }))
                .collect(),
        )
    }

    /// Returns the number of groups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is no group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A set of ports of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortMask([u64; 4]);

impl PortMask {
    /// Adds a port.
    pub const fn insert(&mut self, port: PortNum) {
        self.0[port.get() as usize / 64] |= 1 << (port.get() % 64);
    }

    /// True if a port is in the mask.
    #[must_use]
    pub const fn contains(&self, port: PortNum) -> bool {
        self.0[port.get() as usize / 64] >> (port.get() % 64) & 1 != 0
    }

    /// True if no port is in the mask.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// Returns the union of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// True if the other set contains all ports of this one.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self.intersection(other) == self
    }

    /// Returns the ports, ascending. Bit 255, which is not a port, is left out.
    pub fn iter(self) -> impl Iterator<Item = PortNum> {
        (0..4_u8).flat_map(move |word| {
            let mut left = self.0[usize::from(word)];
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then(|| word * 64 + bit as u8)
            })
            .filter_map(PortNum::new)
        })
    }

    /// Returns the mask of a position.
    #[must_use]
    pub const fn position(&self, position: u8) -> u16 {
        let bit = (position as usize % MFT_PORTS) * MFT_PORTS;
        (self.0[bit / 64] >> (bit % 64)) as u16
    }

    const fn set_position(&mut self, position: u8, ports: u16) {
        let bit = (position as usize % MFT_PORTS) * MFT_PORTS;
        self.0[bit / 64] &= !(0xFFFF << (bit % 64));
        self.0[bit / 64] |= (ports as u64) << (bit % 64);
    }
}

/// MFT blocks of one switch, by number and position.
pub type MftBlocks = BTreeMap<(u16, u8), MftBlock>;

/// The multicast tables of all switches; a missing block copies nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MulticastTables(IdxVec<SwitchIdx, MftBlocks>);

/// Returns block and entry of a multicast LID. For other LIDs, returns those of the first multicast LID.
const fn place(mlid: Lid) -> (u16, usize) {
    let index = mlid.0.saturating_sub(Lid::MULTICAST_MIN.0);
    (index / MFT_LIDS as u16, index as usize % MFT_LIDS)
}

impl MulticastTables {
    /// Returns tables of this number of switches, which copy nothing.
    #[must_use]
    pub fn new(switches: usize) -> Self {
        Self(IdxVec::filled(BTreeMap::new(), switches))
    }

    /// Returns the block with a multicast LID.
    #[must_use]
    pub const fn block_of(mlid: Lid) -> u16 {
        place(mlid).0
    }

    /// Returns the number of switches.
    #[must_use]
    pub fn switches(&self) -> usize {
        self.0.len()
    }

    /// Returns one MFT block at one position.
    #[must_use]
    pub fn block(&self, switch: SwitchIdx, block: u16, position: u8) -> MftBlock {
        let held = self.0.get(switch).and_then(|blocks| blocks.get(&(block, position)));
        held.copied().unwrap_or([0; MFT_LIDS])
    }

    /// Returns all existing blocks of a switch.
    #[must_use]
    pub fn blocks(&self, switch: SwitchIdx) -> Option<&MftBlocks> {
        self.0.get(switch)
    }

    /// Writes a block.
    pub fn set_block(&mut self, switch: SwitchIdx, (block, position): (u16, u8), data: MftBlock) {
        if let Some(blocks) = self.0.get_mut(switch) {
            blocks.insert((block, position), data);
        }
    }

    /// Returns the ports to which a switch copies packets of a group.
    #[must_use]
    pub fn mask(&self, switch: SwitchIdx, mlid: Lid) -> PortMask {
        let (block, entry) = place(mlid);
        let mut mask = PortMask::default();
        let Some(blocks) = self.0.get(switch) else { return mask };
        for (&(_, position), data) in blocks.range((block, 0)..=(block, u8::MAX)) {
            mask.set_position(position, data[entry]);
        }
        mask
    }

    /// Replaces the mask of a multicast LID at a switch.
    pub fn set_mask(&mut self, switch: SwitchIdx, mlid: Lid, mask: PortMask) {
        let (block, entry) = place(mlid);
        let Some(blocks) = self.0.get_mut(switch) else { return };
        for position in 0..MFT_PORTS as u8 {
            let ports = mask.position(position);
            match blocks.get_mut(&(block, position)) {
                Some(data) => data[entry] = ports,
                None if ports != 0 => {
                    let mut data = [0; MFT_LIDS];
                    data[entry] = ports;
                    blocks.insert((block, position), data);
                }
                None => {}
            }
        }
    }

    /// Returns the LIDs with packets that some switch copies, ascending.
    #[must_use]
    pub fn mlids(&self) -> Vec<Lid> {
        let mut used: BTreeMap<u16, u32> = BTreeMap::new();
        for blocks in self.0.iter() {
            for (&(block, _), data) in blocks {
                let bits = data.iter().enumerate().filter(|(_, mask)| **mask != 0);
                *used.entry(block).or_default() |= bits.fold(0, |all, (entry, _)| all | 1 << entry);
            }
        }
        let lids = used.into_iter().flat_map(|(block, entries)| {
            let entries = (0..MFT_LIDS as u16).filter(move |entry| entries >> entry & 1 != 0);
            entries.map(move |entry| Lid(Lid::MULTICAST_MIN.0 + block * MFT_LIDS as u16 + entry))
        });
        lids.collect()
    }
}

/// One Set of a MulticastForwardingTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MftSet {
    /// The switch.
    pub switch: SwitchIdx,
    /// Block number.
    pub block: u16,
    /// Position of the block, which selects 16 ports.
    pub position: u8,
    /// Masks of the block.
    pub data: MftBlock,
}

/// All Sets that change multicast tables to others, in phases; each phase begins when the previous one is acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MulticastChange {
    /// Generation of the plan.
    pub generation: Generation,
    /// Phases, none of which is empty. The Sets of one may be sent in any order.
    pub phases: Vec<Vec<MftSet>>,
}

impl MulticastChange {
    /// Returns the number of Sets.
    #[must_use]
    pub fn sets(&self) -> usize {
        self.phases.iter().map(Vec::len).sum()
    }
}

/// Returns the Sets that change tables to others. Ports that only the old tables have are removed first; when that is
/// acknowledged, ports that only the new tables have are added. So every mix of old and new tables is a part of one of
/// the two trees, and a part of a tree has no loop. A group that only grows, or only shrinks, needs one phase.
#[must_use]
pub fn multicast_changes(generation: Generation, held: &MulticastTables, wanted: &MulticastTables) -> MulticastChange {
    let mut phases = [Vec::new(), Vec::new()];
    for (switch, blocks) in wanted.0.iter_enumerated() {
        let before = held.blocks(switch);
        let places = blocks.keys().chain(before.into_iter().flat_map(BTreeMap::keys));
        let mut places: Vec<(u16, u8)> = places.copied().collect();
        places.sort_unstable();
        places.dedup();
        for (block, position) in places {
            let (old, new) = (
                held.block(switch, block, position),
                wanted.block(switch, block, position),
            );
            let pruned: MftBlock = std::array::from_fn(|i| old[i] & new[i]);
            let steps = [(old, pruned), (pruned, new)];
            for (phase, (_, data)) in phases.iter_mut().zip(steps).filter(|(_, (from, to))| from != to) {
                phase.push(MftSet {
                    switch,
                    block,
                    position,
                    data,
                });
            }
        }
    }
    for phase in &mut phases {
        // Consecutive Sets go to different switches.
        phase.sort_by_key(|set| (set.block, set.position, set.switch));
    }
    MulticastChange {
        generation,
        phases: phases.into_iter().filter(|phase| !phase.is_empty()).collect(),
    }
}

/// Returns the switch, and its ingress port, at which packets of an end port enter the fabric. `None` without a switch,
/// or if the link between them is not ACTIVE.
#[must_use]
pub fn entry_of(fabric: &Fabric, at: PortRef) -> Option<(SwitchIdx, PortNum)> {
    if let Some(own) = fabric.switch_index(at.node) {
        return (at.port == PortNum::MANAGEMENT).then_some((own, PortNum::MANAGEMENT));
    }
    let is_active = |at| fabric.port(at).is_some_and(|port| port.link.state == PortState::Active);
    let peer = fabric.peer(at).filter(|&peer| is_active(at) && is_active(peer))?;
    Some((fabric.switch_index(peer.node)?, peer.port))
}

/// Returns the blocks of a switch's table that groups up to `mlid` need: for each block of multicast LIDs, every
/// position (group of 16 ports) that has ports of the switch.
pub fn blocks_up_to(port_count: u8, mlid: Lid) -> impl Iterator<Item = (u16, u8)> {
    let last = port_count / MFT_PORTS as u8;
    (0..=place(mlid).0).flat_map(move |block| (0..=last).map(move |position| (block, position)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(ports: &[u8]) -> PortMask {
        let mut mask = PortMask::default();
        ports.iter().for_each(|&port| mask.insert(PortNum::new(port).unwrap()));
        mask
    }

    fn tables(masks: &[(u16, &[u8])]) -> MulticastTables {
        let mut tables = MulticastTables::new(2);
        for (mlid, ports) in masks {
            tables.set_mask(SwitchIdx(1), Lid(*mlid), mask(ports));
        }
        tables
    }

    #[test]
    fn masks_and_blocks_are_the_same_bits() {
        let tables = tables(&[(0xC021, &[0, 1, 36, 254])]);
        let ports: Vec<u8> = tables
            .mask(SwitchIdx(1), Lid(0xC021))
            .iter()
            .map(PortNum::get)
            .collect();
        assert_eq!(ports, [0, 1, 36, 254]);
        assert_eq!(tables.block(SwitchIdx(1), 1, 0)[1], 0b11);
        assert_eq!(tables.block(SwitchIdx(1), 1, 2)[1], 1 << 4);
        assert_eq!(tables.block(SwitchIdx(1), 1, 15)[1], 1 << 14);
        assert!(tables.mask(SwitchIdx(0), Lid(0xC021)).is_empty());
        assert!(tables.mask(SwitchIdx(1), Lid(0xC001)).is_empty());
        assert_eq!(tables.mlids(), [Lid(0xC021)]);
    }

    #[test]
    fn what_goes_goes_before_what_comes() {
        let check = |old: &[(u16, &[u8])], new: &[(u16, &[u8])], want: &[&[(u16, u8, usize, u16)]]| {
            let change = multicast_changes(Generation(1), &tables(old), &tables(new));
            let found: Vec<Vec<(u16, u8, usize, u16)>> = (change.phases.iter())
                .map(|phase| {
                    let entries = phase.iter().flat_map(|set| {
                        let entries = set.data.iter().enumerate();
                        entries.map(move |(i, mask)| (set.block, set.position, i, *mask))
                    });
                    entries.filter(|(_, _, i, mask)| *mask != 0 || *i == 0).collect()
                })
                .collect();
            assert_eq!(found, want, "{old:?} to {new:?}");
        };
        check(&[(0xC000, &[1])], &[(0xC000, &[1])], &[]);
        check(&[], &[(0xC000, &[1])], &[&[(0, 0, 0, 2)]]);
        check(&[(0xC000, &[1, 2])], &[(0xC000, &[1])], &[&[(0, 0, 0, 2)]]);
        check(
            &[(0xC000, &[1, 2])],
            &[(0xC000, &[1, 3])],
            &[&[(0, 0, 0, 2)], &[(0, 0, 0, 0b1010)]],
        );
        check(
            &[(0xC000, &[1]), (0xC001, &[2])],
            &[(0xC000, &[1, 17]), (0xC001, &[])],
            &[&[(0, 0, 0, 2)], &[(0, 1, 0, 2)]],
        );
    }

    #[test]
    fn groups_without_members_end() {
        let group = |members: &[u64]| MulticastGroup {
            mlid: Lid(0xC000),
            mtu: Mtu::B2048,
            sl: Sl::default(),
            members: members
                .iter()
                .map(|&guid| Member {
                    guid: Guid(guid),
                    receives: true,
                })
                .collect(),
        };
        let mut groups = MulticastGroups::default();
        assert!(!groups.put(group(&[])));
        assert!(groups.put(group(&[1])));
        assert!(!groups.put(group(&[1])));
        assert!(groups.put(group(&[])));
        assert!(groups.is_empty());
    }
}
