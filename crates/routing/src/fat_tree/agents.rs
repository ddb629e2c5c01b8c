//! Ways between the agents of upper switches, which no path that goes up, then down joins: the tops of a tree.

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, Tables};
use selvedge_types::{Idx, Lid, PortNum};

use super::FatTree;

impl FatTree {
    /// Gives a switch without an entry for another switch's LID the entry it has for a leaf from which that switch is
    /// reached, one leaf for all as far as possible.
    ///
    /// Packets go towards the leaf until a switch knows the way, so they arrive. Only agents use these entries: a
    /// packet of a host meets no switch without an entry. They make the only turns from down to up of the tree, all at
    /// one leaf or straight above it: what comes down to a leaf ends there, and what goes up from a leaf begins there,
    /// so in a whole tree the turns close no cycle. In a damaged one they may; the judge looks, and reports cycles of
    /// traffic between switches apart.
    pub(crate) fn join_agents(&self, fabric: &Fabric, lids: &Lids, tables: &mut Tables) {
        let leaves: Vec<_> = self.leaf_switches().collect();
        let lid_of = |switch: SwitchIdx| {
            let (node, port) = (fabric.switches()[switch], PortNum::MANAGEMENT);
            lids.base(PortRef { node, port }).filter(|&lid| lid <= tables.top())
        };
        let leaf_lids: Vec<Option<Lid>> = leaves.iter().map(|&leaf| lid_of(leaf)).collect();
        let mut given = Vec::new();
        for (lid, owner) in lids.by_lid().filter(|&(lid, _)| lid <= tables.top()) {
            let Some(own) = fabric.switch_index(owner.node) else {
                continue;
            };
            let (block, entry) = (lid.index() / BLOCK_LIDS, lid.index() % BLOCK_LIDS);
            let entries = tables.tile(block).iter().zip(tables.switch_indices());
            let lacks = |&(row, s): &(&[u8; BLOCK_LIDS], SwitchIdx)| row[entry] == NO_PATH && s != own;
            let mut lacking = entries.filter(lacks).map(|(_, s)| s).peekable();
            if lacking.peek().is_none() {
                continue;
            }
            let leads_on = |&(&leaf, _): &(&SwitchIdx, &Option<Lid>)| leaf != own && tables.get(leaf, lid) != NO_PATH;
            let meeting: Vec<Lid> = leaves
                .iter()
                .zip(&leaf_lids)
                .filter(leads_on)
                .filter_map(|(_, l)| *l)
                .collect();
            for s in lacking {
                let way = meeting
                    .iter()
                    .map(|&leaf| tables.get(s, leaf))
                    .find(|&egress| egress != NO_PATH);
                given.extend(way.map(|egress| (s, lid, egress)));
            }
        }
        given.iter().for_each(|&(s, lid, egress)| tables.set(s, lid, egress));
    }

    /// Switches of the lowest level.
    fn leaf_switches(&self) -> impl Iterator<Item = SwitchIdx> + '_ {
        let here = self.rule.shape.leaves.iter().map(|&leaf| leaf as usize);
        here.filter(|&leaf| leaf < self.rule.net.real)
            .map(SwitchIdx::from_usize)
    }
}
