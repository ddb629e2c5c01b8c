//! The time of a repair, judged and ready to be sent, and the changes that it makes.
//!
//! `cargo run --release -p selvedge-planner --example repair_speed -- SPEC [leaf|mid|any [HOW [SEED [LINKS
//! [LANES]]]]]`, HOW one of in-turn, at-once, returns, apart, cold, known, running: ten links, each lost from the whole
//! fabric, or one after another without coming back: in turn, when packets in flight are gone, or at once, while all of
//! them may still be in flight. With `returns` each comes back before the next is lost, entries stay unchanged, and
//! packets of the two repairs before may be in flight. `cold` is `apart` with caches that hold other data, as between
//! two faults of a manager; `known` is `cold` with the repairs of all links computed before. `running` is like a
//! manager with a fault each second: cold, and packets of the two repairs before may be in flight. With LANES the
//! fabric is routed by `weave` on this number of lanes, as a library would (the manager programs one), and the load
//! after each repair is shown beside that of a whole new plan of the damaged fabric.
//!
//! Figures, released build, AMD EPYC, one thread, `chrt -f 10`, 2026-11-24 to 2026-11-27: planning and judging, median
//! and 90th percentile.
//!
//! | fabric | leaf–mid | mid–spine |
//! |---|---|---|
//! | `sx6536`, 324 hosts | 0.02–0.03 ms, 6–7 blocks | – |
//! | `karytree:k=18,n=3`, 5,832 hosts | 1.1–1.3 ms, 362–365 blocks | 0.7–1.1 ms, 63–66 blocks |
//! | the same, `cold` | 1.7 ms | 1.0–1.3 ms |
//! | the same, `running` | 1.7–1.9 ms | 1.1 ms; slowest tenth 2.4 ms |
//! | the same, `known` | 0.06 ms (0.09, slowest 2.3) | 0.08 ms (0.09, slowest 0.16) |
//! | `mport:m=48,n=3`, 27,648 hosts | 6.6–7.0 ms, 1,273–1,275 blocks | 3.4–3.6 ms, 157–166 blocks |
//!
//! Not repaired in place but by a whole plan, links lost `in-turn`; the last two lines `returns`:
//!
//! | fabric, links | seeds | not in place |
//! |---|---|---|
//! | `karytree:k=18,n=3`, 60 of 11,664 | 21, 22, 31, 32 | 0 of 240 |
//! | the same, 100 mid–spine links; 60 leaf–mid links | 1, 2; 1–5, 21 | 1 of 200; 4 of 360 |
//! | `karytree:k=10,n=3`, 24 of 2,000 | 1–6 | 0 of 144 |
//! | `karytree:k=8,n=3`, 24 of 1,024 | 1–6 | 2 of 144 |
//! | `karytree:k=6,n=3`, 10 of 432 | 1–20 | 3 of 200 |
//! | `karytree:k=18,n=3,remove-links=40`, 30 more | 5, 6 | 2 of 60 |
//! | `karytree:k=K,n=3`, mid links, K = 4, 6, 8, 10 | 1–3 | 44, 34, 19, 19 of 300 |
//! | `karytree:k=18,n=3`, 40 mid–spine links | – | 0 of 40 |
//!
//! These cases are not repaired in place: packets that a top switch sends back down while its entries change, and the
//! link with which all pieces above the leaves have lost a link of a leaf. When links come back, the judge of whole
//! plans may require a wait where none is needed.
//!
//! `weave` on `random:switches=N,degree=4,hosts=2`, `apart`, seeds 21–30, twelve links each, shorter of two runs:
//!
//! | switches, lanes | in place | no wait | planned, judged | longest | blocks, median, most | host pairs on a link |
//! |---|---|---|---|---|---|---|
//! | 256, 1 | 120 of 120 | 34 | 1.5 ms (2.5), 0.34 | 5.9 ms | 283, 1,216 | 2,517, 2,779, 2,515 |
//! | 256, 4 | 119 of 120 | 7 | 2.1 ms (3.9), 0.52 | 350 ms | 356, 8,919 | 1,881, 2,261, 1,893 |
//! | 128, 1 | 120 of 120 | 39 | 0.7 ms (1.2), 0.19 | 6.0 ms | 120, 388 | 914, 1,096, 914 |
//! | 128, 4 | 120 of 120 | 19 | 0.8 ms (1.3), 0.27 | 15 ms | 150, 1,505 | 746, 888, 751 |
//!
//! The last column: most before, after, and after a whole new plan. `known`, 256 switches: 0.06 ms on one lane, 0.07 on
//! four; all 512 links take 1.2 to 2.6 s and 2 to 4 MB. Of searches that failed, 710 of 714 (one lane) and 623 of 818
//! (four) were proved to have no path while packets are in flight. A repair that is not in place takes 0.1–0.5 s and
//! 1–4 waits.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

