//! How many blocks repairs write with each LID layout, beside the least there can be.
//!
//! `cargo run --release -p selvedge-sm --example lid_layout -- karytree:k=18,n=3 20`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, LinkState, PortRef};
use selvedge_plan::{Installed, LidLayout, Op, Plan, Policy, ServiceLevels, SlToVl};
use selvedge_sim::{Par, Seed};
use selvedge_sm::{Agent, Damage, Inventory, Job, Outcome, Prepare, Repair, Task};
use selvedge_topology::Spec;
use selvedge_types::{IdxVec, PhysState, PortState};
use selvedge_verify::{Subject, Verdict, least_change};
use selvedge_wire::DirectedRoute;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "sx6536".to_owned());
    let faults: usize = arguments.next().map_or(20, |n| n.parse().unwrap());
    println!("| layout | kind | faults | blocks | at one switch | least, LIDs in force | least, best LIDs |");
    println!("|---|---|---|---|---|---|---|");
    for (name, layout) in LidLayout::ALL {
        let fabric = match spec.parse().unwrap() {
            Spec::Generated(recipe) => recipe.fabric().unwrap(),
            Spec::File(path) => panic!("{path:?} is a file"),
        };
        let policy = Arc::new(Policy {
            lid_layout: layout,
            ..Policy::default()
        });
        measure(name, &bring_up(fabric, &policy), &policy, faults);
    }
}

type Up = (Arc<Inventory>, Arc<Installed>, Arc<Plan>, Arc<Verdict>);

fn measure(name: &str, (inventory, installed, plan, verdict): &Up, policy: &Arc<Policy>, faults: usize) {
    let task = Task::Prepare(Box::new(Prepare {
        plan: Arc::clone(plan),
        warm: None,
    }));
    let warm = Job::new(inventory, installed, Arc::clone(policy), task)
        .run(Par::Sequential)
        .warm;
    let fabric = &inventory.fabric;
    for (kind, links) in [("leaf", true), ("mid", false)].map(|(kind, at_leaf)| (kind, between(fabric, at_leaf))) {
        let mut rng = Seed(1).child(kind).rng();
        let mut figures: Vec<[u64; 4]> = Vec::new();
        for _ in 0..if links.is_empty() { 0 } else { faults } {
            let at = links[rng.below(links.len() as u64) as usize];
            let damage = Damage {
                lost: BTreeSet::from([at]),
                flagged: BTreeSet::from([at.node]),
                ..Damage::default()
            };
            let repair = Repair {
                damage,
                plan: Arc::clone(plan),
                verdict: Arc::clone(verdict),
                warm: warm.clone(),
            };
            let task = Task::Repair(Box::new(repair));
            let result = Job::new(inventory, installed, Arc::clone(policy), task).run(Par::Sequential);
            let Some(outcome) = result.outcome else {
                println!("{}: {:?}", fabric.port_name(at), result.events);
                continue;
            };
            let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
            let dead: Vec<PortRef> = std::iter::once(at).chain(fabric.peer(at)).collect();
            let before = Subject::tables(fabric, &plan.lids, &plan.tables, &levels, &lanes);
            let least = least_change(before, &dead);
            let blocks = outcome.changes.value().count().lft_blocks;
            figures.push([blocks as u64, most_at_one(&outcome), least.by_layout, least.by_fabric]);
        }
        let row = |i: usize| {
            let mut of: Vec<u64> = figures.iter().map(|f| f[i]).collect();
            of.sort_unstable();
            match (of.first(), of.last()) {
                (Some(min), Some(max)) => format!("{} ({min}–{max})", of[of.len() / 2]),
                _ => "–".to_owned(),
            }
        };
        println!(
            "| {name} | {kind} | {} | {} | {} | {} | {} |",
            figures.len(),
            row(0),
            row(1),
            row(2),
            row(3)
        );
    }
}

/// Blocks of the switch that has most of them.
fn most_at_one(outcome: &Outcome) -> u64 {
    let mut blocks: BTreeMap<_, u64> = BTreeMap::new();
    for op in outcome.changes.value().phases.iter().flat_map(|phase| &phase.ops) {
        if let Op::Lft { node, .. } = op {
            *blocks.entry(*node).or_default() += 1;
        }
    }
    blocks.into_values().max().unwrap_or(0)
}

/// Links between switches, those at a switch with hosts or the others.
fn between(fabric: &Fabric, at_leaf: bool) -> Vec<PortRef> {
    let is_switch = |end: PortRef| fabric.switch_index(end.node).is_some();
    let has_hosts = |end: PortRef| {
        let mut ports = fabric.node(end.node).external_ports();
        ports.any(|(_, port)| port.peer.is_some_and(|peer| !is_switch(peer)))
    };
    let links = fabric.links().filter(|l| is_switch(l.a) && is_switch(l.b));
    let wanted = links.filter(|l| (has_hosts(l.a) || has_hosts(l.b)) == at_leaf);
    wanted.map(|link| link.a).collect()
}

/// As after a bring-up.
fn bring_up(mut fabric: Fabric, policy: &Arc<Policy>) -> Up {
    let all: Vec<PortRef> = fabric.links().flat_map(|l| [l.a, l.b]).collect();
    for at in all {
        let settings = fabric.port(at).unwrap().settings;
        let (state, phys, rate) = (PortState::Active, PhysState::LinkUp, Default::default());
        fabric.set_port(at, LinkState { state, phys, rate }, settings);
    }
    let local = fabric
        .end_ports()
        .find(|(at, _)| !fabric.node(at.node).is_switch())
        .unwrap()
        .0;
    let inventory = inventory(fabric, local);
    let unknown = Arc::new(Installed::unknown(inventory.fabric.switches().len()));
    let mut job = Job::new(&inventory, &unknown, Arc::clone(policy), Task::Plan);
    let outcome: Arc<Outcome> = job.run(Par::Rayon).outcome.unwrap();
    let plan = Arc::clone(&outcome.plan);
    let mut fabric = Fabric::clone(&inventory.fabric);
    for (&at, &settings) in &plan.ports {
        let link = fabric.port(at).unwrap().link;
        fabric.set_port(at, link, settings);
    }
    for (&at, end) in &plan.end_ports {
        fabric.set_pkeys(at, end.pkeys.clone());
    }
    let mut installed = Installed::unknown(fabric.switches().len());
    for (switch, &settings) in plan.switches.iter_enumerated() {
        let node = fabric.switches()[switch];
        fabric.set_switch(node, settings);
        for block in 0..plan.tables.blocks() {
            installed.learn(switch, block, *plan.tables.block(switch, block));
        }
    }
    (
        self::inventory(fabric, local),
        Arc::new(installed),
        plan,
        Arc::clone(&outcome.verdict),
    )
}

/// Agents without ways: nothing is sent.
fn inventory(fabric: Fabric, local: PortRef) -> Arc<Inventory> {
    let agent = |_| Agent {
        route: DirectedRoute::LOCAL,
        port_routes: Default::default(),
        switch: None,
        ports: Vec::new(),
        troubles: Default::default(),
    };
    let agents: IdxVec<_, Agent> = (0..fabric.nodes().len()).map(agent).collect();
    Arc::new(Inventory {
        fabric: Arc::new(fabric),
        agents,
        local,
    })
}
