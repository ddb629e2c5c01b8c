//! `selvedge route`: routes a fabric offline and judges the result.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use selvedge_api::Routing;
use selvedge_config::{read_guid_numbers, read_guids};
use selvedge_daemon::{Names, findings as found_by};
use selvedge_fabric::Fabric;
use selvedge_plan::Lids;
use selvedge_routing::{
    Effort, Engine, FatTreeOptions, FtreeOptions, HopWeight, HostLists, LidMatrix, Listed, Note, Options, PortOrder,
    Rebalance, UpDnOptions,
};
use selvedge_study::measure::{Answer, Question};
use selvedge_study::{Parts, StudyError};
use selvedge_topology::read_lid_matrix;
use selvedge_types::Guid;
use selvedge_verify::Verdict;

use crate::exit::{CliError, Exit};
use crate::findings::{self, TOP};
use crate::load::{self, NameArgs};
use crate::measure::MeasureArgs;
use crate::meter::Process;
use crate::out::{Facts, Format, Out, note};
use crate::progress::{self, Drawn};
use crate::tables;
use crate::tables_io::{LidArgs, OutputArgs, Results, tables as read_tables};

/// Route a fabric offline, judge the tables, print the figures; exit code 1 if the judge finds errors.
#[derive(Args, Debug)]
pub struct RouteArgs {
    /// The fabric: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC")]
    fabric: String,
    /// Routing engines in order of preference: the next is tried where one refuses, or the judge refuses its tables
    #[arg(long, value_name = "NAME", default_value = "auto", value_delimiter = ',')]
    engine: Vec<String>,
    #[command(flatten)]
    tables: TablesArgs,
    /// Repeat the routing this number of times, and take the median time
    #[arg(long, value_name = "N", default_value_t = 0)]
    repeat: u32,
    #[command(flatten)]
    measure: MeasureArgs,
    /// Findings of each kind that text lists; --json has more
    #[arg(long, value_name = "N", default_value_t = TOP)]
    top: usize,
    #[command(flatten)]
    outputs: OutputArgs,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    format: Format,
}

/// From what, and with which LIDs, tables are made.
#[derive(Args, Debug)]
pub struct TablesArgs {
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    how: HowArgs,
    /// Largest number of data lanes to use (weave, fat-tree, default 1; dfsssp, default 8); the other engines need one
    #[arg(long, value_name = "1-15", value_parser = clap::value_parser!(u8).range(1..=15))]
    vls: Option<u8>,
    #[command(flatten)]
    lids: LidArgs,
}

impl TablesArgs {
    /// Returns LIDs of a fabric, and options of its engine.
    pub fn read(&self, fabric: &Fabric) -> Result<(Lids, Options), CliError> {
        let lids = self.lids.assign(fabric)?;
        let mut options = self.inputs.options(fabric)?;
        options.lanes = self.vls;
        self.how.apply(&mut options);
        Ok((lids, options))
    }
}

/// How engines work that can work in several ways.
#[derive(Args, Clone, Copy, Debug)]
pub struct HowArgs {
    /// How long weave searches for a better routing
    #[arg(long, value_enum, value_name = "EFFORT", default_value_t = EffortArg::Fast)]
    pub effort: EffortArg,
    /// What fat-tree may move where links are missing
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = RebalanceArg::Minimal)]
    pub rebalance: RebalanceArg,
}

/// [`Effort`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum EffortArg {
    /// Short: for a fabric that needs its routes now
    Fast,
    /// About ten times as long
    Best,
}

impl EffortArg {
    /// Returns the value as it is written on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Best => "best",
        }
    }
}

/// [`Rebalance`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RebalanceArg {
    /// Beside tables in force, only entries over lost links
    Minimal,
    /// Any entry, to lower the load of the busiest links; in trees of two levels, to let fewer packets meet
    Full,
}

impl HowArgs {
    /// Applies these choices to an engine's options.
    pub fn apply(self, options: &mut Options) {
        options.weave.effort = match self.effort {
            EffortArg::Fast => Effort::Fast,
            EffortArg::Best => Effort::Best,
        };
        options.rebalance = match self.rebalance {
            RebalanceArg::Minimal => Rebalance::Minimal,
            RebalanceArg::Full => Rebalance::Full,
        };
    }
}

/// Files that engines go by, as OpenSM reads them.
#[derive(Args, Debug)]
pub struct InputArgs {
    /// GUIDs of roots, one a line (fat-tree, updn, ftree)
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,
    /// GUIDs of the ports of compute nodes (ftree, sssp, dfsssp)
    #[arg(long, value_name = "FILE", alias = "cn")]
    compute: Option<PathBuf>,
    /// GUIDs of the ports of I/O nodes (ftree, sssp, dfsssp)
    #[arg(long, value_name = "FILE")]
    io: Option<PathBuf>,
    /// GUIDs of ports that are routed first, in this order (minhop, updn, dnup)
    #[arg(long, value_name = "FILE")]
    guid_order: Option<PathBuf>,
    /// Lines of a switch's GUID, a port and what a hop by it counts for (minhop)
    #[arg(long, value_name = "FILE")]
    hop_weights: Option<PathBuf>,
    /// Lines of a switch's GUID and its ports in the order in which they are tried (minhop, updn, dnup)
    #[arg(long, value_name = "FILE")]
    port_order: Option<PathBuf>,
    /// Forwarding tables to load, as OpenSM dumps them (file)
    #[arg(long, value_name = "FILE", conflicts_with = "hops")]
    lfts: Option<PathBuf>,
    /// Hop counts to choose from, as in opensm-lid-matrix.dump (file)
    #[arg(long, value_name = "FILE")]
    hops: Option<PathBuf>,
}

