//! The plan: the wanted state of the fabric.

use selvedge_plan::{BLOCK_LIDS, ChangeCount, NO_PATH};
use serde::{Deserialize, Serialize};

use crate::Body;

/// The plan in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Counts plans.
    pub generation: u64,
    /// The routing engine that made the tables.
    pub engine: String,
    /// LIDs in use.
    pub lids: u64,
    /// Highest LID.
    pub top_lid: u16,
    /// Data lanes used.
    pub lanes: u8,
    /// Forwarding blocks of each switch.
    pub lft_blocks_per_switch: u64,
    /// Forwarding entries with an egress port, of all switches.
    pub lft_entries: u64,
    /// The changes that the plan needs.
    pub changes: Changes,
}

impl Body for Plan {
    const SCHEMA: &'static str = "selvedge.plan";
}

impl Plan {
    /// Returns the summary of a plan.
    #[must_use]
    pub fn of(plan: &selvedge_plan::Plan, changes: Changes) -> Self {
        let tables = &plan.tables;
        let entries = |switch| {
            (0..tables.blocks())
                .flat_map(|block| tables.block(switch, block))
                .filter(|&&egress| egress != NO_PATH)
                .count() as u64
        };
        Self {
            generation: plan.generation.0,
            engine: plan.engine.0.clone(),
            lids: plan.lids.by_lid().count() as u64,
            top_lid: plan.lids.top().0,
            lanes: plan.lanes,
            lft_blocks_per_switch: tables.blocks() as u64,
            lft_entries: tables.switch_indices().map(entries).sum(),
            changes,
        }
    }
}

/// Sets by attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// All Sets needed.
    pub sets: u64,
    /// Number of blocks of forwarding tables.
    pub lft_blocks: u64,
    /// Number of Sets of PortInfo.
    pub ports: u64,
    /// Number of Sets of SwitchInfo.
    pub switches: u64,
    /// Number of blocks of P_Key tables.
    pub pkeys: u64,
    /// Number of SLtoVLMappingTables and VLArbitrationTables.
    #[serde(default)]
    pub lane_tables: u64,
    /// Number of Sets that were acknowledged.
    pub acknowledged: u64,
    /// Number of Sets that failed.
    pub failed: u64,
}

impl Changes {
    /// Returns the figures from the counts of a change set and the outcomes of its Sets.
    #[must_use]
    pub const fn of(count: ChangeCount, acknowledged: usize, failed: usize) -> Self {
        Self {
            sets: count.total() as u64,
            lft_blocks: count.lft_blocks as u64,
            ports: count.ports as u64,
            switches: count.switches as u64,
            pkeys: count.pkeys as u64,
            lane_tables: count.lane_tables as u64,
            acknowledged: acknowledged as u64,
            failed: failed as u64,
        }
    }
}

/// Forwarding entries that differ between two plans, for switches and LIDs that are in both plans. A LID that is only
/// in one plan does not count as rerouted, because switches may hold entries of such a LID in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reroute {
    /// Entries.
    pub entries: u64,
    /// Blocks of 64 entries, as switches are written.
    pub blocks: u64,
    /// Switches.
    pub switches: u64,
    /// Entries with an egress port before, for comparison.
    pub entries_before: u64,
}

