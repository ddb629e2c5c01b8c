//! Stores the registrations of hosts, so that a restart loses none of them.
//!
//! A mark in the state folder says "all registrations are stored". The keeper removes the mark before a host gets the
//! answer that a registration succeeded. It puts the mark back when the registration is stored.
//!
//! If the process is killed in between, the next process finds no mark and asks hosts to register again. Without a
//! state folder it always asks. If the mark cannot be removed, hosts are answered BUSY and repeat their request.

use std::sync::Arc;
use std::time::Duration;

use selvedge_sa::{Output, Registrations};
use selvedge_sim::Time;

use crate::{Retry, StateDir, StoreError};

/// How long changes are collected before they are stored, so that a single join causes no disk write of its own.
const GATHER: Duration = Duration::from_millis(250);

/// The registrations that an earlier process left.
#[derive(Clone, Debug)]
pub struct Found {
    /// The stored registrations.
    pub registrations: Registrations,
    /// True if hosts may have registered more than is stored.
    pub is_lost: bool,
}

impl Found {
    /// Reads the registrations from a state folder, if there is one.
    pub fn read(folder: Option<&StateDir>) -> Result<Self, StoreError> {
        let kept = folder.map(StateDir::load_registrations).transpose()?.flatten();
        let (registrations, is_all) = kept.unwrap_or_default();
        let is_lost = !is_all;
        Ok(Self { registrations, is_lost })
    }
}

/// State of the mark in the state folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// The mark is present, and all registrations are stored; after a failure, the mark may be missing.
    Stored,
    /// The mark is present but wrong: it must be removed before any registration is confirmed.
    Wrong,
    /// The mark is removed.
    Away,
}

/// Tracks changes of registrations and decides when they are stored.
#[derive(Debug)]
pub struct Keeper {
    folder: Option<Arc<StateDir>>,
    /// The newest revision seen.
    seen: u64,
    due: Option<Time>,
    mark: Mark,
    marking: Retry,
    saving: Retry,
    /// Hosts may have registered more than is known here, and have not been asked since.
    is_lost: bool,
}

impl Keeper {
    /// Starts from what [`Found`] holds. If `is_lost`, the mark is known to be removed.
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

    /// Notes that another manager is master: hosts register there.
    pub const fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Notes that every host has been asked: from now on the known registrations are complete.
    pub fn hosts_were_asked(&mut self, now: Time) {
        if std::mem::take(&mut self.is_lost) {
            self.due.get_or_insert(now + GATHER);
        }
    }

    /// Checks for new or cancelled registrations before `out` is sent. While the mark cannot be removed, replaces
    /// success in the answers to hosts by BUSY.
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

    /// Removes the mark if that is due and the wait after a failure is over.
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

    /// Returns when the keeper must be called next.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let marking = self.marking.next().filter(|_| self.mark == Mark::Wrong);
        let due = self.due.filter(|_| self.folder.is_some());
        [marking, due].into_iter().flatten().min()
    }

    /// True if it is time to store. The caller reports the result to [`Self::saved`].
    pub fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.folder.is_some() && self.due.is_some_and(|due| due <= now);
        if is_due {
            self.due = None;
        }
        is_due
    }

    /// Notes the result of storing `revision`. After a failure, schedules another attempt.
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
        // Even after a failure the mark may be present: it is removed before anything else is confirmed.
        self.mark = Mark::Stored;
        self.marking.worked();
        folder.mark_stored(has_ended)
    }

    /// Stores everything at once, at the end of the process.
    pub fn end(&mut self, registrations: &Registrations) -> Result<(), StoreError> {
        let Some(folder) = self.folder.clone().filter(|_| !self.is_lost) else {
            return Ok(());
        };
        if self.mark != Mark::Stored || self.due.is_some() {
            folder.save_registrations(registrations)?;
        }
        self.all_is_stored(true)
    }

    /// Returns the failures since the last success: of storing, and of the mark.
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

    /// A manager that has asked all its hosts once.
    fn settled() -> (Arc<MemoryDisk>, Keeper) {
        let disk = Arc::new(MemoryDisk::default());
        assert!(asks(&disk), "nothing is known of an empty folder");
        let mut keeper = Keeper::new(Some(folder(&disk)), true);
        keeper.hosts_were_asked(at(0));
        store(&mut keeper, 250, 0).unwrap();
        assert!(!asks(&disk));
        (disk, keeper)
    }

    /// Stores what is due at this time.
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

    /// Returns the status of the answer that a host gets at this revision, and whether the guard succeeded.
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
        // A host registered something while the save was running.
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
        // The mark is not retried for each request.
        assert_eq!(told(&mut keeper, 1_001, 1), (Status::BUSY, true));
        assert_eq!(keeper.next_wake(), Some(at(1_250)));
        assert!(store(&mut keeper, 1_250, 1).is_err());
        assert!(keeper.mark_if_due(at(1_250)).is_err());
        let [saving, marking] = keeper.retries().map(|retry| (retry.since(), retry.failures()));
        assert_eq!((saving, marking), ((Some(at(1_250)), 1), (Some(at(1_000)), 2)));
        fail(&disk, false);
        // The earlier of two times: next attempt at the mark, next attempt to store.
        let next = keeper.next_wake().unwrap();
        assert_eq!(next, at(1_500));
        store(&mut keeper, 1_500, 1).unwrap();
        assert_eq!(told(&mut keeper, 1_501, 1), (Status::OK, true));
        assert!(!asks(&disk));
        assert_eq!(keeper.retries(), [&Retry::default(); 2]);
    }

    #[test]
    fn a_mark_that_could_not_be_put_back_is_taken_away_before_anything_is_confirmed() {
        let mut sums = [0, 0];
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
                // After a kill at this point, either hosts are asked again or all confirmed registrations are on the
                // disk.
                disk.set_trouble(None);
                assert!(asks(&disk) || confirmed <= on_disk, "seed {seed}, {ms} ms");
            }
            sums = [sums[0] + confirmed, sums[1] + on_disk];
        }
        // Each of the 200 runs has nine revisions.
        assert!(sums.iter().all(|sum| *sum > 200 * 5), "{sums:?}");
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
