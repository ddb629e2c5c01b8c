//! `selvedge topology`: fabrics from generators, files and managers.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use selvedge_api as api;
use selvedge_fabric::{Change, ChangeWords, Fabric, diff};
use selvedge_topology::{DotHosts, Format as FileFormat, NodeNames, Summary, write, write_dot};

use crate::approve::{self, ApproveArgs};
use crate::exit::{CliError, Exit};
use crate::load::{self, NameArgs};
use crate::out::{Facts, Format, Grid, Out};
use crate::tables;

/// Make, convert, show, compare and approve fabrics.
#[derive(Args, Debug)]
pub struct TopologyArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a fabric with a generator
    Generate(WriteArgs),
    /// Write a fabric in another format
    Convert(WriteArgs),
    /// Show a fabric: figures, nodes, links
    Show(ShowArgs),
    /// Compare two fabrics by GUID; exit code 1 if they differ
    Diff(DiffArgs),
    /// Take the fabric that the manager sees as the expected one, and list the differences from the former file
    Approve(ApproveArgs),
}

#[derive(Args, Debug)]
struct WriteArgs {
    /// The fabric: a generator, as sx6536 or mport:m=8,n=3, or a file
    #[arg(value_name = "SPEC")]
    spec: String,
    /// Format to write
    #[arg(long, value_enum, default_value_t = FileKind::Net)]
    to: FileKind,
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    names: NameArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FileKind {
    /// ibsim's net file
    Net,
    /// What ibnetdiscover prints
    Ibnetdiscover,
    /// Graphviz
    Dot,
    /// Graphviz, hosts as a number on their switch
    DotSwitches,
}

#[derive(Args, Debug)]
struct ShowArgs {
    /// The fabric: a generator or a file
    #[arg(value_name = "SPEC")]
    spec: String,
    /// List the nodes
    #[arg(long, conflicts_with = "links")]
    nodes: bool,
    /// List the links
    #[arg(long)]
    links: bool,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    format: Format,
}

#[derive(Args, Debug)]
struct DiffArgs {
    /// The fabric before
    #[arg(value_name = "BEFORE")]
    before: String,
    /// The fabric after
    #[arg(value_name = "AFTER")]
    after: String,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &TopologyArgs) -> Result<Exit, CliError> {
    match &args.command {
        Command::Generate(args) | Command::Convert(args) => convert(args),
        Command::Show(args) => show(args),
        Command::Diff(args) => compare(args),
        Command::Approve(args) => approve::run(args),
    }
}

impl TopologyArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        match &self.command {
            Command::Show(args) => args.format.json,
            Command::Diff(args) => args.format.json,
            Command::Approve(args) => args.json(),
            Command::Generate(_) | Command::Convert(_) => false,
        }
    }
}

fn convert(args: &WriteArgs) -> Result<Exit, CliError> {
    let fabric = load::fabric(&args.spec)?;
    let text = file_text(&fabric, args.to, &args.names.read()?);
    match &args.output {
        Some(path) => load::write(path, &text)?,
        None => {
            let mut out = Out::new(Format::default());
            out.write(&text)?;
            out.flush()?;
        }
    }
    Ok(Exit::Good)
}

fn file_text(fabric: &Fabric, kind: FileKind, names: &NodeNames) -> String {
    match kind {
        FileKind::Net => write(fabric, FileFormat::IbsimNet, names),
        FileKind::Ibnetdiscover => write(fabric, FileFormat::Ibnetdiscover, names),
        FileKind::Dot => write_dot(fabric, names, DotHosts::Each),
        FileKind::DotSwitches => write_dot(fabric, names, DotHosts::Folded),
    }
}

fn show(args: &ShowArgs) -> Result<Exit, CliError> {
    let fabric = load::named(&load::fabric(&args.spec)?, &args.names.read()?);
    let mut out = Out::new(args.format);
    match (args.nodes, args.links, args.format.json) {
        (true, _, true) => out.document(api::nodes(&fabric))?,
        (true, _, false) => out.grid(&tables::nodes(&api::nodes(&fabric)))?,
        (_, true, true) => out.document(api::links(&fabric))?,
        (_, true, false) => out.grid(&tables::links(&api::links(&fabric)))?,
        (_, _, true) => out.document(api::Fabric::of(&fabric))?,
        _ => out.facts(&summary(&Summary::of(&fabric)))?,
    }
    out.flush()?;
    Ok(Exit::Good)
}

fn summary(summary: &Summary) -> Facts {
    let mut facts = Facts::new();
    facts.add("switches", summary.switches);
    facts.add("hosts", summary.hosts);
    facts.add("aggregation_nodes", summary.aggregation_nodes);
    facts.add("routers", summary.routers);
    facts.named("switch_links", "links between switches", summary.switch_links);
    facts.named("host_links", "other links", summary.host_links);
    facts.named("uncabled_ports", "ports without a cable", summary.uncabled_ports);
    facts.named("components", "parts", summary.components);
    for (rate, ports) in &summary.ports_by_rate {
        let words = format!("ports at {rate}");
        facts.named(&words, &words, *ports);
    }
    facts
}

fn compare(args: &DiffArgs) -> Result<Exit, CliError> {
    let names = args.names.read()?;
    let before = load::named(&load::fabric(&args.before)?, &names);
    let after = load::named(&load::fabric(&args.after)?, &names);
    let differences = diff(&before, &after).changes;
    let mut out = Out::new(args.format);
    if args.format.json {
        out.document(api::Diff {
            equal: differences.is_empty(),
            changes: differences.iter().map(ToString::to_string).collect(),
        })?;
    } else if args.format.csv {
        out.grid(&changes(&differences))?;
    } else {
        for change in &differences {
            out.line(change.to_string())?;
        }
    }
    out.flush()?;
    Ok(if differences.is_empty() {
        Exit::Good
    } else {
        Exit::NotGood
    })
}

fn changes(differences: &[Change]) -> Grid {
    let mut grid = Grid::new(&["change", "what", "name", "attribute", "before", "after"]);
    for change in differences {
        let ChangeWords {
            change,
            what,
            name,
            attribute,
            before,
            after,
        } = change.words();
        grid.row([
            change.into(),
            what.into(),
            name.into(),
            attribute.into(),
            before.into(),
            after.into(),
        ]);
    }
    grid
}
