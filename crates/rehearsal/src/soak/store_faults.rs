//! Disks that fail for a time, and managers that are killed meanwhile. Drawn from a seed of their own, so that all else
//! happens as in the same schedule without them, but for what they cause.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_sim::{Ratio, Rng, Seed, Time};
use selvedge_store::{MemoryDisk, Trouble};

use super::action::Action;
use super::draw::scale;
use super::world::World;
use crate::RehearsalError;

/// Quiet times between two troubles and how long a trouble lasts, in microseconds: at least, and at most.
const QUIET_US: (u64, u64) = (5_000, 4_000_000);
const LASTS_US: (u64, u64) = (1_000, 16_000_000);
/// Shares of the calls that fail: all of them most often, as on a full disk.
const SHARES: [(u32, u32); 5] = [(1, 1), (1, 1), (1, 2), (1, 4), (1, 16)];

/// Registrations are stored a quarter of a second after the first of them.
const STORED_WITHIN: Duration = Duration::from_secs(1);
/// How long the master's disk fails at last: hosts have asked again by then.
const FAILS_AT_LAST: Duration = Duration::from_secs(2);

/// What becomes of a manager before its disk works again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It goes on.
    GoesOn,
    /// It is killed, and starts when the disk works.
    Killed,
    /// It is killed and started, while the disk fails.
    Restarted,
}

const ENDS: [End; 4] = [End::GoesOn, End::Killed, End::Killed, End::Restarted];

/// Disks, and what is to happen to them next.
pub struct StoreFaults {
    seed: Seed,
    rng: Rng,
    /// By manager.
    disks: Vec<Arc<MemoryDisk>>,
    troubles: u64,
    next: Time,
    /// What becomes of the manager of the disk that fails, if that was drawn.
    sick: Option<(usize, End)>,
    /// Disks that fail.
    failing: BTreeSet<usize>,
    /// No trouble comes any more.
    is_over: bool,
}

impl StoreFaults {
    fn wait(&mut self, now: Time, (from, to): (u64, u64)) {
        self.next = now + scale(&mut self.rng, from, to);
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        let at = self.rng.below(of.len().max(1) as u64);
        of[usize::try_from(at).unwrap_or(0)]
    }
}

