//! Jobs of managers under virtual time.

use std::time::Duration;

use selvedge_sim::{Par, Time};
use selvedge_sm::Job;

use super::Pending;

/// The job runs now; its result is there when its virtual cost has passed.
pub(super) fn compute(now: Time, mut job: Job, cost: Option<Duration>) -> (Time, Pending) {
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
