//! Checks that tables contain no forwarding loop while a subnet is brought up for the first time.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_chassis::{Chassis, Egress, PortIdx, SwitchData};
use selvedge_fabric::NodeIdx;
use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_types::Lid;

use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::masters::only_master;
use super::names::node_name;
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::manager::AcceptedPlan;
use crate::subnet::{Subnets, is_up};

/// Forwarding loops while a subnet is brought up.
#[derive(Debug, Default)]
pub(super) struct BringUp {
    looked_at: LookedAt,
    /// Current loops, each as the switch of the Set that closed it, and the LID.
    loops: BTreeSet<(NodeIdx, Lid)>,
    met: u64,
}

impl Check for BringUp {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        match *seen {
            Seen::Rewired { are_cables_moved: true } | Seen::ForeignSet => self.looked_at.forget(),
            Seen::Rewired { .. } => self.looked_at.forget_lids(),
            Seen::Event { changes, .. }
                if changes.are_cables_moved || changes.are_lids_changed || !changes.linear.is_empty() =>
            {
                return self.no_loops(ctx, &changes.linear);
            }
            Seen::Content { at, .. } => return none_stays(ctx, at),
            _ => {}
        }
        Ok(())
    }
}

impl BringUp {
    /// Returns how many loops were found half-way between two plans.
    pub const fn met(&self) -> u64 {
        self.met
    }

    /// Fails if packets loop while the first plan of a subnet is written, however few of its tables are written yet and
    /// whether links are ACTIVE or not. When routes change later, old and new tables together may for a moment make a
    /// loop over links that are not ACTIVE; such loops are only counted. Loops over ACTIVE links are found by the
    /// checkers of routes.
    fn no_loops(&mut self, scene: &Scene<'_>, written: &[NodeIdx]) -> Result<(), Violation> {
        let chassis = scene.chassis();
        self.loops.retain(|&(switch, lid)| loops(chassis, switch, lid));
        for &switch in written {
            let Some(own) = chassis.port_at(switch, 0) else {
                continue;
            };
            let found = self.loops_at(scene, switch, own);
            let Some(&lid) = found.first() else { continue };
            let plan = only_master(scene, own).and_then(|life| life.plans.accepted());
            if plan.is_some_and(|plan| plan.is_first && holds_only(scene, own, plan)) {
                return Err(Violation::Loop {
                    lid,
                    switch: node_name(chassis, switch),
                });
            }
            for lid in found {
                self.met += u64::from(self.loops.insert((switch, lid)));
            }
        }
        Ok(())
    }

    /// Returns the LIDs of live ports with packets that loop at a switch. Only two kinds of LIDs are examined: LIDs
    /// with an entry at this switch that changed since the last check, and LIDs that looped at the last check.
    fn loops_at(&mut self, scene: &Scene<'_>, switch: NodeIdx, own: PortIdx) -> Vec<Lid> {
        let chassis = scene.chassis();
        let known = self.loops.range((switch, Lid(0))..=(switch, Lid(u16::MAX)));
        let known: Vec<Lid> = known.map(|&(_, lid)| lid).collect();
        let mut lids = self.looked_at.unknown(chassis, switch);
        lids.extend(known);
        let group = scene.subnets.group(own);
        lids.retain(|&lid| {
            let is_loop = loops(chassis, switch, lid);
            let is_live = is_loop && self.looked_at.is_live(chassis, scene.subnets, group, lid);
            if is_loop && !is_live {
                self.looked_at.sleeps(switch, lid);
            }
            is_live
        });
        lids.into_iter().collect()
    }
}

/// True if all blocks in the switches of a subnet are empty or as in this plan.
fn holds_only(scene: &Scene<'_>, own: PortIdx, accepted: &AcceptedPlan) -> bool {
    let (chassis, subnets) = (scene.chassis(), scene.subnets);
    let is_here = |node: NodeIdx| {
        let port = chassis.port_at(node, 0);
        port.is_some_and(|port| subnets.connected(port, own))
    };
    let mut here = chassis.fabric().switches().iter().filter(|node| is_here(**node));
    here.all(|&node| {
        let planned = accepted
            .fabric
            .find(chassis.node_guid(node))
            .and_then(|n| accepted.fabric.switch_index(n));
        let held = chassis.switch(node).map(SwitchData::linear_blocks).unwrap_or_default();
        let tables = &accepted.plan.tables;
        held.iter().enumerate().all(|(block, entries)| {
            let is_planned = |s| block < tables.blocks() && tables.block(s, block) == entries;
            entries.iter().all(|&e| e == NO_PATH) || planned.is_some_and(is_planned)
        })
    })
}

