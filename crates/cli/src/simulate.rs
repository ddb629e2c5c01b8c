//! `selvedge simulate`: traffic over a routed fabric, packet by packet.

mod change;
mod chart;
mod grids;
mod job;
mod migration;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use selvedge_api::SimulatedJob;
use selvedge_dataplane::{BuildError, LinkUse, Results, Settings};
use selvedge_fabric::Fabric;
use selvedge_plan::Policy;
use selvedge_routing::{Engine, Listed, Options};
use selvedge_sim::Seed;
use selvedge_study::Watch;
use selvedge_study::simulate::{Answer, EventCost, Pace, Question, Traffic};
use selvedge_topology::{LinkRemoval, without_links};
use selvedge_types::{Guid, LidRange};
use selvedge_workload::{Arrivals, Collective, Pattern, read_goal};

use self::grids::{links_grid, series_grid};
use self::migration::MigrationArgs;
use self::settings::{HardwareArgs, SlArg, TransportArgs};
use crate::exit::{CliError, Exit};
use crate::load;
use crate::meter::{Process, cpu_seconds, peak_rss_bytes};
use crate::out::{Cell, Facts, Format, Out, thousands};
use crate::progress::{self, DrawnTime};
use crate::route::{self, HowArgs, InputArgs};
use crate::tables_io::{known_lids, lane_maps, lids, service_levels};

/// Simulate traffic packet by packet; exit code 1 if packets end up waiting for each other for ever.
#[derive(Args, Debug)]
pub struct SimulateArgs {
    /// The fabric: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC")]
    fabric: String,
    /// Routing engine; with --lfts or --hops: file
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    how: HowArgs,
    /// LIDs to keep (guid2lid); default: those that tables were made for
    #[arg(long, value_name = "FILE")]
    lids: Option<PathBuf>,
    /// The service level of each destination (lines: 0xDLID SL); default: the engine's levels
    #[arg(long, value_name = "FILE")]
    sls: Option<PathBuf>,
    /// The lane maps (OpenSM's dump); default: service levels modulo lanes, everywhere
    #[arg(long, value_name = "FILE")]
    sl2vl: Option<PathBuf>,
    /// Links between switches that are gone, drawn by the seed: a number, or a share as 1%
    #[arg(long, value_name = "LINKS", default_value = "0")]
    lost: String,
    #[command(flatten)]
    traffic: TrafficArgs,
    #[command(flatten)]
    hardware: HardwareArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    migration: MigrationArgs,
    /// A change while packets move, as `50us cut "leaf 1"[20]`: cut, mend, flap PORT down=5us up=20us times=3, rate
    /// PORT 4x-edr, entry SWITCH LID PORT, tables FILE. TIME counts from the start of the warm-up
    #[arg(long, value_name = "TIME CHANGE")]
    change: Vec<String>,
    /// Also put the first events through the bare event queue, and print the cost of an event there and here
    #[arg(long)]
    bare_queue: bool,
    #[command(flatten)]
    files: FileArgs,
    /// Simulated time that is measured, as 100us
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = time_ns)]
    duration: u64,
    /// Simulated time before that; default: 20us, and 0ns where something is done once and all of it counts
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    warmup: Option<u64>,
    /// Seed of everything drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    format: Format,
}

/// What is written beside the figures.
#[derive(Args, Debug)]
struct FileArgs {
    /// Write use, waits and PMA counters of every port to FILE as comma-separated values
    #[arg(long, value_name = "FILE")]
    links: Option<PathBuf>,
    /// Write offered and accepted load and drops over time to FILE as comma-separated values
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Draw them, and changes, to FILE as SVG
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Draw the use of every switch port, and its waits, to FILE as SVG
    #[arg(long, value_name = "FILE")]
    heatmap: Option<PathBuf>,
}

