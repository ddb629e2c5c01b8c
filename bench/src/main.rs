//! Benchmarks beside real peers, as ratios with spread: `make bench`, or `cargo run -p selvedge-bench -- --help`.
//!
//! `docs/reference/benchmark-methods.md` explains the measurements and each figure.

mod administration;
mod bringup;
mod case;
mod ceiling;
mod chart;
mod claims;
mod emulator;
mod error;
mod failover;
mod formula;
mod machine;
mod migration;
mod model;
mod opensm;
mod ours;
mod packets;
mod report;
mod routing;
mod seed1;
mod seed3;
mod seed4;
mod stats;
mod tables;
mod telemetry;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use selvedge_conformance::{HeavyLock, PeerLab};
use selvedge_transport::ibsim::IbsimPort;

use crate::case::Case;
use crate::ceiling::Load;
use crate::emulator::Wrappers;
use crate::error::BenchError;
use crate::failover::faults::{Count, Kind};
use crate::formula::{Counts, Minimum};
use crate::machine::Machine;
use crate::opensm::Variant;
use crate::report::{How, Results};
use crate::stats::Spread;

/// Fabrics of a full run: 324, 1,728 and 5,832 hosts.
const FABRICS: [&str; 3] = ["sx6536", "karytree:k=12,n=3", "karytree:k=18,n=3"];

/// Benchmarks beside real peers. Without a command: bringup, then emulator, stored in one folder.
#[derive(Debug, Parser)]
#[command(name = "selvedge-bench")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
enum Command {
    /// Bring-up of fresh fabrics on ibsim: ours and OpenSM's alternating, the ceiling before and after each of ours.
    Bringup,
    /// The most MADs a second that ibsim answers, by window.
    Ceiling,
    /// The least number of MADs of a bring-up, term by term.
    Formula,
    /// MADs a second of the built-in emulator, without faults and with all of them.
    Emulator,
    /// The analytic model: figures 4 to 9 of the paper, predicted against measured time, how long an answer takes.
    Model,
    /// Quality of routing: our engines and OpenSM's on the same fabrics, both by the same judge.
    Routing,
    /// Fail-over on ibsim: from the trap to the last entry in force, ours and OpenSM's, by one observer on the wire.
    Failover,
    /// Packets simulated per second of processor time, beside CAMINOS, which must be on the path.
    Packets,
    /// Tables and service levels that OpenSM's nue makes of damaged fabrics, as files for `selvedge simulate`.
    OpensmTables,
    /// The subnet administrator: paths asked for while 11,664 hosts are routed anew, beside OpenSM; questions and
    /// joins.
    Administration,
    /// Full reads of all counters on ibsim: the manager beside a bare poller, ibqueryerrors, iblinkinfo and perfquery.
    Telemetry,
    /// Time of a sample by metrics and distance: experiments/seed1.toml, with its results in experiments/seed1.
    Seed1,
    /// Path migration on two dual-port hosts: experiments/seed3.toml, with its results in experiments/seed3.
    Seed3,
    /// Quality of service for messages of two clusters: experiments/seed4.toml, with its results in experiments/seed4.
    Seed4,
    /// A cut cable under all-to-all traffic: repair, path migration, both, OpenSM's repair, fail-over and striping; and
    /// drawn single faults. Tables, time lines and picture are stored in experiments/seed3.
    Migration(migration::Args),
    /// Counters of ten minutes, an hour and a day through sampler and history to Parquet files, and questions, beside
    /// DuckDB.
    TelemetryStore,
    /// How long our routing and judging take, one thread unless another number is given; on a quiet machine only.
    RoutingSpeed,
}

