//! A queue of future events in (time, component, sequence) order.
//!
//! It is a radix queue with 64 slots per digit. An event is in the slot of the highest digit (base 64) in which its
//! time differs from the time of the event removed last. So near events are in fine slots and far ones in coarse slots.
//! When a coarse slot is reached, its events move to finer ones: an event 5 µs ahead moves twice before it is removed,
//! however many other events are in the queue. A binary heap of a hundred events needs about four times as long. Events
//! are in one array and linked by index, so no memory is allocated once the queue has had its largest size.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Time;

/// The receiver of an event; breaks ties between events of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentId(pub u32);

/// Events by time, then component, then the component's own sequence; never by insertion order across components.
///
/// It is cheapest to push events at or after the time of the last one removed, as simulations do. An earlier event is
/// sorted correctly too, but then the whole queue is sorted again.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    /// All events, and free slots.
    nodes: Vec<Node<E>>,
    /// First free slot.
    free: u32,
    len: usize,
    sequence: u64,
    /// Time of the event removed last: no event is earlier.
    last: Time,
    /// Events at time `last` that were queued when it was reached, in reverse order.
    ready: Vec<Key>,
    /// Events at time `last` that were added since.
    late: BinaryHeap<Reverse<Key>>,
    /// Bit mask of digits with events.
    digits: u16,
    /// For each digit, bit mask of slots with events.
    occupied: [u64; DIGITS],
    /// First event of each slot.
    slots: Box<[[u32; SLOTS]; DIGITS]>,
}

/// Bits per digit.
const BITS: u32 = 6;
/// Values per digit.
const SLOTS: usize = 1 << BITS;
/// Number of digits of a time: 11 · 6 bits are enough for 64.
const DIGITS: usize = 64_usize.div_ceil(BITS as usize);
/// Stands for no event.
const NIL: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node<E> {
    at: Time,
    sequence: u64,
    component: ComponentId,
    /// Next event in the list, or next free entry.
    next: u32,
    /// `None` in a free entry.
    event: Option<E>,
}

/// Sort key among the events of one time (component, sequence), with the index of the event in the lower bits. One
/// number, because it compares in two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    #[inline]
    const fn new(component: ComponentId, sequence: u64, index: u32) -> Self {
        Self((component.0 as u128) << 96 | (sequence as u128) << 32 | index as u128)
    }

    #[inline]
    const fn index(self) -> u32 {
        self.0 as u32
    }
}

