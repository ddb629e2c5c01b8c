//! What a cut cable does to traffic: with repair, with path migration, with both, with OpenSM's repair, and with
//! software that recovers instead.

mod draw;
mod single;
mod timeouts;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use selvedge_api::{Migration, MigrationRun};
use selvedge_apm::Policy;
use selvedge_dataplane::{Change, PS_PER_NS, Ps, Settings, Timed};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, Policy as PlanPolicy};
use selvedge_planner::lid;
use selvedge_routing::{Engine, Options as EngineOptions};
use selvedge_sim::Seed;
use selvedge_study::migration::{Faults, Mode, Program, Question, Rival, Start, cables, lost_ns};
use selvedge_study::simulate::Planned;
use selvedge_study::{NoWatch, StudyError};
use selvedge_topology::Spec;
use selvedge_types::Lmc;
use serde_json::json;

use crate::error::BenchError;

/// The folder of stored results.
pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/seed3");
/// From a cut to the last entry in force, in µs: the manager's on `sx6536`, and OpenSM's. Source: docs/benchmarks.md.
const REPAIR_US: u64 = 570;
const OPENSM_US: u64 = 71_000;
const PS_PER_US: Ps = 1_000_000;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Args {
    /// Simulated time of each run, in ms; the cut is in its middle
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    duration_ms: u64,
    /// Local ACK time-out: 4.096 µs × 2^N
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=31))]
    ack_timeout: u8,
    /// Repeats after time-outs
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u8).range(0..=7))]
    retries: u8,
    /// Senders and receivers
    #[arg(long, value_name = "PATTERN", default_value = "all-to-all")]
    traffic: String,
    /// Payload bytes of a message
    #[arg(long, value_name = "BYTES", default_value_t = 8_192)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    message: u32,
    /// Messages of a host without an acknowledgement
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    in_flight: u32,
    /// Single faults that are drawn, each for a run of its own
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    single_faults: u32,
    /// Seed of what is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    draw: u64,
    /// Only the drawn single faults
    #[arg(long)]
    only_single: bool,
    /// Only: cut every cable between switches once with the manager's repair alone, for short time-outs and that of
    /// --ack-timeout, which may be too short for it
    #[arg(long, conflicts_with = "only_single")]
    every_cable: bool,
}

impl Args {
    /// Returns what tests measure: little.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            duration_ms: 3,
            ack_timeout: 5,
            retries: 7,
            traffic: "all-to-all".to_owned(),
            message: 8_192,
            in_flight: 2,
            single_faults: 12,
            draw: 1,
            only_single: false,
            every_cable: false,
        }
    }
}

/// A way to recover.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    mode: Mode,
    rival: Option<Rival>,
    repair_us: Option<u64>,
}

impl Case {
    const fn new(name: &'static str, mode: Mode, repair_us: Option<u64>) -> Self {
        Self {
            name,
            mode,
            rival: None,
            repair_us,
        }
    }

    const fn software(name: &'static str, rival: Rival) -> Self {
        Self {
            name,
            mode: Mode::Off,
            rival: Some(rival),
            repair_us: None,
        }
    }
}

const CASES: [Case; 7] = [
    Case::new("nothing", Mode::Off, None),
    Case::new("repair", Mode::Off, Some(REPAIR_US)),
    Case::new("OpenSM's repair", Mode::Off, Some(OPENSM_US)),
    Case::new("APM", Mode::Error, None),
    Case::new("APM and repair", Mode::Request, Some(REPAIR_US)),
    Case::software("fail-over", Rival::Failover),
    Case::software("striping", Rival::Striping),
];

/// Hosts and their LIDs.
#[derive(Clone, Debug)]
struct Variant {
    name: &'static str,
    spec: String,
    policy: Policy,
    fabric: Arc<Fabric>,
    lids: Arc<Lids>,
}

impl Variant {
    fn new(name: &'static str, spec: String, lmc: u8, policy: Policy) -> Result<Self, BenchError> {
        let Spec::Generated(recipe) = spec.parse()? else {
            let problem = "it is a file";
            return Err(BenchError::NoCase { spec, problem });
        };
        let fabric = recipe.fabric()?;
        let plan = PlanPolicy {
            lmc: Lmc::new(lmc).unwrap_or_default(),
            ..PlanPolicy::default()
        };
        let none = (Default::default(), BTreeSet::new());
        let lids = lid::assign(&fabric, &plan, &none.0, &none.1, &mut Vec::new()).map_err(|error| missing(&error))?;
        Ok(Self {
            name,
            spec,
            policy,
            fabric: Arc::new(fabric),
            lids: Arc::new(lids),
        })
    }

