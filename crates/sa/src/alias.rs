//! Alias GUIDs: the GUIDs of virtual functions behind the LID of their port, set by GUIDInfoRecord.
//!
//! This module records which port has which GUID. The manager writes GUIDInfo to the ports; by
//! [`Aliases::take_changed`] it learns which ports have changed. Status codes and the meaning of GUID 0 are those of
//! OpenSM (`osm_sa_guidinfo_record.c`).

use std::collections::{BTreeMap, BTreeSet};

use selvedge_plan::aliases::{BLOCK_GUIDS, PortAliases};
use selvedge_types::{Guid, Lid};
use selvedge_wire::Gid;
use selvedge_wire::sa::{Field, SaData, records};

use crate::config::Config;
use crate::kept::KeptAlias;
use crate::member::Groups;
use crate::query::{Cursor, Ground, Step};
use crate::refusal::Refusal;
use crate::snapshot::{EndPort, Snapshot};

/// Prefix of assigned GUIDs: OpenIB's company number and OpenSM's default of `sm_assigned_guid`. Source: OpenSM
/// (`sm_assigned_guid` in `osm_sa_guidinfo_record.c`).
const GIVEN_OUT: u64 = 0x0014_0500 << 32;

/// The fields of GUIDInfoRecord that hold the entries of a block.
const ENTRIES: [Field; BLOCK_GUIDS] = {
    use records::guid_info as f;
    [
        f::GUID0,
        f::GUID1,
        f::GUID2,
        f::GUID3,
        f::GUID4,
        f::GUID5,
        f::GUID6,
        f::GUID7,
    ]
};

/// GUIDs by entry.
type Entries = BTreeMap<u8, Guid>;

/// Alias GUIDs of all ports.
#[derive(Clone, Debug, Default)]
pub struct Aliases {
    by_port: BTreeMap<Guid, Entries>,
    /// The port (by its own GUID) that has each alias.
    owners: BTreeMap<Guid, Guid>,
    /// GUIDs assigned to entries. An entry gets the same GUID again on its next request.
    given: BTreeMap<Guid, Entries>,
    /// All GUIDs in `given`.
    reserved: BTreeSet<Guid>,
    /// Serial number of the next assigned GUID.
    serial: u32,
    /// Ports with aliases that have changed since the last [`Aliases::take_changed`].
    changed: BTreeSet<Guid>,
}

/// Result of a Set or Delete.
#[derive(Debug)]
pub struct Changed {
    /// The answer: the current contents of the block.
    pub record: SaData,
    /// Aliases that were removed from ports.
    pub gone: BTreeSet<Guid>,
}

/// A request to change a block of a port.
struct Asked<'a> {
    port: &'a EndPort,
    block: u8,
    /// Entries that the request names and for which the port has room, with the requested GUIDs.
    entries: Vec<(u8, Guid)>,
}

impl Aliases {
    /// Sets entries of a block. GUID 0 keeps the current GUID of the entry; if the entry has none, it gets the GUID
    /// that it had before, or a new GUID. A GUID of another port is not entered; the answer shows the current contents
    /// of the block.
    pub fn set(
        &mut self,
        (config, snapshot): (&Config, &Snapshot),
        who: (&EndPort, bool),
        what: (u64, &SaData),
    ) -> Result<Changed, Refusal> {
        let asked = Asked::of(snapshot, who, what)?;
        self.make_room(config, snapshot)?;
        let (port, mut gone) = (asked.port.guid, BTreeSet::new());
        for &(entry, wanted) in &asked.entries {
            let held = self.entry(port, entry);
            let guid = match wanted {
                Guid::NONE if held.is_some() => continue,
                Guid::NONE => self.given_for(snapshot, (port, entry)),
                wanted => wanted,
            };
            if self.may_have(snapshot, port, guid) && held != Some(guid) {
                gone.extend(held);
                // The previous owner is absent: a virtual function that has moved brings its GUID along.
                gone.extend(self.take_away(guid));
                gone.extend(held.and_then(|held| self.take_away(held)));
                self.enter(port, entry, guid);
            }
        }
        Ok(Changed {
            record: self.record(&asked, what.1),
            gone,
        })
    }

