//! The number of blocks that repairs write with each LID layout, compared with the lower bound.
//!
//! `cargo run --release -p selvedge-planner --example lid_layout -- karytree:k=18,n=3 20`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::PortRef;
use selvedge_plan::{LidLayout, Op, Policy, ServiceLevels, SlToVl};
use selvedge_planner::{Outcome, Task};
use selvedge_sim::{Par, Seed};
use selvedge_verify::{Subject, least_change};

use support::{State, between_switches, bring_up, fabric, job, repaired};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "sx6536".to_owned());
    let faults: usize = arguments.next().map_or(20, |n| n.parse().unwrap());
    println!(
        "| layout | kind | faults | blocks | at one switch | LIDs in force: least, blocks over | best LIDs: both |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, layout) in LidLayout::ALL {
        let policy = Arc::new(Policy {
            lid_layout: layout,
            ..Policy::default()
        });
        measure(name, &bring_up(fabric(&spec), &policy), &policy, faults);
    }
}

fn measure(name: &str, state: &State, policy: &Arc<Policy>, faults: usize) {
    let warm = state.prepare(None);
    let plan = &state.plan;
    let fabric = &state.inventory.fabric;
    for (kind, links) in ["leaf", "mid"].map(|kind| (kind, between_switches(fabric, kind))) {
        let mut rng = Seed(1).child(kind).rng();
        let mut figures: Vec<[u64; 4]> = Vec::new();
        for _ in 0..if links.is_empty() { 0 } else { faults } {
            let at = links[rng.below(links.len() as u64) as usize];
            let basis = state.basis(Arc::clone(policy), None);
            let task = Task::Repair(Box::new(state.lose(basis, at, warm.clone(), Vec::new())));
            let result = repaired(job(task).run(Par::Sequential));
            let Some(outcome) = result.outcome() else {
                println!("{}: {:?}", fabric.port_name(at), result.events);
                continue;
            };
            let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
            let dead: Vec<PortRef> = std::iter::once(at).chain(fabric.peer(at)).collect();
            let before = Subject::tables(fabric, &plan.lids, &plan.tables, &levels, &lanes);
            let least = least_change(before, &dead);
            let blocks = outcome.changes.value().count().lft_blocks;
            figures.push([blocks as u64, most_at_one(outcome), least.by_layout, least.by_fabric]);
        }
        let row = |i: usize| in_short(figures.iter().map(|f| f[i]).collect());
        // In hundredths.
        let times = |i: usize| in_short(figures.iter().map(|f| f[0] * 100 / f[i].max(1)).collect());
        println!(
            "| {name} | {kind} | {} | {} | {} | {}, {} % | {}, {} % |",
            figures.len(),
            row(0),
            row(1),
            row(2),
            times(2),
            row(3),
            times(3)
        );
    }
}

/// Returns the median and the range of some numbers, as text.
fn in_short(mut of: Vec<u64>) -> String {
    of.sort_unstable();
    match (of.first(), of.last()) {
        (Some(min), Some(max)) => format!("{} ({min}–{max})", of[of.len() / 2]),
        _ => "–".to_owned(),
    }
}

/// Returns the number of blocks of the switch with the most.
fn most_at_one(outcome: &Outcome) -> u64 {
    let mut blocks: BTreeMap<_, u64> = BTreeMap::new();
    for op in outcome.changes.value().phases.iter().flat_map(|phase| &phase.ops) {
        if let Op::Lft { node, .. } = op {
            *blocks.entry(*node).or_default() += 1;
        }
    }
    blocks.into_values().max().unwrap_or(0)
}
