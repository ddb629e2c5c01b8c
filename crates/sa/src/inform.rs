//! Subscriptions: which port gets reports of which events.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_types::{Guid, Lid};
use selvedge_wire::sa::{SA_DATA_LEN, SaData, records};
use selvedge_wire::{Address, Gid};

use crate::config::Config;
use crate::kept::KeptSubscription;
use crate::query::{Cursor, Ground, Step};
use crate::refusal::Refusal;
use crate::report::Event;
use crate::snapshot::{EndPort, Snapshot};

/// Traps about keys: only trusted requesters get reports of them. Source: IBA vol 1 §14.2.5.1 (256-259).
const SECURITY_TRAPS: std::ops::RangeInclusive<u64> = 256..=259;
/// The value for all traps, types and LIDs.
const ALL: u64 = 0xFFFF;

/// One subscription.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The requested InformInfo, in the form of a record.
    wanted: SaData,
    /// GUID of the subscribed port.
    pub guid: Guid,
    /// The address to which reports are sent.
    pub to: Address,
}

impl Subscription {
    /// True if the subscription includes this event.
    fn wants(&self, event: &Event) -> bool {
        use records::inform_info as f;
        let data = &self.wanted;
        let is = |field: selvedge_wire::sa::Field, all: u64, value: u64| {
            let wanted = field.get(data);
            wanted == all || wanted == value
        };
        let gid = Gid(f::GID.wide(data));
        let about = if gid == Gid::default() {
            let (begin, end) = (f::LID_BEGIN.get(data), f::LID_END.get(data));
            let lid = u64::from(event.issuer.0);
            begin == ALL || begin == lid || begin <= lid && lid <= end
        } else {
            event.about == Some(gid)
        };
        about
            && f::IS_GENERIC.get(data) == 1
            && is(f::TYPE, ALL, u64::from(event.kind))
            && is(f::TRAP_NUMBER, ALL, u64::from(event.number))
            && is(f::PRODUCER, 0xFF_FFFF, u64::from(event.producer))
    }
}

/// All subscriptions.
#[derive(Debug, Default)]
pub struct Subscriptions {
    by_number: BTreeMap<u64, Subscription>,
    /// Subscription numbers of each port.
    by_port: BTreeMap<Guid, BTreeSet<u64>>,
    last: u64,
}

impl Subscriptions {
    /// Begins or ends a subscription. Returns the InformInfo as stored.
    pub fn set(
        &mut self,
        config: &Config,
        (requester, trusted): (&EndPort, bool),
        from: Address,
        data: &SaData,
    ) -> Result<SaData, Refusal> {
        use records::inform_info as f;
        let mut wanted = [0; SA_DATA_LEN];
        let end = records::INFORM_INFO.len;
        wanted[..end].copy_from_slice(&data[..end]);
        // Reports go to the queue pair in the request or, if that is 0, to the one that sent the request.
        if f::QPN.get(&wanted) == 0 {
            f::QPN.set(&mut wanted, u64::from(from.qp));
        }
        let subscribes = match f::SUBSCRIBE.get(data) {
            0 => false,
            1 => true,
            _ => return Err(Refusal::Invalid),
        };
        let trap = f::TRAP_NUMBER.get(data);
        if subscribes && !trusted && SECURITY_TRAPS.contains(&trap) {
            return Err(Refusal::Denied);
        }
        // In the stored form, so that an unsubscribe request finds the subscription.
        f::SUBSCRIBE.set(&mut wanted, 1);
        let own = self.by_port.get(&requester.guid);
        let same = |number: &&u64| self.by_number.get(number).is_some_and(|s| s.wanted == wanted);
        let known = own.and_then(|own| own.iter().find(same).copied());
        match (subscribes, known) {
            (true, Some(_)) => {}
            (true, None) => {
                let own = own.map_or(0, BTreeSet::len);
                if self.by_number.len() >= config.subscriptions || own >= config.subscriptions_per_client {
                    return Err(Refusal::NoResources);
                }
                let qp = f::QPN.get(&wanted) as u32;
                self.add(Subscription {
                    wanted,
                    guid: requester.guid,
                    to: Address { qp, ..from },
                });
            }
            (false, Some(number)) => {
                self.by_number.remove(&number);
                if let Some(own) = self.by_port.get_mut(&requester.guid) {
                    own.remove(&number);
                }
            }
            // Source: OpenSM: ending a subscription that does not exist is an error.
            (false, None) => return Err(Refusal::Invalid),
        }
        let mut answer = wanted;
        f::SUBSCRIBE.set(&mut answer, u64::from(subscribes));
        Ok(answer)
    }

