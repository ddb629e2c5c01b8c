//! `selvedge simulate --apm` and `--rival`: reliable connections while cables are cut, with path migration, without it,
//! or with software that recovers instead.

use std::sync::Arc;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use selvedge_api::{Migration, MigrationRun};
use selvedge_apm::Policy as Alternate;
use selvedge_dataplane::{PS_PER_NS, Ps, Settings};
use selvedge_fabric::Fabric;
use selvedge_plan::Policy;
use selvedge_sim::Seed;
use selvedge_study::migration::{Answer, Faults, Mode, Program, Question, Rival, Sampling, Start, cables};
use selvedge_tolerance::{Mtbf, Place, Thresholds, Trace};
use selvedge_types::Lmc;

use super::{SimulateArgs, change, chart, time_ns};
use crate::exit::{CliError, Exit};
use crate::load;
use crate::meter::{cpu_seconds, peak_rss_bytes};
use crate::out::{Cell, Facts, Grid, Out, note, thousands};
use crate::progress::{self, DrawnTime};
use crate::tables_io::lids;

/// Flags of reliable connections and their migration.
#[derive(Args, Debug)]
pub struct MigrationArgs {
    /// Simulate reliable connections over adapters, which migrate to an alternate path: off; error: when retries are
    /// used up or the own port is down; request: also when programs are told of a cut; policy: also when they find the
    /// path in use congested
    #[arg(long, value_enum, value_name = "WHEN", group = "adapters", conflicts_with_all = NOT_WITH)]
    apm: Option<ApmArg>,
    /// Simulate reliable connections of software that recovers instead: failover as in NCCL, striping with
    /// retransmission as in LA-MPI and Open MPI; both have a connection for each of the two paths
    #[arg(long, value_enum, value_name = "SOFTWARE", group = "adapters", conflicts_with_all = NOT_WITH)]
    rival: Option<RivalArg>,
    /// How the alternate path is chosen: manager (most disjoint, then least loaded), port, lmc=N (path bits N),
    /// openmpi, mvapich2
    #[arg(long, value_name = "POLICY", default_value = "manager", requires = "adapters")]
    alternate: String,
    /// LIDs per end port, as a power of two
    #[arg(long, value_name = "0-7", default_value_t = 0, requires = "adapters")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=7))]
    lmc: u8,
    /// From a cut until programs are told of it, for --apm request and policy, and for --respecify
    #[arg(long, value_name = "TIME", default_value = "1ms", requires = "adapters", value_parser = time_ns)]
    told: u64,
    /// Programs that are told of a fault load another alternate path where it has broken the loaded one; a third path
    /// has to exist, as with --lmc 2
    #[arg(long, requires = "apm", conflicts_with = "rival")]
    respecify: bool,
    /// Time between two looks for congestion, with --apm policy
    #[arg(
        long,
        value_name = "TIME",
        default_value = "50us",
        requires = "apm",
        conflicts_with = "rival"
    )]
    #[arg(value_parser = time_ns)]
    sample_every: u64,
    /// Shortest time between two migrations of a connection because of congestion
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1ms",
        requires = "apm",
        conflicts_with = "rival"
    )]
    #[arg(value_parser = time_ns)]
    hold_off: u64,
    /// Faults of links and nodes from a file, with a line such as `1ms down "S-L1-0"[20]` for each
    #[arg(long, value_name = "FILE", requires = "adapters")]
    trace: Option<PathBuf>,
    /// Mean time between failures of each cable between switches; the seed draws the faults
    #[arg(long, value_name = "TIME", requires = "adapters", value_parser = time_ns)]
    mtbf: Option<u64>,
    /// Mean time until such a cable is mended
    #[arg(long, value_name = "TIME", default_value = "1ms", requires = "mtbf", value_parser = time_ns)]
    mttr: u64,
    /// From a cut to the manager's new entries in all switches: a time, none, or opensm (71 ms); the default and
    /// OpenSM's time are those measured on sx6536
    #[arg(long, value_name = "TIME", default_value = "570us", requires = "adapters", value_parser = repair)]
    repair: Repair,
    /// Cut a cable between switches that the seed draws, at this time; may be given several times
    #[arg(long, value_name = "TIME", requires = "adapters", value_parser = time_ns)]
    cut_at: Vec<u64>,
    /// Messages of a host that may be without an acknowledgement
    #[arg(long, value_name = "N", default_value_t = 2, requires = "adapters")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16_384))]
    in_flight: u32,
    /// Connections of each pair of hosts; they take turns
    #[arg(long, value_name = "N", default_value_t = 1, requires = "adapters")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
}

