//! Time, chance, event order and data parallelism as values.
//!
//! Nothing here reads a clock or an entropy source: the same seed and inputs give the same bytes, on any number of
//! threads.

mod event;
mod par;
mod rng;
mod time;

pub use event::{ComponentId, EventQueue};
pub use par::Par;
pub use rng::{Ratio, Rng, Seed};
pub use time::Time;

pub use rand;
