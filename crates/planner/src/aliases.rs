//! Alias GUIDs: those that ports shall have, those that agents hold, and the Sets of GUIDInfo between the two.
//!
//! If an alias moves from one port to another, the first phase removes it and the next phase adds it.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::aliases::{AliasChange, BLOCK_GUIDS, GuidBlock, GuidSet, HeldGuids, PortAliases};
use selvedge_plan::aliases::{aliases_in, reachable};
use selvedge_plan::{ChangeSet, Op};
use selvedge_types::Guid;

/// Blocks that are read or written at a time: judging and planning so many takes a millisecond or two.
const BATCH: usize = 1_024;

/// A block of a port: the port's own GUID, and its number.
pub type Place = (Guid, u8);

/// The alias GUIDs of all ports: the wanted ones, and those that agents hold.
#[derive(Clone, Debug, Default)]
pub struct AliasBook {
    /// Wanted aliases by the port's own GUID; ports without aliases are absent.
    wanted: BTreeMap<Guid, PortAliases>,
    /// Aliases that agents hold, as far as known.
    held: HeldGuids,
    /// Which ports hold an alias as far as known, and in how many blocks.
    holders: BTreeMap<Guid, BTreeMap<Guid, u32>>,
    /// Blocks with contents that may have changed since they were read or written.
    unread: BTreeSet<Place>,
    /// Ports that may not hold their wanted aliases.
    stale: BTreeSet<Guid>,
}

/// The next change of alias GUIDs.
#[derive(Debug, Default)]
pub struct NextAliases {
    /// The Sets.
    pub change: AliasChange,
    /// Ports that hold all their wanted aliases once the change is applied.
    pub done: Vec<Guid>,
}

/// An alias that equals the own GUID of a port of the fabric.
#[derive(Clone, Copy, Debug)]
pub struct TakenAlias {
    /// The GUID.
    pub guid: Guid,
    /// The port that had it as an alias.
    pub from: Guid,
    /// The port that has it as its own GUID.
    pub owner: PortRef,
}

impl AliasBook {
    /// Returns the wanted aliases by port.
    #[must_use]
    pub const fn wanted(&self) -> &BTreeMap<Guid, PortAliases> {
        &self.wanted
    }

    /// Returns the known GUIDInfo of ports.
    #[must_use]
    pub const fn held(&self) -> &HeldGuids {
        &self.held
    }

    /// Returns the blocks with contents that may have changed since they were read or written.
    #[must_use]
    pub const fn unread(&self) -> &BTreeSet<Place> {
        &self.unread
    }

    /// True if some port may not hold its wanted aliases.
    #[must_use]
    pub fn has_stale(&self) -> bool {
        !self.stale.is_empty()
    }

    /// Sets the wanted aliases of a port.
    pub fn want(&mut self, wanted: PortAliases) {
        let port = wanted.port;
        self.stale.insert(port);
        match wanted.guids.is_empty() {
            true => drop(self.wanted.remove(&port)),
            false => drop(self.wanted.insert(port, wanted)),
        }
    }

    /// Records that a port may not hold its wanted aliases.
    pub fn doubt_port(&mut self, port: Guid) {
        self.stale.insert(port);
    }

    /// Records that the contents of a block may have changed.
    pub fn doubt(&mut self, place: Place) {
        self.unread.insert(place);
    }

    /// Records that ports hold all their wanted aliases.
    pub fn settle(&mut self, ports: &[Guid]) {
        for port in ports {
            self.stale.remove(port);
        }
    }

