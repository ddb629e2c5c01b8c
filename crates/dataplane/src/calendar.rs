//! The queue of future events, in (time, component, sequence) order.
//!
//! `sim::EventQueue` has the same order for events of any type. This one is made for packets: an event is 16 bytes,
//! and a slot of the finest digit is some hundred picoseconds wide, so that it holds a few events, which are sorted
//! when it is reached. Most events are linked once and taken once; those further away than a window (4,096 slots) lie
//! in coarser slots, 4,096 times as wide, and are linked again when their window comes.

use crate::units::Ps;

/// Something that happens at an instant to a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Ps,
    /// To whom: the smaller one is first at the same instant.
    pub component: u32,
    /// What: the caller's affair.
    pub payload: u32,
}

/// Bits of a digit.
const BITS: u32 = 12;
/// Slots of a digit.
const SLOTS: usize = 1 << BITS;
/// Words of a digit's map of slots with events.
const WORDS: usize = SLOTS / 64;
/// No event.
const NIL: u32 = u32::MAX;

/// An event in two words: stored and loaded whole, so that no load waits for several smaller stores.
#[derive(Clone, Copy, Debug)]
struct Packed {
    at: Ps,
    /// Component, then payload.
    who: u64,
}

impl Packed {
    /// Order of events; those that are equal in it are in order of their insertion.
    #[inline]
    const fn key(self) -> u128 {
        (self.at as u128) << 32 | (self.who >> 32) as u128
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    event: Packed,
    next: u32,
}

#[derive(Clone, Debug)]
struct Digit {
    /// Which words of `occupied` are not zero.
    words: u64,
    occupied: [u64; WORDS],
    /// The event inserted last into each slot; each leads to the one before it.
    heads: Vec<u32>,
}

impl Digit {
    fn new() -> Self {
        Self {
            words: 0,
            occupied: [0; WORDS],
            heads: vec![NIL; SLOTS],
        }
    }

    #[inline]
    const fn first(&self) -> Option<usize> {
        if self.words == 0 {
            return None;
        }
        let word = self.words.trailing_zeros() as usize;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    #[inline]
    fn set(&mut self, slot: usize) {
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.words |= 1 << (slot / 64);
    }

    #[inline]
    fn clear(&mut self, slot: usize) {
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        if self.occupied[slot / 64] == 0 {
            self.words &= !(1 << (slot / 64));
        }
    }
}

/// Events by time, then component, then order of insertion.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// Width of the finest slots, as a power of two.
    shift: u32,
    digits: Vec<Digit>,
    nodes: Vec<Node>,
    free: u32,
    len: usize,
    /// Start of the slot that is being emptied.
    now: Ps,
    /// Events of that slot, the next one last.
    ready: Vec<Packed>,
}

impl Calendar {
    /// An empty queue whose finest slots are `2^shift` picoseconds wide: best where a slot gets one to four events.
    #[must_use]
    pub fn new(shift: u32) -> Self {
        let digits = (64 - shift.min(63)).div_ceil(BITS) as usize;
        Self {
            shift: shift.min(63),
            digits: (0..digits).map(|_| Digit::new()).collect(),
            nodes: Vec::new(),
            free: NIL,
            len: 0,
            now: 0,
            ready: Vec::new(),
        }
    }

    /// Number of events.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if nothing will happen.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most that waited in slots at the same time.
    pub(crate) const fn most(&self) -> usize {
        self.nodes.len()
    }

    /// Schedules an event. What should have happened before the event taken last happens next.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.len += 1;
        let who = u64::from(event.component) << 32 | u64::from(event.payload);
        let packed = Packed { at: event.at, who };
        let differs = (event.at ^ self.now) >> self.shift;
        if differs == 0 || event.at < self.now {
            return self.push_ready(packed);
        }
        let index = if let Some(node) = self.nodes.get_mut(self.free as usize) {
            let index = self.free;
            self.free = node.next;
            node.event = packed;
            index
        } else {
            self.nodes.push(Node {
                event: packed,
                next: NIL,
            });
            // 2^32 events would be 100 GB.
            u32::try_from(self.nodes.len() - 1).unwrap_or(NIL)
        };
        self.link(index);
    }

    /// Puts an event among those of the slot that is being emptied.
    fn push_ready(&mut self, event: Packed) {
        // Few events lie in a slot, so the place is near the end.
        let key = event.key();
        let place = self.ready.iter().rposition(|e| e.key() > key).map_or(0, |i| i + 1);
        self.ready.insert(place, event);
    }

