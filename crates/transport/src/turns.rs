//! Queues that take turns: who puts in without end keeps nobody else waiting.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// First in, first out for each key; keys take turns.
#[derive(Debug)]
pub struct Turns<K, T> {
    /// None is empty.
    queues: BTreeMap<K, VecDeque<T>>,
    len: usize,
    /// Whose turn it was last.
    last: Option<K>,
}

impl<K, T> Default for Turns<K, T> {
    fn default() -> Self {
        Self {
            queues: BTreeMap::new(),
            len: 0,
            last: None,
        }
    }
}

impl<K: Copy + Ord, T> Turns<K, T> {
    /// Items of all keys.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if nothing waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts an item last of its key. A key keeps so many at most, and its share of them once there are so many of all
    /// keys together; false if there is no room, and the item is lost.
    pub fn push(&mut self, key: K, item: T, most: usize) -> bool {
        let keys = self.queues.len() + usize::from(!self.queues.contains_key(&key));
        let room = match self.len < most {
            true => most,
            false => (most / keys).max(1),
        };
        let queue = self.queues.entry(key).or_default();
        let has_room = queue.len() < room;
        if has_room {
            queue.push_back(item);
            self.len += 1;
        }
        has_room
    }

    /// Whose turn it is.
    fn turn(&self) -> Option<K> {
        let after = match self.last {
            Some(last) => Bound::Excluded(last),
            None => Bound::Unbounded,
        };
        let next = self.queues.range((after, Bound::Unbounded)).next();
        next.or_else(|| self.queues.first_key_value()).map(|(key, _)| *key)
    }

    /// The item whose turn it is.
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.queues.get(&self.turn()?)?.front()
    }

    /// Takes out what [`Self::front`] shows; the next key has its turn.
    pub fn pop(&mut self) -> Option<T> {
        let key = self.turn()?;
        self.last = Some(key);
        let Entry::Occupied(mut queue) = self.queues.entry(key) else {
            return None;
        };
        let item = queue.get_mut().pop_front();
        if queue.get().is_empty() {
            queue.remove();
        }
        self.len -= usize::from(item.is_some());
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_take_turns_and_keep_their_share() {
        let check = |pushed: &[(u8, u8)], most: usize, want: &[u8]| {
            let mut turns = Turns::default();
            let kept = pushed
                .iter()
                .filter(|(key, item)| turns.push(*key, *item, most))
                .count();
            assert_eq!((kept, turns.len()), (want.len(), want.len()), "{pushed:?}");
            let mut left = Vec::new();
            while let Some(&front) = turns.front() {
                assert_eq!(turns.pop(), Some(front));
                left.push(front);
            }
            assert_eq!(left, want, "{pushed:?}");
            assert!(turns.is_empty() && turns.pop().is_none());
        };
        check(&[], 4, &[]);
        check(&[(1, 10), (1, 11), (1, 12)], 4, &[10, 11, 12]);
        check(&[(1, 10), (1, 11), (2, 20), (3, 30), (2, 21)], 8, &[10, 20, 30, 11, 21]);
        // One key has all the room; another that comes has its share all the same.
        check(&[(1, 10), (1, 11), (1, 12), (2, 20), (2, 21)], 2, &[10, 20, 11]);
        // However many keys there are, each has room for one.
        check(&[(1, 10), (2, 20), (3, 30), (3, 31)], 2, &[10, 20, 30]);
    }
}
