//! Jobs of managers under virtual time.

use std::time::Duration;

use selvedge_sim::{Par, Time};
use selvedge_sm::Job;

use super::Pending;

/// What jobs cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    /// Of planning the whole fabric; `None`: its documented virtual cost, as of all others.
    pub plan: Option<Duration>,
    /// None costs anything.
    pub are_free: bool,
}

impl Costs {
    /// The job runs now; its result is there when its virtual cost has passed.
    pub(super) fn run(self, now: Time, mut job: Job) -> (Time, Pending) {
        let cost = match self.are_free {
            true => Some(Duration::ZERO),
            false => self.plan.filter(|_| job.is_whole()),
        };
        let done = now + cost.unwrap_or_else(|| job.virtual_cost());
        let result = Box::new(job.run(Par::Sequential));
        (
            done,
            Pending::Computed {
                generation: job.generation,
                inventory: job.inventory,
                result,
            },
        )
    }
}
