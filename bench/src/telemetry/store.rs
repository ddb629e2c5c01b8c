//! Counters of a whole fabric through sampler and history to Parquet files, and questions about them, in virtual time:
//! nothing may be lost, and memory stays bounded.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use selvedge_history::{Config as Kept, Disk as _, Files, History, HistoryError, Pushed, Question, Range};
use selvedge_sim::Time;
use selvedge_telemetry::{Config, Group, In, Metric, Out, Sample, Sampler, SamplingClass, SlotReport, Wall};
use selvedge_wire::Datagram;

use super::agents::Agents;
use crate::case::Case;
use crate::error::BenchError;

/// 2026-11-29 07:00 UTC: every run ends at this full hour, so that its last file is complete.
const END_S: u64 = 1_795_935_600;
/// Time that an agent in memory takes, in virtual time.
const ANSWERS_AFTER: Duration = Duration::from_micros(100);
/// Counters of a port.
const COUNTERS: u64 = 22;
/// Ports that are asked for one by one.
const PORTS_ASKED: usize = 20;
/// Repeats of a question.
const REPEATS: u32 = 5;
/// Most bytes of a stored value.
const BYTES_MAX: f64 = 2.0;

/// How long is sampled, and what is stored.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Its name.
    pub name: &'static str,
    /// Time of sampling.
    pub minutes: u64,
    /// Interval of slots.
    pub interval_s: u64,
    /// The first sample of each interval of this length is stored.
    pub step_s: u64,
}

/// Ten minutes and an hour of slots of a second, and a day as operators have it.
pub const PLANS: [Plan; 3] = [
    Plan {
        name: "ten minutes, each second stored",
        minutes: 10,
        interval_s: 1,
        step_s: 1,
    },
    Plan {
        name: "an hour, a second of 30 stored",
        minutes: 60,
        interval_s: 1,
        step_s: 30,
    },
    Plan {
        name: "a day, each 30 seconds",
        minutes: 1_440,
        interval_s: 30,
        step_s: 30,
    },
];

/// A question and its time, by processor time in milliseconds.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The question.
    pub what: &'static str,
    /// Rows of the answer.
    pub rows: usize,
    /// Ours, the median.
    pub ours_ms: f64,
    /// Of DuckDB with one thread on the same files; `None`: it is not installed.
    pub duckdb_ms: Option<f64>,
}

/// The figures of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The fabric, as given.
    pub spec: String,
    /// What was done.
    pub plan: Plan,
    /// Ports.
    pub ports: usize,
    /// Slots.
    pub slots: u64,
    /// Smallest share of ports that moved in a slot.
    pub moved: f64,
    /// Samples that are missing, and stored rows that were not found again.
    pub lost: u64,
    /// Notices of the history: none are expected.
    pub notices: Vec<String>,
    /// Bytes of files, by stored value.
    pub bytes_per_value: f64,
    /// Processor time of a slot in milliseconds, median: sampler and agents; take; store.
    pub slot_ms: [f64; 3],
    /// Processor time of an hour's Parquet file in seconds, median.
    pub parquet_s: f64,
    /// Values stored in a second of processor time, from sample to Parquet file.
    pub values_per_s: f64,
    /// The most memory: of the window, of hours in progress, of the whole process.
    pub most_bytes: [u64; 3],
    /// Room of the window.
    pub window_max: u64,
    /// Questions.
    pub asked: Vec<Asked>,
}

impl Run {
    /// True if something was lost, or memory or files are larger than allowed.
    #[must_use]
    pub fn misses_a_count(&self) -> bool {
        let is_large = self.bytes_per_value > BYTES_MAX || self.most_bytes[0] > self.window_max;
        self.lost > 0 || !self.notices.is_empty() || self.moved < 0.5 || is_large
    }
}

/// Samples a fabric as planned, and asks the files. The folder must not exist, and is removed.
pub fn measure(case: &Case, plan: Plan, folder: &Path, bar: &ProgressBar) -> Result<Run, BenchError> {
    let done = fill(case, plan, folder, bar);
    let run = done.and_then(|(mut run, agents)| {
        ask(&mut run, &agents, folder)?;
        Ok(run)
    });
    let _ = fs::remove_dir_all(folder);
    run
}

/// A sampler with its agents under virtual time.
struct Bed {
    agents: Agents,
    sampler: Sampler,
    now: Time,
    flying: VecDeque<(Time, Datagram)>,
}

impl Bed {
    fn new(case: &Case, every: Duration, begin_s: u64) -> Self {
        let (agents, inventory) = Agents::new(&case.fabric, 38);
        let class = SamplingClass::new("data", every, &[Group::Extended]);
        let mut bed = Self {
            agents,
            sampler: Sampler::new(Config::new(vec![class])),
            now: Time::ZERO,
            flying: VecDeque::new(),
        };
        let mut out = Vec::new();
        // Slots in progress are not sampled: the first one begins in half an interval.
        let shown = Wall(Wall::from_secs(begin_s).0 - every.as_nanos() as u64 / 2);
        bed.sampler.handle(bed.now, In::Clock(shown), &mut out);
        bed.sampler
            .handle(bed.now, In::Inventory(Arc::new(inventory)), &mut out);
        bed
    }

