//! The number of threads that a study may use.

use std::num::NonZeroUsize;

use selvedge_sim::Par;

/// Threads that a study may use: those of the caller's pool. The answer does not depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads(pub NonZeroUsize);

impl Threads {
    /// The caller's thread alone.
    pub const ONE: Self = Self(NonZeroUsize::MIN);

    /// Returns a number of threads: at least one.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self(NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN))
    }

    /// Returns the number of threads.
    #[must_use]
    pub const fn count(self) -> usize {
        self.0.get()
    }

    /// Returns how one computation uses these threads.
    #[must_use]
    pub const fn par(self) -> Par {
        match self.0.get() {
            1 => Par::Sequential,
            _ => Par::Rayon,
        }
    }
}
