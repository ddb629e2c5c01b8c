//! `selvedge compare`: several engines on one fabric, whole and with links lost by chance, judged and measured alike.

mod chart;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use indicatif::ProgressBar;
use selvedge_api::{Comparison, ComparisonRow, ComparisonRun};
use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, Policy};
use selvedge_routing::{Engine, Options, Rebalance};
use selvedge_sim::Seed;
use selvedge_topology::{LinkRemoval, Summary, without_links};
use selvedge_types::Lmc;

use crate::exit::{CliError, Exit};
use crate::load;
use crate::measure::{Asked, Measure, MeasureArgs, median};
use crate::out::{Cell, Format, Grid, Out};
use crate::progress;
use crate::route::{HowArgs, InputArgs};
use crate::tables_io::lids;

/// Compare engines on a fabric, whole and with links lost; every table is judged.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// The fabric: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC")]
    fabric: String,
    /// Engines to compare
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "fat-tree,weave,ftree,updn,minhop,dfsssp"
    )]
    engines: Vec<String>,
    /// Links between switches that are lost: numbers or shares, as 1%,3%; the whole fabric always comes first
    #[arg(long, value_name = "LEVEL", value_delimiter = ',')]
    faults: Vec<String>,
    /// Draws of lost links for each level: 10 is seeds 1 to 10, 21-30 those
    #[arg(long, value_name = "N|A-B", default_value = "10")]
    seeds: String,
    /// Data lanes to allow, each in turn, for the engines that can use several
    #[arg(long, value_name = "1-15", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=15))]
    vls: Vec<u8>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    how: HowArgs,
    /// LIDs per end port, as a power of two
    #[arg(long, value_name = "0-7", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    lmc: u8,
    /// Route so many times more in each run, and take the median time
    #[arg(long, value_name = "N", default_value_t = 0)]
    repeat: u32,
    #[command(flatten)]
    measure: MeasureArgs,
    /// Write charts to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write every run to FILE as comma-separated values
    #[arg(long, value_name = "FILE")]
    runs: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

/// Runs the command: 0 whatever the judge says of single tables, since that is what was asked.
pub fn run(args: &CompareArgs) -> Result<Exit, CliError> {
    let work = args.work()?;
    for path in [&args.svg, &args.runs].into_iter().flatten() {
        load::writable(path)?;
    }
    let measure = args.measure.start()?;
    let bar = progress::bar();
    bar.set_length(work.levels.iter().map(|level| level.seeds.len() as u64).sum::<u64>() * work.series.len() as u64);
    let mut runs = Vec::new();
    for level in &work.levels {
        for &seed in &level.seeds {
            args.draw(&work, level, seed, measure, &bar, &mut runs)?;
        }
    }
    bar.finish_and_clear();
    let comparison = work.comparison(&args.fabric, runs);
    if let Some(path) = &args.svg {
        load::write(path, &chart::svg(&comparison)?)?;
    }
    if let Some(path) = &args.runs {
        load::write(path, &runs_grid(&comparison.runs).csv())?;
    }
    let mut out = Out::new(args.format);
    if args.format.json {
        out.document(comparison)?;
    } else {
        out.grid(&rows_grid(&comparison.rows))?;
    }
    out.flush()?;
    Ok(Exit::Good)
}

impl CompareArgs {
    /// The format of errors.
    pub const fn json(&self) -> bool {
        self.format.json
    }