    /// Clears entries of a block. Members of multicast groups with these GUIDs leave first.
    pub fn delete(
        &mut self,
        (snapshot, groups): (&Snapshot, &Groups),
        who: (&EndPort, bool),
        what: (u64, &SaData),
    ) -> Result<Changed, Refusal> {
        let asked = Asked::of(snapshot, who, what)?;
        let port = asked.port.guid;
        let held = asked.entries.iter().filter_map(|(entry, _)| self.entry(port, *entry));
        let gone: BTreeSet<Guid> = held.collect();
        if groups.iter().any(|group| group.has_any(&gone)) {
            return Err(Refusal::Denied);
        }
        for guid in &gone {
            self.take_away(*guid);
        }
        Ok(Changed {
            record: self.record(&asked, what.1),
            gone,
        })
    }

    /// Returns the number of aliases.
    pub fn count(&self) -> usize {
        self.owners.len()
    }

    /// Returns the port that a GUID belongs to, as its own GUID or as an alias.
    pub fn port_of(&self, guid: Guid) -> Guid {
        self.owners.get(&guid).copied().unwrap_or(guid)
    }

    /// Returns the index of the end port with a GID of this subnet, and the GUID that names it.
    pub fn find(&self, snapshot: &Snapshot, gid: Gid) -> Option<(u32, Guid)> {
        let guid = gid.guid();
        // A port's own GUID takes precedence over an equal alias of another port.
        let place = snapshot.by_gid(gid).or_else(|| {
            let port = self.owners.get(&guid)?;
            snapshot.by_gid(Gid::new(gid.prefix(), *port))
        });
        Some((place?, guid))
    }

    /// Returns the alias at an entry of a port. The port's own GUID is not an alias.
    pub fn entry(&self, port: Guid, entry: u8) -> Option<Guid> {
        self.by_port.get(&port)?.get(&entry).copied()
    }

    /// Returns the ports with aliases that have changed since the last call, with all their current aliases.
    pub fn take_changed(&mut self) -> Vec<PortAliases> {
        let of_port = |port| PortAliases {
            port,
            guids: self.by_port.get(&port).cloned().unwrap_or_default(),
        };
        std::mem::take(&mut self.changed).into_iter().map(of_port).collect()
    }

    /// True if ports have changed aliases that were not taken yet.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Marks all ports as changed, so that the next [`Self::take_changed`] returns all of them.
    pub fn all_changed(&mut self) {
        self.changed.extend(self.by_port.keys());
    }

    /// Replaces `before` by this value. All ports of both count as changed.
    pub fn follow(&mut self, before: &Self) {
        self.all_changed();
        self.changed.extend(before.by_port.keys());
    }

    /// Removes aliases that equal the own GUID of a port in the fabric.
    pub fn yield_to(&mut self, snapshot: &Snapshot) -> BTreeSet<Guid> {
        let taken = self.owners.keys().filter(|guid| snapshot.by_guid(**guid).is_some());
        let taken: BTreeSet<Guid> = taken.copied().collect();
        for guid in &taken {
            self.take_away(*guid);
        }
        taken
    }

    /// Returns all aliases and assigned GUIDs, to be stored.
    pub(crate) fn kept(&self) -> Vec<KeptAlias> {
        let rows = |all: &BTreeMap<Guid, Entries>, is_given: bool| {
            let ports = all.iter();
            let rows =
                ports.flat_map(|(&port, entries)| entries.iter().map(move |(&entry, &guid)| (port, entry, guid)));
            let kept = rows.map(|(port, entry, guid)| KeptAlias {
                port,
                entry,
                guid,
                is_given,
            });
            kept.collect::<Vec<_>>()
        };
        let mut kept = rows(&self.by_port, false);
        kept.extend(rows(&self.given, true));
        kept
    }

