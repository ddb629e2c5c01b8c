//! `selvedge experiment`: many simulations out of one file, stored as they are done, summed up as tables and charts.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Command, FromArgMatches};
use selvedge_api::{Document, ExperimentCheck, ExperimentSetting, ExperimentSettings, ExperimentSummary};
use selvedge_experiment::{
    Experiment, Field, Figures, Kind, Outcome, Progress, ResultsFile, Run, Schema, Summary, Value, summarise, svg,
};
use selvedge_store::{SETTINGS_MAX, read_text_file};
use selvedge_study::NoWatch;

use crate::args::{OLD_SPELLINGS, THREADS_MAX};
use crate::exit::{CliError, Exit};
use crate::load;
use crate::out::{Cell, Facts, Format, Grid, Out, count, note, thousands};
use crate::progress;
use crate::simulate::{SimulateArgs, simulate};

/// Flags of `selvedge simulate` that an experiment must not set: it has its own list of seeds, and its simulations
/// would overwrite each other's output files.
const NO_SETTINGS: [&str; 8] = ["seed", "json", "csv", "help", "links", "series", "timeline", "heatmap"];
/// Names of the files in the folder of the results.
const RESULTS: &str = "results.jsonl";
const TABLE: &str = "table.csv";
const SUMMARY: &str = "summary.json";

/// Run the simulations that a file describes; continues where it was interrupted. Exit code 1 if some were refused.
#[derive(Args, Debug)]
pub struct ExperimentArgs {
    /// What to run (docs/experiments.md)
    #[arg(value_name = "FILE", required_unless_present = "settings")]
    file: Option<PathBuf>,
    /// Folder for results, table and charts; default: the file's name without its ending
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Simulations at the same time; default: one a processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX))]
    jobs: Option<u16>,
    /// Only check the file and print the number of simulations
    #[arg(long)]
    check: bool,
    /// List the settings that a file may have
    #[arg(long)]
    settings: bool,
    #[command(flatten)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &ExperimentArgs) -> Result<Exit, CliError> {
    let mut out = Out::new(args.format);
    let schema = schema();
    let Some(file) = args.file.as_deref().filter(|_| !args.settings) else {
        list_settings(&mut out, &schema)?;
        out.flush()?;
        return Ok(Exit::Good);
    };
    let text = read_text_file(file, SETTINGS_MAX).map_err(|cause| CliError::Read {
        path: file.to_owned(),
        cause,
    })?;
    let experiment = Experiment::parse(&text, &schema)?;
    warn_of_old_spellings(&experiment, file);
    check(&experiment, file)?;
    if args.check {
        show_check(&mut out, &experiment)?;
        out.flush()?;
        return Ok(Exit::Good);
    }
    let folder = args.out.clone().unwrap_or_else(|| file.with_extension(""));
    let written = |path: &Path| {
        let path = path.to_owned();
        move |cause| CliError::Write { path, cause }
    };
    fs::create_dir_all(&folder).map_err(written(&folder))?;
    let summary = simulated(&experiment, &folder.join(RESULTS), args.jobs)?;
    let store = |name: &str, text: &str| load::write(&folder.join(name), text);
    let grid = grid(&summary);
    store(TABLE, &grid.csv())?;
    let (title, rows) = (summary.title.clone(), summary.json_rows());
    let json = Document::new(ExperimentSummary { title, rows }).to_json_pretty() + "\n";
    store(SUMMARY, &json)?;
    for picture in &experiment.pictures {
        store(&picture.file, &svg(&summary, picture)?)?;
    }
    match args.format.json {
        true => out.write(&json)?,
        false => out.grid(&grid)?,
    }
    if args.format.is_text() {
        let pictures = count(experiment.pictures.len() as u64, "picture");
        out.line(format!(
            "\n{RESULTS}, {TABLE}, {SUMMARY} and {pictures} in {}",
            folder.display()
        ))?;
    }
    out.flush()?;
    match summary.rows.iter().all(|row| row.refused == 0) {
        true => Ok(Exit::Good),
        false => Ok(Exit::NotGood),
    }
}

/// Prints how many simulations a file asks for, and the factors of which this number is the product.
fn show_check(out: &mut Out, experiment: &Experiment) -> Result<(), CliError> {
    let asked = size(experiment);
    if out.format().json {
        return out.document(asked);
    }
    if out.format().csv {
        let mut facts = Facts::new();
        facts.add("combinations", asked.combinations);
        facts.add("different_combinations", asked.different_combinations);
        facts.add("seeds", asked.seeds);
        facts.add("simulations", asked.simulations);
        return out.facts(&facts);
    }
    out.line(size_in_words(&asked))
}