#[derive(Debug, Args)]
struct Options {
    /// Fabric to measure; may be repeated. Default: 324, 1,728 and 5,832 hosts (emulator: the last of them).
    #[arg(long, global = true, value_name = "SPEC")]
    fabric: Vec<String>,
    /// Runs of each OpenSM variant on each fabric; ours runs once before each of them.
    #[arg(long, global = true, value_name = "N")]
    repeats: Option<usize>,
    /// Routing: seeds of fabrics that chance makes.
    #[arg(long, global = true, value_name = "FIRST-LAST", default_value = "21-30", value_parser = seeds)]
    seeds: RangeInclusive<u64>,
    /// Routing and stored telemetry: only what has this in its name, as selvedge, nue or "ten minutes"; may be
    /// repeated.
    #[arg(long, global = true, value_name = "TEXT")]
    only: Vec<String>,
    /// Bring-up, fail-over and administration: OpenSM's routing engines (default: minhop, updn, ftree; fail-over: and
    /// dfsssp; administration: ftree, only the first).
    #[arg(long, global = true, value_delimiter = ',')]
    engines: Vec<String>,
    /// The same: OpenSM's windows (max_wire_smps): 4 is its default, 32 is ours.
    #[arg(long, global = true, value_delimiter = ',', default_value = "4,32")]
    windows: Vec<usize>,
    /// Fail-over: how many faults on each fabric, of the kinds in turn; all: every one.
    #[arg(long, global = true, value_name = "N", default_value = "10")]
    faults: Count,
    /// Fail-over: leaf and mid are links, of switches with hosts and of others; spine and switch are deaths.
    #[arg(
        long,
        global = true,
        value_delimiter = ',',
        value_name = "KIND",
        default_value = "leaf,mid"
    )]
    kinds: Vec<Kind>,
    /// Fail-over: of the draw of faults.
    #[arg(long, global = true, value_name = "N", default_value_t = 21)]
    seed: u64,
    /// Fail-over: seconds for which a manager must neither have sent nor worked before each fault; 0: no longer than
    /// until the one before is dealt with. Ours works out repairs after two.
    #[arg(long, global = true, value_name = "S", default_value_t = 3)]
    rest: u32,
    /// Fail-over: what an agent takes for an SMP, in microseconds, on the built-in emulator in virtual time; ours only.
    #[arg(long, global = true, value_delimiter = ',', value_name = "US")]
    service_us: Vec<u64>,
    /// Fail-over: one JSON object on standard output in place of the tables.
    #[arg(long, global = true)]
    json: bool,
    /// Fail-over and administration: without OpenSM.
    #[arg(long, global = true)]
    only_ours: bool,
    /// For tests: small fabrics, one repeat, one OpenSM variant, short blasts; stores only in the folder of --out.
    #[arg(long, global = true)]
    quick: bool,
    /// Folder for the results; default: a new one below bench/runs.
    #[arg(long, global = true, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Store nothing.
    #[arg(long, global = true, conflicts_with = "out")]
    no_store: bool,
}

impl Cli {
    /// Returns the part of a folder's name that follows the machine; empty for the bring-up.
    const fn part(&self) -> &'static str {
        match self.command {
            Some(Command::Model) => "-model",
            Some(Command::Routing) => "-routing",
            Some(Command::RoutingSpeed) => "-routing-speed",
            Some(Command::Failover) => "-failover",
            Some(Command::Packets) => "-packets",
            Some(Command::Administration) => "-administration",
            Some(Command::Telemetry) => "-telemetry",
            Some(Command::TelemetryStore) => "-telemetry-store",
            _ => "",
        }
    }
}

impl Options {
    fn cases(&self, default: &[&str]) -> Result<Vec<Case>, BenchError> {
        let given = self.fabric.iter().map(String::as_str);
        let specs: Vec<&str> = match (self.fabric.is_empty(), self.quick) {
            (false, _) => given.collect(),
            (true, true) => vec![FABRICS[0]],
            (true, false) => default.to_vec(),
        };
        specs.into_iter().map(Case::new).collect()
    }

