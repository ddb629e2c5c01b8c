//! Computes how long packets that earlier entries forwarded may still be in flight, in parallel with other work.

use selvedge_sim::Time;

use crate::past::Past;

/// Task: compute how long packets that earlier entries forwarded may still be in flight, and which entries they may
/// use.
#[derive(Clone, Debug)]
pub struct Settle {
    past: Past,
    now: Time,
    /// Number of switches of the fabric.
    pub(crate) switches: u64,
}

impl Settle {
    /// Returns a task on a copy of `past`, for the time `now`, in a fabric with this many switches.
    #[must_use]
    pub const fn new(past: Past, now: Time, switches: usize) -> Self {
        let switches = switches as u64;
        Self { past, now, switches }
    }

    /// Runs the task. Takes some milliseconds in a large fabric.
    pub(crate) fn run(&mut self) -> Past {
        let mut past = std::mem::take(&mut self.past);
        past.settle(self.now);
        past
    }
}