/// What hosts send.
#[derive(Args, Debug)]
struct TrafficArgs {
    /// Senders and receivers: uniform, shift:by=1, transpose, bit-complement, bisection, hotspot:to=0,share=5%,
    /// incast:to=0,from=8, all-to-all:hosts=64,partners=8, pairs:0>1,…; or once: ring-all-reduce:bytes=65536,
    /// recursive-doubling, exchange, stencil-1d, -2d, -3d
    #[arg(long, value_name = "PATTERN", default_value = "uniform")]
    traffic: String,
    /// Run a trace in GOAL text instead; rank 0 on the first host
    #[arg(long, value_name = "FILE", conflicts_with_all = ["traffic", "load", "arrivals", "message"])]
    goal: Option<PathBuf>,
    /// Several workloads at once, each on its hosts, as 'ring-all-reduce hosts=64 place=random sl=1' or
    /// 'uniform hosts=32 place=stride=18 load=0.5'; place: linear, random, stride=N, list=N+N
    #[arg(long, value_name = "JOB", conflicts_with_all = ["traffic", "goal"])]
    job: Vec<String>,
    /// What hosts want to send, as a fraction of their links' payload rate, up to 100; from 1 on they never stop
    #[arg(long, value_name = "FRACTION", default_value_t = 0.5)]
    load: f64,
    /// How messages follow each other: bernoulli, poisson, even, bursts:mean=16, closed:window=1
    #[arg(long, value_name = "HOW", default_value = "bernoulli")]
    arrivals: String,
    /// Payload bytes of a message; default: one packet of the MTU
    #[arg(long, value_name = "BYTES")]
    message: Option<u32>,
}

