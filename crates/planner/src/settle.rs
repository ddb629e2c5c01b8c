//! Works out, beside everything else, for how long packets of earlier entries matter.

use selvedge_sim::Time;

use crate::job::JobResult;
use crate::past::Past;

/// Task: work out for how long packets of earlier entries matter, and by which entries they go.
#[derive(Clone, Debug)]
pub struct Settle {
    past: Past,
    now: Time,
}

/// The changes of a [`Settle`] task, with what was worked out. [`Past::take_settled`] takes them, unless tables have
/// changed since.
#[derive(Clone, Debug)]
pub struct Settled(pub Past);

impl Settle {
    /// Settles a copy of `past`, for the time `now`.
    #[must_use]
    pub const fn new(past: Past, now: Time) -> Self {
        Self { past, now }
    }

    /// Takes some milliseconds in a large fabric.
    pub fn run(mut self) -> JobResult {
        self.past.settle(self.now);
        JobResult {
            settled: Some(Box::new(Settled(self.past))),
            ..JobResult::default()
        }
    }
}