impl<E> EventQueue<E> {
    /// Returns an empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: NIL,
            len: 0,
            sequence: 0,
            last: Time::ZERO,
            ready: Vec::new(),
            late: BinaryHeap::new(),
            digits: 0,
            occupied: [0; DIGITS],
            slots: Box::new([[NIL; SLOTS]; DIGITS]),
        }
    }

    /// Schedules an event.
    #[inline]
    pub fn push(&mut self, at: Time, component: ComponentId, event: E) {
        if at < self.last {
            self.rewind(at);
        }
        self.sequence += 1;
        let node = Node {
            at,
            sequence: self.sequence,
            component,
            next: NIL,
            event: Some(event),
        };
        let index = self.free;
        let index = if let Some(place) = self.nodes.get_mut(index as usize) {
            self.free = place.next;
            *place = node;
            index
        } else {
            self.nodes.push(node);
            // 2^32 events would be 160 GB.
            u32::try_from(self.nodes.len() - 1).unwrap_or(NIL)
        };
        self.len += 1;
        self.link(index);
    }

    /// Returns when the next event is due.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        if !self.ready.is_empty() || !self.late.is_empty() {
            return Some(self.last);
        }
        let (digit, slot) = self.first_slot()?;
        // In the finest digit all events of a slot have the same time; in a coarser one the earliest is searched.
        let mut index = self.slots[digit][slot];
        let mut earliest = Time::MAX;
        while let Some(node) = self.nodes.get(index as usize) {
            earliest = earliest.min(node.at);
            index = if digit == 0 { NIL } else { node.next };
        }
        Some(earliest)
    }

    /// Removes the next event that is due at or before `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Time) -> Option<(Time, ComponentId, E)> {
        while self.ready.is_empty() && self.late.is_empty() {
            let (digit, slot) = self.first_slot()?;
            let start = self.start_of(digit, slot);
            if start > until {
                return None;
            }
            let first = self.unlink_slot(digit, slot);
            self.last = start;
            if digit > 0 {
                self.link_all(first);
            } else if self.nodes[first as usize].next == NIL {
                return self.take(first);
            } else {
                self.sort_instant(first);
            }
        }
        if self.last > until {
            return None;
        }
        let ready = self.ready.last().copied();
        match self.late.peek() {
            Some(&Reverse(late)) if ready.is_none_or(|ready| late < ready) => {
                self.late.pop();
                self.take(late.index())
            }
            _ => {
                self.ready.pop();
                self.take(ready?.index())
            }
        }
    }

    /// Returns the number of scheduled events.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if no event is scheduled.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the earliest slot: every event in a finer digit is before every event in a coarser one.
    #[inline]
    fn first_slot(&self) -> Option<(usize, usize)> {
        if self.digits == 0 {
            return None;
        }
        let digit = self.digits.trailing_zeros() as usize;
        Some((digit, self.occupied[digit].trailing_zeros() as usize))
    }

    /// Returns the earliest time of a slot: `last` with this digit, followed by zeros.
    #[inline]
    const fn start_of(&self, digit: usize, slot: usize) -> Time {
        let shift = BITS * digit as u32;
        let above = match shift + BITS {
            64.. => 0,
            bits => self.last.0 >> bits << bits,
        };
        Time(above | (slot as u64) << shift)
    }

    /// Puts an event into its slot. It is not before `last`.
    #[inline]
    fn link(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        let differs = node.at.0 ^ self.last.0;
        if differs == 0 {
            let key = Key::new(node.component, node.sequence, index);
            self.late.push(Reverse(key));
            return;
        }
        let digit = differs.ilog2() / BITS;
        let slot = (node.at.0 >> (BITS * digit)) as usize % SLOTS;
        let digit = digit as usize;
        let first = &mut self.slots[digit][slot];
        node.next = *first;
        *first = index;
        self.occupied[digit] |= 1 << slot;
        self.digits |= 1 << digit;
    }

    /// Puts the events of a list into their slots.
    fn link_all(&mut self, first: u32) {
        let mut index = first;
        while let Some(node) = self.nodes.get(index as usize) {
            let next = node.next;
            self.link(index);
            index = next;
        }
    }

    /// Makes the events of a list, all at one time, the next ones.
    fn sort_instant(&mut self, first: u32) {
        let mut index = first;
        while let Some(node) = self.nodes.get(index as usize) {
            self.ready.push(Key::new(node.component, node.sequence, index));
            index = node.next;
        }
        self.ready.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Empties a slot and returns its list.
    #[inline]
    fn unlink_slot(&mut self, digit: usize, slot: usize) -> u32 {
        self.occupied[digit] &= !(1 << slot);
        if self.occupied[digit] == 0 {
            self.digits &= !(1 << digit);
        }
        core::mem::replace(&mut self.slots[digit][slot], NIL)
    }

    #[inline]
    fn take(&mut self, index: u32) -> Option<(Time, ComponentId, E)> {
        let node = &mut self.nodes[index as usize];
        let event = node.event.take()?;
        let taken = (node.at, node.component, event);
        node.next = self.free;
        self.free = index;
        self.len -= 1;
        Some(taken)
    }

    /// Sorts all events again for an event before `last`.
    #[cold]
    fn rewind(&mut self, at: Time) {
        let mut chains: Vec<u32> = Vec::new();
        while let Some((digit, slot)) = self.first_slot() {
            chains.push(self.unlink_slot(digit, slot));
        }
        let ready = core::mem::take(&mut self.ready);
        let late = core::mem::take(&mut self.late);
        self.last = at;
        for first in chains {
            self.link_all(first);
        }
        for key in ready.into_iter().chain(late.into_iter().map(|Reverse(key)| key)) {
            self.link(key.index());
        }
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Seed;

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

    /// Pushes and takes at random, near and far, ahead and behind, and compares with a sorted map.
    #[test]
    fn it_is_a_sorted_map() {
        for seed in 0..200 {
            let mut rng = Seed(seed).rng();
            let mut queue = EventQueue::new();
            let mut reference = BTreeMap::new();
            let mut now = Time(rng.below(1 << 40));
            let mut sequence = 0_u64;
            for _ in 0..500 {
                if rng.below(2) == 0 {
                    let span = 1_u64 << rng.below(64);
                    let at = match rng.below(8) {
                        0 => Time(rng.below(now.0 + 1)),
                        1 => Time::MAX,
                        2 => now,
                        _ => Time(now.0.saturating_add(rng.below(span))),
                    };
                    let component = ComponentId(rng.below(3) as u32);
                    sequence += 1;
                    queue.push(at, component, sequence);
                    reference.insert((at, component, sequence), sequence);
                } else {
                    let span = 1_u64 << rng.below(64);
                    let until = Time(now.0.saturating_add(rng.below(span)));
                    let want = reference.first_key_value().map(|(key, _)| *key);
                    assert_eq!(queue.next_time(), want.map(|(at, _, _)| at));
                    let want = want.filter(|(at, _, _)| *at <= until);
                    assert_eq!(queue.pop_until(until), want);
                    if let Some(key) = want {
                        reference.remove(&key);
                        now = now.max(key.0);
                    }
                }
                assert_eq!(queue.len(), reference.len());
                assert_eq!(queue.is_empty(), reference.is_empty());
            }
        }
    }

    #[test]
    fn places_are_used_again() {
        let mut queue = EventQueue::new();
        for round in 0..1_000 {
            for component in 0..10 {
                queue.push(Time(round * 100 + 7 * u64::from(component)), ComponentId(component), ());
            }
            while queue.pop_until(Time(round * 100 + 99)).is_some() {}
        }
        assert!(queue.nodes.len() <= 10);
    }
}
