//! `fat-tree` beside other engines on damaged trees: `cargo run --release -p selvedge-routing --example fat_tree_faults
//! [FROM-TO] [SPEC…]`.
//!
//! Prints one line for each tree, share of lost links and seed (FROM to TO, default 21 to 30): the host pairs on the
//! busiest link, as the judge counts them, and the effective bisection bandwidth. For that all hosts are paired at
//! random, and each pair counts 1 ÷ the flows on the fullest link of its route; the bandwidth is the mean over all
//! pairs and pairings. The last line has means, and whether `fat-tree` was worse than any other engine on any seed.

use std::collections::BTreeMap;
use std::time::Instant;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, NO_PATH, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, FtreeOptions, Options, Rebalance, UpDnOptions};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Guid, Lid, LidRange, PortNum};
use selvedge_verify::{JudgeOptions, Subject, verify};

/// Pairings for the bisection bandwidth.
const PAIRINGS: usize = 10_000;

/// An engine and how it is called: name, options.
type Contender = (&'static str, Engine, Options);

fn main() {
    let mut specs: Vec<String> = std::env::args().skip(1).collect();
    let seeds = specs.first().and_then(|range| {
        let (from, to) = range.split_once('-')?;
        Some(from.parse::<u64>().ok()?..=to.parse::<u64>().ok()?)
    });
    if seeds.is_some() {
        specs.remove(0);
    }
    if specs.is_empty() {
        specs = ["sx6536", "karytree:k=18,n=2", "karytree:k=12,n=3"]
            .map(str::to_owned)
            .to_vec();
    }
    for spec in specs {
        for share in ["1%", "3%"] {
            let mut seen = Seen::default();
            for seed in seeds.clone().unwrap_or(21..=30) {
                let joint = if spec.contains(':') { ',' } else { ':' };
                let damaged = format!("{spec}{joint}remove-links={share},seed={seed}");
                match damaged.parse::<Spec>() {
                    Ok(Spec::Generated(recipe)) => match recipe.fabric() {
                        Ok(fabric) => compare((&damaged, seed), &fabric, &mut seen),
                        Err(error) => eprintln!("{error}"),
                    },
                    Ok(Spec::File(_)) => eprintln!("{spec}: only generated fabrics here"),
                    Err(error) => eprintln!("{error}"),
                }
            }
            seen.sum_up(&format!("{spec} {share}"));
        }
    }
}

/// Busiest link and bandwidth, by engine and seed.
#[derive(Default)]
struct Seen(BTreeMap<&'static str, BTreeMap<u64, (u64, f64)>>);

impl Seen {
    fn sum_up(&self, what: &str) {
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
        let Some(ours) = self.0.get("full") else { return };
        for (name, all) in &self.0 {
            let loads: Vec<f64> = all.values().map(|f| f.0 as f64).collect();
            let bandwidths: Vec<f64> = all.values().map(|f| f.1).collect();
            let pairs = || all.iter().filter_map(|(seed, theirs)| Some((ours.get(seed)?, theirs)));
            let worse_load = pairs().filter(|(a, b)| a.0 > b.0).count();
            let worse_ebb = pairs().filter(|(a, b)| a.1 < b.1).count();
            println!(
                "{what} mean of {name} ({} seeds): max {:.1}, eBB {:.5}; 'full' worse on {worse_load} and {worse_ebb}",
                all.len(),
                mean(&loads),
                mean(&bandwidths)
            );
        }
    }
}

/// Switches of the highest level of a generated tree; the names of its switches show the levels.
fn tops(fabric: &Fabric) -> Vec<Guid> {
    let level = |name: &str| name.split("-L").nth(1).and_then(|rest| rest[..1].parse::<u32>().ok());
    let nodes = || fabric.switches().iter().map(|&n| fabric.node(n));
    let top = nodes().filter_map(|n| level(&n.description)).max();
    nodes()
        .filter(|n| level(&n.description) == top)
        .map(|n| n.guid)
        .collect()
}

fn contenders(fabric: &Fabric) -> Vec<Contender> {
    let roots = tops(fabric);
    let base = Options::default;
    let full = Options {
        rebalance: Rebalance::Full,
        ..base()
    };
    let ftree = FtreeOptions {
        roots: roots.clone(),
        ..FtreeOptions::default()
    };
    let updn = UpDnOptions {
        roots,
        ..UpDnOptions::default()
    };
    vec![
        ("full", Engine::FatTree, full),
        ("minimal", Engine::FatTree, base()),
        ("ftree", Engine::Ftree, base()),
        ("ftree roots", Engine::Ftree, Options { ftree, ..base() }),
        ("updn", Engine::UpDn, base()),
        ("updn roots", Engine::UpDn, Options { updn, ..base() }),
        ("dfsssp", Engine::Dfsssp, base()),
    ]
}

fn compare((spec, seed): (&str, u64), fabric: &Fabric, seen: &mut Seen) {
    let mut lids = Lids::new();
    for ((at, _), lid) in fabric.end_ports().zip(1..) {
        if lids.insert(at, LidRange::single(Lid(lid))).is_err() {
            eprintln!("{spec}: out of LIDs");
            return;
        }
    }
    let mut line = format!("{spec} (bound {})", bound(fabric));
    for (name, engine, options) in contenders(fabric) {
        let start = Instant::now();
        let routed = engine.route(fabric, &lids, &options, Seed(0), Par::Rayon);
        let time = start.elapsed();
        let said = match routed {
            Err(_) => "refuses".to_owned(),
            Ok(routed) => {
                let levels: ServiceLevels = routed.service_levels;
                let lanes = SlToVl::modulo(routed.lanes);
                let options = JudgeOptions {
                    par: Par::Rayon,
                    findings_max: 1,
                    ..JudgeOptions::default()
                };
                let subject = Subject::tables(fabric, &lids, &routed.tables, &levels, &lanes);
                let verdict = verify(subject, &options);
                let load = verdict.figures.load.max;
                let ebb = bandwidth(fabric, &lids, &routed.tables);
                seen.0.entry(name).or_default().insert(seed, (load, ebb));
                let bad = if verdict.is_ok() { "" } else { " REFUSED BY THE JUDGE" };
                let lanes = if routed.lanes > 1 {
                    format!(" {} lanes", routed.lanes)
                } else {
                    String::new()
                };
                format!("{load} {ebb:.4} {time:.0?}{lanes}{bad}")
            }
        };
        line = format!("{line}; {name} {said}");
    }
    println!("{line}");
}

/// Returns a lower bound for the busiest link under any routing: for the leaf where it is highest, hosts of the leaf ×
/// hosts elsewhere ÷ links that the leaf has left, in whole destinations.
fn bound(fabric: &Fabric) -> u64 {
    let near = |node, is_switch: bool| {
        let ports = fabric.node(node).external_ports();
        ports
            .filter_map(|(_, p)| p.peer)
            .filter(|p| fabric.switch_index(p.node).is_some() == is_switch)
            .count() as u64
    };
    let all: u64 = fabric.switches().iter().map(|&n| near(n, false)).sum();
    let of = |&n: &selvedge_fabric::NodeIdx| {
        let (hosts, links) = (near(n, false), near(n, true).max(1));
        (all - hosts).div_ceil(links) * hosts
    };
    fabric.switches().iter().map(of).max().unwrap_or(0)
}

/// Returns the effective bisection bandwidth. In each pairing every host sends to one other host, drawn at random; all
/// engines get the same pairings.
fn bandwidth(fabric: &Fabric, lids: &Lids, tables: &Tables) -> f64 {
    let leaf = |at: PortRef| Some(fabric.switch_index(fabric.peer(at)?.node)?.0 as usize);
    let is_host = |at: &PortRef| fabric.switch_index(at.node).is_none();
    let hosts = lids.iter().filter(|(at, _)| is_host(at));
    let hosts: Vec<(PortRef, usize, Lid)> = hosts.filter_map(|(at, r)| Some((at, leaf(at)?, r.base))).collect();
    // Routes from each leaf to each host, by the first of the leaf's hosts.
    let mut ways: BTreeMap<usize, Vec<Vec<usize>>> = BTreeMap::new();
    for &(at, leaf, _) in &hosts {
        let all = || hosts.iter().map(|to| way(fabric, tables, at, to.2)).collect();
        ways.entry(leaf).or_insert_with(all);
    }
    let of_host: Vec<&[Vec<usize>]> = hosts.iter().map(|h| &ways[&h.1][..]).collect();
    let mut order: Vec<usize> = (0..hosts.len()).collect();
    let mut rng = Seed(77).rng();
    let (mut sum, mut count) = (0.0, 0);
    let mut used = vec![0_u32; fabric.switches().len() * 256];
    for _ in 0..PAIRINGS {
        rng.shuffle(&mut order);
        let half = order.len() / 2;
        let pairs = || {
            order
                .iter()
                .zip(&order[half..])
                .take(half)
                .map(|(&a, &b)| &of_host[a][b])
        };
        pairs().flatten().for_each(|&c| used[c] += 1);
        for way in pairs() {
            let fullest = way.iter().map(|&c| used[c]).max().unwrap_or(1).max(1);
            sum += 1.0 / f64::from(fullest);
            count += 1;
        }
        pairs().flatten().for_each(|&c| used[c] = 0);
    }
    sum / f64::from(count.max(1))
}

fn way(fabric: &Fabric, tables: &Tables, from: PortRef, to: Lid) -> Vec<usize> {
    let mut way = Vec::new();
    let mut at = fabric.peer(from);
    while let Some(SwitchIdx(s)) = at.and_then(|p| fabric.switch_index(p.node)) {
        let egress = tables.get(SwitchIdx(s), to);
        if egress == NO_PATH || way.len() > 64 {
            break;
        }
        let node = fabric.switches()[SwitchIdx(s)];
        at = PortNum::new(egress).and_then(|port| fabric.peer(PortRef { node, port }));
        if at.is_some_and(|p| fabric.switch_index(p.node).is_some()) {
            way.push(s as usize * 256 + usize::from(egress));
        }
    }
    way
}
