//! Data parallelism inside one call.

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, IntoParallelRefMutIterator, ParallelIterator};

/// How a pure computation may use threads. Results are always merged in index order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Par {
    /// Work runs on the caller's thread.
    #[default]
    Sequential,
    /// Work runs on rayon's pool.
    Rayon,
}

impl Par {
    /// Returns `f(0), f(1), … f(count - 1)`, in that order.
    pub fn map<T: Send>(self, count: usize, f: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
        match self {
            Self::Sequential => (0..count).map(f).collect(),
            Self::Rayon => (0..count).into_par_iter().map(f).collect(),
        }
    }

    /// Returns `(a(), b())`.
    pub fn join<A: Send, B: Send>(self, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        match self {
            Self::Sequential => (a(), b()),
            Self::Rayon => rayon::join(a, b),
        }
    }

    /// Runs `f(index, item)` on each item.
    pub fn for_each_mut<T: Send>(self, items: &mut [T], f: impl Fn(usize, &mut T) + Sync + Send) {
        match self {
            Self::Sequential => items.iter_mut().enumerate().for_each(|(i, item)| f(i, item)),
            Self::Rayon => items.par_iter_mut().enumerate().for_each(|(i, item)| f(i, item)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_same() {
        let square = |i: usize| i * i;
        assert_eq!(Par::Sequential.map(1_000, square), Par::Rayon.map(1_000, square));
        for par in [Par::Sequential, Par::Rayon] {
            assert_eq!(par.join(|| 1, || "two"), (1, "two"));
        }
    }
}
