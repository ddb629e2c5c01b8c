//! Reads tables back: an agent may acknowledge a table without holding it, or lose its contents, and a Set may arrive
//! late.
//!
//! All kinds of tables are read back by one mechanism. A read-back reads each table that was written since the last
//! one, and a share of the others, in turn: each is read once in [`Config::read_back_sweeps`] light sweeps. As many
//! Gets are in flight as the window allows. A table without an answer is read again later. If an answer differs from
//! the known contents, the effect is that the outer machine records the answer as known and has the table written
//! again. The kinds differ in this:
//!
//! | | LFT | lanes | MFT, GUIDInfo |
//! |---|---|---|---|
//! | when | at the end of a light sweep | after LFTs | after a light sweep that found nothing |
//! | order of the others | block by block over all switches | node by node, up to a number of tables | in their order |
//! | written tables | come first | are treated like all others | are read in their order, too |
//! | no answer | read in its next turn | read in its next turn | stays to be read |
//! | after a difference | only written tables are still read | nothing more is read | the others are still read |
//! | then, tables without an answer | are read again | are not read | are all read again |
//!
//! If a Set of an LFT block was repeated, its first copy may come after the answer and after a newer Set of that block.
//! Such a block is read again and again until no copy can arrive any more, which is the time for which a request is
//! repeated before it fails.
//!
//! Written LFT blocks are read within an interval, whatever other work there is. A switch that lies may drop the
//! TrapRepress for another agent, and a trap that is repeated each second must not delay the read-back for ever. If a
//! switch goes on to hold other blocks than it acknowledges, an event names it, and its tables are written again at
//! each light sweep: its links are up and it answers, so nothing else shows where its packets go.

mod answer;
mod lies;
mod list;
mod table;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_fabric::{Fabric, NodeIdx, PortRef, SwitchIdx};
use selvedge_plan::aliases::{GuidBlock, HeldGuids, reachable};
use selvedge_plan::multicast::{MftBlock, MftBlocks};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Installed, LaneTable, Op, Plan};
use selvedge_planner::Inventory;
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_wire::SmpData;

use crate::config::Config;
use crate::event::Event;
use crate::smp::Smp;
use crate::view::ReadBackFigures;
use lies::Lies;
use list::List;
use turn::Turns;

pub use table::{Kind, ReadId, Table};

/// The tables to be read back, and the results.
#[derive(Clone, Debug, Default)]
pub struct ReadBack {
    /// The tables to be read, by [`Kind`].
    lists: [List; Kind::COUNT],
    /// Where each list of tables that are read in turn continues.
    turns: Turns,
    /// True while a light sweep reads tables.
    is_open: bool,
    /// The time since which a written LFT block has not been read.
    since: Option<Time>,
    /// When the last light sweep was due.
    tried: Option<Time>,
    /// Switches that do not hold the blocks that they acknowledge.
    lies: Lies,
    /// LFT blocks with a repeated Set, and the time until which an earlier copy may arrive.
    repeated: BTreeMap<Table, Time>,
    /// The time until which an earlier copy of any Set may arrive.
    copies_end: Time,
    /// Tables that heavy sweeps must read again.
    doubt: Doubt,
    /// Number of LFT blocks read back so far.
    read: u64,
    /// Number of these blocks that differed from what was written.
    differences: u64,
}

/// LFT blocks for which a heavy sweep does not rely on the acknowledgement.
#[derive(Clone, Debug, Default)]
struct Doubt {
    /// Blocks that were written while packets flowed, and that have not been read since.
    unproved: BTreeSet<Table>,
    /// The blocks that the current sweep requests, with their last known contents.
    asked: Vec<Believed>,
    /// True if the current sweep requests all written blocks.
    is_of_all: bool,
}

/// An LFT block, with its last known contents.
type Believed = (SwitchIdx, usize, [u8; BLOCK_LIDS]);

