//! The stored files of a run: raw CSV, a summary, a chart, and the command with its environment.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bringup::FabricResult;
use crate::error::BenchError;
use crate::machine::{Machine, first_line_of};
use crate::stats::Spread;
use crate::{administration, chart, emulator, failover, model, packets, routing, telemetry};

/// Target: largest ratio of the MADs sent to the least number of MADs.
pub const MADS_TARGET: f64 = 1.10;
/// Target: largest ratio of the time of a run to the time of its MADs at the ceiling (the most MADs a second that the
/// simulator answers).
pub const WALL_TARGET: f64 = 1.3;
/// Targets: least number of MADs a second of the emulator, without faults and with all faults.
pub const EMULATOR_TARGETS: (f64, f64) = (1e6, 0.3e6);

/// All results of one run of the benchmark.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Bring-ups, by fabric.
    pub fabrics: Vec<FabricResult>,
    /// The emulator, by fabric.
    pub emulator: Vec<(String, emulator::Run)>,
    /// Quality of routing, by fabric and engine.
    pub routing: Vec<routing::Row>,
    /// Times of routing and judging.
    pub speed: Vec<routing::speed::Work>,
    /// Fail-over, by fabric, manager and fault.
    pub failover: Vec<failover::Row>,
    /// Packets simulated, by work and simulator.
    pub packets: Vec<packets::Run>,
    /// The analytic model.
    pub model: Option<model::Report>,
    /// The administrator under load, by fabric, manager and act.
    pub administration: Vec<administration::Row>,
    /// The administrator in process.
    pub loads: administration::Loads,
    /// Full reads of counters, by fabric and ends.
    pub telemetry: Vec<telemetry::Figures>,
    /// Stored telemetry.
    pub store_runs: Vec<telemetry::store::Run>,
}

impl Results {
    /// True if a count misses its target. Only counts are tested: times depend on the machine and its other work.
    #[must_use]
    pub fn misses_a_count(&self) -> bool {
        self.fabrics
            .iter()
            .any(|result| result.mads_over_minimum() > MADS_TARGET)
            || self.telemetry.iter().any(telemetry::Figures::misses_a_count)
            || self.store_runs.iter().any(telemetry::store::Run::misses_a_count)
    }

