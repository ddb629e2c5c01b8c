//! Keeps what hosts have registered, so that a restart forgets none of it.
//!
//! A mark goes into the state folder before the first answer after a store goes out, and away when what was answered is
//! stored. A process that is killed in between finds the mark when it comes back, and only then asks hosts to register
//! again; without a state folder it always has to.

use std::sync::Arc;
use std::time::Duration;

use selvedge_sa::Registrations;
use selvedge_sim::Time;
use selvedge_store::{StateDir, StoreError};

/// How long changes are gathered before they are stored: a join costs no disk of its own.
const GATHER: Duration = Duration::from_millis(250);

/// What an earlier life left.
pub(crate) struct Found {
    pub(crate) registrations: Registrations,
    /// Hosts may have registered more than that.
    pub(crate) is_lost: bool,
}

impl Found {
    pub(crate) fn read(folder: Option<&StateDir>) -> Result<Self, StoreError> {
        let kept = folder.map(|folder| folder.load_registrations().map(|kept| (folder, kept)));
        Ok(match kept.transpose()? {
            Some((folder, Some((text, is_all)))) => Self {
                registrations: Registrations::from_text(&text).map_err(|error| folder.bad_registrations(error.line))?,
                is_lost: !is_all,
            },
            Some((_, None)) | None => Self {
                registrations: Registrations::default(),
                is_lost: true,
            },
        })
    }
}

/// Notices what changes and when it is to be stored.
pub(crate) struct Keeper {
    folder: Option<Arc<StateDir>>,
    /// The newest revision that was seen.
    seen: u64,
    due: Option<Time>,
    is_marked: bool,
    /// Hosts have registered what is not known here, and have not been asked since.
    is_lost: bool,
}

impl Keeper {
    pub(crate) fn new(folder: Option<Arc<StateDir>>, is_lost: bool) -> Self {
        Self {
            folder,
            seen: 0,
            due: None,
            is_marked: is_lost,
            is_lost,
        }
    }

    /// True if hosts are to be asked to register again.
    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Another manager is master: hosts register there.
    pub(crate) const fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Every host has been asked: what they say from now on is all there is.
    pub(crate) fn hosts_were_asked(&mut self, now: Time) {
        if std::mem::take(&mut self.is_lost) {
            self.due.get_or_insert(now + GATHER);
        }
    }

    /// Something was registered, or was not: called before anybody is answered.
    pub(crate) fn look(&mut self, now: Time, revision: u64) -> Result<(), StoreError> {
        if revision == self.seen {
            return Ok(());
        }
        self.seen = revision;
        self.due.get_or_insert(now + GATHER);
        match &self.folder {
            Some(folder) if !std::mem::replace(&mut self.is_marked, true) => folder.mark_registrations(false),
            _ => Ok(()),
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.due.filter(|_| self.folder.is_some())
    }

    /// True if it is time to store; its number is the revision.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.next_wake().is_some_and(|due| due <= now);
        if is_due {
            self.due = None;
        }
        is_due
    }

    /// What had this revision is stored.
    pub(crate) fn stored(&mut self, revision: u64) -> Result<(), StoreError> {
        let is_all = revision == self.seen && !self.is_lost;
        match &self.folder {
            Some(folder) if is_all && std::mem::take(&mut self.is_marked) => folder.mark_registrations(true),
            _ => Ok(()),
        }
    }

    /// Stores at once, when the process ends.
    pub(crate) fn end(&mut self, registrations: &Registrations) -> Result<(), StoreError> {
        let Some(folder) = self.folder.clone().filter(|_| self.is_marked && !self.is_lost) else {
            return Ok(());
        };
        folder.save_registrations(&registrations.to_text())?;
        self.stored(self.seen)
    }
}