    fn work(&self) -> Result<Work, CliError> {
        let usage = |what: String| CliError::Usage { what };
        let engines: Vec<Engine> = self.engines.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
        let mut series = Vec::new();
        for engine in engines {
            if self.vls.is_empty() || !uses_lanes(engine) {
                series.push((engine, None));
            } else {
                series.extend(self.vls.iter().map(|&vls| (engine, Some(vls))));
            }
        }
        let seeds = seeds(&self.seeds).ok_or_else(|| {
            usage(format!(
                "--seeds {}: want a number from 1 on, or two as 21-30",
                self.seeds
            ))
        })?;
        let mut levels = vec![Level {
            name: "0".to_owned(),
            removal: LinkRemoval::Count(0),
            seeds: vec![seeds[0]],
        }];
        for name in &self.faults {
            let removal = LinkRemoval::parse(name)
                .ok_or_else(|| usage(format!("--faults {name}: want a number of links, or a share as 1%")))?;
            if !matches!(removal, LinkRemoval::Count(0) | LinkRemoval::PerMillion(0)) {
                levels.push(Level {
                    name: name.clone(),
                    removal,
                    seeds: seeds.clone(),
                });
            }
        }
        let whole = load::fabric(&self.fabric)?;
        let mut options = self.inputs.options(&whole)?;
        self.how.apply(&mut options);
        for level in &levels {
            // Impossible damage is refused before the first measurement.
            self.damaged(&whole, level, seeds[0])?;
        }
        if options.rebalance == Rebalance::Minimal {
            // What a manager that saw the fabric whole knows.
            options.fat_tree.nominal = Some(Arc::new(whole.clone()));
        }
        Ok(Work {
            whole,
            options,
            series,
            levels,
        })
    }

    /// Returns the fabric without the links that the seed draws.
    fn damaged(&self, whole: &Fabric, level: &Level, seed: u64) -> Result<Fabric, CliError> {
        without_links(whole, level.removal, Seed(seed)).map_err(|cause| CliError::Usage {
            what: format!("--faults {} of {}: {cause}", level.name, self.fabric),
        })
    }

    /// All engines on one draw of lost links, one after another.
    fn draw(
        &self,
        work: &Work,
        level: &Level,
        seed: u64,
        measure: Measure,
        bar: &ProgressBar,
        runs: &mut Vec<ComparisonRun>,
    ) -> Result<(), CliError> {
        let fabric = self.damaged(&work.whole, level, seed)?;
        let policy = Policy {
            lmc: Lmc::new(self.lmc).unwrap_or_default(),
            ..Policy::default()
        };
        let lids = lids(&fabric, &policy, &Default::default())?;
        let links_lost = switch_links(&work.whole) - switch_links(&fabric);
        for &(engine, vls) in &work.series {
            let options = Options {
                lanes: vls,
                ..work.options.clone()
            };
            let mut run = ComparisonRun {
                engine: engine.name().to_owned(),
                vls,
                faults: level.name.clone(),
                links_lost,
                seed,
                refused: None,
                ok: false,
                quality: Default::default(),
                cost: Default::default(),
            };
            self.measured(engine, (&fabric, &lids, &options), measure, bar, &mut run);
            runs.push(run);
            bar.inc(1);
        }
        Ok(())
    }

    fn measured(
        &self,
        engine: Engine,
        (fabric, lids, options): (&Fabric, &Lids, &Options),
        measure: Measure,
        bar: &ProgressBar,
        run: &mut ComparisonRun,
    ) {
        let asked = Asked {
            fabric,
            lids,
            options,
            repeats: self.repeat,
        };
        match measure.one(engine, asked, bar) {
            Ok(measured) => {
                run.ok = measured.verdict.is_good();
                run.quality = measured.quality();
                run.cost = measured.cost;
            }
            Err(error) => run.refused = Some(error.to_string()),
        }
    }
}

/// What is to be compared.
struct Work {
    whole: Fabric,
    options: Options,
    series: Vec<(Engine, Option<u8>)>,
    levels: Vec<Level>,
}

/// One level of faults.
struct Level {
    name: String,
    removal: LinkRemoval,
    seeds: Vec<u64>,
}