/// [`Mode`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ApmArg {
    /// No alternate path is loaded
    Off,
    /// Adapters migrate when retries are used up or the own port is down
    Error,
    /// Programs also ask for it when they are told of a cut
    Request,
    /// Programs also ask for it when they find the path in use congested
    Policy,
}

/// [`Rival`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RivalArg {
    /// A second connection takes over when the first one has failed
    Failover,
    /// Fragments over all connections, sent again when their acknowledgement is late
    Striping,
}

/// Flags that reliable connections do not have.
const NOT_WITH: [&str; 16] = [
    "goal",
    "job",
    "load",
    "arrivals",
    "bare_queue",
    "links",
    "heatmap",
    "sls",
    "sl2vl",
    "sl",
    "warmup",
    "transport",
    "operation",
    "source_queue",
    "lost",
    "grh",
];

/// How long a repair takes, in ns; `None`: there is none.
#[derive(Clone, Copy, Debug)]
struct Repair(Option<u64>);

/// OpenSM's time from a cut to its last entry, in ns: 125 times ours on sx6536. Source: docs/benchmarks.md.
const OPENSM_NS: u64 = 71_000_000;

fn repair(text: &str) -> Result<Repair, String> {
    match text {
        "none" => Ok(Repair(None)),
        "opensm" => Ok(Repair(Some(OPENSM_NS))),
        _ => match time_ns(text) {
            Ok(ns) => Ok(Repair(Some(ns))),
            Err(what) => Err(format!("{what}, none or opensm")),
        },
    }
}

impl MigrationArgs {
    /// True if connections over adapters are simulated.
    pub const fn is_wanted(&self) -> bool {
        self.apm.is_some() || self.rival.is_some()
    }

    fn mode(&self) -> Mode {
        match self.apm {
            None | Some(ApmArg::Off) => Mode::Off,
            Some(ApmArg::Error) => Mode::Error,
            Some(ApmArg::Request) => Mode::Request,
            Some(ApmArg::Policy) => Mode::Policy(Sampling {
                every: self.sample_every * PS_PER_NS,
                thresholds: Thresholds {
                    hold_off_ps: self.hold_off * PS_PER_NS,
                    ..Thresholds::default()
                },
            }),
        }
    }

    fn faults(&self, fabric: &Fabric) -> Result<Faults, CliError> {
        let trace = self.trace.as_deref().map(|path| trace(path, fabric)).transpose()?;
        Ok(Faults {
            drawn: self.cut_at.iter().map(|ns| ns * PS_PER_NS).collect::<Vec<Ps>>(),
            trace: trace.unwrap_or_default(),
            mtbf: self.mtbf.map(|mtbf| Mtbf {
                mtbf_ps: mtbf * PS_PER_NS,
                mttr_ps: self.mttr * PS_PER_NS,
            }),
        })
    }
}

