//! `selvedge backups`: the repair that would follow each single fault, and the number of faults after which a fabric is
//! too slow.

mod chart;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use selvedge_api::{Backup, Backups};
use selvedge_study::Threads;
use selvedge_study::backups::{Kind, Question, Start};
use selvedge_study::failures::{How, Measure};

use crate::args::{PAIRINGS_MAX, THREADS_MAX};
use crate::exit::{CliError, Exit};
use crate::load::{self, NameArgs};
use crate::meter;
use crate::out::{Cell, Format, Grid, Out, count, note, thousands};
use crate::progress::{self, Drawn};
use crate::route::TablesArgs;

/// Print the repair for every single lost link or switch, weakest points first; exit code 1 if one fault cuts hosts off
#[derive(Args, Debug)]
pub struct BackupsArgs {
    /// The fabric: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC")]
    fabric: String,
    /// The engine that makes new tables; with another one than 'file', --lfts are the tables in force
    #[arg(long, value_name = "NAME", default_value = "auto")]
    engine: String,
    #[command(flatten)]
    tables: TablesArgs,
    /// What is lost
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        value_delimiter = ',',
        default_value = "link,switch"
    )]
    kinds: Vec<KindArg>,
    /// Try only this number of faults, chosen at random, if trying all takes too long (default: all)
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Faults that the table lists; JSON and CSV have all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    #[command(flatten)]
    in_place: InPlaceArgs,
    /// Threads to use; 0: as many as there are cores
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=THREADS_MAX))]
    threads: u16,
    /// Write a picture to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    format: Format,
}

/// Fail-in-place.
#[derive(Args, Clone, Copy, Debug)]
struct InPlaceArgs {
    /// Lose links in random order, repairing none, until performance is below this share of the whole fabric's, as 0.9
    #[arg(long, value_name = "SHARE", value_parser = share)]
    below: Option<f64>,
    /// What performance is
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = MeasureArg::Ebb)]
    measure: MeasureArg,
    /// Random orders
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    orders: u64,
    /// Seed of the first order, and of the sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Random pairings for the effective bisection bandwidth
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=PAIRINGS_MAX))]
    pairings: u32,
}

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KindArg {
    /// Each link between switches
    Link,
    /// Each switch
    Switch,
}

/// What performance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MeasureArg {
    /// Effective bisection bandwidth
    Ebb,
    /// Inverse of the pairs on the busiest link
    Load,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "want a number from 0 to 1, as 0.9")?;
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err("want a number from 0 to 1, as 0.9".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: &BackupsArgs) -> Result<Exit, CliError> {
    let engine = args.engine.parse()?;
    if let Some(path) = &args.svg {
        load::writable(path)?;
    }
    let threads = meter::start_threads(args.threads)?;
    let fabric = load::named(&load::fabric(&args.fabric)?, &args.names.read()?);
    let (lids, options) = args.tables.read(&fabric)?;
    let start = Start {
        fabric: Arc::new(fabric),
        lids: Arc::new(lids),
        engine,
        options,
    };
    let bar = progress::bar();
    let answer = args.question(start, threads).answer(&Drawn(&bar));
    bar.finish_and_clear();
    let answer = answer?;
    for found in &answer.notes {
        note(format!("note: {found}"));
    }
    let found = answer.backups;
    if let Some(path) = &args.svg {
        load::write(path, &chart::svg(&found)?)?;
    }
    args.show(&found)
}

impl InPlaceArgs {
    /// Returns how links are lost one after another, if that is requested.
    fn how(&self) -> Option<How> {
        Some(How {
            below: self.below?,
            measure: match self.measure {
                MeasureArg::Ebb => Measure::Ebb {
                    pairings: self.pairings,
                },
                MeasureArg::Load => Measure::Load,
            },
            orders: self.orders,
            seed: self.seed,
        })
    }
}