    /// Lets a slot begin and end.
    fn slot(&mut self) -> (Vec<Sample>, Option<SlotReport>) {
        self.agents.pass();
        let (mut samples, mut report) = (Vec::new(), None);
        let mut input = Some(In::Wake);
        self.now = self.sampler.next_wake().unwrap_or(self.now).max(self.now);
        while let Some(next) = input.take() {
            let mut out = Vec::new();
            self.sampler.handle(self.now, next, &mut out);
            for output in out {
                match output {
                    Out::Send(request, _) => {
                        let answer = self.agents.answer(&request);
                        self.flying.push_back((self.now + ANSWERS_AFTER, answer));
                    }
                    Out::Sample(sample) => samples.push(*sample),
                    Out::Ended(ended) => report = Some(ended),
                    Out::Cable(_) | Out::Event(_) => {}
                }
            }
            input = self.flying.pop_front().map(|(at, answer)| {
                self.now = at;
                In::Received(answer)
            });
        }
        (samples, report)
    }
}

fn fill(case: &Case, plan: Plan, folder: &Path, bar: &ProgressBar) -> Result<(Run, Agents), BenchError> {
    let every = Duration::from_secs(plan.interval_s);
    let begin_s = END_S - plan.minutes * 60;
    let slots = plan.minutes * 60 / plan.interval_s;
    let mut bed = Bed::new(case, every, begin_s);
    let files = Arc::new(Files::open(folder).map_err(failed)?);
    let config = kept(plan);
    let mut run = Run::new(case, plan, slots, &bed.agents, &config);
    let mut history = History::open(files, folder, "measured", config)
        .map_err(failed)?
        .history;
    let (mut times, mut hours, mut took) = ([Vec::new(), Vec::new(), Vec::new()], Vec::new(), Duration::ZERO);
    bar.set_message(format!("{}: {}", case.spec, plan.name));
    for slot in 0..slots {
        let ((samples, report), sampling) = timed(|| bed.slot());
        run.note(&samples, report, bed.agents.moved, begin_s / plan.interval_s + slot);
        let (dropped, taking) = timed(|| {
            let pushed = samples.iter().map(|sample| history.push(sample, every));
            pushed.filter(|pushed| *pushed != Pushed::Taken).count()
        });
        run.lost += dropped as u64;
        let wall = Wall::from_secs(begin_s + slot * plan.interval_s);
        let (notices, storing) = timed(|| history.flush(wall));
        run.notices.extend(notices.iter().map(ToString::to_string));
        let usage = history.usage();
        run.most_bytes[0] = run.most_bytes[0].max(usage.window_bytes as u64);
        run.most_bytes[1] = run.most_bytes[1].max(usage.hour_bytes as u64);
        hours.extend(work(&mut history));
        took += taking + storing;
        for (times, time) in times.iter_mut().zip([sampling, taking, storing]) {
            times.push(time.as_secs_f64() * 1e3);
        }
        bar.inc(1);
    }
    // Two hours later the last hour is over.
    run.notices.extend(
        history
            .flush(Wall::from_secs(END_S + 7_200))
            .iter()
            .map(ToString::to_string),
    );
    hours.extend(work(&mut history));
    took += hours.iter().sum::<Duration>();
    let values = run.ports as u64 * (plan.minutes * 60 / plan.step_s) * COUNTERS;
    run.bytes_per_value = history.usage().files_bytes as f64 / values as f64;
    run.values_per_s = values as f64 / took.as_secs_f64();
    run.slot_ms = times.map(median);
    run.parquet_s = median(hours.iter().map(Duration::as_secs_f64).collect());
    run.most_bytes[2] = peak_bytes();
    Ok((run, bed.agents))
}

/// Writes hours that are over. Returns the processor time of each file.
fn work(history: &mut History) -> Vec<Duration> {
    let mut times = Vec::new();
    while let Some(job) = history.job() {
        let (done, time) = timed(|| job.run());
        history.done(done);
        times.push(time);
    }
    times
}

impl Run {
    fn new(case: &Case, plan: Plan, slots: u64, agents: &Agents, config: &Kept) -> Self {
        Self {
            spec: case.spec.clone(),
            plan,
            ports: agents.count(),
            slots,
            moved: 1.0,
            lost: 0,
            notices: Vec::new(),
            bytes_per_value: f64::INFINITY,
            slot_ms: [0.0; 3],
            parquet_s: 0.0,
            values_per_s: 0.0,
            most_bytes: [0; 3],
            window_max: config.window_bytes_max as u64,
            asked: Vec::new(),
        }
    }

    /// Notes a slot: every port must have a sample, and it must be this slot.
    fn note(&mut self, samples: &[Sample], report: Option<SlotReport>, moved: usize, number: u64) {
        let is_it = report.is_some_and(|report| report.slot.number == number && report.missing.is_empty());
        let found = if is_it { samples.len() } else { 0 };
        self.lost += self.ports.abs_diff(found) as u64;
        self.moved = self.moved.min(moved as f64 / self.ports.max(1) as f64);
    }
}

