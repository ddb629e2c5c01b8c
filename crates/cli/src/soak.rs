//! `selvedge soak`: simulated disasters by seed, on all processors.

mod proof;
mod real;
mod report;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use selvedge_api::{Document, Soak, SoakReal};
use selvedge_fabric::Fabric;
use selvedge_rehearsal::soak::{Failure, Nobody, Outcome, Schedule, Totals};
use selvedge_topology::Spec;

use self::real::Program;
use crate::args::THREADS_MAX;
use crate::exit::{CliError, Exit};
use crate::load;
use crate::out::{Format, Out, note};

/// Seeds that one thread takes at once, and that are one line of a result file: few in a short run, more in a long one.
const PARTS: (u64, u64) = (100, 1_000);
/// Largest number of seeds of a run: more than a year on one processor. The results of so many seeds still fit into
/// memory.
const SEEDS_MAX: u64 = 1_000_000_000;
/// From this number of seeds on, a run counts as long.
const LONG: u64 = 20_000;
/// Number of failing schedules of one code that are kept and reduced.
const KEPT: usize = 3;
/// Largest number of runs to reduce a failing schedule.
const SHRINK_RUNS: usize = 3_000;

/// Run managers on emulated fabrics through random faults, with checkers after every Set, fault and timer; exit code 1
/// if a checker finds a violation.
#[derive(Args, Debug)]
pub struct SoakArgs {
    /// Seeds, the last not included [default: 1..1001, or all in the file of --digest]
    #[arg(long, value_name = "A..B")]
    seeds: Option<Seeds>,
    /// Threads; default: one for each processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX))]
    jobs: Option<u16>,
    /// Append results to FILE, a line for each hundred or thousand seeds, write summary.md beside it, and skip what the
    /// same program did before: stop it and start it again as you like
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the first failing schedules of each code, made small, and their logs into this folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Hosts use subnet administration meanwhile: they join groups, subscribe, offer services, ask for paths; the
    /// answers are checked
    #[arg(long, conflicts_with = "manager")]
    sa: bool,
    /// Managers store on disks that fail for a time (no descriptor, no room, cut files, renames that may be done or
    /// not) and are killed meanwhile
    #[arg(long, conflicts_with = "manager")]
    store_faults: bool,
    /// The operator makes changes meanwhile: takes switches and links out of service and puts them back, loads policies
    /// that are refused, other M_Keys, and two changes at once; at the end the fabric must agree with the last changes
    #[arg(long, conflicts_with = "manager")]
    changes: bool,
    /// Write what was done to managers and fabric into FILE, with virtual times: resolved schedules, for --digest
    #[arg(long, value_name = "FILE", conflicts_with_all = ["out", "manager"])]
    resolve: Option<PathBuf>,
    /// Carry out the resolved schedules of FILE and print their digests: what managers sent, and what agents hold
    /// whenever all is well
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["resolve", "out", "keep", "sa", "store_faults", "changes", "manager"])]
    digest: Option<PathBuf>,
    /// Compare the digests with those that FILE has, print the schedules that differ; exit code 1 if any does
    #[arg(long, value_name = "FILE", requires = "digest")]
    against: Option<PathBuf>,
    /// Print as well what the digests are of, before those of each schedule: MADs, states and IsSM, and what agents
    /// hold and hosts have registered at each end; with events of managers, which are in no digest
    #[arg(long, requires = "digest", conflicts_with_all = ["against", "json", "csv"])]
    wire: bool,
    /// In real time, with this program as manager, on the emulator as an ibsim: counts what the checkers find
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["out", "keep"])]
    manager: Option<Program>,
    /// Seconds of a schedule that pass in one, in real time; intervals and time-outs of the managers are divided by it
    #[arg(long, value_name = "N", default_value_t = 1, requires = "manager")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=20))]
    speed: u32,
    /// In real time, carry out only the first so many events of each schedule
    #[arg(long, value_name = "N", requires = "manager")]
    events: Option<usize>,
    #[command(flatten)]
    format: Format,
}

/// A range of seeds.
#[derive(Clone, Debug)]
struct Seeds(Range<u64>);

impl FromStr for Seeds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANT: &str = "want two numbers, the first one smaller, as in 1..1001";
        let (from, to) = text.split_once("..").ok_or(WANT)?;
        match (from.parse::<u64>(), to.parse::<u64>()) {
            (Ok(from), Ok(to)) if from < to && to - from > SEEDS_MAX => Err("want at most 1000000000 seeds at once"),
            (Ok(from), Ok(to)) if from < to => Ok(Self(from..to)),
            _ => Err(WANT),
        }
    }
}

/// Seeds that run if none are named.
const SEEDS: Range<u64> = 1..1_001;

