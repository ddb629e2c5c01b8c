//! The state that main thread and asynchronous thread share (Figure 3 of the paper): what is known of each queue pair.

use std::collections::BTreeMap;

use selvedge_hca::{Path, PathState, Ps, Qp};

use crate::process::{Module, Peer};

/// Path migration status of a queue pair, as far as events have shown it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// One path; nothing is loaded.
    #[default]
    Migrated,
    /// REARM was requested, and no ARMED event has come.
    Loading,
    /// The alternate path is loaded at both ends.
    Armed,
    /// MIGRATED was requested in ARMED, and neither PATH_MIG nor PATH_MIG_ERR has come.
    Migrating,
}

/// What is known of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The process at the other end.
    pub peer: Peer,
    /// Status.
    pub status: Status,
    /// When the status was set.
    pub since: Ps,
    /// The path that was specified last and is not in use yet.
    pub alternate: Option<Path>,
    /// ARMED events.
    pub armed: u32,
    /// PATH_MIG events.
    pub migrations: u32,
    /// PATH_MIG_ERR events.
    pub refusals: u32,
    /// True if PATH_MIG_ERR has shown that the present alternate path is dead.
    pub dead: bool,
    /// True once REARM was requested while events may have been under way: events are then checked by `query_qp`.
    pub(crate) uncertain: bool,
    /// The path that waits for RTS.
    pub(crate) held: Option<Path>,
    /// True if the loading request waits for RTS.
    pub(crate) load_held: bool,
}

/// What happens to the entry of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) enum In {
    /// A module's call has returned without an error.
    Called(Module, Option<Path>),
    /// An ARMED event; with what `query_qp` has answered, if the entry was uncertain.
    Armed(Option<PathState>),
    /// A PATH_MIG event, likewise.
    Migrated(Option<PathState>),
    /// A PATH_MIG_ERR event, likewise.
    Refused(Option<PathState>),
}

/// Entries of all queue pairs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    entries: BTreeMap<Qp, Entry>,
}

impl Shared {
    pub fn add(&mut self, now: Ps, peer: Peer, qp: Qp) {
        self.entries.insert(
            qp,
            Entry {
                peer,
                status: Status::Migrated,
                since: now,
                alternate: None,
                armed: 0,
                migrations: 0,
                refusals: 0,
                dead: false,
                uncertain: false,
                held: None,
                load_held: false,
            },
        );
    }

    pub fn get(&self, qp: Qp) -> Option<&Entry> {
        self.entries.get(&qp)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Qp, &Entry)> {
        self.entries.iter().map(|(&qp, entry)| (qp, entry))
    }

    /// Holds back what cannot be carried out before RTS.
    pub fn hold(&mut self, qp: Qp, path: Option<Path>, load: bool) {
        if let Some(entry) = self.entries.get_mut(&qp) {
            entry.held = path.or(entry.held);
            entry.load_held |= load;
        }
    }

    /// Takes what was held back.
    pub fn release(&mut self, qp: Qp) {
        if let Some(entry) = self.entries.get_mut(&qp) {
            (entry.held, entry.load_held) = (None, false);
        }
    }

    /// The only way in for what modules and events change.
    pub fn handle(&mut self, now: Ps, qp: Qp, input: In) {
        let Some(entry) = self.entries.get_mut(&qp) else { return };
        let before = entry.status;
        let (next, checked) = match input {
            In::Called(module, path) => {
                if let Some(path) = path {
                    (entry.alternate, entry.dead) = (Some(path), false);
                }
                match module {
                    Module::Specify => (before, None),
                    Module::Load | Module::SpecifyAndLoad => {
                        entry.uncertain |= before != Status::Migrated;
                        (Status::Loading, None)
                    }
                    Module::Migrate => (Status::Migrating, None),
                }
            }
            In::Armed(checked) => {
                entry.armed += 1;
                (Status::Armed, checked)
            }
            In::Migrated(checked) => {
                entry.migrations += 1;
                if checked.is_none() {
                    entry.alternate = None;
                }
                (Status::Migrated, checked)
            }
            In::Refused(checked) => {
                entry.refusals += 1;
                entry.dead = true;
                (Status::Armed, checked)
            }
        };
        // An event may be older than the last request; the HCA's answer counts then.
        entry.status = match checked {
            None => next,
            Some(PathState::Armed) => Status::Armed,
            Some(PathState::Rearm) => Status::Loading,
            Some(PathState::Migrated) => Status::Migrated,
        };
        if entry.status != before || entry.status == next {
            entry.since = now;
        }
    }
}
