//! First plans of damaged trees beside rebalanced ones:
//! `cargo run -p selvedge-routing --example first_plans -- FROM-TO [SPEC…]`.
//!
//! Prints one line for each tree and share of missing links or switches (1 %, 3 %, 10 %), over the seeds FROM to TO.
//! *Load* means the host pairs on the busiest link, as the judge counts them; the rebalanced plan is the better of
//! first plan and `--rebalance full`, as in `selvedge rebalance`:
//!
//! - load of the first plan ÷ load of the rebalanced plan, worst and median; then load of the formula alone ÷ load of
//!   the rebalanced plan;
//! - median loads of the formula alone, of the first plan and of `--rebalance full`;
//! - processor times of one thread in ms, median and worst: detection and filling, relief of full links, the whole of
//!   `--rebalance full`, the judge.
//!
//! `NO_FULL=1` leaves `--rebalance full` out, which takes long.

#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, FabricBuilder, NodeIdx};
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{FatTree, FatTreeOptions};
use selvedge_sim::{Par, Seed};
use selvedge_topology::{LinkRemoval, without_links};
use selvedge_types::{Lid, LidRange};
use selvedge_verify::{JudgeOptions, Subject, verify};
use support::{cpu_ms, fabrics, range};

fn main() {
    let mut args = std::env::args().skip(1);
    let seeds = range(&args.next().unwrap_or_default());
    let mut specs: Vec<String> = args.collect();
    if specs.is_empty() {
        specs = ["sx6536", "karytree:k=6,n=3", "karytree:k=18,n=3"]
            .map(str::to_owned)
            .to_vec();
    }
    for (spec, whole) in specs.iter().flat_map(|spec| fabrics(spec, &[])) {
        for share in [1, 3, 10] {
            for what in ["links", "switches"] {
                let runs: Vec<Option<Run>> = seeds
                    .iter()
                    .map(|&seed| match what {
                        "links" => without_links(&whole, LinkRemoval::PerMillion(share * 10_000), Seed(seed)).ok(),
                        _ => without_switches(&whole, share as usize, Seed(seed)),
                    })
                    .map(|fabric| Run::of(&fabric?))
                    .collect();
                show(&format!("{spec}, {share} % of {what}"), &runs);
            }
        }
    }
}

/// Returns the fabric without a share of its switches (at least one switch), and without the hosts of missing leaves.
fn without_switches(fabric: &Fabric, percent: usize, seed: Seed) -> Option<Fabric> {
    let mut all: Vec<NodeIdx> = fabric.switches().iter().copied().collect();
    seed.child("lost-switches").rng().shuffle(&mut all);
    all.truncate((all.len() * percent + 50).div_euclid(100).max(1));
    let mut gone: BTreeSet<NodeIdx> = all.into_iter().collect();
    let is_alone = |idx: NodeIdx| {
        let mut peers = fabric.node(idx).external_ports().filter_map(|(_, port)| port.peer);
        !fabric.node(idx).is_switch() && peers.all(|peer| gone.contains(&peer.node))
    };
    let alone: Vec<NodeIdx> = fabric
        .nodes()
        .iter_enumerated()
        .map(|(idx, _)| idx)
        .filter(|&idx| is_alone(idx))
        .collect();
    gone.extend(alone);
    let mut builder = FabricBuilder::new();
    let nodes = fabric.nodes().iter_enumerated();
    let keys: Vec<_> = nodes
        .map(|(idx, node)| (!gone.contains(&idx)).then(|| builder.add(node.clone())))
        .collect();
    for link in fabric.links() {
        let key = |end: selvedge_fabric::PortRef| Some((keys[end.node.0 as usize]?, end.port));
        if let (Some(a), Some(b)) = (key(link.a), key(link.b)) {
            builder.link(a, b).ok()?;
        }
    }
    builder.finish().ok()
}

#[derive(Clone, Copy, Default)]
struct Run {
    loads: [u64; 3],
    times: [f64; 4],
}

impl Run {
    fn of(fabric: &Fabric) -> Option<Self> {
        let mut lids = Lids::new();
        for ((at, _), lid) in fabric.end_ports().zip(1..) {
            lids.insert(at, LidRange::single(Lid(lid))).ok()?;
        }
        let mut run = Self::default();
        let start = cpu_ms();
        let tree = FatTree::without_stranded(fabric, &FatTreeOptions::default(), Par::Sequential).ok()?;
        let mut tables = Tables::new(fabric.switches().len(), lids.top());
        tree.fill(&lids, &mut tables, Par::Sequential).ok()?;
        let filled = cpu_ms();
        let before = tables.clone();
        // Short times are measured several times over: the clock is coarse.
        let repeats = (1_000_000 / (before.switches() * before.blocks() * 64)).clamp(1, 50);
        let mut copies = vec![before.clone(); repeats];
        let start_relief = cpu_ms();
        for tables in &mut copies {
            tree.relieve(&lids, tables, Par::Sequential).ok()?;
        }
        let relief = (cpu_ms() - start_relief) / repeats as f64;
        tree.relieve(&lids, &mut tables, Par::Sequential).ok()?;
        let mut full = before.clone();
        let start_full = cpu_ms();
        if std::env::var_os("NO_FULL").is_none() {
            tree.spread(&lids, &mut full, Par::Sequential).ok()?;
        }
        let spread = cpu_ms();
        run.loads[0] = load(fabric, &lids, &before);
        run.loads[1] = load(fabric, &lids, &tables);
        let start_judge = cpu_ms();
        run.loads[2] = load(fabric, &lids, &full);
        let end = cpu_ms();
        run.times = [filled - start, relief, spread - start_full, end - start_judge];
        Some(run)
    }
}

/// Returns the number of host pairs on the busiest link; panics if the judge finds an error.
fn load(fabric: &Fabric, lids: &Lids, tables: &Tables) -> u64 {
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    let subject = Subject::tables(fabric, lids, tables, &levels, &lanes);
    let judge = JudgeOptions {
        findings_max: 1,
        ..JudgeOptions::default()
    };
    let verdict = verify(subject, &judge);
    assert!(verdict.is_ok(), "{:?}", verdict.errors().next());
    verdict.figures.load.max
}

fn show(what: &str, runs: &[Option<Run>]) {
    let seen: Vec<Run> = runs.iter().flatten().copied().collect();
    if seen.is_empty() {
        return println!("{what}: refused on all {}", runs.len());
    }
    let median = |of: &dyn Fn(&Run) -> f64| {
        let mut all: Vec<f64> = seen.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        (all[all.len() / 2], all[all.len() - 1])
    };
    let ratio = |run: &Run| run.loads[1] as f64 / run.loads[1].min(run.loads[2]).max(1) as f64;
    let was = |run: &Run| run.loads[0] as f64 / run.loads[1].min(run.loads[2]).max(1) as f64;
    // Median and worst.
    let (middle, worst) = median(&ratio);
    let (middle_was, worst_was) = median(&was);
    let loads = [0, 1, 2].map(|i| median(&|run: &Run| run.loads[i] as f64).0);
    let times = [0, 1, 2, 3].map(|i| median(&|run: &Run| run.times[i]));
    println!(
        "{what}: {} seeds, {} refused; ratio {worst:.3} {middle:.3} (formula alone {worst_was:.3} {middle_was:.3}); \
         loads {loads:.0?}; ms {times:.2?}",
        runs.len(),
        runs.len() - seen.len(),
    );
}