    /// Restores stored aliases. A GUID with two owners is contradictory and left out.
    pub(crate) fn restore(&mut self, kept: Vec<KeptAlias>) {
        for KeptAlias {
            port,
            entry,
            guid,
            is_given,
        } in kept
        {
            if entry == 0 || guid == Guid::NONE || guid == port {
                continue;
            }
            if is_given {
                self.reserve((port, entry), guid);
            } else if !self.owners.contains_key(&guid) && self.entry(port, entry).is_none() {
                self.enter(port, entry, guid);
            }
        }
    }

    fn enter(&mut self, port: Guid, entry: u8, guid: Guid) {
        self.by_port.entry(port).or_default().insert(entry, guid);
        self.owners.insert(guid, port);
        self.changed.insert(port);
    }

    /// Removes an alias from its owner. Returns the owner, if there was one.
    fn take_away(&mut self, guid: Guid) -> Option<Guid> {
        let port = self.owners.remove(&guid)?;
        if let Some(entries) = self.by_port.get_mut(&port) {
            entries.retain(|_, held| *held != guid);
            if entries.is_empty() {
                self.by_port.remove(&port);
            }
        }
        self.changed.insert(port);
        Some(guid)
    }

    /// True if a port may have a GUID: no port has it as its own GUID, and no port in the fabric has it as an alias.
    fn may_have(&self, snapshot: &Snapshot, port: Guid, guid: Guid) -> bool {
        let is_others = |owner: &Guid| *owner == port || snapshot.is_in_service(*owner);
        guid != Guid::NONE && snapshot.by_guid(guid).is_none() && !self.owners.get(&guid).is_some_and(is_others)
    }

    /// Returns the GUID for an entry that lets the administrator choose: its former one, or a new one.
    fn given_for(&mut self, snapshot: &Snapshot, (port, entry): (Guid, u8)) -> Guid {
        if let Some(&before) = self.given.get(&port).and_then(|given| given.get(&entry)) {
            return before;
        }
        loop {
            self.serial = self.serial.wrapping_add(1);
            let guid = Guid(GIVEN_OUT | u64::from(self.serial));
            let is_free = !self.reserved.contains(&guid) && !self.owners.contains_key(&guid);
            if self.serial != 0 && is_free && snapshot.by_guid(guid).is_none() {
                self.reserve((port, entry), guid);
                return guid;
            }
        }
    }

    fn reserve(&mut self, (port, entry): (Guid, u8), guid: Guid) {
        if let Some(before) = self.given.entry(port).or_default().insert(entry, guid) {
            self.reserved.remove(&before);
        }
        self.reserved.insert(guid);
        if guid.0 & !u64::from(u32::MAX) == GIVEN_OUT {
            self.serial = self.serial.max(guid.0 as u32);
        }
    }

    /// Makes room for a block. Aliases of absent ports are removed first.
    fn make_room(&mut self, config: &Config, snapshot: &Snapshot) -> Result<(), Refusal> {
        let is_full = |all: &Self| all.owners.len().max(all.reserved.len()) + BLOCK_GUIDS > config.aliases;
        if is_full(self) {
            let is_gone = |port: &Guid| snapshot.by_guid(*port).is_none();
            let gone = self.by_port.keys().filter(|port| is_gone(port));
            self.changed.extend(gone);
            self.by_port.retain(|port, _| !is_gone(port));
            self.owners.retain(|_, port| !is_gone(port));
            self.given.retain(|port, _| !is_gone(port));
            self.reserved = self.given.values().flat_map(BTreeMap::values).copied().collect();
        }
        match is_full(self) {
            true => Err(Refusal::NoResources),
            false => Ok(()),
        }
    }

    /// Returns the current contents of the block, with the LID of the request.
    fn record(&self, asked: &Asked<'_>, data: &SaData) -> SaData {
        use records::guid_info as f;
        let mut record = [0; selvedge_wire::sa::SA_DATA_LEN];
        f::LID.set(&mut record, f::LID.get(data));
        f::BLOCK.set(&mut record, u64::from(asked.block));
        self.write(asked.port.guid, asked.block, &mut record);
        record
    }

