//! The measurement of Sandia's talk on LDMS (OpenFabrics Alliance Workshop 2017): the time of a sample of all ports of
//! a switch, by the number of metrics and the distance between sampler and switch. The sampler reads the emulator in
//! virtual time; making the metric set is measured.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_chassis::Chassis;
use selvedge_emulator::{ClientId, Emulator, EmulatorConfig, Fault};
use selvedge_experiment::{Experiment, Field, Kind, Outcome, ResultsFile, Run, Schema, Summary, summarise, svg};
use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_plan::Lids;
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed, Time};
use selvedge_telemetry::selection::Selected;
use selvedge_telemetry::{
    Assignment, Config, End, Group, In, Inventory, Latest, Metric, MetricSet, NodeEntry, Out, PortEntry, PortSet,
    Sampler, SamplingClass, Wall, WorkItem,
};
use selvedge_types::{Lid, LidRange, PortState};
use serde_json::{Map, Value as Json, json};

use crate::case::Case;
use crate::error::BenchError;

/// The file, with the folder of its results beside it.
pub const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/seed1.toml");
/// Time between two samples: longer than the slowest.
const INTERVAL: Duration = Duration::from_millis(100);
/// The wall clock at time zero: the beginning of a slot, which is not read because it has begun.
const WALL: Wall = Wall::from_secs(1_000);
/// The paper's means in microseconds, by number of metrics. Source: Sandia, OpenFabrics Alliance Workshop 2017,
/// "IBFabric time spent processing metrics".
const PAPER_DIRECT: [(&str, f64); 3] = [("2", 780.0), ("4", 702.0), ("24", 743.0)];
/// The same, not connected directly.
const PAPER_FAR: f64 = 1_043.0;
/// How often a sample's set is made; the shortest time counts, as another program may take the processor meanwhile.
const SETS_PER_SAMPLE: usize = 5;
/// Most that 24 metrics may cost more than none, as a share.
const METRICS_COST_MAX: f64 = 0.2;
/// Least that five switches cost more than none, as a share, if one request is under way at a time.
const DISTANCE_COST_MIN: f64 = 0.25;

/// Runs the experiment. Returns the table, the paper's values, and the differences from the paper.
pub fn measure(text: &str, folder: &Path) -> Result<(String, Vec<String>), BenchError> {
    let store = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(BenchError::store("writing", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(BenchError::store("making", folder.display()))?;
    let (summary, pictures) = summary(text, folder)?;
    let lines: Vec<String> = std::iter::once(summary.header())
        .chain(summary.cells())
        .map(|cells| cells.join(","))
        .collect();
    let table = lines.join("\n") + "\n";
    store("table.csv", &table)?;
    for (file, picture) in pictures {
        store(&file, &picture)?;
    }
    Ok((table + &beside(&summary), differences(&summary)))
}

/// Runs what has no result yet. Returns all results, and the pictures.
fn summary(text: &str, folder: &Path) -> Result<(Summary, Vec<(String, String)>), BenchError> {
    let experiment = Experiment::parse(text, &schema())?;
    let path = folder.join("results.jsonl");
    let mut results = ResultsFile::open(&path, concat!("selvedge ", env!("CARGO_PKG_VERSION")))?;
    let one = |run: &Run| match figures(run) {
        Ok(figures) => Outcome::Figures(figures),
        Err(error) => Outcome::Refused(error.to_string()),
    };
    // One at a time: the processor's time for the metric set is measured.
    selvedge_experiment::run(&experiment, &one, &mut results, NonZeroUsize::MIN, &|_| {})?;
    let summary = summarise(&experiment, &results);
    let mut pictures = Vec::new();
    for picture in &experiment.pictures {
        pictures.push((picture.file.clone(), svg(&summary, picture)?));
    }
    Ok((summary, pictures))
}

/// The settings that the file may have.
fn schema() -> Schema {
    let field = |(name, help): (&str, &str)| Field {
        name: name.to_owned(),
        kind: Kind::Any,
        help: help.to_owned(),
    };
    let fields = [
        ("fabric", "the fabric"),
        ("samples", "number of samples"),
        ("hops", "links between the sampler's switch and the switch that is read"),
        ("metrics", "number of metrics in the set"),
        ("window", "requests under way at a time"),
        ("service", "how long an agent takes for a request"),
        ("link", "how long a request takes on a link"),
        ("relay", "how long a switch takes to forward it"),
        (
            "jitter",
            "delays at the sampler's port, as selvedge fault delay takes them",
        ),
    ];
    Schema(fields.map(field).into())
}

/// Returns a setting as text.
fn setting(run: &Run, name: &str) -> Result<String, BenchError> {
    let value = run.cell.get(name).map(ToString::to_string);
    value.ok_or_else(|| unusable(run, format!("'{name}' is missing")))
}

fn unusable(run: &Run, cause: impl ToString) -> BenchError {
    BenchError::NotSimulated {
        simulator: "experiments/seed1.toml",
        cause: format!("{}: {}", run.cell, cause.to_string()),
    }
}

fn number(run: &Run, name: &str) -> Result<usize, BenchError> {
    let text = setting(run, name)?;
    text.parse()
        .map_err(|_| unusable(run, format!("'{name}': want a number, found {text}")))
}

/// Returns a time, such as `15.8us` or `100ns`.
fn span(run: &Run, name: &str) -> Result<Duration, BenchError> {
    let text = setting(run, name)?;
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6)];
    let found = units.iter().find_map(|(unit, ns)| {
        let value: f64 = text.strip_suffix(unit)?.parse().ok()?;
        (0.0..1e9)
            .contains(&value)
            .then(|| Duration::from_nanos((value * ns) as u64))
    });
    found.ok_or_else(|| unusable(run, format!("'{name}': want a time as 15.8us or 100ns, found {text}")))
}

