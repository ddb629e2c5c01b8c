//! Simulated disasters, drawn from seeds, on all processors; and managers with a defect, which the checkers must find.
//!
//! A failure names its seed; `selvedge soak --seeds 7..8 --keep .` makes it small, `selvedge replay --step` walks it.
//! `SELVEDGE_SEEDS=5000` runs so many.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_fabric::Fabric;
use selvedge_rehearsal::soak::{Broken, Kind, Nobody, Outcome, Schedule, Totals};
use selvedge_topology::Spec;

const SEEDS: u64 = 1_000;
/// Defects of the manager that are known: the code of what a checker finds, and in how many of 1,000 seeds at most.
/// Each is wrong and is to go; docs/soak.md says what it is. A new code, or more of an old one, fails.
const KNOWN: [(&str, usize); 5] = [("0102", 9), ("0106", 2), ("0107", 6), ("0110", 4), ("0114", 72)];
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
    let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
    for failure in totals.failures.values() {
        *codes.entry(failure.code()).or_default() += 1;
    }
    for (code, count) in codes {
        let most = KNOWN
            .iter()
            .find(|(known, _)| *known == code)
            .map_or(0, |(_, most)| *most);
        let most = most * usize::try_from(seeds.div_ceil(SEEDS)).unwrap();
        assert!(
            count <= most,
            "SLV-REHEARSAL-{code} in {count} of {seeds} seeds, known are {most}"
        );
    }
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

#[test]
fn a_seed_is_a_run() {
    for seed in [3, 11] {
        let schedule = Schedule::draw(seed);
        let again: Schedule = schedule.to_string().parse().unwrap();
        let run = |schedule: &Schedule| schedule.run(&fabric(schedule), &mut Nobody);
        let (first, second) = (run(&schedule), run(&again));
        assert_eq!(
            (first.digest, first.looks),
            (second.digest, second.looks),
            "seed {seed}"
        );
    }
}
