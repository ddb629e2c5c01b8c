//! What tests of several studies need: fabrics by their names, and LIDs on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, Policy};
use selvedge_planner::lid;
use selvedge_routing::{Engine, Options};
use selvedge_topology::Spec;

use crate::in_force::Start;

/// Returns a generated fabric.
pub(crate) fn fabric(spec: &str) -> Fabric {
    match spec.parse().unwrap() {
        Spec::Generated(recipe) => recipe.fabric().unwrap(),
        Spec::File(path) => panic!("{} is a file", path.display()),
    }
}

/// Returns the LIDs that a manager would assign.
pub(crate) fn lids(fabric: &Fabric) -> Lids {
    lid::assign(
        fabric,
        &Policy::default(),
        &BTreeMap::new(),
        &BTreeSet::new(),
        &mut Vec::new(),
    )
    .unwrap()
}

/// Returns a generated fabric with the tables of an engine in force.
pub(crate) fn start(spec: &str, engine: Engine) -> Start {
    let fabric = fabric(spec);
    Start {
        lids: Arc::new(lids(&fabric)),
        fabric: Arc::new(fabric),
        engine,
        options: Options::default(),
    }
}
