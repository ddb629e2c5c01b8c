//! Time, random numbers, event order and data parallelism, all as values.
//!
//! This crate reads no clock and no entropy source: the same seed and inputs give the same bytes, on any number of
//! threads.
//!
//! ```
//! use selvedge_sim::Seed;
//!
//! // A tree of named generators: one more draw by one of them changes nothing for the others.
//! let mut faults = Seed(1).child("faults").rng();
//! let mut links = Seed(1).child("links").rng();
//! assert_eq!(faults.below(100), Seed(1).child("faults").rng().below(100));
//! assert_ne!(faults.next_u64(), links.next_u64());
//! ```

mod event;
mod par;
mod rng;
mod time;

pub use event::{ComponentId, EventQueue};
pub use par::Par;
pub use rng::{Ratio, Rng, Seed};
pub use time::Time;
