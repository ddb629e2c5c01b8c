//! Simulated disasters: a seed draws a fabric, a policy and a schedule of faults that overlap the managers' work, and
//! checkers run after every Set, fault and timer. A run is deterministic: the same seed, or the same schedule as text,
//! gives the same run.

mod action;
mod broken;
mod change;
mod converge;
mod differences;
mod draw;
mod event;
mod failing;
mod ground;
mod happen;
mod operator;
mod real;
mod resolved;
mod schedule;
mod seats;
mod served;
mod shrink;
mod state;
mod store_faults;
mod totals;
mod wishes;
mod world;

use std::collections::BTreeMap;

use selvedge_fabric::Fabric;
use selvedge_sim::Time;

use crate::clients::DeskDefect;
use crate::{Digests, Exemptions, RehearsalError};

pub use action::{Action, Setting};
pub use broken::Broken;
pub use differences::{Differences, Step, Taker};
pub use draw::HAPPENINGS_MIN;
pub use event::{Happening, Kind, STAGES, When, stage_word};
pub use real::RealOutcome;
pub use resolved::{DigestLine, Resolved};
pub use schedule::{ENGINES, Family, HEADER, RESOLVED_HEADER, Requests, Schedule, ScheduleError, Setup};
pub use shrink::Shrunk;
pub use totals::Totals;
use world::World;
pub use world::{Nobody, Observer};

/// The outcome of a schedule.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The violation that no rule excuses, if a checker found one.
    pub failure: Option<Failure>,
    /// Happenings by kind and the master's stage just then (position in the order of [`selvedge_sm::StageName`]).
    pub coverage: BTreeMap<(Kind, u8), u64>,
    /// Violations that rules excuse, counted.
    pub exemptions: Exemptions,
    /// Number of Sets that agents took.
    pub sets: u64,
    /// Number of runs of the checkers.
    pub looks: u64,
    /// Number of repairs that were planned before the fault: backups.
    pub known: u64,
    /// Calls that disks refused.
    pub store_failures: u64,
    /// Virtual time at the end.
    pub ended: Time,
    /// Digests of the datagrams that managers sent, and of the hardware at each time when all was well.
    pub digests: Digests,
    /// Events of the managers, a line each; filled in on failure only.
    pub log: String,
}

/// The violation that a checker found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The time.
    pub at: Time,
    /// Number of events that had begun.
    pub begun: usize,
    /// The violation; its text begins with its code.
    pub what: String,
}

impl Failure {
    /// Returns the code of the violation. Failures with the same code count as the same failure.
    #[must_use]
    pub fn code(&self) -> &str {
        let after_time = self
            .what
            .split("SLV-REHEARSAL-")
            .filter(|part| !part.starts_with("0005"));
        after_time.last().and_then(|part| part.get(..4)).unwrap_or("")
    }
}

impl Schedule {
    /// Carries out the schedule on its fabric.
    #[must_use]
    pub fn run(&self, fabric: &Fabric, observer: &mut dyn Observer) -> Outcome {
        self.run_with(fabric, (None, None), observer)
    }

    /// Carries out the schedule with managers that have a defect.
    #[must_use]
    pub fn run_broken(&self, fabric: &Fabric, broken: Broken) -> Outcome {
        self.run_with(fabric, (Some(broken), None), &mut Nobody)
    }

    /// Carries out the schedule with administrators that have a defect.
    #[must_use]
    pub fn run_with_desk(&self, fabric: &Fabric, defect: DeskDefect) -> Outcome {
        self.run_with(fabric, (None, Some(defect)), &mut Nobody)
    }

    /// Runs the schedule. Also returns its actions, each with its time.
    #[must_use]
    pub fn resolve(&self, fabric: &Fabric) -> (Outcome, Resolved) {
        let mut nobody = Nobody;
        let mut world = World::new(self, fabric, None, &mut nobody);
        world.give_disks();
        world.keep_actions();
        let result = world.run();
        let resolved = Resolved {
            schedule: Self {
                happenings: Vec::new(),
                ..self.clone()
            },
            actions: world.take_actions(),
        };
        (world.outcome(result), resolved)
    }

    fn run_with(
        &self,
        fabric: &Fabric,
        (broken, desks): (Option<Broken>, Option<DeskDefect>),
        observer: &mut dyn Observer,
    ) -> Outcome {
        let mut world = World::new(self, fabric, broken, observer);
        world.desk_defect = desks;
        world.give_disks();
        let result = world.run();
        world.outcome(result)
    }
}

impl World<'_> {
    /// Returns the outcome of the run.
    fn outcome(&mut self, result: Result<(), RehearsalError>) -> Outcome {
        let rehearsal = &self.rehearsal;
        let failure = result.err().map(|error| Failure {
            at: rehearsal.now(),
            begun: self.record.begun,
            what: describe(&error),
        });
        let (sets, looks) = rehearsal.watched();
        let log = match failure {
            Some(_) => rehearsal.log_text(),
            None => String::new(),
        };
        Outcome {
            failure,
            exemptions: rehearsal.exemptions(),
            sets,
            looks,
            known: rehearsal.counts.known_repairs,
            store_failures: self.store_failures(),
            ended: rehearsal.now(),
            digests: Digests {
                wire: rehearsal.digest(),
                end: self.record.end.0,
            },
            log,
            coverage: std::mem::take(&mut self.record.coverage),
        }
    }
}

fn describe(error: &RehearsalError) -> String {
    error.to_string()
}
