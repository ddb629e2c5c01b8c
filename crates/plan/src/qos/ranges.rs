//! Sets of numbers, given as ranges.

/// A set of numbers: ranges in order, without overlaps and gaps of zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    ranges: Vec<(u64, u64)>,
}

impl Ranges {
    /// Adds the numbers from `a` to `b`, or from `b` to `a`.
    pub fn add(&mut self, a: u64, b: u64) {
        self.ranges.push((a.min(b), a.max(b)));
        self.ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(self.ranges.len());
        for &(first, last) in &self.ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        self.ranges = merged;
    }

    /// True if the set has no numbers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// True if the number is in the set.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        let after = self.ranges.partition_point(|(first, _)| *first <= number);
        after > 0 && number <= self.ranges[after - 1].1
    }

    /// Returns the ranges, each with its first and last number, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().copied()
    }
}

impl FromIterator<(u64, u64)> for Ranges {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(ranges: I) -> Self {
        let mut set = Self::default();
        ranges.into_iter().for_each(|(a, b)| set.add(a, b));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge() {
        let check = |added: &[(u64, u64)], want: &[(u64, u64)]| {
            let set: Ranges = added.iter().copied().collect();
            assert_eq!(set.iter().collect::<Vec<_>>(), want, "{added:?}");
            for number in 0..40 {
                let is_in = added.iter().any(|&(a, b)| (a.min(b)..=a.max(b)).contains(&number));
                assert_eq!(set.contains(number), is_in, "{added:?} {number}");
            }
        };
        check(&[], &[]);
        check(&[(7, 9), (11, 11)], &[(7, 9), (11, 11)]);
        check(&[(9, 7), (10, 12)], &[(7, 12)]);
        check(&[(20, 30), (1, 5), (4, 22)], &[(1, 30)]);
        check(&[(3, 3), (1, 1), (1, 1)], &[(1, 1), (3, 3)]);
        let all: Ranges = [(0, u64::MAX), (u64::MAX, u64::MAX)].into_iter().collect();
        assert!(all.contains(u64::MAX));
    }
}
