//! Makes a failing schedule smaller, with fewer events, a smaller fabric and a simpler setup, as long as it fails with
//! the same code.

use selvedge_fabric::Fabric;

use super::schedule::{Requests, Schedule};
use super::{Failure, Nobody};
use crate::FabricLoader;

/// Smaller fabrics to try, smallest first.
const SMALLER: [&str; 10] = [
    "single:ports=8,hosts=3",
    "ring:switches=2,hosts=2",
    "ring:switches=3,hosts=1",
    "karytree:k=2,n=2",
    "ring:switches=4,hosts=1",
    "ring:switches=5,hosts=1",
    "mesh:3x2,hosts=1",
    "torus:3x3,hosts=1",
    "karytree:k=3,n=2",
    "karytree:k=2,n=3",
];

/// A small schedule, and how it fails.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The schedule.
    pub schedule: Schedule,
    /// How the schedule fails.
    pub failure: Failure,
    /// Number of runs that shrinking took.
    pub runs: usize,
}

struct Shrinker<'a> {
    loader: &'a FabricLoader<'a>,
    best: Schedule,
    fabric: Fabric,
    failure: Failure,
    runs: usize,
    runs_max: usize,
}

impl Schedule {
    /// Returns the smallest schedule found that fails with the same code; `None` if this one does not fail. Makes at
    /// most `runs_max` runs: delta debugging over the events, then smaller fabrics, then events again.
    pub fn shrink(&self, loader: &FabricLoader<'_>, runs_max: usize) -> Option<Shrunk> {
        let fabric = loader(&self.fabric).ok()?;
        let failure = self.run(&fabric, &mut Nobody).failure?;
        let mut shrinker = Shrinker {
            loader,
            best: self.clone(),
            fabric,
            failure,
            runs: 1,
            runs_max,
        };
        let begun = shrinker.failure.begun;
        shrinker.attempt(|schedule| schedule.happenings.truncate(begun));
        shrinker.fewer_events();
        shrinker.smaller_fabric();
        shrinker.plainer();
        shrinker.fewer_events();
        Some(Shrunk {
            schedule: shrinker.best,
            failure: shrinker.failure,
            runs: shrinker.runs,
        })
    }
}

impl Shrinker<'_> {
    /// Keeps a change if the schedule still fails with the same code.
    fn attempt(&mut self, change: impl FnOnce(&mut Schedule)) -> bool {
        let mut next = self.best.clone();
        change(&mut next);
        if next == self.best || self.runs >= self.runs_max {
            return false;
        }
        let other = match next.fabric == self.best.fabric {
            true => None,
            false => match (self.loader)(&next.fabric) {
                Ok(fabric) => Some(fabric),
                Err(_) => return false,
            },
        };
        self.runs += 1;
        let failure = next.run(other.as_ref().unwrap_or(&self.fabric), &mut Nobody).failure;
        match failure.filter(|failure| failure.code() == self.failure.code()) {
            Some(failure) => {
                self.failure = failure;
                self.best = next;
                self.fabric = other.unwrap_or_else(|| std::mem::take(&mut self.fabric));
                true
            }
            None => false,
        }
    }

    /// Leaves out half of the events, then a quarter, and so on down to single events.
    fn fewer_events(&mut self) {
        let mut chunk = self.best.happenings.len().div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < self.best.happenings.len() {
                let end = (at + chunk).min(self.best.happenings.len());
                if !self.attempt(|schedule| drop(schedule.happenings.drain(at..end))) {
                    at = end;
                }
            }
            chunk /= 2;
        }
    }

    fn smaller_fabric(&mut self) {
        let size = self.fabric.nodes().len();
        for spec in SMALLER {
            let is_smaller = (self.loader)(spec).is_ok_and(|fabric| fabric.nodes().len() < size);
            if is_smaller && self.attempt(|schedule| spec.clone_into(&mut schedule.fabric)) {
                return;
            }
        }
    }

    fn plainer(&mut self) {
        self.attempt(|schedule| schedule.setup.sa = false);
        self.attempt(|schedule| schedule.setup.store_faults = false);
        self.attempt(|schedule| schedule.setup.changes = false);
        self.attempt(|schedule| schedule.setup.uses_lanes = false);
        self.attempt(|schedule| schedule.setup.backups = false);
        self.attempt(|schedule| (schedule.setup.m_key, schedule.setup.lmc, schedule.setup.lanes) = (0, 0, 1));
        self.attempt(|schedule| schedule.setup.plan_ms = None);
        self.attempt(|schedule| schedule.setup.both = false);
        self.attempt(|schedule| schedule.setup.engine = 0);
        self.attempt(|schedule| {
            let s = &mut schedule.setup;
            (s.sweep_s, s.requests) = (10, Requests::PLAIN);
        });
        for at in 0..self.best.happenings.len() {
            self.attempt(|schedule| {
                *schedule.happenings[at].when.span_mut() = std::time::Duration::ZERO;
            });
        }
    }
}
