//! Multicast trees together with new routes: groups with copies that could deadlock are taken apart before the routes
//! are in force.
//!
//! Trees are judged together with the routes in force. When routes change, the trees in force must also be free of
//! deadlock with the new routes, and with every mix of old and new. Nearly always they are. Otherwise the affected
//! groups are taken apart first: each switch then copies only to its own members, so no copy occupies one link while it
//! waits for another. Trees of these groups are planned again as soon as the routes are in force.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::multicast::{MulticastGroup, MulticastTables, PortMask, multicast_changes};
use selvedge_plan::{BLOCK_LIDS, Installed, LaneRows, Op, Plan};
use selvedge_types::{Idx, Lid, PortNum, Sl, Vl};
use selvedge_verify::{OtherBlock, RouteTurns, Subject, circular_groups};

use crate::basis::{Basis, Outcome};
use crate::copies::TakenApart;
use crate::inventory::Inventory;
use crate::lanes::map_in_force;

/// Returns tables with some groups taken apart: each switch copies to its own members only.
pub(crate) fn taken_apart(fabric: &Fabric, held: &MulticastTables, groups: &BTreeSet<Lid>) -> MulticastTables {
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

impl Basis {
    /// Returns the channel dependencies of the routes in force. With `with_under_way`, includes the dependencies of
    /// replaced entries that packets in flight may use.
    pub(super) fn route_turns(&self, fabric: &Fabric, plan: &Plan, with_under_way: bool) -> RouteTurns {
        let under_way = self.under_way.as_ref().filter(|_| with_under_way);
        let blocks = under_way
            .iter()
            .flat_map(|past| past.phases.iter().chain(std::iter::once(&past.before)));
        let others: Vec<OtherBlock<'_>> = blocks
            .flatten()
            .map(|(switch, block, data)| (*switch, *block, data))
            .collect();
        let subject = Subject::plan(fabric, plan);
        if plan.lanes <= 1 {
            return RouteTurns::new(subject, &others);
        }
        // On the lanes that ports really use, in case a port has another row than the plan's.
        let sl_to_vl = &map_in_force(fabric, plan, &self.installed.lanes);
        RouteTurns::new(Subject { sl_to_vl, ..subject }, &others)
    }

    /// Returns the groups that must be taken apart before a plan is applied, if there are any. `installed` is the
    /// current state of the switches.
    pub(crate) fn copies_first(&self, outcome: &Outcome, installed: &Installed) -> Option<Box<TakenApart>> {
        let changes = outcome.changes.value();
        let writes = |op: &Op| matches!(op, Op::Lft { .. } | Op::Port { .. } | Op::SlToVl { .. });
        if self.copies.held.is_empty() || !changes.phases.iter().any(|phase| phase.ops.iter().any(writes)) {
            return None;
        }
        let (inventory, fabric) = (&outcome.inventory, &outcome.inventory.fabric);
        let tables = self.copies.tables(fabric);
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
        let routes = RouteTurns::new(Subject::plan(fabric, &outcome.plan), &others);
        let mut groups = circular_groups(&routes, &self.copies.groups, &tables);
        groups.extend(self.changing_lanes((fabric, installed), changes.phases.iter().flat_map(|phase| &phase.ops)));
        if groups.is_empty() {
            return None;
        }
        self.take_apart((inventory, fabric), &tables, &groups).map(Box::new)
    }

    /// Returns the groups with copies that change to another lane when SL2VL rows are written. While the rows are
    /// written, copies of such a group may be on both lanes.
    fn changing_lanes<'a>(
        &self,
        (fabric, installed): (&Fabric, &Installed),
        ops: impl Iterator<Item = &'a Op>,
    ) -> BTreeSet<Lid> {
        let mut levels = [false; Sl::COUNT];
        for op in ops {
            let Op::SlToVl { port, rows, lanes } = op else { continue };
            let node = fabric.node(port.node);
            let ingresses = match rows {
                LaneRows::From(ingress) => vec![*ingress],
                LaneRows::FromAll | LaneRows::Whole => node.all_ports().map(|(port, _)| port).collect(),
            };
            let egresses = match rows {
                LaneRows::Whole => node.all_ports().map(|(port, _)| port).collect(),
                LaneRows::From(_) | LaneRows::FromAll => vec![port.port],
            };
            for egress in egresses {
                let known = |ingress: &PortNum| installed.lanes.row(node.guid, egress, *ingress);
                for row in ingresses.iter().filter_map(known).filter(|_| node.is_switch()) {
                    let differs = |(of, (old, new)): (&mut bool, (&Vl, &Vl))| *of |= old != new;
                    levels.iter_mut().zip(row.iter().zip(lanes)).for_each(differs);
                }
            }
        }
        let groups = self.copies.groups.iter();
        let is_on_two = |group: &&MulticastGroup| levels[usize::from(group.sl.get())];
        groups.filter(is_on_two).map(|group| group.mlid).collect()
    }

    /// Returns the judged change after which each switch copies packets of these groups only to its own members.
    pub(super) fn take_apart(
        &self,
        (inventory, fabric): (&Inventory, &Fabric),
        held: &MulticastTables,
        groups: &BTreeSet<Lid>,
    ) -> Option<TakenApart> {
        let wanted = taken_apart(fabric, held, groups);
        let change = multicast_changes(self.generation, held, &wanted);
        let change = self.judge.judge_taking_away(inventory, fabric, held, change).ok()?;
        Some(TakenApart {
            change,
            groups: groups.clone(),
        })
    }
}
