//! Generated trees, routed and judged, and their paths found without the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, SlToVl, Tables};
use selvedge_routing::{Engine, FatTreeOptions, Options, Rebalance, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_verify::{Figures, JudgeOptions, Subject, verify};

/// Entries: switch, LID.
pub type Entries = BTreeSet<(u32, u16)>;

pub fn make(spec: &str) -> Fabric {
    match spec.parse().unwrap() {
        Spec::Generated(recipe) => recipe.fabric().unwrap(),
        Spec::File(path) => panic!("{path:?} is a file"),
    }
}

/// Routes and judges; there must be no error.
pub fn route(what: &str, fabric: &Fabric, lids: &Lids, options: &Options) -> (Routed, Figures) {
    let routed = Engine::FatTree
        .route(fabric, lids, options, Seed(0), Par::Sequential)
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let lanes = SlToVl::modulo(routed.lanes);
    let subject = Subject::tables(fabric, lids, &routed.tables, &routed.service_levels, &lanes);
    let verdict = verify(subject, &JudgeOptions::default());
    let first = verdict.errors().next();
    assert!(verdict.is_ok(), "{what}: {first:?}");
    (routed, verdict.figures)
}

pub fn with_previous(tables: &Tables) -> Options {
    Options {
        previous: Some(Arc::new(tables.clone())),
        ..Options::default()
    }
}

pub fn with_nominal(fabric: &Fabric) -> Options {
    Options {
        fat_tree: FatTreeOptions {
            nominal: Some(Arc::new(fabric.clone())),
            ..FatTreeOptions::default()
        },
        ..Options::default()
    }
}

/// Returns the options of a manager that has seen the fabric whole: these tables in force, and `whole` as nominal
/// fabric.
pub fn with_both(whole: &Fabric, in_force: &Tables) -> Options {
    Options {
        previous: Some(Arc::new(in_force.clone())),
        ..with_nominal(whole)
    }
}

pub fn full() -> Options {
    Options {
        rebalance: Rebalance::Full,
        ..Options::default()
    }
}

pub fn switch_links(fabric: &Fabric) -> usize {
    let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
    fabric.links().filter(|l| is_switch(l.a) && is_switch(l.b)).count()
}

pub fn is_host(fabric: &Fabric, at: PortRef) -> bool {
    fabric.switch_index(at.node).is_none()
}

/// The paths of a generated tree, found without the engine: the names of its switches show their levels.
pub struct Truth {
    pub level: Vec<u32>,
    /// By switch: neighbours by port.
    pub near: Vec<BTreeMap<u8, usize>>,
}

impl Truth {
    pub fn new(fabric: &Fabric) -> Self {
        let nodes = || fabric.switches().iter().map(|&n| fabric.node(n));
        let level = |name: &str| name.split("-L").nth(1).unwrap()[..1].parse().unwrap();
        let near = |node: &selvedge_fabric::Node| {
            let to = |peer: PortRef| fabric.switch_index(peer.node).map(|s| s.0 as usize);
            let links = node.external_ports();
            links.filter_map(|(port, p)| Some((port.get(), to(p.peer?)?))).collect()
        };
        Self {
            level: nodes().map(|n| level(&n.description)).collect(),
            near: nodes().map(near).collect(),
        }
    }

    /// Switches from which `to` is reached by going down, and by going up, then down.
    pub fn reach(&self, to: usize) -> (Vec<bool>, Vec<bool>) {
        let mut order: Vec<usize> = (0..self.level.len()).collect();
        order.sort_by_key(|&s| self.level[s]);
        let mut down: Vec<bool> = (0..order.len()).map(|s| s == to).collect();
        for &s in &order {
            let mut below = self.near[s].values().filter(|&&p| self.level[p] < self.level[s]);
            down[s] |= below.any(|&p| down[p]);
        }
        let mut any = down.clone();
        for &s in order.iter().rev() {
            let mut above = self.near[s].values().filter(|&&p| self.level[p] > self.level[s]);
            any[s] |= above.any(|&p| any[p]);
        }
        (down, any)
    }
}

/// Returns the entries towards hosts that differ.
pub fn moved(fabric: &Fabric, lids: &Lids, before: &Tables, after: &Tables) -> Entries {
    let to_hosts = lids.by_lid().filter(|(_, o)| is_host(fabric, *o));
    let all = to_hosts.flat_map(|(lid, _)| before.switch_indices().map(move |s| (s, lid)));
    all.filter(|&(s, lid)| before.get(s, lid) != after.get(s, lid))
        .map(|(s, lid)| (s.0, lid.0))
        .collect()
}