/// Asks what is in the files only: the window of a new start is empty.
fn ask(run: &mut Run, agents: &Agents, folder: &Path) -> Result<(), BenchError> {
    let files = Arc::new(Files::open(folder).map_err(failed)?);
    let names = files.list().map_err(BenchError::store("listing", folder.display()))?;
    let history = History::open(files, folder, "measured", kept(run.plan))
        .map_err(failed)?
        .history;
    let plan = run.plan;
    let (begin, last) = (END_S - plan.minutes * 60, END_S - plan.step_s);
    let range = |from: u64, to: u64| Range {
        from: Wall::from_secs(from),
        to: Wall::from_secs(to),
    };
    let counter = Metric::XmitData as usize;
    let mut times = Vec::new();
    let mut slot = Vec::new();
    for _ in 0..REPEATS {
        let (found, time) = timed(|| history.slot(Group::Extended, counter, range(last, last)));
        slot = found.map_err(failed)?.ports;
        times.push(time.as_secs_f64() * 1e3);
    }
    // What the devices have counted by the last slot of a step is what was stored: no sample was lost on the way.
    if plan.step_s == plan.interval_s {
        let stored: u128 = slot.iter().map(|(_, point)| u128::from(point.total)).sum();
        run.lost += u64::from(stored != agents.sum(counter));
    }
    run.lost += run.ports.abs_diff(slot.len()) as u64;
    let rows = plan.minutes * 60 / plan.step_s;
    run.asked.push(Asked::new("all ports, one slot", slot.len(), times));
    // The clock of a thread is too coarse for one question.
    let keys: Vec<_> = slot.iter().step_by(slot.len().div_ceil(PORTS_ASKED).max(1)).collect();
    let (found, time) = timed(|| {
        let ask = |(key, _): &&(_, _)| {
            history.series(&Question {
                key: *key,
                counter,
                range: range(begin, END_S),
                step: None,
            })
        };
        keys.iter().map(ask).collect::<Result<Vec<_>, _>>()
    });
    for series in found.map_err(failed)? {
        run.lost += rows.abs_diff(series.points.len() as u64) + series.gaps.len() as u64;
    }
    let ms = time.as_secs_f64() * 1e3 / keys.len().max(1) as f64;
    run.asked.push(Asked::new(
        "one port, all slots",
        usize::try_from(rows).unwrap_or(0),
        vec![ms],
    ));
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let (found, time) = timed(|| history.top(Group::Extended, counter, range(END_S - 3_600, END_S), 10));
        found.map_err(failed)?;
        times.push(time.as_secs_f64() * 1e3);
    }
    run.asked
        .push(Asked::new("the ten fastest ports of the last hour", 10, times));
    drop(history);
    let is_file = |(name, _): &&(String, u64)| name.ends_with(".parquet");
    let newest = names.iter().filter(is_file).map(|(name, _)| name).max();
    let Some(newest) = newest else { return Ok(()) };
    for (asked, ms) in run.asked.iter_mut().zip(duckdb(folder, newest, last)) {
        asked.duckdb_ms = Some(ms);
    }
    Ok(())
}

impl Asked {
    fn new(what: &'static str, rows: usize, times: Vec<f64>) -> Self {
        Self {
            what,
            rows,
            ours_ms: median(times),
            duckdb_ms: None,
        }
    }
}

/// Asks DuckDB the same questions. Returns the processor time of each in milliseconds; none if it is not installed.
fn duckdb(folder: &Path, newest: &str, last: u64) -> Vec<f64> {
    let output = std::process::Command::new(python())
        .args(["-c", include_str!("ask_duckdb.py")])
        .arg(folder)
        .args([newest, &last.to_string(), &REPEATS.to_string()])
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default()
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect()
}

/// The interpreter that `scripts/setup peers` prepares.
fn python() -> PathBuf {
    let given = std::env::var_os("SELVEDGE_PYTHON").map(PathBuf::from);
    let cache = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cached = || cache().or_else(home).map(|folder| folder.join("selvedge/python"));
    given.or_else(cached).unwrap_or_default().join("bin/python3")
}

fn kept(plan: Plan) -> Kept {
    Kept {
        step: Duration::from_secs(plan.step_s),
        ..Kept::default()
    }
}

fn failed(error: HistoryError) -> BenchError {
    BenchError::NotSimulated {
        simulator: "the history",
        cause: error.to_string(),
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Returns the result, and the time for which this thread had a CPU: it does not depend on what else runs.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = busy();
    let done = work();
    (done, busy().saturating_sub(begin))
}

/// Source: Linux, Documentation/scheduler/sched-stats.rst: the first field is time spent on a CPU, in nanoseconds.
fn busy() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0))
}

/// Returns the most memory that this process ever had. Source: proc(5), VmHWM in KiB.
fn peak_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1_024
}
