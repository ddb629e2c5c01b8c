//! Works out, beside everything else, for how long packets of earlier entries matter.

use selvedge_sim::Time;

use crate::past::Past;

/// Task: work out for how long packets of earlier entries matter, and by which entries they go.
#[derive(Clone, Debug)]
pub struct Settle {
    past: Past,
    now: Time,
    /// Switches of the fabric.
    pub(crate) switches: u64,
}

impl Settle {
    /// Settles a copy of `past`, for the time `now`, in a fabric of so many switches.
    #[must_use]
    pub const fn new(past: Past, now: Time, switches: usize) -> Self {
        let switches = switches as u64;
        Self { past, now, switches }
    }

    /// Takes some milliseconds in a large fabric.
    pub(crate) fn run(&mut self) -> Past {
        let mut past = std::mem::take(&mut self.past);
        past.settle(self.now);
        past
    }
}
