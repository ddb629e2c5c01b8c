//! Beyond the paper: twenty jobs of three classes on 324 hosts, and a storm from one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::sync::Arc;

use selvedge_plan::Policy;
use selvedge_planner::lid;
use selvedge_routing::Engine;
use selvedge_sim::Seed;
use selvedge_study::storm::{Answer, CLASSES, Outcome, Question};
use selvedge_topology::Spec;

use super::statements::claim;
use super::unusable;
use crate::claims::Claim;
use crate::error::BenchError;

/// The fabric.
pub const FABRIC: &str = "sx6536";
/// Jobs beside the storm and its rival: twenty in all.
pub const JOBS: u32 = 18;
/// Seeds of hosts and times of jobs.
pub const SEEDS: RangeInclusive<u64> = 1..=5;
/// Points of share by which a promise may be missed.
const SLACK: f64 = 2.0;
const PS_PER_US: f64 = 1e6;

/// Simulates the jobs of each seed, with and without quality of service.
pub fn measure(spec: &str, jobs: u32, seeds: RangeInclusive<u64>) -> Result<Vec<(u64, Answer)>, BenchError> {
    let Spec::Generated(recipe) = spec.parse()? else {
        return Err(unusable(spec, "no generator"));
    };
    let fabric = recipe.fabric()?;
    let (known, taken) = (BTreeMap::new(), BTreeSet::new());
    let lids = lid::assign(&fabric, &Policy::default(), &known, &taken, &mut Vec::new());
    let lids = lids.map_err(|error| unusable(spec, error))?;
    let mut question = Question {
        fabric: Arc::new(fabric),
        lids: Arc::new(lids),
        engine: Engine::FatTree,
        jobs,
        seed: Seed(0),
    };
    let mut answers = Vec::new();
    for seed in seeds {
        question.seed = Seed(seed);
        let answer = question.answer().map_err(|error| unusable(spec, error))?;
        answers.push((seed, answer));
    }
    Ok(answers)
}

/// Returns comma-separated values: a row for each seed and class.
pub fn table(answers: &[(u64, Answer)]) -> String {
    let mut text = "seed,class,promised_percent,share_percent,victims_messages,p50_us,\
                    p50_without_qos_us,p99_us,p99_without_qos_us\n"
        .to_owned();
    for (seed, answer) in answers {
        for (at, class) in CLASSES.iter().enumerate() {
            let (with, without) = (&answer.with[at], &answer.without[at]);
            let promised = answer.promised[at].map_or_else(String::new, |share| share.to_string());
            let us = |ps: u64| ps as f64 / PS_PER_US;
            // Writing to a text cannot fail.
            let _ = writeln!(
                text,
                "{seed},{class},{promised},{:.2},{},{:.2},{:.2},{:.2},{:.2}",
                answer.shares[at],
                with.messages,
                us(with.p50),
                us(without.p50),
                us(with.p99),
                us(without.p99),
            );
        }
    }
    text
}

/// Returns promises and waits as statements.
pub fn claims(answers: &[(u64, Answer)]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for at in [1, 2] {
        let missing = |answer: &Answer| f64::from(answer.promised[at].unwrap_or(0)) - answer.shares[at];
        let promised = answers.first().and_then(|(_, answer)| answer.promised[at]).unwrap_or(0);
        let lowest = answers
            .iter()
            .map(|(_, answer)| answer.shares[at])
            .fold(f64::NAN, f64::min);
        claims.push(claim(
            &format!("{FABRIC}, {JOBS} + 2 jobs, a storm: share of class {}", CLASSES[at]),
            &format!("beyond: {promised} % promised"),
            format!("{lowest:.1} % or more"),
            "predicted",
            !answers.is_empty() && answers.iter().all(|(_, answer)| missing(answer) <= SLACK),
        ));
    }
    for at in [0, 1] {
        let worst = |of: fn(&Answer) -> &[Outcome; 3]| {
            let all = answers.iter().map(|(_, answer)| of(answer)[at].p99);
            all.max().unwrap_or(0) as f64 / PS_PER_US
        };
        let (with, without) = (worst(|answer| &answer.with), worst(|answer| &answer.without));
        claims.push(claim(
            &format!("the same: p99 of victims of class {}", CLASSES[at]),
            "beyond: lower than without QoS",
            format!("{with:.1} µs, {without:.1} µs without"),
            "predicted",
            with > 0.0
                && answers
                    .iter()
                    .all(|(_, answer)| answer.with[at].p99 < answer.without[at].p99),
        ));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_simulated_is_a_miss_and_broken_promises_are_seen() {
        assert!(claims(&[]).iter().all(|claim| !claim.is_met));
        let outcome = |p99| Outcome {
            messages: 1,
            p50: 1,
            p99,
            late: 0,
        };
        let answer = |mpi: f64, p99| Answer {
            promised: [None, Some(60), Some(40)],
            shares: [1.0, mpi, 100.0 - mpi],
            with: [outcome(p99), outcome(p99), outcome(1)],
            without: [outcome(500), outcome(500), outcome(1)],
        };
        let met = |answer| -> Vec<bool> { claims(&[(1, answer)]).iter().map(|claim| claim.is_met).collect() };
        assert_eq!(met(answer(60.5, 100)), [true, true, true, true]);
        assert_eq!(met(answer(57.9, 100)), [false, true, true, true]);
        assert_eq!(met(answer(63.0, 500)), [true, false, false, false]);
        assert_eq!(table(&[(1, answer(60.5, 100))]).lines().count(), 1 + 3);
    }
}
