//! Services registered by clients, with leases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_sim::Time;
use selvedge_types::{Guid, PKey};
use selvedge_wire::Gid;
use selvedge_wire::sa::{SA_DATA_LEN, SaData, records};

use crate::alias::Aliases;
use crate::config::Config;
use crate::kept::KeptService;
use crate::query::{Cursor, Ground, Step};
use crate::refusal::Refusal;
use crate::snapshot::{EndPort, Snapshot};

/// A lease without end. Source: IBA vol 1 §15.2.5.14.
const FOR_EVER: u32 = u32::MAX;

/// Identity of a service. Source: IBA vol 1 §15.2.5.14 (ServiceRecord's RID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    id: u64,
    gid: Gid,
    pkey: u16,
}

impl Name {
    fn of(data: &SaData) -> Self {
        use records::service as f;
        Self {
            id: f::ID.get(data),
            gid: Gid(f::GID.wide(data)),
            pkey: f::PKEY.get(data) as u16,
        }
    }
}

#[derive(Clone, Debug)]
struct Service {
    record: SaData,
    /// GUID of the port that offers the service.
    owner: Guid,
    expires: Option<Time>,
}

/// All services.
#[derive(Debug, Default)]
pub struct Services {
    by_number: BTreeMap<u64, Service>,
    by_name: BTreeMap<Name, u64>,
    expiries: BTreeSet<(Time, u64)>,
    /// Number of services of each port.
    by_owner: BTreeMap<Guid, usize>,
    last: u64,
    now: Time,
}

impl Services {
    /// Registers a service, or renews it. Returns its record.
    pub fn set(
        &mut self,
        config: &Config,
        (snapshot, aliases): (&Snapshot, &Aliases),
        (requester, trusted): (&EndPort, bool),
        (mask, data): (u64, &SaData),
    ) -> Result<SaData, Refusal> {
        use records::service as f;
        let needed = f::ID.mask() | f::GID.mask();
        if mask & needed != needed {
            return Err(Refusal::Insufficient);
        }
        let mut record = [0; SA_DATA_LEN];
        let end = records::SERVICE.len;
        record[..end].copy_from_slice(&data[..end]);
        // Defaults for missing components: the default partition, no end, no key. Source: OpenSM
        // (`osm_sa_service_record.c`).
        for (field, default) in [
            (f::PKEY, u64::from(PKey::DEFAULT_FULL.0)),
            (f::LEASE, u64::from(FOR_EVER)),
        ] {
            if mask & field.mask() == 0 {
                field.set(&mut record, default);
            }
        }
        if mask & f::KEY.mask() == 0 {
            f::KEY.put(&mut record, &[0; 16]);
        }
        let name = Name::of(&record);
        let (owner, _) = aliases.find(snapshot, name.gid).ok_or(Refusal::InvalidGid)?;
        let owner = snapshot.end(owner).ok_or(Refusal::InvalidGid)?.guid;
        // A port cannot offer a service for another port.
        if owner != requester.guid && !trusted {
            return Err(Refusal::Denied);
        }
        let known = self.by_name.get(&name).copied();
        if let Some(old) = known.and_then(|number| self.by_number.get(&number)) {
            allowed(&old.record, data, trusted)?;
        } else {
            let own = self.by_owner.get(&owner).copied().unwrap_or(0);
            if self.by_number.len() >= config.services || own >= config.services_per_client {
                return Err(Refusal::NoResources);
            }
        }
        if let Some(number) = known {
            self.remove(number);
        }
        self.last += 1;
        let number = known.unwrap_or(self.last);
        let lease = f::LEASE.get(&record) as u32;
        let expires = (lease != FOR_EVER).then(|| self.now + Duration::from_secs(u64::from(lease)));
        self.insert(number, name, Service { record, owner, expires });
        Ok(record)
    }

