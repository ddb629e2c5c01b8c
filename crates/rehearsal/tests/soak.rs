//! Simulated disasters, drawn from seeds. `SELVEDGE_SEED=7` runs that one alone and prints what the managers said;
//! `SELVEDGE_SEEDS=2000` runs so many.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod common;

use std::collections::BTreeMap;

use selvedge_rehearsal::Rehearsal;
use selvedge_rehearsal::soak::{Nobody, Observer, Schedule};

const SEEDS: u64 = 200;

/// Prints what happens.
struct Teller;

impl Observer for Teller {
    fn happened(&mut self, world: &Rehearsal, what: &str) {
        println!("{} {what}", world.now());
    }

    fn stepped(&mut self, _world: &Rehearsal) {}
}

#[test]
fn seeds_are_survived() {
    let number = |name: &str| std::env::var(name).ok().map(|s| s.parse::<u64>().unwrap());
    let only = number("SELVEDGE_SEED");
    let first = number("SELVEDGE_FIRST").unwrap_or(1);
    let seeds = only.map_or_else(
        || (first..first + number("SELVEDGE_SEEDS").unwrap_or(SEEDS)).collect(),
        |seed| vec![seed],
    );
    let mut failures: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut exemptions = BTreeMap::new();
    let (mut sets, mut looks) = (0, 0);
    for seed in seeds {
        let schedule = Schedule::draw(seed);
        let fabric = common::fabric(&schedule.fabric);
        let outcome = schedule.run(&fabric, &mut Nobody);
        sets += outcome.sets;
        looks += outcome.looks;
        for (key, count) in outcome.exemptions {
            *exemptions.entry(key).or_insert(0) += count;
        }
        if let Some(failure) = outcome.failure {
            println!("seed {seed} {}: at {} ({} begun): {}", schedule.fabric, failure.at, failure.begun, failure.what);
            if only.is_some() {
                let loader = |spec: &str| Ok(common::fabric(spec));
                let small = schedule.shrink(&loader, 2_000).unwrap();
                println!("{}{}: {}\n", small.schedule, small.runs, small.failure.what);
                let outcome = small.schedule.run(&common::fabric(&small.schedule.fabric), &mut Teller);
                println!("{}", outcome.log);
            }
            failures.entry(failure.code().to_owned()).or_default().push(seed);
        }
    }
    println!("{sets} Sets, {looks} looks");
    for ((checker, rule), count) in exemptions {
        println!("{checker:20} {rule:20} {count}");
    }
    assert!(failures.is_empty(), "{failures:?}");
}