impl SoakArgs {
    /// Returns the seeds to run.
    fn seeds(&self) -> Range<u64> {
        self.seeds.as_ref().map_or(SEEDS, |seeds| seeds.0.clone())
    }

    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(all, usize::from).max(1)
    }

    const fn beside(&self) -> Beside {
        Beside {
            sa: self.sa,
            store_faults: self.store_faults,
            changes: self.changes,
        }
    }

    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Runs the command.
pub fn run(args: &SoakArgs) -> Result<Exit, CliError> {
    if let Some(manager) = args.manager {
        return real(args, manager);
    }
    if let Some(path) = &args.digest {
        return proof::run(args, path);
    }
    let seeds = args.seeds();
    let (program, binary, beside) = (program(), binary(), args.beside());
    make_folders(args)?;
    let jobs = args.threads();
    let mut all = Soak {
        from: seeds.start,
        to: seeds.end,
        program: program.clone(),
        binary: binary.clone(),
        machine: machine(),
        jobs: jobs as u64,
        sa: args.sa,
        store_faults: args.store_faults,
        changes: args.changes,
        ..Soak::default()
    };
    let out = args.out.as_ref();
    let done = out.map_or(Ok(Vec::new()), |path| earlier(path, &binary, beside))?;
    let parts = parts(&seeds);
    let is_done = |part: &Range<u64>| done.iter().any(|d| (d.from, d.to) == (part.start, part.end));
    for part in done.iter().filter(|d| parts.contains(&(d.from..d.to))) {
        all.add(part);
    }
    let todo: Vec<Range<u64>> = parts.into_iter().filter(|part| !is_done(part)).collect();
    let bar = bar(todo.iter().map(|part| part.end - part.start).sum());
    let (next, kept) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()));
    let texts = args.resolve.as_ref().map(|_| Texts::default());
    let wanted = Wanted {
        beside,
        keep: args.keep.as_deref().zip(Some(&kept)),
        resolved: texts.as_ref(),
    };
    let results = Mutex::new((all, Ok(())));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(part) =
                    todo.get(usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX))
                {
                    let mut result = carry_out(part, &wanted, || bar.inc(1));
                    beside.mark(&mut result);
                    result.program.clone_from(&program);
                    result.binary.clone_from(&binary);
                    let Ok(mut results) = results.lock() else { return };
                    results.0.add(&result);
                    sort(&mut results.0);
                    if let Some(path) = &args.out
                        && let Err(error) = store(path, &result, &results.0)
                    {
                        results.1 = Err(error);
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    let (all, written) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    written?;
    if let (Some(path), Some(texts)) = (&args.resolve, texts) {
        write_resolved(path, texts)?;
    }
    show(args, all)
}

/// Writes resolved schedules, by seed.
fn write_resolved(path: &Path, texts: Texts) -> Result<(), CliError> {
    let texts = texts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let text: String = texts.into_values().collect();
    load::write(path, &format!("# {}: selvedge soak --resolve\n{text}", program()))
}

/// Makes the folders that results go into.
fn make_folders(args: &SoakArgs) -> Result<(), CliError> {
    for folder in [args.keep.as_deref(), args.out.as_deref().and_then(Path::parent)] {
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        folder
            .map_or(Ok(()), fs::create_dir_all)
            .map_err(|cause| CliError::Write {
                path: folder.unwrap_or(Path::new("")).to_owned(),
                cause,
            })?;
    }
    Ok(())
}

/// Returns a bar that counts seeds.
fn bar(count: u64) -> ProgressBar {
    let bar = crate::progress::bar();
    bar.set_length(count);
    bar.set_message("seeds");
    bar
}

fn sort(all: &mut Soak) {
    all.failures.sort_by_key(|failure| failure.seed);
    all.exemptions
        .sort_by(|a, b| (&a.checker, &a.rule).cmp(&(&b.checker, &b.rule)));
}

/// Number of runs at a time with programs: the runs mostly wait for them.
const REAL_JOBS: usize = 4;

fn real(args: &SoakArgs, manager: Program) -> Result<Exit, CliError> {
    let seeds = &args.seeds();
    let bar = bar(seeds.end - seeds.start);
    let jobs = args.jobs.map_or(REAL_JOBS, usize::from);
    let runs = real::carry_out(seeds, manager, (args.speed, args.events), jobs, || bar.inc(1));
    bar.finish_and_clear();
    let report = SoakReal {
        manager: manager.name().to_owned(),
        program: program(),
        machine: machine(),
        speed: args.speed,
        runs: runs.iter().map(report::real_run).collect(),
    };
    let mut out = Out::new(args.format);
    let good = report
        .runs
        .iter()
        .all(|run| run.error.is_none() && run.crashes.is_empty() && run.findings.is_empty() && run.trouble.is_empty());
    match args.format.json {
        true => out.document(report)?,
        false => report::show_real(&mut out, &report)?,
    }
    out.flush()?;
    Ok(if good { Exit::Good } else { Exit::NotGood })
}

fn parts(seeds: &Range<u64>) -> Vec<Range<u64>> {
    let part = if seeds.end - seeds.start < LONG {
        PARTS.0
    } else {
        PARTS.1
    };
    let starts = (seeds.start..seeds.end).step_by(usize::try_from(part).unwrap_or(1));
    starts
        .map(|from| from..from.saturating_add(part).min(seeds.end))
        .collect()
}

/// Returns a generated fabric.
pub fn generated(spec: &str) -> Result<Fabric, String> {
    match spec.parse::<Spec>() {
        Ok(Spec::Generated(recipe)) => recipe.fabric().map_err(|error| error.to_string()),
        Ok(Spec::File(path)) => Err(format!("{} is no generated fabric", path.display())),
        Err(error) => Err(error.to_string()),
    }
}

/// The outcome of a run that ended in a panic.
const PANICKED: &str = "the manager or a checker panicked";

/// Number of kept schedules, by code.
type Kept = Mutex<BTreeMap<String, usize>>;

/// Options of a run that are added to the schedule of every seed.
#[derive(Clone, Copy, Debug)]
struct Beside {
    sa: bool,
    store_faults: bool,
    changes: bool,
}

impl Beside {
    /// Returns the schedule of a seed with these options.
    fn schedule(self, seed: u64) -> Schedule {
        let drawn = Schedule::draw(seed);
        let mut schedule = if self.changes { drawn.with_changes() } else { drawn };
        (schedule.setup.sa, schedule.setup.store_faults) = (self.sa, self.store_faults);
        schedule
    }

    /// Writes the options into a result.
    const fn mark(self, result: &mut Soak) {
        (result.sa, result.store_faults, result.changes) = (self.sa, self.store_faults, self.changes);
    }

    /// True if a result is from a run with these options.
    const fn is_of(self, part: &Soak) -> bool {
        part.sa == self.sa && part.store_faults == self.store_faults && part.changes == self.changes
    }
}

/// Texts of resolved schedules, by seed.
type Texts = Mutex<BTreeMap<u64, String>>;

/// The outputs that are wanted for each seed, in addition to its outcome.
struct Wanted<'a> {
    beside: Beside,
    /// The folder for failing schedules, and how many were kept.
    keep: Option<(&'a Path, &'a Kept)>,
    resolved: Option<&'a Texts>,
}

