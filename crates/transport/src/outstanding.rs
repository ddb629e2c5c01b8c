//! Requests that wait for their answer: what the kernel's umad layer keeps on real hardware.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Instant;

/// Requests by transaction id, each with a deadline.
///
/// Deadlines of answered requests stay in the heap until they come to its top, so it is bounded by the requests of
/// one time-out period.
pub(crate) struct Outstanding<T> {
    /// Boxed: a tree moves its values about, and a request is 270 bytes.
    waiting: BTreeMap<u64, (u64, Box<T>)>,
    deadlines: BinaryHeap<Reverse<(Instant, u64, u64)>>,
    sequence: u64,
}

impl<T> Default for Outstanding<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            deadlines: BinaryHeap::new(),
            sequence: 0,
        }
    }
}

impl<T> Outstanding<T> {
    /// Adds a request; an older one with the same id is forgotten.
    pub(crate) fn insert(&mut self, transaction: u64, deadline: Instant, request: T) {
        self.sequence += 1;
        self.waiting.insert(transaction, (self.sequence, Box::new(request)));
        self.deadlines.push(Reverse((deadline, self.sequence, transaction)));
    }

    /// Removes and returns the request that `transaction` answers.
    pub(crate) fn take(&mut self, transaction: u64) -> Option<T> {
        self.waiting.remove(&transaction).map(|(_, request)| *request)
    }

    /// Removes and returns one request whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<T> {
        if self.next_deadline()? > now {
            return None;
        }
        let Reverse((_, _, transaction)) = self.deadlines.pop()?;
        self.take(transaction)
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(&Reverse((deadline, sequence, transaction))) = self.deadlines.peek() {
            match self.waiting.get(&transaction) {
                Some(&(current, _)) if current == sequence => return Some(deadline),
                _ => self.deadlines.pop(),
            };
        }
        None
    }

    /// Forgets every request that `keep` refuses.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.waiting.retain(|_, (_, request)| keep(request));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn answered_requests_never_expire() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut requests = Outstanding::default();
        requests.insert(1, at(10), "first");
        requests.insert(2, at(20), "second");
        assert_eq!(requests.take(1), Some("first"));
        assert_eq!(requests.take(1), None);
        assert_eq!(requests.next_deadline(), Some(at(20)));
        assert_eq!(requests.expire(at(19)), None);
        assert_eq!(requests.expire(at(20)), Some("second"));
        assert_eq!(requests.next_deadline(), None);
    }

    #[test]
    fn a_reused_id_has_the_new_deadline() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut requests = Outstanding::default();
        requests.insert(1, at(10), "old");
        requests.insert(1, at(30), "new");
        assert_eq!(requests.expire(at(10)), None);
        assert_eq!(requests.expire(at(30)), Some("new"));
    }

    #[test]
    fn forgotten_requests_leave_no_deadline() {
        let now = Instant::now();
        let mut requests = Outstanding::default();
        requests.insert(1, now, 7);
        requests.retain(|&slot| slot != 7);
        assert_eq!(requests.next_deadline(), None);
    }
}
