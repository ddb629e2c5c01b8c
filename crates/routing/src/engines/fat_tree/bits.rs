//! Sets of switches, one for each switch.

/// `rows` sets of numbers below `columns`.
#[derive(Clone, Debug)]
pub(super) struct BitSets {
    words: usize,
    bits: Vec<u64>,
}

impl BitSets {
    /// Empty sets.
    pub fn new(rows: usize, columns: usize) -> Self {
        let words = columns.div_ceil(64).max(1);
        Self {
            words,
            bits: vec![0; rows * words],
        }
    }

    /// Puts a number into a set.
    pub fn insert(&mut self, row: usize, column: usize) {
        self.bits[row * self.words + column / 64] |= 1 << (column % 64);
    }

    /// True if a number is in a set.
    #[inline]
    pub fn has(&self, row: usize, column: usize) -> bool {
        self.bits[row * self.words + column / 64] >> (column % 64) & 1 == 1
    }

    /// Returns the words of a set.
    pub fn row(&self, row: usize) -> &[u64] {
        &self.bits[row * self.words..][..self.words]
    }

    /// Adds all elements of set `from` to a different set `to`.
    pub fn merge(&mut self, to: usize, from: usize) {
        let (low, high) = (to.min(from), to.max(from));
        let (head, tail) = self.bits.split_at_mut(high * self.words);
        let (low, high) = (&mut head[low * self.words..][..self.words], &mut tail[..self.words]);
        let (into, source) = if to < from { (low, high) } else { (high, low) };
        for (a, b) in into.iter_mut().zip(source.iter()) {
            *a |= *b;
        }
    }

    /// Writes the union of some sets and numbers into `into`.
    pub fn gather(&self, into: &mut Vec<u64>, numbers: &[usize], sets: impl Iterator<Item = usize>) {
        into.clear();
        into.resize(self.words, 0);
        numbers.iter().for_each(|&n| into[n / 64] |= 1 << (n % 64));
        for set in sets {
            into.iter_mut()
                .zip(self.row(set))
                .for_each(|(into, more)| *into |= more);
        }
    }

    /// Replaces a set. Returns true if the set changes.
    pub fn replace(&mut self, row: usize, words: &[u64]) -> bool {
        let mine = &mut self.bits[row * self.words..][..self.words];
        let differs = mine != words;
        if differs {
            mine.copy_from_slice(words);
        }
        differs
    }

    /// Adds all elements of a set of `other` to set `to`.
    pub fn merge_from(&mut self, to: usize, other: &Self, from: usize) {
        for (a, b) in self.bits[to * self.words..][..self.words]
            .iter_mut()
            .zip(other.row(from))
        {
            *a |= *b;
        }
    }
}

/// Returns the positions of all bits that are 1, ascending.
pub(super) fn ones(words: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    words.enumerate().flat_map(|(w, mut word)| {
        core::iter::from_fn(move || {
            let bit = word.trailing_zeros() as usize;
            (word != 0).then(|| {
                word &= word - 1;
                w * 64 + bit
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_merge_both_ways() {
        let mut sets = BitSets::new(3, 130);
        sets.insert(0, 129);
        sets.insert(2, 5);
        sets.merge(0, 2);
        sets.merge(2, 0);
        assert!(sets.has(0, 5) && sets.has(0, 129) && sets.has(2, 129) && !sets.has(1, 5));
    }
}
