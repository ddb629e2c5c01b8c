//! How many faults in a row a fabric stands when nothing is repaired.

use selvedge_api::{InPlace, InPlaceRun};
use selvedge_routing::{Options, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_verify::{ContentionOptions, Subject, contention};
use std::sync::Arc;

use crate::backups::faults::Damaged;
use crate::backups::tried::{InForce, Judged};
use crate::backups::{InPlaceArgs, MeasureArg};

/// Steps of a whole run: lost links are added a hundredth of all links at a time, then the step that was too much is
/// halved.
const STEPS: usize = 100;

/// How a fabric with some links lost does.
enum State {
    /// The measure, as a share of the whole fabric's.
    Works(f64, Routed),
    /// Hosts do not reach each other, or may wait for each other for ever.
    CutOff,
    /// The engine makes no tables.
    Refused,
}

/// All runs, one after another in each thread. `done` is called after each.
pub fn in_place(force: &InForce<'_>, args: &InPlaceArgs, below: f64, done: &(dyn Fn() + Sync)) -> InPlace {
    let seeds: Vec<u64> = (args.seed..args.seed.saturating_add(args.orders)).collect();
    let whole = measure(force, &Damaged::new(force.fabric), &force.routed, args);
    let runs = Par::Rayon.map(seeds.len(), |i| {
        let run = Run {
            force,
            args,
            below,
            whole,
        }
        .one(seeds[i]);
        done();
        run
    });
    let mut counts: Vec<u64> = runs.iter().map(|run| run.faults).collect();
    counts.sort_unstable();
    let at = |percent: usize| counts.get(counts.len() * percent / 100).copied().unwrap_or(0);
    InPlace {
        measure: args.measure.name().to_owned(),
        below,
        mean: counts.iter().sum::<u64>() as f64 / counts.len().max(1) as f64,
        percentile_10: at(10),
        median: at(50),
        percentile_90: at(90),
        runs,
    }
}

struct Run<'a> {
    force: &'a InForce<'a>,
    args: &'a InPlaceArgs,
    below: f64,
    whole: f64,
}

impl Run<'_> {
    fn one(&self, seed: u64) -> InPlaceRun {
        let mut order = self.force.links.clone();
        Seed(seed).child("fail-in-place").rng().shuffle(&mut order);
        let mut run = InPlaceRun {
            seed,
            steps: vec![(0, 1.0)],
            ..InPlaceRun::default()
        };
        let mut damaged = Damaged::new(self.force.fabric);
        let mut routed = self.force.routed.clone();
        let mut stood = 0;
        let mut step = (order.len() / STEPS).max(1);
        // The least number that was too much.
        let mut too_many = order.len() + 1;
        while stood + 1 < too_many {
            let next = (stood + step).min(too_many - 1);
            damaged.mend();
            damaged.lose(&order[..next]);
            let end = match self.state(&damaged, &routed) {
                State::Works(share, tables) => {
                    run.steps.push((next as u64, share));
                    if share >= self.below {
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
        run
    }

    /// Repairs the tables in force and has them judged.
    fn state(&self, damaged: &Damaged, in_force: &Routed) -> State {
        let force = self.force;
        let mut options = Options {
            previous: Some(Arc::new(in_force.tables.clone())),
            ..force.options.clone()
        };
        options.weave.previous_levels = Some(Arc::new(in_force.service_levels.clone()));
        let routed = force
            .engine
            .route(&damaged.fabric, force.lids, &options, Seed(0), Par::Sequential);
        let Ok(routed) = routed else { return State::Refused };
        let verdict = force.judge(&damaged.fabric, &routed, Par::Sequential);
        let judged = Judged::from(&verdict);
        if judged.reached < verdict.figures.host_pairs || !judged.deadlock_free {
            return State::CutOff;
        }
        let share = match self.args.measure {
            MeasureArg::Ebb => measure(force, damaged, &routed, self.args) / self.whole,
            MeasureArg::Load => self.whole / judged.max_load.max(1) as f64,
        };
        State::Works(share, routed)
    }
}

/// Effective bisection bandwidth, or pairs on the busiest link.
fn measure(force: &InForce<'_>, damaged: &Damaged, routed: &Routed, args: &InPlaceArgs) -> f64 {
    match args.measure {
        MeasureArg::Load => Judged::from(&force.judge(&damaged.fabric, routed, Par::Sequential)).max_load as f64,
        MeasureArg::Ebb => {
            let subject = Subject::tables(
                &damaged.fabric,
                force.lids,
                &routed.tables,
                &routed.service_levels,
                &force.sl_to_vl,
            );
            let options = ContentionOptions {
                par: Par::Sequential,
                pairings: args.pairings,
                shift_pairs_max: 0,
                ..ContentionOptions::default()
            };
            contention(subject, &options).bisection.mean
        }
    }
}