impl World<'_> {
    /// Managers get disks, if they are to.
    pub(super) fn give_disks(&mut self) {
        if !self.schedule.setup.store_faults || self.rehearsal.is_open() {
            return;
        }
        let disks = self
            .managers
            .iter()
            .filter_map(|&id| self.rehearsal.give_disk(id))
            .collect();
        let seed = Seed(self.schedule.seed).child("store");
        let mut faults = StoreFaults {
            seed,
            rng: seed.child("when").rng(),
            disks,
            troubles: 0,
            next: Time::ZERO,
            sick: None,
            failing: BTreeSet::new(),
            is_over: false,
        };
        faults.wait(Time::ZERO, QUIET_US);
        self.store_faults = Some(faults);
    }

    /// No step goes further than to where a disk begins to fail, or ends to.
    pub(super) fn until_store_faults(&self, limit: Time) -> Time {
        let faults = self.store_faults.as_ref().filter(|faults| !faults.is_over);
        faults.map_or(limit, |faults| limit.min(faults.next))
    }

    /// A manager was started. If its disk fails just now, it may not have read what it stored, and has ended.
    pub(super) fn unless_disk_fails(
        &mut self,
        which: usize,
        started: Result<(), RehearsalError>,
    ) -> Result<(), RehearsalError> {
        let faults = self.store_faults.as_ref();
        let is_failing = faults.is_some_and(|faults| faults.failing.contains(&which));
        let why = match started {
            Err(RehearsalError::Disk { why, .. }) if is_failing => why,
            started => return started,
        };
        self.note(&format!("manager {which} cannot start: {why}"));
        self.running[which] = false;
        Ok(())
    }

    /// Calls that disks refused so far.
    pub(super) fn store_failures(&self) -> u64 {
        let disks = self.store_faults.iter().flat_map(|faults| &faults.disks);
        disks.map(|disk| disk.failed()).sum()
    }

    /// A disk begins to fail, or works again.
    pub(super) fn store_faults_due(&mut self) -> Result<(), RehearsalError> {
        let now = self.rehearsal.now();
        let Some(faults) = self
            .store_faults
            .as_mut()
            .filter(|faults| !faults.is_over && faults.next <= now)
        else {
            return Ok(());
        };
        if let Some((which, end)) = faults.sick {
            faults.wait(now, QUIET_US);
            return self.end_trouble(which, end);
        }
        let managers: Vec<usize> = (0..faults.disks.len()).collect();
        let (which, end) = (faults.one_of(&managers), faults.one_of(&ENDS));
        let (numerator, denominator) = faults.one_of(&SHARES);
        faults.sick = Some((which, end));
        faults.wait(now, LASTS_US);
        self.fail(which, Ratio { numerator, denominator })
    }

    /// So many calls of a disk fail from now on.
    fn fail(&mut self, which: usize, share: Ratio) -> Result<(), RehearsalError> {
        let Some(faults) = &mut self.store_faults else {
            return Ok(());
        };
        faults.troubles += 1;
        let trouble = Some((share, faults.troubles));
        self.act(Action::Disk { which, trouble })
    }

    /// A disk fails from now on, or works.
    pub(super) fn set_trouble(&mut self, which: usize, trouble: Option<(Ratio, u64)>) {
        let Some(faults) = &mut self.store_faults else { return };
        match trouble {
            Some(_) => faults.failing.insert(which),
            None => faults.failing.remove(&which),
        };
        let seed = faults.seed.child("trouble");
        if let Some(disk) = faults.disks.get(which) {
            disk.set_trouble(trouble.map(|(share, number)| Trouble {
                share,
                seed: seed.nth(number),
            }));
        }
    }

    /// No trouble of disks is drawn: a resolved schedule names each.
    pub(super) const fn draw_no_store_faults(&mut self) {
        if let Some(faults) = &mut self.store_faults {
            faults.is_over = true;
        }
    }

    fn end_trouble(&mut self, which: usize, end: End) -> Result<(), RehearsalError> {
        let is_killed = end != End::GoesOn && self.running[which];
        if is_killed {
            self.act(Action::Kill(which))?;
        }
        if is_killed && end == End::Restarted {
            self.act(Action::Start(which))?;
        }
        self.act(Action::Disk { which, trouble: None })?;
        if let Some(faults) = &mut self.store_faults {
            faults.sick = None;
        }
        match is_killed && !self.running[which] {
            true => self.act(Action::Start(which)),
            false => Ok(()),
        }
    }

    /// At last the master's disk fails while hosts change their minds, and the master is killed before it works again:
    /// after that nothing else makes up for what it may have forgotten.
    pub(super) fn fail_at_last(&mut self) -> Result<(), RehearsalError> {
        const WHEN: &str = "when the master had been killed on a disk that failed";
        if self.store_faults.is_none() {
            return Ok(());
        }
        let master = self.master();
        // What was registered until now is stored.
        self.run_for(STORED_WITHIN)?;
        let all = Ratio {
            numerator: 1,
            denominator: 1,
        };
        self.fail(master, all)?;
        self.act(Action::HostsChange)?;
        self.run_for(FAILS_AT_LAST)?;
        self.act(Action::Kill(master))?;
        self.cure_disks()?;
        self.act(Action::Start(master))?;
        self.all_well(WHEN)
    }

    /// All disks work from now on.
    pub(super) fn cure_disks(&mut self) -> Result<(), RehearsalError> {
        let Some(faults) = &mut self.store_faults else {
            return Ok(());
        };
        (faults.sick, faults.is_over) = (None, true);
        let mut disks = 0..faults.disks.len();
        disks.try_for_each(|which| self.act(Action::Disk { which, trouble: None }))
    }
}
