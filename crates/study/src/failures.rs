//! How many links can be lost, one after another and without being restored, before performance falls below a share of
//! that of the whole fabric. After each loss the routes are repaired.

use std::sync::Arc;

use selvedge_api::{InPlace, InPlaceRun};
use selvedge_routing::{Note, Options, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_verify::{ContentionOptions, Subject, contention};

use crate::damage::Damaged;
use crate::error::StudyError;
use crate::in_force::{InForce, Judged};
use crate::threads::Threads;
use crate::watch::{Reporter, Stage, Watch};

pub use crate::in_force::Start;

/// Number of steps of a whole run. Lost links are added in steps of a hundredth of all links. If performance is too low
/// after a step, a step of half the size is tried instead.
const STEPS: usize = 100;

/// The state of a fabric with some links lost.
enum State {
    /// The fabric works: the measure, as a share of that of the whole fabric.
    Works(f64, Routed),
    /// Some hosts do not reach each other, or there is a credit loop.
    CutOff,
    /// The engine makes no tables.
    Refused,
}

/// How many lost links can a fabric have before performance is too low?
#[derive(Clone, Debug)]
pub struct Question {
    /// The fabric, and its routing in force.
    pub start: Start,
    /// How links are lost, and which measure counts.
    pub how: How,
    /// Threads to use.
    pub threads: Threads,
}

/// How links are lost, and which measure counts.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// A run ends when performance falls below this share of that of the whole fabric, 0 to 1.
    pub below: f64,
    /// The measure of performance.
    pub measure: Measure,
    /// Random orders of the links.
    pub orders: u64,
    /// Seed of the first order; the others have the seeds that follow.
    pub seed: u64,
}

/// The measure of performance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Effective bisection bandwidth over a number of random pairings.
    Ebb {
        /// Pairings.
        pairings: u32,
    },
    /// Inverse of the host pairs on the busiest link.
    Load,
}

/// The number of lost links before performance is too low.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Every order of links, and their mean and percentiles.
    pub in_place: InPlace,
    /// Notes of the engine that made the tables in force.
    pub notes: Vec<Note>,
}

impl Measure {
    /// Returns the name of the measure in answers: `ebb` or `load`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ebb { .. } => "ebb",
            Self::Load => "load",
        }
    }
}

impl Question {
    /// Loses links in random order until performance is too low. Progress counts random orders.
    ///
    /// # Errors
    ///
    /// The study is cancelled, or the engine refuses the whole fabric.
    pub fn answer(&self, watch: &dyn Watch) -> Result<Answer, StudyError> {
        let reporter = Reporter::new(watch, Stage::Routing(self.start.engine), self.how.orders);
        let (force, notes) = self.start.in_force(self.threads, &reporter)?;
        let in_place = in_place(&force, &self.how, self.threads, &reporter)?;
        Ok(Answer { in_place, notes })
    }
}

/// Tries all orders of links, on several threads.
pub(crate) fn in_place(
    force: &InForce,
    how: &How,
    threads: Threads,
    reporter: &Reporter<'_>,
) -> Result<InPlace, StudyError> {
    reporter.begin(Stage::InARow)?;
    let seeds: Vec<u64> = (how.seed..how.seed.saturating_add(how.orders)).collect();
    let whole = measure(force, &Damaged::new(&force.fabric), &force.routed, how.measure);
    let run = Run {
        force,
        how,
        whole,
        reporter,
    };
    let runs = threads.par().map(seeds.len(), |i| {
        let found = run.one(seeds[i])?;
        reporter.done();
        Ok(found)
    });
    let runs: Vec<InPlaceRun> = runs.into_iter().collect::<Result<_, StudyError>>()?;
    let mut counts: Vec<u64> = runs.iter().map(|run| run.faults).collect();
    counts.sort_unstable();
    let at = |percent: usize| counts.get(counts.len() * percent / 100).copied().unwrap_or(0);
    Ok(InPlace {
        measure: how.measure.name().to_owned(),
        below: how.below,
        mean: counts.iter().sum::<u64>() as f64 / counts.len().max(1) as f64,
        percentile_10: at(10),
        median: at(50),
        percentile_90: at(90),
        runs,
    })
}

struct Run<'a> {
    force: &'a InForce,
    how: &'a How,
    /// Performance of the whole fabric, in the unit of the measure.
    whole: f64,
    reporter: &'a Reporter<'a>,
}

