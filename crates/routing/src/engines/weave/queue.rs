//! A priority queue of channels by cost: a ring of buckets, since no channel costs more than the ring is long.

use super::net::NONE;

/// Buckets in the ring.
const SLOTS: usize = 4096;
/// No channel may weigh more than this: then no two costs in the queue share a bucket.
pub(super) const WEIGHT_MAX: u32 = SLOTS as u32 - 1;
const WORDS: usize = SLOTS / 64;

/// Channels that wait to be tried, each at most once.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    /// The channel that is tried first at each cost.
    head: Vec<u32>,
    /// The channel that is tried after each.
    next: Vec<u32>,
    /// A bit for each bucket that is not empty, and one for each word of these bits.
    filled: Vec<u64>,
    words: u64,
    /// The cost of the channel tried last: none that waits costs less.
    now: u32,
}

impl Queue {
    /// Returns an empty queue for this number of channels.
    pub fn new(channels: usize) -> Self {
        Self {
            head: vec![NONE; SLOTS],
            next: vec![NONE; channels],
            filled: vec![0; WORDS],
            words: 0,
            now: 0,
        }
    }

    /// Empties the queue, and starts again at cost 0.
    pub fn clear(&mut self) {
        while self.words != 0 {
            let word = self.words.trailing_zeros() as usize;
            self.words &= self.words - 1;
            let mut slots = core::mem::take(&mut self.filled[word]);
            while slots != 0 {
                self.head[word * 64 + slots.trailing_zeros() as usize] = NONE;
                slots &= slots - 1;
            }
        }
        self.now = 0;
    }

    /// Adds a channel; it costs at most [`WEIGHT_MAX`] more than the one tried last, or is taken as if it did.
    #[inline]
    pub fn push(&mut self, channel: u32, cost: u32) {
        let slot = cost.clamp(self.now, self.now + WEIGHT_MAX) as usize % SLOTS;
        self.next[channel as usize] = core::mem::replace(&mut self.head[slot], channel);
        self.filled[slot / 64] |= 1 << (slot % 64);
        self.words |= 1 << (slot / 64);
    }

    /// Removes one of the cheapest channels and returns it with its cost. Among equals it is the one added last.
    #[inline]
    pub fn pop(&mut self) -> Option<(u32, u32)> {
        if self.words == 0 {
            return None;
        }
        let start = self.now as usize % SLOTS;
        let rest = self.filled[start / 64] & (!0 << (start % 64));
        let slot = if rest != 0 {
            start / 64 * 64 + rest.trailing_zeros() as usize
        } else {
            // The words after this one, then those before it, at last this one from its beginning.
            let turned = self.words.rotate_right((start / 64 + 1) as u32);
            let word = (start / 64 + 1 + turned.trailing_zeros() as usize) % WORDS;
            word * 64 + self.filled[word].trailing_zeros() as usize
        };
        self.now += ((slot + SLOTS - start) % SLOTS) as u32;
        let channel = self.head[slot];
        self.head[slot] = self.next[channel as usize];
        if self.head[slot] == NONE {
            self.filled[slot / 64] &= !(1 << (slot % 64));
            if self.filled[slot / 64] == 0 {
                self.words &= !(1 << (slot / 64));
            }
        }
        Some((channel, self.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_come_out_by_cost() {
        let mut queue = Queue::new(8);
        let mut check = |push: &[(u32, u32)], want: &[(u32, u32)]| {
            push.iter().for_each(|&(channel, cost)| queue.push(channel, cost));
            for &want in want {
                assert_eq!(queue.pop(), Some(want));
            }
        };
        check(&[(0, 70), (1, 5), (2, 4095), (3, 5)], &[(3, 5), (1, 5), (0, 70)]);
        // Across the end of the ring, and into the same word.
        check(&[(4, 70 + WEIGHT_MAX), (5, 71)], &[(5, 71), (2, 4095), (4, 4165)]);
        check(&[(6, 4200), (7, 4165 + 4095)], &[(6, 4200), (7, 8260)]);
        assert_eq!(queue.pop(), None);
        queue.push(1, 9000);
        queue.clear();
        assert_eq!(queue.pop(), None);
        queue.push(1, 3);
        assert_eq!(queue.pop(), Some((1, 3)));
    }
}