/// A sampler at a host, in an emulated fabric in which all tables are set.
struct Lab {
    emulator: Emulator,
    client: ClientId,
    sampler: Sampler,
    inventory: Arc<Inventory>,
    /// The ports that are read.
    ports: Vec<End>,
    now: Time,
}

/// What one sample took.
struct Sampled {
    read_us: f64,
    set_us: f64,
    requests: u32,
    missing: usize,
}

fn figures(run: &Run) -> Result<Map<String, Json>, BenchError> {
    let mut lab = Lab::new(run)?;
    let selected = selected(number(run, "metrics")?);
    let mut latest = Latest::default();
    // The first sample asks for the agent's abilities too, and is left out.
    lab.sample(&selected, &mut latest);
    let count = number(run, "samples")?;
    let samples: Vec<Sampled> = (0..count).map(|_| lab.sample(&selected, &mut latest)).collect();
    let mean = |of: &dyn Fn(&Sampled) -> f64| samples.iter().map(of).sum::<f64>() / count as f64;
    let read_us = mean(&|sample| sample.read_us);
    // Other programs, and what they leave of the caches, only make it longer: the shortest is what a set takes.
    let set_us = samples.iter().map(|sample| sample.set_us).fold(f64::INFINITY, f64::min);
    let variance = mean(&|sample| (sample.read_us - read_us).powi(2));
    let figures = json!({
        "sample_us": read_us + set_us,
        "read_us": read_us,
        "read_us_sd": variance.sqrt(),
        "set_us": set_us,
        "requests": mean(&|sample| f64::from(sample.requests)),
        "missing": mean(&|sample| sample.missing as f64),
    });
    match figures {
        Json::Object(figures) => Ok(figures),
        _ => Err(unusable(run, "results are no object")),
    }
}

/// Returns so many metrics, those of traffic first, as Sandia's file has them.
fn selected(count: usize) -> Vec<Selected> {
    let traffic = [
        Metric::XmitData,
        Metric::RcvData,
        Metric::XmitPackets,
        Metric::RcvPackets,
    ];
    let mut all: Vec<Selected> = traffic.map(Selected::Counter).into();
    // Sandia's file does not have these.
    let ours = [Selected::Counter(Metric::Qp1Dropped), Selected::State];
    let others = Selected::all().filter(|metric| !ours.contains(metric));
    for metric in others {
        if !all.contains(&metric) {
            all.push(metric);
        }
    }
    all.truncate(count);
    all
}