    /// Hosts with one port and two LIDs, and hosts with two ports.
    fn of(spec: &str) -> Result<Vec<Self>, BenchError> {
        let more = if spec.contains(':') { ',' } else { ':' };
        let two = format!("{spec}{more}ports-per-host=2");
        Ok(vec![
            Self::new("LMC 1", spec.to_owned(), 1, Policy::Manager)?,
            Self::new("two ports", two, 0, Policy::Port)?,
        ])
    }

    fn question(&self, args: &Args, case: &Case) -> Result<Question, BenchError> {
        let mut settings = Settings {
            warmup_ns: 0,
            duration_ns: args.duration_ms * 1_000_000,
            ..Settings::default()
        };
        (settings.qp.ack_timeout, settings.qp.retry_count) = (args.ack_timeout, args.retries);
        Ok(Question {
            name: self.spec.clone(),
            start: Start {
                fabric: self.fabric.clone(),
                lids: self.lids.clone(),
                engine: Engine::Auto,
                options: EngineOptions::default(),
            },
            settings,
            pattern: args.traffic.parse().map_err(|error| missing(&error))?,
            program: Program {
                message_bytes: args.message,
                in_flight: args.in_flight,
                connections: 1,
                messages: None,
            },
            mode: case.mode,
            rival: case.rival,
            policy: self.policy,
            told: REPAIR_US * PS_PER_US,
            respecify: false,
            changes: Vec::new(),
            faults: Faults::default(),
            repair: case.repair_us.map(|us| us * PS_PER_US),
            compare: true,
            seed: Seed(args.draw),
        })
    }

    /// Cables between switches that at least half as many pairs of hosts cross as the most crossed one, in order. On a
    /// large fabric with few hosts in use, most cables carry the messages of one sender only.
    fn crossed(&self, args: &Args) -> Result<Vec<PortRef>, BenchError> {
        let question = self.question(args, &CASES[0])?;
        let crossed = question.crossed(&NoWatch).map_err(|error| missing(&error))?;
        let most = crossed.values().max().copied().unwrap_or(0);
        let mut between = self.between();
        between.retain(|at| crossed.get(at).is_some_and(|pairs| 2 * pairs >= most));
        Ok(between)
    }

    /// Cables between switches.
    fn between(&self) -> Vec<PortRef> {
        let is_switch = |at: PortRef| self.fabric.node(at.node).is_switch();
        let mut found = cables(&self.fabric);
        found.retain(|at| is_switch(*at) && self.fabric.peer(*at).is_some_and(is_switch));
        found
    }
}

fn missing(cause: &dyn std::error::Error) -> BenchError {
    BenchError::NotSimulated {
        simulator: "the packet simulator",
        cause: cause.to_string(),
    }
}

fn cut(fabric: &Fabric, cable: PortRef, at: Ps) -> (String, Planned) {
    let change = Change::Cut(cable);
    let planned = Planned::One(Timed { at, change });
    (format!("cut {}", fabric.port_name(cable)), planned)
}

fn answer(question: &Question) -> Result<Migration, BenchError> {
    let answer: Result<_, StudyError> = question.answer(&NoWatch);
    Ok(answer.map_err(|error| missing(&error))?.migration)
}

/// Runs without faults, each for all questions in which the same is set up: connections with or without an alternate
/// path, or software.
#[derive(Default)]
struct Wholes(Vec<((bool, Option<Rival>), MigrationRun)>);

impl Wholes {
    fn answer(&mut self, mut question: Question) -> Result<Migration, BenchError> {
        let key = (question.mode != Mode::Off, question.rival);
        let known = self.0.iter().find(|(other, _)| *other == key);
        question.compare = known.is_none();
        let mut found = answer(&question)?;
        match (known, &found.whole) {
            (Some((_, whole)), _) => {
                found.lost_ns = lost_ns(&found.run, Some(whole), question.settings.duration_ns);
                found.whole = Some(whole.clone());
            }
            (None, Some(whole)) => self.0.push((key, whole.clone())),
            (None, None) => {}
        }
        Ok(found)
    }
}

/// A row of the table.
struct Row {
    variant: &'static str,
    case: String,
    found: Migration,
}

impl Row {
    /// Takes a result, and says on standard error that there is one: a run may take minutes.
    fn new(variant: &'static str, case: String, found: Migration) -> Result<Self, BenchError> {
        let row = Self { variant, case, found };
        let cells: Vec<String> = row.cells().into_iter().map(|(_, value)| value).collect();
        eprintln!("{}", cells.join(" | "));
        Ok(row)
    }

