//! `selvedge telemetry sets`: metric sets in the forms of LDMS.

use std::path::{Path, PathBuf};

use clap::Args;
use selvedge_api::{MetricSets, SetForm, SetQuery};
use selvedge_store::{SETTINGS_MAX, read_text_file};
use selvedge_telemetry::selection;

use crate::ask::SocketArgs;
use crate::exit::{CliError, Exit};
use crate::out::{Format, Grid, Out};

/// List metric sets, or print one as ldms_ls -l does, or as LDMS CSV
#[derive(Args, Debug)]
pub struct SetsArgs {
    /// Name of a set: ibfabric has all ports, ibfabric/NODE those of a node (default: list the sets)
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Metric selection file: a name a line, # disables it (default: all metrics)
    #[arg(long, value_name = "FILE", requires = "name")]
    metrics: Option<PathBuf>,
    /// The number of a job, for the metric job_id
    #[arg(long, value_name = "N", requires = "name", default_value_t = 0)]
    job_id: u64,
    /// With --csv, print no header
    #[arg(long, requires = "name")]
    no_header: bool,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Runs the command.
pub fn run(args: &SetsArgs) -> Result<Exit, CliError> {
    let client = args.socket.client();
    let mut out = Out::new(args.format);
    let Some(name) = &args.name else {
        let sets: MetricSets = client.get("telemetry/sets")?;
        match args.format.json {
            true => out.document(sets)?,
            false => out.grid(&table(&sets))?,
        }
        out.flush()?;
        return Ok(Exit::Good);
    };
    if args.format.json {
        let what = "a metric set is printed as text or with --csv; --json is of the list of sets".to_owned();
        return Err(CliError::Usage { what });
    }
    let query = SetQuery {
        name: name.clone(),
        metrics: args.metrics.as_deref().map(selected).transpose()?,
        form: match (args.format.csv, args.no_header) {
            (false, _) => SetForm::Ldms,
            (true, false) => SetForm::Csv,
            (true, true) => SetForm::CsvRow,
        },
        job_id: args.job_id,
    };
    let text = client.text("telemetry/set", &query.parameters())?;
    match args.format.csv {
        true => out.write(&text)?,
        false => text.lines().try_for_each(|line| out.line(line))?,
    }
    out.flush()?;
    Ok(Exit::Good)
}

/// Reads a metric selection file, and returns its names.
fn selected(path: &Path) -> Result<String, CliError> {
    let path = path.to_owned();
    let text = match read_text_file(&path, SETTINGS_MAX) {
        Ok(text) => text,
        Err(cause) => return Err(CliError::Read { path, cause }),
    };
    let metrics = match selection::parse(&text) {
        Ok(metrics) => metrics,
        Err(cause) => return Err(CliError::Selection { path, cause }),
    };
    let names: Vec<&str> = metrics.into_iter().map(selection::Selected::name).collect();
    Ok(names.join(","))
}

fn table(sets: &MetricSets) -> Grid {
    let mut grid = Grid::new(&["set", "ports"]);
    for set in &sets.sets {
        grid.row([(&set.name).into(), set.ports.into()]);
    }
    grid
}