mod support;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{EmptiedLink, Installed, Op, Plan, Policy, SlToVl, UnderWay};
use selvedge_planner::{BackUp, Backups, Inventory, JobResult, Mended, RepairResult, Task, Warm};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_verify::{JudgeOptions, Subject, Verdict, verify};

use support::{State, between_switches, bring_up, fabric, job, repaired};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "sx6536".to_owned());
    let kind = arguments.next().unwrap_or_else(|| "any".to_owned());
    let how = arguments.next().unwrap_or_default();
    let seed = arguments.next().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let runs: usize = arguments.next().and_then(|runs| runs.parse().ok()).unwrap_or(10);
    let lanes: Option<u8> = arguments.next().and_then(|lanes| lanes.parse().ok());
    let mut state = start(&spec, lanes);
    let mut warm = prepared(&state, &spec);
    let backups = worked_out(&state, &how);
    let mut links: Vec<PortRef> = between_switches(&state.inventory.fabric, &kind);
    Seed(seed).rng().shuffle(&mut links);
    let whole = (Arc::clone(&state.inventory), Arc::clone(&state.plan));
    let mut quick = 0;
    let mut waits = 0;
    let mut past = Vec::new();
    let mut all = Measured::default();
    for &at in links.iter().take(runs) {
        let warm_again = warm.clone();
        if matches!(&how[..], "cold" | "known" | "running") {
            fill_caches();
        }
        let under_way = under_way(&past, &how);
        let basis = state.basis(Arc::default(), under_way);
        let task = Task::Repair(Box::new(state.lose(basis, at, warm_again, backups.clone())));
        let (result, took) = lose(task);
        let name = state.inventory.fabric.port_name(at);
        let Some(mended) = &result.mended else {
            println!("  {name}: {took:?}, not repaired: {:?}", result.events);
            continue;
        };
        let (outcome, judged) = (&mended.outcome, mended.judged);
        let changes = outcome.changes.value();
        let waited = changes.phases.iter().filter(|phase| phase.wait_before_ns > 0).count();
        // A repair in place returns the copies that it changed.
        let in_place = result.is_in_place();
        quick += usize::from(in_place);
        waits += usize::from(waited > 0);
        print!(
            "  {name}: planned in {:?}, judged in {:?}, {} blocks in {} steps, {waited} waits, in place: {in_place}",
            took - judged,
            judged,
            changes.count().lft_blocks,
            changes.phases.len(),
        );
        all.note((took, judged), changes.count().lft_blocks as u64);
        if lanes.is_some() {
            let anew = woven(&outcome.inventory.fabric, &outcome.plan).1.figures.load.max;
            let load = outcome.verdict.figures.load.max;
            print!(", load {} -> {load}, anew {anew}", state.verdict.figures.load.max);
            all.loads.push((state.verdict.figures.load.max, load, anew));
        }
        println!();
        if matches!(&how[..], "in-turn" | "at-once" | "running" | "returns") {
            if waited > 0 {
                past.clear();
            }
            past.extend(follow(&mut state, mended));
            let is_back = how == "returns";
            if is_back {
                come_back(&mut state, &whole, at);
                note_emptied(past.last_mut(), &state.inventory.fabric, at);
            }
            warm = state.prepare_with(result.warm.filter(|_| !is_back), self::under_way(&past, &how));
        }
    }
    println!("{spec}: of {runs} links {quick} in place, {waits} with waits");
    all.print();
}

/// Returns a fabric that is up, routed by `weave` if a number of lanes is given.
fn start(spec: &str, lanes: Option<u8>) -> State {
    let policy = Policy {
        lanes: lanes.unwrap_or(Policy::default().lanes),
        ..Policy::default()
    };
    let mut state = bring_up(fabric(spec), &Arc::new(policy));
    if let Some(lanes) = lanes {
        weave(&mut state, lanes);
    }
    state
}

