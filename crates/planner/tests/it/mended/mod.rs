//! A fabric with a plan in force: loses links, and checks the repairs from outside.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, LinkState, PortRef};
use selvedge_plan::{ChangeSet, Installed, Op, Plan, Policy, UnderWay};
use selvedge_planner::{
    Adopt, Agent, Backups, Basis, Damage, Inventory, Job, JobId, JobResult, PlanFabric, Prepare, Repair, RepairResult,
    Task, Warm,
};
use selvedge_sim::Par;
use selvedge_topology::Spec;
use selvedge_types::{PhysState, PortState};
use selvedge_verify::phases::{Passage, passage};
use selvedge_verify::{JudgeOptions, Subject, Verdict, verify};
use selvedge_wire::DirectedRoute;

/// A fabric with a plan in force.
#[derive(Clone)]
pub struct Bench {
    pub inventory: Arc<Inventory>,
    pub installed: Arc<Installed>,
    pub plan: Arc<Plan>,
    pub verdict: Arc<Verdict>,
    pub warm: Option<Box<Warm>>,
    /// Backups computed before.
    pub backups: Vec<Arc<Backups>>,
    /// Packets that may be in flight after earlier tables forwarded them.
    pub past: Option<Arc<UnderWay>>,
}

impl Bench {
    pub fn up(spec: &str) -> Self {
        let Spec::Generated(recipe) = spec.parse().unwrap() else {
            panic!("{spec}: only generated fabrics here")
        };
        let mut fabric = recipe.fabric().unwrap();
        let ends: Vec<PortRef> = fabric.links().flat_map(|link| [link.a, link.b]).collect();
        for at in ends {
            let settings = fabric.port(at).unwrap().settings;
            let (state, phys, rate) = (PortState::Active, PhysState::LinkUp, Default::default());
            fabric.set_port(at, LinkState { state, phys, rate }, settings);
        }
        let fresh = inventory(fabric);
        let unknown = Arc::new(Installed::unknown(fresh.fabric.switches().len()));
        let basis = Basis::new(&fresh, &unknown, Arc::new(Policy::default()));
        let mut job = job(Task::Plan(Box::new(PlanFabric::new(basis))));
        let outcome = Arc::clone(job.run(Par::Sequential).outcome().unwrap());
        let mut fabric = Fabric::clone(&fresh.fabric);
        apply(&mut fabric, &mut Installed::default(), outcome.changes.value());
        let mut installed = Installed::unknown(fabric.switches().len());
        apply(&mut fabric, &mut installed, outcome.changes.value());
        Self {
            inventory: inventory(fabric),
            installed: Arc::new(installed),
            plan: Arc::clone(&outcome.plan),
            verdict: Arc::clone(&outcome.verdict),
            warm: None,
            backups: Vec::new(),
            past: None,
        }
    }

    pub fn prepare(&mut self) {
        let prepare = Prepare {
            basis: self.basis(),
            adopt: Adopt::No,
            plan: Arc::clone(&self.plan),
            warm: self.warm.take(),
        };
        if let JobResult::Prepare(warm) = job(Task::Prepare(Box::new(prepare))).run(Par::Sequential) {
            self.warm = warm;
        }
    }

    pub fn lose(&self, lost: &BTreeSet<PortRef>) -> RepairResult {
        let damage = Damage {
            lost: lost.clone(),
            flagged: lost.iter().map(|at| at.node).collect(),
            ..Damage::default()
        };
        self.repair(self.basis(), damage, self.backups.clone())
    }