    /// Tables for people, in Markdown.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::from("# Summary\n\nMedian (minimum–maximum) where nothing else is said.\n");
        if !self.fabrics.is_empty() {
            text += "\n## Bring-up, ours and OpenSM's\n";
            self.fabrics.iter().for_each(|result| text += &times(result));
            text += "\n## Ours against its targets\n\n";
            text += &targets(&self.fabrics);
        }
        if !self.emulator.is_empty() {
            text += "\n## The emulator\n\n";
            text += &emulator_table(&self.emulator);
        }
        if !self.routing.is_empty() {
            text += &routing::summary(&self.routing);
        }
        if !self.speed.is_empty() {
            text += &routing::speed::summary(&self.speed);
        }
        if !self.failover.is_empty() {
            text += &failover::summary(&self.failover);
        }
        if !self.packets.is_empty() {
            text += &packets::summary(&self.packets);
        }
        if let Some(model) = &self.model {
            text += &model.summary();
        }
        text += &administration::summary(&self.administration, &self.loads);
        text += &telemetry::summary(&self.telemetry, &self.store_runs);
        text
    }

    /// One line per run of a manager.
    #[must_use]
    pub fn bringup_csv(&self) -> String {
        let mut text = String::from(
            "fabric,hosts,pair,manager,engine,window,bringup_s,process_s,gets,sets,repeats,minimum,\
             ceiling_mads_per_s,load\n",
        );
        for result in &self.fabrics {
            let head = |pair: usize| format!("\"{}\",{},{pair}", result.spec, result.counts.hosts);
            for ours in &result.ours {
                let run = &ours.run;
                let _ = writeln!(
                    text,
                    "{},selvedge,{},,{:.6},{:.6},{},{},{},{},{:.0},{:.2}",
                    head(ours.pair),
                    run.engine,
                    run.bringup_s,
                    run.process_s,
                    run.gets,
                    run.sets,
                    run.repeats,
                    result.minimum.total(),
                    ours.ceiling(),
                    ours.load
                );
            }
            for peer in &result.peers {
                let (variant, run) = (&peer.variant, &peer.run);
                let _ = writeln!(
                    text,
                    "{},opensm,{},{},{:.6},{:.6},,,,,,{:.2}",
                    head(peer.pair),
                    variant.engine,
                    variant.window,
                    run.bringup_s,
                    run.process_s,
                    peer.load
                );
            }
        }
        text
    }

    /// One line per blast.
    #[must_use]
    pub fn ceiling_csv(&self) -> String {
        let mut text = String::from("fabric,pair,phase,window,mads_per_s,repeats\n");
        for result in &self.fabrics {
            for (ours, phase) in result
                .ours
                .iter()
                .flat_map(|ours| ours.blasts.iter().map(move |p| (ours, p)))
            {
                let blast = &phase.blast;
                let _ = writeln!(
                    text,
                    "\"{}\",{},{},{},{:.0},{}",
                    result.spec, ours.pair, phase.name, blast.window, blast.mads_per_s, blast.repeats
                );
            }
        }
        text
    }

    /// One line per measurement of the emulator.
    #[must_use]
    pub fn emulator_csv(&self) -> String {
        let mut text = String::from("fabric,wrappers,mads_per_s,requests_per_s,timeouts\n");
        for (spec, run) in &self.emulator {
            let _ = writeln!(
                text,
                "\"{spec}\",{},{:.0},{:.0},{}",
                run.wrappers, run.mads_per_s, run.requests_per_s, run.timeouts
            );
        }
        text
    }

    /// Stores everything in `folder`, which is created.
    pub fn store(&self, folder: &Path, how: &How) -> Result<(), BenchError> {
        fs::create_dir_all(folder).map_err(BenchError::store("making", folder.display()))?;
        let file = folder.join("README.md");
        fs::write(&file, how.readme()).map_err(BenchError::store("writing", file.display()))?;
        self.store_tables(folder)
    }

    /// Stores the results so far in `folder`, which is created.
    pub fn store_tables(&self, folder: &Path) -> Result<(), BenchError> {
        fs::create_dir_all(folder).map_err(BenchError::store("making", folder.display()))?;
        let write = |name: &str, text: String| {
            let file = folder.join(name);
            fs::write(&file, text).map_err(BenchError::store("writing", file.display()))
        };
        write("summary.md", self.summary())?;
        if !self.fabrics.is_empty() {
            write("bringup.csv", self.bringup_csv())?;
            write("ceiling.csv", self.ceiling_csv())?;
            write("bringup.svg", chart::svg(&self.fabrics)?)?;
        }
        if !self.emulator.is_empty() {
            write("emulator.csv", self.emulator_csv())?;
        }
        if !self.routing.is_empty() {
            write("routing.csv", routing::csv(&self.routing))?;
            write("routing.svg", routing::svg(&self.routing)?)?;
        }
        if !self.speed.is_empty() {
            write("routing-speed.csv", routing::speed::csv(&self.speed))?;
        }
        if !self.failover.is_empty() {
            write("failover.csv", failover::csv(&self.failover))?;
            write("failover.svg", failover::svg(&self.failover)?)?;
        }
        if !self.packets.is_empty() {
            write("packets.csv", packets::csv(&self.packets))?;
        }
        if let Some(model) = &self.model {
            model.store(folder)?;
        }
        if !self.telemetry.is_empty() {
            write("telemetry.csv", telemetry::csv(&self.telemetry))?;
        }
        if !self.administration.is_empty() || !self.loads.questions.is_empty() {
            write("administration.csv", administration::csv(&self.administration))?;
            write(
                "administration.json",
                administration::json(&self.administration, &self.loads),
            )?;
        }
        Ok(())
    }
}

/// Bring-up times on one fabric.
fn times(result: &FabricResult) -> String {
    let c = &result.counts;
    let mut text = format!(
        "\n`{}`: {} hosts, {} switches.\n\n| manager | engine | window | runs | start of the process to SUBNET UP, s | \
         of which in the fabric, s | times ours |\n|---|---|---|---|---|---|---|\n",
        result.spec, c.hosts, c.switches
    );
    let bringup = Spread::of(result.ours.iter().map(|s| s.run.bringup_s));
    let process = Spread::of(result.ours.iter().map(|s| s.run.process_s));
    if let (Some(bringup), Some(process), Some(first)) = (bringup, process, result.ours.first()) {
        let _ = writeln!(
            text,
            "| selvedge | {} | default | {} | {process:.3} | {bringup:.3} | 1 |",
            first.run.engine, bringup.count
        );
    }
    for variant in result.variants() {
        let runs = || {
            result
                .peers
                .iter()
                .filter(|peer| peer.variant == variant)
                .map(|peer| peer.run)
        };
        let spreads = (
            Spread::of(runs().map(|run| run.bringup_s)),
            Spread::of(runs().map(|run| run.process_s)),
            Spread::of(result.ratios(&variant)),
        );
        if let (Some(bringup), Some(process), Some(ratio)) = spreads {
            let (engine, window) = (&variant.engine, variant.window);
            let runs = bringup.count;
            let _ = writeln!(
                text,
                "| OpenSM | {engine} | {window} | {runs} | {process:.3} | {bringup:.3} | {ratio:.1} |"
            );
        }
    }
    text
}

