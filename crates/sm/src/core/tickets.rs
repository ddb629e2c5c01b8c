//! Tickets of jobs.

use selvedge_plan::Generation;
use selvedge_planner::JobId;

/// The newest tickets.
#[derive(Debug)]
pub(super) struct Tickets {
    /// The generation of what was planned last.
    generation: Generation,
    /// The ticket of the last job.
    job: JobId,
}

impl Tickets {
    /// Goes on from a generation that was stored.
    pub(super) const fn new(generation: Generation) -> Self {
        Self {
            generation,
            job: JobId(0),
        }
    }

    /// Returns the generation of what was planned last.
    pub(super) const fn generation(&self) -> Generation {
        self.generation
    }

    /// What is planned from now on is of a new generation.
    pub(super) const fn next_generation(&mut self) {
        self.generation = self.generation.next();
    }

    /// Returns the ticket of a new job.
    pub(super) const fn next_job(&mut self) -> JobId {
        self.job = JobId(self.job.0 + 1);
        self.job
    }
}
