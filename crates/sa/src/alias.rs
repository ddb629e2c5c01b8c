//! Alias GUIDs: what virtual functions have behind the LID of their port, as GUIDInfoRecord sets them.
//!
//! Who has which GUID is kept and told here. That ports hold them is the manager's work: it is told which ports have
//! changed ([`Aliases::take_changed`]). Statuses and what GUID 0 means are OpenSM's (`osm_sa_guidinfo_record.c`).

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

/// The GUIDs that are given out begin so: OpenIB's company number and OpenSM's default of `sm_assigned_guid`.
/// Source: OpenSM (`sm_assigned_guid` in `osm_sa_guidinfo_record.c`).
const GIVEN_OUT: u64 = 0x0014_0500 << 32;

/// The fields of a record's entries.
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
    /// Whose they are.
    owners: BTreeMap<Guid, Guid>,
    /// What was given out for entries, which get it again when they ask again.
    given: BTreeMap<Guid, Entries>,
    /// All of these.
    reserved: BTreeSet<Guid>,
    /// Of GUIDs that are given out.
    serial: u32,
    /// Ports whose aliases have changed since somebody looked.
    changed: BTreeSet<Guid>,
}

/// What a Set or Delete came to.
#[derive(Debug)]
pub struct Changed {
    /// What is answered: the block as it stands.
    pub record: SaData,
    /// Aliases that ports had and have no more.
    pub gone: BTreeSet<Guid>,
}

/// A block of a port that somebody wants to change.
struct Asked<'a> {
    port: &'a EndPort,
    block: u8,
    /// Entries that are named and for which the port has room, with what is said of them.
    entries: Vec<(u8, Guid)>,
}

impl Aliases {
    /// Sets entries of a block. GUID 0: what is there stays, or the entry gets what it was given before, or a new one.
    /// What another port has is not entered: the answer shows what the block holds.
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
                // Whoever had it is not there: a function that has moved comes with its GUID.
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

    /// Clears entries of a block. A member of a group leaves it first.
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

    /// How many there are.
    pub fn count(&self) -> usize {
        self.owners.len()
    }

    /// The port that answers to a GUID: its own, or an alias.
    pub fn port_of(&self, guid: Guid) -> Guid {
        self.owners.get(&guid).copied().unwrap_or(guid)
    }

    /// The end port with a GID of this subnet, by position, and the GUID that it is named by.
    pub fn find(&self, snapshot: &Snapshot, gid: Gid) -> Option<(u32, Guid)> {
        let guid = gid.guid();
        // A port's own GUID is its own whatever somebody else was given before it came.
        let place = snapshot.by_gid(gid).or_else(|| {
            let port = self.owners.get(&guid)?;
            snapshot.by_gid(Gid::new(gid.prefix(), *port))
        });
        Some((place?, guid))
    }

    /// What a port holds at an entry; its own GUID is none.
    pub fn entry(&self, port: Guid, entry: u8) -> Option<Guid> {
        self.by_port.get(&port)?.get(&entry).copied()
    }

    /// Ports whose aliases have changed since the last call, with all that they have now.
    pub fn take_changed(&mut self) -> Vec<PortAliases> {
        let of_port = |port| PortAliases {
            port,
            guids: self.by_port.get(&port).cloned().unwrap_or_default(),
        };
        std::mem::take(&mut self.changed).into_iter().map(of_port).collect()
    }

    /// True if there are some.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// All count as changed: somebody new looks.
    pub fn all_changed(&mut self) {
        self.changed.extend(self.by_port.keys());
    }

    /// These come in the place of others: all of both count as changed.
    pub fn follow(&mut self, before: &Self) {
        self.all_changed();
        self.changed.extend(before.by_port.keys());
    }

    /// A port that is there has its own GUID, whoever had it as alias before.
    pub fn yield_to(&mut self, snapshot: &Snapshot) -> BTreeSet<Guid> {
        let taken = self.owners.keys().filter(|guid| snapshot.by_guid(**guid).is_some());
        let taken: BTreeSet<Guid> = taken.copied().collect();
        for guid in &taken {
            self.take_away(*guid);
        }
        taken
    }

    /// All of them, to be kept, and what was given out.
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

    /// Takes back what was kept. What makes no sense is left out: a GUID that two have.
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

    /// Nobody has it any more. Returns it if somebody had.
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

    /// True if a port may have a GUID: it is no port's own, nor an alias of one that is there.
    fn may_have(&self, snapshot: &Snapshot, port: Guid, guid: Guid) -> bool {
        let is_others = |owner: &Guid| *owner == port || snapshot.is_in_service(*owner);
        guid != Guid::NONE && snapshot.by_guid(guid).is_none() && !self.owners.get(&guid).is_some_and(is_others)
    }

    /// What an entry gets that leaves it to the administrator: what it had before, or a new one.
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

    /// Room for a block: those of ports that are not there go first.
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

    /// The block as it stands, at the LID that was asked for.
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
        // Nobody names another port's functions. OpenSM lets whoever shares a partition, and says nothing to others.
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
        // The port's own GUID is not to be changed.
        if entries.iter().any(|(entry, _)| *entry == 0) {
            return Err(Refusal::Invalid);
        }
        Ok(Self { port, block, entries })
    }
}

/// Alias GUIDs as rows, for standbys: of a port first what it has, then what it was given.
pub fn rows(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    use records::alias as f;
    /// Entries of a port have eight bits.
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
        // The largest GUID is behind the end of any table.
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

/// What such a row says.
pub fn read(row: SaData) -> KeptAlias {
    use records::alias as f;
    KeptAlias {
        port: Guid(f::PORT.get(&row)),
        entry: f::ENTRY.get(&row) as u8,
        guid: Guid(f::GUID.get(&row)),
        is_given: f::IS_GIVEN.get(&row) == 1,
    }
}
