//! How far `weave` keeps the LIDs of a port apart: `cargo run --release -p selvedge-routing --example weave_apart --
//! [SPEC…] [--lmc 1,2] [--vls 1,2,4] [--effort fast,best] [--seeds 21-30] [--engine weave|fat-tree|…] [--means]`.
//!
//! One row per fabric, LMC, lanes and effort: processor time of this thread; host pairs on the busiest link, counted
//! for first LIDs and for all LIDs; errors. Last come two percentages: of the host pairs that could have two routes
//! without a common cable, those that have them; then the same for routes without a common cable or switch.

mod support;

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, SlToVl, Tables};
use selvedge_routing::{Effort, Engine, Options, WeaveOptions};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Lid, LidRange, Lmc, PortNum};
use selvedge_verify::disjoint::Ways;
use selvedge_verify::phases::Links;
use selvedge_verify::{JudgeOptions, Severity, Subject, verify};

use support::{cpu_ms, fabrics, range};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut specs, mut lmcs, mut vls) = (Vec::new(), vec![1], vec![1, 2, 4]);
    let (mut efforts, mut seeds) = (vec!["best".to_owned()], Vec::new());
    let (mut engine, mut only_means) = (Engine::Weave, false);
    while let Some(argument) = arguments.next() {
        let mut list = || arguments.next().unwrap_or_default();
        let numbers = |text: String| text.split(',').filter_map(|n| n.parse().ok()).collect();
        match argument.as_str() {
            "--lmc" => lmcs = numbers(list()),
            "--vls" => vls = numbers(list()),
            "--effort" => efforts = list().split(',').map(str::to_owned).collect(),
            "--seeds" => seeds = range(&list()),
            "--engine" => engine = list().parse().unwrap_or(Engine::Weave),
            "--means" => only_means = true,
            _ => specs.push(argument),
        }
    }
    if specs.is_empty() {
        specs.push("random:switches=128,degree=4,hosts=2".to_owned());
    }
    println!(
        "{:44} LMC V effort  cpu_ms  max_1st  max_all errors links% switches%",
        "fabric"
    );
    for spec in &specs {
        let fabrics = fabrics(spec, &seeds);
        for (lmc, lanes, effort) in combinations(&lmcs, &vls, &efforts) {
            let mut sum = [0.0; 6];
            let mut rows = 0.0;
            for (name, fabric) in &fabrics {
                let Some(row) = row(fabric, engine, lmc, lanes, effort) else {
                    continue;
                };
                if !only_means {
                    print(name, (lmc, lanes, effort), row);
                }
                sum.iter_mut().zip(row).for_each(|(sum, one)| *sum += one);
                rows += 1.0;
            }
            if rows > 1.0 {
                print(
                    &format!("mean of {rows}: {spec}"),
                    (lmc, lanes, effort),
                    sum.map(|sum| sum / rows),
                );
            }
        }
    }
}

fn combinations<'a>(lmcs: &[u8], vls: &[u8], efforts: &'a [String]) -> Vec<(u8, u8, &'a str)> {
    let all = lmcs.iter().flat_map(|&lmc| vls.iter().map(move |&v| (lmc, v)));
    all.flat_map(|(lmc, v)| efforts.iter().map(move |effort| (lmc, v, effort.as_str())))
        .collect()
}

fn print(name: &str, (lmc, lanes, effort): (u8, u8, &str), row: [f64; 6]) {
    let [ms, first, all, errors, links, switches] = row;
    println!(
        "{name:44} {lmc:3} {lanes} {effort:6} {ms:7.1} {first:8.0} {all:8.0} {errors:6} {links:6.2} {switches:6.2}"
    );
}

fn number(fabric: &Fabric, lmc: u8) -> Option<Lids> {
    let mut lids = Lids::new();
    let mut next = 1_u16;
    for (at, _) in fabric.end_ports() {
        let is_switch = fabric.node(at.node).is_switch();
        let lmc = Lmc::new(if is_switch { 0 } else { lmc })?;
        let base = next.checked_next_multiple_of(lmc.lids())?;
        lids.insert(at, LidRange { base: Lid(base), lmc }).ok()?;
        next = base.checked_add(lmc.lids())?;
    }
    Some(lids)
}

fn row(fabric: &Fabric, engine: Engine, lmc: u8, lanes: u8, effort: &str) -> Option<[f64; 6]> {
    let lids = number(fabric, lmc)?;
    let weave = WeaveOptions {
        effort: effort.parse::<Effort>().ok()?,
        ..WeaveOptions::default()
    };
    let options = Options {
        lanes: Some(lanes),
        weave,
        ..Options::default()
    };
    let cpu = cpu_ms();
    let routed = match engine.route(fabric, &lids, &options, Seed(0), Par::Sequential) {
        Ok(routed) => routed,
        Err(error) => {
            eprintln!("{error}");
            return None;
        }
    };
    let cpu = cpu_ms() - cpu;
    let sl_to_vl = SlToVl::modulo(routed.lanes);
    let subject = Subject::tables(fabric, &lids, &routed.tables, &routed.service_levels, &sl_to_vl);
    let verdict = verify(
        subject,
        &JudgeOptions {
            par: Par::Rayon,
            ..JudgeOptions::default()
        },
    );
    let figures = Ways::new(subject, Links::Trained).figures(Par::Rayon);
    Some([
        cpu,
        verdict.figures.load.max as f64,
        all_loads(fabric, &lids, &routed.tables),
        verdict.count(Severity::Error) as f64,
        figures.by_links.share_of_possible() * 100.0,
        figures.by_switches.share_of_possible() * 100.0,
    ])
}

/// Returns the largest load of a link between switches: the pairs of a host and a LID of another host that use the
/// link.
fn all_loads(fabric: &Fabric, lids: &Lids, tables: &Tables) -> f64 {
    let mut hosts = vec![0_u64; fabric.switches().len()];
    let is_host = |at: &PortRef| !fabric.node(at.node).is_switch();
    let home = |at: PortRef| fabric.switch_index(fabric.peer(at)?.node);
    let ends = || lids.iter().filter(|(at, _)| is_host(at));
    ends()
        .filter_map(|(at, _)| home(at))
        .for_each(|s| hosts[s.0 as usize] += 1);
    let mut load: BTreeMap<(SwitchIdx, u8), u64> = BTreeMap::new();
    for (lid, to) in ends().flat_map(|(at, range)| range.iter().map(move |lid| (lid, home(at)))) {
        for from in tables.switch_indices().filter(|s| hosts[s.0 as usize] > 0) {
            let (mut at, mut left) = (from, hosts.len());
            while Some(at) != to && left > 0 {
                left -= 1;
                let egress = tables.get(at, lid);
                let node = fabric.switches()[at];
                let peer = PortNum::new(egress).and_then(|port| fabric.peer(PortRef { node, port }));
                let Some(next) = peer.and_then(|peer| fabric.switch_index(peer.node)) else {
                    break;
                };
                *load.entry((at, egress)).or_default() += hosts[from.0 as usize];
                at = next;
            }
        }
    }
    load.into_values().max().unwrap_or(0) as f64
}
