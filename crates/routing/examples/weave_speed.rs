//! Routing quality and time of `weave` on some fabrics: `cargo run --release -p selvedge-routing --example weave_speed
//! -- [SPEC…] [--vls 1,2,4,8] [--effort fast,best] [--threads 1|N] [--seeds 21-30] [--engine weave|sssp|…] [--means]`.
//!
//! One row per fabric, lanes and effort: time, most memory so far, and the judge's figures. With `--seeds` each SPEC is
//! routed with each of these seeds, and a row of means follows; `--means` prints those alone.

mod support;

use std::time::Instant;

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, SlToVl};
use selvedge_routing::{Effort, Engine, Options, WeaveOptions};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Lid, LidRange, Lmc, PortNum};
use selvedge_verify::{JudgeOptions, Severity, Subject, verify};

use support::{cpu_ms, fabrics, range};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut specs, mut vls, mut efforts) = (Vec::new(), vec![1, 2, 4, 8], vec!["fast".to_owned(), "best".to_owned()]);
    let mut par = Par::Sequential;
    let (mut seeds, mut engine, mut only_means) = (Vec::new(), Engine::Weave, false);
    while let Some(argument) = arguments.next() {
        let mut list = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--vls" => vls = list().split(',').filter_map(|v| v.parse().ok()).collect(),
            "--effort" => efforts = list().split(',').map(str::to_owned).collect(),
            "--threads" => par = if list() == "1" { Par::Sequential } else { Par::Rayon },
            "--seeds" => seeds = range(&list()),
            "--engine" => engine = list().parse().unwrap_or(Engine::Weave),
            "--means" => only_means = true,
            _ => specs.push(argument),
        }
    }
    if specs.is_empty() {
        specs.push("random:switches=256,degree=4,hosts=2,seed=1".to_owned());
    }
    println!(
        "{:44} V effort       ms   cpu_ms max_load mean_hops lanes errors  rss_MB",
        "fabric"
    );
    for spec in &specs {
        let fabrics = fabrics(spec, &seeds);
        for &lanes in &vls {
            for effort in &efforts {
                let rows = fabrics.iter().filter_map(|(name, fabric)| {
                    let row = row(fabric, engine, lanes, effort, par)?;
                    if !only_means {
                        row.print(name, lanes, effort);
                    }
                    Some(row)
                });
                let rows: Vec<Row> = rows.collect();
                if rows.len() > 1 {
                    mean(&rows).print(&format!("mean of {}: {spec}", rows.len()), lanes, effort);
                }
            }
        }
    }
}

/// The figures of one routing.
struct Row {
    ms: f64,
    cpu_ms: f64,
    max_load: f64,
    hops: f64,
    lanes: u8,
    errors: u64,
}

impl Row {
    fn print(&self, name: &str, lanes: u8, effort: &str) {
        println!(
            "{name:44} {lanes} {effort:6} {:8.1} {:8.1} {:8} {:9.3} {:5} {:6} {:7}",
            self.ms,
            self.cpu_ms,
            self.max_load,
            self.hops,
            self.lanes,
            self.errors,
            peak_rss_mb(),
        );
    }
}

fn mean(rows: &[Row]) -> Row {
    let of = |f: fn(&Row) -> f64| rows.iter().map(f).sum::<f64>() / rows.len() as f64;
    Row {
        ms: of(|r| r.ms),
        cpu_ms: of(|r| r.cpu_ms),
        max_load: of(|r| r.max_load),
        hops: of(|r| r.hops),
        lanes: rows.iter().map(|r| r.lanes).max().unwrap_or(0),
        errors: rows.iter().map(|r| r.errors).sum(),
    }
}

fn number(fabric: &Fabric) -> Lids {
    let mut lids = Lids::new();
    let mut next = 1;
    for (at, port) in fabric.end_ports() {
        if at.port == PortNum::MANAGEMENT || port.is_up() {
            let range = LidRange {
                base: Lid(next),
                lmc: Lmc::ZERO,
            };
            next += 1;
            // LIDs come one after another, so none is taken; a fabric with too many is not routed whole.
            if lids.insert(at, range).is_err() {
                eprintln!("out of LIDs");
            }
        }
    }
    lids
}

fn row(fabric: &Fabric, engine: Engine, lanes: u8, effort: &str, par: Par) -> Option<Row> {
    let lids = number(fabric);
    let weave = WeaveOptions {
        effort: effort.parse::<Effort>().ok()?,
        ..WeaveOptions::default()
    };
    let options = Options {
        lanes: Some(lanes),
        weave,
        ..Options::default()
    };
    let (start, cpu) = (Instant::now(), cpu_ms());
    let routed = match engine.route(fabric, &lids, &options, Seed(0), par) {
        Ok(routed) => routed,
        Err(error) => {
            eprintln!("{error}");
            return None;
        }
    };
    let (took, cpu) = (start.elapsed(), cpu_ms() - cpu);
    let sl_to_vl = SlToVl::modulo(routed.lanes);
    let subject = Subject::tables(fabric, &lids, &routed.tables, &routed.service_levels, &sl_to_vl);
    let judge = JudgeOptions {
        par: Par::Rayon,
        ..JudgeOptions::default()
    };
    let verdict = verify(subject, &judge);
    Some(Row {
        ms: took.as_secs_f64() * 1e3,
        cpu_ms: cpu,
        max_load: verdict.figures.load.max as f64,
        hops: verdict.figures.hops_mean,
        lanes: routed.lanes,
        errors: verdict.count(Severity::Error),
    })
}

/// Largest memory of this process so far, if the kernel reports it.
fn peak_rss_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kb = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kb.unwrap_or(0) / 1024
}
