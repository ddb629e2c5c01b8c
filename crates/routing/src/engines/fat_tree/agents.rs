//! Routes between the agents of upper switches that have no path up, then down, to each other: the tops of a tree.

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, Tables};
use selvedge_types::{Idx, Lid, PortNum};

use super::FatTree;
use super::shape::Slot;

impl FatTree {
    /// If a switch has no entry for another switch's LID, gives it the entry that it has for a leaf from which the
    /// other switch is reached. As far as possible, this is the same leaf for all switches.
    ///
    /// Packets go towards the leaf until a switch has an entry for them, so they arrive. Only agents use these entries:
    /// a packet of a host meets no switch without an entry. The turns of these routes from down to up are the only such
    /// turns in the tree, all at one leaf or straight above it. All other packets that come down to a leaf end there,
    /// and all other packets that go up from a leaf begin there. So in a whole tree the turns close no cycle. In a
    /// damaged tree they may close one: the judge checks that, and reports cycles of traffic between switches
    /// separately.
    ///
    /// If the route to the leaf goes up, each block with LIDs of switches uses another upper switch. Otherwise one link
    /// would carry all these routes, and its loss would change every second block of the switch's table.
    pub(crate) fn join_agents(&self, fabric: &Fabric, lids: &Lids, tables: &mut Tables) {
        let leaves: Vec<_> = self.leaf_switches().collect();
        let lid_of = |switch: SwitchIdx| {
            let (node, port) = (fabric.switches()[switch], PortNum::MANAGEMENT);
            lids.base(PortRef { node, port }).filter(|&lid| lid <= tables.top())
        };
        let leaf_lids: Vec<Option<Lid>> = leaves.iter().map(|&leaf| lid_of(leaf)).collect();
        let mut blocks: Vec<usize> = fabric.switches().indices().filter_map(lid_of).map(block_of).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let mut given = Vec::new();
        // The way that each switch took last, as long as block and leaf stay the same: most do.
        let mut last: Vec<Option<(usize, Lid, u8)>> = vec![None; fabric.switches().len()];
        for (lid, owner) in lids.by_lid().filter(|&(lid, _)| lid <= tables.top()) {
            let Some(own) = fabric.switch_index(owner.node) else {
                continue;
            };
            let (block, entry) = (block_of(lid), lid.index() % BLOCK_LIDS);
            let nth = blocks.partition_point(|&other| other < block);
            let tile = tables.tile(block);
            // Leaves from which the switch is reached.
            let meeting = || {
                let leads_on = move |leaf: SwitchIdx| leaf != own && tile[leaf.to_usize()][entry] != NO_PATH;
                let known = leaves.iter().zip(&leaf_lids).filter(move |&(&leaf, _)| leads_on(leaf));
                known.filter_map(|(&leaf, lid)| Some((leaf, (*lid)?)))
            };
            let Some((_, nearest)) = meeting().next() else {
                continue;
            };
            let lacks = |&(row, s): &(&[u8; BLOCK_LIDS], SwitchIdx)| row[entry] == NO_PATH && s != own;
            for (_, s) in tile.iter().zip(tables.switch_indices()).filter(lacks) {
                let same = last[s.to_usize()].filter(|&(block, leaf, _)| (block, leaf) == (nth, nearest));
                let egress = same.map(|(_, _, egress)| egress).or_else(|| {
                    let (leaf, lid) = meeting().find(|&(_, leaf)| tables.get(s, leaf) != NO_PATH)?;
                    let egress = self.way_to_leaf(tables, s, (leaf, lid), nth);
                    last[s.to_usize()] = Some((nth, lid, egress));
                    Some(egress)
                });
                given.extend(egress.map(|egress| (s, lid, egress)));
            }
        }
        given.iter().for_each(|&(s, lid, egress)| tables.set(s, lid, egress));
    }

    /// Returns the egress from a switch to a leaf for the n-th block of LIDs: the egress in its table, or another one
    /// upwards.
    fn way_to_leaf(&self, tables: &Tables, s: SwitchIdx, (leaf, lid): (SwitchIdx, Lid), nth: usize) -> u8 {
        let (shape, from) = (&self.rule.shape, s.to_usize());
        let (egress, slots) = (tables.get(s, lid), shape.up.get(from));
        if !slots.iter().any(|slot| shape.ports(slot).contains(&egress)) {
            return egress;
        }
        let leads_on = |peer: u32| {
            let real = (peer as usize) < self.rule.net.real;
            real && self.rule.leads(from, peer as usize, leaf.to_usize()) && tables.get(SwitchIdx(peer), lid) != NO_PATH
        };
        // In the order of positions, so that a hole moves only the entries that led there.
        let first = nth % slots.len();
        let after = slots[first..].iter().chain(&slots[..first]);
        let mut good = after.filter(|slot| slot.live && leads_on(slot.peer));
        let port = |slot: &Slot| shape.ports(slot).iter().copied().find(|&port| port != 0);
        good.find_map(port).unwrap_or(egress)
    }

    /// Switches of the lowest level.
    fn leaf_switches(&self) -> impl Iterator<Item = SwitchIdx> + '_ {
        let here = self.rule.shape.leaves.iter().map(|&leaf| leaf as usize);
        here.filter(|&leaf| leaf < self.rule.net.real)
            .map(SwitchIdx::from_usize)
    }
}

const fn block_of(lid: Lid) -> usize {
    lid.index() / BLOCK_LIDS
}
