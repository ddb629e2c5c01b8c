//! `selvedge route`: routes a fabric offline and judges the result.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use selvedge_config::{read_guid_numbers, read_guids};
use selvedge_daemon::{Names, findings};
use selvedge_fabric::Fabric;
use selvedge_plan::{Policy, SlToVl};
use selvedge_routing::{
    Engine, FatTreeOptions, FtreeOptions, HopWeight, HostLists, LidMatrix, Listed, Options, PortOrder, UpDnOptions,
    WeaveOptions,
};
use selvedge_sim::{Par, Seed};
use selvedge_topology::{read_lfts, read_lid_matrix};
use selvedge_types::{Guid, Lmc};
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
    #[command(flatten)]
    inputs: InputArgs,
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

/// Files that engines go by, as OpenSM reads them.
#[derive(Args, Debug)]
struct InputArgs {
    /// GUIDs of roots, one a line (fat-tree, updn, ftree)
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,
    /// GUIDs of the ports of compute nodes (ftree, sssp, dfsssp)
    #[arg(long, value_name = "FILE")]
    cn: Option<PathBuf>,
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
    /// Most data lanes to use (weave, default 1; dfsssp, default 8); the other engines need one
    #[arg(long, value_name = "1-15", value_parser = clap::value_parser!(u8).range(1..=15))]
    vls: Option<u8>,
    /// How long weave looks for a better routing: fast or best
    #[arg(long, value_name = "EFFORT", default_value = "fast")]
    effort: String,
}

impl InputArgs {
    fn options(&self, fabric: &Fabric) -> Result<Options, CliError> {
        let guids = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(Vec::new()), read_guids);
        let numbers = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(Vec::new()), read_guid_numbers);
        let roots = guids(&self.roots)?;
        let defaults = Options::default();
        let orders = numbers(&self.port_order)?.into_iter();
        Ok(Options {
            guid_order: guids(&self.guid_order)?,
            port_order: orders.map(|(switch, ports)| PortOrder { switch, ports }).collect(),
            hop_weights: match &self.hop_weights {
                Some(path) => weights(path)?,
                None => Vec::new(),
            },
            hosts: HostLists {
                compute: guids(&self.cn)?,
                io: guids(&self.io)?,
            },
            fat_tree: FatTreeOptions {
                roots: roots.clone(),
                ..FatTreeOptions::default()
            },
            updn: UpDnOptions {
                roots: roots.clone(),
                ..UpDnOptions::default()
            },
            ftree: FtreeOptions {
                roots,
                ..FtreeOptions::default()
            },
            lanes: self.vls,
            weave: WeaveOptions {
                effort: self.effort.parse()?,
                ..WeaveOptions::default()
            },
            listed: self.listed(fabric)?.map(Arc::new),
            ..defaults
        })
    }

    fn listed(&self, fabric: &Fabric) -> Result<Option<Listed>, CliError> {
        if let Some(path) = &self.lfts {
            let read = read_lfts(&path.display().to_string(), &load::bytes(path)?, fabric, None)?;
            load::warn(read.warnings.iter());
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
    let engine: Engine = args.engine.parse()?;
    args.outputs.check()?;
    let fabric = load::named(&load::fabric(&args.fabric)?, &args.names.read()?);
    let policy = Policy {
        lmc: Lmc::new(args.lmc).unwrap_or_default(),
        ..Policy::default()
    };
    let lids = lids(&fabric, &policy, &known_lids(args.lids.as_ref())?)?;
    let options = args.inputs.options(&fabric)?;
    let start = Instant::now();
    let routed = engine.route(&fabric, &lids, &options, Seed(0), Par::Rayon)?;
    let compute_ms = start.elapsed().as_secs_f64() * 1e3;
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
    let exit = print(&verdict, Some(compute_ms), args.format)?;
    written.map(|()| exit)
}

impl RouteArgs {
    /// The format of errors.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Prints figures and findings, and how long the engine took if one was asked.
pub fn print(verdict: &Verdict, compute_ms: Option<f64>, format: Format) -> Result<Exit, CliError> {
    let mut found = findings(verdict, &Names::default());
    let exit = if found.ok { Exit::Good } else { Exit::NotGood };
    let mut out = Out::new(format);
    if format.json {
        if let (Some(ms), Some(figures)) = (compute_ms, found.figures.as_object_mut()) {
            figures.insert("compute_ms".to_owned(), ms.into());
        }
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