fn targets(results: &[FabricResult]) -> String {
    let mut text = format!(
        "| fabric | MADs counted | least | ratio (target ≤ {MADS_TARGET:.2}) | ceiling, 1000 MADs/s | \
         wall over MADs at the ceiling (target ≤ {WALL_TARGET}) |\n|---|---|---|---|---|---|\n"
    );
    for result in results {
        let ceiling = Spread::of(result.ours.iter().map(|ours| ours.ceiling() / 1e3));
        let wall = Spread::of(result.ours.iter().map(|ours| ours.over_ceiling()));
        if let (Some(ceiling), Some(wall)) = (ceiling, wall) {
            let (counted, least, ratio) = (result.counted, result.minimum.total(), result.mads_over_minimum());
            let met = |met: bool| if met { "met" } else { "missed" };
            let _ = writeln!(
                text,
                "| `{}` | {counted} | {least} | {ratio:.4}, {} | {ceiling:.0} | {wall:.2}, {} |",
                result.spec,
                met(ratio <= MADS_TARGET),
                met(wall.median <= WALL_TARGET)
            );
        }
    }
    text
}

fn emulator_table(runs: &[(String, emulator::Run)]) -> String {
    let mut text = String::from(
        "| fabric | wrappers | runs | million MADs/s, requests and answers | million requests/s | target |\n\
         |---|---|---|---|---|---|\n",
    );
    let mut kinds: Vec<_> = runs.iter().map(|(spec, run)| (spec, run.wrappers)).collect();
    kinds.dedup();
    kinds.sort_by_key(|(spec, wrappers)| (*spec, *wrappers == emulator::Wrappers::All));
    kinds.dedup();
    for (spec, wrappers) in kinds {
        let same = || runs.iter().filter(|(s, run)| s == spec && run.wrappers == wrappers);
        let mads = Spread::of(same().map(|(_, run)| run.mads_per_s / 1e6));
        let requests = Spread::of(same().map(|(_, run)| run.requests_per_s / 1e6));
        let target = match wrappers {
            emulator::Wrappers::None => EMULATOR_TARGETS.0,
            emulator::Wrappers::All => EMULATOR_TARGETS.1,
        };
        if let (Some(mads), Some(requests)) = (mads, requests) {
            let met = if mads.median * 1e6 >= target { "met" } else { "missed" };
            let _ = writeln!(
                text,
                "| `{spec}` | {wrappers} | {} | {mads:.2} | {requests:.2} | ≥ {}, {met} |",
                mads.count,
                target / 1e6
            );
        }
    }
    text
}

/// How a run was made.
#[derive(Clone, Debug)]
pub struct How {
    /// The machine.
    pub machine: Machine,
    /// The day, UTC.
    pub date: String,
    /// The commit that was checked out when the run began; others may come while it runs.
    pub commit: String,
    /// Words of the command line after the program's name.
    pub arguments: Vec<String>,
    /// Load of the machine before and after.
    pub load: (f64, f64),
    /// Duration of the whole run, in seconds.
    pub took_s: f64,
}

impl How {
    fn readme(&self) -> String {
        let Machine {
            cpu,
            cores,
            memory_bytes,
            kernel,
        } = &self.machine;
        let build = match cfg!(debug_assertions) {
            true => "dev: optimised, with debug assertions and overflow checks",
            false => "release",
        };
        let package = |name| first_line_of("dpkg-query", &["-W", "-f", "${Version}", name]);
        let arguments = self.arguments.join(" ");
        let command = match arguments.as_str() {
            "" => "make bench".to_owned(),
            words => format!("make bench ARGS='{words}'"),
        };
        format!(
            "# Benchmark run of {}\n\n\
             | what | value |\n|---|---|\n\
             | command | `{command}` |\n\
             | commit | {} |\n\
             | build | {build} |\n\
             | processor | {cpu}, {cores} cores |\n\
             | memory | {:.1} GiB |\n\
             | kernel | Linux {kernel} |\n\
             | ibsim-utils | {} |\n\
             | opensm | {} |\n\
             | load before and after (one-minute average) | {:.2}, {:.2} |\n\
             | took | {:.0} s |\n\n\
             `summary.md` has the figures, `*.csv` every single measurement, `*.svg` the picture. What each \
             figure means stands in `docs/benchmarks.md`. A simulator and a manager each take a whole core, so on a \
             machine with two cores a load well above 2 before the run means that somebody else was working too and \
             the times are longer than they need be.\n",
            self.date,
            self.commit,
            *memory_bytes as f64 / f64::from(1 << 30),
            package("ibsim-utils"),
            package("opensm"),
            self.load.0,
            self.load.1,
            self.took_s,
        )
    }
}

/// Returns the commit that is checked out, and whether files have changed since.
#[must_use]
pub fn commit() -> String {
    let commit = first_line_of("git", &["rev-parse", "--short", "HEAD"]);
    let changed = !first_line_of("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
    format!("{commit}{}", if changed { ", with changes" } else { "" })
}

/// A folder below `runs` that does not exist yet: `<date>-<machine><part>`, with a number if that is taken.
#[must_use]
pub fn free_folder(runs: &Path, date: &str, machine: &Machine, part: &str) -> PathBuf {
    let name = format!("{date}-{}{part}", machine.slug());
    let names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
    let mut folders = names.map(|name| runs.join(name));
    // The numbers never end, so there always is one.
    folders
        .find(|folder| !folder.exists())
        .unwrap_or_else(|| runs.join(name))
}
