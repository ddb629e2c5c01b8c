//! A keeper and a disk that may fail.

use std::path::Path;
use std::sync::Arc;

use selvedge_sa::Registrations;
use selvedge_sim::{Ratio, Seed};
use selvedge_store::{Found, MemoryDisk, StateDir, Trouble};

use super::*;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn folder(disk: &Arc<MemoryDisk>) -> StateDir {
    let disk = Arc::clone(disk);
    StateDir::on(Path::new("state"), disk).unwrap()
}

/// True if a process that starts now asks hosts to register again.
fn asks(disk: &Arc<MemoryDisk>) -> bool {
    Found::read(Some(&folder(disk))).unwrap().is_lost
}

/// A keeper with its folder.
struct Bench {
    disk: Arc<MemoryDisk>,
    folder: StateDir,
    keeper: Keeper,
}

impl Bench {
    /// Returns a bench after the manager has asked all hosts once to register again.
    fn settled() -> Self {
        let disk = Arc::new(MemoryDisk::default());
        assert!(asks(&disk), "nothing is known of an empty folder");
        let mut bench = Self {
            folder: folder(&disk),
            disk,
            keeper: Keeper::new(true, true),
        };
        bench.keeper.hosts_were_asked(at(0));
        assert!(bench.store(250, 0));
        assert!(!asks(&bench.disk));
        bench
    }

    /// Stores what is due at this time. Returns true if that worked.
    fn store(&mut self, ms: u64, revision: u64) -> bool {
        assert!(self.keeper.is_due(at(ms)), "{ms} ms: {:?}", self.keeper.next_wake());
        let is_stored = self.folder.save_registrations(&Registrations::default()).is_ok();
        self.saved(ms, revision, is_stored)
    }

    fn saved(&mut self, ms: u64, revision: u64, is_stored: bool) -> bool {
        if !self.keeper.saved(at(ms), revision, is_stored) {
            return is_stored;
        }
        let is_done = self.folder.mark_stored(false).is_ok();
        self.keeper.mark_set(at(ms), is_done);
        is_done
    }

    /// Removes the mark if that is due.
    fn remove(&mut self, ms: u64) {
        if self.keeper.begin_removing(at(ms)) {
            assert!(self.keeper.is_removing());
            self.keeper.mark_removed(at(ms), self.folder.mark_unstored().is_ok());
        }
    }

    /// True if a host gets the answer that its registration, which leads to this revision, succeeded.
    fn confirms(&mut self, ms: u64, revision: u64) -> bool {
        self.keeper.changed(at(ms), revision);
        self.remove(ms);
        !self.keeper.withholds()
    }

    fn fail(&self, is_failing: bool) {
        let all = Ratio {
            numerator: 1,
            denominator: 1,
        };
        self.disk.set_trouble(is_failing.then_some(Trouble {
            share: all,
            seed: Seed(1),
        }));
    }
}

#[test]
fn a_host_is_told_when_a_restart_would_ask_it() {
    let mut bench = Bench::settled();
    assert!(bench.confirms(1_000, 1));
    assert!(asks(&bench.disk));
    assert_eq!(bench.keeper.next_wake(), Some(at(1_250)));
    assert!(bench.store(1_250, 1));
    assert!(!asks(&bench.disk));
    // A host registered something while the save was running.
    assert!(bench.confirms(2_000, 2));
    assert!(bench.keeper.is_due(at(2_250)));
    assert!(bench.confirms(2_251, 3));
    assert!(bench.saved(2_252, 2, true));
    assert!(asks(&bench.disk));
}

#[test]
fn on_a_disk_that_takes_nothing_hosts_are_told_to_ask_again() {
    let mut bench = Bench::settled();
    bench.fail(true);
    assert!(!bench.confirms(1_000, 1));
    // The mark is not retried for each request.
    assert!(!bench.confirms(1_001, 1));
    assert_eq!(bench.keeper.retries()[1].failures(), 1);
    assert_eq!(bench.keeper.next_wake(), Some(at(1_250)));
    assert!(!bench.store(1_250, 1));
    bench.remove(1_250);
    let [saving, marking] = bench.keeper.retries().map(|retry| (retry.since(), retry.failures()));
    assert_eq!((saving, marking), ((Some(at(1_250)), 1), (Some(at(1_000)), 2)));
    bench.fail(false);
    // The earlier of two times: next attempt at the mark, next attempt to store.
    assert_eq!(bench.keeper.next_wake(), Some(at(1_500)));
    assert!(bench.store(1_500, 1));
    assert!(bench.confirms(1_501, 1));
    assert!(!asks(&bench.disk));
    assert_eq!(bench.keeper.retries(), [Retry::default(); 2]);
}

#[test]
fn a_mark_that_could_not_be_set_is_removed_before_anything_is_confirmed() {
    let mut sums = [0, 0];
    for seed in 0..200 {
        let mut bench = Bench::settled();
        let (mut revision, mut confirmed, mut on_disk) = (0, 0, 0);
        for turn in 1..60 {
            let trouble = Trouble {
                share: Ratio {
                    numerator: 1,
                    denominator: 8,
                },
                seed: Seed(seed).nth(turn),
            };
            bench.disk.set_trouble(Some(trouble));
            let ms = 1_000 + turn * 100;
            revision += u64::from(turn % 7 == 1);
            if bench.confirms(ms, revision) {
                confirmed = revision;
            }
            if bench.keeper.is_due(at(ms)) {
                let is_stored = bench.folder.save_registrations(&Registrations::default()).is_ok();
                if is_stored {
                    on_disk = revision;
                }
                bench.saved(ms, revision, is_stored);
            }
            // After a kill at this point, either hosts are asked again or all confirmed registrations are on the disk.
            bench.disk.set_trouble(None);
            assert!(asks(&bench.disk) || confirmed <= on_disk, "seed {seed}, {ms} ms");
        }
        sums = [sums[0] + confirmed, sums[1] + on_disk];
    }
    // Each of the 200 runs has nine revisions.
    assert!(sums.iter().all(|sum| *sum > 200 * 5), "{sums:?}");
}

#[test]
fn a_process_that_ends_leaves_nothing_to_ask() {
    let end = |bench: &mut Bench| {
        let is_behind = bench.keeper.is_behind();
        if bench.keeper.end() {
            if is_behind {
                bench.folder.save_registrations(&Registrations::default()).unwrap();
            }
            bench.folder.mark_stored(true).unwrap();
        }
    };
    let mut bench = Bench::settled();
    assert!(bench.confirms(1_000, 1));
    end(&mut bench);
    assert!(!asks(&bench.disk));
    // A standby knows that hosts register with the master.
    bench.keeper.lose();
    assert!(bench.confirms(2_000, 2));
    end(&mut bench);
    assert!(asks(&bench.disk));
    let mut nowhere = Keeper::new(false, true);
    nowhere.changed(at(0), 1);
    assert!(!nowhere.begin_removing(at(0)) && !nowhere.withholds());
    assert_eq!((nowhere.next_wake(), nowhere.is_due(at(9_999))), (None, false));
    assert!(!nowhere.end());
}
