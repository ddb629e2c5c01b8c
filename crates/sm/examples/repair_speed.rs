//! How long a repair takes, judged and ready to be sent, and what it changes.
//!
//! `cargo run --release -p selvedge-sm --example repair_speed -- SPEC [leaf|mid|any [in-turn|at-once|apart [SEED
//! [LINKS]]]]`: ten links, each lost from the whole fabric, or one after another without coming back: in turn, when
//! packets under way are gone, or at once, while all of them may still be there.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

mod support;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use selvedge_fabric::PortRef;
use selvedge_plan::{Installed, Op, UnderWay};
use selvedge_sim::{Par, Seed};
use selvedge_sm::{Damage, Job, JobResult, Repair, Task};

use support::{State, between_switches, bring_up, fabric};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "sx6536".to_owned());
    let kind = arguments.next().unwrap_or_else(|| "any".to_owned());
    let how = arguments.next().unwrap_or_default();
    let seed = arguments.next().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let runs: usize = arguments.next().and_then(|runs| runs.parse().ok()).unwrap_or(10);
    let mut state = bring_up(fabric(&spec), &Arc::default());
    let began = Instant::now();
    let mut warm = state.prepare(None);
    println!("{spec}: prepared in {:?}", began.elapsed());
    let mut links: Vec<PortRef> = between_switches(&state.inventory.fabric, &kind);
    Seed(seed).rng().shuffle(&mut links);
    let mut quick = 0;
    let mut waits = 0;
    let mut past = UnderWay::default();
    for &at in links.iter().take(runs) {
        let damage = Damage {
            lost: BTreeSet::from([at]),
            flagged: BTreeSet::from([at.node]),
            ..Damage::default()
        };
        let repair = Repair {
            damage,
            plan: Arc::clone(&state.plan),
            verdict: Arc::clone(&state.verdict),
            warm: warm.clone(),
        };
        let mut job = Job::new(
            &state.inventory,
            &state.installed,
            Arc::default(),
            Task::Repair(Box::new(repair)),
        );
        job.under_way = (how == "at-once").then(|| Arc::new(past.clone()));
        let start = Instant::now();
        CLOCK.get_or_init(|| start);
        job.clock = Some(|| CLOCK.get().map_or(Duration::ZERO, Instant::elapsed));
        let result = job.run(Par::Sequential);
        let took = start.elapsed();
        let name = state.inventory.fabric.port_name(at);
        let Some(outcome) = &result.outcome else {
            println!("  {name}: {took:?}, not repaired: {:?}", result.events);
            continue;
        };
        let changes = outcome.changes.value();
        let waited = changes.phases.iter().filter(|phase| phase.wait_before_ns > 0).count();
        // What is changed in place hands back the copies that it changed.
        let in_place = result.installed.is_some();
        quick += usize::from(in_place);
        waits += usize::from(waited > 0);
        println!(
            "  {name}: planned in {:?}, judged in {:?}, {} blocks in {} steps, {waited} waits, in place: {in_place}",
            took - result.judged,
            result.judged,
            changes.count().lft_blocks,
            changes.phases.len(),
        );
        if matches!(&how[..], "in-turn" | "at-once") {
            follow(&mut state, &result, &mut past);
            warm = state.prepare(result.warm);
        }
    }
    println!("{spec}: of {runs} links {quick} in place, {waits} with waits");
}

static CLOCK: OnceLock<Instant> = OnceLock::new();

/// As when all Sets are acknowledged.
fn follow(state: &mut State, result: &JobResult, past: &mut UnderWay) {
    let Some(outcome) = &result.outcome else { return };
    let mut installed = Installed::clone(&state.installed);
    for phase in &outcome.changes.value().phases {
        let mut step = Vec::new();
        for op in &phase.ops {
            if let Op::Lft { node, block, data } = op {
                let switch = state.inventory.fabric.switch_index(*node).unwrap();
                let is_new = !past.before.iter().any(|known| (known.0, known.1) == (switch, *block));
                let held = installed.block(switch, usize::from(*block)).copied();
                past.before
                    .extend(held.filter(|_| is_new).map(|held| (switch, *block, held)));
                installed.learn(switch, usize::from(*block), *data);
                step.push((switch, *block, *data));
            }
        }
        past.phases.push(step);
    }
    state.installed = Arc::new(installed);
    state.inventory = result.inventory.clone().unwrap();
    state.plan = Arc::clone(&outcome.plan);
    state.verdict = Arc::clone(&outcome.verdict);
}
