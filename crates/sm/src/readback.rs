//! Reads back what was written: an agent may acknowledge a block and not hold it, and a Set that the network kept may
//! arrive late.
//!
//! A light sweep reads every block that was written since the last one, and a share of the others, so that each is read
//! once in [`Config::read_back_sweeps`](crate::Config) light sweeps. A difference is told, and the next sweep writes
//! again. A switch that goes on telling untruths is told of by itself, and gets its tables again at each light sweep:
//! its links are up and it answers, so nobody else can say where its packets go.
//!
//! What was written is read within an interval, whatever else there is to do: a switch that lies swallows what tells
//! another to be quiet, and a trap that is repeated each second must not put the look off for ever.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_mad::AgentId;
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Installed, Op};
use selvedge_sim::Time;
use selvedge_types::{Guid, Idx, PortNum};
use selvedge_wire::{Attribute, AttributeId, LinearForwardingTable, Mad};

use crate::config::Mode;
use crate::core::{Sm, ok};
use crate::event::Event;
use crate::io::Output;
use crate::smp;
use crate::stage::Token;
use crate::view::{ReadBackFigures, Role};

/// Light sweeps in a row in which a switch held something else than it had acknowledged, until it is called a liar.
const LIES: u32 = 3;

/// A block of a switch; in this order consecutive questions go to different agents.
type Block = (u16, Guid);

/// What is to be read back, and what came of it.
#[derive(Clone, Debug, Default)]
pub struct ReadBack {
    /// What is to be read; sorted while it is.
    blocks: Vec<Block>,
    /// Which of them have been.
    done: Vec<bool>,
    /// How many of them, the first, were written; it is the others' turn with the rest.
    written: usize,
    /// The next to ask for.
    next: usize,
    /// Whether they are being asked for.
    is_open: bool,
    /// Since when a written block has not been read.
    since: Option<Time>,
    /// When it was last time to read.
    tried: Option<Time>,
    /// Where the others' turn goes on: block by block over all switches.
    turn: usize,
    /// Light sweeps in a row in which a switch did not hold what it should.
    lies: BTreeMap<Guid, u32>,
    /// Switches that did not hold what they should in this light sweep, and those that did.
    found: (BTreeSet<Guid>, BTreeSet<Guid>),
    /// Blocks that were written while packets flowed, and that nobody has read since.
    unproved: BTreeSet<Block>,
    /// Those of them that a sweep asks for, as they are believed to be.
    doubted: Vec<(SwitchIdx, usize, [u8; BLOCK_LIDS])>,
    /// A sweep asks for all that was written.
    doubts_all: bool,
    /// Blocks read back so far.
    read: u64,
    /// Those of them that were not as they had been written.
    differences: u64,
}

