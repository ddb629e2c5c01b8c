//! How long routing and judging take: the median of several runs, and the quality of the same tables.

use std::fmt::Write as _;
use std::fs;
use std::time::Instant;

use indicatif::ProgressBar;
use selvedge_conformance::HeavyLock;
use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Effort, Engine, FatTree, FatTreeOptions};
use selvedge_sim::{Par, Seed};
use selvedge_verify::{JudgeOptions, Senders, Subject, verify};

use super::peer::{self, Answer};
use super::{field, own};
use crate::case::Case;
use crate::error::BenchError;
use crate::stats::Spread;

/// Number of threads for work that uses several.
const THREADS: usize = 2;
/// Runs of one measurement at most.
const RUNS_MAX: usize = 21;
/// After this many milliseconds of measurement, the least number of runs is enough.
const ENOUGH_MS: f64 = 1_000.0;

/// A fat tree, with the time limits for its tables and for their judgement, in milliseconds.
struct TreeTask {
    spec: &'static str,
    fill_ms: Option<f64>,
    judge_hosts_ms: Option<f64>,
    judge_ms: Option<f64>,
    /// True if OpenSM routes the tree too: ibsim is slow with tens of thousands of hosts.
    has_peer: bool,
}

const TREES: [TreeTask; 2] = [
    TreeTask {
        spec: "karytree:k=18,n=3",
        fill_ms: Some(0.6),
        judge_hosts_ms: Some(25.0),
        judge_ms: Some(75.0),
        has_peer: true,
    },
    TreeTask {
        spec: "mport:m=48,n=3",
        fill_ms: Some(10.0),
        judge_hosts_ms: Some(400.0),
        judge_ms: Some(1_200.0),
        has_peer: false,
    },
];
const QUICK_TREES: [TreeTask; 1] = [TreeTask {
    spec: "karytree:k=4,n=3",
    fill_ms: None,
    judge_hosts_ms: None,
    judge_ms: None,
    has_peer: true,
}];

/// A fabric for weave, and its time limit, in milliseconds.
struct WeaveTask {
    spec: &'static str,
    lanes: &'static [u8],
    par: Par,
    fast_ms: Option<f64>,
    best_ms: Option<f64>,
    has_peer: bool,
}

const WEAVES: [WeaveTask; 2] = [
    WeaveTask {
        spec: "random:switches=256,degree=4,hosts=2,seed=21",
        lanes: &[1, 2, 4, 8],
        par: Par::Sequential,
        fast_ms: Some(50.0),
        best_ms: Some(500.0),
        has_peer: true,
    },
    WeaveTask {
        spec: "karytree:k=18,n=3",
        lanes: &[4],
        par: Par::Rayon,
        fast_ms: Some(3_000.0),
        best_ms: Some(15_000.0),
        has_peer: false,
    },
];
const QUICK_WEAVES: [WeaveTask; 1] = [WeaveTask {
    spec: "random:switches=16,degree=4,hosts=2,seed=21",
    lanes: &[4],
    par: Par::Rayon,
    fast_ms: None,
    best_ms: None,
    has_peer: true,
}];

/// One kind of work on one fabric.
#[derive(Clone, Debug)]
pub struct Work {
    /// The fabric.
    pub spec: String,
    /// The operation.
    pub what: String,
    /// Number of threads.
    pub threads: usize,
    /// Each run, in milliseconds.
    pub runs_ms: Vec<f64>,
    /// Time limit, in milliseconds.
    pub target_ms: Option<f64>,
    /// Host pairs on the busiest link, by the tables of this work.
    pub max_load: Option<u64>,
    /// Peak memory of the process meanwhile, fabric included, in bytes; 0 if the kernel does not report it.
    pub peak_bytes: u64,
}

/// Measures everything; `repeats` is the least number of runs.
pub fn measure(quick: bool, repeats: usize, bar: &ProgressBar) -> Result<Vec<Work>, BenchError> {
    // Fails if there is a pool already; its size is reported in any case.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build_global();
    let mut works = Vec::new();
    let trees: &[TreeTask] = if quick { &QUICK_TREES } else { &TREES };
    let weaves: &[WeaveTask] = if quick { &QUICK_WEAVES } else { &WEAVES };
    for task in trees {
        tree(task, repeats, bar, &mut works)?;
    }
    for task in weaves {
        weave(task, repeats, bar, &mut works)?;
    }
    Ok(works)
}