    /// Records the contents of a block.
    pub fn learn(&mut self, (port, block): Place, guids: GuidBlock) {
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

    /// Handles a plan in force. If a port or the peer of its link got a Set of PortInfo, the port may have been off
    /// before, and may have lost its aliases. Returns these ports.
    pub fn plan_in_force(&mut self, fabric: &Fabric, changes: &ChangeSet) -> BTreeSet<Guid> {
        let mut touched = BTreeSet::new();
        if self.wanted.is_empty() && self.held.is_empty() {
            return touched;
        }
        for op in changes.phases.iter().flat_map(|phase| &phase.ops) {
            let Op::Port { port: at, .. } = op else { continue };
            for end in [Some(*at), fabric.peer(*at)].into_iter().flatten() {
                let Some(port) = fabric.port(end).map(|port| port.guid) else {
                    continue;
                };
                let blocks = self.blocks(port);
                if !blocks.is_empty() {
                    self.unread.extend(blocks.into_iter().map(|block| (port, block)));
                    self.stale.insert(port);
                    touched.insert(port);
                }
            }
        }
        touched
    }

    /// True if a port of the fabric has an alias of another port as its own GUID.
    #[must_use]
    pub fn has_taken(&self, fabric: &Fabric) -> bool {
        let mut aliases = self.wanted.values().flat_map(|wanted| wanted.guids.values());
        aliases.any(|guid| fabric.find_port(*guid).is_some())
    }

    /// Takes aliases away that equal the own GUID of a port in the fabric. Also removes absent ports from the ports to
    /// be written: they are written when they come back.
    pub fn yield_to(&mut self, fabric: &Fabric) -> Vec<TakenAlias> {
        let mut taken = Vec::new();
        for (&port, wanted) in &mut self.wanted {
            let before = wanted.guids.len();
            wanted.guids.retain(|_, guid| {
                let owner = fabric.find_port(*guid);
                taken.extend(owner.map(|owner| TakenAlias {
                    guid: *guid,
                    from: port,
                    owner,
                }));
                owner.is_none()
            });
            if wanted.guids.len() != before {
                self.stale.insert(port);
            }
        }
        self.wanted.retain(|_, wanted| !wanted.guids.is_empty());
        self.stale.retain(|port| reachable(fabric, *port).is_some());
        taken
    }

    /// Returns the blocks that must be known before a change is planned for ports that may not hold their wanted
    /// aliases. Ports in `left_out` are skipped.
    #[must_use]
    pub fn unknown(&self, fabric: &Fabric, left_out: &BTreeSet<Guid>) -> Vec<(PortRef, Place)> {
        let mut unknown = Vec::new();
        for port in self.stale.difference(left_out) {
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

    /// Assumes, without a Get, that the blocks that would be read have their last known contents: a port that was never
    /// off holds its aliases. An unknown block counts as one without aliases.
    pub(crate) fn take_as_read(&mut self, fabric: &Fabric, left_out: &BTreeSet<Guid>) {
        loop {
            let unknown = self.unknown(fabric, left_out);
            if unknown.is_empty() {
                return;
            }
            for (_, (port, block)) in unknown {
                let none = PortAliases {
                    port,
                    ..PortAliases::default()
                };
                let held = self.held.get(&(port, block)).copied();
                self.learn((port, block), held.unwrap_or_else(|| none.block(block)));
            }
        }
    }

    /// Plans the next change. An alias that another port holds is removed there first. Ports in `left_out` are skipped.
    #[must_use]
    pub fn next(&self, fabric: &Fabric, left_out: &BTreeSet<Guid>) -> NextAliases {
        let mut next = NextAliases::default();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let (nothing, mut freed) = (BTreeSet::new(), BTreeSet::new());
        let mut waiting = Vec::new();
        for &port in self.stale.difference(left_out) {
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
                    .rfind(|before: &&GuidSet| before.port == set.set.port && before.block == block);
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
    /// True if the port then has all its wanted aliases.
    is_all: bool,
}

/// Returns how many GUIDInfo entries a port has from the beginning of a block on.
fn room(fabric: &Fabric, at: PortRef, block: u8) -> usize {
    let entries = fabric.port(at).map_or(0, |port| usize::from(port.capability.guids));
    entries.saturating_sub(usize::from(block) * BLOCK_GUIDS)
}