/// The inputs of the read-back.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// The time of the input.
    pub now: Time,
    /// The settings of the manager.
    pub config: &'a Config,
    /// The last complete inventory, with the directed routes for requests.
    pub inventory: Option<&'a Inventory>,
    /// The plan in force, with its fabric.
    pub in_force: Option<(&'a Plan, &'a Fabric)>,
    /// The known tables of switches.
    pub installed: &'a Installed,
    /// The known MFT blocks of switches, by GUID.
    pub copies: &'a BTreeMap<Guid, MftBlocks>,
    /// The known GUIDInfo of ports.
    pub guids: &'a HeldGuids,
    /// Blocks of GUIDInfo with contents that may have changed since they were last read.
    pub unread_guids: &'a BTreeSet<(Guid, u8)>,
}

/// The inputs of this sub-machine.
#[derive(Clone, Debug)]
pub enum In<'a> {
    /// Sets are sent from now on.
    Writing,
    /// A change has been applied, in full or in part.
    Written {
        /// The fabric of the change.
        fabric: &'a Fabric,
        /// The change set.
        changes: &'a ChangeSet,
        /// True if packets flowed while the Sets were sent.
        is_live: bool,
    },
    /// A block of an MFT or of GUIDInfo was written.
    Acknowledged(Table),
    /// A Set was sent more than once, and is answered: an earlier copy may still come. Carries the LFT block that the
    /// Set wrote; `None` for any other Set.
    Repeated(Option<Table>),
    /// A switch may have lost contents that were read.
    MayHaveLost {
        /// The switch.
        switch: Guid,
        /// Number of LFT blocks that the switch had.
        blocks: u16,
    },
    /// A heavy sweep found this fabric, and is about to read its unknown tables.
    HeavySweepReads(&'a Fabric, &'a Installed),
    /// The heavy sweep has read all tables that answered.
    HeavySweepHasRead(&'a Fabric, &'a Installed),
    /// A light sweep is due, whether it begins or not.
    LightSweepDue,
    /// A light sweep begins.
    LightSweepBegins,
    /// The light sweep has sent its other requests. From now on it reads tables.
    Open,
    /// A Get of a table of this kind can be sent.
    Room(Kind),
    /// A Get has ended, with an answer or without one.
    Answered(ReadId, Option<&'a SmpData>),
    /// A light sweep has ended.
    LightSweepEnds,
    /// A read-back of MFTs or GUIDInfo begins; these switches or ports are left out of it.
    Begins(Kind, BTreeSet<Guid>),
    /// All Gets of such a read-back have ended.
    Ends(Kind),
    /// Other work interrupts a read-back of this kind.
    BreaksOff(Kind),
    /// Another manager is master, so MFTs and GUIDInfo are no longer known.
    AnotherManages,
}

/// Effects of the read-back.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send a Get of a table. If it is not sent, it counts as not answered.
    Ask {
        /// The Get.
        id: ReadId,
        /// The node to ask.
        node: NodeIdx,
        /// The Get.
        get: Smp,
    },
    /// Report this event.
    Tell(Event),
    /// The heavy sweep must treat these LFT blocks as unknown.
    Doubt(Vec<(SwitchIdx, usize)>),
    /// LFT blocks that the heavy sweep could not read keep their last known contents.
    Believe(Vec<Believed>),
    /// An LFT block differs from what was written; it has these contents.
    LftDiffers(SwitchIdx, usize, [u8; BLOCK_LIDS]),
    /// The MFT block of a switch, at this block and position, differs from its known contents: these are its contents.
    MftDiffers(Guid, (u16, u8), MftBlock),
    /// The GUIDInfo block of a port differs from its known contents: these are its contents.
    GuidsDiffer((Guid, u8), GuidBlock),
    /// A lane table of this port differs from what was written.
    LanesDiffer(PortRef),
    /// A lane table has these contents.
    LanesHold(LaneTable, SmpData),
}

