//! Lists of varying length in one array.

use core::ops::Range;

use crate::number;

/// Lists of varying length in one array: `lists[i] = items[first[i] .. first[i + 1]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists<T> {
    first: Vec<u32>,
    items: Vec<T>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self {
            first: vec![0],
            items: Vec::new(),
        }
    }
}

impl<T> Lists<T> {
    /// Appends a list.
    pub fn push(&mut self, list: impl IntoIterator<Item = T>) {
        self.items.extend(list);
        self.first.push(number(self.items.len()));
    }

    /// Number of lists.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }

    /// Returns true if there is no list.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of the first item of list `i` among all items; `i` may be [`Self::len`].
    #[must_use]
    pub fn start(&self, i: usize) -> usize {
        self.first[i] as usize
    }

    /// Returns the numbers of the items of list `i` among all items.
    #[must_use]
    pub fn range(&self, i: usize) -> Range<usize> {
        self.start(i)..self.start(i + 1)
    }

    /// Returns one item, by its number among all items.
    #[must_use]
    pub fn item(&self, number: usize) -> &T {
        &self.items[number]
    }

    /// All items.
    #[must_use]
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns all items, to be changed.
    pub fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }

    /// List `i`.
    #[must_use]
    pub fn get(&self, i: usize) -> &[T] {
        &self.items[self.range(i)]
    }
}

impl Lists<u32> {
    /// Returns this number of lists. List `k` has the positions in `keys` at which the key is `k`, ascending.
    #[must_use]
    pub fn grouped(lists: usize, keys: impl Iterator<Item = u32> + Clone) -> Self {
        let mut first = vec![0; lists + 1];
        for key in keys.clone() {
            first[key as usize + 1] += 1;
        }
        for i in 0..lists {
            first[i + 1] += first[i];
        }
        let mut free = first.clone();
        let mut items = vec![0; first[lists] as usize];
        for (position, key) in (0..).zip(keys) {
            items[free[key as usize] as usize] = position;
            free[key as usize] += 1;
        }
        Self { first, items }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_groups() {
        let mut lists = Lists::default();
        assert!(lists.is_empty());
        lists.push([3, 4]);
        lists.push([]);
        lists.push([5]);
        assert_eq!(
            (lists.len(), lists.get(0), lists.get(1), lists.get(2)),
            (3, &[3, 4][..], &[][..], &[5][..])
        );
        assert_eq!((lists.range(2), *lists.item(2)), (2..3, 5));
        let groups = Lists::grouped(3, [2, 0, 2, 2].into_iter());
        assert_eq!(
            (groups.get(0), groups.get(1), groups.get(2)),
            (&[1][..], &[][..], &[0, 2, 3][..])
        );
    }
}
