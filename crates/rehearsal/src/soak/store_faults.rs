//! Disks that fail for a time, and managers that are killed during that time. A separate seed draws them, so that all
//! other events are those of the same schedule without them, except for their effects.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_sim::{Ratio, Rng, Seed, Time};
use selvedge_store::{MemoryDisk, Trouble};

use super::draw::scale;

/// Range of the times between two failures of a disk, and of their length, in microseconds.
const QUIET_US: (u64, u64) = (5_000, 4_000_000);
const LASTS_US: (u64, u64) = (1_000, 16_000_000);
/// Shares of the calls that fail: all of them most often, as on a full disk.
const SHARES: [(u32, u32); 5] = [(1, 1), (1, 1), (1, 2), (1, 4), (1, 16)];

/// What happens to the manager during a failure of its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The manager continues.
    GoesOn,
    /// The manager is killed, and starts when the disk works.
    Killed,
    /// The manager is killed and started while the disk fails.
    Restarted,
}

const ENDS: [End; 4] = [End::GoesOn, End::Killed, End::Killed, End::Restarted];

/// Disks, and the next event of each.
pub struct StoreFaults {
    seed: Seed,
    rng: Rng,
    /// The disks, by manager.
    disks: Vec<Arc<MemoryDisk>>,
    troubles: u64,
    next: Time,
    /// The manager with the failing disk, and what happens to it, if that was drawn.
    sick: Option<(usize, End)>,
    /// Disks that fail.
    failing: BTreeSet<usize>,
    /// True if no more failures are drawn.
    is_over: bool,
}

/// The event of a disk that is due.
#[derive(Clone, Copy, Debug)]
pub enum Due {
    /// The disk of the manager with this number begins to fail, in this share of its calls.
    Fails(usize, Ratio),
    /// The disk of the manager with this number works again.
    Works(usize, End),
}

impl StoreFaults {
    /// Returns the state in which all disks work.
    pub fn new(seed: Seed, disks: Vec<Arc<MemoryDisk>>) -> Self {
        let seed = seed.child("store");
        let mut faults = Self {
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
        faults
    }

    fn wait(&mut self, now: Time, (from, to): (u64, u64)) {
        self.next = now + scale(&mut self.rng, from, to);
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        let at = self.rng.below(of.len().max(1) as u64);
        of[usize::try_from(at).unwrap_or(0)]
    }

    /// Returns the number of disks.
    pub fn disks(&self) -> usize {
        self.disks.len()
    }

    /// Returns when a disk next begins or ceases to fail.
    pub fn next(&self) -> Option<Time> {
        (!self.is_over).then_some(self.next)
    }

    /// True if a disk fails just now.
    pub fn is_failing(&self, which: usize) -> bool {
        self.failing.contains(&which)
    }

    /// Returns the number of calls that disks have refused so far.
    pub fn failures(&self) -> u64 {
        self.disks.iter().map(|disk| disk.failed()).sum()
    }

    /// Returns the event that is due now.
    pub fn due(&mut self, now: Time) -> Option<Due> {
        self.next().filter(|next| *next <= now)?;
        if let Some((which, end)) = self.sick {
            self.wait(now, QUIET_US);
            return Some(Due::Works(which, end));
        }
        let managers: Vec<usize> = (0..self.disks.len()).collect();
        let (which, end) = (self.one_of(&managers), self.one_of(&ENDS));
        let (numerator, denominator) = self.one_of(&SHARES);
        self.sick = Some((which, end));
        self.wait(now, LASTS_US);
        Some(Due::Fails(which, Ratio { numerator, denominator }))
    }

    /// Counts the next failure of a disk, and returns its number.
    pub const fn count(&mut self) -> u64 {
        self.troubles += 1;
        self.troubles
    }

    /// Ends the current failure.
    pub const fn end(&mut self) {
        self.sick = None;
    }

    /// Stops drawing failures.
    pub const fn stop(&mut self) {
        self.is_over = true;
    }

    /// Lets a disk fail from now on; `None`: lets it work again.
    pub fn set_trouble(&mut self, which: usize, trouble: Option<(Ratio, u64)>) {
        match trouble {
            Some(_) => self.failing.insert(which),
            None => self.failing.remove(&which),
        };
        let seed = self.seed.child("trouble");
        if let Some(disk) = self.disks.get(which) {
            disk.set_trouble(trouble.map(|(share, number)| Trouble {
                share,
                seed: seed.nth(number),
            }));
        }
    }
}