/// Fails if a forwarding loop is left although the master of the subnet of a port is idle.
fn none_stays(scene: &Scene<'_>, at: PortIdx) -> Result<(), Violation> {
    let (chassis, subnets) = (scene.chassis(), scene.subnets);
    let lids = live_lids(chassis, subnets, subnets.group(at));
    for &switch in chassis.fabric().switches().iter() {
        let own = chassis.port_at(switch, 0);
        let is_here = own.is_some_and(|own| subnets.connected(own, at));
        if let Some(&lid) = lids.iter().find(|&&lid| is_here && loops(chassis, switch, lid)) {
            return Err(Violation::Loop {
                lid,
                switch: node_name(chassis, switch),
            });
        }
    }
    Ok(())
}

/// Returns the LIDs that live ports of one subnet hold.
fn live_lids(chassis: &Chassis, subnets: &Subnets, group: PortIdx) -> Vec<Lid> {
    let ports = subnets.live().iter().filter(|&&port| subnets.group(port) == group);
    let ranges = ports
        .map(|&port| chassis.port(port).settings().lids)
        .filter(|range| range.base.is_unicast());
    ranges.flat_map(|range| range.iter()).collect()
}

/// True if packets to `lid` that are at `switch` never leave the switches.
fn loops(chassis: &Chassis, switch: NodeIdx, lid: Lid) -> bool {
    let mut at = switch;
    for _ in 0..=chassis.fabric().switches().len() {
        let Egress::Port(out) = chassis.egress(at, lid) else {
            return false;
        };
        if !is_up(chassis, out) {
            return false;
        }
        match chassis.wire(out).peer().map(|peer| chassis.wire(peer).node()) {
            Some(next) if chassis.is_switch(next) => at = next,
            Some(_) | None => return false,
        }
    }
    true
}

/// The entries that have been checked for loops.
#[derive(Debug, Default)]
struct LookedAt {
    /// LinearFDBTop and blocks when last checked, by switch.
    entries: BTreeMap<NodeIdx, (u16, Vec<[u8; BLOCK_LIDS]>)>,
    /// LIDs that looped while no port held them. They are checked again when their switch is next written.
    dormant: BTreeSet<(NodeIdx, Lid)>,
    /// LIDs that live ports hold, by group of the subnet, until LIDs change.
    live: BTreeMap<PortIdx, BTreeSet<Lid>>,
}

impl LookedAt {
    /// Called when ports took, lost or changed LIDs: the known LIDs of live ports are dropped.
    fn forget_lids(&mut self) {
        self.live.clear();
    }

    /// Forgets the results of earlier checks, because cables were moved: when a switch is next written, all its entries
    /// are checked.
    fn forget(&mut self) {
        *self = Self::default();
    }

    /// Returns LIDs with entries at a switch that were not checked for a loop yet.
    fn unknown(&mut self, chassis: &Chassis, switch: NodeIdx) -> BTreeSet<Lid> {
        let mut lids: BTreeSet<Lid> = BTreeSet::new();
        let Some(data) = chassis.switch(switch) else {
            return lids;
        };
        let (blocks, top) = (data.linear_blocks(), data.settings().linear_top);
        let (top_before, before) = self.entries.entry(switch).or_default();
        if std::mem::replace(top_before, top) != top {
            before.clear();
        }
        before.resize(blocks.len(), [NO_PATH; BLOCK_LIDS]);
        for (block, (now, was)) in blocks
            .iter()
            .zip(before)
            .enumerate()
            .filter(|(_, (now, was))| now != was)
        {
            let differ = now
                .iter()
                .zip(was.iter())
                .enumerate()
                .filter(|(_, (now, was))| now != was);
            let of_block = differ.filter_map(|(entry, _)| u16::try_from(block * BLOCK_LIDS + entry).ok());
            lids.extend(of_block.map(Lid));
            *was = *now;
        }
        let dormant: Vec<(NodeIdx, Lid)> = (self.dormant)
            .range((switch, Lid(0))..=(switch, Lid(u16::MAX)))
            .copied()
            .collect();
        for at in dormant {
            self.dormant.remove(&at);
            lids.insert(at.1);
        }
        lids
    }

    /// Records that a LID loops although no port holds it.
    fn sleeps(&mut self, switch: NodeIdx, lid: Lid) {
        self.dormant.insert((switch, lid));
    }

    /// True if a live port of the subnet holds the LID.
    fn is_live(&mut self, chassis: &Chassis, subnets: &Subnets, group: PortIdx, lid: Lid) -> bool {
        let live = self.live.entry(group);
        let live = live.or_insert_with(|| live_lids(chassis, subnets, group).into_iter().collect());
        live.contains(&lid)
    }
}
