//! The queue of future events, in order of time, component and insertion.
//!
//! `sim::EventQueue` has the same order for events of any type. This one is optimised for packets. An event is 16
//! bytes. The bits of a time are divided into digits of 12 bits, and each digit has 4,096 slots for events. A slot of
//! the finest digit is some hundred picoseconds wide, so that it contains a few events, which are sorted when its time
//! comes. Most events are put into a slot once and removed once. Events further away than a window (4,096 slots) are in
//! coarser slots, 4,096 times as wide, and are put into finer slots when their window comes.

use crate::units::Ps;

/// An event of a component at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time.
    pub at: Ps,
    /// The component that handles the event. Of several events at the same time, that of the smallest component comes
    /// first.
    pub component: u32,
    /// Contents of the event; only the caller interprets them.
    pub payload: u32,
}

/// Number of bits of a digit of a time.
const BITS: u32 = 12;
/// Number of slots of a digit.
const SLOTS: usize = 1 << BITS;
/// Number of words of a digit's map of slots with events.
const WORDS: usize = SLOTS / 64;
/// Stands for no event.
const NIL: u32 = u32::MAX;

/// An event in two words. It is stored and loaded as a whole, so that no load waits for several smaller stores.
#[derive(Clone, Copy, Debug)]
struct Packed {
    at: Ps,
    /// Component in the upper half, payload in the lower half.
    who: u64,
}

impl Packed {
    /// Returns the sort key. Events with equal keys are in order of insertion.
    #[inline]
    const fn key(self) -> u128 {
        (self.at as u128) << 32 | (self.who >> 32) as u128
    }

    /// Returns a shorter key for events of one of the finest slots, in which the upper halves of all times are equal.
    #[inline]
    const fn key_in_slot(self) -> u64 {
        self.at << 32 | self.who >> 32
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    event: Packed,
    next: u32,
}

#[derive(Clone, Debug)]
struct Digit {
    /// Bit mask: which words of `occupied` are not zero.
    words: u64,
    occupied: [u64; WORDS],
    /// By slot: the event inserted last. Each event refers to the previous one.
    heads: Box<[u32; SLOTS]>,
}

impl Digit {
    fn new() -> Self {
        Self {
            words: 0,
            occupied: [0; WORDS],
            heads: Box::new([NIL; SLOTS]),
        }
    }

    /// Returns the first slot with events, if there is one.
    #[inline]
    const fn first(&self) -> Option<usize> {
        if self.words == 0 {
            return None;
        }
        let word = self.words.trailing_zeros() as usize;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    /// Puts an event at the head of a slot. Returns the former head.
    #[inline]
    fn put(&mut self, slot: usize, index: u32) -> u32 {
        let slot = slot % SLOTS;
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.words |= 1 << (slot / 64);
        core::mem::replace(&mut self.heads[slot], index)
    }

    /// Empties a slot. Returns its head.
    #[inline]
    fn take(&mut self, slot: usize) -> u32 {
        let slot = slot % SLOTS;
        let word = &mut self.occupied[slot / 64];
        *word &= !(1 << (slot % 64));
        if *word == 0 {
            self.words &= !(1 << (slot / 64));
        }
        core::mem::replace(&mut self.heads[slot], NIL)
    }
}

/// Events by time, then component, then order of insertion.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// Width of the finest slots, as a power of two.
    shift: u32,
    /// The finest slots.
    fine: Digit,
    /// The coarser digits, each 4,096 times as coarse as the previous one.
    coarse: Vec<Digit>,
    nodes: Vec<Node>,
    free: u32,
    len: usize,
    /// Start of the current slot.
    now: Ps,
    /// Events of the current slot in reverse order.
    ready: Vec<Packed>,
}

/// Largest number of events of a slot for which sorting by counting is fastest.
const VERY_FEW: usize = 8;
/// Largest number of events of a slot for which insertion sort is fastest.
const FEW: usize = 20;

impl Calendar {
    /// Returns an empty queue with finest slots of `2^shift` picoseconds. Best if a slot gets one to four events.
    #[must_use]
    pub fn new(shift: u32) -> Self {
        let shift = shift.min(32);
        let digits = (64 - shift).div_ceil(BITS);
        Self {
            shift,
            fine: Digit::new(),
            coarse: (1..digits).map(|_| Digit::new()).collect(),
            nodes: Vec::new(),
            free: NIL,
            len: 0,
            now: 0,
            ready: Vec::new(),
        }
    }

    /// Returns the number of events.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there are no events.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the largest number of events that were in slots at the same time.
    pub(crate) const fn most(&self) -> usize {
        self.nodes.len()
    }

