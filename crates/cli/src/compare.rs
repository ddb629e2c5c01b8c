//! `selvedge compare`: several engines on one fabric, whole and with links lost by chance, judged and measured alike.

mod chart;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use selvedge_api::{ComparisonRow, ComparisonRun};
use selvedge_routing::Engine;
use selvedge_study::StudyError;
use selvedge_study::compare::{Level, Question};
use selvedge_study::measure::How;
use selvedge_topology::LinkRemoval;
use selvedge_types::Lmc;

use crate::exit::{CliError, Exit};
use crate::load;
use crate::measure::MeasureArgs;
use crate::meter::Process;
use crate::out::{Cell, Format, Grid, Out};
use crate::progress::{self, Drawn};
use crate::route::{HowArgs, InputArgs};

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
    /// Repeat each routing this number of times in each run, and take the median time
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

/// Runs the command; the exit code is 0 for any verdict on single tables, because comparing them was the task.
pub fn run(args: &CompareArgs) -> Result<Exit, CliError> {
    let question = args.question()?;
    question.check().map_err(|error| args.named(error))?;
    for path in [&args.svg, &args.runs].into_iter().flatten() {
        load::writable(path)?;
    }
    let how = args.measure.start(args.repeat)?;
    let bar = progress::bar();
    let answer = Question { how, ..question }.answer(&Process::new(), &Drawn(&bar));
    bar.finish_and_clear();
    let answer = answer.map_err(|error| args.named(error))?;
    answer.events.iter().for_each(|events| load::warn(events.iter()));
    let comparison = answer.comparison;
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
        if args.format.is_text() && comparison.rows.iter().any(|row| row.max_load_repaired.is_some()) {
            out.line("")?;
            out.line("max_load: new tables, as after a rebalance; max_load_repaired: after a repair in place")?;
        }
    }
    out.flush()?;
    Ok(Exit::Good)
}

impl CompareArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }

    fn question(&self) -> Result<Question, CliError> {
        let usage = |what: String| CliError::Usage { what };
        let engines: Vec<Engine> = self.engines.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
        let seeds = seeds(&self.seeds).ok_or_else(|| {
            usage(format!(
                "--seeds {}: want a number from 1 on, or two as 21-30",
                self.seeds
            ))
        })?;
        let level = |name: &String| {
            let removal = LinkRemoval::parse(name)
                .ok_or_else(|| usage(format!("--faults {name}: want a number of links, or a share as 1%")))?;
            let name = name.clone();
            Ok(Level { name, removal })
        };
        let levels = self.faults.iter().map(level).collect::<Result<_, CliError>>()?;
        let fabric = load::fabric(&self.fabric)?;
        let mut options = self.inputs.options(&fabric)?;
        self.how.apply(&mut options);
        Ok(Question {
            name: self.fabric.clone(),
            fabric: Arc::new(fabric),
            engines,
            lanes: self.vls.clone(),
            levels,
            seeds,
            options,
            lmc: Lmc::new(self.lmc).unwrap_or_default(),
            how: How::default(),
        })
    }

    /// Names the flag that an error is about.
    fn named(&self, error: StudyError) -> CliError {
        match error {
            StudyError::Damage { level, cause } => CliError::Usage {
                what: format!("--faults {level} of {}: {cause}", self.fabric),
            },
            other => other.into(),
        }
    }
}

/// Reads a list of seeds: `3` is 1, 2, 3; `21-30` is 21 to 30.
fn seeds(text: &str) -> Option<Vec<u64>> {
    /// Largest number of draws: a larger one is a typing error.
    const SEEDS_MAX: u64 = 10_000;
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
        None => (1, text.parse::<u64>().ok()?),
    };
    (first <= last && last - first < SEEDS_MAX).then(|| (first..=last).collect())
}

/// Returns the name of an engine with its lanes, for people.
pub fn label(engine: &str, vls: Option<u8>) -> String {
    vls.map_or_else(|| engine.to_owned(), |vls| format!("{engine}, {vls} VL"))
}

fn rows_grid(rows: &[ComparisonRow]) -> Grid {
    let keys = [
        "faults",
        "engine",
        "vls",
        "max_load",
        "max_load_repaired",
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
            row.max_load_repaired.map(|load| Cell::Real(load, 1)).into(),
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
        "max_load_repaired",
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
            run.max_load_repaired.into(),
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
