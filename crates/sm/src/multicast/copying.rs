//! Reads and writes blocks of multicast tables, phase by phase.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::SwitchIdx;
use selvedge_mad::AgentId;
use selvedge_plan::multicast::{MftSet, MulticastChange};
use selvedge_planner::Inventory;
use selvedge_types::Guid;
use selvedge_verify::Judged;
use selvedge_wire::{Attribute, AttributeId, Mad, MulticastForwardingTable};

use crate::apply::Apply;
use crate::core::{Sm, ok};
use crate::io::Output;
use crate::readback::{In, Kind, Table};
use crate::stage::{Stage, Token};
use crate::{commit, multicast, smp};

/// A block that is read or written: its position in the list of the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyId(usize);

/// Blocks of multicast tables that are read or written.
#[derive(Debug)]
pub struct Copying {
    inventory: Arc<Inventory>,
    work: Work,
    /// The next of the list to be asked for.
    next: usize,
    /// Asked and not answered.
    open: BTreeSet<CopyId>,
    /// Sets acknowledged.
    done: usize,
    has_failed: bool,
    /// Routes that are applied when it is done.
    then: Option<Box<(Apply, Arc<Inventory>)>>,
}

#[derive(Debug)]
enum Work {
    Read(Vec<(SwitchIdx, (u16, u8))>),
    /// Blocks that are known are read back: see [`readback`](crate::readback).
    ReadBack,
    Write {
        change: Box<Judged<MulticastChange>>,
        phase: usize,
    },
}

impl Copying {
    /// Blocks to read; the last is read first.
    pub fn reading(inventory: Arc<Inventory>, mut blocks: Vec<(SwitchIdx, (u16, u8))>) -> Self {
        blocks.reverse();
        Self::new(inventory, Work::Read(blocks))
    }

    /// A read-back.
    pub const fn reading_back(inventory: Arc<Inventory>) -> Self {
        Self::new(inventory, Work::ReadBack)
    }

    /// True if it is a read-back.
    pub const fn is_read_back(&self) -> bool {
        matches!(self.work, Work::ReadBack)
    }

    /// A change to make.
    pub fn writing(inventory: Arc<Inventory>, change: Judged<MulticastChange>) -> Self {
        let change = Box::new(change);
        Self::new(inventory, Work::Write { change, phase: 0 })
    }

    /// True if a plan waits for it.
    pub const fn is_before_routes(&self) -> bool {
        self.then.is_some()
    }

    /// Routes are applied afterwards.
    pub fn then(self, apply: Apply, inventory: Arc<Inventory>) -> Self {
        Self {
            then: Some(Box::new((apply, inventory))),
            ..self
        }
    }

    const fn new(inventory: Arc<Inventory>, work: Work) -> Self {
        Self {
            inventory,
            work,
            next: 0,
            open: BTreeSet::new(),
            done: 0,
            has_failed: false,
            then: None,
        }
    }

    fn set(&self, id: CopyId) -> Option<&MftSet> {
        match &self.work {
            Work::Read(_) | Work::ReadBack => None,
            Work::Write { change, phase } => change.value().phases.get(*phase)?.get(id.0),
        }
    }

    fn place(&self, id: CopyId) -> Option<(SwitchIdx, (u16, u8))> {
        match &self.work {
            Work::Read(blocks) => blocks.get(id.0).copied(),
            Work::ReadBack => None,
            Work::Write { .. } => self.set(id).map(|set| (set.switch, (set.block, set.position))),
        }
    }

    fn guid(&self, switch: SwitchIdx) -> Guid {
        self.inventory.fabric.switch(switch).guid
    }

    /// The next block to ask for; none until the answers of a phase are in.
    fn next(&mut self, m_key: u64) -> Option<(CopyId, AgentId, smp::Smp)> {
        let id = CopyId(self.next);
        let (switch, (block, position)) = self.place(id)?;
        let node = self.inventory.fabric.switches()[switch];
        let route = &self.inventory.agents.get(node)?.route;
        let modifier = MulticastForwardingTable::modifier(block, position);
        let request = match self.set(id) {
            Some(set) => smp::set(&MulticastForwardingTable { masks: set.data }, modifier, route, m_key),
            None => smp::get(AttributeId::MULTICAST_FORWARDING, modifier, route, m_key),
        };
        self.next += 1;
        self.open.insert(id);
        Some((id, AgentId(node.0), request))
    }
}