impl ReadBack {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In<'_>, effects: &mut Vec<Effect>) {
        match input {
            In::Writing => _ = self.since.get_or_insert(ctx.now),
            In::Written {
                fabric,
                changes,
                is_live,
            } => self.written(fabric, changes, is_live),
            In::Acknowledged(table) => self.list(table.kind()).add([table]),
            In::Repeated(table) => {
                self.copies_end = ctx.now + ctx.config.timeout * (u32::from(ctx.config.retries) + 1);
                self.repeated.extend(table.map(|table| (table, self.copies_end)));
            }
            In::MayHaveLost { switch, blocks } => {
                self.settle();
                let blocks = (0..blocks).map(|block| Table::Lft { block, switch });
                self.list(Kind::Lft).add(blocks);
            }
            In::HeavySweepReads(fabric, installed) => {
                let is_overdue = self.is_overdue(ctx.now, ctx.config.sweep_interval);
                effects.push(self.begin_doubt(is_overdue, fabric, installed));
            }
            In::HeavySweepHasRead(fabric, installed) => effects.push(self.end_doubt(ctx.now, fabric, installed)),
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
            In::Begins(kind, left_out) => self.begin(ctx, kind, &left_out),
            In::Ends(kind) => self.list(kind).settle(),
            In::BreaksOff(kind) => self.list(kind).start_over(),
            In::AnotherManages => {
                self.list(Kind::Mft).forget();
                self.list(Kind::Guids).forget();
            }
        }
    }

    /// Returns true if a read-back has begun and has tables to read.
    pub const fn has_begun(&self, kind: Kind) -> bool {
        self.lists[kind as usize].has_begun()
    }

    /// Returns true if an earlier copy of a Set may still come.
    pub fn may_copies_come(&self, now: Time) -> bool {
        now < self.copies_end
    }

    /// Returns true while a light sweep asks for tables.
    pub const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns true if the read-back of an LFT block is overdue. Then the block is read now, before the heavy sweep
    /// that is due.
    pub fn is_overdue(&self, now: Time, interval: Option<Duration>) -> bool {
        let since = self.since.zip(interval);
        since.is_some_and(|(since, interval)| since + interval <= now)
    }

    /// Returns when the next light sweep begins; `due` is the planned time. It may be earlier, so that written blocks
    /// are read back within an `interval`, however often other work comes in between.
    pub fn due(&self, now: Time, due: Time, interval: Duration) -> Time {
        let written = self.since.map_or(due, |since| since + interval);
        // Whatever keeps it from being read does not fill the time.
        let again = self.tried.map_or(now, |tried| tried + interval / 4);
        due.min(written.max(again).max(now))
    }

    /// Returns the figures so far.
    pub fn figures(&self) -> ReadBackFigures {
        ReadBackFigures {
            read: self.read,
            differences: self.differences,
            lying: self.lies.liars().collect(),
        }
    }

    const fn list(&mut self, kind: Kind) -> &mut List {
        &mut self.lists[kind as usize]
    }

    /// Ends the read-back of a light sweep: requested tables without an answer are read again later.
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

    /// Marks blocks as unknown that were written under traffic and not read since. A heavy sweep then reads them before
    /// the next change is planned: if a switch does not hold a table that it has acknowledged, no proof holds. If the
    /// read-back `is_overdue` because the sweep replaces a light sweep, all written blocks become unknown.
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

    /// Called when the heavy sweep has read all blocks that answered. A block without an answer keeps its last known
    /// contents.
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

    /// Called when a light sweep begins: collects the tables that still must be read, and those with a turn.
    fn begin_light_sweep(&mut self, ctx: &Ctx<'_>) {
        let Some(inventory) = ctx.inventory else { return };
        let fabric = &inventory.fabric;
        self.settle();
        self.repeated.retain(|_, until| ctx.now < *until);
        self.lies.forget_sweep();
        let others = self.turns.lft(fabric, ctx.installed, ctx.config.read_back_sweeps);
        self.list(Kind::Lft)
            .begin(others, |table| counts(ctx, fabric, &BTreeSet::new(), table));
        let others = self.turns.lanes(ctx, fabric);
        self.list(Kind::Lanes).begin(others, |_| true);
    }

    /// Called when a read-back of MFTs or GUIDInfo begins.
    fn begin(&mut self, ctx: &Ctx<'_>, kind: Kind, left_out: &BTreeSet<Guid>) {
        let Some(inventory) = ctx.inventory else { return };
        let (list, read_backs) = (self.list(kind), ctx.config.read_back_sweeps);
        match kind {
            Kind::Mft => {
                let switches = ctx.copies.iter();
                let blocks = switches.flat_map(|(&switch, blocks)| blocks.keys().map(move |&place| (switch, place)));
                let tables = blocks.map(|(switch, place)| Table::Mft { switch, place });
                list.add_turn(|| tables.clone(), read_backs);
            }
            Kind::Guids => {
                let of_port = |&(port, block): &(Guid, u8)| Table::Guids { port, block };
                list.add_turn(|| ctx.guids.keys().map(of_port), read_backs);
            }
            Kind::Lft | Kind::Lanes => {}
        }
        list.begin(Vec::new(), |table| counts(ctx, &inventory.fabric, left_out, table));
    }

    /// Returns the next Get of a table of this kind.
    fn ask(&mut self, ctx: &Ctx<'_>, kind: Kind) -> Option<Effect> {
        let is_time = self.is_open || !kind.is_in_light_sweep();
        let inventory = ctx.inventory.filter(|_| is_time)?;
        loop {
            let (number, table) = self.list(kind).next()?;
            if let Some((node, get)) = table.question(inventory) {
                let id = ReadId { kind, number };
                return Some(Effect::Ask { id, node, get });
            }
        }
    }

    /// Handles the end of a Get. A table without an answer is read again later.
    fn answered(&mut self, ctx: &Ctx<'_>, id: ReadId, data: Option<&SmpData>, effects: &mut Vec<Effect>) {
        let (Some(table), Some(data), Some(inventory)) = (self.list(id.kind).get(id.number), data, ctx.inventory)
        else {
            return;
        };
        let Some(is_as_known) = answer::is_as_known(ctx, inventory, (table, data), effects) else {
            return;
        };
        let may_change = self.repeated.contains_key(&table);
        let list = self.list(id.kind);
        match (table, is_as_known) {
            (Table::Lft { switch, .. }, true) => {
                if !may_change {
                    list.note_read(id.number);
                }
                self.read += 1;
                self.doubt.unproved.remove(&table);
                self.lies.holds(switch);
            }
            (Table::Lft { switch, .. }, false) => {
                // The block is read again later. A sweep is due: other written blocks are still requested, so that they
                // are not found after another interval; the turns come later.
                list.leave_others();
                self.read += 1;
                self.differences += 1;
                if let Some(times) = self.lies.differs(switch) {
                    let node = inventory.fabric.find(switch).map(|node| inventory.fabric.node(node));
                    let what = node.map(|node| node.description.clone()).unwrap_or_default();
                    effects.push(Effect::Tell(Event::SwitchLies { what, times }));
                }
            }
            // A sweep is due: no more Gets are sent.
            (Table::Lanes(_), false) => list.leave_others(),
            (Table::Lanes(_), true) => {}
            (Table::Mft { .. } | Table::Guids { .. }, _) => list.note_read(id.number),
        }
    }
}

