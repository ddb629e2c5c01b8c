//! Requests that wait for their response: the part of the kernel's umad layer on real hardware.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Requests by transaction id, each with a deadline.
pub(crate) struct Outstanding<T> {
    /// By transaction id: the number of the request, and its index in `places`.
    waiting: BTreeMap<u64, (u64, usize)>,
    /// The requests. Indexes are reused, because a tree that contained the requests would move them.
    places: Vec<Option<T>>,
    free: Vec<usize>,
    /// Deadline, number and id, earliest first. Entries of answered requests stay until they reach the front.
    deadlines: VecDeque<(Instant, u64, u64)>,
    sequence: u64,
}

impl<T> Default for Outstanding<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            places: Vec::new(),
            free: Vec::new(),
            deadlines: VecDeque::new(),
            sequence: 0,
        }
    }
}

impl<T> Outstanding<T> {
    /// Adds a request. An older one with the same id is dropped.
    pub(crate) fn insert(&mut self, transaction: u64, deadline: Instant, request: T) {
        self.take(transaction);
        self.sequence += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.waiting.insert(transaction, (self.sequence, place));
        // Nearly always the latest deadline so far, because nearly all requests have the same time-out.
        let behind = self
            .deadlines
            .iter()
            .rev()
            .take_while(|(at, ..)| *at > deadline)
            .count();
        let at = self.deadlines.len() - behind;
        self.deadlines.insert(at, (deadline, self.sequence, transaction));
        self.places[place] = Some(request);
        self.next_deadline();
    }

    /// Removes and returns the request that `transaction` answers.
    pub(crate) fn take(&mut self, transaction: u64) -> Option<T> {
        let (_, place) = self.waiting.remove(&transaction)?;
        self.free.push(place);
        self.places[place].take()
    }

    /// Removes and returns one request with an expired deadline.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<T> {
        if self.next_deadline()? > now {
            return None;
        }
        let (_, _, transaction) = self.deadlines.pop_front()?;
        self.take(transaction)
    }

    /// Returns the earliest deadline.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(&(deadline, sequence, transaction)) = self.deadlines.front() {
            match self.waiting.get(&transaction) {
                Some(&(current, _)) if current == sequence => return Some(deadline),
                _ => self.deadlines.pop_front(),
            };
        }
        None
    }

    /// Drops every request for which `keep` is false.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        let (places, free) = (&mut self.places, &mut self.free);
        self.waiting.retain(|_, &mut (_, place)| {
            let kept = places[place].as_ref().is_some_and(&mut keep);
            if !kept {
                places[place] = None;
                free.push(place);
            }
            kept
        });
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
