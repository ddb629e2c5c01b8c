//! Fair queues: a key with many items does not delay the items of other keys.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// A first-in first-out queue for each key. Keys take turns.
#[derive(Debug)]
pub struct Turns<K, T> {
    /// Queues by key. None of them is empty.
    queues: BTreeMap<K, VecDeque<T>>,
    len: usize,
    /// The key that had the last turn.
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
    /// Returns the number of items of all keys.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there is no item.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends an item to the queue of its key. A key may have at most `most` items; if all keys together have `most`
    /// items, each key may have only an equal share. Returns false if there is no room and the item is dropped.
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

    /// Returns the key that has the turn.
    fn turn(&self) -> Option<K> {
        let after = match self.last {
            Some(last) => Bound::Excluded(last),
            None => Bound::Unbounded,
        };
        let next = self.queues.range((after, Bound::Unbounded)).next();
        next.or_else(|| self.queues.first_key_value()).map(|(key, _)| *key)
    }

    /// Returns the item that is next.
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.queues.get(&self.turn()?)?.front()
    }

    /// Removes the item that [`Self::front`] returns. After that it is the next key's turn.
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
        // One key fills all the room. A second key still gets its share.
        check(&[(1, 10), (1, 11), (1, 12), (2, 20), (2, 21)], 2, &[10, 20, 11]);
        // With any number of keys, each has room for one item.
        check(&[(1, 10), (2, 20), (3, 30), (3, 31)], 2, &[10, 20, 30]);
    }
}