fn prepared(state: &State, spec: &str) -> Option<Box<Warm>> {
    let began = Instant::now();
    let warm = state.prepare(None);
    println!("{spec}: prepared in {:?}", began.elapsed());
    warm
}

/// Returns the backups of all links, if the mode needs them.
fn worked_out(state: &State, how: &str) -> Vec<Arc<Backups>> {
    if how != "known" {
        return Vec::new();
    }
    let (began, mut jobs) = (Instant::now(), 0);
    let basis = state.basis(Arc::default(), None);
    let mut made = BackUp::new(basis, Arc::clone(&state.plan), Vec::new(), None);
    while !made.is_done() {
        made = match job(Task::BackUp(Box::new(made))).run(Par::Sequential) {
            JobResult::BackUp(Some(next)) => *next,
            other => panic!("{other:?}"),
        };
        jobs += 1;
    }
    println!(
        "all repairs worked out in {:?}, {jobs} jobs: {}",
        began.elapsed(),
        made.found()
    );
    vec![Arc::new(made.found().clone())]
}

/// Runs the task that plans around a lost link. Returns the result and the time that it took.
fn lose(task: Task) -> (RepairResult, Duration) {
    let mut job = job(task);
    let start = Instant::now();
    CLOCK.get_or_init(|| start);
    job.set_clock(|| CLOCK.get().map_or(Duration::ZERO, Instant::elapsed));
    let result = job.run_in_place().unwrap_or_else(|| job.run(Par::Sequential));
    let took = start.elapsed();
    (repaired(result), took)
}

/// Fills the processor's caches with data that no repair reads.
fn fill_caches() {
    const BYTES: usize = 256 << 20;
    let other = vec![1_u8; BYTES];
    std::hint::black_box(other.iter().map(|&byte| u64::from(byte)).sum::<u64>());
}

/// Measurements of the repairs of all links.
#[derive(Default)]
struct Measured {
    took: Vec<Duration>,
    judged: Vec<Duration>,
    blocks: Vec<u64>,
    /// Host pairs on the busiest link: before the repair, after it, and with a whole new plan.
    loads: Vec<(u64, u64, u64)>,
}

impl Measured {
    fn note(&mut self, (took, judged): (Duration, Duration), blocks: u64) {
        self.took.push(took);
        self.judged.push(judged);
        self.blocks.push(blocks);
    }

    /// Prints median, 90th percentile and maximum of each.
    fn print(&mut self) {
        fn of<T: Ord + Copy + std::fmt::Debug>(what: &str, values: &mut [T]) {
            values.sort_unstable();
            let at = |tenths: usize| values[(values.len() * tenths / 10).min(values.len() - 1)];
            if !values.is_empty() {
                println!(
                    "  {what}: median {:?}, nine tenths {:?}, most {:?}",
                    at(5),
                    at(9),
                    at(10)
                );
            }
        }
        of("planned and judged", &mut self.took);
        of("judged", &mut self.judged);
        of("blocks", &mut self.blocks);
        let mean = |of: fn(&(u64, u64, u64)) -> u64| {
            self.loads.iter().map(of).sum::<u64>() as f64 / self.loads.len().max(1) as f64
        };
        if !self.loads.is_empty() {
            let (before, after, anew) = (mean(|l| l.0), mean(|l| l.1), mean(|l| l.2));
            println!("  most on a link, mean: before {before:.0}, after {after:.0}, whole new plan {anew:.0}");
        }
    }
}

/// Returns a plan that `weave` makes for this fabric, with LIDs and number of lanes of the plan `like`, and the judge's
/// verdict on it.
fn woven(fabric: &Fabric, like: &Plan) -> (Plan, Verdict) {
    let options = Options {
        lanes: Some(like.lanes),
        ..Options::default()
    };
    let routed = Engine::Weave
        .route(fabric, &like.lids, &options, Seed(0), Par::Sequential)
        .unwrap();
    let plan = Plan {
        engine: routed.engine,
        tables: routed.tables,
        service_levels: routed.service_levels,
        sl_to_vl: SlToVl::modulo(routed.lanes),
        lanes: routed.lanes,
        lane_tables: None,
        ..like.clone()
    };
    let verdict = verify(Subject::plan(fabric, &plan), &JudgeOptions::default());
    (plan, verdict)
}

