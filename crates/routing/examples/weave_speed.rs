//! What `weave` makes of some fabrics, and how long it takes:
//! `cargo run --release -p selvedge-routing --example weave_speed -- [SPEC…] [--vls 1,2,4,8] [--effort fast,best]
//! [--threads 1|N]`.
//!
//! One row per fabric, lanes and effort: time, most memory so far, and the judge's figures.

use std::time::Instant;

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, SlToVl};
use selvedge_routing::{Effort, Engine, Options, WeaveOptions};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, Lmc, PortNum};
use selvedge_verify::{JudgeOptions, Severity, Subject, verify};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut specs, mut vls, mut efforts) = (Vec::new(), vec![1, 2, 4, 8], vec!["fast".to_owned(), "best".to_owned()]);
    let mut par = Par::Sequential;
    while let Some(argument) = arguments.next() {
        let mut list = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--vls" => vls = list().split(',').filter_map(|v| v.parse().ok()).collect(),
            "--effort" => efforts = list().split(',').map(str::to_owned).collect(),
            "--threads" => par = if list() == "1" { Par::Sequential } else { Par::Rayon },
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
        let Some(fabric) = fabric(spec) else {
            eprintln!("{spec}: no such fabric");
            continue;
        };
        for &lanes in &vls {
            for effort in &efforts {
                row(spec, &fabric, lanes, effort, par);
            }
        }
    }
}

fn fabric(spec: &str) -> Option<Fabric> {
    match spec.parse().ok()? {
        Spec::Generated(recipe) => recipe.fabric().ok(),
        Spec::File(_) => None,
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

fn row(spec: &str, fabric: &Fabric, lanes: u8, effort: &str, par: Par) {
    let lids = number(fabric);
    let Ok(level) = effort.parse::<Effort>() else {
        return eprintln!("no effort {effort}");
    };
    let weave = WeaveOptions {
        effort: level,
        ..WeaveOptions::default()
    };
    let options = Options {
        lanes: Some(lanes),
        weave,
        ..Options::default()
    };
    let (start, cpu) = (Instant::now(), cpu_ms());
    let routed = match Engine::Weave.route(fabric, &lids, &options, Seed(0), par) {
        Ok(routed) => routed,
        Err(error) => return eprintln!("{error}"),
    };
    let (took, cpu) = (start.elapsed(), cpu_ms() - cpu);
    let sl_to_vl = SlToVl::modulo(routed.lanes);
    let subject = Subject::tables(fabric, &lids, &routed.tables, &routed.service_levels, &sl_to_vl);
    let judge = JudgeOptions {
        par: Par::Rayon,
        ..JudgeOptions::default()
    };
    let verdict = verify(subject, &judge);
    println!(
        "{spec:44} {lanes} {effort:6} {:8.1} {cpu:8.1} {:8} {:9.3} {:5} {:6} {:7}",
        took.as_secs_f64() * 1e3,
        verdict.figures.load.max,
        verdict.figures.hops_mean,
        routed.lanes,
        verdict.count(Severity::Error),
        peak_rss_mb(),
    );
}

/// Time this thread has had a processor: what counts on a machine that is busy with other things.
fn cpu_ms() -> f64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = schedstat
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse::<f64>().ok());
    ns.unwrap_or(0.0) / 1e6
}

/// Most memory this process ever held, where the kernel tells.
fn peak_rss_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kb = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kb.unwrap_or(0) / 1024
}
