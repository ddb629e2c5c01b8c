//! Helpers of the tests of rehearsals.

use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::Policy;
use selvedge_planner::DefaultJudge;
use selvedge_rehearsal::{ManagerId, Rehearsal};
use selvedge_sm::{Config, Mode};
use selvedge_topology::Spec;
use selvedge_types::{Guid, PortNum};
use selvedge_wire::LocalPort;

/// A generated fabric.
pub fn fabric(spec: &str) -> Fabric {
    match spec.parse::<Spec>().unwrap() {
        Spec::Generated(recipe) => recipe.fabric().unwrap(),
        Spec::File(path) => panic!("{} is a file", path.display()),
    }
}

/// A manager; not started yet.
pub fn add_manager(world: &mut Rehearsal, name: &str, at: &str, priority: u8, policy: Policy) -> ManagerId {
    add_manager_with(world, name, at, policy, |config| config.priority = priority)
}

/// A manager with a configuration that `change` has changed; not started yet.
pub fn add_manager_with(
    world: &mut Rehearsal,
    name: &str,
    at: &str,
    policy: Policy,
    change: impl FnOnce(&mut Config),
) -> ManagerId {
    let nowhere = LocalPort {
        node_guid: Guid::NONE,
        port_guid: Guid::NONE,
        port: PortNum::MANAGEMENT,
    };
    let mut config = Config::new(Mode::Manage, nowhere, Arc::new(policy));
    change(&mut config);
    world.add_manager(name, at, config, Arc::new(DefaultJudge::default()))
}
