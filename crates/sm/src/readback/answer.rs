//! Compares an answer with the known contents of its table.

use selvedge_plan::{BLOCK_LIDS, HeldLanes, LaneTable};
use selvedge_planner::Inventory;
use selvedge_types::{Guid, PortNum};
use selvedge_wire::{Attribute, GuidInfo, LinearForwardingTable, MulticastForwardingTable, SmpData};

use super::turn::is_known;
use super::{Ctx, Effect, Table, lft_place};
use crate::event::Event;
use crate::lane_smp;

/// Returns true if a table has its known contents, or if these are unknown. `None` if the answer cannot be decoded.
/// Appends the effects of a difference.
pub(super) fn is_as_known(
    ctx: &Ctx<'_>,
    inventory: &Inventory,
    (table, data): (Table, &SmpData),
    effects: &mut Vec<Effect>,
) -> Option<bool> {
    let differs = match table {
        Table::Lft { .. } => {
            let (switch, block) = lft_place(&table, &inventory.fabric)?;
            let holds = LinearForwardingTable::parse(data).ok()?.ports;
            let wrote = ctx.installed.block(switch, block).filter(|wrote| **wrote != holds);
            let name = &inventory.fabric.switch(switch).description;
            effects.extend(wrote.map(|wrote| Effect::Tell(difference(name, block, (wrote, &holds)))));
            wrote.map(|_| Effect::LftDiffers(switch, block, holds))
        }
        Table::Lanes(table) => return Some(are_lanes_as_known(ctx, inventory, (table, data), effects)),
        Table::Mft { switch, place } => {
            let holds = MulticastForwardingTable::parse(data).ok()?.masks;
            let known = ctx.copies.get(&switch).and_then(|blocks| blocks.get(&place));
            let differs = known.is_some_and(|known| *known != holds);
            differs.then_some(Effect::MftDiffers(switch, place, holds))
        }
        Table::Guids { port, block } => {
            let holds = GuidInfo::parse(data).ok()?.guids;
            let differs = ctx.guids.get(&(port, block)).is_some_and(|known| *known != holds);
            differs.then_some(Effect::GuidsDiffer((port, block), holds))
        }
    };
    let is_as_known = differs.is_none();
    effects.extend(differs);
    Some(is_as_known)
}

/// Compares an answer with the known contents of a lane table.
fn are_lanes_as_known(
    ctx: &Ctx<'_>,
    inventory: &Inventory,
    (table, data): (LaneTable, &SmpData),
    effects: &mut Vec<Effect>,
) -> bool {
    let (fabric, held, at) = (&inventory.fabric, &ctx.installed.lanes, table.port());
    let guid = fabric.node(at.node).guid;
    let mut read = HeldLanes::default();
    lane_smp::learn(&mut read, fabric, table, data);
    if agrees(&read, held, guid, table) {
        return true;
    }
    // No manager writes the table of a management port. Also, the known contents may have been dropped since the Get,
    // with the other contents of the node.
    let is_lost = at.port != PortNum::MANAGEMENT && is_known(held, guid, table);
    if is_lost {
        effects.push(Effect::Tell(Event::LanesDiffer {
            what: fabric.port_name(at),
            table: match table {
                LaneTable::SlToVl { .. } => "SLtoVLMappingTable",
                LaneTable::Arbitration { .. } => "VLArbitrationTable",
            },
        }));
        effects.push(Effect::LanesDiffer(at));
    }
    effects.push(Effect::LanesHold(table, *data));
    !is_lost
}

/// Returns true if a lane table that was read equals its known contents, or has none.
fn agrees(read: &HeldLanes, held: &HeldLanes, node: Guid, table: LaneTable) -> bool {
    match table {
        LaneTable::SlToVl { port, ingress } => {
            let read = read.row(node, port.port, ingress);
            read.is_none() || read == held.row(node, port.port, ingress)
        }
        LaneTable::Arbitration { port, block } => {
            let read = read.turns(node, port.port, block);
            read.is_none() || read == held.turns(node, port.port, block)
        }
    }
}

/// Returns the event that an LFT block differs.
fn difference(name: &str, block: usize, (wrote, read): (&[u8; BLOCK_LIDS], &[u8; BLOCK_LIDS])) -> Event {
    let differs = |i: &usize| wrote[*i] != read[*i];
    let entries = (0..BLOCK_LIDS).filter(differs).count();
    let first = (0..BLOCK_LIDS).find(differs).unwrap_or(0);
    Event::ReadBackDiffers {
        what: name.to_owned(),
        block: u16::try_from(block).unwrap_or(u16::MAX),
        entries,
        lid: block * BLOCK_LIDS + first,
        wrote: wrote[first],
        read: read[first],
    }
}
