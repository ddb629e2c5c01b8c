//! Copies beside routes: what new routes may close a circle with is taken out before they are in force.
//!
//! Trees are judged beside the routes in force. When routes change, the trees in force must fit beside the new ones as
//! well, and beside every mix of old and new. Nearly always they do. Where they do not, the groups concerned are taken
//! apart first: switches copy to members of their own only, which holds no link for another. Their trees are laid anew
//! as soon as the routes are in force.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::multicast::{
    MftBlocks, MulticastChange, MulticastGroups, MulticastTables, PortMask, multicast_changes,
};
use selvedge_plan::{BLOCK_LIDS, Op};
use selvedge_types::{Guid, Idx, Lid, PortNum};
use selvedge_verify::standing::CopyTurns;
use selvedge_verify::{Judged, OtherBlock, RouteTurns, Subject, circular_groups};

use crate::job::{Job, JobResult};

/// What switches copy while routes are planned.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    /// All groups.
    pub groups: Arc<MulticastGroups>,
    /// What switches hold, by GUID.
    pub held: Arc<BTreeMap<Guid, MftBlocks>>,
    /// What copies wait for, for a proof that stands.
    pub turns: Arc<CopyTurns>,
}

impl Copies {
    /// What switches of a fabric hold.
    fn tables(&self, fabric: &Fabric) -> MulticastTables {
        let mut tables = MulticastTables::new(fabric.switches().len());
        for switch in fabric.switches().indices() {
            let held = self.held.get(&fabric.switch(switch).guid);
            for (&place, &data) in held.into_iter().flatten() {
                tables.set_block(switch, place, data);
            }
        }
        tables
    }
}

/// Tables with some groups taken apart: each switch copies to members of its own only.
pub fn taken_apart(fabric: &Fabric, held: &MulticastTables, groups: &BTreeSet<Lid>) -> MulticastTables {
    let mut tables = held.clone();
    for switch in fabric.switches().indices() {
        let node = fabric.switches()[switch];
        let is_own = |port: &PortNum| {
            let at = PortRef { node, port: *port };
            let peer = fabric.peer(at);
            *port == PortNum::MANAGEMENT || peer.is_some_and(|peer| fabric.switch_index(peer.node).is_none())
        };
        for &mlid in groups {
            let mut mask = PortMask::default();
            held.mask(switch, mlid)
                .iter()
                .filter(is_own)
                .for_each(|port| mask.insert(port));
            tables.set_mask(switch, mlid, mask);
        }
    }
    tables
}

impl Job {
    /// What routes of the plan in force wait for, and of entries that packets may be under way by.
    pub(super) fn route_turns(&self, fabric: &Fabric, with_under_way: bool) -> Option<RouteTurns> {
        let plan = self.plan_in_force.as_ref()?;
        let under_way = self.under_way.as_ref().filter(|_| with_under_way);
        let blocks = under_way
            .iter()
            .flat_map(|past| past.phases.iter().chain(std::iter::once(&past.before)));
        let others: Vec<OtherBlock<'_>> = blocks
            .flatten()
            .map(|(switch, block, data)| (*switch, *block, data))
            .collect();
        Some(RouteTurns::new(Subject::plan(fabric, plan), &others))
    }

    /// Adds to a result what must be written before its plan is applied: groups that must be taken apart.
    pub(crate) fn with_copies_first(&self, mut result: JobResult) -> JobResult {
        let Some(outcome) = result.outcome.as_ref().filter(|_| !self.copies.held.is_empty()) else {
            return result;
        };
        let changes = outcome.changes.value();
        let writes = |op: &Op| matches!(op, Op::Lft { .. } | Op::Port { .. });
        if !changes.phases.iter().any(|phase| phase.ops.iter().any(writes)) {
            return result;
        }
        let inventory = result.inventory.as_ref().unwrap_or(&self.inventory);
        let fabric = &inventory.fabric;
        let tables = self.copies.tables(fabric);
        let (plan, installed) = (&outcome.plan, result.installed.as_ref().unwrap_or(&self.installed));
        let mut others: Vec<OtherBlock<'_>> = Vec::new();
        for switch in fabric
            .switches()
            .indices()
            .filter(|s| s.to_usize() < installed.lfts.len())
        {
            let blocks = (0..=u16::MAX / BLOCK_LIDS as u16).take(installed.lfts[switch].len());
            others.extend(blocks.filter_map(|block| Some((switch, block, installed.block(switch, block.into())?))));
        }
        let under_way = self.under_way.as_ref().or(installed.under_way.as_ref());
        let past = under_way
            .iter()
            .flat_map(|past| past.phases.iter().chain(std::iter::once(&past.before)));
        others.extend(past.flatten().map(|(switch, block, data)| (*switch, *block, data)));
        for op in changes.phases.iter().flat_map(|phase| &phase.ops) {
            if let Op::Lft { node, block, data } = op {
                others.extend(fabric.switch_index(*node).map(|switch| (switch, *block, data)));
            }
        }
        let routes = RouteTurns::new(Subject::plan(fabric, plan), &others);
        let groups = circular_groups(&routes, &self.copies.groups, &tables);
        if !groups.is_empty() {
            result.copies_first = self.take_apart(fabric, &tables, &groups).map(Box::new);
        }
        result
    }

    /// The change that takes groups apart, judged.
    pub(super) fn take_apart(
        &self,
        fabric: &Fabric,
        held: &MulticastTables,
        groups: &BTreeSet<Lid>,
    ) -> Option<TakenApart> {
        let wanted = taken_apart(fabric, held, groups);
        let change = multicast_changes(self.generation, held, &wanted);
        let change = self
            .judge
            .judge_taking_away(&self.inventory, fabric, held, change)
            .ok()?;
        Some(TakenApart {
            change,
            groups: groups.clone(),
        })
    }
}

/// Groups that are taken apart.
#[derive(Clone, Debug)]
pub struct TakenApart {
    /// The way there.
    pub change: Judged<MulticastChange>,
    /// Which.
    pub groups: BTreeSet<Lid>,
}