impl ReadBack {
    /// Sets go out from now on.
    pub fn begin_writing(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// They have been taken, or some of them; `is_live`: while packets flowed.
    pub fn written(&mut self, fabric: &Fabric, changes: &ChangeSet, is_live: bool) {
        self.settle();
        for op in changes.phases.iter().flat_map(|phase| &phase.ops) {
            if let Op::Lft { node, block, .. } = op {
                let block = (*block, fabric.node(*node).guid);
                self.blocks.push(block);
                self.unproved.extend(is_live.then_some(block));
            }
        }
        if self.blocks.is_empty() {
            self.since = None;
        }
    }

    /// A switch may not hold any more what it was read to hold: all of that is to be read with what was written.
    pub fn again(&mut self, guid: Guid, blocks: impl IntoIterator<Item = u16>) {
        self.settle();
        self.blocks.extend(blocks.into_iter().map(|block| (block, guid)));
    }

    /// It is time for a light sweep, whatever becomes of it.
    pub const fn try_now(&mut self, now: Time) {
        self.tried = Some(now);
    }

    /// Takes what was written under traffic and not read since for unknown: a sweep reads it before it plans the next
    /// change, as no proof holds where a switch has acknowledged a table and not taken it. If it `is_overdue`, as the
    /// sweep takes the place of a light sweep, so is whatever was written.
    pub fn doubt(&mut self, is_overdue: bool, fabric: &Fabric, installed: &mut Installed) {
        let take = |&(block, guid): &Block| {
            let switch = fabric.switch_index(fabric.find(guid)?)?;
            let held = installed.lfts.get_mut(switch)?.get_mut(usize::from(block))?;
            Some((switch, usize::from(block), held.take()?))
        };
        self.settle();
        self.doubts_all = is_overdue;
        let written = self.blocks.iter().filter(|_| is_overdue);
        self.doubted = written.chain(&self.unproved).filter_map(take).collect();
    }

    /// A sweep has read what it could; a table that nobody answered for is as it was believed to be.
    pub fn end_doubt(&mut self, now: Time, fabric: &Fabric, installed: &mut Installed) {
        let is_unread = |&(block, guid): &Block| {
            let switch = fabric.find(guid).and_then(|node| fabric.switch_index(node));
            switch.is_none_or(|switch| installed.block(switch, usize::from(block)).is_none())
        };
        self.unproved.retain(is_unread);
        if std::mem::take(&mut self.doubts_all) {
            // What could not be read has its turn in the next light sweep.
            self.blocks.retain(is_unread);
            self.since = (!self.blocks.is_empty()).then_some(now);
        }
        for (switch, block, believed) in std::mem::take(&mut self.doubted) {
            if installed.block(switch, block).is_none() {
                installed.learn(switch, block, believed);
            }
        }
    }

    /// True while switches are asked for their tables.
    pub const fn is_open(&self) -> bool {
        self.is_open
    }

    /// What was found so far.
    pub fn figures(&self) -> ReadBackFigures {
        let told = self.lies.iter().filter(|(_, times)| **times >= LIES);
        ReadBackFigures {
            read: self.read,
            differences: self.differences,
            lying: told.map(|(guid, _)| *guid).collect(),
        }
    }

    /// What was asked for and has not been answered stays to be read.
    fn settle(&mut self) {
        let mut done = std::mem::take(&mut self.done).into_iter();
        self.blocks.retain(|_| !done.next().unwrap_or(false));
        (self.next, self.is_open) = (0, false);
    }

    /// A light sweep begins: what is still to be read, and the others' turn.
    fn begin(&mut self, fabric: &Fabric, installed: &Installed, sweeps: u32) {
        self.settle();
        self.found = Default::default();
        let is_held = |&(block, guid): &Block| {
            let switch = fabric.find(guid).and_then(|node| fabric.switch_index(node));
            switch.is_some_and(|switch| installed.block(switch, usize::from(block)).is_some())
        };
        self.blocks.retain(is_held);
        self.blocks.sort_unstable();
        self.blocks.dedup();
        self.written = self.blocks.len();
        let mut others: Vec<Block> = Vec::new();
        let switches = fabric.switches();
        let rows = installed.lfts.iter().map(Vec::len).max().unwrap_or(0);
        let total = rows * switches.len();
        if sweeps > 0 {
            for _ in 0..total.div_ceil(sweeps as usize) {
                self.turn = if self.turn < total { self.turn } else { 0 };
                let switch = switches[SwitchIdx::from_usize(self.turn % switches.len())];
                let block = u16::try_from(self.turn / switches.len()).unwrap_or(u16::MAX);
                others.push((block, fabric.node(switch).guid));
                self.turn += 1;
            }
        }
        others.retain(|block| is_held(block) && self.blocks.binary_search(block).is_err());
        others.sort_unstable();
        self.blocks.extend(others);
        self.done = vec![false; self.blocks.len()];
    }

    /// Only what was written is asked for.
    fn leave_others(&mut self) {
        let asked = self.next.max(self.written);
        self.blocks.truncate(asked);
        self.done.truncate(asked);
    }

    /// The light sweep is over.
    fn end(&mut self, now: Time) {
        self.settle();
        let (wrong, right) = std::mem::take(&mut self.found);
        for guid in right.difference(&wrong) {
            self.lies.remove(guid);
        }
        for guid in wrong {
            *self.lies.entry(guid).or_default() += 1;
        }
        // What could not be read has its turn in the next.
        self.since = (!self.blocks.is_empty()).then_some(now);
    }
}

impl Sm {
    /// A light sweep begins.
    pub(crate) fn prepare_reading_back(&mut self, fabric: &Fabric) {
        let sweeps = self.config.read_back_sweeps;
        self.read_back.begin(fabric, &self.view.installed, sweeps);
    }