    /// Repairs some damage.
    pub fn repair(&self, basis: Basis, damage: Damage, backups: Vec<Arc<Backups>>) -> RepairResult {
        let repair = Repair {
            warm: self.warm.clone(),
            backups,
            ..Repair::new(basis, damage, Arc::clone(&self.plan), Arc::clone(&self.verdict))
        };
        match job(Task::Repair(Box::new(repair))).run(Par::Sequential) {
            JobResult::Repair(result) => *result,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the state that tasks start from.
    pub fn basis(&self) -> Basis {
        Basis {
            under_way: self.past.clone(),
            ..Basis::new(&self.inventory, &self.installed, Arc::default())
        }
    }

    /// Records the old entries of a repair: from now on packets of all earlier repairs may still be in flight.
    pub fn remember(&mut self, before: &Installed, changes: &ChangeSet) {
        let mut past = self.past.as_deref().cloned().unwrap_or_default();
        let fabric = &self.inventory.fabric;
        for phase in &changes.phases {
            let mut step = Vec::new();
            for op in &phase.ops {
                if let Op::Lft { node, block, data } = op {
                    let switch = fabric.switch_index(*node).unwrap();
                    if !past.before.iter().any(|known| (known.0, known.1) == (switch, *block)) {
                        let held = *before.block(switch, usize::from(*block)).unwrap();
                        past.before.push((switch, *block, held));
                    }
                    step.push((switch, *block, *data));
                }
            }
            past.phases.push(step);
        }
        self.past = Some(Arc::new(past));
    }

    /// Checks a repair from outside, and continues from its result.
    pub fn take(&mut self, what: &str, result: RepairResult) {
        let is_in_place = result.is_in_place();
        let outcome = result.mended.unwrap().outcome;
        let after = Arc::clone(&outcome.inventory);
        let (plan, changes) = (&outcome.plan, outcome.changes.value());
        let options = JudgeOptions::default();
        let found = verify(Subject::plan(&after.fabric, plan), &options);
        assert!(found.is_ok(), "{what}: {:?}", found.errors().next());
        let held = Installed {
            under_way: self.past.clone(),
            ..Installed::clone(&self.installed)
        };
        let way = passage(&after.fabric, &held, plan, changes, None, &options);
        assert!(!matches!(way, Passage::Refused(_)), "{what}: {way:?}");
        // In place every block of a tree is written once; steps may have to write one twice.
        let is_quick = is_in_place && plan.engine.0 == "fat-tree";
        let mut differ = 0;
        for (switch, &node) in after.fabric.switches().iter_enumerated() {
            for block in 0..plan.tables.blocks() {
                let is_new = self.installed.block(switch, block) != Some(plan.tables.block(switch, block));
                let writes = |op: &&Op| match op {
                    Op::Lft { node: n, block: b, .. } => *n == node && usize::from(*b) == block,
                    _ => false,
                };
                let ops = changes.phases.iter().flat_map(|phase| &phase.ops);
                let (count, least) = (ops.filter(writes).count(), usize::from(is_new));
                assert!(count == least || !is_quick && count > least, "{what}: block {block}");
                differ += usize::from(is_new);
            }
        }
        assert!(changes.count().lft_blocks == differ || !is_quick, "{what}");
        assert_eq!(plan.lids, self.plan.lids, "{what}: LIDs never change");
        let (mut fabric, mut installed) = (Fabric::clone(&after.fabric), Installed::clone(&self.installed));
        apply(&mut fabric, &mut installed, changes);
        (self.inventory, self.installed) = (inventory(fabric), Arc::new(installed));
        (self.plan, self.verdict) = (Arc::clone(plan), Arc::clone(&outcome.verdict));
        self.warm = result.warm;
    }
}

/// Returns a job with this task.
pub fn job(task: Task) -> Job {
    let id = JobId::default();
    Job { id, task }
}

/// Applies all Sets to the state of the agents.
fn apply(fabric: &mut Fabric, installed: &mut Installed, changes: &ChangeSet) {
    for op in changes.phases.iter().flat_map(|phase| &phase.ops) {
        match op {
            Op::Lft { node, block, data } => {
                let switch = fabric.switch_index(*node).unwrap();
                installed.learn(switch, usize::from(*block), *data);
            }
            Op::Switch { node, settings } => fabric.set_switch(*node, *settings),
            Op::PKeys { port, block, keys } => {
                let held = &fabric.port(*port).unwrap().pkeys;
                let now = selvedge_plan::partition::with_pkey_block(held, *block, keys);
                fabric.set_pkeys(*port, now);
            }
            Op::SlToVl { .. } | Op::Arbitration { .. } | Op::Link { .. } => {}
            Op::Port { port, settings, .. } => {
                let link = fabric.port(*port).unwrap().link;
                fabric.set_port(*port, link, *settings);
            }
        }
    }
}

/// Returns an inventory without directed routes to its agents: nothing is sent to them.
pub fn inventory(fabric: Fabric) -> Arc<Inventory> {
    let agent = |_| Agent {
        route: DirectedRoute::LOCAL,
        port_routes: Default::default(),
        switch: None,
        ports: Vec::new(),
        troubles: Default::default(),
    };
    let mut hosts = fabric.end_ports().filter(|(at, _)| !fabric.node(at.node).is_switch());
    let local = hosts.next().unwrap().0;
    drop(hosts);
    Arc::new(Inventory {
        agents: Arc::new((0..fabric.nodes().len()).map(agent).collect()),
        fabric: Arc::new(fabric),
        local,
        withdrawn: Arc::default(),
    })
}

/// Returns the links between switches that are up, each by one end.
pub fn between_switches(fabric: &Fabric) -> Vec<PortRef> {
    let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
    let links = fabric.links().filter(|link| fabric.link_is_up(link.a));
    links
        .filter(|link| is_switch(link.a) && is_switch(link.b))
        .map(|link| link.a)
        .collect()
}