    fn add(&mut self, subscription: Subscription) {
        self.last += 1;
        self.by_port.entry(subscription.guid).or_default().insert(self.last);
        self.by_number.insert(self.last, subscription);
    }

    /// Returns the subscribers to an event, each once, with the current LIDs of their ports. A subscriber gets no
    /// events of ports with which it shares no partition.
    pub fn told<'a>(&'a self, snapshot: &'a Snapshot, event: &'a Event) -> impl Iterator<Item = Address> + 'a {
        let wanting = self.by_number.values().filter(|s| s.wants(event));
        let told = wanting.filter_map(move |s| {
            let place = snapshot.by_guid(s.guid)?;
            let end = snapshot.end(place)?;
            let about = event.about.and_then(|gid| snapshot.end(snapshot.by_gid(gid)?));
            let may = about.is_none_or(|about| snapshot.shared_key(end, about, None).is_some());
            may.then_some(Address {
                lid: end.lids.base,
                ..s.to
            })
        });
        let mut all: Vec<Address> = told.collect();
        all.sort_by_key(|to| (to.lid, to.qp));
        all.dedup();
        all.into_iter()
    }

    /// Returns the number of subscriptions.
    pub fn count(&self) -> usize {
        self.by_number.len()
    }

    /// Returns all subscriptions, to be stored.
    pub fn kept(&self) -> Vec<KeptSubscription> {
        let kept = |s: &Subscription| KeptSubscription {
            guid: s.guid,
            to: s.to,
            wanted: s.wanted,
        };
        self.by_number.values().map(kept).collect()
    }

    /// Restores stored subscriptions.
    pub fn restore(&mut self, kept: Vec<KeptSubscription>) {
        for KeptSubscription { guid, to, wanted } in kept {
            self.add(Subscription { wanted, guid, to });
        }
    }

    /// Returns the subscribed ports.
    pub fn owners(&self) -> impl Iterator<Item = Guid> {
        self.by_port.keys().copied()
    }

    /// Removes subscriptions of absent ports.
    pub fn keep(&mut self, is_there: impl Fn(Guid) -> bool) {
        self.by_port.retain(|guid, own| {
            let stays = is_there(*guid);
            if !stays {
                for number in &*own {
                    self.by_number.remove(number);
                }
            }
            stays
        });
    }

    /// Removes the subscriptions of a LID that does not answer.
    pub fn forget(&mut self, snapshot: &Snapshot, lid: Lid) {
        let guid = snapshot
            .by_lid(lid)
            .and_then(|place| snapshot.end(place))
            .map(|end| end.guid);
        let own = guid.and_then(|guid| self.by_port.remove(&guid));
        for number in own.into_iter().flatten() {
            self.by_number.remove(&number);
        }
    }
}

/// Writes subscriptions as rows.
pub fn rows(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    use records::inform_info_record as f;
    let all = &ground.registered.subscriptions.by_number;
    let Some((&number, s)) = all.range(cursor.outer..).next() else {
        return Step::End;
    };
    cursor.outer = number;
    cursor.next_outer();
    let gid = ground
        .snapshot
        .by_guid(s.guid)
        .and_then(|place| ground.snapshot.end(place));
    let Some(gid) = gid.map(|end| ground.snapshot.gid(end)) else {
        return Step::Nothing;
    };
    f::SUBSCRIBER_GID.put(row, &gid.0);
    f::ENUM.set(row, number & 0xFFFF);
    row[24..24 + records::INFORM_INFO.len].copy_from_slice(&s.wanted[..records::INFORM_INFO.len]);
    Step::Row
}
