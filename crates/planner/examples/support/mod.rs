//! A fabric in its state after a bring-up, without sending anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, LinkState, PortRef};
use selvedge_plan::{Installed, Plan, Policy, UnderWay};
use selvedge_planner::{
    Adopt, Agent, Backups, Basis, Damage, Inventory, Job, JobId, JobResult, PlanFabric, Prepare, Repair, RepairResult,
    Task, Warm,
};
use selvedge_sim::Par;
use selvedge_topology::Spec;
use selvedge_types::{IdxVec, PhysState, PortState};
use selvedge_verify::Verdict;
use selvedge_wire::DirectedRoute;

/// Returns a generated fabric.
pub fn fabric(spec: &str) -> Fabric {
    match spec.parse().unwrap() {
        Spec::Generated(recipe) => recipe.fabric().unwrap(),
        Spec::File(path) => panic!("{path:?} is a file"),
    }
}

/// The state in force.
pub struct State {
    /// The discovered fabric.
    pub inventory: Arc<Inventory>,
    /// Tables of the switches.
    pub installed: Arc<Installed>,
    /// The plan.
    pub plan: Arc<Plan>,
    /// The judge's verdict on the plan.
    pub verdict: Arc<Verdict>,
}

impl State {
    /// Returns the data that repairs start from.
    pub fn prepare(&self, warm: Option<Box<Warm>>) -> Option<Box<Warm>> {
        self.prepare_with(warm, None)
    }

    /// Returns the data that repairs start from while these packets may be in flight.
    pub fn prepare_with(&self, warm: Option<Box<Warm>>, under_way: Option<Arc<UnderWay>>) -> Option<Box<Warm>> {
        let prepare = Prepare {
            basis: self.basis(Arc::default(), under_way),
            adopt: Adopt::No,
            plan: Arc::clone(&self.plan),
            warm,
        };
        match job(Task::Prepare(Box::new(prepare))).run(Par::Sequential) {
            JobResult::Prepare(warm) => warm,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the basis of tasks.
    pub fn basis(&self, policy: Arc<Policy>, under_way: Option<Arc<UnderWay>>) -> Basis {
        Basis {
            under_way,
            ..Basis::new(&self.inventory, &self.installed, policy)
        }
    }

    /// Returns the task to plan around the loss of the link at a port.
    pub fn lose(&self, basis: Basis, at: PortRef, warm: Option<Box<Warm>>, backups: Vec<Arc<Backups>>) -> Repair {
        let damage = Damage {
            lost: BTreeSet::from([at]),
            flagged: BTreeSet::from([at.node]),
            ..Damage::default()
        };
        Repair {
            warm,
            backups,
            ..Repair::new(basis, damage, Arc::clone(&self.plan), Arc::clone(&self.verdict))
        }
    }
}

/// Returns a job with this task.
pub fn job(task: Task) -> Job {
    let id = JobId::default();
    Job { id, task }
}

/// Returns the result of a repair.
pub fn repaired(result: JobResult) -> RepairResult {
    match result {
        JobResult::Repair(result) => *result,
        other => panic!("{other:?}"),
    }
}

/// Returns links between switches: those with a host at one of their switches (`leaf`), those without (`mid`), or all
/// (`any`).
pub fn between_switches(fabric: &Fabric, kind: &str) -> Vec<PortRef> {
    let links = fabric.links();
    let both = links.filter(|l| [l.a, l.b].iter().all(|end| fabric.switch_index(end.node).is_some()));
    let is_leaf = |at: PortRef| {
        let mut peers = fabric.node(at.node).external_ports().filter_map(|(_, port)| port.peer);
        peers.any(|peer| fabric.switch_index(peer.node).is_none())
    };
    let wanted = both.filter(|link| kind == "any" || (is_leaf(link.a) || is_leaf(link.b)) == (kind == "leaf"));
    wanted.map(|link| link.a).collect()
}

/// Returns the state of a fabric after its bring-up.
pub fn bring_up(mut fabric: Fabric, policy: &Arc<Policy>) -> State {
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
    let basis = Basis::new(&inventory, &unknown, Arc::clone(policy));
    let mut job = job(Task::Plan(Box::new(PlanFabric::new(basis))));
    let outcome = Arc::clone(job.run(Par::Rayon).outcome().unwrap());
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

/// Returns an inventory without directed routes to its agents: nothing is sent to them.
fn inventory(fabric: Fabric, local: PortRef) -> Arc<Inventory> {
    let agent = |_| Agent {
        route: DirectedRoute::LOCAL,
        port_routes: Default::default(),
        switch: None,
        ports: Vec::new(),
        troubles: Default::default(),
    };
    let agents: Arc<IdxVec<_, Agent>> = Arc::new((0..fabric.nodes().len()).map(agent).collect());
    Arc::new(Inventory {
        fabric: Arc::new(fabric),
        agents,
        local,
        withdrawn: Arc::default(),
    })
}
