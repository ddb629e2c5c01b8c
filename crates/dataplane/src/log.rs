//! Records the events of a simulation, to measure the event queue alone.

use crate::calendar::{Calendar, Event};
use crate::subnet::SLOT_BITS;

/// Events in order of scheduling, and for each event removed the number of events scheduled before.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    pub(crate) scheduled: Vec<Event>,
    pub(crate) before: Vec<u32>,
    /// Largest number of events that are recorded; later ones are ignored.
    pub(crate) most: usize,
}

impl EventLog {
    /// Returns the number of events removed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.before.len()
    }

    /// True if nothing was recorded.
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

    /// Schedules and removes the same events again, and does nothing else. Returns a sum of their times, so that the
    /// compiler cannot remove the work.
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

    /// Returns the same sum computed from the recorded events, if they were removed in order.
    #[must_use]
    pub fn times(&self) -> u64 {
        // Every event is scheduled once; those that were not removed are the latest.
        let mut times: Vec<u64> = self.scheduled.iter().map(|event| event.at).collect();
        times.sort_unstable();
        times[..self.before.len().min(times.len())]
            .iter()
            .fold(0, |sum, &at| sum.wrapping_add(at))
    }
}