/// Routes the fabric again on this number of lanes.
fn weave(state: &mut State, lanes: u8) {
    let like = Plan {
        lanes,
        ..Plan::clone(&state.plan)
    };
    let (plan, verdict) = woven(&state.inventory.fabric, &like);
    let mut installed = Installed::clone(&state.installed);
    for switch in plan.tables.switch_indices() {
        for block in 0..plan.tables.blocks() {
            installed.learn(switch, block, *plan.tables.block(switch, block));
        }
    }
    state.installed = Arc::new(installed);
    (state.plan, state.verdict) = (Arc::new(plan), Arc::new(verdict));
}

static CLOCK: OnceLock<Instant> = OnceLock::new();

/// Returns the packets that may be in flight after some faults.
fn under_way(faults: &[UnderWay], how: &str) -> Option<Arc<UnderWay>> {
    /// With a fault each second, packets of this number of repairs may be in flight.
    const RUNNING: usize = 2;
    let count = match how {
        "at-once" => faults.len(),
        "running" | "returns" => faults.len().min(RUNNING),
        _ => 0,
    };
    let mut all = UnderWay::default();
    for fault in &faults[faults.len() - count..] {
        let is_new = |block: &&(_, _, _)| !all.before.iter().any(|known| (known.0, known.1) == (block.0, block.1));
        let before: Vec<_> = fault.before.iter().filter(is_new).copied().collect();
        all.before.extend(before);
        let phases = all.phases.len();
        let emptied = fault.emptied.iter().map(|link| EmptiedLink {
            phases: phases + link.phases,
            ..*link
        });
        all.emptied.extend(emptied);
        all.phases.extend(fault.phases.iter().cloned());
    }
    (count > 0).then(|| Arc::new(all))
}

/// Lets a lost link come back: the inventory and the settings of its ports are again those of the `whole` fabric;
/// entries stay unchanged.
fn come_back(state: &mut State, whole: &(Arc<Inventory>, Arc<Plan>), at: PortRef) {
    let ends = [Some(at), whole.0.fabric.peer(at)].into_iter().flatten();
    let mut plan = Plan::clone(&state.plan);
    plan.ports
        .extend(ends.filter_map(|end| Some((end, *whole.1.ports.get(&end)?))));
    (state.plan, state.inventory) = (Arc::new(plan), Arc::clone(&whole.0));
}

/// Records that the lost link was down after all phases of its repair, so that no packet still waits for it.
fn note_emptied(past: Option<&mut UnderWay>, fabric: &Fabric, at: PortRef) {
    let Some(past) = past else { return };
    let ends = [Some(at), fabric.peer(at)].into_iter().flatten();
    let emptied = ends.filter_map(|end| {
        Some(EmptiedLink {
            from: fabric.switch_index(end.node)?,
            port: end.port.get(),
            phases: past.phases.len(),
        })
    });
    past.emptied = emptied.collect();
}

/// Changes the state as if all Sets of a repair were acknowledged. Returns the packets that may be in flight then.
fn follow(state: &mut State, mended: &Mended) -> Option<UnderWay> {
    let outcome = &mended.outcome;
    let mut past = UnderWay::default();
    let mut installed = Installed::clone(&state.installed);
    for phase in &outcome.changes.value().phases {
        if phase.wait_before_ns > 0 {
            // All earlier packets are gone.
            past = UnderWay::default();
        }
        let mut step = Vec::new();
        for op in &phase.ops {
            if let Op::Lft { node, block, data } = op {
                let switch = state.inventory.fabric.switch_index(*node).unwrap();
                let held = installed.block(switch, usize::from(*block)).copied();
                past.before.extend(held.map(|held| (switch, *block, held)));
                installed.learn(switch, usize::from(*block), *data);
                step.push((switch, *block, *data));
            }
        }
        past.phases.push(step);
    }
    state.installed = Arc::new(installed);
    state.inventory = Arc::clone(&outcome.inventory);
    state.plan = Arc::clone(&outcome.plan);
    state.verdict = Arc::clone(&outcome.verdict);
    Some(past)
}