impl InputArgs {
    /// Returns the options that follow from these files.
    pub fn options(&self, fabric: &Fabric) -> Result<Options, CliError> {
        let guids = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(Vec::new()), read_guids);
        let numbers = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(Vec::new()), read_guid_numbers);
        let roots = guids(&self.roots)?;
        let hosts = HostLists {
            compute: guids(&self.compute)?,
            io: guids(&self.io)?,
        };
        let orders = numbers(&self.port_order)?.into_iter();
        Ok(Options {
            guid_order: guids(&self.guid_order)?,
            port_order: orders.map(|(switch, ports)| PortOrder { switch, ports }).collect(),
            hop_weights: match &self.hop_weights {
                Some(path) => weights(path)?,
                None => Vec::new(),
            },
            fat_tree: FatTreeOptions {
                roots: roots.clone(),
                hosts: hosts.clone(),
                ..FatTreeOptions::default()
            },
            hosts,
            updn: UpDnOptions {
                roots: roots.clone(),
                ..UpDnOptions::default()
            },
            ftree: FtreeOptions {
                roots,
                ..FtreeOptions::default()
            },
            listed: self.listed(fabric)?.map(Arc::new),
            ..Options::default()
        })
    }

    fn listed(&self, fabric: &Fabric) -> Result<Option<Listed>, CliError> {
        if let Some(path) = &self.lfts {
            let read = read_tables(path, fabric, None)?;
            let (tables, lids) = (read.tables, read.lids);
            return Ok(Some(Listed::Tables { tables, lids }));
        }
        let Some(path) = &self.hops else { return Ok(None) };
        let hops = read_lid_matrix(&path.display().to_string(), &load::bytes(path)?)?;
        Ok(Some(Listed::Hops(LidMatrix { hops })))
    }
}

fn weights(path: &Path) -> Result<Vec<HopWeight>, CliError> {
    let each = |(switch, numbers): (Guid, Vec<u8>)| match numbers[..] {
        [port, hops] => Ok(HopWeight { switch, port, hops }),
        _ => Err(CliError::NoWeight {
            path: path.to_owned(),
            switch,
        }),
    };
    read_guid_numbers(path)?.into_iter().map(each).collect()
}

/// Runs the command.
pub fn run(args: &RouteArgs) -> Result<Exit, CliError> {
    let engines: Vec<Engine> = args.engine.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    args.outputs.check()?;
    let fabric = load::named(&load::fabric(&args.fabric)?, &args.names.read()?);
    let (lids, options) = args.tables.read(&fabric)?;
    let question = Question {
        fabric: Arc::new(fabric),
        lids: Arc::new(lids),
        engines,
        options,
        how: args.measure.start(args.repeat)?,
    };
    let bar = progress::spinner();
    let measured = question.answer(&Process::new(), &Drawn(&bar));
    bar.finish_and_clear();
    let measured = measured.inspect_err(|error| {
        if let StudyError::Refused { notes, .. } = error {
            say_notes(notes);
        }
    })?;
    say_notes(&measured.routed.notes);
    let written = args.outputs.write(Results {
        fabric: &question.fabric,
        lids: &question.lids,
        tables: &measured.routed.tables,
        service_levels: &measured.routed.service_levels,
        sl_to_vl: &measured.sl_to_vl,
    });
    let exit = args.show(&question.engines, &measured)?;
    written.map(|()| exit)
}

/// Prints the engines' remarks to standard error.
fn say_notes(notes: &[Note]) {
    for found in notes {
        note(format!("note: {found}"));
    }
}

/// Prints the note about several parts to standard error, with their meaning for the command.
pub fn say(parts: &Parts, meaning: &str) {
    if let Some(found) = &parts.note {
        note(format!("warning: {found}; {meaning}"));
    }
}

impl RouteArgs {
    fn show(&self, engines: &[Engine], measured: &Answer) -> Result<Exit, CliError> {
        if !self.format.json {
            return print_figures(&measured.verdict, tables::routing(measured), self.format, self.top);
        }
        let found = found_by(&measured.verdict, &Names::default());
        let exit = if found.ok { Exit::Good } else { Exit::NotGood };
        let mut out = Out::new(self.format);
        out.document(Routing {
            fabric: self.fabric.clone(),
            engine: measured.routed.engine.0.clone(),
            engines: engines.iter().map(|engine| engine.name().to_owned()).collect(),
            vls: self.tables.vls,
            effort: self.tables.how.effort.name().to_owned(),
            lmc: self.tables.lids.lmc,
            ok: found.ok,
            quality: measured.quality(),
            cost: measured.cost.clone(),
            contention: measured
                .contention
                .as_ref()
                .map(|c| serde_json::to_value(c).unwrap_or_default()),
            notes: measured.routed.notes.iter().map(ToString::to_string).collect(),
            errors: found.errors,
            warnings: found.warnings,
            infos: found.infos,
            figures: found.figures,
            findings: found.findings,
        })?;
        out.flush()?;
        Ok(exit)
    }

    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Prints the judge's figures and further figures of a routing, then the findings.
fn print_figures(verdict: &Verdict, more: Facts, format: Format, top: usize) -> Result<Exit, CliError> {
    let found = found_by(verdict, &Names::default());
    let exit = if found.ok { Exit::Good } else { Exit::NotGood };
    let mut out = Out::new(format);
    let mut figures = tables::figures(&verdict.figures);
    figures.append(more);
    if format.csv {
        figures.append(findings::counts(&found));
        out.facts(&figures)?;
    } else {
        out.facts(&figures)?;
        findings::text(&mut out, &found, &findings::groups(verdict), top)?;
    }
    out.flush()?;
    Ok(exit)
}
