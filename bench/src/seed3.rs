//! The micro-benchmarks of "Automatic Path Migration over InfiniBand: Early Experiences" (OSU-CISRC-5/06-TR56, 2006),
//! in virtual time on two simulated hosts, and what the paper states beside what was found.

use std::num::NonZeroUsize;
use std::path::Path;

use selvedge_experiment::{Experiment, Field, Kind, Outcome, ResultsFile, Run, Schema, Summary, summarise, svg};
use selvedge_tolerance::RailSettings;
use selvedge_tolerance::paper::{
    self, Case, FEW, FEW_LONGER, INIT_RTS_LONGER, MANY_LONGER, Transition, computation, init_rts, latency, transition,
};
use serde_json::{Map, Value as Json};

use crate::claims::{Claim, csv, markdown, missed, percent};
use crate::error::BenchError;

/// The file, with the folder of its results beside it.
pub const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/seed3.toml");
/// "A large number of queue pairs": the largest of the paper's figures.
const MANY: &str = "2048";
/// Computation lost with that many. Source: the paper, section 4.2.
const COMPUTATION_MS: f64 = 60.0;
/// Deviation up to which a share or a time counts as met, as a share of the paper's value.
const MET: f64 = 0.1;
/// Least overhead of latency that counts as significant, as the paper calls it without a number.
const SIGNIFICANT: f64 = 0.2;
const PS_PER_US: f64 = 1e6;

