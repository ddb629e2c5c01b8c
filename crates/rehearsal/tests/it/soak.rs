//! Simulated disasters, drawn from seeds, on all processors; and managers with a defect, which the checkers must find.
//!
//! A failure names its seed; `selvedge soak --seeds 7..8 --keep .` makes it small, `selvedge replay --step` shows it
//! step by step. `SELVEDGE_SEEDS=5000` runs that number.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_fabric::Fabric;
use selvedge_rehearsal::Rehearsal;
use selvedge_rehearsal::clients::DeskDefect;
use selvedge_rehearsal::soak::{Broken, Failure, Kind, Nobody, Observer, Outcome, Resolved, Schedule, Totals};
use selvedge_topology::Spec;

const SEEDS: u64 = 1_000;
/// Known defects of the manager: the code of the violation, and the largest number of seeds in 1,000 that may show it.
/// docs/soak.md explains each. A new code, or more of an old one, fails.
const KNOWN: [(&str, usize); 0] = [];
/// Codes of violations that a defect leads to. 0109 is missing, because it appears inside a 0114.
const CHECKERS: [&str; 19] = [
    "0101", "0102", "0103", "0104", "0105", "0106", "0107", "0108", "0110", "0111", "0112", "0113", "0114", "0115",
    "0116", "0117", "0118", "0126", "0127",
];
/// Seeds within which a defect must be found.
const BROKEN_SEEDS: u64 = 1_000;

fn fabric(schedule: &Schedule) -> Fabric {
    match schedule.fabric.parse::<Spec>().unwrap() {
        Spec::Generated(recipe) => recipe.fabric().unwrap(),
        Spec::File(path) => panic!("{} is a file", path.display()),
    }
}

