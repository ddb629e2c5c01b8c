//! How `weave` repairs tables in force after the loss of one link, and how long it takes:
//! `cargo run --release -p selvedge-routing --example weave_repair -- [SPEC…] [--vls 1,4] [--links 40]`.
//!
//! One row per fabric and lanes: mean and longest processor time of a repair, without the proof; then means: LIDs with
//! only some entries routed again, LIDs routed again as a whole, changed entries, and lanes routed anew; errors that
//! the judge finds.

mod support;

use std::sync::Arc;

use selvedge_fabric::{Fabric, Link};
use selvedge_plan::{Lids, SlToVl};
use selvedge_routing::{Engine, Note, Options, WeaveOptions};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Lid, LidRange, Lmc, PortState};
use selvedge_verify::{JudgeOptions, Severity, Subject, verify};

use support::{cpu_ms, fabrics};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut specs, mut vls, mut links) = (Vec::new(), vec![1, 4], 40);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--vls" => {
                let list = arguments.next().unwrap_or_default();
                vls = list.split(',').filter_map(|v| v.parse().ok()).collect();
            }
            "--links" => links = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(links),
            _ => specs.push(argument),
        }
    }
    if specs.is_empty() {
        specs.push("random:switches=256,degree=4,hosts=2,seed=21".to_owned());
    }
    println!(
        "fabric                                       V    mean_ms  max_ms extended rerouted  entries lanes errors"
    );
    for spec in &specs {
        for (name, fabric) in fabrics(spec, &[]) {
            vls.iter().for_each(|&lanes| row(&name, &fabric, lanes, links));
        }
    }
}

fn row(spec: &str, fabric: &Fabric, lanes: u8, links: usize) {
    let mut lids = Lids::new();
    for (base, (at, _)) in (1..).map(Lid).zip(fabric.end_ports()) {
        // LIDs come one after another, so none is taken.
        let _ = lids.insert(at, LidRange { base, lmc: Lmc::ZERO });
    }
    let options = Options {
        lanes: Some(lanes),
        ..Options::default()
    };
    let Ok(before) = Engine::Weave.route(fabric, &lids, &options, Seed(0), Par::Sequential) else {
        return;
    };
    let options = Options {
        previous: Some(Arc::new(before.tables.clone())),
        weave: WeaveOptions {
            previous_levels: Some(Arc::new(before.service_levels.clone())),
            ..WeaveOptions::default()
        },
        ..options
    };
    let is_switch = |link: &Link| [link.a, link.b].iter().all(|at| fabric.switch_index(at.node).is_some());
    let all: Vec<Link> = fabric.links().filter(is_switch).collect();
    let (mut times, mut sums, mut errors) = (Vec::new(), [0; 4], 0);
    for link in all.iter().step_by((all.len() / links.max(1)).max(1)) {
        let damaged = without(fabric, *link);
        let start = cpu_ms();
        let Ok(after) = Engine::Weave.route(&damaged, &lids, &options, Seed(0), Par::Sequential) else {
            continue;
        };
        times.push(cpu_ms() - start);
        for note in &after.notes {
            match *note {
                Note::Repaired {
                    extended,
                    rerouted,
                    rewoven,
                    entries,
                } => {
                    let more = [extended, rerouted, entries, rewoven];
                    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
                }
                Note::NotRepaired => eprintln!("not repaired"),
                _ => {}
            }
        }
        let sl_to_vl = SlToVl::modulo(after.lanes);
        let subject = Subject::tables(&damaged, &lids, &after.tables, &after.service_levels, &sl_to_vl);
        errors += verify(subject, &JudgeOptions::default()).count(Severity::Error);
    }
    times.sort_unstable_by(f64::total_cmp);
    let ms = |i: usize| times.get(i).copied().unwrap_or_default();
    let count = times.len().max(1);
    let mean = |i: usize| sums[i] as f64 / count as f64;
    println!(
        "{spec:44} {lanes} {:10.2} {:7.2} {:8.1} {:8.1} {:8.1} {:5.2} {errors:6}",
        times.iter().sum::<f64>() / count as f64,
        ms(times.len().saturating_sub(1)),
        mean(0),
        mean(1),
        mean(2),
        mean(3),
    );
}

/// The same fabric with one link down.
fn without(fabric: &Fabric, link: Link) -> Fabric {
    let mut damaged = fabric.clone();
    for at in [link.a, link.b] {
        if let Some(port) = fabric.port(at) {
            let mut state = port.link;
            state.state = PortState::Down;
            damaged.set_port(at, state, port.settings);
        }
    }
    damaged
}