fn size(experiment: &Experiment) -> ExperimentCheck {
    let (different, seeds) = (experiment.different_cells() as u64, experiment.seeds.len() as u64);
    ExperimentCheck {
        combinations: experiment.cells.len() as u64,
        different_combinations: different,
        seeds,
        simulations: different * seeds,
    }
}

fn size_in_words(asked: &ExperimentCheck) -> String {
    let all = count(asked.combinations, "combination");
    let cells = match asked.different_combinations {
        different if different == asked.combinations => all,
        // Combinations that differ only in labels are run once.
        different => format!("{all}, {} of them different,", thousands(different)),
    };
    let (seeds, runs) = (count(asked.seeds, "seed"), count(asked.simulations, "simulation"));
    format!("{cells} with {seeds}: {runs}")
}

/// Refuses mistakes before the first run: figures that no result has, and combinations that cannot be run.
fn check(experiment: &Experiment, file: &Path) -> Result<(), CliError> {
    experiment.check_figures(&figures()?)?;
    let mut fabrics = BTreeSet::new();
    for cell in &experiment.cells {
        let run = Run {
            cell: cell.clone(),
            seed: experiment.seeds[0],
        };
        let checked = parsed(&run).and_then(|args| args.check(&mut fabrics));
        checked.map_err(|error| CliError::Usage {
            what: format!("{}: {cell}: {error}", file.display()),
        })?;
    }
    Ok(())
}

/// Returns the figures of every simulation, taken from the smallest simulation.
fn figures() -> Result<Figures, CliError> {
    let text = "[common]\nfabric = \"single:ports=2,hosts=2\"\nduration = \"1us\"\nwarmup = \"0ns\"";
    let smallest = Experiment::parse(text, &schema())?;
    let mut known = Figures::default();
    for run in smallest.runs() {
        let mut results = simulate(&parsed(&run)?, &NoWatch)?.results;
        results.deadlock.get_or_insert_default();
        if let Ok(serde_json::Value::Object(sample)) = serde_json::to_value(&results) {
            known = Figures::of(&sample);
        }
    }
    Ok(known)
}

/// Runs the simulations that have no result yet.
fn simulated(experiment: &Experiment, path: &Path, jobs: Option<u16>) -> Result<Summary, CliError> {
    let maker = format!("selvedge {}", env!("CARGO_PKG_VERSION"));
    let mut results = ResultsFile::open(path, &maker)?;
    let jobs = jobs.and_then(|jobs| NonZeroUsize::new(usize::from(jobs)));
    let jobs = jobs.or_else(|| std::thread::available_parallelism().ok());
    let bar = progress::bar();
    progress::several(&bar, "simulations");
    let shown = |progress: Progress| {
        bar.set_length((progress.total - progress.before) as u64);
        bar.set_position((progress.done - progress.before) as u64);
    };
    let one = |run: &Run| match parsed(run).and_then(|args| Ok(simulate(&args, &NoWatch)?.results)) {
        Ok(results) => match serde_json::to_value(&results) {
            Ok(serde_json::Value::Object(figures)) => Outcome::Figures(figures),
            Ok(_) | Err(_) => Outcome::Refused("results are no object".to_owned()),
        },
        Err(error) => Outcome::Refused(error.to_string()),
    };
    let done = selvedge_experiment::run(
        experiment,
        &one,
        &mut results,
        jobs.unwrap_or(NonZeroUsize::MIN),
        &shown,
    );
    bar.finish_and_clear();
    done?;
    Ok(summarise(experiment, &results))
}

fn simulate_command() -> Command {
    SimulateArgs::augment_args(Command::new("simulate"))
}

/// Returns the settings that a file may have: the flags of `selvedge simulate`, so that there is only one list of them.
fn schema() -> Schema {
    let command = simulate_command();
    let fields = command.get_arguments().filter_map(|arg| {
        let name = arg.get_long().filter(|name| !NO_SETTINGS.contains(name))?;
        let words: Vec<String> = arg
            .get_possible_values()
            .iter()
            .map(|v| v.get_name().to_owned())
            .collect();
        let kind = match (arg.get_action(), words.is_empty()) {
            (ArgAction::SetTrue, _) => Kind::Flag,
            (ArgAction::Append, _) => Kind::Many,
            (_, true) => Kind::Any,
            (_, false) => Kind::Choice(words),
        };
        Some(Field {
            name: name.to_owned(),
            kind,
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
        })
    });
    let mut fields: Vec<Field> = fields.collect();
    for (old, new) in OLD_SPELLINGS {
        let renamed = fields.iter().find(|field| field.name == new).cloned();
        let name = old.to_owned();
        fields.extend(renamed.map(|field| Field { name, ..field }));
    }
    Schema(fields)
}

