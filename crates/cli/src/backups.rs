//! `selvedge backups`: what would be done about each single fault, and how many faults a fabric stands.

mod chart;
mod cuts;
mod faults;
mod in_place;
mod tried;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use selvedge_api::{Backup, Backups};
use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{EngineName, Lids, ServiceLevels, SlToVl};
use selvedge_routing::{Engine, Listed, Options, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_types::Idx;

use crate::args::{PAIRINGS_MAX, THREADS_MAX};
use crate::backups::faults::{What, hosts_of, switch_links};
use crate::backups::tried::InForce;
use crate::exit::{CliError, Exit};
use crate::load::{self, NameArgs};
use crate::out::{Cell, Format, Grid, Out, count, note, thousands};
use crate::progress;
use crate::route::{HowArgs, InputArgs};
use crate::tables_io::LidArgs;

/// Say for every link and switch what would be done if it were lost, weakest points first; exit code 1 if one fault
/// cuts hosts off
#[derive(Args, Debug)]
pub struct BackupsArgs {
    /// The fabric: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC")]
    fabric: String,
    /// The engine that makes new tables; with another one than 'file', --lfts are the tables in force
    #[arg(long, value_name = "NAME", default_value = "auto")]
    engine: String,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    how: HowArgs,
    /// Most data lanes to use (weave, fat-tree, default 1; dfsssp, default 8); the other engines need one
    #[arg(long, value_name = "1-15", value_parser = clap::value_parser!(u8).range(1..=15))]
    vls: Option<u8>,
    #[command(flatten)]
    lids: LidArgs,
    /// What is lost
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        value_delimiter = ',',
        default_value = "link,switch"
    )]
    kinds: Vec<KindArg>,
    /// Try only so many faults, drawn by lot, where trying all takes too long (default: all)
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
pub struct InPlaceArgs {
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
pub enum MeasureArg {
    /// Effective bisection bandwidth
    Ebb,
    /// Inverse of the pairs on the busiest link
    Load,
}

impl MeasureArg {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ebb => "ebb",
            Self::Load => "load",
        }
    }
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
    let engine: Engine = args.engine.parse()?;
    if let Some(path) = &args.svg {
        load::writable(path)?;
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(usize::from(args.threads));
    if let Err(cause) = pool.build_global() {
        let what = format!("--threads {}: {cause}", args.threads);
        return Err(CliError::Usage { what });
    }
    let fabric = load::named(&load::fabric(&args.fabric)?, &args.names.read()?);
    let own_lids = args.lids.assign(&fabric)?;
    let (lids, force) = args.in_force(&fabric, engine, own_lids)?;
    let force = force.on(&fabric, &lids);
    let found = args.found(&force);
    if let Some(path) = &args.svg {
        load::write(path, &chart::svg(&found)?)?;
    }
    args.show(&found)
}

/// [`InForce`] without what it borrows.
struct Start {
    engine: Engine,
    options: Options,
    routed: Routed,
}

impl Start {
    fn on<'a>(self, fabric: &'a Fabric, lids: &'a Lids) -> InForce<'a> {
        let (links, hosts) = (switch_links(fabric), hosts_of(fabric));
        InForce {
            fabric,
            lids,
            engine: self.engine,
            sl_to_vl: SlToVl::modulo(self.routed.lanes),
            options: self.options,
            cuts: cuts::cuts(fabric, &links, &hosts),
            routed: self.routed,
            links,
            hosts,
        }
    }
}

impl BackupsArgs {
    /// The format of errors.
    pub const fn json(&self) -> bool {
        self.format.json
    }