impl Sm {
    /// Keeps so many questions and Sets open.
    pub(crate) fn feed_copying(&mut self) {
        let Stage::Copying(copying) = &mut self.stage else {
            return;
        };
        while self.exchange.open() < self.config.ready() {
            let Some((id, agent, request)) = copying.next(self.config.policy.m_key) else {
                return;
            };
            self.exchange.submit(agent, (Token::Copy(id), request));
        }
    }

    /// A block was read or written, or nobody answered.
    pub(crate) fn copied(&mut self, id: CopyId, answer: Option<&Mad>, out: &mut Vec<Output>) {
        let Stage::Copying(copying) = &mut self.stage else {
            return;
        };
        copying.open.remove(&id);
        let Some((switch, place)) = copying.place(id) else {
            return;
        };
        let guid = copying.guid(switch);
        let holds = ok(answer).and_then(|mad| MulticastForwardingTable::parse(mad.smp_data()).ok());
        let holds = holds.map(|holds| holds.masks);
        let written = copying.set(id).map(|set| set.data);
        match holds.filter(|holds| written.is_none_or(|written| written == *holds)) {
            Some(holds) => {
                copying.done += usize::from(written.is_some());
                self.run_multicast(multicast::In::Holds(guid, place, holds), out);
                if written.is_some() {
                    self.tell_read_back(In::Acknowledged(Table::Mft { switch: guid, place }));
                }
            }
            None => {
                copying.has_failed = true;
                let refuses = multicast::In::Refuses {
                    switch: guid,
                    what: copying.inventory.fabric.switch(switch).description.clone(),
                    place,
                    holds,
                };
                self.run_multicast(refuses, out);
            }
        }
    }

    /// All answers of a phase are in.
    pub(crate) fn copying_settled(&mut self, mut copying: Copying, out: &mut Vec<Output>) {
        if let Work::Write { change, phase } = &mut copying.work
            && *phase + 1 < change.value().phases.len()
            && !copying.has_failed
        {
            *phase += 1;
            copying.next = 0;
            self.stage = Stage::Copying(Box::new(copying));
            return;
        }
        if let Some(then) = copying.then.take() {
            // A switch that does not take its table hears of it again when trees are planned; routes do not wait.
            let (apply, inventory) = *then;
            self.note_copies(out);
            self.stage = Stage::Applying(Box::new(apply), inventory);
            return;
        }
        self.stage = Stage::Idle;
        match &copying.work {
            Work::Write { .. } if !copying.has_failed => {
                self.run_multicast(multicast::In::Written(copying.done), out);
                // They have to hold beside these copies.
                self.await_backups();
            }
            Work::Write { .. } => self.run_multicast(multicast::In::WrittenInPart, out),
            Work::Read(_) => self.run_multicast(multicast::In::BlocksRead, out),
            Work::ReadBack => {
                self.tell_read_back(In::Ends(Kind::Mft));
                self.read_guids_back();
            }
        }
        self.note_copies(out);
    }

    /// Takes over what switches copy now.
    fn note_copies(&mut self, out: &mut Vec<Output>) {
        let held = Arc::clone(self.multicast().held());
        self.update_in_force(commit::In::Copies(&held), out);
    }

    /// Something else comes first: what was under way may have been carried out or not. True if routes were to follow:
    /// they are not known to be right any more.
    pub(crate) fn interrupt_copying(&mut self) -> bool {
        self.interrupt_naming();
        if !matches!(self.stage, Stage::Copying(_)) {
            return false;
        }
        let Stage::Copying(copying) = std::mem::take(&mut self.stage) else {
            return false;
        };
        if copying.is_read_back() {
            self.tell_read_back(In::BreaksOff(Kind::Mft));
            return false;
        }
        for (switch, place) in copying.open.iter().filter_map(|&id| copying.place(id)) {
            self.tell_multicast(multicast::In::Unknown(copying.guid(switch), place));
        }
        self.tell_multicast(multicast::In::Interrupted);
        copying.then.is_some()
    }
}
