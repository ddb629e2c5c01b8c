//! Reads tables back: an agent may acknowledge a table and not hold it, or lose what it held, and a Set that the network
//! kept may arrive late.
//!
//! All kinds of tables are read back by one mechanism. A light sweep reads each table that was written since the last
//! one, and the share of the others whose turn it is: each is read once in [`Config::read_back_sweeps`] light sweeps.
//! Questions are kept open as far as the window allows. A table that nobody answers for stays to be read. If an answer
//! differs from what was written, that is an effect: the outer machine takes the answer for known and has the table
//! written again. The kinds differ in this:
//!
//! | | LFT | lanes |
//! |---|---|---|
//! | others' turn | block by block over all switches | node by node, up to a number of tables |
//! | written tables | first | not told from others |
//! | nobody answers | stays to be read | read in its next turn |
//! | differs | urgent ones are still read, and the switch may be called a liar | the rest waits for the sweep |
//!
//! LFT blocks that were written are read within an interval, whatever else there is to do: a switch that lies swallows
//! what tells another to be quiet, and a trap that is repeated each second must not put the read-back off for ever. A
//! switch that goes on to hold other blocks than it acknowledges is told of by itself, and gets its tables again at each
//! light sweep: its links are up and it answers, so no other node can say where its packets go.

mod lies;
mod list;
mod table;

use std::collections::BTreeSet;
use std::time::Duration;

use selvedge_fabric::{Fabric, NodeIdx, PortRef, SwitchIdx};
use selvedge_plan::{
    BLOCK_LIDS, ChangeSet, HeldLanes, Installed, LaneTable, Op, Plan, own_row, ports_in_use, tables_of,
};
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::{Guid, Idx, PortNum};
use selvedge_wire::{Attribute, LinearForwardingTable, SmpData};

use crate::config::Config;
use crate::event::Event;
use crate::lane_smp;
use crate::smp::Smp;
use crate::view::ReadBackFigures;
use lies::Lies;
use list::{List, share};

pub use table::{Kind, ReadId, Table};

/// No further node has its turn in a light sweep that has so many lane tables to read: a switch may have 1,296 rows.
const LANES_MAX: usize = 1_024;

/// What is to be read back, and what came of it.
#[derive(Clone, Debug, Default)]
pub struct ReadBack {
    /// What is to be read, by [`Kind`].
    lists: [List; 2],
    /// Where the turn of LFT blocks goes on: block by block over all switches.
    lft_turn: usize,
    /// The number of the node whose lane tables have their turn next.
    lane_turn: usize,
    /// Whether a light sweep is at its questions for tables.
    is_open: bool,
    /// Since when an LFT block that was written has not been read.
    since: Option<Time>,
    /// When a light sweep was due last.
    tried: Option<Time>,
    /// Switches that do not hold what they acknowledge.
    lies: Lies,
    /// What heavy sweeps are to read again.
    doubt: Doubt,
    /// LFT blocks read back so far.
    read: u64,
    /// Those of them that were not as they had been written.
    differences: u64,
}

/// LFT blocks of which a heavy sweep does not believe what was acknowledged.
#[derive(Clone, Debug, Default)]
struct Doubt {
    /// Blocks that were written while packets flowed, and that have not been read since.
    unproved: BTreeSet<Table>,
    /// The blocks that the sweep at hand asks for, as they are believed to be.
    asked: Vec<Believed>,
    /// The sweep at hand asks for all that was written.
    is_of_all: bool,
}

/// An LFT block and what it is believed to hold.
type Believed = (SwitchIdx, usize, [u8; BLOCK_LIDS]);

/// What the read-back sees of the manager.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// When the input came in.
    pub now: Time,
    /// How the manager behaves.
    pub config: &'a Config,
    /// The last complete inventory: where questions go.
    pub inventory: Option<&'a Inventory>,
    /// The plan in force, and the fabric that it is for.
    pub in_force: Option<(&'a Plan, &'a Fabric)>,
    /// What switches hold as far as known.
    pub installed: &'a Installed,
}