impl Lab {
    fn new(run: &Run) -> Result<Self, BenchError> {
        let case = Case::new(&setting(run, "fabric")?)?;
        let home = PortRef {
            node: case.host,
            port: case.host_port(),
        };
        let config = EmulatorConfig {
            service_time: span(run, "service")?,
            link_delay: span(run, "link")?,
            relay_delay: span(run, "relay")?,
            ..EmulatorConfig::default()
        };
        let chassis = routed(&case).map_err(|cause| unusable(run, cause))?;
        let inventory = Arc::new(inventory(&chassis));
        let mut emulator = Emulator::on(chassis, config, Seed(run.seed));
        let client = emulator.attach(home).map_err(|cause| unusable(run, cause))?;
        let jitter = setting(run, "jitter")?;
        let jitter: Fault = format!("delay {jitter} at {}", case.fabric.port_name(home))
            .parse()
            .map_err(|cause| unusable(run, cause))?;
        emulator
            .apply(Time::ZERO, &jitter)
            .map_err(|cause| unusable(run, cause))?;
        let hops = number(run, "hops")?;
        let switch = switch_at(&case, hops)
            .ok_or_else(|| unusable(run, format!("no switch is {hops} links from the sampler's switch")))?;
        let node = case.fabric.node(switch).guid;
        let up = inventory.nodes[&node].ports.iter().filter(|port| port.is_up());
        let ports: Vec<End> = up.map(|port| End { node, port: port.num }).collect();
        let window = number(run, "window")?;
        let class = SamplingClass::new("data", INTERVAL, &[Group::Extended]);
        let mut lab = Self {
            sampler: Sampler::new(Config {
                window,
                node_window: u8::try_from(window).unwrap_or(u8::MAX),
                ..Config::new(vec![class])
            }),
            inventory: Arc::clone(&inventory),
            emulator,
            client,
            now: Time::ZERO,
            ports,
        };
        let read: PortSet = lab.ports.iter().map(|end| end.port).collect();
        let item = WorkItem {
            node,
            ports: read,
            group: Group::Extended,
        };
        let mut nothing = Latest::default();
        lab.handle(In::Clock(WALL), &mut nothing);
        lab.handle(In::Assign(Assignment::of(&[item])), &mut nothing);
        lab.handle(In::Inventory(inventory), &mut nothing);
        Ok(lab)
    }

    /// Hands an input in. Returns duration, requests and missing ports of a slot that ended.
    fn handle(&mut self, input: In, latest: &mut Latest) -> Option<(Duration, u32, usize)> {
        let (mut out, mut ended) = (Vec::new(), None);
        self.sampler.handle(self.now, input, &mut out);
        for output in out {
            match output {
                Out::Send(datagram, _) => self.emulator.send(self.now, self.client, &datagram),
                Out::Sample(sample) => latest.take(&sample),
                Out::Ended(report) => ended = Some((report.took, report.requests, report.missing.len())),
                Out::Cable(_) | Out::Event(_) => {}
            }
        }
        ended
    }

    /// Reads all ports once, and makes the metric set.
    fn sample(&mut self, selected: &[Selected], latest: &mut Latest) -> Sampled {
        let (took, requests, missing) = self.slot(latest);
        let mut set_us = f64::INFINITY;
        for _ in 0..SETS_PER_SAMPLE {
            let begin = Instant::now();
            let mut set = MetricSet::new("host".to_owned(), "ibfabric".to_owned(), 1);
            set.fill(&self.ports, selected, &self.inventory, latest);
            set_us = set_us.min(begin.elapsed().as_secs_f64() * 1e6);
            std::hint::black_box(&set);
        }
        Sampled {
            read_us: took.as_secs_f64() * 1e6,
            set_us,
            requests,
            missing,
        }
    }

    /// Lets time pass until a slot has ended.
    fn slot(&mut self, latest: &mut Latest) -> (Duration, u32, usize) {
        loop {
            let next = [self.emulator.next_event(), self.sampler.next_wake()];
            let Some(at) = next.into_iter().flatten().min() else {
                // A sampler with a clock always wants to be woken.
                return (Duration::ZERO, 0, self.ports.len());
            };
            self.now = at.max(self.now);
            let mut arrived = Vec::new();
            self.emulator.advance(self.now, &mut arrived);
            let arrived = arrived.into_iter().map(|delivery| In::Received(delivery.datagram));
            let inputs: Vec<In> = arrived.chain([In::Wake]).collect();
            for input in inputs {
                if let Some(ended) = self.handle(input, latest) {
                    return ended;
                }
            }
        }
    }
}

