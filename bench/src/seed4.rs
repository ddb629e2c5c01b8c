//! The figures of "Designing QoS Aware MPI for InfiniBand" (Subramoni, Lai, Panda; OSU technical report) at the level
//! of messages, in virtual time, and what the paper states beside what was found.

mod statements;
mod storms;

use std::num::NonZeroUsize;
use std::path::Path;

use selvedge_dataplane::{Buffers, LinkRate, PS_PER_NS, Settings, VlArb};
use selvedge_experiment::{Experiment, Field, Kind, Outcome, ResultsFile, Run, Schema, Summary, summarise, svg};
use selvedge_hca::{Costs, Transport};
use selvedge_messaging::{Library, Policy, Scheme, Sizes};
use selvedge_sim::Seed;
use selvedge_study::messages::{Bed, Kernel, Load};
use selvedge_types::Sl;
use serde_json::{Map, Value as Json};

use crate::claims::{csv, markdown, missed};
use crate::error::BenchError;

/// The file, with the folder of its results beside it.
pub const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/seed4.toml");
const PS_PER_US: f64 = 1e6;

/// Lanes of all ports, as ConnectX has them.
const VLS: u8 = 8;
/// Bytes of the load's messages.
const LONG: u32 = 65_536;
/// Bytes of its short ones, and how many of them come with each long one, where it has both.
const SHORT: u32 = 1_024;
const SHORT_ONES: usize = 15;