/// What happens to the read-back.
#[derive(Clone, Copy, Debug)]
pub enum In<'a> {
    /// Sets go out from now on.
    Writing,
    /// A change set has been carried out, or part of it.
    Written {
        /// The fabric that it was for.
        fabric: &'a Fabric,
        /// The change set.
        changes: &'a ChangeSet,
        /// Packets flowed meanwhile.
        is_live: bool,
    },
    /// A switch may not hold any more what it was read to hold.
    MayHaveLost {
        /// The switch.
        switch: Guid,
        /// How many LFT blocks it had.
        blocks: u16,
    },
    /// A heavy sweep is about to read tables that are unknown.
    HeavySweepReads {
        /// What it found.
        fabric: &'a Fabric,
        /// The tables that count as known.
        installed: &'a Installed,
    },
    /// A heavy sweep has read what it could.
    HeavySweepHasRead {
        /// What it found.
        fabric: &'a Fabric,
        /// The tables as far as read.
        installed: &'a Installed,
    },
    /// A light sweep is due, whatever becomes of it.
    LightSweepDue,
    /// A light sweep begins.
    LightSweepBegins,
    /// The light sweep has asked what else it has to ask: it asks for tables from now on.
    Open,
    /// A question for a table of this kind can be asked.
    Room(Kind),
    /// A question has ended; none: without an answer.
    Answered(ReadId, Option<&'a SmpData>),
    /// A light sweep has ended.
    LightSweepEnds,
}

/// What the read-back wants done.
#[derive(Clone, Debug)]
pub enum Effect {
    /// A table is to be asked for. If that is not done, the question counts as not answered.
    Ask {
        /// The question.
        id: ReadId,
        /// The node that it goes to.
        node: NodeIdx,
        /// The Get.
        get: Smp,
    },
    /// An event is to be told.
    Tell(Event),
    /// These LFT blocks count as unknown in the heavy sweep.
    Doubt(Vec<(SwitchIdx, usize)>),
    /// Those of these LFT blocks that the heavy sweep could not read are as they were believed to be.
    Believe(Vec<Believed>),
    /// An LFT block is not as it was written.
    LftDiffers {
        /// The switch.
        switch: SwitchIdx,
        /// The block.
        block: usize,
        /// What it holds.
        holds: [u8; BLOCK_LIDS],
    },
    /// A lane table of this port is not as it was written.
    LanesDiffer(PortRef),
    /// A lane table holds this.
    LanesHold(LaneTable, SmpData),
}