    /// Removes a service. Returns its last record.
    pub fn delete(
        &mut self,
        (requester, trusted): (&EndPort, bool),
        (mask, data): (u64, &SaData),
    ) -> Result<SaData, Refusal> {
        use records::service as f;
        let needed = f::ID.mask() | f::GID.mask();
        if mask & needed != needed {
            return Err(Refusal::Insufficient);
        }
        let wanted = Name::of(data);
        // Without a P_Key: in any partition, if there is only one match.
        let keys = match mask & f::PKEY.mask() {
            0 => 0..=u16::MAX,
            _ => wanted.pkey..=wanted.pkey,
        };
        let named = |pkey: u16| Name { pkey, ..wanted };
        let mut found = self.by_name.range(named(*keys.start())..=named(*keys.end()));
        let number = *found.next().ok_or(Refusal::None)?.1;
        if found.next().is_some() {
            return Err(Refusal::Invalid);
        }
        let service = self.by_number.get(&number).ok_or(Refusal::None)?;
        if service.owner != requester.guid && !trusted {
            return Err(Refusal::Denied);
        }
        let record = service.record;
        allowed(&record, data, trusted)?;
        self.remove(number);
        Ok(record)
    }

    fn insert(&mut self, number: u64, name: Name, service: Service) {
        self.by_name.insert(name, number);
        self.expiries.extend(service.expires.map(|at| (at, number)));
        *self.by_owner.entry(service.owner).or_default() += 1;
        self.by_number.insert(number, service);
    }

    fn remove(&mut self, number: u64) {
        if let Some(service) = self.by_number.remove(&number) {
            self.by_name.remove(&Name::of(&service.record));
            if let Some(own) = self.by_owner.get_mut(&service.owner) {
                *own = own.saturating_sub(1);
            }
            if let Some(at) = service.expires {
                self.expiries.remove(&(at, number));
            }
        }
    }

    /// Removes services with expired leases.
    pub fn tick(&mut self, now: Time) {
        self.now = now;
        while let Some(&(at, number)) = self.expiries.first().filter(|(at, _)| *at <= now) {
            self.expiries.remove(&(at, number));
            self.remove(number);
        }
    }

    /// Returns the number of services.
    pub fn count(&self) -> usize {
        self.by_number.len()
    }

    /// Returns all services, to be stored.
    pub fn kept(&self) -> Vec<KeptService> {
        let kept = |s: &Service| KeptService {
            owner: s.owner,
            left: s.expires.map(|at| at.since(self.now)),
            record: s.record,
        };
        self.by_number.values().map(kept).collect()
    }

    /// Restores stored services.
    pub fn restore(&mut self, now: Time, kept: Vec<KeptService>) {
        self.now = now;
        for KeptService { owner, left, record } in kept {
            self.last += 1;
            let (name, expires) = (Name::of(&record), left.map(|left| now + left));
            if let Some(older) = self.by_name.get(&name).copied() {
                self.remove(older);
            }
            self.insert(self.last, name, Service { record, owner, expires });
        }
    }

    /// Returns when the next lease expires.
    pub fn next_expiry(&self) -> Option<Time> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// Returns the ports that offer services, possibly more than once.
    pub fn owners(&self) -> impl Iterator<Item = Guid> {
        self.by_number.values().map(|service| service.owner)
    }

    /// Removes services of absent ports.
    pub fn keep(&mut self, is_there: impl Fn(Guid) -> bool) {
        let gone = self.by_number.iter().filter(|(_, service)| !is_there(service.owner));
        let gone: Vec<u64> = gone.map(|(number, _)| *number).collect();
        gone.into_iter().for_each(|number| self.remove(number));
    }
}

/// Checks that the request has the key of the service; a key of 0 is none. Source: IBA vol 1 §15.2.5.14.
fn allowed(held: &SaData, shown: &SaData, trusted: bool) -> Result<(), Refusal> {
    use records::service::KEY;
    let key = KEY.wide(held);
    if trusted || key == [0; 16] || key == KEY.wide(shown) {
        Ok(())
    } else {
        Err(Refusal::Denied)
    }
}

/// Writes services as rows.
pub fn rows(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    use records::service as f;
    let services = &ground.registered.services;
    let Some((&number, service)) = services.by_number.range(cursor.outer..).next() else {
        return Step::End;
    };
    cursor.outer = number;
    cursor.next_outer();
    *row = service.record;
    if let Some(at) = service.expires {
        f::LEASE.set(row, at.since(services.now).as_secs());
    }
    if !ground.trusted {
        f::KEY.put(row, &[0; 16]);
    }
    Step::Row
}
