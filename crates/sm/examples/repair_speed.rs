//! How long a repair takes, judged and ready to be sent, and what it changes.
//!
//! `cargo run --release -p selvedge-sm --example repair_speed -- SPEC [leaf|mid|any [in-turn|apart [SEED [LINKS]]]]`:
//! ten links, each lost from the whole fabric, or one after another without coming back.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use selvedge_fabric::{Fabric, LinkState, PortRef};
use selvedge_plan::{Installed, Op, Plan, Policy};
use selvedge_sim::{Par, Seed};
use selvedge_sm::{Agent, Damage, Inventory, Job, JobResult, Outcome, Prepare, Repair, Task, Warm};
use selvedge_topology::Spec;
use selvedge_types::{IdxVec, PhysState, PortState};
use selvedge_verify::Verdict;
use selvedge_wire::DirectedRoute;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let spec = arguments.next().unwrap_or_else(|| "sx6536".to_owned());
    let kind = arguments.next().unwrap_or_else(|| "any".to_owned());
    let in_turn = arguments.next().is_some_and(|how| how == "in-turn");
    let seed = arguments.next().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let runs: usize = arguments.next().and_then(|runs| runs.parse().ok()).unwrap_or(10);
    let fabric = match spec.parse().unwrap() {
        Spec::Generated(recipe) => recipe.fabric().unwrap(),
        Spec::File(path) => panic!("{path:?} is a file"),
    };
    let mut state = bring_up(fabric);
    let began = Instant::now();
    let mut warm = state.prepare(None);
    println!("{spec}: prepared in {:?}", began.elapsed());
    let mut links: Vec<PortRef> = between_switches(&state.inventory.fabric, &kind);
    Seed(seed).rng().shuffle(&mut links);
    let mut quick = 0;
    let mut waits = 0;
    for &at in links.iter().take(runs) {
        let damage = Damage {
            lost: BTreeSet::from([at]),
            flagged: BTreeSet::from([at.node]),
            ..Damage::default()
        };
        let repair = Repair {
            damage,
            plan: Arc::clone(&state.plan),
            verdict: Arc::clone(&state.verdict),
            warm: warm.clone(),
        };
        let mut job = Job::new(
            &state.inventory,
            &state.installed,
            Arc::default(),
            Task::Repair(Box::new(repair)),
        );
        let start = Instant::now();
        CLOCK.get_or_init(|| start);
        job.clock = Some(|| CLOCK.get().map_or(Duration::ZERO, Instant::elapsed));
        let result = job.run(Par::Sequential);
        let took = start.elapsed();
        let name = state.inventory.fabric.port_name(at);
        let Some(outcome) = &result.outcome else {
            println!("  {name}: {took:?}, not repaired: {:?}", result.events);
            continue;
        };
        let changes = outcome.changes.value();
        let waited = changes.phases.iter().filter(|phase| phase.wait_before_ns > 0).count();
        // What is changed in place hands back the copies that it changed.
        let in_place = result.installed.is_some();
        quick += usize::from(in_place);
        waits += usize::from(waited > 0);
        println!(
            "  {name}: planned in {:?}, judged in {:?}, {} blocks in {} steps, {waited} waits, in place: {in_place}",
            took - result.judged,
            result.judged,
            changes.count().lft_blocks,
            changes.phases.len(),
        );
        if in_turn {
            state.follow(&result);
            warm = state.prepare(result.warm);
        }
    }
    println!("{spec}: of {runs} links {quick} in place, {waits} with waits");
}

static CLOCK: OnceLock<Instant> = OnceLock::new();

/// What is in force.
struct State {
    inventory: Arc<Inventory>,
    installed: Arc<Installed>,
    plan: Arc<Plan>,
    verdict: Arc<Verdict>,
}

impl State {
    fn prepare(&self, warm: Option<Box<Warm>>) -> Option<Box<Warm>> {
        let plan = Arc::clone(&self.plan);
        let task = Task::Prepare(Box::new(Prepare { plan, warm }));
        let mut prepare = Job::new(&self.inventory, &self.installed, Arc::default(), task);
        prepare.run(Par::Sequential).warm
    }

    /// As when all Sets are acknowledged, and packets under way are gone.
    fn follow(&mut self, result: &JobResult) {
        let Some(outcome) = &result.outcome else { return };
        let mut installed = Installed::clone(&self.installed);
        for op in outcome.changes.value().phases.iter().flat_map(|phase| &phase.ops) {
            if let Op::Lft { node, block, data } = op {
                let switch = self.inventory.fabric.switch_index(*node).unwrap();
                installed.learn(switch, usize::from(*block), *data);
            }
        }
        self.installed = Arc::new(installed);
        self.inventory = result.inventory.clone().unwrap();
        self.plan = Arc::clone(&outcome.plan);
        self.verdict = Arc::clone(&outcome.verdict);
    }
}

/// Links between switches: with hosts at one end (`leaf`), without (`mid`), or `any`.
fn between_switches(fabric: &Fabric, kind: &str) -> Vec<PortRef> {
    let links = fabric.links();
    let both = links.filter(|l| [l.a, l.b].iter().all(|end| fabric.switch_index(end.node).is_some()));
    let is_leaf = |at: PortRef| {
        let mut peers = fabric.node(at.node).external_ports().filter_map(|(_, port)| port.peer);
        peers.any(|peer| fabric.switch_index(peer.node).is_none())
    };
    let wanted = both.filter(|link| kind == "any" || (is_leaf(link.a) || is_leaf(link.b)) == (kind == "leaf"));
    wanted.map(|link| link.a).collect()
}

/// As after a bring-up.
fn bring_up(mut fabric: Fabric) -> State {
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
    State {
        inventory: self::inventory(fabric, local),
        installed: Arc::new(installed),
        plan,
        verdict: Arc::clone(&outcome.verdict),
    }
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