/// Reads a time with its unit, in ns.
pub fn time_ns(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no time; want a number with ns, us, ms or s, as 100us");
    let split = text.find(|c: char| c.is_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let ns = number * factor;
    // An hour: longer runs would take too long to simulate.
    if (0.0..=3.6e12).contains(&ns) {
        Ok(ns.round() as u64)
    } else {
        Err(wrong())
    }
}

/// Runs the command.
pub fn run(args: &SimulateArgs) -> Result<Exit, CliError> {
    if args.migration.is_wanted() {
        return args.migrate();
    }
    let bar = progress::bar();
    let done = simulate(args, &DrawnTime::new(&bar));
    bar.finish_and_clear();
    args.show(done?)
}

/// Runs the requested simulation, and writes files.
pub fn simulate(args: &SimulateArgs, watch: &dyn Watch) -> Result<Answer, CliError> {
    let question = args.question()?;
    let answer = question.answer(&Process::new(), watch)?;
    let title = format!(
        "{}, {}, {} {}",
        args.fabric, answer.engine, answer.traffic, answer.arrivals
    );
    args.files
        .write((&title, &args.change), &answer.links, &answer.results)?;
    Ok(answer)
}

impl FileArgs {
    fn check(&self) -> Result<(), CliError> {
        let paths = [&self.links, &self.series, &self.timeline, &self.heatmap];
        paths.into_iter().flatten().try_for_each(|path| load::writable(path))
    }

    fn write(&self, (title, changes): (&str, &[String]), links: &[LinkUse], results: &Results) -> Result<(), CliError> {
        if let Some(path) = &self.links {
            load::write(path, &links_grid(links).csv())?;
        }
        if let Some(path) = &self.series {
            load::write(path, &series_grid(&results.series).csv())?;
        }
        if let Some(path) = &self.timeline {
            load::write(path, &chart::timeline(title, changes, results)?)?;
        }
        if let Some(path) = &self.heatmap {
            load::write(path, &chart::heatmap(title, links)?)?;
        }
        Ok(())
    }
}

impl TrafficArgs {
    /// True for collectives and traces.
    fn is_done_once(&self) -> bool {
        let has_end = |job: &String| Collective::is_named_by(job.split_whitespace().next().unwrap_or_default());
        self.goal.is_some() || Collective::is_named_by(&self.traffic) || self.job.iter().any(has_end)
    }

    /// Reads which messages hosts send.
    fn read(&self) -> Result<Traffic, CliError> {
        if !self.job.is_empty() {
            return Ok(Traffic::Jobs(job::jobs(&self.job)?));
        }
        if let Some(path) = &self.goal {
            let text = String::from_utf8_lossy(&load::text_bytes(path)?).into_owned();
            let schedule = read_goal(&text).map_err(|cause| CliError::Goal {
                path: path.clone(),
                cause,
            })?;
            return Ok(Traffic::Program {
                schedule: Arc::new(schedule),
                name: path.display().to_string(),
            });
        }
        Ok(match Collective::is_named_by(&self.traffic) {
            true => Traffic::Collective(self.traffic.parse()?),
            false => Traffic::Pattern(self.traffic.parse()?),
        })
    }

    fn check(&self) -> Result<(), CliError> {
        self.arrivals.parse::<Arrivals>()?;
        match Collective::is_named_by(&self.traffic) {
            true => drop(self.traffic.parse::<Collective>()?),
            false => drop(self.traffic.parse::<Pattern>()?),
        }
        selvedge_workload::load(self.load)?;
        Ok(())
    }
}

impl SimulateArgs {
    /// Returns LIDs by port GUID: those of a file, or those for which tables from a file were made.
    fn known_lids(&self, fabric: &Fabric, options: &Options) -> Result<BTreeMap<Guid, LidRange>, CliError> {
        match (&self.lids, options.listed.as_deref()) {
            (None, Some(Listed::Tables { lids, .. })) => Ok(lids
                .iter()
                .filter_map(|(at, range)| Some((fabric.port(at)?.guid, range)))
                .collect()),
            (path, _) => known_lids(path.as_deref(), fabric),
        }
    }

    /// Refuses mistakes before the first routing: unknown names, illegal settings, fabrics that cannot be built, and
    /// more lost links than a fabric has. A combination of fabric and lost links that is in `known` is not checked
    /// again.
    pub fn check(&self, known: &mut BTreeSet<String>) -> Result<(), CliError> {
        self.settings()?;
        if self.migration.is_wanted() {
            return Err(CliError::Usage {
                what: "--apm, --rival: experiments do not have them; run 'selvedge simulate' for each setting"
                    .to_owned(),
            });
        }
        self.traffic.check()?;
        if let Some(name) = &self.engine {
            name.parse::<Engine>()?;
        }
        let key = format!("{} {}", self.lost, self.fabric);
        if !known.contains(&key) {
            self.fabric()?;
            known.insert(key);
        }
        Ok(())
    }

    fn lost(&self) -> Result<LinkRemoval, CliError> {
        LinkRemoval::parse(&self.lost).ok_or_else(|| CliError::Usage {
            what: format!("--lost {}: want a number of links, or a share as 1%", self.lost),
        })
    }

    /// Returns the fabric without the links that are gone.
    fn fabric(&self) -> Result<Fabric, CliError> {
        let lost = self.lost()?;
        let whole = load::fabric(&self.fabric)?;
        if lost == LinkRemoval::Count(0) {
            return Ok(whole);
        }
        without_links(&whole, lost, Seed(self.seed)).map_err(|cause| CliError::Usage {
            what: format!("--lost {} of {}: {cause}", self.lost, self.fabric),
        })
    }

    fn question(&self) -> Result<Question, CliError> {
        let settings = self.settings()?;
        self.traffic.check()?;
        self.files.check()?;
        let fabric = self.fabric()?;
        let settings = self.hardware.with_cables(settings, &fabric)?;
        let mut options = self.inputs.options(&fabric)?;
        let lids = lids(&fabric, &Policy::default(), &self.known_lids(&fabric, &options)?)?;
        let engine = self.engine(&options)?;
        if self.hardware.vls > 1 && matches!(self.hardware.sl, SlArg::Routing) || engine.lanes().by_default() > 1 {
            options.lanes = Some(self.hardware.vls);
        }
        self.how.apply(&mut options);
        let levels = self.sls.as_ref().map(|path| service_levels(path, &fabric, &lids));
        let maps = self.sl2vl.as_ref().map(|path| lane_maps(path, &fabric));
        let changes = self.change.iter().map(|text| change::parse(text, &fabric));
        Ok(Question {
            service_levels: levels.transpose()?,
            changes: changes.collect::<Result<_, _>>()?,
            sl_to_vl: maps.transpose()?,
            traffic: self.traffic.read()?,
            pace: Pace {
                arrivals: self.traffic.arrivals.parse()?,
                load: self.traffic.load,
                bytes: self.traffic.message.unwrap_or(u32::from(self.hardware.mtu)),
            },
            fabric: Arc::new(fabric),
            lids: Arc::new(lids),
            engine,
            options,
            settings,
            seed: Seed(self.seed),
            bare_queue: self.bare_queue,
        })
    }

    fn engine(&self, options: &Options) -> Result<Engine, CliError> {
        match (&self.engine, &options.listed) {
            (Some(name), _) => Ok(name.parse()?),
            (None, Some(_)) => Ok(Engine::File),
            (None, None) => Ok(Engine::Auto),
        }
    }

    fn settings(&self) -> Result<Settings, CliError> {
        let settings = Settings {
            warmup_ns: self.warmup.unwrap_or(match self.traffic.is_done_once() {
                true => 0,
                false => Settings::default().warmup_ns,
            }),
            duration_ns: self.duration,
            ..self.transport.settings(self.hardware.settings()?)
        };
        settings.check().map_err(BuildError::from)?;
        Ok(settings)
    }

    fn show(&self, answer: Answer) -> Result<Exit, CliError> {
        let Answer {
            engine,
            parts,
            traffic,
            arrivals,
            message_bytes,
            cost,
            jobs,
            results,
            ..
        } = answer;
        let exit = match results.deadlock {
            None => Exit::Good,
            Some(_) => Exit::NotGood,
        };
        route::say(&parts, "packets from one part to another are dropped");
        let mut out = Out::new(self.format);
        if self.format.json {
            out.document(selvedge_api::Simulation {
                fabric: self.fabric.clone(),
                parts: parts.count,
                engine,
                traffic,
                arrivals,
                message_bytes,
                load: self.traffic.load,
                seed: self.seed,
                results: serde_json::to_value(&results).unwrap_or_default(),
                jobs,
                ns_per_event: cost.here,
                queue_ns_per_event: cost.queue,
                cpu_seconds: cpu_seconds(),
                peak_rss_bytes: peak_rss_bytes(),
            })?;
        } else {
            out.facts(&all_figures(&engine, &results, &cost, &jobs))?;
        }
        if self.format.is_text() {
            if self.traffic.is_done_once() && results.completed_ns.is_none() && results.deadlock.is_none() {
                out.line("\nnot done by the end of the measured time: --duration")?;
            } else if !results.series.warmup_suffices && results.completed_ns.is_none() {
                out.line("\nthe load was not steady when measuring began: see steady_from_ns in --json")?;
            }
            if let Some(deadlock) = &results.deadlock {
                let word = out.bad("deadlock");
                out.line(format!(
                    "\n{word} at {} ns: packets wait for each other",
                    deadlock.at_ns
                ))?;
                for name in &deadlock.cycle {
                    out.line(format!("  {name}"))?;
                }
            }
        }
        out.flush()?;
        Ok(exit)
    }

    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Returns the figures of the results, of events and of jobs.
fn all_figures(engine: &str, results: &Results, cost: &EventCost, jobs: &[SimulatedJob]) -> Facts {
    let mut figures = figures(engine, results);
    if let (Some(here), Some(queue)) = (cost.here, cost.queue) {
        figures.several(
            "event here, in the bare queue",
            format!("{here:.1} ns, {queue:.1} ns"),
            [
                ("ns_per_event", Cell::Real(here, 1)),
                ("queue_ns_per_event", Cell::Real(queue, 1)),
            ],
        );
    }
    for (number, job) in (1..).zip(jobs) {
        let done = job
            .completed_ns
            .map_or("not done".to_owned(), |ns| format!("{} ns", thousands(ns)));
        let key = format!("job_{number}_completed_ns");
        figures.several(&job.job, done, [(&key, job.completed_ns.into())]);
    }
    figures
}

fn figures(engine: &str, results: &Results) -> Facts {
    let mut facts = Facts::new();
    let share = |value: f64| Cell::Real(value, 4);
    facts.add("engine", engine);
    facts.add("offered_load", share(results.offered_load));
    facts.add("accepted_load", share(results.accepted_load));
    let latency = results.latency_ns;
    facts.several(
        "latency p50, p99, mean",
        format!(
            "{} ns, {} ns, {} ns",
            thousands(latency.p50),
            thousands(latency.p99),
            thousands(latency.mean.round() as u64)
        ),
        [
            ("latency_p50_ns", latency.p50.into()),
            ("latency_p99_ns", latency.p99.into()),
            ("latency_mean_ns", Cell::Real(latency.mean, 0)),
        ],
    );
    facts.named("fairness", "fairness of senders", share(results.fairness));
    facts.several(
        "links between switches, mean, max",
        format!("{:.4}, {:.4}", results.links.mean, results.links.max),
        [
            ("utilisation_mean", share(results.links.mean)),
            ("utilisation_max", share(results.links.max)),
        ],
    );
    if let Some(ns) = results.completed_ns {
        let text = format!("{} ns", thousands(ns));
        facts.several("completed after", text, [("completed_ns", ns.into())]);
    }
    facts.add("packets_delivered", results.packets_delivered);
    facts.add("packets_dropped", results.drops.total());
    facts.add("deadlock", results.deadlock.is_some());
    facts.add("events_per_packet", Cell::Real(results.events_per_packet, 2));
    if let Some(seconds) = cpu_seconds() {
        let text = format!("{seconds:.2} s");
        facts.several("processor time", text, [("cpu_s", Cell::Real(seconds, 2))]);
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |text, want: Option<u64>| assert_eq!(time_ns(text).ok(), want, "{text}");
        check("100us", Some(100_000));
        check("1.5ms", Some(1_500_000));
        check("25ns", Some(25));
        check("2s", Some(2_000_000_000));
        check("100", None);
        check("1h", None);
        check("-1us", None);
        check("us", None);
    }
}