    fn repeats(&self) -> usize {
        self.repeats.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// Returns OpenSM with each engine and window; in quick mode only the first of them.
    fn variants(&self, engines: &[&str]) -> Vec<Variant> {
        let given: Vec<&str> = self.engines.iter().map(String::as_str).collect();
        let engines = if given.is_empty() { engines } else { &given };
        let variant = |window| {
            move |engine: &&str| Variant {
                engine: (*engine).to_owned(),
                window,
            }
        };
        let windows = self.windows.iter();
        let all = windows.flat_map(|&window| engines.iter().map(variant(window)));
        all.take(if self.quick { 1 } else { usize::MAX }).collect()
    }

    fn bringup(&self) -> Result<bringup::Options, BenchError> {
        Ok(bringup::Options {
            program: ours::program()?,
            repeats: self.repeats(),
            variants: self.variants(&["minhop", "updn", "ftree"]),
            blast_mads: self.blast_mads(),
        })
    }

    fn failover(&self) -> failover::Options {
        failover::Options {
            faults: if self.quick { Count::Of(2) } else { self.faults },
            kinds: self.kinds.clone(),
            seed: self.seed,
            rest: match self.faults {
                Count::Of(_) => (self.rest > 0).then(|| Duration::from_secs(self.rest.into())),
                // Hundreds, mostly of waits.
                Count::All => None,
            },
            services: self.service_us.iter().copied().map(Duration::from_micros).collect(),
            variants: if self.only_ours {
                Vec::new()
            } else {
                self.variants(&["minhop", "updn", "ftree", "dfsssp"])
            },
        }
    }

    fn administration(&self) -> administration::Options {
        let peers = if self.only_ours {
            Vec::new()
        } else {
            // One engine as operators have it: the fabric is large.
            self.variants(&["ftree"]).into_iter().take(1).collect()
        };
        administration::Options {
            peers: peers.into_iter().map(failover::Who::OpenSm).collect(),
            repeats: self.repeats.unwrap_or(1),
            rest: Duration::from_secs(if self.quick { 1 } else { 10 }),
        }
    }

    /// Fabrics of the routing part.
    fn routing_fabrics(&self) -> Vec<String> {
        let specs = match (self.fabric.is_empty(), self.quick) {
            (false, _) => self.fabric.clone(),
            (true, true) => routing::QUICK.map(str::to_owned).to_vec(),
            (true, false) => routing::default_fabrics(),
        };
        let each = |spec: &String| routing::seeded(spec, self.seeds.clone());
        specs.iter().flat_map(each).collect()
    }

    const fn blast_mads(&self) -> usize {
        if self.quick { ceiling::QUICK_MADS } else { ceiling::MADS }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(3)
        }
    }
}