impl Reroute {
    /// Compares two plans by the GUIDs of their switches.
    #[must_use]
    pub fn between(
        (old_fabric, old): (&selvedge_fabric::Fabric, &selvedge_plan::Plan),
        (new_fabric, new): (&selvedge_fabric::Fabric, &selvedge_plan::Plan),
    ) -> Self {
        let mut reroute = Self::default();
        let blocks = new.tables.blocks().max(old.tables.blocks());
        let lids = (0..blocks * BLOCK_LIDS).map(|lid| selvedge_types::Lid(u16::try_from(lid).unwrap_or(u16::MAX)));
        let is_owned = |lid| old.lids.owner(lid).is_some() && new.lids.owner(lid).is_some();
        let is_in_both: Vec<bool> = lids.map(is_owned).collect();
        for switch in new.tables.switch_indices() {
            let guid = new_fabric.switch(switch).guid;
            let Some(before) = old_fabric.find(guid).and_then(|node| old_fabric.switch_index(node)) else {
                continue;
            };
            let mut changed = 0;
            for block in 0..blocks {
                let row = |tables: &selvedge_plan::Tables, switch| match block < tables.blocks() {
                    true => *tables.block(switch, block),
                    false => [NO_PATH; BLOCK_LIDS],
                };
                let (mut was, mut is) = (row(&old.tables, before), row(&new.tables, switch));
                for (at, (was, is)) in was.iter_mut().zip(&mut is).enumerate() {
                    if !is_in_both[block * BLOCK_LIDS + at] {
                        (*was, *is) = (NO_PATH, NO_PATH);
                    }
                }
                reroute.entries_before += was.iter().filter(|&&egress| egress != NO_PATH).count() as u64;
                if was != is {
                    reroute.blocks += 1;
                    changed += was.iter().zip(&is).filter(|(was, is)| was != is).count() as u64;
                }
            }
            reroute.entries += changed;
            reroute.switches += u64::from(changed > 0);
        }
        reroute
    }
}

impl std::fmt::Display for Reroute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            entries,
            blocks,
            switches,
            entries_before,
        } = self;
        write!(
            f,
            "{entries} forwarding entries changed, in {blocks} blocks of {switches} switches; {entries_before} led \
             somewhere before"
        )
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node, NodeIdx, PortRef, SwitchIdx};
    use selvedge_plan::{EngineName, Generation, Lids, Tables};
    use selvedge_types::{Guid, Lid, LidRange, NodeKind, PortNum};

    use super::*;

    /// Switches with these GUIDs, and a plan with these LIDs.
    fn planned(guids: &[u64], owned: &[u16]) -> (selvedge_fabric::Fabric, selvedge_plan::Plan) {
        let mut builder = FabricBuilder::new();
        for &guid in guids {
            builder.add(Node::new(NodeKind::Switch, Guid(guid), 4, "s"));
        }
        let mut lids = Lids::new();
        for (port, &lid) in (0..).zip(owned) {
            let (node, port) = (NodeIdx(0), PortNum::new(port).unwrap());
            lids.insert(PortRef { node, port }, LidRange::single(Lid(lid))).unwrap();
        }
        let top = owned.iter().copied().max().unwrap();
        let plan = selvedge_plan::Plan {
            generation: Generation(1),
            engine: EngineName("minhop".to_owned()),
            lids,
            tables: Tables::new(guids.len(), Lid(top)),
            service_levels: Default::default(),
            sl_to_vl: Default::default(),
            lanes: 1,
            lane_tables: None,
            ports: Default::default(),
            end_ports: Default::default(),
            switches: Default::default(),
        };
        (builder.finish().unwrap(), plan)
    }

    #[test]
    fn switches_are_compared_by_guid() {
        let (old_fabric, mut old) = planned(&[1, 2], &[1, 2, 3]);
        old.tables.set(SwitchIdx(1), Lid(1), 4);
        old.tables.set(SwitchIdx(1), Lid(2), 4);
        old.tables.set(SwitchIdx(1), Lid(3), 4);
        // Switch 1 is gone, 3 is new, and 2 has become the first. LID 3 is gone and 70 is new: nothing is rerouted
        // there.
        let (new_fabric, mut new) = planned(&[2, 3], &[1, 2, 70]);
        new.tables.set(SwitchIdx(0), Lid(1), 4);
        new.tables.set(SwitchIdx(0), Lid(2), 5);
        new.tables.set(SwitchIdx(0), Lid(70), 5);
        new.tables.set(SwitchIdx(1), Lid(1), 9);
        let reroute = Reroute::between((&old_fabric, &old), (&new_fabric, &new));
        assert_eq!(
            reroute.to_string(),
            "1 forwarding entries changed, in 1 blocks of 1 switches; 2 led somewhere before"
        );
    }
}
