//! `selvedge transition`: how tables would be changed under traffic, before anything is sent.

mod chart;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use selvedge_api::{Transition, TransitionStep};
use selvedge_plan::Policy;
use selvedge_routing::Engine;
use selvedge_study::transition::{From, Question};

use self::chart::svg;
use crate::exit::{CliError, Exit};
use crate::load::{self, NameArgs};
use crate::meter;
use crate::out::{Cell, Format, Grid, Out};
use crate::progress::{self, Drawn};
use crate::route;
use crate::tables_io::{known_lids, lids, whole_tables};

/// Show the steps and waits in which tables would be changed under traffic; exit code 1 if no transition is proved.
#[derive(Args, Debug)]
pub struct TransitionArgs {
    /// The fabric: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC")]
    fabric: String,
    /// Routing engine that made the tables in force
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "from_lfts",
        conflicts_with = "from_lfts"
    )]
    from: Option<String>,
    /// The tables in force: OpenSM's dump, or the output of ibroute or dump_fts
    #[arg(long, value_name = "FILE")]
    from_lfts: Option<PathBuf>,
    /// Routing engine of the new tables
    #[arg(long, value_name = "NAME", default_value = "auto")]
    to: String,
    /// LIDs to keep (guid2lid)
    #[arg(long, value_name = "FILE")]
    lids: Option<PathBuf>,
    /// The switches' LifeTimeValue: a packet is discarded after 4.096 µs × 2^N in one switch (20: never)
    #[arg(long, value_name = "N", default_value_t = 18, value_parser = clap::value_parser!(u8).range(0..=31))]
    lifetime: u8,
    /// Largest number of data lanes to use (default: what suits each engine; of tables from a file, one)
    #[arg(long, value_name = "1-15", value_parser = clap::value_parser!(u8).range(1..=15))]
    vls: Option<u8>,
    /// Write a picture of the steps to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &TransitionArgs) -> Result<Exit, CliError> {
    let to: Engine = args.to.parse()?;
    let from: Option<Engine> = args.from.as_ref().map(|name| name.parse()).transpose()?;
    if let Some(path) = &args.svg {
        load::writable(path)?;
    }
    let question = args.question(from, to)?;
    let bar = progress::bar();
    let answer = question.answer(&Drawn(&bar));
    bar.finish_and_clear();
    let answer = answer?;
    route::say(&answer.parts, "the steps are proved for packets inside each part");
    args.show(answer.transition)
}

impl TransitionArgs {
    fn question(&self, from: Option<Engine>, to: Engine) -> Result<Question, CliError> {
        let fabric = load::named(&load::fabric(&self.fabric)?, &self.names.read()?);
        let mut known = lids(&fabric, &Policy::default(), &known_lids(self.lids.as_deref(), &fabric)?)?;
        let from = match (from, &self.from_lfts) {
            (Some(engine), _) => From::Engine(engine),
            (None, Some(path)) => {
                let read = whole_tables(path, &fabric, self.lids.as_ref().map(|_| &known))?;
                known = read.lids;
                From::Tables {
                    name: path.display().to_string(),
                    tables: Arc::new(read.tables),
                }
            }
            (None, None) => {
                let what = "want --from or --from-lfts".to_owned();
                return Err(CliError::Usage { what });
            }
        };
        Ok(Question {
            name: self.fabric.clone(),
            fabric: Arc::new(fabric),
            lids: Arc::new(known),
            from,
            to,
            lifetime: self.lifetime,
            lanes: self.vls,
            threads: meter::all_threads(),
        })
    }

    fn show(&self, body: Transition) -> Result<Exit, CliError> {
        let exit = if body.ok { Exit::Good } else { Exit::NotGood };
        if let Some(path) = &self.svg {
            load::write(path, &svg(&body, &verdict(&body))?)?;
        }
        let mut out = Out::new(self.format);
        if self.format.json {
            out.document(body)?;
        } else {
            out.grid(&grid(&body.steps))?;
            if self.format.is_text() {
                out.line(format!("\n{}", verdict(&body)))?;
                if body.lanes_from.max(body.lanes_to) > 1 {
                    let (from, to) = (body.lanes_from, body.lanes_to);
                    out.line(format!(
                        "data lanes: {from} before, {to} afterwards; a running manager uses one so far"
                    ))?;
                }
                body.why.iter().try_for_each(|why| out.line(why))?;
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

fn grid(steps: &[TransitionStep]) -> Grid {
    let keys = [
        "step",
        "wait_before_s",
        "switches",
        "entries",
        "dropped",
        "sets",
        "what",
    ];
    let mut grid = Grid::new(&keys).lose_first(&["switches"]);
    for step in steps {
        grid.row([
            Cell::id(step.step),
            Cell::Real(step.wait_before_ns as f64 / 1e9, 2),
            step.switches.into(),
            step.entries.into(),
            step.dropped.into(),
            step.sets.into(),
            (&step.what).into(),
        ]);
    }
    grid
}

fn verdict(body: &Transition) -> String {
    let Transition { from, to, .. } = body;
    match (body.passage.as_str(), body.wait_ns) {
        ("still", _) => format!("from {from} to {to}: no entry changes"),
        ("proved", 0) => format!("from {from} to {to}: proved, without a wait"),
        ("proved", ns) => format!(
            "from {from} to {to}: proved; {} of waiting for packets in flight",
            seconds(ns)
        ),
        ("inherited", _) => {
            format!("from {from} to {to}: the tables in force are not safe; the steps lead to safe tables")
        }
        _ => format!("from {from} to {to}: no transition is proved"),
    }
}

fn seconds(ns: u64) -> String {
    format!("{:.2} s", Duration::from_nanos(ns).as_secs_f64())
}