impl Wanted<'_> {
    /// Carries out a schedule.
    fn run(&self, schedule: &Schedule) -> Result<Outcome, String> {
        let fabric = generated(&schedule.fabric)?;
        let Some(texts) = self.resolved else {
            return Ok(schedule.run(&fabric, &mut Nobody));
        };
        let (outcome, resolved) = schedule.resolve(&fabric);
        if let Ok(mut texts) = texts.lock() {
            texts.insert(schedule.seed, resolved.to_string());
        }
        Ok(outcome)
    }
}

fn carry_out(seeds: &Range<u64>, wanted: &Wanted<'_>, mut done: impl FnMut()) -> Soak {
    let (began, cpu) = (Instant::now(), thread_cpu_ns());
    let mut totals = Totals::default();
    for seed in seeds.clone() {
        let schedule = wanted.beside.schedule(seed);
        let ran = catch_unwind(AssertUnwindSafe(|| wanted.run(&schedule)));
        let failed = match ran {
            Ok(Ok(outcome)) => {
                totals.add(&schedule, &outcome);
                outcome.failure.is_some()
            }
            Ok(Err(error)) => broken(&mut totals, seed, error),
            Err(_) => broken(&mut totals, seed, PANICKED.to_owned()),
        };
        if let (true, Some((folder, kept)), Some(failure)) = (failed, wanted.keep, totals.failures.get(&seed)) {
            let count = kept.lock().map_or(KEPT, |mut kept| {
                let count = kept.entry(failure.code().to_owned()).or_default();
                *count += 1;
                *count
            });
            if count <= KEPT {
                // A failure that is not kept can be drawn again from its seed.
                if let Err(error) = keep_failure(folder, &schedule, failure) {
                    note(format!("warning: {error}"));
                }
            }
        }
        done();
    }
    let mut result = report::document(&totals);
    (result.from, result.to) = (seeds.start, seeds.end);
    result.cpu_ms = thread_cpu_ns().saturating_sub(cpu) as f64 / 1e6;
    result.hours = began.elapsed().as_secs_f64() / 3_600.0;
    result
}

fn broken(totals: &mut Totals, seed: u64, what: String) -> bool {
    totals.schedules += 1;
    let failure = Failure {
        at: selvedge_sim::Time::ZERO,
        begun: 0,
        what,
    };
    totals.failures.insert(seed, failure);
    true
}

