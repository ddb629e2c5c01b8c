//! Alias GUIDs: aliases that the administrator assigns are planned, judged, written and read back.
//!
//! Forwarding does not depend on aliases, so no other work waits for them: they are read and written while the manager
//! is idle, a thousand blocks at a time. A probe, a repair or a sweep interrupts this work at once. If no host has an
//! alias, no MAD is sent.
//!
//! A block is read before it is first written, so that a take-over does not change correct blocks. After a Set of its
//! PortInfo (the host rebooted, or its link was down) a port is read again. If an alias moves from one port to another,
//! the first step removes it and the next step adds it.

//! `core/aliases.rs` builds `Ctx`. `apply` sends the Gets and Sets, and `core/apply.rs` hands in what ports answer.

mod event;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::aliases::{AliasChange, GuidBlock, GuidSet, HeldGuids, PortAliases, aliases_in, reachable};
use selvedge_plan::{ChangeSet, Op};
use selvedge_planner::{Inventory, Judge};
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_verify::Judged;

use crate::config::Mode;

pub use event::AliasEvent;

/// How long a port is skipped after it first failed to take its GUIDs: perhaps only its answers were lost.
const MUTE_FIRST: Duration = Duration::from_secs(4);
/// How long a port is skipped if it refuses its GUIDs again.
const MUTE: Duration = Duration::from_secs(60);
/// Number of blocks that are read or written at a time: planning and judging them takes a millisecond or two.
const BATCH: usize = 1_024;

/// A block of GUIDInfo: the GUID of its port, and the number of the block.
type Place = (Guid, u8);

/// Alias GUIDs of ports: the wanted ones, and those that the agents hold.
#[derive(Debug, Default)]
pub struct AliasGuids {
    /// Wanted aliases by the port's own GUID; ports without aliases are absent.
    wanted: BTreeMap<Guid, PortAliases>,
    /// Aliases that agents hold, as far as known.
    held: HeldGuids,
    /// The ports that hold an alias, as far as known, each with the number of its blocks that hold the alias.
    holders: BTreeMap<Guid, BTreeMap<Guid, u32>>,
    /// Blocks with contents that may have changed since they were last read.
    unread: BTreeSet<Place>,
    /// Ports that may lack some of their wanted aliases.
    stale: BTreeSet<Guid>,
    /// Ports that are skipped, with the time at which that ends.
    mute: BTreeMap<Guid, Time>,
    /// Ports that were skipped before, and have accepted nothing since.
    was_mute: BTreeSet<Guid>,
    /// When GUIDInfo is read or written next, if the manager is idle at that time.
    due: Option<Time>,
}

/// The next change.
#[derive(Debug, Default)]
struct Next {
    change: AliasChange,
    /// Ports that hold all their wanted aliases once the change is applied.
    done: Vec<Guid>,
}

/// The state of other sub-machines that this one may read.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The time of the input.
    pub now: Time,
    /// The mode of the manager.
    pub mode: Mode,
    /// Judges each change before it is sent.
    pub judge: &'a dyn Judge,
    /// The last complete inventory.
    pub inventory: Option<&'a Inventory>,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// The administrator wants these aliases at these ports.
    Changed(Vec<PortAliases>),
    /// A plan with these changes is in force. A port that got a PortInfo Set by them may have been off before, and may
    /// have lost its aliases.
    PlanInForce(&'a Fabric, &'a ChangeSet),
    /// Another manager is master.
    AnotherManages,
    /// It is time to read or write GUIDInfo, and the manager is idle.
    Due,
    /// A port holds this block of GUIDInfo.
    Holds(Place, GuidBlock),
    /// A port has acknowledged this block of GUIDInfo with the contents that were sent.
    Takes(Place, GuidBlock),
    /// A port does not answer a request for a block of GUIDInfo, or holds other contents than were written.
    Refuses {
        /// The port's name.
        what: String,
        /// The block.
        place: Place,
        /// The contents of the block, if the port answered.
        holds: Option<GuidBlock>,
    },
    /// A block differs from its known contents. The manager records these contents, and writes the block again.
    HoldsOtherwise(Place, GuidBlock),
    /// All blocks that had to be read have been requested.
    BlocksRead,
    /// The change has been applied: this number of Sets was acknowledged.
    Written(usize),
    /// GUIDs are not written as planned: Sets have failed.
    WrittenInPart,
    /// A block may have been written or not.
    Unknown(Place),
    /// A Set to this port has failed for good.
    GaveUp(Guid),
    /// Other work interrupted the reading or writing of blocks.
    Interrupted,
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Report this event.
    Event(AliasEvent),
    /// Read these blocks.
    Read(Vec<(PortRef, Place)>),
    /// Write a change that the judge has accepted.
    Write(Box<Judged<AliasChange>>),
}

