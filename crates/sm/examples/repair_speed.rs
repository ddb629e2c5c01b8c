//! How long a repair takes, judged and ready to be sent, and what it changes.
//!
//! `cargo run --release -p selvedge-sm --example repair_speed -- karytree:k=18,n=3 leaf`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use selvedge_fabric::{Fabric, LinkState, PortRef};
use selvedge_plan::{Installed, Plan, Policy};
use selvedge_sim::{Par, Seed};
use selvedge_sm::{Agent, Damage, Inventory, Job, Outcome, Prepare, Repair, Task};
use selvedge_topology::Spec;
use selvedge_types::{IdxVec, PhysState, PortState};
use selvedge_verify::Verdict;
use selvedge_wire::DirectedRoute;

const RUNS: usize = 9;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "sx6536".to_owned());
    let fabric = match spec.parse().unwrap() {
        Spec::Generated(recipe) => recipe.fabric().unwrap(),
        Spec::File(path) => panic!("{path:?} is a file"),
    };
    let (inventory, installed, plan, verdict) = bring_up(fabric);
    let began = Instant::now();
    let mut prepare = Job::new(
        &inventory,
        &installed,
        Arc::default(),
        Task::Prepare(Box::new(Prepare {
            plan: Arc::clone(&plan),
            warm: None,
        })),
    );
    let warm = prepare.run(Par::Sequential).warm;
    println!("{spec}: prepared in {:?}", began.elapsed());
    let links: Vec<PortRef> = between_switches(&inventory.fabric);
    let mut rng = Seed(1).rng();
    for _ in 0..RUNS {
        let at = links[rng.below(links.len() as u64) as usize];
        let damage = Damage {
            lost: BTreeSet::from([at]),
            flagged: BTreeSet::from([at.node]),
            ..Damage::default()
        };
        let repair = Repair {
            damage,
            plan: Arc::clone(&plan),
            verdict: Arc::clone(&verdict),
            warm: warm.clone(),
        };
        let mut job = Job::new(&inventory, &installed, Arc::default(), Task::Repair(Box::new(repair)));
        let began = Instant::now();
        let result = job.run(Par::Sequential);
        let took = began.elapsed();
        match result.outcome {
            Some(outcome) => println!(
                "  {}: {took:?}, {} blocks, still warm: {}",
                inventory.fabric.port_name(at),
                outcome.changes.value().count().lft_blocks,
                result.warm.is_some()
            ),
            None => println!(
                "  {}: {took:?}, not repaired: {:?}",
                inventory.fabric.port_name(at),
                result.events
            ),
        }
    }
}

fn between_switches(fabric: &Fabric) -> Vec<PortRef> {
    let links = fabric.links();
    let both = links.filter(|l| [l.a, l.b].iter().all(|end| fabric.switch_index(end.node).is_some()));
    both.map(|link| link.a).collect()
}

/// As after a bring-up.
fn bring_up(mut fabric: Fabric) -> (Arc<Inventory>, Arc<Installed>, Arc<Plan>, Arc<Verdict>) {
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
    let mut job = Job::new(&inventory, &unknown, Arc::new(Policy::default()), Task::Plan);
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
