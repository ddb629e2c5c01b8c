//! Reads tables back: an agent may acknowledge a table and not hold it, or lose what it held, and a Set that the
//! network kept may arrive late.
//!
//! All kinds of tables are read back by one mechanism. A read-back reads each table that was written since the last
//! one, and the share of the others whose turn it is: each is read once in [`Config::read_back_sweeps`] light sweeps.
//! Questions are kept open as far as the window allows. A table that nobody answers for stays to be read. If an answer
//! differs from what is known, that is an effect: the outer machine takes the answer for known and has the table
//! written again. The kinds differ in this:
//!
//! | | LFT | lanes | MFT, GUIDInfo |
//! |---|---|---|---|
//! | when | at the end of a light sweep | after LFTs | after a light sweep that found nothing |
//! | others' turn | block by block over all switches | node by node, up to a number of tables | in their order |
//! | written tables | come first | are not told from others | are read in their order, too |
//! | nobody answers | stays to be read | read in its next turn | stays to be read |
//! | differs | only what was written is still read | nothing more is read | the others are still read |
//! | broken off | what was not answered is read again | no more is read | all is read again |
//!
//! If a Set of an LFT block was repeated, its first copy may come after the answer and after a newer Set of that block.
//! Such a block stays to be read until no copy can come any more: as long as a request is repeated before it fails.
//!
//! LFT blocks that were written are read within an interval, whatever else there is to do: a switch that lies swallows
//! what tells another to be quiet, and a trap that is repeated each second must not put the read-back off for ever. A
//! switch that goes on to hold other blocks than it acknowledges is told of by itself, and gets its tables again at
//! each light sweep: its links are up and it answers, so no other node can say where its packets go.

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

/// What is to be read back, and what came of it.
#[derive(Clone, Debug, Default)]
pub struct ReadBack {
    /// What is to be read, by [`Kind`].
    lists: [List; Kind::COUNT],
    /// Where the others' turn goes on.
    turns: Turns,
    /// Whether a light sweep is at its questions for tables.
    is_open: bool,
    /// Since when an LFT block that was written has not been read.
    since: Option<Time>,
    /// When a light sweep was due last.
    tried: Option<Time>,
    /// Switches that do not hold what they acknowledge.
    lies: Lies,
    /// LFT blocks whose Sets were repeated, with the time until which an earlier copy may come.
    repeated: BTreeMap<Table, Time>,
    /// Until when an earlier copy of any Set may come.
    copies_end: Time,
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
    /// What switches copy of multicast as far as known, by their GUIDs.
    pub copies: &'a BTreeMap<Guid, MftBlocks>,
    /// What ports hold of GUIDs as far as known.
    pub guids: &'a HeldGuids,
    /// Blocks of GUIDs that may be others by now.
    pub unread_guids: &'a BTreeSet<(Guid, u8)>,
}

/// What happens to the read-back.
#[derive(Clone, Debug)]
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
    /// A block of this kind was written: an MFT's, or of GUIDInfo.
    Acknowledged(Table),
    /// A Set was sent more than once, and is answered: an earlier copy may still come. Of an LFT block, that block.
    Repeated(Option<Table>),
    /// A switch may not hold any more what it was read to hold.
    MayHaveLost {
        /// The switch.
        switch: Guid,
        /// How many LFT blocks it had.
        blocks: u16,
    },
    /// A heavy sweep found this fabric, and is about to read the tables of it that are unknown.
    HeavySweepReads(&'a Fabric, &'a Installed),
    /// It has read what it could.
    HeavySweepHasRead(&'a Fabric, &'a Installed),
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
    /// A read-back of MFTs or GUIDInfo begins; these switches or ports are left out of it.
    Begins(Kind, BTreeSet<Guid>),
    /// All questions of such a read-back have ended.
    Ends(Kind),
    /// Something else comes before the rest of such a read-back.
    BreaksOff(Kind),
    /// Another manager is in charge: what it writes of multicast and GUIDs is not known.
    AnotherManages,
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
    /// An LFT block is not as it was written: it holds this.
    LftDiffers(SwitchIdx, usize, [u8; BLOCK_LIDS]),
    /// The MFT block of a switch, at this block and position, is not as it was known: it holds this.
    MftDiffers(Guid, (u16, u8), MftBlock),
    /// The GUIDInfo block of a port is not as it was known: it holds this.
    GuidsDiffer((Guid, u8), GuidBlock),
    /// A lane table of this port is not as it was written.
    LanesDiffer(PortRef),
    /// A lane table holds this.
    LanesHold(LaneTable, SmpData),
}

impl ReadBack {
    /// Takes an input and appends what is to be done.
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

    /// Returns true if a read-back has begun that has anything to read.
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

    /// A read-back of MFTs or GUIDInfo begins.
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

    /// Returns the next question for a table of a kind.
    fn ask(&mut self, ctx: &Ctx<'_>, kind: Kind) -> Option<Effect> {
        let is_time = self.is_open || !kind.is_in_light_sweep();
        let inventory = ctx.inventory.filter(|_| is_time)?;
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
                // It stays to be read. A sweep is due: what else was written is still asked for, lest the same comes
                // again after an interval; the others' turn comes later.
                list.leave_others();
                self.read += 1;
                self.differences += 1;
                if let Some(times) = self.lies.differs(switch) {
                    let node = inventory.fabric.find(switch).map(|node| inventory.fabric.node(node));
                    let what = node.map(|node| node.description.clone()).unwrap_or_default();
                    effects.push(Effect::Tell(Event::SwitchLies { what, times }));
                }
            }
            // A sweep is due: nothing more is asked.
            (Table::Lanes(_), false) => list.leave_others(),
            (Table::Lanes(_), true) => {}
            (Table::Mft { .. } | Table::Guids { .. }, _) => list.note_read(id.number),
        }
    }
}

/// Returns true if a table is known, and can be asked for in the fabric; not if its switch or port is left out.
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

/// Returns where an LFT block is among what is installed.
fn lft_place(table: &Table, fabric: &Fabric) -> Option<(SwitchIdx, usize)> {
    let Table::Lft { block, switch } = table else {
        return None;
    };
    let switch = fabric.switch_index(fabric.find(*switch)?)?;
    Some((switch, usize::from(*block)))
}

#[cfg(test)]
mod tests;
