//! SMPs of lane tables: the row or block of a modifier, and the contents in an answer.

use selvedge_fabric::{Fabric, Node, PortRef};
use selvedge_plan::{ArbBlock, HeldLanes, LaneRows, LaneTable, Op};
use selvedge_types::{PortNum, Sl, Vl};
use selvedge_wire::{Attribute, AttributeId, SlToVl, SmpData, VlArbBlock, VlArbEntry, VlArbitration};

/// Returns the attribute modifier of rows. A channel adapter has one row a port, that of the port asked. Source: IBA
/// vol 1 §14.2.5.8.
pub fn rows_modifier(node: &Node, egress: PortNum, rows: LaneRows) -> u32 {
    match rows {
        _ if !node.is_switch() => 0,
        LaneRows::From(ingress) => SlToVl::modifier(ingress.get(), egress.get()),
        LaneRows::FromAll => SlToVl::ALL_INPUTS | SlToVl::modifier(0, egress.get()),
        LaneRows::Whole => SlToVl::ALL_INPUTS | SlToVl::ALL_OUTPUTS,
    }
}

/// Returns the modifier of a block (1–4). Source: IBA vol 1 §14.2.5.9.
pub fn block_modifier(node: &Node, port: PortNum, block: u8) -> u32 {
    let num = if node.is_switch() { port.get() } else { 0 };
    VlArbBlock::from_code(block.into()).map_or(0, |block| VlArbitration::modifier(block, num))
}

/// Returns rows with these lanes as an SLtoVLMappingTable attribute.
pub const fn row(lanes: &[Vl; Sl::COUNT]) -> SlToVl {
    SlToVl { vls: *lanes }
}

/// Returns a block as an attribute.
pub fn block(turns: &ArbBlock) -> VlArbitration {
    VlArbitration {
        entries: turns.turns.map(|(vl, weight)| VlArbEntry { vl, weight }),
    }
}

/// Returns attribute and modifier of a Get of a table.
pub fn question(fabric: &Fabric, table: LaneTable) -> (AttributeId, u32) {
    let node = fabric.node(table.port().node);
    match table {
        LaneTable::SlToVl { port, ingress } => {
            let modifier = rows_modifier(node, port.port, LaneRows::From(ingress));
            (AttributeId::SL_TO_VL, modifier)
        }
        LaneTable::Arbitration { port, block } => (AttributeId::VL_ARBITRATION, block_modifier(node, port.port, block)),
    }
}

/// Stores the answer to a Get of a lane table in `held`.
pub fn learn(held: &mut HeldLanes, fabric: &Fabric, table: LaneTable, data: &SmpData) {
    let node = fabric.node(table.port().node);
    match table {
        LaneTable::SlToVl { port, ingress } => {
            if let Ok(row) = SlToVl::parse(data) {
                let rows = LaneRows::From(ingress);
                held.learn_rows(node.guid, port.port, rows, node.port_count(), row.vls);
            }
        }
        LaneTable::Arbitration { port, block } => {
            if let Ok(read) = VlArbitration::parse(data) {
                held.learn_turns(node.guid, port.port, block, turns_of(fabric, port, block, &read));
            }
        }
    }
}

/// Returns the entries of a block within the port's size; entries beyond it have no meaning.
fn turns_of(fabric: &Fabric, port: PortRef, block: u8, read: &VlArbitration) -> ArbBlock {
    let capability = fabric.port(port).map(|seen| seen.capability).unwrap_or_default();
    let turns = read.entries.map(|entry| (entry.vl, entry.weight));
    ArbBlock { turns }.cut(ArbBlock::turns_of(block, &capability))
}

/// Records the answer to a Set; true if the agent holds the contents that were sent.
pub fn taken(held: &mut HeldLanes, fabric: &Fabric, op: &Op, data: &SmpData) -> bool {
    match op {
        Op::SlToVl { port, rows, lanes } => {
            let node = fabric.node(port.node);
            let Ok(row) = SlToVl::parse(data) else { return false };
            held.learn_rows(node.guid, port.port, *rows, node.port_count(), row.vls);
            row.vls == *lanes
        }
        Op::Arbitration { port, block, turns } => {
            let Ok(read) = VlArbitration::parse(data) else {
                return false;
            };
            let now = turns_of(fabric, *port, *block, &read);
            held.learn_turns(fabric.node(port.node).guid, port.port, *block, now);
            now == *turns
        }
        Op::Lft { .. } | Op::Switch { .. } | Op::PKeys { .. } | Op::Port { .. } | Op::Link { .. } => false,
    }
}

/// Handles a Set without an answer, or one that was refused: the contents of the table are unknown.
pub fn forget(held: &mut HeldLanes, fabric: &Fabric, op: &Op) {
    match op {
        Op::SlToVl { port, rows, .. } => held.forget_rows(fabric.node(port.node).guid, port.port, *rows),
        Op::Arbitration { port, block, .. } => held.forget_turns(fabric.node(port.node).guid, port.port, *block),
        Op::Lft { .. } | Op::Switch { .. } | Op::PKeys { .. } | Op::Port { .. } | Op::Link { .. } => {}
    }
}
