//! `selvedge transition`: how tables would be changed under traffic, before anything is sent.

mod chart;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use selvedge_api::{Transition, TransitionStep};
use selvedge_fabric::{Fabric, LinkState, PortRef};
use selvedge_plan::{ChangeSet, EngineName, Generation, Installed, Lids, Plan, Policy, ServiceLevels, SlToVl, Tables};
use selvedge_planner::way::{self, WayOptions};
use selvedge_routing::{Engine, Options, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_types::PortState;
use selvedge_verify::phases::{Passage, passage};
use selvedge_verify::{JudgeOptions, Severity};

use self::chart::svg;
use crate::exit::{CliError, Exit};
use crate::load::{self, NameArgs};
use crate::out::{Cell, Format, Grid, Out};
use crate::route::Parts;
use crate::tables_io::{known_lids, lids, whole_tables};

/// Show the steps and waits in which tables would be changed under traffic; exit code 1 if no way is proved.
#[derive(Args, Debug)]
pub struct TransitionArgs {
    /// The fabric: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC")]
    fabric: String,
    /// Routing engine whose tables are in force
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
    /// Most data lanes to use (default: what suits each engine; of tables from a file, one)
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
    let mut fabric = load::named(&load::fabric(&args.fabric)?, &args.names.read()?);
    under_traffic(&mut fabric, args.lifetime);
    let known = lids(&fabric, &Policy::default(), &known_lids(args.lids.as_deref(), &fabric)?)?;
    let one_lane = (ServiceLevels::default(), 1);
    let (known, in_force, (levels, lanes), from) = match (from, &args.from_lfts) {
        (Some(engine), _) => {
            let routed = route(engine, &fabric, &known, None, args.vls)?;
            let lanes = (routed.service_levels, routed.lanes);
            (known, routed.tables, lanes, routed.engine.0)
        }
        (None, Some(path)) => {
            let name = path.display().to_string();
            let read = whole_tables(path, &fabric, args.lids.as_ref().map(|_| &known))?;
            (read.lids, read.tables, one_lane, name)
        }
        (None, None) => (
            known.clone(),
            Tables::new(fabric.switches().len(), known.top()),
            one_lane,
            String::new(),
        ),
    };
    let routed = route(to, &fabric, &known, Some(&in_force), args.vls)?;
    let parts = Parts::of(&routed.notes);
    parts.say("the steps are proved for packets inside each part");
    let installed = installed(&in_force);
    let plan = plan(&fabric, &known, routed);
    let map = SlToVl::modulo(lanes);
    let lanes_in_force = Some((&levels, &map));
    let options = WayOptions {
        lanes_in_force,
        par: Par::Rayon,
        ..WayOptions::default()
    };
    let changes = way::propose(&fabric, &installed, &plan, &options);
    let judge = JudgeOptions {
        par: Par::Rayon,
        ..JudgeOptions::default()
    };
    let passage = passage(&fabric, &installed, &plan, &changes, lanes_in_force, &judge);
    let steps = steps(&fabric, &installed, &changes);
    let lanes = (lanes, plan.lanes);
    args.show((from, plan.engine.0), (parts.count, lanes), &passage, steps)
}

/// As if every link that is trained carried packets: files of topologies do not say.
fn under_traffic(fabric: &mut Fabric, lifetime: u8) {
    let ends: Vec<PortRef> = fabric.links().flat_map(|link| [link.a, link.b]).collect();
    for at in ends {
        if fabric.link_is_up(at)
            && let Some((link, settings)) = fabric.port(at).map(|port| (port.link, port.settings))
        {
            let state = PortState::Active;
            fabric.set_port(at, LinkState { state, ..link }, settings);
        }
    }
    for node in fabric.switches().iter().copied().collect::<Vec<_>>() {
        let mut settings = fabric.node(node).switch_settings;
        settings.lifetime = lifetime;
        fabric.set_switch(node, settings);
    }
}

fn route(
    engine: Engine,
    fabric: &Fabric,
    lids: &Lids,
    previous: Option<&Tables>,
    lanes: Option<u8>,
) -> Result<Routed, CliError> {
    let options = Options {
        previous: previous.cloned().map(Into::into),
        lanes,
        ..Options::default()
    };
    Ok(engine.route(fabric, lids, &options, Seed(0), Par::Rayon)?)
}

fn installed(tables: &Tables) -> Installed {
    let mut installed = Installed::unknown(tables.switches());
    for switch in tables.switch_indices() {
        for block in 0..tables.blocks() {
            installed.learn(switch, block, *tables.block(switch, block));
        }
    }
    installed
}

fn plan(fabric: &Fabric, lids: &Lids, routed: Routed) -> Plan {
    let settings = fabric.switches().iter().map(|&node| fabric.node(node).switch_settings);
    Plan {
        generation: Generation::default(),
        engine: EngineName(routed.engine.0),
        lids: lids.clone(),
        tables: routed.tables,
        service_levels: routed.service_levels,
        sl_to_vl: SlToVl::modulo(routed.lanes),
        lanes: routed.lanes,
        lane_tables: None,
        ports: Default::default(),
        end_ports: Default::default(),
        switches: settings.collect(),
    }
}

fn steps(fabric: &Fabric, installed: &Installed, changes: &ChangeSet) -> Vec<TransitionStep> {
    let step = |(step, summary): (u64, way::StepSummary)| TransitionStep {
        step,
        what: summary.label.to_owned(),
        wait_before_ns: summary.wait_ns,
        sets: summary.sets as u64,
        entries: summary.entries as u64,
        dropped: summary.dropped as u64,
        switches: summary.switches as u64,
    };
    (1..).zip(way::summary(fabric, installed, changes)).map(step).collect()
}

impl TransitionArgs {
    fn show(
        &self,
        (from, to): (String, String),
        (parts, lanes): (u64, (u8, u8)),
        passage: &Passage,
        steps: Vec<TransitionStep>,
    ) -> Result<Exit, CliError> {
        let (word, why) = match passage {
            Passage::Still => ("still", Vec::new()),
            Passage::Quick(_) | Passage::Proved(_) => ("proved", Vec::new()),
            Passage::Inherited(refusal) => ("inherited", findings(&refusal.findings)),
            Passage::Refused(refusal) => ("refused", findings(&refusal.findings)),
        };
        let body = Transition {
            fabric: self.fabric.clone(),
            parts,
            from,
            to,
            lanes_from: lanes.0,
            lanes_to: lanes.1,
            ok: word != "refused",
            passage: word.to_owned(),
            why,
            wait_ns: steps.iter().map(|step| step.wait_before_ns).sum(),
            steps,
        };
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

    /// The format of errors.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

fn findings(findings: &[selvedge_verify::phases::PhaseFinding]) -> Vec<String> {
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(ToString::to_string).collect()
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
            "from {from} to {to}: proved; {} of waiting for packets under way",
            seconds(ns)
        ),
        ("inherited", _) => format!("from {from} to {to}: the tables in force are not safe; the steps lead out of it"),
        _ => format!("from {from} to {to}: no way is proved"),
    }
}

fn seconds(ns: u64) -> String {
    format!("{:.2} s", Duration::from_nanos(ns).as_secs_f64())
}