    /// The switches have said what they had to say: now their tables are asked for. False if there are none to ask for,
    /// or something has `changed` and there is time.
    pub(crate) fn begin_reading_back(&mut self, changed: bool) -> bool {
        if changed && !self.is_read_back_overdue() {
            return false;
        }
        let is_ours = self.config.mode == Mode::Manage && self.view.role == Role::Master;
        let list = &self.read_back;
        // A light sweep that asks nothing, as after a plan that failed, has none.
        let is_listed = !list.blocks.is_empty() && list.done.len() == list.blocks.len();
        let begins = is_ours && is_listed && !list.is_open;
        self.read_back.is_open |= begins;
        begins
    }

    /// Keeps so many questions open.
    pub(crate) fn ask_back(&mut self) {
        let Some(inventory) = self.inventory.clone().filter(|_| self.read_back.is_open) else {
            return;
        };
        let fabric = &inventory.fabric;
        while self.exchange.open() < self.config.ready() {
            let number = self.read_back.next;
            let Some(&(block, guid)) = self.read_back.blocks.get(number) else {
                return;
            };
            self.read_back.next += 1;
            let Some(node) = fabric.find(guid) else { continue };
            let route = &inventory.agents[node].route;
            if self.silent.is_silent(route) {
                continue;
            }
            let m_key = self.config.policy.m_key;
            let get = smp::get(AttributeId::LINEAR_FORWARDING, block.into(), route, m_key);
            self.exchange.submit(AgentId(node.0), (Token::ReadBack(number), get));
        }
    }

    /// A block as its switch holds it; true if it is not as it was written.
    pub(crate) fn was_read_back(&mut self, number: usize, answer: Option<&Mad>, out: &mut Vec<Output>) -> bool {
        let Some(inventory) = self.inventory.clone() else {
            return false;
        };
        let held = ok(answer).and_then(|mad| LinearForwardingTable::parse(mad.smp_data()).ok());
        let is_listed = number < self.read_back.done.len();
        let (Some(&(block, guid)), Some(held), true) = (self.read_back.blocks.get(number), held, is_listed) else {
            // Nobody answered: it stays to be read.
            return false;
        };
        let fabric = &inventory.fabric;
        let Some(switch) = fabric.find(guid).and_then(|node| fabric.switch_index(node)) else {
            return false;
        };
        self.read_back.read += 1;
        let wrote = self.view.installed.block(switch, usize::from(block)).copied();
        let Some(wrote) = wrote.filter(|wrote| *wrote != held.ports) else {
            self.read_back.done[number] = true;
            self.read_back.unproved.remove(&(block, guid));
            self.read_back.found.1.insert(guid);
            return false;
        };
        // It stays to be read. A sweep is due: what else was written is still asked for, lest the same comes again
        // after an interval; the others' turn comes later.
        self.read_back.differences += 1;
        let is_first = self.read_back.found.0.insert(guid);
        self.read_back.leave_others();
        let name = fabric.node(fabric.switches()[switch]).description.clone();
        let times = self.read_back.lies.get(&guid).copied().unwrap_or(0) + 1;
        out.push(Output::Event(difference(&name, block, (&wrote, &held.ports))));
        if is_first && times == LIES {
            out.push(Output::Event(Event::SwitchLies { what: name, times }));
        }
        // What was prepared for repairs starts from what is not so. Another switch may have taken what was meant for
        // this one, if a cable was moved.
        self.forget_repairs();
        self.past.note_astray(fabric);
        let installed = std::sync::Arc::make_mut(&mut self.view.installed);
        installed.learn(switch, usize::from(block), held.ports);
        // Whoever was off, or took what was meant for another, may hold other lanes as well.
        if !installed.lanes.is_empty() {
            let node = fabric.node(fabric.switches()[switch]);
            std::sync::Arc::make_mut(&mut installed.lanes).forget_port(node, PortNum::MANAGEMENT);
        }
        true
    }

