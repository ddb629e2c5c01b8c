//! Decides when a manager's state is saved: one save at a time, the newest state only.

use std::sync::Arc;

use selvedge_sim::Time;

use crate::retry::Retry;

/// The state that the manager wants stored and that is not stored yet. Only the newest state is stored, one save at
/// a time, and a failed save is retried until it works.
#[derive(Clone, Debug)]
pub struct Saver<T> {
    /// The newest state, with the number of its store request.
    wanted: Option<(u64, Arc<T>)>,
    is_saving: bool,
    retry: Retry,
}

impl<T> Default for Saver<T> {
    fn default() -> Self {
        Self {
            wanted: None,
            is_saving: false,
            retry: Retry::default(),
        }
    }
}

impl<T> Saver<T> {
    /// Requests that `state` be stored, instead of the previous state.
    pub fn want(&mut self, id: u64, state: Arc<T>) {
        self.wanted = Some((id, state));
        // The newer state need not fail for the same reason.
        self.retry.next_at_once();
    }

    /// Returns the state to save now, with its request number. The caller reports the result to [`Self::saved`].
    pub fn begin(&mut self, now: Time) -> Option<(u64, Arc<T>)> {
        let may_begin = !self.is_saving && self.retry.may_try(now);
        let next = self.wanted.clone().filter(|_| may_begin);
        self.is_saving |= next.is_some();
        next
    }

    /// Records the result of a save.
    pub fn saved(&mut self, now: Time, id: u64, has_worked: bool) {
        self.is_saving = false;
        if has_worked {
            self.retry.worked();
            self.wanted.take_if(|(wanted, _)| *wanted == id);
        } else {
            self.retry.failed(now);
        }
    }

    /// Returns when [`Self::begin`] must be called.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let waits = self.wanted.is_some() && !self.is_saving;
        self.retry.next().filter(|_| waits)
    }

    /// Returns the failures since the last success.
    #[must_use]
    pub const fn retry(&self) -> &Retry {
        &self.retry
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use selvedge_sm::PersistentState;

    use super::*;

    #[test]
    fn a_failed_save_is_tried_again_and_only_the_newest_state_is_stored() {
        let mut saver: Saver<PersistentState> = Saver::default();
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let begun = |saver: &mut Saver<PersistentState>, ms| saver.begin(at(ms)).map(|(id, _)| id);
        assert_eq!(begun(&mut saver, 0), None);
        saver.want(1, Arc::default());
        assert_eq!(begun(&mut saver, 0), Some(1));
        saver.want(2, Arc::default());
        saver.want(3, Arc::default());
        assert_eq!(begun(&mut saver, 0), None, "one at a time");
        saver.saved(at(1), 1, true);
        assert_eq!(begun(&mut saver, 1), Some(3));
        saver.saved(at(2), 3, false);
        assert_eq!((begun(&mut saver, 2), saver.next_wake()), (None, Some(at(252))));
        assert_eq!(begun(&mut saver, 252), Some(3));
        saver.saved(at(253), 3, false);
        assert_eq!((saver.next_wake(), saver.retry().failures()), (Some(at(753)), 2));
        // A new request is tried at once.
        saver.want(4, Arc::default());
        assert_eq!(begun(&mut saver, 254), Some(4));
        saver.saved(at(255), 4, true);
        assert_eq!((begun(&mut saver, 9_999), saver.next_wake()), (None, None));
        assert_eq!(saver.retry(), &Retry::default());
    }
}