/// Runs the experiment. Returns its table, the paper's statements beside ours, and those that are missed.
pub fn measure(text: &str, folder: &Path) -> Result<(String, Vec<String>), BenchError> {
    let store = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(BenchError::store("writing", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(BenchError::store("making", folder.display()))?;
    let experiment = Experiment::parse(text, &schema())?;
    let settings = paper::fitted().map_err(|error| unusable("the fitted costs", whole(&error)))?;
    let mut results = ResultsFile::open(
        &folder.join("results.jsonl"),
        concat!("selvedge ", env!("CARGO_PKG_VERSION")),
    )?;
    let one = |run: &Run| match figures(run, &settings) {
        Ok(figures) => Outcome::Figures(figures),
        Err(error) => Outcome::Refused(error.to_string()),
    };
    selvedge_experiment::run(&experiment, &one, &mut results, NonZeroUsize::MIN, &|_| {})?;
    let summary = summarise(&experiment, &results);
    let lines = std::iter::once(summary.header()).chain(summary.cells());
    let table = lines.map(|cells| cells.join(",")).collect::<Vec<_>>().join("\n") + "\n";
    store("table.csv", &table)?;
    for picture in &experiment.pictures {
        store(&picture.file, &svg(&summary, picture)?)?;
    }
    let claims = claims(&summary);
    store("claims.csv", &csv(&claims))?;
    let costs = settings.costs;
    let fitted = format!(
        "fitted costs: alternate path {:.2} µs, path state {:.2} µs, migration {:.2} µs\n",
        costs.alternate_ps as f64 / PS_PER_US,
        costs.path_state_ps as f64 / PS_PER_US,
        costs.migrate_ps as f64 / PS_PER_US,
    );
    Ok((fitted + &markdown(&claims), missed(&claims)))
}

fn schema() -> Schema {
    let fields = [
        (
            "legend",
            "which modules are called: original, migrated-armed, armed-migrated, or the cable is pulled: fault",
        ),
        ("axis", "what varies: qps or bytes"),
        ("qps", "number of queue pairs between two processes"),
        ("bytes", "length of messages"),
    ];
    let field = |(name, help): (&str, &str)| Field {
        name: name.to_owned(),
        kind: Kind::Any,
        help: help.to_owned(),
    };
    Schema(fields.map(field).into())
}

fn unusable(what: &str, cause: impl ToString) -> BenchError {
    BenchError::NotSimulated {
        simulator: "experiments/seed3.toml",
        cause: format!("{what}: {}", cause.to_string()),
    }
}

/// Returns an error with its cause.
fn whole(error: &dyn std::error::Error) -> String {
    let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
    format!("{error}{cause}")
}

fn setting(run: &Run, name: &str) -> Result<String, BenchError> {
    let value = run.cell.get(name).map(ToString::to_string);
    value.ok_or_else(|| unusable(&run.cell.to_string(), format!("'{name}' is missing")))
}

fn number(run: &Run, name: &str) -> Result<u32, BenchError> {
    let text = setting(run, name)?;
    let found = text.parse().ok().filter(|found| (1..=100_000).contains(found));
    let wanted = || {
        unusable(
            &run.cell.to_string(),
            format!("'{name}': want a number from 1 to 100000, found {text}"),
        )
    };
    found.ok_or_else(wanted)
}

fn figures(run: &Run, settings: &RailSettings) -> Result<Map<String, Json>, BenchError> {
    let refused = |error| unusable(&run.cell.to_string(), error);
    let (qps, bytes) = (number(run, "qps")? as usize, number(run, "bytes")?);
    let legend = setting(run, "legend")?;
    let case = match legend.as_str() {
        "original" => Case::Original,
        "migrated-armed" => Case::Requested(Transition::MigratedArmed),
        "armed-migrated" => Case::Requested(Transition::ArmedMigrated),
        "fault" => Case::Fault,
        _ => return Err(refused(format!("'legend': unknown value {legend}"))),
    };
    let mut found = Map::new();
    let mut put = |name: &str, ps: f64| found.insert(name.to_owned(), Json::from(ps / PS_PER_US));
    let of_latency = latency(settings, qps, bytes, case).map_err(|error| refused(whole(&error)))?;
    if setting(run, "axis")? == "bytes" {
        put("latency_by_size_us", of_latency.mean_ps);
        return Ok(found);
    }
    put("latency_us", of_latency.mean_ps);
    let with_alternate = match case {
        Case::Original => Some(false),
        Case::Requested(Transition::MigratedArmed) => Some(true),
        Case::Requested(Transition::ArmedMigrated) | Case::Fault => None,
    };
    if let Some(with) = with_alternate {
        let took = init_rts(settings, qps, with).map_err(|error| refused(whole(&error)))?;
        put("init_rts_us", took as f64);
    }
    if let Case::Requested(wanted) = case {
        let took = transition(settings, qps, wanted).map_err(|error| refused(whole(&error)))?;
        let lost = computation(settings, qps, wanted).map_err(|error| refused(whole(&error)))?;
        put("transition_us", took as f64);
        put("computation_us", lost as f64);
    }
    Ok(found)
}

/// Returns a figure of a combination, or a value that is no number.
fn of(summary: &Summary, axis: &str, legend: &str, at: &str, figure: &str) -> f64 {
    let wanted = [("axis", axis), ("legend", legend), (axis, at)];
    let is = |cell: &selvedge_experiment::Cell| {
        let mut all = wanted.iter();
        all.all(|(name, value)| cell.get(name).is_some_and(|found| found.to_string() == *value))
    };
    let row = summary.rows.iter().find(|row| is(&row.cell));
    row.and_then(|row| row.figures.get(figure))
        .map_or(f64::NAN, |figure| figure.mean)
}

fn near(found: f64, wanted: f64) -> bool {
    (found / wanted - 1.0).abs() <= MET
}

/// Returns by how much the time of one more queue pair differs between 64 to 128 and 1,024 to 2,048.
fn bend(summary: &Summary, legend: &str, figure: &str) -> f64 {
    let at = |qps: &str| of(summary, "qps", legend, qps, figure);
    let slope = |from: &str, to: &str, count: f64| (at(to) - at(from)) / count;
    slope("1024", "2048", 1_024.0) / slope("64", "128", 64.0) - 1.0
}

fn claims(summary: &Summary) -> Vec<Claim> {
    let share = |what: &str, wanted: f64, found: f64, how| Claim {
        what: what.to_owned(),
        paper: percent(wanted),
        ours: percent(found),
        how,
        is_met: near(found, wanted),
    };
    let time = |legend: &str, qps: &str, figure: &str| of(summary, "qps", legend, qps, figure);
    let longer =
        |qps: &str| time("armed-migrated", qps, "transition_us") / time("migrated-armed", qps, "transition_us") - 1.0;
    let init = time("migrated-armed", "64", "init_rts_us") / time("original", "64", "init_rts_us") - 1.0;
    let mut claims = vec![
        share(
            "INIT to RTS longer with an alternate path",
            INIT_RTS_LONGER,
            init,
            "fitted",
        ),
        share(
            "ARMED to MIGRATED longer than MIGRATED to ARMED, 2 queue pairs",
            FEW_LONGER,
            longer(&FEW.to_string()),
            "fitted",
        ),
        share(
            "the same, 2,048 queue pairs",
            MANY_LONGER,
            longer(MANY),
            "no cost fits it: predicted",
        ),
    ];
    let linear = |what: &str, legend: &str, figure: &str| {
        let bend = bend(summary, legend, figure);
        Claim {
            what: what.to_owned(),
            paper: "linear".to_owned(),
            ours: format!("a queue pair more costs {} at 2,048 beside 128", percent(bend)),
            how: "predicted",
            is_met: bend.abs() <= MET,
        }
    };
    claims.extend([
        linear("INIT to RTS by queue pairs", "original", "init_rts_us"),
        linear("MIGRATED to ARMED by queue pairs", "migrated-armed", "transition_us"),
        linear("ARMED to MIGRATED by queue pairs", "armed-migrated", "transition_us"),
    ]);
    claims.extend(latencies(summary));
    let lost = ["migrated-armed", "armed-migrated"].map(|legend| time(legend, MANY, "computation_us") / 1e3);
    claims.push(Claim {
        what: "computation lost, 2,048 queue pairs".to_owned(),
        paper: format!("almost {COMPUTATION_MS:.0} ms"),
        ours: format!("{:.1} ms and {:.1} ms", lost[0], lost[1]),
        how: "predicted",
        is_met: lost.iter().all(|lost| near(*lost, COMPUTATION_MS)),
    });
    claims
}

fn latencies(summary: &Summary) -> Vec<Claim> {
    let cases = [
        ("migrated-armed", "latency of 128 B while queue pairs become ARMED, 512"),
        ("armed-migrated", "latency of 128 B while queue pairs migrate, 512"),
        ("fault", "latency of 128 B with the cable pulled, 512"),
    ];
    let mut claims = Vec::new();
    for (legend, what) in cases {
        let at = |legend: &str, bytes: &str| of(summary, "bytes", legend, bytes, "latency_by_size_us");
        let share = at(legend, "128") / at("original", "128") - 1.0;
        claims.push(Claim {
            what: what.to_owned(),
            paper: "significant overhead".to_owned(),
            ours: percent(share),
            how: "predicted",
            is_met: share >= SIGNIFICANT,
        });
    }
    for (legend, what) in [
        ("migrated-armed", "overhead by length of messages, becoming ARMED"),
        ("armed-migrated", "overhead by length of messages, migrating"),
        ("fault", "overhead by length of messages, cable pulled"),
    ] {
        let over = |bytes: &str| {
            let at = |legend: &str| of(summary, "bytes", legend, bytes, "latency_by_size_us");
            at(legend) - at("original")
        };
        let (short, long) = (over("4"), over("2048"));
        claims.push(Claim {
            what: what.to_owned(),
            paper: "almost the same".to_owned(),
            ours: format!("{short:.2} µs at 4 B, {long:.2} µs at 2,048 B"),
            how: "predicted",
            is_met: near(long, short),
        });
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_and_mistakes_are_refused() {
        let text = std::fs::read_to_string(FILE).unwrap();
        let experiment = Experiment::parse(&text, &schema()).unwrap();
        assert_eq!(experiment.runs().count(), 4 * (11 + 8));
        let settings = RailSettings::default();
        let check = |lines: &str, want: &str| {
            let text = format!("[common]\n{lines}");
            let experiment = Experiment::parse(&text, &schema()).unwrap();
            let run = experiment.runs().next().unwrap();
            let error = figures(&run, &settings).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        check("legend = \"fault\"\naxis = \"qps\"\nbytes = 1\n", "'qps' is missing");
        check(
            "legend = \"fault\"\naxis = \"qps\"\nbytes = 1\nqps = 0\n",
            "'qps': want a number",
        );
        check(
            "legend = \"no\"\naxis = \"qps\"\nbytes = 1\nqps = 1\n",
            "'legend': unknown value no",
        );
    }

    #[test]
    fn a_value_that_is_missing_is_a_miss() {
        let text = std::fs::read_to_string(FILE).unwrap();
        let experiment = Experiment::parse(&text, &schema()).unwrap();
        let folder = std::env::temp_dir().join(format!("selvedge-seed3-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let results = ResultsFile::open(&folder.join("results.jsonl"), "test").unwrap();
        let claims = claims(&summarise(&experiment, &results));
        assert!(claims.iter().all(|claim| !claim.is_met), "{}", markdown(&claims));
        assert_eq!(csv(&claims).lines().count(), claims.len() + 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