fn tree(task: &TreeTask, repeats: usize, bar: &ProgressBar, works: &mut Vec<Work>) -> Result<(), BenchError> {
    bar.set_message(format!("{}: fat-tree", task.spec));
    let (_, fabric) = field::family(task.spec)?;
    let _quiet = HeavyLock::acquire()?;
    let lids = own::number(&fabric);
    let detect = || FatTree::detect(&fabric, &FatTreeOptions::default(), Par::Sequential);
    let no_tree = |error: &dyn std::fmt::Display| BenchError::NotRouted {
        engine: "fat-tree".to_owned(),
        fabric: task.spec.to_owned(),
        cause: error.to_string(),
    };
    let found = detect().map_err(|error| no_tree(&error))?;
    let work = |what: &str, threads, target_ms, (runs_ms, peak_bytes): (Vec<f64>, u64)| Work {
        spec: task.spec.to_owned(),
        what: what.to_owned(),
        threads,
        runs_ms,
        target_ms,
        max_load: None,
        peak_bytes,
    };
    works.push(work("fat-tree: detection", 1, None, times(repeats, || drop(detect()))));
    let mut tables = Tables::new(fabric.switches().len(), lids.top());
    found
        .fill(&lids, &mut tables, Par::Sequential)
        .map_err(|error| no_tree(&error))?;
    // The first run found the memory unmapped; it was not timed.
    let warm = times(repeats, || drop(found.fill(&lids, &mut tables, Par::Sequential)));
    let fill = works.len();
    works.push(work("fat-tree: tables into mapped memory", 1, task.fill_ms, warm));
    let options = own::Request::plain(Engine::FatTree).options();
    let cold = || Engine::FatTree.route(&fabric, &lids, &options, Seed(0), Par::Sequential);
    works.push(work(
        "fat-tree: all, into new memory",
        1,
        None,
        times(repeats, || drop(cold())),
    ));
    let mut max_load = 0;
    let mut judged = |senders| {
        let one = ServiceLevels::default();
        times(repeats, || {
            max_load = load((&fabric, &lids, &tables), (&one, 1), senders)
        })
    };
    let (hosts, all) = (judged(Senders::Hosts), judged(Senders::All));
    works[fill].max_load = Some(max_load);
    works.push(work("judge: packets of hosts", THREADS, task.judge_hosts_ms, hosts));
    works.push(work(
        "judge: packets of hosts and switches",
        THREADS,
        task.judge_ms,
        all,
    ));
    if task.has_peer {
        peers(task.spec, "ftree", 1, repeats, bar, works)?;
    }
    Ok(())
}

fn weave(task: &WeaveTask, repeats: usize, bar: &ProgressBar, works: &mut Vec<Work>) -> Result<(), BenchError> {
    let (_, fabric) = field::family(task.spec)?;
    let lids = own::number(&fabric);
    for &lanes in task.lanes {
        for (effort, name, target_ms) in [
            (Effort::Fast, "fast", task.fast_ms),
            (Effort::Best, "best", task.best_ms),
        ] {
            let what = format!("weave: {name}, lanes {lanes}");
            bar.set_message(format!("{}: {what}", task.spec));
            let _quiet = HeavyLock::acquire()?;
            let options = own::Request {
                lanes,
                effort,
                ..own::Request::plain(Engine::Weave)
            };
            let options = options.options();
            let mut routed = None;
            let (runs_ms, peak_bytes) = times(repeats, || {
                routed = Some(Engine::Weave.route(&fabric, &lids, &options, Seed(0), task.par))
            });
            let routed = routed.and_then(Result::ok).ok_or_else(|| BenchError::NotRouted {
                engine: what.clone(),
                fabric: task.spec.to_owned(),
                cause: "weave refuses, which it never should".to_owned(),
            })?;
            works.push(Work {
                spec: task.spec.to_owned(),
                what,
                threads: if task.par == Par::Rayon { THREADS } else { 1 },
                runs_ms,
                target_ms,
                max_load: Some(load(
                    (&fabric, &lids, &routed.tables),
                    (&routed.service_levels, routed.lanes),
                    Senders::Hosts,
                )),
                peak_bytes,
            });
        }
        if task.has_peer {
            peers(task.spec, "nue", lanes, repeats, bar, works)?;
        }
    }
    Ok(())
}

