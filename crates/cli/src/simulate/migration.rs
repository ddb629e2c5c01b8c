//! `selvedge simulate --apm`: reliable connections while cables are cut, with and without path migration.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use selvedge_api::{Migration, MigrationRun};
use selvedge_apm::Policy as Alternate;
use selvedge_dataplane::{PS_PER_NS, Ps, Settings};
use selvedge_plan::Policy;
use selvedge_sim::Seed;
use selvedge_study::migration::{Answer, Mode, Program, Question, Start};
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
    /// used up or the own port is down; request: also when programs are told of a cut
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        conflicts_with_all = [
            "goal", "job", "load", "arrivals", "bare_queue", "links", "heatmap", "sls", "sl2vl", "sl", "warmup",
            "transport", "operation", "source_queue", "lost", "grh"
        ]
    )]
    apm: Option<ApmArg>,
    /// How the alternate path is chosen: manager (most disjoint, then least loaded), port, lmc=N (path bits N),
    /// openmpi, mvapich2
    #[arg(long, value_name = "POLICY", default_value = "manager", requires = "apm")]
    alternate: String,
    /// LIDs per end port, as a power of two
    #[arg(long, value_name = "0-7", default_value_t = 0, requires = "apm")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=7))]
    lmc: u8,
    /// From a cut until programs are told of it, with --apm request
    #[arg(long, value_name = "TIME", default_value = "1ms", requires = "apm", value_parser = time_ns)]
    told: u64,
    /// From a cut to the manager's new entries in all switches: a time, none, or opensm (71 ms); the default and
    /// OpenSM's time are those measured on sx6536
    #[arg(long, value_name = "TIME", default_value = "570us", requires = "apm", value_parser = repair)]
    repair: Repair,
    /// Cut a cable between switches that the seed draws, at this time; may be given several times
    #[arg(long, value_name = "TIME", requires = "apm", value_parser = time_ns)]
    cut_at: Vec<u64>,
    /// Messages of a host that may be without an acknowledgement
    #[arg(long, value_name = "N", default_value_t = 2, requires = "apm")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16_384))]
    in_flight: u32,
    /// Connections of each pair of hosts; they take turns
    #[arg(long, value_name = "N", default_value_t = 1, requires = "apm")]
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
}

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
        self.apm.is_some()
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
            },
            mode: match args.apm {
                None | Some(ApmArg::Off) => Mode::Off,
                Some(ApmArg::Error) => Mode::Error,
                Some(ApmArg::Request) => Mode::Request(args.told * PS_PER_NS),
            },
            policy: args.alternate.parse::<Alternate>()?,
            changes,
            drawn: args.cut_at.iter().map(|ns| ns * PS_PER_NS).collect::<Vec<Ps>>(),
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
        Ok(match found.run.qp_errors {
            0 => Exit::Good,
            _ => Exit::NotGood,
        })
    }
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
    let mut grid = Grid::new(&["from_ns", "goodput_gbps", "whole_gbps", "migrations", "qp_errors"]);
    for step in 0..found.run.goodput.len() {
        let whole = found.whole.as_ref().unwrap_or(&found.run);
        grid.row([
            (step as u64 * found.step_ns).into(),
            Cell::Real(gbps(found.run.goodput[step], found.step_ns), 3),
            Cell::Real(gbps(whole.goodput[step], found.step_ns), 3),
            found.run.migrated[step].into(),
            found.run.failed[step].into(),
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
