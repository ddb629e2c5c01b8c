//! A queue of future events in (time, component, sequence) order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::Time;

/// Who an event is for; breaks ties between events of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentId(pub u32);

/// Events by time, then component, then the component's own sequence; never by insertion order across components.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    sequence: u64,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    at: Time,
    component: ComponentId,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    const fn key(&self) -> (Time, ComponentId, u64) {
        (self.at, self.component, self.sequence)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed: the heap's greatest is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<E> EventQueue<E> {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// Schedules an event.
    pub fn push(&mut self, at: Time, component: ComponentId, event: E) {
        self.sequence += 1;
        self.heap.push(Entry {
            at,
            component,
            sequence: self.sequence,
            event,
        });
    }

    /// When the next event is due.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|e| e.at)
    }

    /// Takes the next event that is due at or before `until`.
    pub fn pop_until(&mut self, until: Time) -> Option<(Time, ComponentId, E)> {
        if self.next_time()? > until {
            return None;
        }
        self.heap.pop().map(|e| (e.at, e.component, e.event))
    }

    /// Number of scheduled events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// True if nothing is scheduled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_time_then_component_then_sequence() {
        let mut queue = EventQueue::new();
        queue.push(Time(5), ComponentId(2), "late");
        queue.push(Time(1), ComponentId(9), "b");
        queue.push(Time(1), ComponentId(3), "a1");
        queue.push(Time(1), ComponentId(3), "a2");
        let mut order = Vec::new();
        while let Some((_, _, event)) = queue.pop_until(Time(4)) {
            order.push(event);
        }
        assert_eq!(order, ["a1", "a2", "b"]);
        assert_eq!(queue.next_time(), Some(Time(5)));
    }
}
