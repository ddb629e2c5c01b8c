//! Reads, in a heavy sweep, the LFTs and lane tables that are not known.

use std::sync::Arc;

use selvedge_fabric::{Fabric, NodeIdx, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Installed, LaneTable, Policy};
use selvedge_planner::held::unread;
use selvedge_planner::{Inventory, lanes};
use selvedge_verify::phases::is_live;
use selvedge_wire::{Attribute, AttributeId, LinearForwardingTable, SmpData};

use crate::config::Mode;
use crate::lane_smp;
use crate::smp::{self, Smp};

/// Largest number of sweeps in a row that are repeated because a table that packets use was not answered.
const UNREAD_LOOKS_MAX: u32 = 2;
/// How often a table without an answer is requested, each time with all repeats. After that, its agent counts as hung.
const READ_ROUNDS: u32 = 3;

/// Reads the tables that are not known, in a heavy sweep.
#[derive(Debug, Default)]
pub struct Reading {
    /// The tables that the current sweep reads.
    tables: Option<Tables>,
    /// Sweeps in a row that could not read all tables.
    unread_looks: u32,
}

/// Tables that a heavy sweep reads.
#[derive(Debug)]
struct Tables {
    /// The inventory of the sweep.
    inventory: Arc<Inventory>,
    /// Tables as far as read.
    installed: Installed,
    /// Blocks to read.
    total: u64,
    /// LFT blocks not yet requested, in reverse order of requests.
    todo: Vec<(SwitchIdx, usize)>,
    /// Lane tables not yet requested, in reverse order of requests.
    lanes: Vec<LaneTable>,
    /// Number of the current round of requests for unknown tables.
    round: u32,
}

/// The state of other sub-machines that this one may read.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// The mode of the manager.
    pub mode: Mode,
    /// The policy.
    pub policy: &'a Policy,
}

/// A part of a table, which one Get reads.
#[derive(Clone, Copy, Debug)]
pub enum Table {
    /// A block of the LFT of a switch.
    Lft(SwitchIdx, usize),
    /// A lane table.
    Lanes(LaneTable),
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// A sweep found this inventory; these tables are already known.
    Begin(Arc<Inventory>, Installed),
    /// Another Get can be sent.
    Room,
    /// A table has these contents.
    Answered(Table, &'a SmpData),
    /// All tables were requested. These LFT blocks keep their believed contents if they could not be read.
    AllAsked(Vec<(SwitchIdx, usize, [u8; BLOCK_LIDS])>),
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Ask a node for a table.
    Ask(Table, NodeIdx, Smp),
    /// More Gets must be sent.
    Asking,
    /// A switch does not answer, so it will not take a new table either. Another sweep must find out which switches are
    /// present.
    SweepAgain,
    /// Tables are read as far as possible.
    Read(Arc<Inventory>, Installed),
}

impl Reading {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In<'_>, effects: &mut Vec<Effect>) {
        match (input, &mut self.tables) {
            (In::Begin(inventory, installed), tables) => {
                *tables = Some(Tables::new(inventory, installed, ctx.policy));
                effects.push(Effect::Asking);
            }
            (In::Room, Some(tables)) => effects.extend(tables.next()),
            (In::Answered(table, data), Some(tables)) => tables.learn(table, data),
            (In::AllAsked(believed), Some(tables)) => {
                tables.believe(believed);
                effects.extend(self.all_asked(ctx.mode));
            }
            (In::Room | In::Answered(..) | In::AllAsked(_), None) => {}
        }
    }

    /// Requests the tables without an answer again. As long as a switch forwards by unknown entries, the judge can
    /// prove nothing about it.
    fn all_asked(&mut self, mode: Mode) -> Option<Effect> {
        let mut tables = self.tables.take()?;
        let todo = unread(&tables.inventory.fabric, &tables.installed);
        let is_complete = todo.is_empty();
        if !is_complete && tables.round < READ_ROUNDS {
            tables.ask_again(todo);
            self.tables = Some(tables);
            return Some(Effect::Asking);
        }
        let is_live = mode == Mode::Manage && is_live(&tables.inventory.fabric);
        if !is_complete && is_live && self.unread_looks < UNREAD_LOOKS_MAX {
            self.unread_looks += 1;
            return Some(Effect::SweepAgain);
        }
        self.unread_looks = 0;
        Some(Effect::Read(tables.inventory, tables.installed))
    }

    /// Returns the inventory, and the tables read so far.
    pub fn so_far(&self) -> Option<(&Inventory, &Installed)> {
        let tables = self.tables.as_ref()?;
        Some((&tables.inventory, &tables.installed))
    }

    /// Returns how many tables are read in all, and how many LFT blocks are not yet requested.
    pub fn progress(&self) -> (u64, usize) {
        let tables = self.tables.as_ref();
        tables.map_or((0, 0), |tables| (tables.total, tables.todo.len()))
    }
}

impl Tables {
    fn new(inventory: Arc<Inventory>, installed: Installed, policy: &Policy) -> Self {
        let todo = unread(&inventory.fabric, &installed);
        let lanes = lanes::unread(&inventory.fabric, policy, &installed.lanes);
        Self {
            inventory,
            installed,
            total: (todo.len() + lanes.len()) as u64,
            todo,
            lanes,
            round: 1,
        }
    }

    /// Requests LFT blocks once more. A lane table without an answer is written again, whatever it holds.
    fn ask_again(&mut self, todo: Vec<(SwitchIdx, usize)>) {
        self.round += 1;
        self.total = todo.len() as u64;
        (self.todo, self.lanes) = (todo, Vec::new());
    }

    /// Returns the next Get, if any.
    fn next(&mut self) -> Option<Effect> {
        let inventory = &self.inventory;
        if let Some((switch, block)) = self.todo.pop() {
            let node = inventory.fabric.switches()[switch];
            let modifier = u32::try_from(block).unwrap_or(u32::MAX);
            let route = &inventory.agents[node].route;
            let get = smp::get(AttributeId::LINEAR_FORWARDING, modifier, route);
            return Some(Effect::Ask(Table::Lft(switch, block), node, get));
        }
        let table = self.lanes.pop()?;
        let at = table.port();
        let (attribute, modifier) = lane_smp::question(&inventory.fabric, table);
        let route = inventory.agents[at.node].route_to(at.port);
        let get = smp::get(attribute, modifier, route);
        Some(Effect::Ask(Table::Lanes(table), at.node, get))
    }

    fn learn(&mut self, table: Table, data: &SmpData) {
        match table {
            Table::Lft(switch, block) => {
                if let Ok(table) = LinearForwardingTable::parse(data) {
                    self.installed.learn(switch, block, table.ports);
                }
            }
            Table::Lanes(table) => {
                let held = Arc::make_mut(&mut self.installed.lanes);
                lane_smp::learn(held, &self.inventory.fabric, table, data);
            }
        }
    }

    fn believe(&mut self, believed: Vec<(SwitchIdx, usize, [u8; BLOCK_LIDS])>) {
        for (switch, block, believed) in believed {
            if self.installed.block(switch, block).is_none() {
                self.installed.learn(switch, block, believed);
            }
        }
    }
}

/// Marks the tables of freshly booted switches as unknown. Such a switch has LinearFDBTop 0 and forwards by no entry,
/// so the contents of its tables do not matter, and all of them will be written.
pub fn forget_fresh(fabric: &Fabric, installed: &mut Installed) {
    for (switch, &node) in fabric.switches().iter_enumerated() {
        if fabric.node(node).switch_settings.linear_top == 0 {
            installed.lfts[switch].clear();
        }
    }
}

#[cfg(test)]
mod tests;