    /// Takes the next event if it is due at or before `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Ps) -> Option<Event> {
        loop {
            if let Some(&Packed { at, who }) = self.ready.last() {
                if at > until {
                    return None;
                }
                self.len -= 1;
                self.ready.pop();
                let (component, payload) = ((who >> 32) as u32, who as u32);
                return Some(Event { at, component, payload });
            }
            if !self.advance(until) {
                return None;
            }
        }
    }

    /// Goes to the next slot with events, unless it begins after `until`.
    fn advance(&mut self, until: Ps) -> bool {
        let Some(digit) = self.digits.iter().position(|d| d.words != 0) else {
            return false;
        };
        let Some(slot) = self.digits[digit].first() else {
            return false;
        };
        let low = self.shift + BITS * digit as u32;
        let high = low + BITS;
        let above = if high >= 64 { 0 } else { self.now >> high << high };
        let start = above | (slot as u64) << low;
        if start > until {
            return false;
        }
        self.now = start;
        let mut index = self.digits[digit].heads[slot];
        self.digits[digit].heads[slot] = NIL;
        self.digits[digit].clear(slot);
        if digit == 0 {
            self.fill_ready(index);
            return true;
        }
        // The chain leads from the last to the first; linking it in order of insertion keeps that order.
        let mut first = NIL;
        while let Some(node) = self.nodes.get_mut(index as usize) {
            let next = node.next;
            node.next = first;
            first = index;
            index = next;
        }
        while let Some(&Node { event, next }) = self.nodes.get(first as usize) {
            if (event.at ^ self.now) >> self.shift == 0 {
                self.nodes[first as usize].next = self.free;
                self.free = first;
                self.ready.push(event);
            } else {
                self.link(first);
            }
            first = next;
        }
        self.ready.reverse();
        self.sort_ready();
        true
    }

    /// Takes a chain, which leads from the last to the first event inserted.
    #[inline]
    fn fill_ready(&mut self, first: u32) {
        let mut index = first;
        while let Some(node) = self.nodes.get_mut(index as usize) {
            self.ready.push(node.event);
            let next = node.next;
            node.next = self.free;
            self.free = index;
            index = next;
        }
        self.sort_ready();
    }

    /// `ready` is in reverse order of insertion, and becomes sorted in reverse; equal ones stay in reverse.
    #[inline]
    fn sort_ready(&mut self) {
        if self.ready.len() > 20 {
            self.ready.sort_by_key(|event| core::cmp::Reverse(event.key()));
            return;
        }
        for end in 1..self.ready.len() {
            let event = self.ready[end];
            let key = event.key();
            let mut place = end;
            while place > 0 && self.ready[place - 1].key() < key {
                self.ready[place] = self.ready[place - 1];
                place -= 1;
            }
            self.ready[place] = event;
        }
    }

    /// Puts an event, which is not in the current slot, where it belongs.
    #[inline]
    fn link(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        let differs = (node.event.at ^ self.now) >> self.shift;
        let digit = (differs.ilog2() / BITS) as usize;
        let slot = (node.event.at >> (self.shift + BITS * digit as u32)) as usize % SLOTS;
        let digit = &mut self.digits[digit];
        let head = &mut digit.heads[slot];
        node.next = *head;
        *head = index;
        digit.set(slot);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use selvedge_sim::Seed;

    use super::*;

    /// Pushes and takes at random, near and far, and compares with a sorted map.
    #[test]
    fn it_is_a_sorted_map() {
        for seed in 0..100 {
            let mut rng = Seed(seed).rng();
            let mut queue = Calendar::new(rng.below(12) as u32);
            let mut reference = BTreeMap::new();
            let (mut now, mut until): (Ps, Ps) = (0, 0);
            for sequence in 0..2_000_u32 {
                let at = match rng.below(8) {
                    0 => now,
                    1 => now.saturating_add(rng.next_u64() >> (1 + rng.below(63))),
                    _ => now.saturating_add(rng.next_u64() >> (46 + rng.below(18))),
                };
                let component = rng.below(3) as u32;
                let payload = sequence;
                queue.push(Event { at, component, payload });
                reference.insert((at, component, sequence), sequence);
                if rng.below(50) == 0 {
                    until = now.saturating_add(rng.next_u64() >> (24 + rng.below(40)));
                }
                for _ in 0..rng.below(3) {
                    let want = reference.first_key_value().map(|(&key, _)| key);
                    let want = want.filter(|&(at, ..)| at <= until.max(now));
                    let found = queue.pop_until(until.max(now));
                    assert_eq!(found.map(|e| (e.at, e.component, e.payload)), want);
                    if let Some(key) = want {
                        reference.remove(&key);
                        now = key.0;
                    }
                }
                assert_eq!(queue.len(), reference.len());
            }
            while let Some(found) = queue.pop_until(Ps::MAX) {
                let want = reference.pop_first().map(|(key, _)| key);
                assert_eq!(Some((found.at, found.component, found.payload)), want);
            }
            assert!(queue.is_empty() && reference.is_empty());
        }
    }

    #[test]
    fn places_are_used_again() {
        let mut queue = Calendar::new(8);
        for round in 0..1_000 {
            for component in 0..10 {
                let at = round * 5_000_000 + 70_000 * u64::from(component);
                queue.push(Event {
                    at,
                    component,
                    payload: 0,
                });
            }
            while queue.pop_until(round * 5_000_000 + 4_999_999).is_some() {}
        }
        assert!(queue.nodes.len() <= 10, "{}", queue.nodes.len());
    }
}