fn warn_of_old_spellings(experiment: &Experiment, file: &Path) {
    for (old, new) in OLD_SPELLINGS {
        if experiment.cells.iter().any(|cell| cell.get(old).is_some()) {
            let file = file.display();
            note(format!(
                "warning: {file}: '{old}' is an old name of '{new}'; write '{new}'"
            ));
        }
    }
}

/// Returns a run as the command line that would carry it out.
fn parsed(run: &Run) -> Result<SimulateArgs, CliError> {
    let mut words = vec!["simulate".to_owned(), format!("--seed={}", run.seed)];
    for (name, value) in &run.cell.settings {
        match value {
            Value::Flag(false) => {}
            Value::Flag(true) => words.push(format!("--{name}")),
            Value::Text(text) => words.push(format!("--{name}={}", filled(text, run))),
            Value::Whole(_) | Value::Real(_) => words.push(format!("--{name}={value}")),
            Value::Many(texts) => words.extend(texts.iter().map(|text| format!("--{name}={text}"))),
        }
    }
    let matches = simulate_command().no_binary_name(false).try_get_matches_from(words);
    let args = matches.and_then(|matches| SimulateArgs::from_arg_matches(&matches));
    args.map_err(|error| CliError::usage(&error))
}

/// Fills `{setting}` and `{seed}` into a text, so that every combination can have its own files. Characters that are
/// unusual in file names become `_`.
fn filled(text: &str, run: &Run) -> String {
    let mut filled = text.replace("{seed}", &run.seed.to_string());
    for (name, value) in &run.cell.settings {
        let pattern = format!("{{{name}}}");
        if filled.contains(&pattern) {
            let kept = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            let value = value.to_string();
            let plain: String = value.chars().map(|c| if kept(c) { c } else { '_' }).collect();
            filled = filled.replace(&pattern, &plain);
        }
    }
    filled
}

fn grid(summary: &Summary) -> Grid {
    let mut grid = Grid::named(summary.header());
    for row in summary.cells() {
        grid.add(row.into_iter().map(Cell::from).collect());
    }
    grid
}

/// Lists the settings of an experiment file.
fn list_settings(out: &mut Out, schema: &Schema) -> Result<(), CliError> {
    let is_old = |field: &&Field| OLD_SPELLINGS.iter().any(|(old, _)| *old == field.name);
    let listed = schema.0.iter().filter(|field| !is_old(field));
    if out.format().json {
        let settings = listed.map(|field| ExperimentSetting {
            setting: field.name.clone(),
            takes: field.kind.to_string(),
            help: field.help.clone(),
        });
        return out.document(ExperimentSettings {
            settings: settings.collect(),
        });
    }
    let mut grid = Grid::new(&["setting", "takes", "help"]);
    for field in listed {
        grid.row([
            (&field.name).into(),
            field.kind.to_string().into(),
            (&field.help).into(),
        ]);
    }
    out.grid(&grid)
}

