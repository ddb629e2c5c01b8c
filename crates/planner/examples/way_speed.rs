//! The time to plan transitions, and their steps: `cargo run --release -p selvedge-planner --example way_speed [SPEC
//! [FAULTS [SEED]]]`.
//!
//! Per fabric: `FAULTS` links between switches, drawn by the seed, are each lost, repaired with engine `auto`, and put
//! back; then the whole engine changes. For each: time to propose (with dependencies kept, and without), steps, waits,
//! entries dropped.

#[path = "../tests/it/bench/mod.rs"]
mod bench;

use std::time::{Duration, Instant};

use bench::{Bench, set};
use selvedge_plan::{ChangeSet, Op, ServiceLevels, SlToVl, Tables};
use selvedge_planner::way::{self, WayOptions};
use selvedge_routing::Engine;
use selvedge_sim::{Par, Seed};
use selvedge_types::PortState;
use selvedge_verify::phases::{Links, Passage, StandingTurns, passage};
use selvedge_verify::{JudgeOptions, Subject};

fn main() {
    let mut args = std::env::args().skip(1);
    let spec = args.next().unwrap_or_else(|| "sx6536".to_owned());
    let faults: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(10);
    let seed: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    match bench::bench(&spec) {
        Ok(bench) => measure(bench, faults, Seed(seed)),
        Err(error) => eprintln!("{error}"),
    }
}

fn measure(mut bench: Bench, faults: usize, seed: Seed) {
    let links = bench.fabric.links();
    let mut cables: Vec<_> = links
        .filter(|l| bench.is_between(l.a) && bench.is_between(l.b))
        .collect();
    seed.rng().shuffle(&mut cables);
    let Some(whole) = bench.by(Engine::Auto, None) else {
        return;
    };
    let standing = bench.standing(&whole);
    for cable in cables.into_iter().take(faults) {
        let name = format!(
            "{} - {}",
            bench.fabric.port_name(cable.a),
            bench.fabric.port_name(cable.b)
        );
        [cable.a, cable.b]
            .into_iter()
            .for_each(|at| set(&mut bench.fabric, at, PortState::Down));
        let Some(repaired) = bench.by(Engine::Auto, Some(&whole)) else {
            continue;
        };
        bench.show(&format!("{name} lost"), &whole, &repaired, Some(&standing));
        [cable.a, cable.b]
            .into_iter()
            .for_each(|at| set(&mut bench.fabric, at, PortState::Init));
        bench.show(&format!("{name} back"), &repaired, &whole, None);
        [cable.a, cable.b]
            .into_iter()
            .for_each(|at| set(&mut bench.fabric, at, PortState::Active));
    }
    let engines = [Engine::UpDn, Engine::MinHop, Engine::FatTree, Engine::Weave];
    for from in engines {
        let Some(old) = bench.by(from, None) else { continue };
        for to in engines.into_iter().filter(|to| *to != from) {
            if let Some(new) = bench.by(to, None) {
                bench.show(&format!("{from:?} to {to:?}"), &old, &new, None);
            }
        }
    }
}

impl Bench {
    fn by(&self, engine: Engine, previous: Option<&Tables>) -> Option<Tables> {
        self.route(engine, previous, Par::Rayon)
    }

    fn standing(&self, tables: &Tables) -> StandingTurns {
        let (levels, map) = (ServiceLevels::default(), SlToVl::default());
        let subject = Subject::tables(&self.fabric, &self.lids, tables, &levels, &map);
        StandingTurns::new(subject, Links::Active, Par::Rayon)
    }

    fn show(&self, what: &str, from: &Tables, to: &Tables, standing: Option<&StandingTurns>) {
        let (installed, plan) = (self.installed(from), self.plan(to.clone()));
        let options = WayOptions {
            standing,
            ..WayOptions::default()
        };
        let tries = if standing.is_some() { 5 } else { 1 };
        let plain = best(tries, || selvedge_plan::changes(&self.fabric, &installed, &plan)).0;
        let (took, changes) = best(tries, || way::propose(&self.fabric, &installed, &plan, &options));
        let judge = JudgeOptions::default();
        let start = Instant::now();
        let passage = passage(&self.fabric, &installed, &plan, &changes, None, &judge);
        let judged = start.elapsed();
        let said = match &passage {
            Passage::Still => "still".to_owned(),
            Passage::Quick(_) => "proved".to_owned(),
            Passage::Proved(proof) => {
                let live = proof.figures.steps.iter().map(|step| step.live_dropped.hosts).max();
                format!(
                    "proved, spare {:?}, live pairs dropped {live:?}",
                    proof.figures.waits_spare
                )
            }
            Passage::Inherited(refusal) => format!("inherited, {} findings", refusal.findings.len()),
            Passage::Refused(refusal) => format!("refused: {refusal}"),
        };
        if changes.phases.iter().any(|phase| phase.wait_before_ns > 0) && std::env::var_os("WHY").is_some() {
            let mut hasty = changes.clone();
            hasty.phases.iter_mut().for_each(|phase| phase.wait_before_ns = 0);
            let passage = selvedge_verify::phases::passage(&self.fabric, &installed, &plan, &hasty, None, &judge);
            if let Passage::Refused(refusal) = passage {
                let first = &refusal.findings[0];
                println!("  without a wait: {first}");
                first.witness.iter().for_each(|step| println!("    {step}"));
            }
        }
        println!(
            "{what}: {} in {took:?} (Sets alone {plain:?}), {said} in {judged:?}",
            shape(&changes)
        );
    }
}

/// Sets of each phase; `+` after a wait.
fn shape(changes: &ChangeSet) -> String {
    let phase = |phase: &selvedge_plan::Phase| {
        let wait = match phase.wait_before_ns {
            0 => String::new(),
            ns => format!("+{:.2}s ", Duration::from_nanos(ns).as_secs_f64()),
        };
        let tables = phase.ops.iter().filter(|op| matches!(op, Op::Lft { .. })).count();
        format!("{wait}{tables}")
    };
    changes.phases.iter().map(phase).collect::<Vec<_>>().join(" | ")
}

/// Calls `f` some times. Returns the time and the result of the fastest call.
fn best<T>(tries: usize, mut f: impl FnMut() -> T) -> (Duration, T) {
    let mut once = || {
        let start = Instant::now();
        let value = f();
        (start.elapsed(), value)
    };
    let mut best = once();
    for _ in 1..tries {
        let next = once();
        if next.0 < best.0 {
            best = next;
        }
    }
    best
}