    /// The tables in force: the engine's own, or those of a file; and how the engine goes on from them.
    fn in_force(&self, fabric: &Fabric, engine: Engine, own_lids: Lids) -> Result<(Lids, Start), CliError> {
        let mut options = self.inputs.options(fabric)?;
        options.lanes = self.vls;
        self.how.apply(&mut options);
        let given = match options.listed.as_deref() {
            Some(Listed::Tables { tables, lids }) if engine != Engine::File => Some((tables.clone(), lids.clone())),
            _ => None,
        };
        let lids = given.as_ref().map_or(own_lids, |(_, lids)| lids.clone());
        let mut routed = engine.route(fabric, &lids, &options, Seed(0), Par::Rayon)?;
        for found in &routed.notes {
            note(format!("note: {found}"));
        }
        // Of `auto` the engine that it takes: a manager changes it for no fault.
        let engine = Engine::try_from(&routed.engine)?;
        if let Some((tables, _)) = given {
            routed = Routed {
                tables,
                service_levels: ServiceLevels::default(),
                lanes: 1,
                engine: EngineName(engine.name().to_owned()),
                notes: Vec::new(),
            };
        }
        options.fat_tree.nominal = Some(Arc::new(fabric.clone()));
        options.previous = Some(Arc::new(routed.tables.clone()));
        options.weave.previous_levels = Some(Arc::new(routed.service_levels.clone()));
        options.lanes = Some(routed.lanes);
        let start = Start {
            engine,
            options,
            routed,
        };
        Ok((lids, start))
    }

    fn found(&self, force: &InForce<'_>) -> Backups {
        let mut whats: Vec<What> = Vec::new();
        if self.kinds.contains(&KindArg::Link) {
            whats.extend((0..force.links.len()).map(What::Link));
        }
        if self.kinds.contains(&KindArg::Switch) {
            whats.extend((0..force.hosts.len()).map(|switch| What::Switch(SwitchIdx::from_usize(switch))));
        }
        let there_are = whats.len() as u64;
        if let Some(sample) = self.sample {
            Seed(self.in_place.seed).child("sample").rng().shuffle(&mut whats);
            whats.truncate(sample);
        }
        let bar = progress::bar();
        let orders = self.in_place.below.map_or(0, |_| self.in_place.orders);
        bar.set_length(whats.len() as u64 + orders);
        bar.set_message("single faults");
        let mut faults = tried(force, &whats, &bar);
        tried::sort(&mut faults);
        bar.set_message("in a row");
        let in_place = self
            .in_place
            .below
            .map(|below| in_place::in_place(force, &self.in_place, below, &|| bar.inc(1)));
        bar.finish_and_clear();
        let verdict = force.judge(force.fabric, &force.routed, Par::Rayon);
        let whole = tried::Judged::from(&verdict);
        let figures = &verdict.figures;
        let is_good = |fault: &Backup| {
            fault.refused.is_none() && fault.deadlock_free && fault.pairs_lost.max(fault.pairs_cut) == 0
        };
        Backups {
            fabric: self.fabric.clone(),
            engine: force.engine.name().to_owned(),
            vls: self.vls,
            switches: force.hosts.len() as u64,
            host_ports: force.hosts.iter().sum(),
            hosts_with_one_link: single_homed(force.fabric),
            switch_links: force.links.len() as u64,
            faults_there_are: there_are,
            max_load: whole.max_load,
            parts: figures.parts,
            pairs_apart: figures.host_pairs - figures.host_pairs_reached,
            ok: verdict.is_good() && faults.iter().all(is_good),
            faults,
            in_place,
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

/// Every fault, in the order given; threads take turns.
fn tried(force: &InForce<'_>, whats: &[What], bar: &ProgressBar) -> Vec<Backup> {
    let threads = rayon::current_num_threads().min(whats.len()).max(1);
    let of_threads = Par::Rayon.map(threads, |thread| {
        let mut trial = force.trial();
        let mine = whats.iter().skip(thread).step_by(threads);
        let each = mine.map(|&what| {
            let backup = trial.of(what);
            bar.inc(1);
            backup
        });
        each.collect::<Vec<Backup>>()
    });
    let mut turns: Vec<_> = of_threads.into_iter().map(Vec::into_iter).collect();
    (0..whats.len()).filter_map(|at| turns[at % threads].next()).collect()
}

/// Host ports whose node has no other link.
fn single_homed(fabric: &Fabric) -> u64 {
    let nodes = fabric.nodes().iter().filter(|node| !node.is_switch());
    let linked = nodes.map(|node| node.external_ports().filter(|(_, port)| port.is_up()).count());
    linked.filter(|&links| links == 1).count() as u64
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

/// What stands under the table.
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
            "single points of failure: {}, {}; {} of {} have one link only, which is one for each of them",
            count(single("link"), "link"),
            count(single("switch"), "switch"),
            thousands(found.hosts_with_one_link),
            count(found.host_ports, "host port"),
        ),
    ];
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