impl AliasGuids {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In<'_>, effects: &mut Vec<Effect>) {
        let now = ctx.now;
        match input {
            In::Changed(_) if ctx.mode != Mode::Manage => {}
            In::Changed(ports) => {
                ports.into_iter().for_each(|wanted| self.want(wanted));
                self.due = Some(now);
            }
            In::PlanInForce(fabric, changes) => self.plan_in_force(fabric, changes, now),
            In::AnotherManages => *self = Self::default(),
            In::Due => self.serve(ctx, effects),
            In::Holds(place, guids) => self.learn(place, guids),
            In::Takes(place, guids) => {
                self.learn(place, guids);
                self.was_mute.remove(&place.0);
            }
            In::Refuses { what, place, holds } => {
                if let Some(holds) = holds {
                    self.learn(place, holds);
                }
                if self.silence(place, now) {
                    effects.push(Effect::Event(AliasEvent::Silent { what }));
                }
            }
            In::HoldsOtherwise(place, holds) => {
                self.learn(place, holds);
                self.stale.insert(place.0);
                self.due = Some(now);
            }
            In::BlocksRead | In::Interrupted => self.due = Some(now),
            In::Written(sets) => {
                self.end(now);
                if sets > 0 {
                    let ports = self.wanted.len();
                    effects.push(Effect::Event(AliasEvent::InForce { ports, sets }));
                }
            }
            In::WrittenInPart => self.end(now),
            In::Unknown(place) => drop(self.unread.insert(place)),
            In::GaveUp(port) => drop(self.stale.insert(port)),
        }
    }

    /// Returns the known GUIDInfo of ports.
    pub const fn held(&self) -> &HeldGuids {
        &self.held
    }

    /// Returns the blocks with contents that may have changed since they were last read.
    pub const fn unread(&self) -> &BTreeSet<Place> {
        &self.unread
    }

    /// Returns the ports that are left alone for now.
    pub fn left_out(&self) -> BTreeSet<Guid> {
        self.mute.keys().copied().collect()
    }

    /// Returns when GUIDInfo must next be read or written, if no other work is due.
    pub fn due(&self) -> Option<Time> {
        self.due.into_iter().chain(self.mute.values().copied()).min()
    }

    fn want(&mut self, wanted: PortAliases) {
        let port = wanted.port;
        self.stale.insert(port);
        self.mute.remove(&port);
        match wanted.guids.is_empty() {
            true => drop(self.wanted.remove(&port)),
            false => drop(self.wanted.insert(port, wanted)),
        }
    }

    fn plan_in_force(&mut self, fabric: &Fabric, changes: &ChangeSet, now: Time) {
        if self.wanted.is_empty() && self.held.is_empty() {
            return;
        }
        for op in changes.phases.iter().flat_map(|phase| &phase.ops) {
            let Op::Port { port: at, .. } = op else { continue };
            // At the other end of its link a switch port is set.
            for end in [Some(*at), fabric.peer(*at)].into_iter().flatten() {
                let Some(port) = fabric.port(end).map(|port| port.guid) else {
                    continue;
                };
                let blocks = self.blocks(port);
                if !blocks.is_empty() {
                    self.unread.extend(blocks.into_iter().map(|block| (port, block)));
                    self.stale.insert(port);
                    self.mute.remove(&port);
                    self.due = Some(now);
                }
            }
        }
        // A port may have joined that has as its own GUID an alias of another port.
        let mut aliases = self.wanted.values().flat_map(|wanted| wanted.guids.values());
        if aliases.any(|guid| fabric.find_port(*guid).is_some()) {
            self.due = Some(now);
        }
    }

    /// Requests Gets of GUIDInfo, or plans a change and has it judged.
    fn serve(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) {
        let Some(inventory) = ctx.inventory else {
            return;
        };
        let fabric = &inventory.fabric;
        self.due = None;
        self.mute.retain(|_, until| *until > ctx.now);
        effects.extend(self.yield_to(fabric).into_iter().map(Effect::Event));
        // A port that is away is set when it comes back.
        self.stale.retain(|port| reachable(fabric, *port).is_some());
        let unknown = self.unknown(fabric);
        if !unknown.is_empty() {
            return effects.push(Effect::Read(unknown));
        }
        let next = self.plan(fabric);
        for port in &next.done {
            self.stale.remove(port);
        }
        if next.change.sets() == 0 {
            return;
        }
        let judged = ctx
            .judge
            .judge_aliases(inventory, &self.held, &self.wanted, next.change);
        effects.push(match judged {
            Ok(change) => Effect::Write(Box::new(change)),
            Err(refusal) => Effect::Event(AliasEvent::Refused {
                why: refusal.to_string(),
            }),
        });
    }

    /// Handles the end of a change: the remaining changes are planned next.
    fn end(&mut self, now: Time) {
        if !self.stale.is_empty() {
            self.due = Some(now);
        }
    }

    fn learn(&mut self, (port, block): Place, guids: GuidBlock) {
        self.unread.remove(&(port, block));
        let before = self.held.insert((port, block), guids);
        for guid in before.iter().flat_map(|before| aliases_in(port, before)) {
            let Some(holders) = self.holders.get_mut(&guid) else {
                continue;
            };
            if let Some(blocks) = holders.get_mut(&port) {
                *blocks -= 1;
            }
            holders.retain(|_, blocks| *blocks > 0);
            if holders.is_empty() {
                self.holders.remove(&guid);
            }
        }
        for guid in aliases_in(port, &guids) {
            *self.holders.entry(guid).or_default().entry(port).or_default() += 1;
        }
    }

    /// Returns the blocks of a port that hold an alias or shall hold one.
    fn blocks(&self, port: Guid) -> BTreeSet<u8> {
        let of_port = (port, 0)..=(port, u8::MAX);
        let held = self.held.range(of_port.clone());
        let held = held.filter(|((port, _), guids)| aliases_in(*port, guids).next().is_some());
        let unread = self.unread.range(of_port);
        let wanted = self.wanted.get(&port).into_iter().flat_map(PortAliases::blocks);
        let known = held
            .map(|((_, block), _)| *block)
            .chain(unread.map(|(_, block)| *block));
        known.chain(wanted).collect()
    }

    /// Called when no valid answer came from a port: its blocks are read again after a while. Returns true if the port
    /// answered before.
    fn silence(&mut self, (port, block): Place, now: Time) -> bool {
        self.unread.insert((port, block));
        self.stale.insert(port);
        if self.mute.contains_key(&port) {
            return false;
        }
        let is_news = self.was_mute.insert(port);
        let pause = if is_news { MUTE_FIRST } else { MUTE };
        self.mute.insert(port, now + pause);
        is_news
    }

    /// Takes aliases away that equal the own GUID of a port in the fabric.
    fn yield_to(&mut self, fabric: &Fabric) -> Vec<AliasEvent> {
        let mut events = Vec::new();
        for (port, wanted) in &mut self.wanted {
            let before = wanted.guids.len();
            wanted.guids.retain(|_, guid| {
                let owner = fabric.find_port(*guid);
                if let Some(owner) = owner {
                    let from = fabric.find_port(*port).map(|at| fabric.port_name(at));
                    events.push(AliasEvent::Taken {
                        guid: *guid,
                        from: from.unwrap_or_else(|| port.to_string()),
                        owner: fabric.port_name(owner),
                    });
                }
                owner.is_none()
            });
            if wanted.guids.len() != before {
                self.stale.insert(*port);
            }
        }
        self.wanted.retain(|_, wanted| !wanted.guids.is_empty());
        events
    }

    /// Returns the blocks that must be read before a change is planned for ports that may lack some of their aliases.
    fn unknown(&self, fabric: &Fabric) -> Vec<(PortRef, Place)> {
        let mut unknown = Vec::new();
        for port in self.stale.iter().filter(|port| !self.mute.contains_key(port)) {
            let Some(at) = reachable(fabric, *port) else { continue };
            let blocks = self.blocks(*port).into_iter().map(|block| (*port, block));
            let is_known = |place: &Place| self.held.contains_key(place) && !self.unread.contains(place);
            let has_room = |place: &Place| room(fabric, at, place.1) > 0;
            unknown.extend(
                blocks
                    .filter(|place| !is_known(place) && has_room(place))
                    .map(|place| (at, place)),
            );
            if unknown.len() >= BATCH {
                break;
            }
        }
        unknown
    }

    /// Plans the next change. If another port holds an alias, the alias is removed there first.
    fn plan(&self, fabric: &Fabric) -> Next {
        let mut next = Next::default();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let (nothing, mut freed) = (BTreeSet::new(), BTreeSet::new());
        let mut waiting = Vec::new();
        for &port in self.stale.iter().filter(|port| !self.mute.contains_key(port)) {
            let mut waits = false;
            for block in reachable(fabric, port).map(|_| self.blocks(port)).unwrap_or_default() {
                let Some(set) = self.set_for(fabric, (port, block), &nothing) else {
                    continue;
                };
                waits |= !set.is_all;
                let held = self.held.get(&(port, block)).copied().unwrap_or_default();
                let given_up = aliases_in(port, &held).filter(|guid| !set.set.guids.contains(guid));
                freed.extend(given_up.map(|guid| (guid, port)));
                if set.set.guids != held {
                    first.push(set.set);
                }
            }
            match waits {
                true => waiting.push(port),
                false => next.done.push(port),
            }
            if first.len() >= BATCH {
                break;
            }
        }
        // An alias that the first step removes is free in the second.
        for port in waiting {
            let mut waits = false;
            for block in self.blocks(port) {
                let Some(set) = self.set_for(fabric, (port, block), &freed) else {
                    continue;
                };
                waits |= !set.is_all;
                let before = first
                    .iter()
                    .rfind(|before| before.port == set.set.port && before.block == block);
                let before = before.map(|before| before.guids);
                let before = before.or_else(|| self.held.get(&(port, block)).copied());
                if Some(set.set.guids) != before {
                    second.push(set.set);
                }
            }
            if !waits {
                next.done.push(port);
            }
        }
        next.change.phases = [first, second].into_iter().filter(|phase| !phase.is_empty()).collect();
        next
    }

    /// Returns the next contents of a block, without aliases that another port of the fabric still holds.
    fn set_for(&self, fabric: &Fabric, (port, block): Place, freed: &BTreeSet<(Guid, Guid)>) -> Option<Wanted> {
        let at = fabric.find_port(port)?;
        let room = room(fabric, at, block);
        let mut guids = self.wanted_block(port, block);
        guids.iter_mut().skip(room).for_each(|guid| *guid = Guid::NONE);
        let mut is_all = true;
        for guid in guids.iter_mut().filter(|guid| **guid != Guid::NONE && **guid != port) {
            // Another block of the same port gives it up first as well.
            let is_here = self.held.get(&(port, block)).is_some_and(|held| held.contains(guid));
            let has_other = self.holders.get(guid).is_some_and(|holders| {
                let is_other = |other: &Guid| match *other == port {
                    true => !is_here,
                    false => reachable(fabric, *other).is_some(),
                };
                let mut others = holders.keys().filter(|other| is_other(other));
                others.any(|other| !freed.contains(&(*guid, *other)))
            });
            if has_other {
                is_all = false;
                *guid = Guid::NONE;
            }
        }
        (room > 0).then_some(Wanted {
            set: GuidSet { port: at, block, guids },
            is_all,
        })
    }

    fn wanted_block(&self, port: Guid, block: u8) -> GuidBlock {
        let none = || PortAliases {
            port,
            ..PortAliases::default()
        };
        self.wanted
            .get(&port)
            .map_or_else(|| none().block(block), |wanted| wanted.block(block))
    }
}

/// The next contents of a block.
struct Wanted {
    set: GuidSet,
    /// True if the port has all its wanted aliases after this change.
    is_all: bool,
}

/// Entries of a block for which a port has room.
fn room(fabric: &Fabric, at: PortRef, block: u8) -> usize {
    let entries = fabric.port(at).map_or(0, |port| usize::from(port.capability.guids));
    entries.saturating_sub(usize::from(block) * selvedge_plan::aliases::BLOCK_GUIDS)
}

#[cfg(test)]
mod tests;
