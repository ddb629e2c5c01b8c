//! Runs the missing runs, several at a time.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::ResultsError;
use crate::file::Experiment;
use crate::matrix::Run;
use crate::results::{Outcome, ResultsFile};

/// Carries out one run.
pub trait Runner: Sync {
    /// Returns the figures of a run, or why it is not possible. The same run gives the same figures, except for
    /// measured times.
    fn run(&self, run: &Run) -> Outcome;
}

impl<F: Fn(&Run) -> Outcome + Sync> Runner for F {
    fn run(&self, run: &Run) -> Outcome {
        self(run)
    }
}

/// Progress of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of runs with a result, including results of earlier processes.
    pub done: usize,
    /// Number of runs that were already done.
    pub before: usize,
    /// All runs.
    pub total: usize,
}

/// Does all runs without a result, on `jobs` threads. Returns their number. `shown` is called after every run.
pub fn run(
    experiment: &Experiment,
    runner: &impl Runner,
    results: &mut ResultsFile,
    jobs: NonZeroUsize,
    shown: &(dyn Fn(Progress) + Sync),
) -> Result<usize, ResultsError> {
    let all: Vec<Run> = experiment.runs().collect();
    let total = all.len();
    let missing: Vec<Run> = all.into_iter().filter(|run| results.get(run).is_none()).collect();
    let before = total - missing.len();
    let done = before;
    shown(Progress { done, before, total });
    let next = AtomicUsize::new(0);
    let shared = Mutex::new((results, done, None));
    let work = || {
        while let Some(run) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = runner.run(run);
            // A thread that panicked has ended the whole experiment.
            let Ok(mut guard) = shared.lock() else { return };
            let (results, done, failed) = &mut *guard;
            if failed.is_some() {
                return;
            }
            match results.add(run, outcome) {
                Ok(()) => *done += 1,
                Err(error) => *failed = Some(error),
            }
            let done = *done;
            drop(guard);
            shown(Progress { done, before, total });
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(missing.len()) {
            scope.spawn(work);
        }
    });
    match shared.into_inner() {
        Ok((_, _, Some(error))) => Err(error),
        Ok((_, done, None)) => Ok(done - before),
        Err(_) => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::schema::tests::schema;

    #[test]
    fn every_run_is_done_once() {
        let text = "seeds = \"1-5\"\n[vary]\nvls = [1, 2, 4]\n";
        let experiment = Experiment::parse(text, &schema()).unwrap();
        let path = std::env::temp_dir().join(format!("selvedge-experiment-{}-once", std::process::id()));
        let _ = fs::remove_file(&path);
        let calls = AtomicUsize::new(0);
        let runner = |run: &Run| {
            calls.fetch_add(1, Ordering::Relaxed);
            match run.seed {
                3 => Outcome::Refused("three".to_owned()),
                seed => Outcome::Figures([("seed".to_owned(), seed.into())].into_iter().collect()),
            }
        };
        let jobs = NonZeroUsize::new(3).unwrap();
        for (jobs, want) in [(jobs, 15), (NonZeroUsize::MIN, 0)] {
            let mut results = ResultsFile::open(&path, "me").unwrap();
            let last = Mutex::new(0);
            let shown = |progress: Progress| {
                let mut last = last.lock().unwrap();
                *last = progress.done.max(*last);
                assert_eq!(progress.total, 15);
            };
            assert_eq!(run(&experiment, &runner, &mut results, jobs, &shown).unwrap(), want);
            assert_eq!(*last.lock().unwrap(), 15);
            assert!(experiment.runs().all(|run| results.get(&run).is_some()));
        }
        assert_eq!(calls.into_inner(), 15);
        fs::remove_file(path).unwrap();
    }
}