    /// Writes the GUIDs of a port's block into a record.
    pub fn write(&self, port: Guid, block: u8, record: &mut SaData) {
        let first = u32::from(block) * BLOCK_GUIDS as u32;
        for (field, entry) in ENTRIES.iter().zip(first..) {
            let guid = match u8::try_from(entry) {
                Ok(0) => Some(port),
                Ok(entry) => self.entry(port, entry),
                Err(_) => None,
            };
            field.set(record, guid.unwrap_or(Guid::NONE).0);
        }
    }
}

impl<'a> Asked<'a> {
    fn of(
        snapshot: &'a Snapshot,
        (requester, trusted): (&EndPort, bool),
        (mask, data): (u64, &SaData),
    ) -> Result<Self, Refusal> {
        use records::guid_info as f;
        let needed = f::LID.mask() | f::BLOCK.mask();
        if mask & needed != needed {
            return Err(Refusal::Insufficient);
        }
        let place = snapshot.by_lid(Lid(f::LID.get(data) as u16)).ok_or(Refusal::None)?;
        let port = snapshot.end(place).ok_or(Refusal::None)?;
        // A port may not change the virtual functions of another port. OpenSM allows it to every port that shares a
        // partition.
        if port.guid != requester.guid && !trusted {
            return Err(Refusal::Denied);
        }
        let room = snapshot.fabric().port(port.at).map_or(0, |port| port.capability.guids);
        let block = f::BLOCK.get(data) as u8;
        if u32::from(block) * BLOCK_GUIDS as u32 >= u32::from(room) {
            return Err(Refusal::None);
        }
        let named = (0u8..8).zip(&ENTRIES).filter(|(_, field)| mask & field.mask() != 0);
        let entries = named.map(|(place, field)| (block * BLOCK_GUIDS as u8 + place, Guid(field.get(data))));
        let entries: Vec<(u8, Guid)> = entries.filter(|(entry, _)| *entry < room).collect();
        // The port's own GUID must not be changed.
        if entries.iter().any(|(entry, _)| *entry == 0) {
            return Err(Refusal::Invalid);
        }
        Ok(Self { port, block, entries })
    }
}

/// Writes alias GUIDs as rows, for standbys: for each port first its current aliases, then the assigned GUIDs.
pub fn rows(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    use records::alias as f;
    /// First cursor position of the assigned GUIDs; entries of a port have eight bits.
    const GIVEN: u32 = 256;
    let all = &ground.registered.aliases;
    let from = Guid(cursor.outer);
    let next = [&all.by_port, &all.given].map(|ports| ports.range(from..).next().map(|(port, _)| *port));
    let Some(port) = next.into_iter().flatten().min() else {
        return Step::End;
    };
    if port != from {
        *cursor = Cursor {
            outer: port.0,
            inner: 0,
        };
    }
    let of = |ports: &BTreeMap<Guid, Entries>, first: u32| {
        let behind = u8::try_from(cursor.inner.saturating_sub(first)).ok()?;
        let (&entry, &guid) = ports.get(&port)?.range(behind..).next()?;
        Some((first, entry, guid))
    };
    let Some((first, entry, guid)) = of(&all.by_port, 0).or_else(|| of(&all.given, GIVEN)) else {
        // The largest GUID is at the end of any table.
        *cursor = Cursor {
            outer: port.0.saturating_add(1),
            inner: 0,
        };
        return Step::Nothing;
    };
    cursor.inner = first + u32::from(entry) + 1;
    f::PORT.set(row, port.0);
    f::GUID.set(row, guid.0);
    f::ENTRY.set(row, u64::from(entry));
    f::IS_GIVEN.set(row, u64::from(first == GIVEN));
    Step::Row
}

/// Decodes a row of alias GUIDs.
pub fn read(row: SaData) -> KeptAlias {
    use records::alias as f;
    KeptAlias {
        port: Guid(f::PORT.get(&row)),
        entry: f::ENTRY.get(&row) as u8,
        guid: Guid(f::GUID.get(&row)),
        is_given: f::IS_GIVEN.get(&row) == 1,
    }
}
