//! `selvedge route`: routes a fabric offline and judges the result.

use std::path::PathBuf;

use clap::Args;
use selvedge_config::read_guids;
use selvedge_daemon::{Names, findings};
use selvedge_plan::{Policy, SlToVl};
use selvedge_routing::{Engine, Options, UpDnOptions};
use selvedge_sim::{Par, Seed};
use selvedge_types::Lmc;
use selvedge_verify::{JudgeOptions, Subject, Verdict, verify};

use crate::exit::{CliError, Exit};
use crate::load::{self, NameArgs};
use crate::out::{Format, Out, count};
use crate::tables;
use crate::tables_io::{OutputArgs, Results, known_lids, lids};

/// Route a fabric offline, judge the tables, print the figures; exit code 1 if the judge finds errors.
#[derive(Args, Debug)]
pub struct RouteArgs {
    /// The fabric: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC")]
    fabric: String,
    /// Routing engine
    #[arg(long, value_name = "NAME", default_value = "updn")]
    engine: String,
    /// GUIDs of roots, one a line
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,
    /// LIDs per end port, as a power of two
    #[arg(long, value_name = "0-7", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    lmc: u8,
    /// LIDs to keep (guid2lid)
    #[arg(long, value_name = "FILE")]
    lids: Option<PathBuf>,
    #[command(flatten)]
    outputs: OutputArgs,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &RouteArgs) -> Result<Exit, CliError> {
    let engine: Engine = args.engine.parse()?;
    args.outputs.check()?;
    let roots = args.roots.as_deref().map(read_guids).transpose()?.unwrap_or_default();
    let fabric = load::named(&load::fabric(&args.fabric)?, &args.names.read()?);
    let policy = Policy {
        lmc: Lmc::new(args.lmc).unwrap_or_default(),
        ..Policy::default()
    };
    let lids = lids(&fabric, &policy, &known_lids(args.lids.as_ref())?)?;
    let options = Options {
        updn: UpDnOptions {
            roots,
            ..UpDnOptions::default()
        },
        ..Options::default()
    };
    let routed = engine.route(&fabric, &lids, &options, Seed(0), Par::Rayon)?;
    for note in &routed.notes {
        eprintln!("note: {note}");
    }
    let sl_to_vl = SlToVl::modulo(routed.lanes);
    let subject = Subject::tables(&fabric, &lids, &routed.tables, &routed.service_levels, &sl_to_vl);
    let judge = JudgeOptions {
        par: Par::Rayon,
        ..JudgeOptions::default()
    };
    let verdict = verify(subject, &judge);
    let written = args.outputs.write(Results {
        fabric: &fabric,
        lids: &lids,
        tables: &routed.tables,
        service_levels: &routed.service_levels,
        sl_to_vl: &sl_to_vl,
    });
    let exit = print(&verdict, args.format)?;
    written.map(|()| exit)
}

impl RouteArgs {
    /// The format of errors.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Prints figures and findings.
pub fn print(verdict: &Verdict, format: Format) -> Result<Exit, CliError> {
    let found = findings(verdict, &Names::default());
    let exit = if found.ok { Exit::Good } else { Exit::NotGood };
    let mut out = Out::new(format);
    if format.json {
        out.document(found)?;
    } else {
        out.grid(&tables::figures(&verdict.figures))?;
        if !found.findings.is_empty() {
            out.line("")?;
            out.grid(&tables::findings(&found))?;
        }
        if !format.csv {
            let counts = [
                count(found.errors, "error"),
                count(found.warnings, "warning"),
                count(found.infos, "note"),
            ];
            let counts = counts.join(", ");
            let word = if found.ok {
                out.good("good")
            } else {
                out.bad("not good")
            };
            out.line(format!("\njudged {word}: {counts}"))?;
        }
    }
    out.flush()?;
    Ok(exit)
}