/// Returns the first switch that is so many links from the switch of the sampler's host.
fn switch_at(case: &Case, hops: usize) -> Option<NodeIdx> {
    let routes = case.routes();
    // The first link of a route is that of the host.
    let mut switches = routes.iter().filter(|(node, _)| case.fabric.node(*node).is_switch());
    switches
        .find(|(_, route)| usize::from(route.hops()) == hops + 1)
        .map(|(node, _)| *node)
}

/// Returns a fabric with LIDs and shortest paths, all ports ACTIVE.
fn routed(case: &Case) -> Result<Chassis, Box<dyn std::error::Error>> {
    let mut lids = Lids::new();
    for (lid, (at, _)) in (1..).zip(case.fabric.end_ports()) {
        lids.insert(at, LidRange::single(Lid(lid)))?;
    }
    let engine: Engine = "minhop".parse()?;
    let routed = engine.route(&case.fabric, &lids, &Options::default(), Seed(0), Par::Sequential)?;
    let mut chassis = Chassis::new(&case.fabric);
    chassis.install(&lids, Some(&routed.tables));
    for link in case.fabric.links() {
        for (first, end) in [(true, link.a), (false, link.b)] {
            let Some(port) = chassis.port_idx(end) else { continue };
            if first {
                chassis.bring_up(port);
            }
            chassis.set_logical(port, PortState::Active);
        }
    }
    Ok(chassis)
}

/// What a manager knows of the fabric.
fn inventory(chassis: &Chassis) -> Inventory {
    let fabric = chassis.fabric();
    let entry = |idx: NodeIdx| {
        let node = fabric.node(idx);
        let ports = (1..=node.port_count()).filter_map(|num| {
            let port = chassis.port_at(idx, num)?;
            let wire = chassis.wire(port);
            let peer = wire.peer().map(|peer| chassis.wire(peer));
            Some(PortEntry {
                num,
                lid: chassis.port(chassis.end_port(port)).settings().lids.base,
                state: wire.state(),
                peer: peer.map(|peer| End {
                    node: fabric.node(peer.node()).guid,
                    port: peer.num().get(),
                }),
                rate: Some(chassis.port(port).rate),
            })
        });
        let entry = NodeEntry {
            kind: node.kind,
            description: node.description.clone(),
            ports: ports.collect(),
        };
        (node.guid, entry)
    };
    Inventory {
        nodes: fabric.nodes().indices().map(entry).collect(),
    }
}

/// Returns the mean time of a sample.
fn mean(summary: &Summary, window: &str, hops: &str, metrics: &str) -> Option<f64> {
    let wanted = [("window", window), ("hops", hops), ("metrics", metrics)];
    let is_wanted = |name: &str, value: &str, cell: &selvedge_experiment::Cell| {
        cell.get(name).is_some_and(|found| found.to_string() == value)
    };
    let mut rows = summary.rows.iter();
    let row = rows.find(|row| wanted.iter().all(|(name, value)| is_wanted(name, value, &row.cell)))?;
    row.figures.get("sample_us").map(|figure| figure.mean)
}

/// Puts the paper's values beside ours.
fn beside(summary: &Summary) -> String {
    let ours = |hops: &str, metrics: &str| mean(summary, "1", hops, metrics).unwrap_or(f64::NAN);
    let mut text = "\nmetrics, where: paper, ours (µs)\n".to_owned();
    text += &format!("0, not attached directly: {PAPER_FAR:.0}, {:.0}\n", ours("5", "0"));
    for (metrics, paper) in PAPER_DIRECT {
        text += &format!("{metrics}, attached directly: {paper:.0}, {:.0}\n", ours("0", metrics));
    }
    text
}

