//! Fixtures that the tests of several studies use: fabrics by their names, and LIDs on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, Policy};
use selvedge_planner::lid;
use selvedge_routing::{Engine, Options};
use selvedge_topology::Spec;
use selvedge_types::Lmc;

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
    lids_with(fabric, 0)
}

/// Returns the LIDs that a manager would assign with this LMC.
pub(crate) fn lids_with(fabric: &Fabric, lmc: u8) -> Lids {
    let policy = Policy {
        lmc: Lmc::new(lmc).unwrap(),
        ..Policy::default()
    };
    lid::assign(fabric, &policy, &BTreeMap::new(), &BTreeSet::new(), &mut Vec::new()).unwrap()
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

/// Returns the load of the busiest link after the repair of each lost link.
pub(crate) fn backups_of_links(start: Start) -> Vec<u64> {
    let question = crate::backups::Question {
        name: String::new(),
        start,
        kinds: vec![crate::backups::Kind::Link],
        sample: None,
        seed: 1,
        in_place: None,
        threads: crate::Threads::ONE,
    };
    let backups = question.answer(&crate::NoWatch).unwrap().backups;
    backups.faults.iter().map(|fault| fault.max_load).collect()
}
