//! Records which managers sent the Sets that agents executed, and when. A manager that has not swept since does not
//! know the Sets of another manager.

use std::collections::BTreeMap;

use selvedge_sim::Time;

use crate::manager::ManagerId;

/// Managers with Sets that agents executed.
#[derive(Clone, Debug, Default)]
pub(in crate::checkers) struct Setters {
    /// When an agent last executed a Set of each manager.
    last_set: BTreeMap<ManagerId, Time>,
    /// The manager that sent the last Set which an agent executed, and the time when this last became another manager.
    master: Option<ManagerId>,
    master_changed: Option<Time>,
    /// When an agent last executed a Set that an earlier process of its manager had sent.
    bequeathed: Option<Time>,
}

impl Setters {
    /// Records that an agent executed a Set of a manager.
    pub fn note(&mut self, now: Time, manager: ManagerId) {
        self.last_set.insert(manager, now);
        let before = self.master.replace(manager);
        if before.is_some_and(|before| before != manager) {
            self.master_changed = Some(now);
        }
    }

    /// Records that an agent executed a Set that an earlier process of its manager had sent.
    pub const fn note_bequeathed(&mut self, now: Time) {
        self.bequeathed = Some(now);
    }

    /// Returns when an agent last executed a Set of another manager.
    pub fn last_of_others(&self, manager: ManagerId) -> Option<Time> {
        let others = self.last_set.iter().filter(|(id, _)| **id != manager);
        others.map(|(_, at)| *at).max()
    }

    /// Returns when an agent last executed a Set of an earlier process of a manager.
    pub const fn bequeathed(&self) -> Option<Time> {
        self.bequeathed
    }

    /// Returns when the sender of the executed Sets last became another manager.
    pub const fn master_changed(&self) -> Option<Time> {
        self.master_changed
    }
}
