//! Handling of disks that fail for a time in a schedule.

use std::time::Duration;

use selvedge_sim::{Ratio, Seed, Time};

use super::action::Action;
use super::store_faults::{Due, End, StoreFaults};
use super::world::World;
use crate::RehearsalError;

/// Time within which registrations are stored: a quarter of a second after the first of them, with a margin.
const STORED_WITHIN: Duration = Duration::from_secs(1);
/// How long the master's disk fails at the end of a run; hosts have sent their requests again by then.
const FAILS_AT_LAST: Duration = Duration::from_secs(2);

impl World<'_> {
    /// Gives managers disks, if the setup has them.
    pub(super) fn give_disks(&mut self) {
        if !self.schedule.setup.store_faults || self.rehearsal.is_open() {
            return;
        }
        let disks = self
            .managers
            .ids()
            .iter()
            .filter_map(|&id| self.rehearsal.give_disk(id))
            .collect();
        let seed = Seed(self.schedule.seed);
        self.store_faults = Some(StoreFaults::new(seed, disks));
    }

    /// Limits a step to when a disk next begins or ends to fail.
    pub(super) fn until_store_faults(&self, limit: Time) -> Time {
        let next = self.store_faults.as_ref().and_then(StoreFaults::next);
        next.map_or(limit, |next| limit.min(next))
    }

    /// Handles the result of starting a manager. If its disk fails at that moment, the manager may be unable to read
    /// its stored state, and may end. This is no error of the run.
    pub(super) fn unless_disk_fails(
        &mut self,
        which: usize,
        started: Result<(), RehearsalError>,
    ) -> Result<(), RehearsalError> {
        let faults = self.store_faults.as_ref();
        let is_failing = faults.is_some_and(|faults| faults.is_failing(which));
        let why = match started {
            Err(RehearsalError::Disk { why, .. }) if is_failing => why,
            started => return started,
        };
        self.note(&format!("manager {which} cannot start: {why}"));
        self.managers.set_running(which, false);
        Ok(())
    }

    /// Returns the number of calls that disks have refused so far.
    pub(super) fn store_failures(&self) -> u64 {
        self.store_faults.as_ref().map_or(0, StoreFaults::failures)
    }

    /// Lets disks begin to fail or work again, when that is due.
    pub(super) fn store_faults_due(&mut self) -> Result<(), RehearsalError> {
        let now = self.rehearsal.now();
        match self.store_faults.as_mut().and_then(|faults| faults.due(now)) {
            Some(Due::Fails(which, share)) => self.fail(which, share),
            Some(Due::Works(which, end)) => self.end_trouble(which, end),
            None => Ok(()),
        }
    }

    /// Lets this share of a disk's calls fail from now on.
    fn fail(&mut self, which: usize, share: Ratio) -> Result<(), RehearsalError> {
        let Some(faults) = &mut self.store_faults else {
            return Ok(());
        };
        let trouble = Some((share, faults.count()));
        self.act(Action::Disk { which, trouble })
    }

    /// Lets a disk fail from now on, or work again.
    pub(super) fn set_trouble(&mut self, which: usize, trouble: Option<(Ratio, u64)>) {
        if let Some(faults) = &mut self.store_faults {
            faults.set_trouble(which, trouble);
        }
    }

    /// Stops drawing failures of disks, because a resolved schedule names each.
    pub(super) const fn draw_no_store_faults(&mut self) {
        if let Some(faults) = &mut self.store_faults {
            faults.stop();
        }
    }

    fn end_trouble(&mut self, which: usize, end: End) -> Result<(), RehearsalError> {
        let is_killed = end != End::GoesOn && self.managers.is_running(which);
        if is_killed {
            self.act(Action::Kill(which))?;
        }
        if is_killed && end == End::Restarted {
            self.act(Action::Start(which))?;
        }
        self.act(Action::Disk { which, trouble: None })?;
        if let Some(faults) = &mut self.store_faults {
            faults.end();
        }
        match is_killed && !self.managers.is_running(which) {
            true => self.act(Action::Start(which)),
            false => Ok(()),
        }
    }

    /// Does the last part of a run with failing disks: the master's disk fails while hosts change their registrations,
    /// and the master is killed before the disk works again. Because this comes last, no later event can hide that the
    /// manager lost a registration.
    pub(super) fn fail_at_last(&mut self) -> Result<(), RehearsalError> {
        const WHEN: &str = "when the master had been killed on a disk that failed";
        if self.store_faults.is_none() {
            return Ok(());
        }
        let master = self.master();
        // All registrations until now are stored.
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

    /// Lets all disks work from now on.
    pub(super) fn cure_disks(&mut self) -> Result<(), RehearsalError> {
        let Some(faults) = &mut self.store_faults else {
            return Ok(());
        };
        faults.end();
        faults.stop();
        let mut disks = 0..faults.disks();
        disks.try_for_each(|which| self.act(Action::Disk { which, trouble: None }))
    }
}