    /// Returns the columns of the table with their values.
    fn cells(&self) -> Vec<(&'static str, String)> {
        let run = &self.found.run;
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        vec![
            ("hosts", self.variant.to_owned()),
            ("recovers by", self.case.clone()),
            ("lost time, µs", us(self.found.lost_ns)),
            ("queue pairs in ERR", run.qp_errors.to_string()),
            ("messages failed", run.messages_failed.to_string()),
            ("migrations", run.migrations.to_string()),
            ("to a broken path", run.dead_alternates.to_string()),
            ("loaded another path", run.respecified.to_string()),
            ("sent again by software", run.repeated.to_string()),
            ("packets lost", run.packets_lost.to_string()),
        ]
    }
}

/// Measures a fabric. Returns a text for people, and stores table, time lines and picture in the folder; the
/// table of time-outs is only returned.
pub fn measure(spec: &str, args: &Args, folder: Option<&Path>) -> Result<String, BenchError> {
    let variants = Variant::of(spec)?;
    if args.every_cable {
        let rows = timeouts::measure(&variants[0], args)?;
        return Ok(timeouts::markdown(&rows, args.retries));
    }
    let mut text = String::new();
    let mut rows = Vec::new();
    if !args.only_single {
        for variant in &variants {
            rows.extend(one_cut(variant, args)?);
        }
        rows.extend(two_cuts(spec, args)?);
        text += &markdown(&rows);
    }
    let mut singles = Vec::new();
    for variant in &variants {
        singles.push(single::measure(variant, args)?);
    }
    text += &single::markdown(&singles);
    if let Some(folder) = folder {
        store(folder, spec, args, (&rows, &singles))?;
    }
    Ok(text)
}

/// One cable between switches is cut in the middle, once for each way to recover.
fn one_cut(variant: &Variant, args: &Args) -> Result<Vec<Row>, BenchError> {
    let cable = drawn_cable(variant, args)?;
    let at = args.duration_ms * 1_000_000 * PS_PER_NS / 2;
    let mut wholes = Wholes::default();
    let row = |case: &Case| {
        let mut question = variant.question(args, case)?;
        question.changes.push(cut(&variant.fabric, cable, at));
        Row::new(variant.name, case.name.to_owned(), wholes.answer(question)?)
    };
    CASES.iter().map(row).collect()
}

/// Draws a cable between switches that traffic crosses.
fn drawn_cable(variant: &Variant, args: &Args) -> Result<PortRef, BenchError> {
    let between = variant.crossed(args)?;
    let place = Seed(args.draw).child("cable").rng().below(between.len().max(1) as u64);
    let cable = between.get(place as usize).copied();
    cable.ok_or_else(|| BenchError::NoCase {
        spec: variant.spec.clone(),
        problem: "no traffic crosses a cable between two of its switches",
    })
}

/// Two cables of one switch are cut one after the other: the first breaks alternate paths that nothing is sent on, the
/// second primary paths. With four LIDs there is another path to load.
fn two_cuts(spec: &str, args: &Args) -> Result<Vec<Row>, BenchError> {
    let variant = Variant::new("LMC 2", spec.to_owned(), 2, Policy::Offset(1))?;
    let first = drawn_cable(&variant, args)?;
    let mut wholes = Wholes::default();
    let others = variant.crossed(args)?.into_iter();
    let mut others = others.filter(|at| at.node == first.node && *at != first);
    let Some(second) = others.next() else {
        return Ok(Vec::new());
    };
    let duration = args.duration_ms * 1_000_000 * PS_PER_NS;
    let case = Case::new("APM", Mode::Error, None);
    let mut row = |respecify: bool| {
        let mut question = variant.question(args, &case)?;
        question.respecify = respecify;
        // Short beside the time between the cuts, whatever the length of the run.
        question.told = (duration / 20).min(REPAIR_US * PS_PER_US);
        question.changes.push(cut(&variant.fabric, first, duration / 4));
        question.changes.push(cut(&variant.fabric, second, duration / 2));
        let how = if respecify { "with" } else { "without" };
        let case = format!("APM, two cuts, {how} re-specification");
        Row::new(variant.name, case, wholes.answer(question)?)
    };
    [false, true].into_iter().map(&mut row).collect()
}

fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for (place, row) in rows.iter().enumerate() {
        let cells = row.cells();
        if place == 0 {
            let names: Vec<&str> = cells.iter().map(|(name, _)| *name).collect();
            text += &format!("| {} |\n|{}\n", names.join(" | "), "---|".repeat(names.len()));
        }
        let values: Vec<&str> = cells.iter().map(|(_, value)| value.as_str()).collect();
        text += &format!("| {} |\n", values.join(" | "));
    }
    text + "\n"
}

/// Returns the share of throughput that a run lacks beside the run without faults, in steps.
fn lost(found: &Migration) -> Vec<f64> {
    let whole = found.whole.as_ref().unwrap_or(&found.run);
    let mean = (whole.bytes as f64 / whole.goodput.len().max(1) as f64).max(1.0);
    let pairs = whole.goodput.iter().zip(&found.run.goodput);
    pairs.map(|(whole, run)| (*whole as f64 - *run as f64) / mean).collect()
}

fn series(rows: &[Row]) -> String {
    let mut text = "hosts,recovers_by,from_us,goodput_bytes,whole_bytes,lost_share,migrations,qp_errors\n".to_owned();
    for row in rows {
        let found = &row.found;
        let whole: &MigrationRun = found.whole.as_ref().unwrap_or(&found.run);
        for (step, lost) in lost(found).into_iter().enumerate() {
            text += &format!(
                "{},\"{}\",{},{},{},{lost:.4},{},{}\n",
                row.variant,
                row.case,
                (step as u64 * found.step_ns) as f64 / 1e3,
                found.run.goodput[step],
                whole.goodput[step],
                found.run.migrated[step],
                found.run.failed[step]
            );
        }
    }
    text
}

fn store(
    folder: &Path,
    spec: &str,
    args: &Args,
    (rows, singles): (&[Row], &[single::Single]),
) -> Result<(), BenchError> {
    let name: String = spec
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '-' })
        .collect();
    let put = |what: &str, text: &str| {
        let path = folder.join(format!("{name}-{what}"));
        std::fs::write(&path, text).map_err(BenchError::store("writing", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(BenchError::store("making", folder.display()))?;
    if !rows.is_empty() {
        let header: Vec<&str> = rows[0].cells().iter().map(|(name, _)| *name).collect();
        let line = |row: &Row| {
            let cells = row.cells();
            cells
                .iter()
                .map(|(_, value)| format!("\"{value}\""))
                .collect::<Vec<_>>()
                .join(",")
        };
        let lines: Vec<String> = rows.iter().map(line).collect();
        put("cut.csv", &format!("{}\n{}\n", header.join(","), lines.join("\n")))?;
        put("cut-series.csv", &series(rows))?;
        put("cut.svg", &draw::svg(spec, args, rows)?)?;
    }
    let of_row = |row: &Row| json!({ "hosts": row.variant, "recovers_by": row.case, "answer": row.found });
    let all = json!({
        "fabric": spec,
        "settings": format!("{args:?}"),
        "one_cut": rows.iter().map(of_row).collect::<Vec<_>>(),
        "single_faults": singles.iter().map(single::Single::json).collect::<Vec<_>>(),
    });
    let what = if rows.is_empty() { "single.json" } else { "cut.json" };
    put(what, &format!("{all:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_fabric_is_measured_whole() {
        let folder = std::env::temp_dir().join(format!("selvedge-migration-{}", std::process::id()));
        let text = measure("karytree:k=3,n=2", &Args::quick(), Some(&folder)).unwrap();
        for case in CASES {
            assert_eq!(text.matches(&format!("| {} |", case.name)).count(), 2, "{text}");
        }
        assert!(text.contains("two cuts, with re-specification"), "{text}");
        let read = |what: &str| std::fs::read_to_string(folder.join(format!("karytree-k-3-n-2-{what}"))).unwrap();
        assert_eq!(read("cut.csv").lines().count(), 1 + 2 * CASES.len() + 2);
        assert_eq!(read("cut-series.csv").lines().count(), 1 + 200 * (2 * CASES.len() + 2));
        assert!(read("cut.svg").contains("APM and repair"));
        let all: serde_json::Value = serde_json::from_str(&read("cut.json")).unwrap();
        assert_eq!(all["single_faults"][1]["faults"], 12, "two ports");
        assert_eq!(all["single_faults"][1]["qp_errors"], 0, "{}", all["single_faults"][1]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_and_a_single_switch_are_refused() {
        let check = |spec: &str, want: &str| {
            let error = measure(spec, &Args::quick(), None).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        check("no-such-file.topo", "SLV-BENCH-0001");
        check(
            "single:ports=8,hosts=4",
            "no traffic crosses a cable between two of its switches",
        );
    }
}
