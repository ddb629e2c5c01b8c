//! Says when what hosts have registered is stored, so that a restart forgets none of it.
//!
//! Before a host is told that something is registered, the mark in the state folder that says "all is stored" is
//! removed; it is set again when that is stored. A process that is killed in between does not find the mark when it
//! comes back, and only then asks hosts to register again; without a state folder it always has to. If the mark cannot
//! be removed, hosts are answered BUSY, which makes them ask again.

use std::time::Duration;

use selvedge_sim::Time;

use crate::retry::Retry;

/// How long changes are gathered before they are stored: a join costs no disk of its own.
const GATHER: Duration = Duration::from_millis(250);

/// Where the mark in the state folder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// It says that all is stored, which is right; or it may, after a failure.
    Set,
    /// It says so and must be removed: no registration may be confirmed before.
    Wrong,
    /// It is being removed.
    Removing,
    /// It is not there.
    Removed,
}

/// Notices what changes and when it is to be stored.
#[derive(Debug)]
pub(crate) struct Keeper {
    has_folder: bool,
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
    /// A keeper at the start of a process. If hosts may have registered more than was found, the mark is not there.
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

    /// True if hosts are to be asked to register again.
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

    /// Notes the revision of what hosts have registered.
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

    /// True if the mark is to be removed now: it is wrong, and a failure is not too recent. [`Self::mark_removed`] says
    /// how that ended.
    pub fn begin_removing(&mut self, now: Time) -> bool {
        let begins = self.mark == Mark::Wrong && self.marking.may_try(now);
        if begins {
            self.mark = Mark::Removing;
        }
        begins
    }

    /// Takes whether the mark could be removed.
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

    /// True if no registration may be confirmed: the mark says that all is stored, and it is not.
    pub fn withholds(&self) -> bool {
        self.mark == Mark::Wrong
    }

    /// Returns when something is to be done.
    pub fn next_wake(&self) -> Option<Time> {
        let marking = self.marking.next().filter(|_| self.mark == Mark::Wrong);
        let due = self.due.filter(|_| self.has_folder);
        [marking, due].into_iter().flatten().min()
    }

    /// True if it is time to store; [`Self::saved`] says how that ended.
    pub fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.has_folder && self.due.is_some_and(|due| due <= now);
        if is_due {
            self.due = None;
        }
        is_due
    }

    /// Takes whether a revision could be stored. Returns true if the mark is to be set: that was all there is.
    /// [`Self::mark_set`] says how that ended.
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

    /// Takes whether the mark could be set. If it could not, everything is stored again later.
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

    /// The mark is about to be set. Even if that fails it may be there: it is removed before anything is confirmed.
    const fn begin_setting(&mut self) {
        self.mark = Mark::Set;
        self.marking.worked();
    }

    /// True if something is not stored.
    pub fn is_behind(&self) -> bool {
        self.mark != Mark::Set || self.due.is_some()
    }

    /// The process ends. Returns true if the mark is to be set, after what is [behind](Self::is_behind) is stored.
    pub const fn end(&mut self) -> bool {
        let is_known = self.has_folder && !self.is_lost;
        if is_known {
            self.begin_setting();
        }
        is_known
    }

    /// Returns the failures of storing since its last success, and those of the mark.
    pub const fn retries(&self) -> [Retry; 2] {
        [self.saving, self.marking]
    }
}

#[cfg(test)]
mod tests;
