//! A manager's state on its way to the disk.

use std::sync::Arc;

use selvedge_sim::Time;
use selvedge_sm::PersistentState;

use crate::retry::Retry;

/// What a manager wants stored and is not yet. Only the newest state is stored, one save at a time, and a save that
/// failed is tried again until it works.
#[derive(Clone, Debug, Default)]
pub struct Saver {
    /// The newest, with the number of its request.
    wanted: Option<(u64, Arc<PersistentState>)>,
    is_saving: bool,
    retry: Retry,
}

impl Saver {
    /// The manager wants this stored, in place of what it wanted before.
    pub fn want(&mut self, id: u64, state: PersistentState) {
        self.wanted = Some((id, Arc::new(state)));
        // What is newer may fail otherwise, or not.
        self.retry.next_at_once();
    }

    /// Returns what is to be saved now, with its number; [`Self::saved`] says how that ended.
    pub fn begin(&mut self, now: Time) -> Option<(u64, Arc<PersistentState>)> {
        let may_begin = !self.is_saving && self.retry.may_try(now);
        let next = self.wanted.clone().filter(|_| may_begin);
        self.is_saving |= next.is_some();
        next
    }

    /// A save has ended.
    pub fn saved(&mut self, now: Time, id: u64, has_worked: bool) {
        self.is_saving = false;
        if has_worked {
            self.retry.worked();
            self.wanted.take_if(|(wanted, _)| *wanted == id);
        } else {
            self.retry.failed(now);
        }
    }

    /// Returns when [`Self::begin`] is to be called.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let waits = self.wanted.is_some() && !self.is_saving;
        self.retry.next().filter(|_| waits)
    }

    /// The failures since the last success.
    #[must_use]
    pub const fn retry(&self) -> &Retry {
        &self.retry
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failed_save_is_tried_again_and_only_the_newest_state_is_stored() {
        let mut saver = Saver::default();
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let begun = |saver: &mut Saver, ms| saver.begin(at(ms)).map(|(id, _)| id);
        assert_eq!(begun(&mut saver, 0), None);
        saver.want(1, PersistentState::default());
        assert_eq!(begun(&mut saver, 0), Some(1));
        saver.want(2, PersistentState::default());
        saver.want(3, PersistentState::default());
        assert_eq!(begun(&mut saver, 0), None, "one at a time");
        saver.saved(at(1), 1, true);
        assert_eq!(begun(&mut saver, 1), Some(3));
        saver.saved(at(2), 3, false);
        assert_eq!((begun(&mut saver, 2), saver.next_wake()), (None, Some(at(252))));
        assert_eq!(begun(&mut saver, 252), Some(3));
        saver.saved(at(253), 3, false);
        assert_eq!((saver.next_wake(), saver.retry().failures()), (Some(at(753)), 2));
        // What is wanted anew is tried at once.
        saver.want(4, PersistentState::default());
        assert_eq!(begun(&mut saver, 254), Some(4));
        saver.saved(at(255), 4, true);
        assert_eq!((begun(&mut saver, 9_999), saver.next_wake()), (None, None));
        assert_eq!(saver.retry(), &Retry::default());
    }
}