impl ReadBack {
    /// Takes an input and appends what is to be done.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In<'_>, effects: &mut Vec<Effect>) {
        match input {
            In::Writing => self.begin_writing(ctx.now),
            In::Written {
                fabric,
                changes,
                is_live,
            } => self.written(fabric, changes, is_live),
            In::MayHaveLost { switch, blocks } => {
                self.settle();
                let blocks = (0..blocks).map(|block| Table::Lft { block, switch });
                self.list(Kind::Lft).add(blocks);
            }
            In::HeavySweepReads { fabric, installed } => {
                let is_overdue = self.is_overdue(ctx.now, ctx.config.sweep_interval);
                effects.push(self.begin_doubt(is_overdue, fabric, installed));
            }
            In::HeavySweepHasRead { fabric, installed } => effects.push(self.end_doubt(ctx.now, fabric, installed)),
            In::LightSweepDue => self.tried = Some(ctx.now),
            In::LightSweepBegins => self.begin_light_sweep(ctx),
            In::Open => self.is_open = true,
            In::Room(kind) => effects.extend(self.ask(ctx, kind)),
            In::Answered(id, data) => self.answered(ctx, id, data, effects),
            In::LightSweepEnds => {
                self.settle();
                self.lies.count();
                // What could not be read has its turn in the next.
                let is_left = !self.list(Kind::Lft).unread().is_empty();
                self.since = is_left.then_some(ctx.now);
            }
        }
    }

    /// Returns true if a light sweep has tables to ask for, and has not begun to.
    pub const fn can_open(&self) -> bool {
        self.lists[Kind::Lft as usize].has_begun() && !self.is_open
    }

    /// Returns true if an LFT block was written so long ago that it is read now, though a heavy sweep is due as well.
    pub fn is_overdue(&self, now: Time, interval: Option<Duration>) -> bool {
        let since = self.since.zip(interval);
        since.is_some_and(|(since, interval)| since + interval <= now)
    }

    /// Returns when the next light sweep is to be, if it would be at `due` otherwise: what was written is read back
    /// within an `interval`, however often something else comes in between.
    pub fn due(&self, now: Time, due: Time, interval: Duration) -> Time {
        let written = self.since.map_or(due, |since| since + interval);
        // Whatever keeps it from being read does not fill the time.
        let again = self.tried.map_or(now, |tried| tried + interval / 4);
        due.min(written.max(again).max(now))
    }

    /// Returns what was found so far.
    pub fn figures(&self) -> ReadBackFigures {
        ReadBackFigures {
            read: self.read,
            differences: self.differences,
            lying: self.lies.liars().collect(),
        }
    }

    /// Notes that Sets go out from now on. [`In::Writing`] does the same: callers that are left hand over to
    /// `Sm::begin_applying`, which says so.
    pub fn begin_writing(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    const fn list(&mut self, kind: Kind) -> &mut List {
        &mut self.lists[kind as usize]
    }

    /// Ends what a light sweep was reading: what was asked for and has not been answered stays to be read.
    fn settle(&mut self) {
        self.list(Kind::Lft).settle();
        self.list(Kind::Lanes).drop_all();
        self.is_open = false;
    }

    fn written(&mut self, fabric: &Fabric, changes: &ChangeSet, is_live: bool) {
        self.settle();
        let ops = changes.phases.iter().flat_map(|phase| &phase.ops);
        let blocks = ops.filter_map(|op| match op {
            Op::Lft { node, block, .. } => Some(Table::Lft {
                block: *block,
                switch: fabric.node(*node).guid,
            }),
            _ => None,
        });
        if is_live {
            self.doubt.unproved.extend(blocks.clone());
        }
        self.list(Kind::Lft).add(blocks);
        if self.list(Kind::Lft).unread().is_empty() {
            self.since = None;
        }
    }

    /// What was written under traffic and not read since counts as unknown: a heavy sweep reads it before it plans the
    /// next change, as no proof holds where a switch has acknowledged a table and not taken it. If the read-back
    /// `is_overdue`, as the sweep takes the place of a light sweep, so is whatever was written.
    fn begin_doubt(&mut self, is_overdue: bool, fabric: &Fabric, installed: &Installed) -> Effect {
        self.settle();
        let unread = self.lists[Kind::Lft as usize].unread();
        let written = unread.difference(&self.doubt.unproved).filter(|_| is_overdue);
        let known = |table: &Table| {
            let (switch, block) = lft_place(table, fabric)?;
            Some((switch, block, *installed.block(switch, block)?))
        };
        self.doubt.asked = written.chain(&self.doubt.unproved).filter_map(known).collect();
        self.doubt.is_of_all = is_overdue;
        let asked = self.doubt.asked.iter();
        Effect::Doubt(asked.map(|&(switch, block, _)| (switch, block)).collect())
    }

    /// A heavy sweep has read what it could: a block that nobody answered for is as it was believed to be.
    fn end_doubt(&mut self, now: Time, fabric: &Fabric, installed: &Installed) -> Effect {
        let is_unread = |table: &Table| {
            let place = lft_place(table, fabric);
            place.is_none_or(|(switch, block)| installed.block(switch, block).is_none())
        };
        self.doubt.unproved.retain(is_unread);
        if std::mem::take(&mut self.doubt.is_of_all) {
            // What could not be read has its turn in the next light sweep.
            self.list(Kind::Lft).retain_unread(is_unread);
            let is_left = !self.list(Kind::Lft).unread().is_empty();
            self.since = is_left.then_some(now);
        }
        Effect::Believe(std::mem::take(&mut self.doubt.asked))
    }

    /// A light sweep begins: what is still to be read, and the others' turn.
    fn begin_light_sweep(&mut self, ctx: &Ctx<'_>) {
        let Some(inventory) = ctx.inventory else { return };
        let (fabric, installed) = (&inventory.fabric, ctx.installed);
        self.settle();
        self.lies.forget_sweep();
        let others = self.lft_others(fabric, installed, ctx.config.read_back_sweeps);
        self.list(Kind::Lft).begin(others, |table| {
            let place = lft_place(table, fabric);
            place.is_some_and(|(switch, block)| installed.block(switch, block).is_some())
        });
        let others = self.lane_others(ctx, inventory);
        self.list(Kind::Lanes).begin(others, |_| true);
    }

    /// Returns the LFT blocks whose turn it is.
    fn lft_others(&mut self, fabric: &Fabric, installed: &Installed, read_backs: u32) -> Vec<Table> {
        let switches = fabric.switches();
        let rows = installed.lfts.iter().map(Vec::len).max().unwrap_or(0);
        let total = rows * switches.len();
        let mut others = Vec::new();
        for _ in 0..share(total, read_backs) {
            let turn = if self.lft_turn < total { self.lft_turn } else { 0 };
            let switch = switches[SwitchIdx::from_usize(turn % switches.len())];
            others.push(Table::Lft {
                block: u16::try_from(turn / switches.len()).unwrap_or(u16::MAX),
                switch: fabric.node(switch).guid,
            });
            self.lft_turn = turn + 1;
        }
        others.sort_unstable();
        others
    }

    /// Returns the lane tables whose turn it is, each of them known, the last first.
    fn lane_others(&mut self, ctx: &Ctx<'_>, inventory: &Inventory) -> Vec<Table> {
        let mut others = Vec::new();
        let held = &ctx.installed.lanes;
        let is_of_it = |(_, fabric): &(_, &Fabric)| std::ptr::eq(*fabric, &*inventory.fabric);
        let Some((plan, fabric)) = ctx.in_force.filter(is_of_it) else {
            return others;
        };
        if plan.lane_tables.is_none() || held.is_empty() {
            return others;
        }
        let nodes = fabric.nodes().len();
        for _ in 0..share(nodes, ctx.config.read_back_sweeps) {
            if others.len() >= LANES_MAX {
                break;
            }
            let node = NodeIdx::from_usize(self.lane_turn % nodes);
            self.lane_turn = self.lane_turn % nodes + 1;
            let up = ports_in_use(fabric, plan, node);
            let guid = fabric.node(node).guid;
            let of_node = tables_of(fabric, node, &up).chain(own_row(fabric, node));
            let known = of_node.filter(|table| is_known(held, guid, *table));
            others.extend(known.map(Table::Lanes));
        }
        others.reverse();
        others
    }

    /// Returns the next question for a table of a kind.
    fn ask(&mut self, ctx: &Ctx<'_>, kind: Kind) -> Option<Effect> {
        let inventory = ctx.inventory.filter(|_| self.is_open)?;
        loop {
            let (number, table) = self.list(kind).next()?;
            if let Some((node, get)) = table.question(inventory, ctx.config.policy.m_key) {
                let id = ReadId { kind, number };
                return Some(Effect::Ask { id, node, get });
            }
        }
    }

    /// A question has ended. A table that nobody answers for stays to be read.
    fn answered(&mut self, ctx: &Ctx<'_>, id: ReadId, data: Option<&SmpData>, effects: &mut Vec<Effect>) {
        let (Some(table), Some(data), Some(inventory)) = (self.list(id.kind).get(id.number), data, ctx.inventory)
        else {
            return;
        };
        match table {
            Table::Lft { .. } => self.lft_answered(ctx, (table, id.number), (data, inventory), effects),
            Table::Lanes(table) => self.lanes_answered(ctx, table, (data, inventory), effects),
        }
    }

    /// Takes an LFT block as its switch holds it.
    fn lft_answered(
        &mut self,
        ctx: &Ctx<'_>,
        (table, number): (Table, usize),
        (data, inventory): (&SmpData, &Inventory),
        effects: &mut Vec<Effect>,
    ) {
        let fabric = &inventory.fabric;
        let (Ok(held), Some((switch, block))) = (LinearForwardingTable::parse(data), lft_place(&table, fabric)) else {
            return;
        };
        let node = fabric.switch(switch);
        self.read += 1;
        let wrote = ctx.installed.block(switch, block);
        let Some(wrote) = wrote.filter(|wrote| **wrote != held.ports) else {
            self.list(Kind::Lft).note_read(number);
            self.doubt.unproved.remove(&table);
            self.lies.holds(node.guid);
            return;
        };
        // It stays to be read. A sweep is due: what else was written is still asked for, lest the same comes again
        // after an interval; the others' turn comes later.
        self.differences += 1;
        self.list(Kind::Lft).leave_others();
        effects.push(Effect::Tell(difference(&node.description, block, (wrote, &held.ports))));
        if let Some(times) = self.lies.differs(node.guid) {
            let what = node.description.clone();
            effects.push(Effect::Tell(Event::SwitchLies { what, times }));
        }
        let holds = held.ports;
        effects.push(Effect::LftDiffers { switch, block, holds });
    }

    /// Takes a lane table as its node holds it.
    fn lanes_answered(
        &mut self,
        ctx: &Ctx<'_>,
        table: LaneTable,
        (data, inventory): (&SmpData, &Inventory),
        effects: &mut Vec<Effect>,
    ) {
        let (fabric, held) = (&inventory.fabric, &ctx.installed.lanes);
        let guid = fabric.node(table.port().node).guid;
        let mut read = HeldLanes::default();
        lane_smp::learn(&mut read, fabric, table, data);
        if agrees(&read, held, guid, table) {
            return;
        }
        // No manager writes the table of a management port. And a table may have been taken for unknown since it was
        // asked for, with what else the node held.
        if table.port().port != PortNum::MANAGEMENT && is_known(held, guid, table) {
            // A sweep is due: nothing more is asked.
            self.list(Kind::Lanes).leave_others();
            effects.push(Effect::Tell(Event::LanesDiffer {
                what: fabric.port_name(table.port()),
                table: match table {
                    LaneTable::SlToVl { .. } => "SLtoVLMappingTable",
                    LaneTable::Arbitration { .. } => "VLArbitrationTable",
                },
            }));
            effects.push(Effect::LanesDiffer(table.port()));
        }
        effects.push(Effect::LanesHold(table, *data));
    }
}

/// Returns where an LFT block is among what is installed.
fn lft_place(table: &Table, fabric: &Fabric) -> Option<(SwitchIdx, usize)> {
    let Table::Lft { block, switch } = table else {
        return None;
    };
    let switch = fabric.switch_index(fabric.find(*switch)?)?;
    Some((switch, usize::from(*block)))
}

/// Returns true if a lane table that was read is as it was held to be, or cannot be understood.
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

/// Returns true if a lane table's content is known.
fn is_known(held: &HeldLanes, node: Guid, table: LaneTable) -> bool {
    match table {
        LaneTable::SlToVl { port, ingress } => held.row(node, port.port, ingress).is_some(),
        LaneTable::Arbitration { port, block } => held.turns(node, port.port, block).is_some(),
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

#[cfg(test)]
mod tests;