impl SimulateArgs {
    /// Simulates reliable connections, prints what faults did to them, and writes files.
    pub fn migrate(&self) -> Result<Exit, CliError> {
        let question = self.migration()?;
        let bar = progress::bar();
        let answer = question.answer(&DrawnTime::new(&bar));
        bar.finish_and_clear();
        let Answer { mut migration, notes } = answer?;
        for said in &notes {
            note(said.to_string());
        }
        (migration.cpu_seconds, migration.peak_rss_bytes) = (cpu_seconds(), peak_rss_bytes());
        if let Some(path) = &self.files.series {
            load::write(path, &series(&migration).csv())?;
        }
        if let Some(path) = &self.files.timeline {
            load::write(path, &chart::goodput(&migration)?)?;
        }
        self.show_migration(&migration)
    }

    fn migration(&self) -> Result<Question, CliError> {
        let args = &self.migration;
        let settings = Settings {
            warmup_ns: 0,
            duration_ns: self.duration,
            ..self.transport.settings(self.hardware.settings()?)
        };
        settings.check().map_err(selvedge_dataplane::BuildError::from)?;
        self.files.check()?;
        let fabric = load::fabric(&self.fabric)?;
        let settings = self.hardware.with_cables(settings, &fabric)?;
        let mut options = self.inputs.options(&fabric)?;
        let engine = self.engine(&options)?;
        if self.hardware.vls > 1 || engine.lanes().by_default() > 1 {
            options.lanes = Some(self.hardware.vls);
        }
        self.how.apply(&mut options);
        let policy = Policy {
            lmc: Lmc::new(args.lmc).unwrap_or_default(),
            ..Policy::default()
        };
        let lids = lids(&fabric, &policy, &self.known_lids(&fabric, &options)?)?;
        let mut changes = Vec::new();
        for text in &self.change {
            let what = text.trim().split_once(' ').map_or("", |(_, what)| what.trim());
            changes.push((what.to_owned(), change::parse(text, &fabric)?));
        }
        let faults = args.faults(&fabric)?;
        Ok(Question {
            name: self.fabric.clone(),
            pattern: self.traffic.traffic.parse()?,
            start: Start {
                lids: Arc::new(lids),
                fabric: Arc::new(fabric),
                engine,
                options,
            },
            program: Program {
                message_bytes: self.traffic.message.unwrap_or(u32::from(self.hardware.mtu)),
                in_flight: args.in_flight,
                connections: args.connections,
                messages: None,
            },
            mode: args.mode(),
            rival: args.rival.map(|rival| match rival {
                RivalArg::Failover => Rival::Failover,
                RivalArg::Striping => Rival::Striping,
            }),
            policy: args.alternate.parse::<Alternate>()?,
            told: args.told * PS_PER_NS,
            respecify: args.respecify,
            changes,
            faults,
            compare: true,
            repair: args.repair.0.map(|ns| ns * PS_PER_NS),
            settings,
            seed: Seed(self.seed),
        })
    }

    fn show_migration(&self, found: &Migration) -> Result<Exit, CliError> {
        let mut out = Out::new(self.format);
        if self.format.json {
            out.document(found.clone())?;
        } else {
            out.facts(&figures(found))?;
        }
        if self.format.is_text() {
            for fault in &found.faults {
                let repaired = match (&fault.refused, found.repair_ns) {
                    (Some(why), _) => format!("no repair: {why}"),
                    (None, Some(_)) => format!("{} entries", thousands(fault.entries)),
                    (None, None) => "no repair".to_owned(),
                };
                out.line(format!("\n{} ns: {}: {repaired}", thousands(fault.at_ns), fault.what))?;
            }
            for error in &found.run.errors {
                let word = out.bad(&error.status);
                let at = thousands(error.at_ns);
                out.line(format!("  {at} ns: {word} at {} to {}", error.host, error.peer))?;
            }
        }
        out.flush()?;
        // Software outlives queue pairs in ERR; without it they end connections.
        let is_good = match found.rival {
            Some(_) => found.run.messages_failed == 0,
            None => found.run.qp_errors == 0,
        };
        Ok(if is_good { Exit::Good } else { Exit::NotGood })
    }
}