impl Run<'_> {
    fn one(&self, seed: u64) -> Result<InPlaceRun, StudyError> {
        let mut order = self.force.links.clone();
        Seed(seed).child("fail-in-place").rng().shuffle(&mut order);
        let mut run = InPlaceRun {
            seed,
            steps: vec![(0, 1.0)],
            ..InPlaceRun::default()
        };
        let mut damaged = Damaged::new(&self.force.fabric);
        let mut routed = self.force.routed.clone();
        let mut stood = 0;
        let mut step = (order.len() / STEPS).max(1);
        // The least number that was too much.
        let mut too_many = order.len() + 1;
        while stood + 1 < too_many {
            self.reporter.check()?;
            let next = (stood + step).min(too_many - 1);
            damaged.mend();
            damaged.lose(&order[..next]);
            let end = match self.state(&damaged, &routed) {
                State::Works(share, tables) => {
                    run.steps.push((next as u64, share));
                    if share >= self.how.below {
                        (stood, routed) = (next, tables);
                        continue;
                    }
                    "slow"
                }
                State::CutOff => "cut off",
                State::Refused => "refused",
            };
            run.end = end.to_owned();
            too_many = next;
            step = (step / 2).max(1).min(((too_many - stood) / 2).max(1));
        }
        if run.end.is_empty() {
            run.end = "all links".to_owned();
        }
        run.faults = stood as u64;
        run.steps.sort_by_key(|step| step.0);
        Ok(run)
    }

    /// Repairs the tables in force, and has the result judged.
    fn state(&self, damaged: &Damaged, in_force: &Routed) -> State {
        let force = self.force;
        let mut options = Options {
            previous: Some(Arc::new(in_force.tables.clone())),
            ..force.options.clone()
        };
        options.weave.previous_levels = Some(Arc::new(in_force.service_levels.clone()));
        let routed = force
            .engine
            .route(&damaged.fabric, &force.lids, &options, Seed(0), Par::Sequential);
        let Ok(routed) = routed else { return State::Refused };
        let verdict = force.judge(&damaged.fabric, &routed, Par::Sequential);
        let judged = Judged::from(&verdict);
        if judged.reached < verdict.figures.host_pairs || !judged.deadlock_free {
            return State::CutOff;
        }
        let share = match self.how.measure {
            Measure::Ebb { .. } => measure(force, damaged, &routed, self.how.measure) / self.whole,
            Measure::Load => self.whole / judged.max_load.max(1) as f64,
        };
        State::Works(share, routed)
    }
}

/// Returns the effective bisection bandwidth, or the pairs on the busiest link.
fn measure(force: &InForce, damaged: &Damaged, routed: &Routed, of: Measure) -> f64 {
    match of {
        Measure::Load => Judged::from(&force.judge(&damaged.fabric, routed, Par::Sequential)).max_load as f64,
        Measure::Ebb { pairings } => {
            let subject = Subject::tables(
                &damaged.fabric,
                &force.lids,
                &routed.tables,
                &routed.service_levels,
                &force.sl_to_vl,
            );
            let options = ContentionOptions {
                par: Par::Sequential,
                pairings,
                shift_pairs_max: 0,
                ..ContentionOptions::default()
            };
            contention(subject, &options).bisection.mean
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::start;
    use crate::watch::NoWatch;
    use crate::watch::tests::Recorded;
    use selvedge_routing::Engine;

    fn question(spec: &str, measure: Measure, threads: usize) -> Question {
        Question {
            start: start(spec, Engine::UpDn),
            how: How {
                below: 0.5,
                measure,
                orders: 6,
                seed: 3,
            },
            threads: Threads::new(threads),
        }
    }

    #[test]
    fn one_answer_on_any_number_of_threads() {
        for measure in [Measure::Load, Measure::Ebb { pairings: 20 }] {
            let [one, four] = [1, 4].map(|threads| {
                let watch = Recorded::default();
                let answer = question("karytree:k=3,n=2", measure, threads).answer(&watch).unwrap();
                assert_eq!(watch.whole_way(), ["updn: routing", "in a row"]);
                answer.in_place
            });
            assert_eq!(one, four);
            let seeds: Vec<u64> = one.runs.iter().map(|run| run.seed).collect();
            assert_eq!((one.measure.as_str(), seeds), (measure.name(), (3..9).collect()));
        }
    }

    #[test]
    fn a_chain_stands_no_lost_link_and_a_ring_one() {
        let check = |spec: &str, want: u64| {
            let answer = question(spec, Measure::Load, 1).answer(&NoWatch).unwrap().in_place;
            assert_eq!(
                (answer.percentile_10, answer.percentile_90),
                (want, want),
                "{spec}: {answer:?}"
            );
            assert!(answer.runs.iter().all(|run| run.end == "cut off"));
        };
        check("mesh:3x1,hosts=2", 0);
        check("ring:switches=3,hosts=1", 1);
    }

    #[test]
    fn a_cancelled_study_has_no_answer() {
        for units in [0, 2] {
            let watch = Recorded::cancelling_at(units);
            let error = question("karytree:k=3,n=2", Measure::Load, 1)
                .answer(&watch)
                .unwrap_err();
            assert_eq!(error, StudyError::Cancelled);
            assert_eq!(watch.reports().last().map_or(0, |last| last.done), units);
        }
    }
}