    /// True if a table is another one than this manager believed to have written: a Set went along a cable that had
    /// been moved and was taken by another switch, say, or a switch acknowledged what it did not take. It is unknown
    /// from now on: if another sweep takes the place of this one, that reads it again.
    pub(crate) fn take_astray(&mut self, fabric: &Fabric, read: &Installed) -> bool {
        let Some(old) = &self.view.fabric else { return false };
        let mut astray = Vec::new();
        for (switch, &node) in fabric.switches().iter_enumerated() {
            let before = old.find(fabric.node(node).guid).and_then(|node| old.switch_index(node));
            let Some(before) = before else { continue };
            for block in 0..read.lfts.get(switch).map_or(0, Vec::len) {
                let (believed, read) = (self.view.installed.block(before, block), read.block(switch, block));
                if let (Some(believed), Some(read)) = (believed, read)
                    && believed != read
                {
                    astray.push((before, block));
                }
            }
        }
        if astray.is_empty() {
            return false;
        }
        let installed = std::sync::Arc::make_mut(&mut self.view.installed);
        for (switch, block) in astray {
            let blocks = installed.lfts.get_mut(switch);
            if let Some(held) = blocks.and_then(|blocks| blocks.get_mut(block)) {
                *held = None;
            }
        }
        true
    }

    /// Everything that was asked in a light sweep has been answered, or never will be.
    pub(crate) fn end_reading_back(&mut self) {
        self.read_back.end(self.now);
    }

    /// When the next light sweep is to be, if it would be at `due` otherwise: what was written is read back in time,
    /// however often something else comes in between.
    pub(crate) fn read_back_due(&self, due: Option<Time>) -> Option<Time> {
        // Where nobody is known there is nothing to read.
        let interval = self.config.sweep_interval.filter(|_| self.inventory.is_some());
        let (Some(interval), Some(due)) = (interval, due) else {
            return due;
        };
        let written = self.read_back.since.map_or(due, |since| since + interval);
        // Whatever keeps it from being read does not fill the time.
        let again = self.read_back.tried.map_or(self.now, |tried| tried + interval / 4);
        Some(due.min(written.max(again).max(self.now)))
    }

    /// True if something was written so long ago that it is read now, though a sweep is due as well.
    pub(crate) fn is_read_back_overdue(&self) -> bool {
        let since = self.read_back.since.zip(self.config.sweep_interval);
        since.is_some_and(|(since, interval)| since + interval <= self.now)
    }
}

fn difference(name: &str, block: u16, (wrote, read): (&[u8; BLOCK_LIDS], &[u8; BLOCK_LIDS])) -> Event {
    let differs = |i: &usize| wrote[*i] != read[*i];
    let entries = (0..BLOCK_LIDS).filter(differs).count();
    let first = (0..BLOCK_LIDS).find(differs).unwrap_or(0);
    Event::ReadBackDiffers {
        what: name.to_owned(),
        block,
        entries,
        lid: usize::from(block) * BLOCK_LIDS + first,
        wrote: wrote[first],
        read: read[first],
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_types::NodeKind;

    use super::*;

    #[test]
    fn what_was_written_comes_first_and_is_read_whatever_is_found() {
        let mut builder = FabricBuilder::new();
        for guid in [1, 2] {
            builder.add(Node::new(NodeKind::Switch, Guid(guid), 2, "s"));
        }
        let fabric = builder.finish().unwrap();
        let mut installed = Installed::unknown(2);
        for (switch, block) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            installed.learn(SwitchIdx::from_usize(switch), block, [1; BLOCK_LIDS]);
        }
        let check = |asked: usize, want: &[Block]| {
            let mut list = ReadBack {
                // The last is of nobody who is known.
                blocks: vec![(1, Guid(2)), (1, Guid(2)), (0, Guid(9))],
                ..ReadBack::default()
            };
            list.begin(&fabric, &installed, 1);
            let all = [(1, Guid(2)), (0, Guid(1)), (0, Guid(2)), (1, Guid(1))];
            assert_eq!((&*list.blocks, list.done.len()), (&all[..], all.len()));
            list.next = asked;
            list.leave_others();
            assert_eq!((&*list.blocks, list.done.len()), (want, want.len()), "{asked}");
        };
        check(0, &[(1, Guid(2))]);
        check(1, &[(1, Guid(2))]);
        check(3, &[(1, Guid(2)), (0, Guid(1)), (0, Guid(2))]);
    }
}