/// Calls for every number, on all processors.
pub fn on_all_processors(count: u64, call: impl Fn(u64) + Sync) {
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

/// Seeds with clients of subnet administration that run in `make test`.
const SA_SEEDS: u64 = 200;

/// The events and the hosts' messages, for `SELVEDGE_SEED`.
#[derive(Default)]
struct Story(Vec<String>);

impl Observer for Story {
    fn happened(&mut self, world: &Rehearsal, what: &str) {
        self.0.push(format!("{} {what}", world.now()));
    }

    fn stepped(&mut self, _world: &Rehearsal) {}
}

/// Seeds above [`SA_SEEDS`] that failed once: hosts on one cable, with no switch between; a switch that did not get its
/// multicast table was left out for a minute; the masters of two joined subnets had the same LID; the master waited for
/// a standby without a copy; the checker knew only the last of the LIDs that a port had left; a withdrawn plan counted
/// against a manager that had read the port since; a new manager took a flipped bit for a foreign M_Key; a host was
/// back before the plan without it was in force, and no subscriber got a Report. crates/rehearsal/tests/seeds.md has a
/// line for each.
const SA_FOUND: [u64; 44] = [
    309, 636, 935, 1364, 1525, 1548, 1848, 1963, 2431, 2905, 3651, 4441, 4726, 4956, 6255, 6627, 6832, 8135, 8904,
    9517, 9568, 9572, 10382, 11095, 12796, 13286, 14673, 15362, 15414, 15474, 15912, 16533, 16693, 17089, 18103, 18826,
    20846, 22790, 29390, 30611, 38546, 48726, 52774, 60260,
];

/// The schedule of a seed: as drawn before some schedules had idle times, or as drawn now.
fn drawn(seed: u64, restless: &[u64]) -> Schedule {
    match restless.contains(&seed) {
        true => Schedule::draw_restless(seed),
        false => Schedule::draw(seed),
    }
}

/// Runs the disasters while hosts talk to subnet administration. `SELVEDGE_SA_SEEDS=201..1001` runs those,
/// `SELVEDGE_SEED` prints what happens in one of them.
#[test]
fn clients_of_subnet_administration_are_served() {
    let seeds: Vec<u64> = match std::env::var("SELVEDGE_SA_SEEDS") {
        Err(_) => (1..=SA_SEEDS)
            .chain(SA_FOUND)
            .chain([47_313, 7_300_972, 9_109_063, 9_109_712, 9_111_445])
            .chain([9_121_947, 9_127_490, 9_150_234, 9_180_807, 9_204_934, 9_207_135])
            .chain([9_208_854, 9_210_560, 9_918_197])
            .collect(),
        Ok(text) => {
            let (from, to) = text.split_once("..").unwrap();
            (from.parse().unwrap()..to.parse().unwrap()).collect()
        }
    };
    let failed: Mutex<BTreeMap<u64, String>> = Mutex::default();
    on_all_processors(seeds.len() as u64, |number| {
        let mut schedule = drawn(seeds[usize::try_from(number).unwrap()], &SA_FOUND);
        schedule.setup.sa = true;
        assert_eq!(schedule.to_string().parse().as_ref(), Ok(&schedule));
        let mut story = Story::default();
        let outcome = schedule.run(&fabric(&schedule), &mut story);
        if std::env::var("SELVEDGE_SEED").is_ok_and(|seed| seed == schedule.seed.to_string()) {
            println!("{schedule}{}\n{}", story.0.join("\n"), outcome.log);
        }
        if let Some(failure) = outcome.failure {
            println!("seed {}: {}", schedule.seed, failure.what);
            failed.lock().unwrap().insert(schedule.seed, failure.what);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Seeds in `make test` with failing disks and kills of managers.
const STORE_SEEDS: u64 = 40;
/// Number of seeds that must expose a manager that relies on such a disk.
const TRUSTING_SEEDS: u64 = 200;

fn with_store_faults(seed: u64) -> Schedule {
    let mut schedule = Schedule::draw(seed);
    (schedule.setup.sa, schedule.setup.store_faults) = (true, true);
    schedule
}

/// Runs the disasters with clients and failing disks. `SELVEDGE_STORE_SEEDS=1..1001` sets the seeds, `SELVEDGE_SEED`
/// prints the events of one seed.
#[test]
fn on_disks_that_fail_no_lid_changes_and_no_registration_is_lost() {
    let text = std::env::var("SELVEDGE_STORE_SEEDS").unwrap_or_else(|_| format!("1..{}", STORE_SEEDS + 1));
    let (from, to) = text.split_once("..").unwrap();
    let (from, to): (u64, u64) = (from.parse().unwrap(), to.parse().unwrap());
    let totals = Mutex::new(Totals::default());
    on_all_processors(to - from, |number| {
        let schedule = with_store_faults(from + number);
        assert_eq!(schedule.to_string().parse().as_ref(), Ok(&schedule));
        let mut story = Story::default();
        let outcome = schedule.run(&fabric(&schedule), &mut story);
        if std::env::var("SELVEDGE_SEED").is_ok_and(|seed| seed == schedule.seed.to_string()) {
            println!("{schedule}{}\n{}", story.0.join("\n"), outcome.log);
        }
        totals.lock().unwrap().add(&schedule, &outcome);
    });
    let totals = totals.into_inner().unwrap();
    println!(
        "{} calls refused in {} schedules",
        totals.store_failures, totals.schedules
    );
    assert!(totals.failures.is_empty(), "{:#?}", totals.failures);
    assert!(
        totals.store_failures > 10 * totals.schedules,
        "{}",
        totals.store_failures
    );
}

/// The checkers expose a manager that takes a failed save for a success, and an administrator that confirms an unmarked
/// registration.
#[test]
fn managers_that_trust_a_disk_that_fails_are_found() {
    let check = |code: &str, run: &dyn Fn(&Schedule, &Fabric) -> Outcome| {
        let is_it = |seed: &u64| {
            let schedule = with_store_faults(*seed);
            let failure = run(&schedule, &fabric(&schedule)).failure;
            failure.is_some_and(|failure| failure.code() == code)
        };
        let found = (1..=TRUSTING_SEEDS).find(is_it);
        println!("{code}: seed {found:?}");
        assert!(found.is_some(), "no seed leads to {code}");
    };
    check("0115", &|schedule, fabric| {
        schedule.run_broken(fabric, Broken::StoreFailureIgnored)
    });
    check("0122", &|schedule, fabric| {
        schedule.run_with_desk(fabric, DeskDefect::ConfirmsUnmarked)
    });
}

/// Seeds with changes of the operator that run in `make test`.
const CHANGE_SEEDS: u64 = 60;

/// Seeds beyond them that failed once: crates/rehearsal/tests/seeds.md has a line for each.
const CHANGE_FOUND: [u64; 22] = [
    111, 137, 175, 210, 217, 276, 277, 396, 484, 501, 512, 645, 729, 817, 1266, 1838, 1870, 2212, 2456, 2548, 2737,
    2805,
];

/// The story, and how many changes of policy were rolled back.
#[derive(Default)]
struct Changes {
    story: Story,
    rolled_back: u64,
}

impl Observer for Changes {
    fn happened(&mut self, world: &Rehearsal, what: &str) {
        if what == "end" {
            let log = world.log().iter();
            self.rolled_back = log.filter(|entry| entry.event.code() == "SLV-SM-0102").count() as u64;
        }
        self.story.happened(world, what);
    }

    fn stepped(&mut self, _world: &Rehearsal) {}
}

/// Runs the disasters while the operator makes changes, every fifth seed with clients as well. `SELVEDGE_CHANGE_SEEDS=
/// 1..1001` sets the seeds, `SELVEDGE_SEED` prints the events of one seed.
#[test]
fn the_end_is_as_the_operators_changes_say() {
    let seeds: Vec<u64> = match std::env::var("SELVEDGE_CHANGE_SEEDS") {
        Err(_) => (1..=CHANGE_SEEDS).chain(CHANGE_FOUND).collect(),
        Ok(text) => {
            let (from, to) = text.split_once("..").unwrap();
            (from.parse().unwrap()..to.parse().unwrap()).collect()
        }
    };
    let all = Mutex::new((Totals::default(), 0));
    on_all_processors(seeds.len() as u64, |number| {
        let seed = seeds[usize::try_from(number).unwrap()];
        let mut schedule = Schedule::draw(seed).with_changes();
        schedule.setup.sa = number % 5 == 0 && !CHANGE_FOUND.contains(&seed);
        assert_eq!(schedule.to_string().parse().as_ref(), Ok(&schedule));
        let mut changes = Changes::default();
        let outcome = schedule.run(&fabric(&schedule), &mut changes);
        if std::env::var("SELVEDGE_SEED").is_ok_and(|seed| seed == schedule.seed.to_string()) {
            println!("{schedule}{}\n{}", changes.story.0.join("\n"), outcome.log);
        }
        let mut all = all.lock().unwrap();
        all.0.add(&schedule, &outcome);
        all.1 += changes.rolled_back;
    });
    let (totals, rolled_back) = all.into_inner().unwrap();
    let mut counts: BTreeMap<Kind, u64> = BTreeMap::new();
    for ((kind, ..), count) in &totals.coverage {
        *counts.entry(*kind).or_default() += count;
    }
    let count = |kind: Kind| counts.get(&kind).copied().unwrap_or(0);
    println!(
        "{:?}, {rolled_back} rolled back",
        Kind::CHANGES.map(|kind| (kind, count(kind)))
    );
    assert!(totals.failures.is_empty(), "{:#?}", totals.failures);
    assert!(Kind::CHANGES.into_iter().all(|kind| count(kind) > 0), "{counts:?}");
    assert!(rolled_back > 0);
}

/// A schedule with changes is done again from its actions, and a plain one has none.
#[test]
fn a_schedule_with_changes_is_done_again_from_its_actions() {
    for seed in [2, 3] {
        let schedule = Schedule::draw(seed).with_changes();
        let fabric = fabric(&schedule);
        let (outcome, resolved) = schedule.resolve(&fabric);
        assert_eq!(outcome.failure, None, "seed {seed}");
        let text = resolved.to_string();
        assert!(
            text.contains("policy out_of_service"),
            "seed {seed} has no place out of service"
        );
        assert!(
            !Schedule::draw(seed)
                .resolve(&fabric)
                .1
                .to_string()
                .contains("out_of_service")
        );
        let again = Resolved::read_all(&text).unwrap().remove(0);
        assert_eq!(again.name(), format!("{seed}+changes"));
        assert_eq!(
            again.replay(&fabric, &mut Nobody).digests,
            outcome.digests,
            "seed {seed}"
        );
    }
}

/// Seeds beyond the first thousand that failed once: none may fail again.
#[test]
fn what_failed_once_is_survived() {
    const SEEDS: [u64; 159] = [
        1591, 3933, 10436, 11606, 11699, 12429, 14424, 19388, 22028, 22122, 22244, 22490, 24540, 25247, 28635, 30038,
        30452, 30763, 40823, 42027, 44927, 49276, 59951, 60710, 61683, 70263, 100338, 100781, 101872, 101882, 101949,
        102046, 102810, 106452, 106495, 107473, 108049, 108345, 109745, 110408, 111689, 111751, 121165, 123262, 123390,
        123888, 123906, 123907, 124709, 125665, 125854, 126615, 126701, 131545, 132062, 132408, 132563, 133834, 135607,
        135902, 136240, 136467, 138923, 139424, 140940, 141664, 143846, 145827, 145874, 146061, 146073, 150147, 152084,
        154413, 154481, 204008, 204517, 204770, 205542, 206496, 208399, 210556, 300406, 302486, 302629, 303817, 304326,
        305718, 306949, 307616, 309020, 312675, 312680, 320629, 327126, 330594, 400412, 401495, 506484, 512236, 512698,
        513442, 518700, 520056, 520659, 527896, 603886, 608509, 613737, 616551, 1000905, 1003111, 1005379, 1022529,
        1033939, 1048946, 1049483, 1052960, 1061093, 1064889, 1096926, 1102323, 1102479, 1110599, 1121686, 1123130,
        1126357, 1127760, 1128061, 1141715, 1142701, 1160392, 1162060, 1179031, 1180218, 1316443, 1330893, 1425179,
        1426486, 1443785, 1447564, 1451532, 1463862, 1466434, 1515346, 1521827, 1522592, 1562872, 1616086, 1631322,
        1651533, 1656171, 1685916, 1686516, 1688680, 1711093, 1714738, 1739400, 1797516,
    ];
    let failed: Mutex<BTreeMap<u64, String>> = Mutex::default();
    let seeds: Vec<u64> = SEEDS.into_iter().chain([1_858_561]).collect();
    on_all_processors(seeds.len() as u64, |number| {
        let seed = seeds[usize::try_from(number).unwrap()];
        let schedule = drawn(seed, &SEEDS);
        if let Some(failure) = schedule.run(&fabric(&schedule), &mut Nobody).failure {
            failed.lock().unwrap().insert(seed, failure.what);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:?}");
}

/// The first seed in which a defect leads to a code, and a sound manager does not.
fn first_seed(broken: Broken, code: &str) -> Option<(u64, String)> {
    (1..=BROKEN_SEEDS).find_map(|seed| {
        let drawn = Schedule::draw(seed);
        // Only there does the operator load policies that are refused.
        let schedule = match broken {
            Broken::NeverRollsBack => drawn.with_changes(),
            _ => drawn,
        };
        let fabric = fabric(&schedule);
        let is_it = |failure: &Failure| failure.code() == code;
        // A driver that hands in another job's result may bring a manager down: that is none of the codes.
        let ran = catch_unwind(AssertUnwindSafe(|| schedule.run_broken(&fabric, broken)));
        let failure = ran.ok()?.failure.filter(is_it)?;
        let sound = schedule.run(&fabric, &mut Nobody).failure;
        sound.filter(is_it).is_none().then_some((seed, failure.what))
    })
}

/// For each defect and code: the first seed in which the defect led to the code, and the violation as text.
type Found = BTreeMap<(Broken, &'static str), Option<(u64, String)>>;

#[test]
fn every_defect_is_found() {
    let found: Mutex<Found> = Mutex::default();
    let pairs: Vec<(Broken, &str)> = Broken::ALL
        .into_iter()
        .flat_map(|broken| broken.found_by().iter().map(move |&code| (broken, code)))
        .collect();
    on_all_processors(pairs.len() as u64, |number| {
        let (broken, code) = pairs[usize::try_from(number).unwrap()];
        let seed = first_seed(broken, code);
        found.lock().unwrap().insert((broken, code), seed);
    });
    let found = found.into_inner().unwrap();
    for ((broken, code), first) in &found {
        let (seed, what) = first.clone().unwrap_or_default();
        println!("{broken} {code}: seed {seed}: {what}");
    }
    let missed: Vec<_> = found
        .iter()
        .filter(|(_, first)| first.is_none())
        .map(|(pair, _)| pair)
        .collect();
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
    let codes: BTreeSet<&str> = found.keys().map(|(_, code)| *code).collect();
    let unused: Vec<&&str> = CHECKERS.iter().filter(|code| !codes.contains(**code)).collect();
    assert!(unused.is_empty(), "no defect leads to {unused:?}");
}

#[test]
fn a_seed_is_a_run() {
    for seed in [3, 11] {
        let schedule = Schedule::draw(seed);
        let again: Schedule = schedule.to_string().parse().unwrap();
        let run = |schedule: &Schedule| schedule.run(&fabric(schedule), &mut Nobody);
        let (first, second) = (run(&schedule), run(&again));
        assert_eq!(
            (first.digests, first.looks),
            (second.digests, second.looks),
            "seed {seed}"
        );
    }
}