/// Returns the differences from the paper, by which distance matters and the number of metrics does not.
fn differences(summary: &Summary) -> Vec<String> {
    let mut found = Vec::new();
    let of = |window: &str, hops: &str, metrics: &str| mean(summary, window, hops, metrics).unwrap_or(f64::NAN);
    for (window, hops) in [("1", "0"), ("1", "5"), ("3", "0"), ("3", "5")] {
        let cost = of(window, hops, "24") / of(window, hops, "0") - 1.0;
        // A value that is missing is no number, and fails too.
        if cost.is_nan() || cost > METRICS_COST_MAX {
            found.push(format!(
                "window {window}, {hops} hops: 24 metrics cost {:.0} %",
                100.0 * cost
            ));
        }
    }
    for metrics in ["0", "24"] {
        let cost = of("1", "5", metrics) / of("1", "0", metrics) - 1.0;
        if cost.is_nan() || cost < DISTANCE_COST_MIN {
            let cost = 100.0 * cost;
            found.push(format!("{metrics} metrics: five switches cost only {cost:.0} %"));
        }
    }
    for row in &summary.rows {
        if row.refused > 0 || row.figures.get("missing").is_none_or(|figure| figure.max > 0.0) {
            let why = row.why.clone().unwrap_or_else(|| "samples are missing".to_owned());
            found.push(format!("{}: {why}", row.cell));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The experiment as it is stored, with fewer samples, one seed, and next to no chance.
    fn small() -> Vec<(Run, Map<String, Json>)> {
        let text = std::fs::read_to_string(FILE).unwrap();
        let text = text.replace("samples = 100", "samples = 3").replace("\"1-3\"", "[1]");
        let text = text.replace("2% max=230us", "0.0001% max=1ns");
        let experiment = Experiment::parse(&text, &schema()).unwrap();
        let runs = experiment.runs().map(|run| {
            let figures = figures(&run).unwrap();
            (run, figures)
        });
        runs.collect()
    }

    #[test]
    fn metrics_cost_no_request_and_distance_costs_time() {
        let runs = small();
        let of = |window: &str, hops: &str, metrics: &str, figure: &str| {
            let wanted = [("window", window), ("hops", hops), ("metrics", metrics)];
            let mut found = runs.iter().filter(|(run, _)| {
                let is = |(name, value): &(&str, &str)| run.cell.get(name).unwrap().to_string() == *value;
                wanted.iter().all(is)
            });
            let (_, figures) = found.next().unwrap();
            figures[figure].as_f64().unwrap()
        };
        for window in ["1", "3"] {
            for hops in ["0", "5"] {
                for metrics in ["0", "2", "4", "24"] {
                    assert_eq!(of(window, hops, metrics, "requests"), 36.0);
                    assert_eq!(of(window, hops, metrics, "missing"), 0.0);
                    // In virtual time the same seed gives the same times, whatever is made of the answers.
                    let none = of(window, hops, "0", "read_us");
                    assert_eq!(of(window, hops, metrics, "read_us"), none);
                }
            }
        }
        let far: Vec<f64> = (0..6).map(|hops| of("1", &hops.to_string(), "0", "read_us")).collect();
        assert!(far.is_sorted() && far[5] > 1.25 * far[0], "{far:?}");
        // 36 requests one after the other take at least the time of their agent.
        assert!(far[0] > 36.0 * 15.8, "{far:?}");
        // With more requests under way, the agent is busy all the time, and distance is hidden.
        assert!(of("3", "5", "0", "read_us") < far[2], "{far:?}");
    }

    #[test]
    fn mistakes_are_refused() {
        let check = |line: &str, want: &str| {
            let common = "fabric = \"ring:switches=4,hosts=2\"\nsamples = 1\nmetrics = 2\nlink = \"1us\"\n\
                          relay = \"1us\"\n";
            let text = format!("[common]\n{common}{line}");
            let experiment = Experiment::parse(&text, &schema()).unwrap();
            let error = figures(&experiment.runs().next().unwrap()).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        check("", "'service' is missing");
        check("service = 3", "'service': want a time as 15.8us or 100ns, found 3");
        check("service = \"1us\"\njitter = \"often\"", "SLV-");
        let rest = "service = \"1us\"\njitter = \"1% max=1us\"\nwindow = 1\n";
        check(&format!("{rest}hops = 9"), "no switch is 9 links from");
    }
}