impl Work {
    fn comparison(&self, fabric: &str, runs: Vec<ComparisonRun>) -> Comparison {
        let mut rows = Vec::new();
        for level in &self.levels {
            for &(engine, vls) in &self.series {
                let of =
                    |run: &&ComparisonRun| (&run.engine[..], run.vls, &run.faults) == (engine.name(), vls, &level.name);
                rows.push(row(&runs.iter().filter(of).collect::<Vec<_>>()));
            }
        }
        let summary = Summary::of(&self.whole);
        Comparison {
            fabric: fabric.to_owned(),
            switches: summary.switches as u64,
            host_ports: self.whole.host_count() as u64,
            switch_links: switch_links(&self.whole),
            ok: runs.iter().all(|run| run.ok),
            rows,
            runs,
        }
    }
}

/// What the runs of one engine on one level have in common. There is at least one.
fn row(runs: &[&ComparisonRun]) -> ComparisonRow {
    let routed: Vec<&ComparisonRun> = runs.iter().copied().filter(|run| run.refused.is_none()).collect();
    let mean = |of: &dyn Fn(&ComparisonRun) -> f64| {
        let sum: f64 = routed.iter().map(|run| of(run)).sum();
        if routed.is_empty() {
            0.0
        } else {
            sum / routed.len() as f64
        }
    };
    let ebbs = || routed.iter().filter_map(|run| run.quality.ebb);
    let has_ebb = ebbs().next().is_some();
    let first = runs.first();
    ComparisonRow {
        engine: first.map(|run| run.engine.clone()).unwrap_or_default(),
        vls: first.and_then(|run| run.vls),
        faults: first.map(|run| run.faults.clone()).unwrap_or_default(),
        runs: runs.len() as u64,
        refused: (runs.len() - routed.len()) as u64,
        deadlock_free: routed.iter().filter(|run| run.quality.deadlock_free).count() as u64,
        good: routed.iter().filter(|run| run.ok).count() as u64,
        max_load: mean(&|run| run.quality.max_load as f64),
        max_load_worst: routed.iter().map(|run| run.quality.max_load).max().unwrap_or(0),
        mean_load: mean(&|run| run.quality.mean_load),
        ebb: has_ebb.then(|| mean(&|run| run.quality.ebb.unwrap_or(0.0))),
        ebb_worst: ebbs().min_by(f64::total_cmp),
        shift_max: routed
            .first()
            .and_then(|run| run.quality.shift_max)
            .map(|_| mean(&|run| run.quality.shift_max.unwrap_or(0) as f64)),
        mean_hops: mean(&|run| run.quality.mean_hops),
        lanes_used: routed.iter().map(|run| run.quality.lanes_used).max().unwrap_or(0),
        unreachable_pairs: routed.iter().map(|run| run.quality.unreachable_pairs).sum(),
        compute_ms: median(&mut routed.iter().map(|run| run.cost.compute_ms).collect::<Vec<_>>()),
    }
}

/// Whether an engine can make use of more lanes than one.
const fn uses_lanes(engine: Engine) -> bool {
    match engine {
        Engine::DnUp | Engine::File | Engine::Ftree | Engine::MinHop | Engine::Sssp | Engine::UpDn => false,
        // Those to come are asked.
        _ => true,
    }
}

fn switch_links(fabric: &Fabric) -> u64 {
    Summary::of(fabric).switch_links as u64
}

/// `3` is 1, 2, 3; `21-30` is 21 to 30.
fn seeds(text: &str) -> Option<Vec<u64>> {
    /// More draws than these are a slip of the finger.
    const SEEDS_MAX: u64 = 10_000;
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
        None => (1, text.parse::<u64>().ok()?),
    };
    (first <= last && last - first < SEEDS_MAX).then(|| (first..=last).collect())
}

/// An engine with its lanes, for people.
pub fn label(engine: &str, vls: Option<u8>) -> String {
    vls.map_or_else(|| engine.to_owned(), |vls| format!("{engine}, {vls} VL"))
}

