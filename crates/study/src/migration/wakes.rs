//! When each of many is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use selvedge_dataplane::Ps;

/// One time for each number; a later call replaces it.
#[derive(Clone, Debug, Default)]
pub(super) struct Wakes {
    heap: BinaryHeap<Reverse<(Ps, u32)>>,
    /// By number: the time that counts.
    at: Vec<Option<Ps>>,
}

impl Wakes {
    pub(super) fn set(&mut self, number: u32, at: Option<Ps>) {
        let place = number as usize;
        if self.at.len() <= place {
            self.at.resize(place + 1, None);
        }
        let before = std::mem::replace(&mut self.at[place], at);
        if let Some(at) = at.filter(|_| at != before) {
            self.heap.push(Reverse((at, number)));
        }
    }

    /// Returns a time at or before which nothing is due.
    pub(super) fn next_at(&mut self) -> Option<Ps> {
        while let Some(&Reverse((at, number))) = self.heap.peek() {
            if self.at[number as usize] == Some(at) {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    /// Removes and returns a number that is due.
    pub(super) fn take_due(&mut self, now: Ps) -> Option<u32> {
        self.next_at().filter(|at| *at <= now)?;
        let Reverse((_, number)) = self.heap.pop()?;
        self.at[number as usize] = None;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_time_counts() {
        let mut wakes = Wakes::default();
        wakes.set(3, Some(50));
        wakes.set(0, Some(20));
        wakes.set(3, Some(10));
        wakes.set(3, Some(30));
        assert_eq!((wakes.next_at(), wakes.take_due(19)), (Some(20), None));
        wakes.set(0, None);
        assert_eq!(wakes.next_at(), Some(30));
        assert_eq!((wakes.take_due(60), wakes.take_due(60)), (Some(3), None));
    }
}