/// Runs the experiment. Returns the paper's statements beside ours, and those that are missed.
pub fn measure(text: &str, folder: &Path) -> Result<(String, Vec<String>), BenchError> {
    let store = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(BenchError::store("writing", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(BenchError::store("making", folder.display()))?;
    let experiment = Experiment::parse(text, &schema())?;
    let version = concat!("selvedge ", env!("CARGO_PKG_VERSION"));
    let mut results = ResultsFile::open(&folder.join("results.jsonl"), version)?;
    let one = |run: &Run| match figures(run) {
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
    let mut claims = statements::claims(&summary);
    let storms = storms::measure(storms::FABRIC, storms::JOBS, storms::SEEDS)?;
    store("storm.csv", &storms::table(&storms))?;
    claims.extend(storms::claims(&storms));
    store("claims.csv", &csv(&claims))?;
    Ok((markdown(&claims), missed(&claims)))
}

fn schema() -> Schema {
    let fields = [
        (
            "test",
            "figure of the paper: inter (2), intra (3), weights (4) or turns (5)",
        ),
        ("case", "line of the figure"),
        ("bytes", "length of messages, or of blocks of the kernel"),
        ("rate", "rate of all cables"),
        ("private", "blocks of 64 bytes private to each lane of an input"),
        ("pool", "blocks that all lanes of an input share"),
        ("loaders", "loading hosts of each cluster"),
        ("in_flight", "messages of a loading host that are under way"),
        ("cable_ns", "delay of the cable between the clusters; 0: a short cable"),
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
        simulator: "experiments/seed4.toml",
        cause: format!("{what}: {}", cause.to_string()),
    }
}

fn setting(run: &Run, name: &str) -> Result<String, BenchError> {
    let value = run.cell.get(name).map(ToString::to_string);
    value.ok_or_else(|| unusable(&run.cell.to_string(), format!("'{name}' is missing")))
}

fn number(run: &Run, name: &str, most: u32) -> Result<u32, BenchError> {
    let text = setting(run, name)?;
    let found = text.parse().ok().filter(|found| (0..=most).contains(found));
    let wanted = || {
        let cause = format!("'{name}': want a number up to {most}, found {text}");
        unusable(&run.cell.to_string(), cause)
    };
    found.ok_or_else(wanted)
}

fn sl(level: u8) -> Sl {
    Sl::new(level).unwrap_or_default()
}

fn rc(scheme: Scheme) -> Result<Policy, BenchError> {
    Policy::new(scheme, Transport::Rc).map_err(|error| unusable("a policy", error))
}

fn job(level: u8) -> Result<Policy, BenchError> {
    rc(Scheme::Job(sl(level)))
}

/// The smallest messages, and control messages, on the highest level; the longest ones on level 0.
fn sizes(thresholds: &[u32]) -> Scheme {
    let highest = thresholds.len() as u8;
    let levels = (1..=highest).rev().map(sl);
    Scheme::Sizes(Sizes {
        control: sl(highest),
        classes: thresholds.iter().copied().zip(levels).collect(),
        rest: sl(0),
    })
}

/// High priority for levels 1 to `highest`, the highest with the largest weight; one packet each, then a low one, as
/// OpenSM's default limit has it.
fn priority(highest: u8) -> VlArb {
    VlArb {
        high: (1..=highest)
            .rev()
            .map(|vl| (vl, if vl == highest { 255 } else { 64 }))
            .collect(),
        low: (0..VLS)
            .filter(|vl| *vl == 0 || *vl > highest)
            .map(|vl| (vl, 255))
            .collect(),
        high_limit: 0,
    }
}

/// Weights of short messages (level 1) and long ones (level 0), without a high priority.
fn weights(small: u8, large: u8) -> VlArb {
    let low = (0..VLS).map(|vl| match vl {
        0 => (0, large),
        1 => (1, small),
        _ => (vl, 1),
    });
    VlArb {
        low: low.collect(),
        ..VlArb::default()
    }
}

/// What a line of a figure is.
struct Line {
    arbitration: VlArb,
    measured: Policy,
    /// The load's policy, and lengths of its messages.
    load: Option<(Policy, Vec<u32>)>,
}

fn line(test: &str, case: &str) -> Result<Option<Line>, BenchError> {
    let long = vec![LONG];
    let with = |arbitration, measured: Policy, load: Option<(Policy, Vec<u32>)>| {
        Ok(Some(Line {
            arbitration,
            measured,
            load,
        }))
    };
    let classes = |thresholds: &[u32]| {
        let policy = rc(sizes(thresholds))?;
        with(
            priority(thresholds.len() as u8),
            policy.clone(),
            Some((policy, long.clone())),
        )
    };
    match (test, case) {
        ("inter" | "intra", "no load") => with(VlArb::default(), job(0)?, None),
        ("inter", "load, same level") | ("intra", "load, one level") => {
            with(VlArb::default(), job(0)?, Some((job(0)?, long)))
        }
        ("inter", "load, priority") => with(priority(1), job(1)?, Some((job(0)?, long))),
        ("intra", "up to 1 KB first") => classes(&[1_024]),
        ("intra", "up to 2 KB first") => classes(&[2_048]),
        ("intra", "up to 4 KB first") => classes(&[4_096]),
        ("intra", "up to 8 KB first") => classes(&[8_192]),
        ("intra", "two thresholds") => classes(&[1_024, 8_192]),
        ("intra", "three thresholds") => classes(&[1_024, 2_048, 8_192]),
        ("intra", "up to 1 KB first, UD") => {
            let policy = Policy::new(sizes(&[1_024]), Transport::Ud).map_err(|error| unusable("UD", error))?;
            with(priority(1), policy.clone(), Some((policy, long)))
        }
        ("weights", _) => kernel_line(case),
        ("turns", _) => turns(case),
        _ => Ok(None),
    }
}

/// A case of figure 4, as `S100-L50`. The load has short and long messages.
fn kernel_line(case: &str) -> Result<Option<Line>, BenchError> {
    let mut lengths = vec![SHORT; SHORT_ONES];
    lengths.push(LONG);
    let line = |arbitration, policy: Policy| {
        Some(Line {
            arbitration,
            measured: policy.clone(),
            load: Some((policy, lengths.clone())),
        })
    };
    if case == "one level" {
        return Ok(line(VlArb::default(), job(0)?));
    }
    let weight = |text: &str, letter| text.strip_prefix(letter)?.parse::<u8>().ok();
    let found = case
        .split_once('-')
        .and_then(|(s, l)| Some((weight(s, 'S')?, weight(l, 'L')?)));
    let policy = rc(sizes(&[1_024]))?;
    Ok(found.and_then(|(small, large)| line(weights(small, large), policy)))
}

/// A case of figure 5, as `4 QPs, 1 VL`.
fn turns(case: &str) -> Result<Option<Line>, BenchError> {
    let mut numbers = case
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok());
    let (Some(queue_pairs), Some(lanes)) = (numbers.next(), numbers.next()) else {
        return Ok(None);
    };
    let policy = rc(Scheme::Turns {
        queue_pairs,
        levels: (0..lanes).map(sl).collect(),
    })?;
    Ok(Some(Line {
        arbitration: VlArb::default(),
        measured: policy.clone(),
        load: Some((policy, vec![LONG])),
    }))
}

fn figures(run: &Run) -> Result<Map<String, Json>, BenchError> {
    let refused = |error: &dyn ToString| unusable(&run.cell.to_string(), error.to_string());
    let (test, case) = (setting(run, "test")?, setting(run, "case")?);
    let bytes = number(run, "bytes", 1 << 24)?.max(1);
    let rate: LinkRate = setting(run, "rate")?.parse().map_err(|error| refused(&error))?;
    let line = line(&test, &case)?.ok_or_else(|| refused(&format!("'{test}' has no case '{case}'")))?;
    let (loaders, in_flight) = (number(run, "loaders", 64)?, number(run, "in_flight", 1_000)?);
    let (private, cable_ns) = (number(run, "private", 2_048)?, number(run, "cable_ns", 10_000_000)?);
    let bed = Bed {
        settings: Settings {
            link: Some(rate),
            vls: VLS,
            vl_arb: line.arbitration,
            buffers: Buffers {
                per_vl_blocks: Some(private),
                shared_blocks: number(run, "pool", 65_535)?,
                shared_per_vl_blocks: None,
            },
            ..Settings::default()
        },
        long_haul: (cable_ns > 0).then_some((u64::from(cable_ns), private)),
        costs: Costs::default(),
        library: Library::default(),
        measured: if test == "weights" { 2 } else { 1 },
        load: line.load.map(|(policy, sizes)| {
            let load = Load {
                policy,
                sizes,
                in_flight,
            };
            (loaders, load)
        }),
        settle: 500_000 * PS_PER_NS,
        seed: Seed(run.seed),
    };
    let mut found = Map::new();
    let mut put = |name: &str, ps: f64| found.insert(name.to_owned(), Json::from(ps / PS_PER_US));
    if test == "weights" {
        let kernel = Kernel {
            block: bytes,
            short: 64,
            sums: 4,
            rounds: (200_000 / bytes).clamp(2, 20),
        };
        let timing = bed.kernel(&line.measured, &kernel).map_err(|error| refused(&error))?;
        put(&figure(&test, bytes), timing.round_ps);
        return Ok(found);
    }
    let rounds = (2_000_000 / bytes).clamp(5, 100);
    let latency = bed
        .latency(&line.measured, bytes, rounds)
        .map_err(|error| refused(&error))?;
    put(&figure(&test, bytes), latency.mean_ps);
    put("p99_us", latency.p99_ps);
    Ok(found)
}

/// Returns the name of the figure for messages of this length, so that each range of lengths has a picture.
fn figure(test: &str, bytes: u32) -> String {
    let range = match bytes {
        0..=1_024 => "small",
        1_025..=16_384 => "medium",
        _ => "large",
    };
    format!("{test}_{range}_us")
}

/// Returns a figure of a combination, or a value that is no number.
fn of(summary: &Summary, test: &str, case: &str, bytes: u32) -> f64 {
    let (figure, bytes) = (figure(test, bytes), bytes.to_string());
    let wanted = [("test", test), ("case", case), ("bytes", &bytes)];
    let is = |cell: &selvedge_experiment::Cell| {
        let mut all = wanted.iter();
        all.all(|(name, value)| cell.get(name).is_some_and(|found| found.to_string() == *value))
    };
    let row = summary.rows.iter().find(|row| is(&row.cell));
    row.and_then(|row| row.figures.get(&figure))
        .map_or(f64::NAN, |figure| figure.mean)
}

#[cfg(test)]
mod tests {
    use super::statements::{MET, claims, gain};
    use super::*;
    use crate::claims::Claim;

    /// Runs the file's cases of some tests, with some lengths and one seed.
    fn some(tests: &[&str], lengths: &[u32]) -> Summary {
        let text = std::fs::read_to_string(FILE).unwrap().replace("\"1-5\"", "[1]");
        let experiment = Experiment::parse(&text, &schema()).unwrap();
        let number = std::process::id();
        let folder = std::env::temp_dir().join(format!("selvedge-seed4-{}-{number}", tests.join("-")));
        std::fs::create_dir_all(&folder).unwrap();
        let mut results = ResultsFile::open(&folder.join("results.jsonl"), "test").unwrap();
        let one = |run: &Run| {
            let is_wanted = tests.contains(&setting(run, "test").unwrap().as_str())
                && lengths.contains(&super::number(run, "bytes", u32::MAX).unwrap());
            match is_wanted {
                true => Outcome::Figures(figures(run).unwrap()),
                false => Outcome::Refused("not wanted".to_owned()),
            }
        };
        selvedge_experiment::run(&experiment, &one, &mut results, NonZeroUsize::MIN, &|_| {}).unwrap();
        let summary = summarise(&experiment, &results);
        std::fs::remove_dir_all(&folder).unwrap();
        summary
    }

    #[test]
    fn priority_and_classes_by_size_do_what_the_paper_says() {
        let lengths = [4, 1_024, 2_048, 65_536];
        let summary = some(&["inter", "intra"], &lengths);
        for bytes in lengths {
            let gain = gain(&summary, "inter", "load, priority", "load, same level", bytes);
            assert!(gain > 0.5, "{bytes} B: {gain}");
        }
        let small = |case, bytes| gain(&summary, "intra", case, "load, one level", bytes);
        assert!(small("up to 1 KB first", 1_024) > 0.5);
        assert!(small("up to 1 KB first", 2_048) < 0.2);
        assert!(small("up to 2 KB first", 2_048) > 0.5);
        assert!(small("three thresholds", 4) > 0.5);
        let datagrams = of(&summary, "intra", "up to 1 KB first, UD", 4);
        assert!((datagrams / of(&summary, "intra", "up to 1 KB first", 4) - 1.0).abs() < MET);
    }

    #[test]
    fn lanes_help_long_messages_and_queue_pairs_alone_do_not() {
        let summary = some(&["turns"], &[262_144, 1_048_576]);
        for bytes in [262_144, 1_048_576] {
            let gain = |case| gain(&summary, "turns", case, "1 QP, 1 VL", bytes);
            for case in ["2 QPs, 2 VLs", "4 QPs, 4 VLs", "8 QPs, 8 VLs"] {
                assert!(gain(case) > 0.2, "{case}: {}", gain(case));
            }
            for case in ["2 QPs, 1 VL", "4 QPs, 1 VL", "8 QPs, 1 VL"] {
                assert!(gain(case).abs() < 0.1, "{case}: {}", gain(case));
            }
        }
    }

    #[test]
    fn mistakes_are_refused() {
        let check = |lines: &str, want: &str| {
            let text = format!("[common]\n{lines}");
            let experiment = Experiment::parse(&text, &schema()).unwrap();
            let run = experiment.runs().next().unwrap();
            let error = figures(&run).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        check("test = \"inter\"\n", "'case' is missing");
        let inter = "test = \"inter\"\ncase = \"no load\"\nbytes = 4\n";
        check(inter, "'rate' is missing");
        check(&format!("{inter}rate = \"5x\"\n"), "5x");
        let rate = "rate = \"4x-ddr\"\n";
        check(
            &format!("{inter}{rate}loaders = 65\n"),
            "'loaders': want a number up to 64",
        );
        let unknown = |test: &str, case: &str| format!("test = \"{test}\"\ncase = \"{case}\"\nbytes = 4\n{rate}");
        for (test, case) in [("inter", "x"), ("weights", "S-L"), ("turns", "no QPs")] {
            check(&unknown(test, case), "has no case");
        }
        check(&unknown("turns", "9 QPs, 1 VL"), "SLV-MESSAGING-0003");
    }

    #[test]
    fn a_value_that_is_missing_is_a_miss() {
        let text = std::fs::read_to_string(FILE).unwrap();
        let experiment = Experiment::parse(&text, &schema()).unwrap();
        assert_eq!(experiment.runs().count(), 5 * 11 * 25);
        let folder = std::env::temp_dir().join(format!("selvedge-seed4-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let results = ResultsFile::open(&folder.join("results.jsonl"), "test").unwrap();
        let claims = claims(&summarise(&experiment, &results));
        std::fs::remove_dir_all(&folder).unwrap();
        let met: Vec<&Claim> = claims.iter().filter(|claim| claim.is_met).collect();
        // Memory is computed, not measured.
        assert_eq!(met.len(), 1, "{}", markdown(&claims));
        assert!(met[0].what.starts_with("memory"));
    }
}