/// Stores the schedule as drawn, the reduced schedule, and the managers' log.
fn keep_failure(folder: &Path, schedule: &Schedule, failure: &Failure) -> Result<(), CliError> {
    let what = &failure.what;
    let file = |name: &str| folder.join(format!("seed-{}{name}.txt", schedule.seed));
    load::write(&file("-whole"), &format!("{schedule}# {}: {what}\n", program()))?;
    let small = catch_unwind(AssertUnwindSafe(|| schedule.shrink(&generated, SHRINK_RUNS)));
    let Ok(Some(small)) = small else { return Ok(()) };
    let mut text = format!("{}# {}: {}\n", small.schedule, program(), small.failure.what);
    if let Ok(fabric) = generated(&small.schedule.fabric) {
        for line in small.schedule.run(&fabric, &mut Nobody).log.lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# {line}");
        }
    }
    load::write(&file(""), &text)
}

/// Returns the results in a file that the same program computed before. A line that was cut off when the program was
/// stopped does not count.
fn earlier(path: &Path, binary: &str, beside: Beside) -> Result<Vec<Soak>, CliError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let bytes = load::text_bytes(path)?;
    let text = String::from_utf8_lossy(&bytes);
    if !text.is_empty() && !text.ends_with('\n') {
        let file = OpenOptions::new().append(true).open(path);
        let ended = file.and_then(|mut file| file.write_all(b"\n"));
        ended.map_err(|cause| CliError::Write {
            path: path.to_owned(),
            cause,
        })?;
    }
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Document<Soak>>(line).ok());
    Ok(lines
        .map(|line| line.body)
        .filter(|part| part.binary == binary && beside.is_of(part))
        .collect())
}

/// Appends a part of the results, and writes the page next to it again.
fn store(path: &Path, part: &Soak, all: &Soak) -> Result<(), CliError> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let line = Document::new(part.clone()).to_json();
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.map_err(|cause| CliError::Write {
        path: path.to_owned(),
        cause,
    })?;
    let sa = if all.sa { " --sa" } else { "" };
    let faults = if all.store_faults { " --store-faults" } else { "" };
    let changes = if all.changes { " --changes" } else { "" };
    let command = format!("selvedge soak{sa}{faults}{changes} --seeds {}..{}", all.from, all.to);
    load::write(&path.with_file_name("summary.md"), &report::page(all, &command))
}

fn show(args: &SoakArgs, all: Soak) -> Result<Exit, CliError> {
    let exit = match all.failures.is_empty() {
        true => Exit::Good,
        false => Exit::NotGood,
    };
    let mut out = Out::new(args.format);
    match args.format.json {
        true => out.document(all)?,
        false => report::show(&mut out, &all)?,
    }
    out.flush()?;
    Ok(exit)
}

/// Returns the version, and the commit that is checked out where the program runs.
fn program() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .args(args)
            .output()
            .ok()
            .filter(|o| o.status.success())?;
        String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
    let changed = if changed { ", with changes" } else { "" };
    format!("selvedge {} commit {commit}{changed}", env!("CARGO_PKG_VERSION"))
}

/// Returns a hash of the program's own file, so that no result of another program counts as done.
fn binary() -> String {
    let bytes = std::env::current_exe().and_then(fs::read).unwrap_or_default();
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned())
}

/// Returns the processor time of this thread in ns; 0 if the system does not report it.
fn thread_cpu_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_at_the_end_of_all_numbers() {
        let check = |text: &str, want: &[(u64, u64)]| {
            let seeds: Seeds = text.parse().unwrap();
            let found: Vec<_> = parts(&seeds.0).iter().map(|part| (part.start, part.end)).collect();
            assert_eq!(found, want, "{text}");
        };
        check("1..101", &[(1, 101)]);
        check("1..102", &[(1, 101), (101, 102)]);
        let end = u64::MAX;
        check("18446744073709551610..18446744073709551615", &[(end - 5, end)]);
        check(
            "18446744073709551500..18446744073709551615",
            &[(end - 115, end - 15), (end - 15, end)],
        );
        check("0..1", &[(0, 1)]);
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        let check = |text: &str, want: &str| assert_eq!(text.parse::<Seeds>().unwrap_err(), want, "{text}");
        let numbers = "want two numbers, the first one smaller, as in 1..1001";
        let many = "want at most 1000000000 seeds at once";
        for text in [
            "",
            "..",
            "1",
            "5..5",
            "9..3",
            "-1..3",
            "0..18446744073709551616",
            "1..2..3",
        ] {
            check(text, numbers);
        }
        check("0..18446744073709551615", many);
        check("0..1000000001", many);
        assert_eq!("0..1000000000".parse::<Seeds>().unwrap().0, 0..1_000_000_000);
        // The parts of a long run have a thousand seeds each.
        assert_eq!(parts(&(0..1_000_000_000)).len(), 1_000_000);
    }
}
