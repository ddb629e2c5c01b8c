//! Alias GUIDs: what the administrator gives out is planned, judged, written, and read back.
//!
//! Forwarding does not depend on them, so nothing waits for them: they are read and written while nothing else is to be
//! done, a thousand blocks at a time. What needs a look, a repair or a sweep interrupts that at once. Without aliases
//! nothing of this happens, and not a MAD is sent for it.
//!
//! A block is read before it is first written, so that a take-over changes nothing that is right. A port whose PortInfo
//! was set, as it has rebooted or its link was down, is read again. What a port gives up another gets in the next step.

mod event;
mod naming;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::aliases::{AliasChange, GuidBlock, GuidSet, HeldGuids, PortAliases, aliases_in};
use selvedge_plan::{ChangeSet, Op};
use selvedge_sim::Time;
use selvedge_types::{Guid, PortNum, PortState};

use crate::config::Mode;
use crate::core::Sm;
use crate::election::Role;
use crate::event::Event;
use crate::io::Output;
use crate::timer::Timer;

pub use event::AliasEvent;

/// How long a port that did not take its GUIDs is left alone: at first, as it may be its answers that were lost, and if
/// it goes on.
const MUTE_FIRST: Duration = Duration::from_secs(4);
const MUTE: Duration = Duration::from_secs(60);
/// Blocks that are read or written at a time: what is judged and planned at once takes a millisecond or two.
const BATCH: usize = 1_024;

/// A block of a port: the port's own GUID, and its number.
type Place = (Guid, u8);

/// What the manager remembers of alias GUIDs.
#[derive(Debug, Default)]
pub struct AliasGuids {
    /// What ports shall have, by their own GUIDs; none of those that have none.
    wanted: BTreeMap<Guid, PortAliases>,
    /// What they hold as far as known.
    held: HeldGuids,
    /// Which ports hold an alias as far as known, and in how many blocks.
    holders: BTreeMap<Guid, BTreeMap<Guid, u32>>,
    /// Blocks that may be others by now.
    unread: BTreeSet<Place>,
    /// Ports that may not hold what they shall have.
    stale: BTreeSet<Guid>,
    /// Ports that are left alone, until when.
    mute: BTreeMap<Guid, Time>,
    /// Ports that have been, and have not taken anything since.
    was_mute: BTreeSet<Guid>,
    /// When something is to be done, if nothing else is.
    due: Option<Time>,
}

/// What is planned next.
#[derive(Debug, Default)]
struct Next {
    change: AliasChange,
    /// Ports that hold all that they shall have once this is done.
    done: Vec<Guid>,
}

impl AliasGuids {
    /// Returns what ports hold as far as known.
    pub const fn held(&self) -> &HeldGuids {
        &self.held
    }

    /// Returns the blocks that may be others by now.
    pub const fn unread(&self) -> &BTreeSet<Place> {
        &self.unread
    }

    /// Returns the ports that are left alone for now.
    pub fn left_out(&self) -> BTreeSet<Guid> {
        self.mute.keys().copied().collect()
    }