/// OpenSM's time by its own log, a fresh fabric for each run.
fn peers(
    spec: &str,
    engine: &'static str,
    lanes: u8,
    repeats: usize,
    bar: &ProgressBar,
    works: &mut Vec<Work>,
) -> Result<(), BenchError> {
    bar.set_message(format!("{spec}: OpenSM {engine}"));
    let case = Case::new(spec)?;
    let request = peer::Request {
        engine,
        roots: Vec::new(),
        lanes,
    };
    let (mut runs_ms, mut max_load) = (Vec::new(), None);
    for _ in 0..repeats {
        match peer::run(&case, &request)? {
            Answer::Routed(routes) => {
                runs_ms.extend(routes.compute_ms);
                // One lane is enough for a load; which one a packet takes does not change it.
                let one = ServiceLevels::default();
                max_load = Some(load(
                    (&case.fabric, &routes.lids, &routes.tables),
                    (&one, 1),
                    Senders::Hosts,
                ));
            }
            Answer::FellBack { .. } => return Ok(()),
        }
    }
    works.push(Work {
        spec: spec.to_owned(),
        what: format!("OpenSM {engine}, lanes {lanes}, by its log"),
        threads: 1,
        runs_ms,
        target_ms: None,
        max_load,
        peak_bytes: 0,
    });
    Ok(())
}

/// Returns the load of the busiest link, as the judge counts it on [`THREADS`] threads.
fn load(
    (fabric, lids, tables): (&Fabric, &Lids, &Tables),
    (levels, lanes): (&ServiceLevels, u8),
    senders: Senders,
) -> u64 {
    let options = JudgeOptions {
        par: Par::Rayon,
        senders,
        findings_max: 1,
        ..JudgeOptions::default()
    };
    let lanes = SlToVl::modulo(lanes);
    let subject = Subject::tables(fabric, lids, tables, levels, &lanes);
    verify(subject, &options).figures.load.max
}

/// Returns the milliseconds of each run (at least `least` runs) and the peak memory.
fn times(least: usize, mut work: impl FnMut()) -> (Vec<f64>, u64) {
    // Source: proc(5): writing 5 sets the peak to the present size.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let (mut runs_ms, mut sum) = (Vec::new(), 0.0);
    while runs_ms.len() < least.max(1) || (sum < ENOUGH_MS && runs_ms.len() < RUNS_MAX) {
        let start = Instant::now();
        work();
        let ms = start.elapsed().as_secs_f64() * 1e3;
        sum += ms;
        runs_ms.push(ms);
    }
    (runs_ms, peak_bytes())
}

fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// One line per run.
#[must_use]
pub fn csv(works: &[Work]) -> String {
    let mut text = String::from("fabric,what,threads,run,ms,target_ms,max_load,peak_rss_bytes\n");
    for work in works {
        let target = work.target_ms.map_or_else(String::new, |ms| ms.to_string());
        let load = work.max_load.map_or_else(String::new, |load| load.to_string());
        for (run, ms) in work.runs_ms.iter().enumerate() {
            let (spec, what, threads, peak) = (&work.spec, &work.what, work.threads, work.peak_bytes);
            let _ = writeln!(
                text,
                "\"{spec}\",\"{what}\",{threads},{run},{ms:.4},{target},{load},{peak}"
            );
        }
    }
    text
}

/// A table for people, in Markdown.
#[must_use]
pub fn summary(works: &[Work]) -> String {
    let mut text = String::from(
        "\n## Speed of routing and judging\n\n\
         | fabric | work | threads | runs | ms | target | max load | peak of the process, MiB |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for work in works {
        let Some(spread) = Spread::of(work.runs_ms.iter().copied()) else {
            continue;
        };
        let target = work.target_ms.map_or_else(String::new, |ms| {
            format!("≤ {ms}, {}", if spread.median <= ms { "met" } else { "missed" })
        });
        let mib = if work.peak_bytes == 0 {
            String::new()
        } else {
            (work.peak_bytes >> 20).to_string()
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {spread:.2} | {target} | {} | {mib} |",
            work.spec,
            work.what,
            work.threads,
            spread.count,
            work.max_load.map_or_else(String::new, |load| load.to_string()),
        );
    }
    text
}