fn run(cli: &Cli) -> Result<ExitCode, BenchError> {
    let options = &cli.options;
    let (start, load) = (Instant::now(), machine::load());
    let (machine, date, commit) = (Machine::this(), machine::today(), report::commit());
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
    let folder = match &options.out {
        Some(folder) => Some(folder.clone()),
        None if options.quick || options.no_store => None,
        None => Some(report::free_folder(&runs, &date, &machine, cli.part())),
    };
    let mut results = Results::default();
    match &cli.command {
        Some(Command::Formula) => return formula(options),
        Some(Command::Ceiling) => return ceilings(options),
        Some(Command::Seed1) => return seed1(options),
        Some(Command::Seed3) => return seed3(options),
        Some(Command::Seed4) => return seed4(options),
        Some(Command::Migration(args)) => return migrations(args, options),
        Some(Command::Bringup) => bringups(options, &mut results)?,
        Some(Command::Emulator) => emulators(options, &mut results)?,
        Some(Command::Model) => results.model = Some(model::measure(options.quick, options.repeats())?),
        Some(Command::Routing) => routings(options, folder.as_deref(), &mut results)?,
        Some(Command::Failover) => failovers(options, folder.as_deref(), &mut results)?,
        Some(Command::OpensmTables) => return opensm_tables(options),
        Some(Command::Packets) => {
            let bar = progress(0);
            results.packets = packets::measure(options.quick, options.repeats(), &bar)?;
            bar.finish_and_clear();
        }
        Some(Command::Telemetry) => telemetries(options, &mut results)?,
        Some(Command::TelemetryStore) => stores(options, folder.as_deref(), &mut results)?,
        Some(Command::Administration) => administrations(options, folder.as_deref(), &mut results)?,
        Some(Command::RoutingSpeed) => {
            let bar = progress(0);
            results.speed = routing::speed::measure(options.quick, options.repeats(), &bar)?;
            bar.finish_and_clear();
        }
        None => {
            bringups(options, &mut results)?;
            emulators(options, &mut results)?;
        }
    }
    if options.json && cli.command == Some(Command::Failover) {
        println!("{}", failover::json(&results.failover));
    } else {
        println!("{}", results.summary());
    }
    let how = How {
        machine,
        date,
        commit,
        arguments: std::env::args().skip(1).collect(),
        load: (load, machine::load()),
        took_s: start.elapsed().as_secs_f64(),
    };
    if let Some(folder) = folder {
        results.store(&folder, &how)?;
        eprintln!("stored in {}", folder.display());
    }
    if results.misses_a_count() {
        eprintln!("a count misses its target; see the summary");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn formula(options: &Options) -> Result<ExitCode, BenchError> {
    for case in options.cases(&FABRICS)? {
        let minimum = Minimum::of(&Counts::of(&case.fabric));
        println!("{}\n{minimum}", case.spec);
    }
    Ok(ExitCode::SUCCESS)
}

fn opensm_tables(options: &Options) -> Result<ExitCode, BenchError> {
    let given: Vec<&str> = options.fabric.iter().map(String::as_str).collect();
    let fabrics = if given.is_empty() { &tables::FABRICS } else { &given[..] };
    let folder = options.out.clone().unwrap_or_else(|| PathBuf::from(tables::FOLDER));
    let bar = progress(0);
    let refused = tables::write(fabrics, options.seeds.clone().take(tables::SEEDS), &folder, &bar)?;
    bar.finish_and_clear();
    refused.iter().for_each(|line| println!("{line}"));
    println!("tables in {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

fn ceilings(options: &Options) -> Result<ExitCode, BenchError> {
    println!("fabric, window: MADs/s, median (minimum–maximum)");
    for case in options.cases(&FABRICS)? {
        let load = Load::new(&case, options.blast_mads());
        let lab = PeerLab::new()?;
        let _simulator = lab.ibsim_sized(&case.net, case.size)?;
        let _quiet = HeavyLock::acquire()?;
        let mut port = IbsimPort::open(lab.base(), case.host_name())?;
        let mut blasts = Vec::new();
        for _ in 0..options.repeats() {
            blasts.extend(load.all_windows(&mut port)?);
        }
        for window in ceiling::WINDOWS {
            let rates = blasts.iter().filter(|blast| blast.window == window);
            if let Some(spread) = Spread::of(rates.map(|blast| blast.mads_per_s)) {
                println!("{}, {window}: {spread:.0}", case.spec);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn telemetries(options: &Options, results: &mut Results) -> Result<(), BenchError> {
    let program = ours::program()?;
    let bar = progress(0);
    for case in options.cases(&telemetry::FABRICS)? {
        let figures = telemetry::measure(&case, &program, options.repeats(), &bar)?;
        results.telemetry.extend(figures);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Rows are stored after each run.
fn stores(options: &Options, folder: Option<&Path>, results: &mut Results) -> Result<(), BenchError> {
    let bar = progress(0);
    let is_wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|text| name.contains(text));
    let plans = telemetry::store::PLANS.into_iter().filter(|plan| is_wanted(plan.name));
    let plans: Vec<_> = plans.take(if options.quick { 1 } else { usize::MAX }).collect();
    let files = std::env::temp_dir().join(format!("selvedge-bench-files-{}", std::process::id()));
    for case in options.cases(&telemetry::FABRICS)? {
        for &plan in &plans {
            results
                .store_runs
                .push(telemetry::store::measure(&case, plan, &files, &bar)?);
            if let Some(folder) = folder {
                results.store_tables(folder)?;
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn seed1(options: &Options) -> Result<ExitCode, BenchError> {
    let file = Path::new(seed1::FILE);
    let text = std::fs::read_to_string(file).map_err(BenchError::store("reading", file.display()))?;
    let folder = options.out.clone().unwrap_or_else(|| file.with_extension(""));
    let (text, differences) = seed1::measure(&text, &folder)?;
    println!("{text}");
    differences
        .iter()
        .for_each(|line| eprintln!("differs from the paper: {line}"));
    Ok(if differences.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A statement that is missed is printed; the run has succeeded nevertheless.
fn seed3(options: &Options) -> Result<ExitCode, BenchError> {
    let file = Path::new(seed3::FILE);
    let text = std::fs::read_to_string(file).map_err(BenchError::store("reading", file.display()))?;
    let folder = options.out.clone().unwrap_or_else(|| file.with_extension(""));
    let (text, missed) = seed3::measure(&text, &folder)?;
    println!("{text}");
    missed.iter().for_each(|line| eprintln!("missed: {line}"));
    Ok(ExitCode::SUCCESS)
}

/// A statement that is missed is printed; the run has succeeded nevertheless.
fn seed4(options: &Options) -> Result<ExitCode, BenchError> {
    let file = Path::new(seed4::FILE);
    let text = std::fs::read_to_string(file).map_err(BenchError::store("reading", file.display()))?;
    let folder = options.out.clone().unwrap_or_else(|| file.with_extension(""));
    let (text, missed) = seed4::measure(&text, &folder)?;
    println!("{text}");
    missed.iter().for_each(|line| eprintln!("missed: {line}"));
    Ok(ExitCode::SUCCESS)
}

fn migrations(args: &migration::Args, options: &Options) -> Result<ExitCode, BenchError> {
    let small = migration::Args::quick();
    let args = if options.quick { &small } else { args };
    let folder = options.out.clone().unwrap_or_else(|| migration::FOLDER.into());
    let folder = (!options.quick && !options.no_store || options.out.is_some()).then_some(folder);
    let default = if options.quick { "karytree:k=3,n=2" } else { "sx6536" };
    let given = options.fabric.iter().map(String::as_str);
    let specs: Vec<&str> = if options.fabric.is_empty() {
        vec![default]
    } else {
        given.collect()
    };
    for spec in specs {
        println!("{}", migration::measure(spec, args, folder.as_deref())?);
    }
    Ok(ExitCode::SUCCESS)
}

fn bringups(options: &Options, results: &mut Results) -> Result<(), BenchError> {
    let cases = options.cases(&FABRICS)?;
    let bringup = options.bringup()?;
    let bar = progress(cases.len() as u64 * bringup.steps());
    for case in &cases {
        results.fabrics.push(bringup::measure(case, &bringup, &bar)?);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Measures routing on each fabric, and stores the rows after each one, because the whole takes so long that it may be
/// interrupted.
fn routings(options: &Options, folder: Option<&Path>, results: &mut Results) -> Result<(), BenchError> {
    let specs = options.routing_fabrics();
    let bar = progress(specs.len() as u64);
    for spec in &specs {
        let rows = routing::measure(spec, options.quick, &options.only, &bar)?;
        results.routing.extend(rows);
        if let Some(folder) = folder {
            results.store_tables(folder)?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Measures fail-over on each fabric, and stores the rows after each one.
fn failovers(options: &Options, folder: Option<&Path>, results: &mut Results) -> Result<(), BenchError> {
    let failover = options.failover();
    let bar = progress(0);
    let default = [FABRICS[0], FABRICS[2]].map(str::to_owned);
    let specs = match (options.fabric.is_empty(), options.quick) {
        (false, _) => &options.fabric[..],
        (true, true) => &default[..1],
        (true, false) => &default[..],
    };
    for spec in specs {
        results.failover.extend(failover::measure(spec, &failover, &bar)?);
        if let Some(folder) = folder {
            results.store_tables(folder)?;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Measures the administrator on each fabric, and stores the rows after each one.
fn administrations(options: &Options, folder: Option<&Path>, results: &mut Results) -> Result<(), BenchError> {
    let administration = options.administration();
    let bar = progress(0);
    for case in options.cases(&administration::FABRICS)? {
        let rows = administration::measure(&case, &administration, &bar)?;
        results.administration.extend(rows);
        if let Some(folder) = folder {
            results.store_tables(folder)?;
        }
    }
    results.loads = administration::Loads::measure(options.quick, options.repeats(), &bar)?;
    bar.finish_and_clear();
    Ok(())
}

/// `21-30`, or one number.
fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err("want two numbers, the lower first, as in 21-30".to_owned()),
    }
}

fn emulators(options: &Options, results: &mut Results) -> Result<(), BenchError> {
    let cases = options.cases(&FABRICS[2..])?;
    let requests = if options.quick {
        emulator::QUICK_REQUESTS
    } else {
        emulator::REQUESTS
    };
    let bar = progress((cases.len() * options.repeats() * 2) as u64);
    for case in &cases {
        for _ in 0..options.repeats() {
            for wrappers in [Wrappers::None, Wrappers::All] {
                bar.set_message(format!("{}: emulator, wrappers {wrappers}", case.spec));
                results
                    .emulator
                    .push((case.spec.clone(), emulator::run(case, wrappers, requests)?));
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Returns a progress bar on standard error, which is invisible if that is no terminal.
fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
