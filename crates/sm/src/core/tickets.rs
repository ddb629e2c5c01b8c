//! The ticket of each job and the generation of each plan: numbers that only increase.

use selvedge_plan::Generation;
use selvedge_planner::JobId;

/// The ticket of the newest job, and the generation of the newest plan.
#[derive(Debug)]
pub(super) struct Tickets {
    /// The generation of the last plan.
    generation: Generation,
    /// The ticket of the last job.
    job: JobId,
}

impl Tickets {
    /// Continues from a stored generation.
    pub(super) const fn new(generation: Generation) -> Self {
        Self {
            generation,
            job: JobId(0),
        }
    }

    /// Returns the generation of the last plan.
    pub(super) const fn generation(&self) -> Generation {
        self.generation
    }

    /// Begins a new generation; the next plan gets its number.
    pub(super) const fn next_generation(&mut self) {
        self.generation = self.generation.next();
    }

    /// Returns the ticket of a new job.
    pub(super) const fn next_job(&mut self) -> JobId {
        self.job = JobId(self.job.0 + 1);
        self.job
    }
}