/// Reads a trace of faults.
fn trace(path: &Path, fabric: &Fabric) -> Result<Trace, CliError> {
    let links = cables(fabric);
    let find = |name: &str| {
        let Some(port) = change::port(name, fabric) else {
            return change::node(name, fabric).map(|node| Place::Node(node.0));
        };
        let ends = [Some(port), fabric.peer(port)];
        let at = links.iter().position(|link| ends.contains(&Some(*link)))?;
        Some(Place::Link(at as u32))
    };
    Ok(Trace::parse(&String::from_utf8_lossy(&load::text_bytes(path)?), find)?)
}

/// Returns payload in Gbit/s.
fn gbps(bytes: u64, ns: u64) -> f64 {
    bytes as f64 * 8.0 / ns.max(1) as f64
}

fn figures(found: &Migration) -> Facts {
    let mut facts = Facts::new();
    let run = &found.run;
    let rate = |run: &MigrationRun| Cell::Real(gbps(run.bytes, found.duration_ns), 1);
    facts.add("engine", found.engine.as_str());
    facts.add("hosts", u64::from(found.hosts));
    facts.add("queue_pairs", found.queue_pairs);
    facts.named("goodput_gbps", "goodput, Gbit/s", rate(run));
    if let Some(whole) = &found.whole {
        facts.named("whole_gbps", "without faults, Gbit/s", rate(whole));
        let text = format!("{} ns", thousands(found.lost_ns));
        facts.several("lost time", text, [("lost_ns", found.lost_ns.into())]);
    }
    facts.add("messages", run.messages);
    facts.add("messages_failed", run.messages_failed);
    facts.named("qp_errors", "queue pairs in ERR", run.qp_errors);
    facts.add("migrations", run.migrations);
    facts.named("dead_alternates", "migrations to a broken path", run.dead_alternates);
    facts.named("migrations_failed", "migrations refused", run.migrations_failed);
    facts.add("rearmed", run.rearmed);
    if found.respecify {
        facts.several(
            "loaded another path, had none",
            format!("{}, {}", thousands(run.respecified), thousands(run.without_other)),
            [
                ("respecified", run.respecified.into()),
                ("without_other", run.without_other.into()),
            ],
        );
    }
    if found.rival.is_some() {
        facts.named("repeated", "sent again by software", run.repeated);
    }
    facts.several(
        "asked to migrate, not armed",
        format!("{}, {}", thousands(run.requested), thousands(run.not_armed)),
        [("requested", run.requested.into()), ("not_armed", run.not_armed.into())],
    );
    facts.add("packets_lost", run.packets_lost);
    if let Some(seconds) = found.cpu_seconds {
        let text = format!("{seconds:.2} s");
        facts.several("processor time", text, [("cpu_s", Cell::Real(seconds, 2))]);
    }
    facts
}

/// Returns the time line as a table.
fn series(found: &Migration) -> Grid {
    let mut grid = Grid::new(&[
        "from_ns",
        "goodput_gbps",
        "whole_gbps",
        "migrations",
        "qp_errors",
        "deaths",
    ]);
    for step in 0..found.run.goodput.len() {
        let whole = found.whole.as_ref().unwrap_or(&found.run);
        grid.row([
            (step as u64 * found.step_ns).into(),
            Cell::Real(gbps(found.run.goodput[step], found.step_ns), 3),
            Cell::Real(gbps(whole.goodput[step], found.step_ns), 3),
            found.run.migrated[step].into(),
            found.run.failed[step].into(),
            found.run.deaths[step].into(),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs() {
        let check = |text: &str, want: Option<Option<u64>>| {
            assert_eq!(repair(text).ok().map(|repair| repair.0), want, "{text}");
        };
        check("570us", Some(Some(570_000)));
        check("none", Some(None));
        check("opensm", Some(Some(OPENSM_NS)));
        check("never", None);
        check("1", None);
    }
}