impl ExperimentArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_the_flags_of_simulate() {
        let schema = schema();
        for name in ["fabric", "engine", "traffic", "load", "mtu", "vls", "lost", "duration"] {
            assert!(schema.find(name).is_ok(), "{name}");
        }
        assert!(schema.find("seed").is_err() && schema.find("json").is_err());
        let error = Experiment::parse("[common]\nqueue = \"fifi\"", &schema).unwrap_err();
        assert!(error.to_string().contains("did you mean 'fifo'?"), "{error}");
    }

    #[test]
    fn combinations_have_files_of_their_own() {
        let text = "seeds = [7]\n[common]\nfabric = \"ring:switches=4,hosts=1\"\nvls = 2\n\
                    lfts = \"a/{fabric}-{seed}-{vls}{x}\"\n";
        let experiment = Experiment::parse(text, &schema()).unwrap();
        let debug = format!("{:?}", parsed(&experiment.runs().next().unwrap()).unwrap());
        assert!(debug.contains("a/ring_switches_4_hosts_1-7-2{x}"), "{debug}");
    }

    #[test]
    fn a_cell_is_a_command_line() {
        let text = "seeds = [7]\n[common]\nfabric = \"ring:switches=4,hosts=1\"\nload = 0.25\nvls = 2\n";
        let experiment = Experiment::parse(text, &schema()).unwrap();
        let run = experiment.runs().next().unwrap();
        let debug = format!("{:?}", parsed(&run).unwrap());
        assert!(
            debug.contains("load: 0.25") && debug.contains("seed: 7") && debug.contains("vls: 2"),
            "{debug}"
        );
        let wrong = Experiment::parse("[common]\nfabric = \"x\"\nvls = 99\n", &schema()).unwrap();
        let error = parsed(&wrong.runs().next().unwrap()).unwrap_err().to_string();
        assert!(error.contains("99"), "{error}");
    }

    fn checked(text: &str) -> Result<String, String> {
        let experiment = Experiment::parse(text, &schema()).map_err(|error| error.to_string())?;
        let checked = check(&experiment, Path::new("file"));
        checked
            .map_err(|error| error.to_string())
            .map(|()| size_in_words(&size(&experiment)))
    }

    #[test]
    fn what_would_cost_a_run_is_refused_before() {
        let check = |text: &str, want: &str| {
            let ring = "[common]\nfabric = \"ring:switches=4,hosts=1\"\n";
            let error = checked(&text.replace("RING\n", ring)).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        };
        check(
            "figures = [\"acepted_load\"]\nRING\n",
            "SLV-EXPERIMENT-0012: 'figures': no result has a figure 'acepted_load'",
        );
        check("figures = [\"acepted_load\"]\nRING\n", "did you mean 'accepted_load'?");
        check("figures = [\"deadlok?\"]\nRING\n", "did you mean 'deadlock'?");
        let picture = "RING\n[vary]\nload = [0.1, 0.2]\n[[picture]]\nfile = \"a.svg\"\n";
        check(
            &format!("{picture}x = \"lode\"\ny = \"fairness\""),
            "picture 'a.svg', x: ",
        );
        check(
            &format!("{picture}x = \"lode\"\ny = \"fairness\""),
            "did you mean 'load'?",
        );
        check(
            &format!("{picture}x = \"load\"\ny = \"fairnes\""),
            "did you mean 'fairness'?",
        );
        check(
            &format!("{picture}x = \"load\"\ny = \"load\""),
            "no result has a figure 'load'",
        );
        check(
            &format!("{picture}x = \"load\"\ny = \"fairness\"\nmark = \"deadlck?\""),
            "'deadlock'?",
        );
        check(
            "[vary]\nfabric = [\"ring:switches=4\", \"sx6537\"]",
            "did you mean 'sx6536'?",
        );
        check("[common]\nfabric = \"karytree:k=4,m=2\"", "did you mean 'n'?");
        check("[common]\nfabric = \"no/such/file.topo\"", "SLV-CLI-0001");
        check("RING\nengine = \"minhopp\"", "minhop");
        check("RING\ntraffic = \"unifrom\"", "did you mean 'uniform'?");
        check("RING\nlost = \"many\"", "--lost many");
        check("RING\nlost = \"500\"", "--lost 500 of ring:switches=4,hosts=1");
        check(
            "RING\n[vary]\nlost = [\"1\", \"5\"]",
            "--lost 5 of ring:switches=4,hosts=1",
        );
    }

    #[test]
    fn combinations_times_seeds_are_simulations() {
        let check = |text: &str, want: &str| assert_eq!(checked(text).as_deref(), Ok(want), "{text}");
        let ring = "fabric = \"ring:switches=4,hosts=1\"";
        check(
            &format!("seeds = \"1-3\"\n[common]\n{ring}\n[vary]\nload = [0.1, 0.2]"),
            "2 combinations with 3 seeds: 6 simulations",
        );
        let two = format!(
            "seeds = \"1-3\"\n[[together]]\n{ring}\nlabel.as = \"a\"\n[[together]]\n{ring}\nlabel.as = \"b\"\n"
        );
        check(&two, "2 combinations, 1 of them different, with 3 seeds: 3 simulations");
        check(
            &format!("{two}[vary]\nload = [0.1, 0.2]"),
            "4 combinations, 2 of them different, with 3 seeds: 6 simulations",
        );
    }
}