    /// Schedules an event. An event with a time before the last event removed comes next.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.len += 1;
        let who = u64::from(event.component) << 32 | u64::from(event.payload);
        let event = Packed { at: event.at, who };
        let differs = (event.at ^ self.now) >> self.shift;
        if differs == 0 || event.at < self.now {
            return self.push_ready(event);
        }
        let index = self.free;
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return self.push_new(event);
        };
        self.free = node.next;
        node.event = event;
        if differs < SLOTS as u64 {
            node.next = self.fine.put((event.at >> self.shift) as usize, index);
        } else {
            self.link(index);
        }
    }

    /// Schedules an event if no node is free for reuse.
    #[cold]
    fn push_new(&mut self, event: Packed) {
        self.nodes.push(Node { event, next: NIL });
        // 2^32 events would be 100 GB.
        self.link(u32::try_from(self.nodes.len() - 1).unwrap_or(NIL));
    }

    /// Adds an event to those of the current slot.
    #[cold]
    fn push_ready(&mut self, event: Packed) {
        // A slot contains few events, so the place is near the end.
        let key = event.key();
        let place = self.ready.iter().rposition(|e| e.key() > key).map_or(0, |i| i + 1);
        self.ready.insert(place, event);
    }

    /// Removes the next event if it is due at or before `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Ps) -> Option<Event> {
        if self.ready.is_empty() && !self.advance(until) {
            return None;
        }
        let &Packed { at, who } = self.ready.last()?;
        if at > until {
            return None;
        }
        self.len -= 1;
        self.ready.pop();
        let (component, payload) = ((who >> 32) as u32, who as u32);
        Some(Event { at, component, payload })
    }

    /// Returns the time of the next event.
    #[must_use]
    pub fn next_at(&self) -> Option<Ps> {
        if let Some(event) = self.ready.last() {
            return Some(event.at);
        }
        // Later slots, and coarser digits, contain later events only.
        let digit = core::iter::once(&self.fine).chain(&self.coarse);
        let (digit, slot) = digit.filter_map(|digit| Some((digit, digit.first()?))).next()?;
        let mut index = digit.heads[slot];
        let mut first = None;
        while let Some(node) = self.nodes.get(index as usize) {
            first = Some(first.map_or(node.event.at, |at: Ps| at.min(node.event.at)));
            index = node.next;
        }
        first
    }

    /// Moves to the next slot with events, unless it begins after `until`. True if some are ready then.
    fn advance(&mut self, until: Ps) -> bool {
        loop {
            let Some(slot) = self.fine.first() else {
                if self.spread(until) {
                    continue;
                }
                return !self.ready.is_empty();
            };
            let width = self.shift + BITS;
            let start = self.now >> width << width | (slot as u64) << self.shift;
            if start > until {
                return false;
            }
            self.now = start;
            let first = self.fine.take(slot);
            self.fill_ready(first);
            return true;
        }
    }

    /// Distributes the events of the next coarse slot over finer slots, unless that slot begins after `until`. Returns
    /// false if there are no such events, or if some are already in the finest slots.
    #[cold]
    fn spread(&mut self, until: Ps) -> bool {
        let Some(digit) = self.coarse.iter().position(|digit| digit.words != 0) else {
            return false;
        };
        let Some(slot) = self.coarse[digit].first() else {
            return false;
        };
        let low = self.shift + BITS * (digit as u32 + 1);
        let high = low + BITS;
        let above = if high >= 64 { 0 } else { self.now >> high << high };
        let start = above | (slot as u64) << low;
        if start > until {
            return false;
        }
        self.now = start;
        // The chain begins with the last event inserted. Linking in order of insertion keeps that order.
        let mut index = self.coarse[digit].take(slot);
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
        self.ready.is_empty()
    }

    /// Moves a list of events, the last inserted first, to `ready`, and sorts them.
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

    /// Sorts `ready` in reverse. It is in reverse order of insertion, and equal events stay in that order.
    #[inline]
    fn sort_ready(&mut self) {
        let ready = &mut self.ready[..];
        if ready.len() > FEW {
            ready.sort_by_key(|event| core::cmp::Reverse(event.key_in_slot()));
            return;
        }
        if ready.len() > VERY_FEW {
            return insert_each(ready);
        }
        // Counts for each event how many are before it. This has no branch that would be mispredicted half of the time.
        let mut events = [Packed { at: 0, who: 0 }; VERY_FEW];
        let mut before = [0_usize; VERY_FEW];
        for (i, &event) in ready.iter().enumerate() {
            let key = event.key_in_slot();
            for j in 0..i {
                let is_before = usize::from(events[j].key_in_slot() >= key);
                before[i] += is_before;
                before[j] += 1 - is_before;
            }
            events[i] = event;
        }
        for (event, place) in events.iter().zip(before).take(ready.len()) {
            ready[place % VERY_FEW] = *event;
        }
    }

    /// Puts an event that does not belong to the current slot into its slot.
    #[inline]
    fn link(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        let differs = (node.event.at ^ self.now) >> self.shift;
        let digit = differs.ilog2() / BITS;
        let slot = (node.event.at >> (self.shift + BITS * digit)) as usize;
        let digit = match (digit as usize).checked_sub(1) {
            None => &mut self.fine,
            Some(digit) => &mut self.coarse[digit],
        };
        node.next = digit.put(slot, index);
    }
}

/// Insertion sort in the order of `sort_ready`.
fn insert_each(ready: &mut [Packed]) {
    for end in 1..ready.len() {
        let event = ready[end];
        let key = event.key_in_slot();
        let mut place = end;
        while place > 0 && ready[place - 1].key_in_slot() < key {
            ready[place] = ready[place - 1];
            place -= 1;
        }
        ready[place] = event;
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
                let next = reference.first_key_value().map(|(&(at, ..), _)| at);
                assert_eq!(queue.next_at(), next);
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
