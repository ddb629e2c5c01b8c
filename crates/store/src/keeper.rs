//! Keeps what hosts have registered, so that a restart forgets none of it.
//!
//! Before a host is told that something is registered, the mark in the state folder that says "all is stored" is taken
//! away; it is put back when that is stored. A process that is killed in between does not find the mark when it comes
//! back, and only then asks hosts to register again; without a state folder it always has to. If the mark cannot be
//! taken away, hosts are answered BUSY, which makes them ask again.

use std::sync::Arc;
use std::time::Duration;

use selvedge_sa::{Output, Registrations};
use selvedge_sim::Time;

use crate::{Retry, StateDir, StoreError};

/// How long changes are gathered before they are stored: a join costs no disk of its own.
const GATHER: Duration = Duration::from_millis(250);

/// What an earlier life left.
#[derive(Clone, Debug)]
pub struct Found {
    /// What hosts had registered.
    pub registrations: Registrations,
    /// Hosts may have registered more than that.
    pub is_lost: bool,
}

impl Found {
    /// Reads it from a state folder, if there is one.
    pub fn read(folder: Option<&StateDir>) -> Result<Self, StoreError> {
        let kept = folder.map(StateDir::load_registrations).transpose()?.flatten();
        let (registrations, is_all) = kept.unwrap_or_default();
        let is_lost = !is_all;
        Ok(Self { registrations, is_lost })
    }
}

/// Where the mark in the state folder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// It says that all is stored, which is right; or it may, after a failure.
    Stored,
    /// It says so and is to be taken away: no registration may be confirmed before.
    Wrong,
    /// It is not there.
    Away,
}

/// Notices what changes and when it is to be stored.
#[derive(Debug)]
pub struct Keeper {
    folder: Option<Arc<StateDir>>,
    /// The newest revision that was seen.
    seen: u64,
    due: Option<Time>,
    mark: Mark,
    marking: Retry,
    saving: Retry,
    /// Hosts have registered what is not known here, and have not been asked since.
    is_lost: bool,
}

impl Keeper {
    /// Begins with what [`Found`] says; if hosts may have registered more, the mark is known to be away.
    #[must_use]
    pub fn new(folder: Option<Arc<StateDir>>, is_lost: bool) -> Self {
        Self {
            folder,
            seen: 0,
            due: None,
            mark: if is_lost { Mark::Away } else { Mark::Stored },
            marking: Retry::default(),
            saving: Retry::default(),
            is_lost,
        }
    }

    /// True if hosts are to be asked to register again.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Another manager is master: hosts register there.
    pub const fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Every host has been asked: what hosts register from now on is all there is.
    pub fn hosts_were_asked(&mut self, now: Time) {
        if std::mem::take(&mut self.is_lost) {
            self.due.get_or_insert(now + GATHER);
        }
    }

    /// Looks whether something was registered or given up, before `out` is sent: as long as the mark in the state
    /// folder cannot be taken away, hosts are answered BUSY instead of success.
    pub fn guard(&mut self, now: Time, revision: u64, out: &mut [Output]) -> Result<(), StoreError> {
        if revision != self.seen {
            self.seen = revision;
            let due = self.saving.next().map_or(now + GATHER, |next| next.max(now + GATHER));
            self.due.get_or_insert(due);
            if self.mark == Mark::Stored && self.folder.is_some() {
                self.mark = Mark::Wrong;
            }
        }
        let marked = self.mark_if_due(now);
        if self.mark == Mark::Wrong {
            out.iter_mut().for_each(Output::withhold);
        }
        marked
    }

    /// Takes the mark away, if that is to be done and is not too soon after a failure.
    pub fn mark_if_due(&mut self, now: Time) -> Result<(), StoreError> {
        let Some(folder) = self.folder.as_ref().filter(|_| self.mark == Mark::Wrong) else {
            return Ok(());
        };
        if !self.marking.may_try(now) {
            return Ok(());
        }
        let marked = folder.mark_unstored();
        match marked {
            Ok(()) => {
                self.mark = Mark::Away;
                self.marking.worked();
            }
            Err(_) => self.marking.failed(now),
        }
        marked
    }

