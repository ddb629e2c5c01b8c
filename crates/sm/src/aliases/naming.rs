//! Reads and writes blocks of GUIDInfo, phase by phase.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::PortRef;
use selvedge_mad::AgentId;
use selvedge_plan::aliases::{AliasChange, GuidSet};
use selvedge_planner::Inventory;
use selvedge_verify::Judged;
use selvedge_wire::{Attribute, AttributeId, GuidInfo, Mad};

use super::Place;
use crate::core::{Sm, ok};
use crate::io::Output;
use crate::readback::{In, Kind, Table};
use crate::stage::{Stage, Token};
use crate::{aliases, smp};

/// A block that is read or written: its position in the list of the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameId(usize);

/// Blocks of GUIDInfo that are read or written.
#[derive(Debug)]
pub struct Naming {
    inventory: Arc<Inventory>,
    work: Work,
    /// The next of the list to be asked for.
    next: usize,
    /// Asked and not answered.
    open: BTreeSet<NameId>,
    /// Sets acknowledged.
    done: usize,
    has_failed: bool,
}

#[derive(Debug)]
enum Work {
    Read(Vec<(PortRef, Place)>),
    /// Blocks that are known are read back: see [`readback`](crate::readback).
    ReadBack,
    Write {
        change: Box<Judged<AliasChange>>,
        phase: usize,
    },
}

impl Naming {
    /// Blocks to read.
    pub fn reading(inventory: Arc<Inventory>, blocks: Vec<(PortRef, Place)>) -> Self {
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
    pub fn writing(inventory: Arc<Inventory>, change: Judged<AliasChange>) -> Self {
        let change = Box::new(change);
        Self::new(inventory, Work::Write { change, phase: 0 })
    }

    const fn new(inventory: Arc<Inventory>, work: Work) -> Self {
        Self {
            inventory,
            work,
            next: 0,
            open: BTreeSet::new(),
            done: 0,
            has_failed: false,
        }
    }

    fn set(&self, id: NameId) -> Option<&GuidSet> {
        match &self.work {
            Work::Read(_) | Work::ReadBack => None,
            Work::Write { change, phase } => change.value().phases.get(*phase)?.get(id.0),
        }
    }

    fn place(&self, id: NameId) -> Option<(PortRef, Place)> {
        match &self.work {
            Work::Read(blocks) => blocks.get(id.0).copied(),
            Work::ReadBack => None,
            Work::Write { .. } => self.set(id).and_then(|set| self.place_of(set)),
        }
    }

    fn place_of(&self, set: &GuidSet) -> Option<(PortRef, Place)> {
        let port = self.inventory.fabric.port(set.port)?;
        Some((set.port, (port.guid, set.block)))
    }

    /// The next block to ask for; none until the answers of a phase are in.
    fn next(&mut self, m_key: u64) -> Option<(NameId, AgentId, smp::Smp)> {
        let id = NameId(self.next);
        let (at, (_, block)) = self.place(id)?;
        let route = self.inventory.agents.get(at.node)?.route_to(at.port);
        let m_key = smp::key_of(&self.inventory.fabric, at, m_key);
        let request = match self.set(id) {
            Some(set) => smp::set(&GuidInfo { guids: set.guids }, block.into(), route, m_key),
            None => smp::get(AttributeId::GUID_INFO, block.into(), route, m_key),
        };
        self.next += 1;
        self.open.insert(id);
        Some((id, AgentId(at.node.0), request))
    }
}

impl Sm {
    /// Keeps so many questions and Sets open.
    pub(crate) fn feed_naming(&mut self) {
        let Stage::Naming(naming) = &mut self.stage else {
            return;
        };
        while self.exchange.open() < self.config.ready() {
            let Some((id, agent, request)) = naming.next(self.config.policy.m_key) else {
                return;
            };
            self.exchange.submit(agent, (Token::Name(id), request));
        }
    }

    /// A block was read or written, or nobody answered.
    pub(crate) fn named(&mut self, id: NameId, answer: Option<&Mad>, out: &mut Vec<Output>) {
        let Stage::Naming(naming) = &mut self.stage else {
            return;
        };
        naming.open.remove(&id);
        let Some((at, place)) = naming.place(id) else {
            return;
        };
        let holds = ok(answer).and_then(|mad| GuidInfo::parse(mad.smp_data()).ok());
        let holds = holds.map(|holds| holds.guids);
        let written = naming.set(id).map(|set| set.guids);
        match holds.filter(|holds| written.is_none_or(|written| written == *holds)) {
            Some(holds) if written.is_some() => {
                naming.done += 1;
                self.run_aliases(aliases::In::Takes(place, holds), out);
                let (port, block) = place;
                self.tell_read_back(In::Acknowledged(Table::Guids { port, block }));
            }
            Some(holds) => self.run_aliases(aliases::In::Holds(place, holds), out),
            None => {
                naming.has_failed = true;
                let what = naming.inventory.fabric.port_name(at);
                self.run_aliases(aliases::In::Refuses { what, place, holds }, out);
            }
        }
    }

    /// All answers of a phase are in.
    pub(crate) fn naming_settled(&mut self, mut naming: Naming, out: &mut Vec<Output>) {
        if let Work::Write { change, phase } = &mut naming.work {
            let is_last = *phase + 1 >= change.value().phases.len();
            // What is not given up must not be another's: all that is left is planned again.
            if !is_last && !naming.has_failed {
                *phase += 1;
                naming.next = 0;
                self.stage = Stage::Naming(Box::new(naming));
                return;
            }
            let left = change.value().phases.iter().skip(*phase + 1).flatten();
            for port in left.filter_map(|set| naming.inventory.fabric.port(set.port)) {
                self.tell_aliases(aliases::In::GaveUp(port.guid));
            }
        }
        self.stage = Stage::Idle;
        match &naming.work {
            Work::Write { .. } if naming.has_failed => self.run_aliases(aliases::In::WrittenInPart, out),
            Work::Write { .. } => self.run_aliases(aliases::In::Written(naming.done), out),
            Work::Read(_) => self.run_aliases(aliases::In::BlocksRead, out),
            Work::ReadBack => drop(self.tell_read_back(In::Ends(Kind::Guids))),
        }
    }

    /// Something else comes first: what was under way may have been carried out or not.
    pub(crate) fn interrupt_naming(&mut self) {
        if !matches!(self.stage, Stage::Naming(_)) {
            return;
        }
        let Stage::Naming(naming) = std::mem::take(&mut self.stage) else {
            return;
        };
        if naming.is_read_back() {
            self.tell_read_back(In::BreaksOff(Kind::Guids));
            return;
        }
        for (_, place) in naming.open.iter().filter_map(|id| naming.place(*id)) {
            self.tell_aliases(aliases::In::Unknown(place));
        }
        if let Work::Write { change, .. } = &naming.work {
            let sets = change.value().phases.iter().flatten();
            for (_, (port, _)) in sets.filter_map(|set| naming.place_of(set)) {
                self.tell_aliases(aliases::In::GaveUp(port));
            }
        }
        self.tell_aliases(aliases::In::Interrupted);
    }
}
