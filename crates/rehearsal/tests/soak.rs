//! Simulated disasters, drawn from seeds, on all processors; and managers with a defect, which the checkers must find.
//!
//! A failure names its seed; `selvedge soak --seeds 7..8 --keep .` makes it small, `selvedge replay --step` walks it.
//! `SELVEDGE_SEEDS=5000` runs so many.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_fabric::Fabric;
use selvedge_rehearsal::soak::{Broken, Kind, Nobody, Outcome, Schedule, Totals};
use selvedge_topology::Spec;

const SEEDS: u64 = 1_000;
/// Seeds within which a defect must be found.
const BROKEN_SEEDS: u64 = 1_000;

fn fabric(schedule: &Schedule) -> Fabric {
    match schedule.fabric.parse::<Spec>().unwrap() {
        Spec::Generated(recipe) => recipe.fabric().unwrap(),
        Spec::File(path) => panic!("{} is a file", path.display()),
    }
}

/// Calls for every number, on all processors.
fn on_all_processors(count: u64, call: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    call(number);
                }
            });
        }
    });
}

#[test]
fn disasters_are_survived() {
    let seeds = std::env::var("SELVEDGE_SEEDS").map_or(SEEDS, |text| text.parse().unwrap());
    let totals = Mutex::new(Totals::default());
    on_all_processors(seeds, |number| {
        let schedule = Schedule::draw(number + 1);
        let outcome: Outcome = schedule.run(&fabric(&schedule), &mut Nobody);
        totals.lock().unwrap().add(&schedule, &outcome);
    });
    let totals = totals.into_inner().unwrap();
    for (seed, failure) in &totals.failures {
        println!("seed {seed}: {}", failure.what);
    }
    assert!(totals.failures.is_empty(), "{} seeds of {seeds} fail", totals.failures.len());
    let kinds: BTreeSet<Kind> = totals.coverage.keys().map(|(kind, ..)| *kind).collect();
    assert!(seeds < SEEDS || kinds.len() == Kind::ALL.len(), "only {kinds:?}");
}

#[test]
fn every_defect_is_found() {
    let missed = Mutex::new(Vec::new());
    on_all_processors(Broken::ALL.len() as u64, |number| {
        let broken = Broken::ALL[usize::try_from(number).unwrap()];
        let found = (1..=BROKEN_SEEDS).find_map(|seed| {
            let schedule = Schedule::draw(seed);
            let fabric = fabric(&schedule);
            let failure = schedule.run_broken(&fabric, broken).failure?;
            // What a sound manager does as well is not the defect's doing.
            let sound = schedule.run(&fabric, &mut Nobody).failure;
            let is_new = sound.is_none_or(|sound| sound.code() != failure.code());
            is_new.then_some((seed, failure))
        });
        match found {
            Some((seed, failure)) => println!("{broken}: seed {seed}: {}", failure.what),
            None => missed.lock().unwrap().push(broken),
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}

/// Prints which codes each defect leads to: `cargo test … -- --ignored --nocapture what_defects_lead_to`.
#[test]
#[ignore]
fn what_defects_lead_to() {
    on_all_processors(Broken::ALL.len() as u64, |number| {
        let broken = Broken::ALL[usize::try_from(number).unwrap()];
        let mut codes: std::collections::BTreeMap<String, Vec<u64>> = std::collections::BTreeMap::new();
        for seed in 1..=150 {
            let schedule = Schedule::draw(seed);
            if let Some(failure) = schedule.run_broken(&fabric(&schedule), broken).failure {
                codes.entry(failure.code().to_owned()).or_default().push(seed);
            }
        }
        let codes: Vec<String> = codes.iter().map(|(c, s)| format!("{c}:{} ({})", s.len(), s[0])).collect();
        println!("{broken}: {codes:?}");
    });
}

#[test]
fn a_seed_is_a_run() {
    for seed in [3, 11] {
        let schedule = Schedule::draw(seed);
        let again: Schedule = schedule.to_string().parse().unwrap();
        let run = |schedule: &Schedule| schedule.run(&fabric(schedule), &mut Nobody);
        let (first, second) = (run(&schedule), run(&again));
        assert_eq!((first.digest, first.looks), (second.digest, second.looks), "seed {seed}");
    }
}
