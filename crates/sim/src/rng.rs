//! One seed, a tree of named generators.

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

/// The source of a generator: a number, combined with the path of names below it.
///
/// An additional draw by one consumer does not change the draws of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// Returns the seed of the part called `name`.
    #[must_use]
    pub fn child(self, name: &str) -> Self {
        name.bytes()
            .fold(self.mixed(), |seed, byte| Self(seed.0 ^ u64::from(byte)).mixed())
    }

    /// Returns the seed of the `index`-th part.
    #[must_use]
    pub fn nth(self, index: u64) -> Self {
        Self(self.0 ^ Self(index).mixed().0).mixed()
    }

    /// Returns a generator with this seed.
    #[must_use]
    pub fn rng(self) -> Rng {
        Rng(Pcg64::seed_from_u64(self.0))
    }

    /// Mixes the seed with SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection that spreads every bit.
    #[must_use]
    pub const fn mixed(self) -> Self {
        let mut z = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self(z ^ (z >> 31))
    }
}

/// A generator of uniform numbers.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64);

impl Rng {
    /// Returns a uniform number in `0..bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.random_range(0..bound)
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// True with the probability `ratio`.
    pub fn chance(&mut self, ratio: Ratio) -> bool {
        ratio.numerator > 0 && self.below(u64::from(ratio.denominator)) < u64::from(ratio.numerator)
    }

    /// Puts a slice into random order (Fisher–Yates).
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        rand::seq::SliceRandom::shuffle(slice, &mut self.0);
    }
}

/// A probability as an integer ratio, so that decisions need no floating point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Number of cases in which the event happens.
    pub numerator: u32,
    /// Number of all cases; never 0.
    pub denominator: u32,
}

impl Ratio {
    /// Probability 0.
    pub const NEVER: Self = Self {
        numerator: 0,
        denominator: 1,
    };

    /// Returns a probability per million.
    #[must_use]
    pub const fn per_million(numerator: u32) -> Self {
        Self {
            numerator,
            denominator: 1_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_stable_across_releases() {
        // A change here changes every recorded scenario: it needs a line in CHANGELOG.md.
        assert_eq!(Seed(1).child("faults").rng().next_u64(), 13_860_439_125_062_577_163);
        assert_ne!(Seed(1).child("a").0, Seed(1).child("b").0);
        assert_ne!(Seed(1).nth(0).0, Seed(1).nth(1).0);
    }

    #[test]
    fn chance_is_a_ratio() {
        let mut rng = Seed(7).rng();
        let hits = (0..10_000)
            .filter(|_| {
                rng.chance(Ratio {
                    numerator: 1,
                    denominator: 4,
                })
            })
            .count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!(!rng.chance(Ratio::NEVER));
    }
}