/// Returns true if a table is known and can be read; false if its switch or port is left out.
fn counts(ctx: &Ctx<'_>, fabric: &Fabric, left_out: &BTreeSet<Guid>, table: &Table) -> bool {
    match *table {
        Table::Lft { .. } => {
            let place = lft_place(table, fabric);
            place.is_some_and(|(switch, block)| ctx.installed.block(switch, block).is_some())
        }
        Table::Lanes(_) => true,
        Table::Mft { switch, place } => {
            let is_known = ctx
                .copies
                .get(&switch)
                .is_some_and(|blocks| blocks.contains_key(&place));
            let node = fabric.find(switch).and_then(|node| fabric.switch_index(node));
            is_known && node.is_some() && !left_out.contains(&switch)
        }
        Table::Guids { port, block } => {
            let is_known = ctx.guids.contains_key(&(port, block)) && !ctx.unread_guids.contains(&(port, block));
            is_known && reachable(fabric, port).is_some() && !left_out.contains(&port)
        }
    }
}

/// Returns the position of an LFT block among the installed tables.
fn lft_place(table: &Table, fabric: &Fabric) -> Option<(SwitchIdx, usize)> {
    let Table::Lft { block, switch } = table else {
        return None;
    };
    let switch = fabric.switch_index(fabric.find(*switch)?)?;
    Some((switch, usize::from(*block)))
}

#[cfg(test)]
mod tests;