    /// Returns when something is to be done.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let marking = self.marking.next().filter(|_| self.mark == Mark::Wrong);
        let due = self.due.filter(|_| self.folder.is_some());
        [marking, due].into_iter().flatten().min()
    }

    /// True if it is time to store; [`Self::saved`] says how that ended.
    pub fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.folder.is_some() && self.due.is_some_and(|due| due <= now);
        if is_due {
            self.due = None;
        }
        is_due
    }

    /// What had this revision is stored, or could not be: then it is tried again later.
    pub fn saved(&mut self, now: Time, revision: u64, result: Result<(), StoreError>) -> Result<(), StoreError> {
        let result = result.and_then(|()| match revision == self.seen && !self.is_lost {
            true => self.all_is_stored(false),
            false => Ok(()),
        });
        match &result {
            Ok(()) => self.saving.worked(),
            Err(_) => {
                self.saving.failed(now);
                self.due = self.saving.next();
            }
        }
        result
    }

    fn all_is_stored(&mut self, has_ended: bool) -> Result<(), StoreError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        // Also if it fails the mark may be there: it is taken away before anything else is confirmed.
        self.mark = Mark::Stored;
        self.marking.worked();
        folder.mark_stored(has_ended)
    }

    /// Stores at once, when the process ends.
    pub fn end(&mut self, registrations: &Registrations) -> Result<(), StoreError> {
        let Some(folder) = self.folder.clone().filter(|_| !self.is_lost) else {
            return Ok(());
        };
        if self.mark != Mark::Stored || self.due.is_some() {
            folder.save_registrations(registrations)?;
        }
        self.all_is_stored(true)
    }

    /// The failures of storing since its last success, and those of the mark.
    #[must_use]
    pub const fn retries(&self) -> [&Retry; 2] {
        [&self.saving, &self.marking]
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use selvedge_sim::{Ratio, Seed};
    use selvedge_types::{Lid, Sl};
    use selvedge_wire::sa::records;
    use selvedge_wire::{Address, Class, Datagram, Mad, Method, Status};

    use super::*;
    use crate::{MemoryDisk, Trouble};

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn folder(disk: &Arc<MemoryDisk>) -> Arc<StateDir> {
        let disk = Arc::clone(disk);
        Arc::new(StateDir::on(Path::new("state"), disk).unwrap())
    }

    /// True if a process that starts now asks hosts to register again.
    fn asks(disk: &Arc<MemoryDisk>) -> bool {
        Found::read(Some(&folder(disk))).unwrap().is_lost
    }

    /// A manager whose hosts have all been asked once.
    fn settled() -> (Arc<MemoryDisk>, Keeper) {
        let disk = Arc::new(MemoryDisk::default());
        assert!(asks(&disk), "nothing is known of an empty folder");
        let mut keeper = Keeper::new(Some(folder(&disk)), true);
        keeper.hosts_were_asked(at(0));
        store(&mut keeper, 250, 0).unwrap();
        assert!(!asks(&disk));
        (disk, keeper)
    }

    /// Stores what is due then.
    fn store(keeper: &mut Keeper, ms: u64, revision: u64) -> Result<(), StoreError> {
        assert!(keeper.is_due(at(ms)), "{ms} ms: {:?}", keeper.next_wake());
        let saved = keeper
            .folder
            .as_ref()
            .unwrap()
            .save_registrations(&Registrations::default());
        keeper.saved(at(ms), revision, saved)
    }

    fn fail(disk: &MemoryDisk, is_failing: bool) {
        let all = Ratio {
            numerator: 1,
            denominator: 1,
        };
        disk.set_trouble(is_failing.then_some(Trouble {
            share: all,
            seed: Seed(1),
        }));
    }

    fn answer(method: Method, attribute: selvedge_wire::AttributeId) -> Output {
        let mut mad = Mad::request(Class::SubnAdm, method, attribute, 0);
        mad.set_status(Status::OK);
        let address = Address::gsi(Lid(1), Sl::default());
        let timeout = Duration::ZERO;
        let datagram = Datagram { address, mad };
        Output { datagram, timeout }
    }

    /// What a host that asked is told, when this revision is reached.
    fn told(keeper: &mut Keeper, ms: u64, revision: u64) -> (Status, bool) {
        let mut out = [answer(Method::GetResp, records::MEMBER.id)];
        let marked = keeper.guard(at(ms), revision, &mut out);
        (out[0].datagram.mad.status(), marked.is_ok())
    }

    #[test]
    fn a_host_is_told_when_a_restart_would_ask_it() {
        let (disk, mut keeper) = settled();
        assert_eq!(told(&mut keeper, 1_000, 1), (Status::OK, true));
        assert!(asks(&disk));
        assert_eq!(keeper.next_wake(), Some(at(1_250)));
        store(&mut keeper, 1_250, 1).unwrap();
        assert!(!asks(&disk));
        // Something was registered while that was written.
        assert_eq!(told(&mut keeper, 2_000, 2), (Status::OK, true));
        assert!(keeper.is_due(at(2_250)));
        assert_eq!(told(&mut keeper, 2_251, 3), (Status::OK, true));
        keeper.saved(at(2_252), 2, Ok(())).unwrap();
        assert!(asks(&disk));
    }

    #[test]
    fn on_a_disk_that_takes_nothing_hosts_are_told_to_ask_again() {
        let (disk, mut keeper) = settled();
        fail(&disk, true);
        assert_eq!(told(&mut keeper, 1_000, 1), (Status::BUSY, false));
        // It is not tried for each question.
        assert_eq!(told(&mut keeper, 1_001, 1), (Status::BUSY, true));
        assert_eq!(keeper.next_wake(), Some(at(1_250)));
        assert!(store(&mut keeper, 1_250, 1).is_err());
        assert!(keeper.mark_if_due(at(1_250)).is_err());
        let [saving, marking] = keeper.retries().map(|retry| (retry.since(), retry.failures()));
        assert_eq!((saving, marking), ((Some(at(1_250)), 1), (Some(at(1_000)), 2)));
        fail(&disk, false);
        // Whatever comes first: the mark, or the store.
        let next = keeper.next_wake().unwrap();
        assert_eq!(next, at(1_500));
        store(&mut keeper, 1_500, 1).unwrap();
        assert_eq!(told(&mut keeper, 1_501, 1), (Status::OK, true));
        assert!(!asks(&disk));
        assert_eq!(keeper.retries(), [&Retry::default(); 2]);
    }

    #[test]
    fn a_mark_that_could_not_be_put_back_is_taken_away_before_anything_is_confirmed() {
        for seed in 0..200 {
            let (disk, mut keeper) = settled();
            let (mut revision, mut confirmed, mut on_disk) = (0, 0, 0);
            for turn in 1..60 {
                let trouble = Trouble {
                    share: Ratio {
                        numerator: 1,
                        denominator: 8,
                    },
                    seed: Seed(seed).nth(turn),
                };
                disk.set_trouble(Some(trouble));
                let ms = 1_000 + turn * 100;
                revision += u64::from(turn % 7 == 1);
                if told(&mut keeper, ms, revision).0 == Status::OK {
                    confirmed = revision;
                }
                if keeper.is_due(at(ms)) {
                    let folder = keeper.folder.clone().unwrap();
                    let saved = folder.save_registrations(&Registrations::default());
                    if saved.is_ok() {
                        on_disk = revision;
                    }
                    let _ = keeper.saved(at(ms), revision, saved);
                }
                // Killed here, hosts are asked, or all that was confirmed is on the disk.
                disk.set_trouble(None);
                assert!(asks(&disk) || confirmed <= on_disk, "seed {seed}, {ms} ms");
            }
            assert!(confirmed > 4 && on_disk > 2, "seed {seed}: {confirmed} {on_disk}");
        }
    }

    #[test]
    fn only_what_confirms_a_registration_is_withheld() {
        let check = |method, attribute, want: Status| {
            let mut output = answer(method, attribute);
            output.withhold();
            assert_eq!(output.datagram.mad.status(), want, "{method:?} {attribute:?}");
        };
        for attribute in [
            records::MEMBER.id,
            records::SERVICE.id,
            records::INFORM_INFO.id,
            records::GUID_INFO.id,
        ] {
            check(Method::GetResp, attribute, Status::BUSY);
            check(Method::DeleteResp, attribute, Status::BUSY);
            check(Method::GetTableResp, attribute, Status::OK);
            check(Method::Report, attribute, Status::OK);
        }
        check(Method::GetResp, records::PATH.id, Status::OK);
    }

    #[test]
    fn a_process_that_ends_leaves_nothing_to_ask() {
        let (disk, mut keeper) = settled();
        told(&mut keeper, 1_000, 1);
        keeper.end(&Registrations::default()).unwrap();
        assert!(!asks(&disk));
        // A standby knows that hosts register with the master.
        keeper.lose();
        told(&mut keeper, 2_000, 2);
        keeper.end(&Registrations::default()).unwrap();
        assert!(asks(&disk));
        let mut nowhere = Keeper::new(None, true);
        assert_eq!(told(&mut nowhere, 0, 1), (Status::OK, true));
        assert_eq!((nowhere.next_wake(), nowhere.is_due(at(9_999))), (None, false));
        nowhere.end(&Registrations::default()).unwrap();
    }
}