impl BackupsArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }

    fn question(&self, start: Start, threads: Threads) -> Question {
        let kind = |kind: &KindArg| match kind {
            KindArg::Link => Kind::Link,
            KindArg::Switch => Kind::Switch,
        };
        Question {
            name: self.fabric.clone(),
            start,
            kinds: self.kinds.iter().map(kind).collect(),
            sample: self.sample,
            seed: self.in_place.seed,
            in_place: self.in_place.how(),
            threads,
        }
    }

    fn show(&self, found: &Backups) -> Result<Exit, CliError> {
        let exit = if found.ok { Exit::Good } else { Exit::NotGood };
        let mut out = Out::new(self.format);
        if self.format.json {
            out.document(found.clone())?;
        } else if self.format.csv {
            out.grid(&grid(&found.faults))?;
        } else {
            out.grid(&grid(&found.faults[..self.top.min(found.faults.len())]))?;
            for line in words(found, self.top) {
                out.line(line)?;
            }
        }
        out.flush()?;
        Ok(exit)
    }
}

fn grid(faults: &[Backup]) -> Grid {
    let keys = [
        "kind",
        "name",
        "hosts_lost",
        "pairs_cut",
        "pairs_lost",
        "pairs_interrupted",
        "entries",
        "switches",
        "blocks",
        "max_load",
        "load_share",
        "deadlock_free",
        "refused",
    ];
    let mut grid = Grid::new(&keys).lose_first(&["switches", "load_share", "entries", "pairs_interrupted"]);
    for fault in faults {
        grid.row([
            (&fault.kind).into(),
            (&fault.name).into(),
            fault.hosts_lost.into(),
            fault.pairs_cut.into(),
            fault.pairs_lost.into(),
            fault.pairs_interrupted.into(),
            fault.entries.into(),
            fault.switches.into(),
            fault.blocks.into(),
            fault.max_load.into(),
            Cell::Real(fault.load_share, 3),
            fault.refused.is_none().then_some(fault.deadlock_free).into(),
            fault.refused.as_deref().unwrap_or_default().into(),
        ]);
    }
    grid
}

/// Returns the lines below the table.
fn words(found: &Backups, top: usize) -> Vec<String> {
    let single = |kind: &str| {
        let is = |fault: &&Backup| fault.kind == kind && fault.single_point;
        found.faults.iter().filter(is).count() as u64
    };
    let tried = found.faults.len() as u64;
    let mut lines = vec![
        String::new(),
        format!(
            "{} of {} possible, weakest {} listed; busiest link of the whole fabric: {} host pairs ({})",
            count(tried, "fault"),
            thousands(found.faults_there_are),
            top.min(found.faults.len()),
            thousands(found.max_load),
            found.engine,
        ),
        format!(
            "single points of failure: {}, {}; {} of {} have only one link, a single point of failure for them",
            count(single("link"), "link"),
            count(single("switch"), "switch"),
            thousands(found.hosts_with_one_link),
            count(found.host_ports, "host port"),
        ),
    ];
    if tried > 0 {
        let fresh = "'selvedge compare --faults' shows that of tables made from scratch too, as after a rebalance";
        lines.push(format!(
            "max_load: host pairs on the busiest link after the repair in place; {fresh}"
        ));
    }
    if found.pairs_apart > 0 {
        lines.push(format!(
            "before any fault {} do not reach each other: the fabric is in {}",
            count(found.pairs_apart, "host pair"),
            count(found.parts, "part"),
        ));
    }
    let named_max = 5;
    let parting: Vec<&str> = (found.faults.iter().filter(|fault| fault.single_point))
        .map(|fault| fault.name.as_str())
        .collect();
    if !parting.is_empty() {
        let more = match parting.len().saturating_sub(named_max) {
            0 => String::new(),
            more => format!(", and {} more", thousands(more as u64)),
        };
        let named = parting[..named_max.min(parting.len())].join(", ");
        lines.push(format!("they are: {named}{more}"));
    }
    if let Some(in_place) = &found.in_place {
        lines.push(format!(
            "fail in place: {} lost links before {} is below {} of the whole fabric's or hosts are cut off (median of \
             {}; mean {:.1}, one in ten {}, nine in ten {})",
            thousands(in_place.median),
            in_place.measure,
            in_place.below,
            count(in_place.runs.len() as u64, "random order"),
            in_place.mean,
            thousands(in_place.percentile_10),
            thousands(in_place.percentile_90),
        ));
    }
    lines
}
