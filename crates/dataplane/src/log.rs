//! The events of a simulation, to put them through the bare queue.

use crate::calendar::{Calendar, Event};
use crate::state::SLOT_BITS;

/// Events in the order in which they were scheduled, and how many had been when each was taken.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    pub(crate) scheduled: Vec<Event>,
    pub(crate) before: Vec<u32>,
    /// Events to note; the rest is not.
    pub(crate) most: usize,
}

impl EventLog {
    /// Number of events taken.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.before.len()
    }

    /// True if nothing was noted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.before.is_empty()
    }

    #[inline]
    pub(crate) fn schedule(&mut self, event: Event) {
        if self.before.len() < self.most {
            self.scheduled.push(event);
        }
    }

    #[inline]
    pub(crate) fn take(&mut self) {
        if self.before.len() < self.most {
            self.before.push(self.scheduled.len() as u32);
        }
    }

    /// Schedules and takes the same events again, and does nothing else. Returns a sum of their times, so that nothing
    /// can be left out.
    #[must_use]
    pub fn replay(&self) -> u64 {
        let mut queue = Calendar::new(SLOT_BITS);
        let (mut next, mut sum) = (0, 0_u64);
        for &before in &self.before {
            for &event in &self.scheduled[next..before as usize] {
                queue.push(event);
            }
            next = before as usize;
            sum = sum.wrapping_add(queue.pop_until(u64::MAX).map_or(0, |event| event.at));
        }
        sum
    }

    /// The same sum from the events as they were noted, if no event was taken out of order.
    #[must_use]
    pub fn times(&self) -> u64 {
        // Every event is scheduled once; those that were not taken are the latest.
        let mut times: Vec<u64> = self.scheduled.iter().map(|event| event.at).collect();
        times.sort_unstable();
        times[..self.before.len().min(times.len())]
            .iter()
            .fold(0, |sum, &at| sum.wrapping_add(at))
    }
}