    /// A block is not as it was known: it is known from now on as it is, and written again.
    pub fn holds_otherwise(&mut self, place: Place, holds: GuidBlock, now: Time) {
        self.learn(place, holds);
        self.stale.insert(place.0);
        self.due = Some(now);
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

    /// Blocks of a port that have something or shall have it.
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

    /// Nobody answered, or not as it should: its blocks are read again after a while. True if that is news.
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

    /// Blocks that must be known before anything is planned for ports that may not hold what they shall have.
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

    /// What ports are to hold next. What another one has is given up there first.
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
        // What is given up in the first step is free in the second.
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

    /// What a block is to hold, without what another port that is there has and has not given up.
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

/// A block as it is to be next.
struct Wanted {
    set: GuidSet,
    /// It has all that it shall have.
    is_all: bool,
}

/// Entries of a block for which a port has room.
fn room(fabric: &Fabric, at: PortRef, block: u8) -> usize {
    let entries = fabric.port(at).map_or(0, |port| usize::from(port.capability.guids));
    entries.saturating_sub(usize::from(block) * selvedge_plan::aliases::BLOCK_GUIDS)
}

/// Where a port is, if its link is up: otherwise it is set when that comes.
pub fn reachable(fabric: &Fabric, port: Guid) -> Option<PortRef> {
    let at = fabric.find_port(port)?;
    let is_up = at.port == PortNum::MANAGEMENT || fabric.port(at)?.link.state == PortState::Active;
    is_up.then_some(at)
}

impl Sm {
    /// Aliases of ports have changed.
    pub(crate) fn aliases_changed(&mut self, ports: Vec<PortAliases>) {
        if self.config.mode != Mode::Manage {
            return;
        }
        let aliases = &mut self.aliases;
        for wanted in ports {
            let port = wanted.port;
            aliases.stale.insert(port);
            aliases.mute.remove(&port);
            match wanted.guids.is_empty() {
                true => drop(aliases.wanted.remove(&port)),
                false => drop(aliases.wanted.insert(port, wanted)),
            }
        }
        aliases.due = Some(self.now);
    }

    /// A plan is in force: ports whose PortInfo was set may have been off, and hold nothing any more.
    pub(crate) fn aliases_after_apply(&mut self, fabric: &Fabric, changes: &ChangeSet) {
        let aliases = &mut self.aliases;
        if aliases.wanted.is_empty() && aliases.held.is_empty() {
            return;
        }
        for op in changes.phases.iter().flat_map(|phase| &phase.ops) {
            let Op::Port { port: at, .. } = op else { continue };
            // At the other end of its link a switch port is set.
            for end in [Some(*at), fabric.peer(*at)].into_iter().flatten() {
                let Some(port) = fabric.port(end).map(|port| port.guid) else {
                    continue;
                };
                let blocks = aliases.blocks(port);
                if !blocks.is_empty() {
                    aliases.unread.extend(blocks.into_iter().map(|block| (port, block)));
                    aliases.stale.insert(port);
                    aliases.mute.remove(&port);
                    aliases.due = Some(self.now);
                }
            }
        }
        // A port may have come whose own GUID somebody has.
        if aliases
            .wanted
            .values()
            .any(|wanted| wanted.guids.values().any(|guid| fabric.find_port(*guid).is_some()))
        {
            aliases.due = Some(self.now);
        }
    }

    /// Another manager is in charge.
    pub(crate) fn leave_aliases(&mut self) {
        self.aliases = AliasGuids::default();
    }

    /// When GUIDs are to be looked at; never while something else is to be done first.
    pub(crate) fn aliases_due(&self) -> Option<Time> {
        let is_ours = self.config.mode == Mode::Manage && self.role() == Role::Master && self.view.plan.is_some();
        let is_free = is_ours && self.inventory.is_some() && self.sweep_due.is_none() && !self.has_suspects();
        let aliases = &self.aliases;
        let due = aliases.due.into_iter().chain(aliases.mute.values().copied()).min();
        due.filter(|_| is_free)
    }

    /// Reads GUIDs, or plans and writes them, if nothing else is to be done.
    pub(crate) fn name_if_due(&mut self, now: Time, out: &mut Vec<Output>) {
        if !self.is_due(Timer::Names) {
            return;
        }
        let Some(inventory) = self.inventory.clone() else {
            return;
        };
        let fabric = &inventory.fabric;
        let aliases = &mut self.aliases;
        aliases.due = None;
        aliases.mute.retain(|_, until| *until > now);
        for event in aliases.yield_to(fabric) {
            out.push(Output::Event(Event::Aliases(event)));
        }
        // Whoever is away is set when it comes back.
        aliases.stale.retain(|port| reachable(fabric, *port).is_some());
        let unknown = aliases.unknown(fabric);
        if !unknown.is_empty() {
            return self.read_names(inventory, unknown);
        }
        let next = aliases.plan(fabric);
        for port in &next.done {
            aliases.stale.remove(port);
        }
        if next.change.sets() == 0 {
            return;
        }
        match self
            .judge
            .judge_aliases(&inventory, &aliases.held, &aliases.wanted, next.change)
        {
            Ok(change) => self.write_names(inventory, &change),
            Err(refusal) => {
                let why = refusal.to_string();
                out.push(Output::Event(Event::Aliases(AliasEvent::Refused { why })));
            }
        }
    }
}

impl AliasGuids {
    /// A port that is there has its own GUID, whoever had it as alias before.
    fn yield_to(&mut self, fabric: &Arc<Fabric>) -> Vec<AliasEvent> {
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
}