fn rows_grid(rows: &[ComparisonRow]) -> Grid {
    let keys = [
        "faults",
        "engine",
        "vls",
        "max_load",
        "max_load_worst",
        "mean_load",
        "ebb",
        "shift_max",
        "mean_hops",
        "lanes_used",
        "runs",
        "refused",
        "deadlock_free",
        "good",
        "unreachable_pairs",
        "compute_ms",
    ];
    let mut grid = Grid::new(&keys).lose_first(&[
        "mean_hops",
        "lanes_used",
        "mean_load",
        "shift_max",
        "max_load_worst",
        "compute_ms",
        "vls",
        "deadlock_free",
        "ebb",
        "refused",
    ]);
    for row in rows {
        // If the engine refused each run, there is no measurement.
        let figure = |cell: Cell| if row.runs == row.refused { Cell::None } else { cell };
        grid.row([
            (&row.faults).into(),
            (&row.engine).into(),
            row.vls.into(),
            figure(Cell::Real(row.max_load, 1)),
            figure(row.max_load_worst.into()),
            figure(Cell::Real(row.mean_load, 1)),
            row.ebb.map(|ebb| Cell::Real(ebb, 4)).into(),
            row.shift_max.map(|flows| Cell::Real(flows, 1)).into(),
            figure(Cell::Real(row.mean_hops, 3)),
            figure(row.lanes_used.into()),
            row.runs.into(),
            row.refused.into(),
            figure(row.deadlock_free.into()),
            figure(row.good.into()),
            figure(row.unreachable_pairs.into()),
            figure(Cell::Real(row.compute_ms, 2)),
        ]);
    }
    grid
}

fn runs_grid(runs: &[ComparisonRun]) -> Grid {
    let mut grid = Grid::new(&[
        "engine",
        "vls",
        "faults",
        "links_lost",
        "seed",
        "refused",
        "ok",
        "max_load",
        "mean_load",
        "sd_load",
        "mean_hops",
        "max_hops",
        "lanes_used",
        "deadlock_free",
        "unreachable_pairs",
        "dependencies",
        "shift_max",
        "shift_mean",
        "ebb",
        "ebb_low",
        "ebb_high",
        "stretch_mean",
        "compute_ms",
        "detect_ms",
        "cold_ms",
        "verify_ms",
        "peak_rss_bytes",
    ]);
    for run in runs {
        let (q, c) = (&run.quality, &run.cost);
        let (load, ms) = (|value: f64| Cell::Real(value, 1), |value: f64| Cell::Real(value, 3));
        grid.row([
            (&run.engine).into(),
            run.vls.into(),
            (&run.faults).into(),
            run.links_lost.into(),
            Cell::id(run.seed),
            run.refused.as_deref().unwrap_or_default().into(),
            run.ok.into(),
            q.max_load.into(),
            load(q.mean_load),
            load(q.sd_load),
            ms(q.mean_hops),
            q.max_hops.into(),
            q.lanes_used.into(),
            q.deadlock_free.into(),
            q.unreachable_pairs.into(),
            q.dependencies.into(),
            q.shift_max.into(),
            q.shift_mean.map(load).into(),
            q.ebb.map(ms).into(),
            q.ebb_low.map(ms).into(),
            q.ebb_high.map(ms).into(),
            q.stretch_mean.map(ms).into(),
            ms(c.compute_ms),
            c.detect_ms.map(ms).into(),
            ms(c.cold_ms),
            ms(c.verify_ms),
            c.peak_rss_bytes.into(),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_counted_or_named() {
        let check = |text: &str, want: Option<Vec<u64>>| assert_eq!(seeds(text), want, "{text}");
        check("3", Some(vec![1, 2, 3]));
        check("21-23", Some(vec![21, 22, 23]));
        check("7-7", Some(vec![7]));
        for bad in ["0", "", "-", "3-1", "1-", "x", "1-99999"] {
            check(bad, None);
        }
    }
}
