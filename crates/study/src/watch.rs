//! The caller's view of a study at work: progress, and the wish to cancel.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use selvedge_routing::Engine;

use crate::error::StudyError;

/// Receives the progress of a study, and can cancel it. Every study takes such a value. Its methods may be called from
/// several threads, but [`progress`](Self::progress) by one thread at a time.
pub trait Watch: Sync {
    /// Called when a stage begins, and after each unit of work. `done` never decreases.
    fn progress(&self, progress: &Progress);

    /// Returns true if the answer is not wanted any more. The study then returns [`StudyError::Cancelled`] before its
    /// next piece of work.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Follows nothing and never cancels.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWatch;

impl Watch for NoWatch {
    fn progress(&self, _: &Progress) {}
}

/// Progress of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current stage.
    pub stage: Stage,
    /// Units of work done, over all stages.
    pub done: u64,
    /// Units of work in all; what a unit is depends on the study.
    pub total: u64,
}

/// The stage of a study. `Display` writes it as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// An engine makes tables.
    Routing(Engine),
    /// The judge proves tables of an engine.
    Judging(Engine),
    /// Shifts, pairings and stretch are measured with tables of an engine.
    Contention(Engine),
    /// Single faults are tried. Unit of work: a fault.
    SingleFaults,
    /// Alternate paths are examined. Unit of work: 512 pairs of hosts.
    Alternates,
    /// Links are lost in a row. Unit of work: a random order of links.
    InARow,
    /// The steps of a transition are planned.
    Steps,
    /// The judge proves the steps of a transition.
    Proof,
    /// The costs of managers are predicted. Unit of work: a manager.
    Model,
    /// Packets move. Unit of work: a simulated nanosecond.
    Simulating,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Routing(engine) => write!(f, "{}: routing", engine.name()),
            Self::Judging(engine) => write!(f, "{}: judging", engine.name()),
            Self::Contention(engine) => write!(f, "{}: contention", engine.name()),
            Self::SingleFaults => f.write_str("single faults"),
            Self::Alternates => f.write_str("alternate paths"),
            Self::InARow => f.write_str("in a row"),
            Self::Steps => f.write_str("steps"),
            Self::Proof => f.write_str("proof"),
            Self::Model => f.write_str("model"),
            Self::Simulating => f.write_str("simulating"),
        }
    }
}

/// Counts the work of one study and reports it. Threads share it.
pub(crate) struct Reporter<'w> {
    watch: &'w dyn Watch,
    progress: Mutex<Progress>,
}

impl<'w> Reporter<'w> {
    /// Starts with nothing done; reports nothing yet.
    pub(crate) fn new(watch: &'w dyn Watch, stage: Stage, total: u64) -> Self {
        let progress = Mutex::new(Progress { stage, done: 0, total });
        Self { watch, progress }
    }

    /// Returns an error if the study is cancelled.
    pub(crate) fn check(&self) -> Result<(), StudyError> {
        match self.watch.is_cancelled() {
            true => Err(StudyError::Cancelled),
            false => Ok(()),
        }
    }

    /// Begins a stage, unless the study is cancelled.
    pub(crate) fn begin(&self, stage: Stage) -> Result<(), StudyError> {
        self.check()?;
        self.change(|progress| progress.stage = stage);
        Ok(())
    }

    /// Counts one unit of work.
    pub(crate) fn done(&self) {
        self.change(|progress| progress.done += 1);
    }

    /// Records that this number of units of work is done.
    pub(crate) fn reach(&self, done: u64) {
        self.change(|progress| progress.done = progress.done.max(done));
    }

    /// Reports while the lock is held, so that reports of threads arrive in order.
    fn change(&self, change: impl FnOnce(&mut Progress)) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut progress);
        self.watch.progress(&progress);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Records reports, and cancels once `cancel_at` units of work are done.
    #[derive(Default)]
    pub(crate) struct Recorded {
        pub(crate) reports: Mutex<Vec<Progress>>,
        pub(crate) cancel_at: Option<u64>,
    }

    impl Recorded {
        /// Cancels once this number of units of work is done.
        pub(crate) fn cancelling_at(units: u64) -> Self {
            Self {
                cancel_at: Some(units),
                ..Self::default()
            }
        }

        /// Returns the reports so far.
        pub(crate) fn reports(&self) -> Vec<Progress> {
            self.reports.lock().unwrap().clone()
        }

        /// Asserts that the work goes from 0 to its total without a step back or a gap. Returns the stages in order.
        pub(crate) fn whole_way(&self) -> Vec<String> {
            let reports = self.reports();
            assert!(!reports.is_empty());
            assert!(
                reports.windows(2).all(|two| two[1].done - two[0].done <= 1),
                "{reports:?}"
            );
            assert!(reports.iter().all(|report| report.total == reports[0].total));
            let (first, last) = (reports[0], reports[reports.len() - 1]);
            assert_eq!((first.done, last.done), (0, last.total), "{reports:?}");
            let mut stages: Vec<String> = reports.iter().map(|report| report.stage.to_string()).collect();
            stages.dedup();
            stages
        }
    }

    impl Watch for Recorded {
        fn progress(&self, progress: &Progress) {
            self.reports.lock().unwrap().push(*progress);
        }

        fn is_cancelled(&self) -> bool {
            let done = self.reports.lock().unwrap().last().map_or(0, |last| last.done);
            self.cancel_at.is_some_and(|at| done >= at)
        }
    }

    #[test]
    fn reports_arrive_in_order_from_many_threads() {
        let watch = Recorded::default();
        let reporter = Reporter::new(&watch, Stage::SingleFaults, 400);
        reporter.begin(Stage::SingleFaults).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| reporter.done()));
            }
        });
        assert_eq!(watch.whole_way(), ["single faults"]);
        let done: Vec<u64> = watch.reports().iter().map(|report| report.done).collect();
        assert_eq!(done, (0..=400).collect::<Vec<u64>>());
    }

    #[test]
    fn a_cancelled_study_begins_no_stage() {
        let watch = Recorded::cancelling_at(1);
        let reporter = Reporter::new(&watch, Stage::SingleFaults, 2);
        assert_eq!(reporter.begin(Stage::SingleFaults), Ok(()));
        reporter.done();
        assert_eq!(reporter.check(), Err(StudyError::Cancelled));
        assert_eq!(reporter.begin(Stage::InARow), Err(StudyError::Cancelled));
        assert!(watch.reports().iter().all(|report| report.stage == Stage::SingleFaults));
    }
}
