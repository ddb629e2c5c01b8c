//! Decides when the registrations of hosts are stored, so that a restart loses none of them.
//!
//! A mark in the state folder means "all registrations are stored". It is removed before a host gets the answer that a
//! registration succeeded, and set again when the registration is stored.
//!
//! If the process is killed in between, the next process finds no mark and asks hosts to register again. Without a
//! state folder it always asks. If the mark cannot be removed, hosts are answered BUSY and repeat their request.

use std::time::Duration;

use selvedge_sim::Time;

use crate::retry::Retry;

/// How long changes are collected before they are stored, so that a single join causes no disk write of its own.
const GATHER: Duration = Duration::from_millis(250);

/// State of the mark in the state folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// The mark is present, and all registrations are stored; after a failure, the mark may be missing.
    Set,
    /// The mark is present but wrong: it must be removed before any registration is confirmed.
    Wrong,
    /// The driver is removing the mark.
    Removing,
    /// The mark is removed.
    Removed,
}

/// Tracks changes of registrations and decides when they are stored.
#[derive(Debug)]
pub(crate) struct Keeper {
    has_folder: bool,
    /// The newest revision seen.
    seen: u64,
    due: Option<Time>,
    mark: Mark,
    marking: Retry,
    saving: Retry,
    /// True if hosts may have registered more than is known here and have not been asked to register again since.
    is_lost: bool,
}

impl Keeper {
    /// Returns a keeper for a process that starts. If `is_lost`, the mark is known to be removed.
    pub fn new(has_folder: bool, is_lost: bool) -> Self {
        Self {
            has_folder,
            seen: 0,
            due: None,
            mark: if is_lost { Mark::Removed } else { Mark::Set },
            marking: Retry::default(),
            saving: Retry::default(),
            is_lost,
        }
    }

    /// True if registrations are stored.
    pub const fn has_folder(&self) -> bool {
        self.has_folder
    }

    /// True if hosts are to be asked to register again.
    pub const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Records that another manager is master, so that hosts register there.
    pub const fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Records that every host has been asked: from now on the known registrations are complete.
    pub fn hosts_were_asked(&mut self, now: Time) {
        if std::mem::take(&mut self.is_lost) {
            self.due.get_or_insert(now + GATHER);
        }
    }

    /// Records the revision of the registrations. If it is new, the mark is no longer true.
    pub fn changed(&mut self, now: Time, revision: u64) {
        if revision == self.seen {
            return;
        }
        self.seen = revision;
        let due = self.saving.next().map_or(now + GATHER, |next| next.max(now + GATHER));
        self.due.get_or_insert(due);
        if self.mark == Mark::Set && self.has_folder {
            self.mark = Mark::Wrong;
        }
    }

    /// True if the mark "all registrations are stored" must be removed now: it is no longer true, and the wait after a
    /// failed attempt is over. The caller reports the result to [`Self::mark_removed`].
    pub fn begin_removing(&mut self, now: Time) -> bool {
        let begins = self.mark == Mark::Wrong && self.marking.may_try(now);
        if begins {
            self.mark = Mark::Removing;
        }
        begins
    }

    /// Records the result of removing the mark. After a failure, schedules another attempt.
    pub fn mark_removed(&mut self, now: Time, is_done: bool) {
        if self.mark != Mark::Removing {
            return;
        }
        if is_done {
            self.mark = Mark::Removed;
            self.marking.worked();
        } else {
            self.mark = Mark::Wrong;
            self.marking.failed(now);
        }
    }

    /// True while answers wait for [`Self::mark_removed`].
    pub fn is_removing(&self) -> bool {
        self.mark == Mark::Removing
    }

    /// True if no registration may be confirmed: the mark is present but wrong.
    pub fn withholds(&self) -> bool {
        self.mark == Mark::Wrong
    }

    /// Returns when the keeper must be called next.
    pub fn next_wake(&self) -> Option<Time> {
        let marking = self.marking.next().filter(|_| self.mark == Mark::Wrong);
        let due = self.due.filter(|_| self.has_folder);
        [marking, due].into_iter().flatten().min()
    }

    /// True if it is time to store. The caller reports the result to [`Self::saved`].
    pub fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.has_folder && self.due.is_some_and(|due| due <= now);
        if is_due {
            self.due = None;
        }
        is_due
    }

    /// Records the result of storing `revision`. After a failure, schedules another attempt. Returns true if all
    /// registrations are stored now: the caller sets the mark and reports the result to [`Self::mark_set`].
    pub fn saved(&mut self, now: Time, revision: u64, is_stored: bool) -> bool {
        if !is_stored {
            self.save_failed(now);
            return false;
        }
        let is_all = revision == self.seen && !self.is_lost && self.mark != Mark::Removing;
        if is_all {
            self.begin_setting();
        } else {
            self.saving.worked();
        }
        is_all
    }

    /// Records the result of setting the mark. After a failure, everything is stored again later.
    pub fn mark_set(&mut self, now: Time, is_done: bool) {
        if is_done {
            self.saving.worked();
        } else {
            self.save_failed(now);
        }
    }

    fn save_failed(&mut self, now: Time) {
        self.saving.failed(now);
        self.due = self.saving.next();
    }

    /// Assumes from now on that the mark is present. Even if setting it fails, it may be present; so it is removed
    /// before anything else is confirmed.
    const fn begin_setting(&mut self) {
        self.mark = Mark::Set;
        self.marking.worked();
    }

    /// True if some state is not stored yet.
    pub fn is_behind(&self) -> bool {
        self.mark != Mark::Set || self.due.is_some()
    }

    /// Records the end of the process. Returns true if the caller must set the mark "all registrations are stored",
    /// after it has stored what is not stored yet ([`Self::is_behind`]).
    pub const fn end(&mut self) -> bool {
        let is_known = self.has_folder && !self.is_lost;
        if is_known {
            self.begin_setting();
        }
        is_known
    }

    /// Returns the failed attempts since the last success: to store registrations, and to write or remove the mark.
    pub const fn retries(&self) -> [Retry; 2] {
        [self.saving, self.marking]
    }
}

#[cfg(test)]
mod tests;
