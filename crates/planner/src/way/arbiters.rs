//! Keeps lanes served until the packets on them are gone, when arbitration tables change under traffic.
//!
//! New tables may not serve a lane on which rows in force still put packets. Then the port first gets tables that serve
//! this lane too, and the planned tables after the rows, when a switch lifetime has passed.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{ArbBlock, ChangeSet, Installed, LaneTables, Op, Phase, Plan};
use selvedge_types::{PortNum, PortState, Vl};
use selvedge_verify::phases::{drain_bound_ns, lifetimes};

/// Purpose of the last phase.
const FINAL: &str = "end the turns of lanes that are empty";
/// Wait for packets to leave if switches drop none, in nanoseconds: OpenSM's lifetime, rounded.
const SECOND_NS: u64 = 1_000_000_000;

/// Blocks of one port's VLArbitrationTable.
type Blocks = BTreeMap<u8, ArbBlock>;

/// Changes the Sets of arbitration tables that would cut lanes with packets.
pub fn keep_served(mut changes: ChangeSet, fabric: &Fabric, installed: &Installed, plan: &Plan) -> ChangeSet {
    // A plan that only spreads packets over another number of lanes changes its tables at once.
    let has_qos = |tables: &LaneTables| tables.qos.is_some() || tables.lanes <= 1;
    if !plan.lane_tables.as_ref().is_some_and(has_qos) {
        return changes;
    }
    let mut between: BTreeMap<PortRef, (Blocks, Blocks)> = BTreeMap::new();
    for op in changes.phases.iter().flat_map(|phase| &phase.ops) {
        if let Op::Arbitration { port, .. } = op
            && !between.contains_key(port)
            && let Some(found) = tables_between(fabric, installed, plan, *port)
        {
            between.insert(*port, found);
        }
    }
    if between.is_empty() {
        return changes;
    }
    let held = |port: PortRef, block: u8| installed.lanes.turns(fabric.node(port.node).guid, port.port, block);
    let mut last = Vec::new();
    for phase in &mut changes.phases {
        let is_kept = |op: &Op| !matches!(op, Op::Arbitration { port, .. } if between.contains_key(port));
        let first = phase.ops.iter().position(|op| !is_kept(op));
        phase.ops.retain(is_kept);
        if first.is_none() || !last.is_empty() {
            continue;
        }
        for (&port, (blocks, planned)) in &between {
            for (&block, &turns) in blocks {
                if held(port, block) != Some(&turns) {
                    phase.ops.push(Op::Arbitration { port, block, turns });
                }
                let wanted = planned[&block];
                if wanted != turns {
                    last.push(Op::Arbitration {
                        port,
                        block,
                        turns: wanted,
                    });
                }
            }
        }
    }
    let wait_before_ns = drain_bound_ns(lifetimes(fabric, &changes), 1).unwrap_or(SECOND_NS);
    changes.phases.push(Phase {
        label: FINAL,
        wait_before_ns,
        ops: last,
    });
    changes.phases.retain(|phase| !phase.ops.is_empty());
    changes
}

/// Returns the tables of a port that serve the lanes in use and the planned ones, and the planned tables. `None`: the
/// planned tables serve all lanes in use, or the port carries no packets, or there is no room.
fn tables_between(fabric: &Fabric, installed: &Installed, plan: &Plan, port: PortRef) -> Option<(Blocks, Blocks)> {
    let seen = fabric.port(port).filter(|seen| seen.link.state == PortState::Active)?;
    let node = fabric.node(port.node);
    let external = node.external_ports().map(|(ingress, _)| ingress);
    let ingresses: Vec<PortNum> = std::iter::once(PortNum::MANAGEMENT).chain(external).collect();
    let rows = ingresses
        .iter()
        .filter_map(|&ingress| installed.lanes.row(node.guid, port.port, ingress));
    let mut used: BTreeSet<Vl> = rows.flatten().copied().filter(|vl| *vl != Vl::MANAGEMENT).collect();
    // A lane that the plan itself uses without a turn is judged by the plan alone.
    let planned_rows = ingresses.iter().filter_map(|&ingress| plan.row(port, ingress));
    for vl in planned_rows.flatten() {
        used.remove(&vl);
    }
    let numbers = ArbBlock::blocks_of(&seen.capability);
    let planned: Blocks = numbers
        .filter_map(|block| Some((block, plan.arbitration(fabric, port, block)?)))
        .collect();
    let is_served = |vl: &Vl| {
        let mut turns = planned.values().flat_map(|block| &block.turns);
        turns.any(|(of, weight)| of == vl && *weight > 0)
    };
    let mut blocks = planned.clone();
    for vl in used.into_iter().filter(|vl| !is_served(vl)) {
        let (block, place) = free(&blocks, |block| ArbBlock::turns_of(block, &seen.capability))?;
        blocks.get_mut(&block)?.turns[place] = (vl, LaneTables::WEIGHT);
    }
    (blocks != planned).then_some((blocks, planned))
}

/// Returns an entry that no lane needs: one without weight, or the last one of a lane that has another.
fn free(blocks: &Blocks, room: impl Fn(u8) -> usize) -> Option<(u8, usize)> {
    let places = || {
        let places = blocks
            .iter()
            .flat_map(|(&block, turns)| (0..room(block)).map(move |at| (block, at, turns)));
        places.map(|(block, at, turns)| ((block, at), turns.turns[at]))
    };
    if let Some((place, _)) = places().find(|(_, (_, weight))| *weight == 0) {
        return Some(place);
    }
    let count = |vl: Vl| places().filter(|(_, (of, _))| *of == vl).count();
    let spare = places().filter(|(_, (vl, _))| count(*vl) > 1).last();
    spare.map(|(place, _)| place)
}
