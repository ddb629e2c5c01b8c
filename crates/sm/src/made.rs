//! Fixtures of tests: the row of `selvedge_planner::made` (host, two switches, host), and a manager on its first host,
//! the near one.

use std::sync::Arc;

use selvedge_fabric::PortRef;
use selvedge_plan::Installed;
use selvedge_planner::{Basis, DefaultJudge, Inventory, Job, JobId, Outcome, PlanFabric, Task};
use selvedge_sim::Par;
use selvedge_types::Guid;
use selvedge_wire::LocalPort;

use crate::config::{Config, Mode};
use crate::core::Sm;
use crate::election::In;
use crate::io::PersistentState;

#[path = "../../planner/src/made.rs"]
mod row;

pub use row::*;

/// Returns a port of an inventory, by the position of its node.
pub fn place(inventory: &Inventory, at: usize, num: u8) -> PortRef {
    let node = inventory.fabric.find(guid(at)).unwrap();
    PortRef { node, port: port(num) }
}

/// Returns an accepted plan of the fabric of `row()`, with unknown tables.
pub fn outcome() -> Arc<Outcome> {
    let (inventory, installed) = (Arc::new(inventory(row())), Arc::new(Installed::unknown(2)));
    let task = PlanFabric::new(Basis::new(&inventory, &installed, Arc::default()));
    let mut job = Job {
        id: JobId(1),
        task: Task::Plan(Box::new(task)),
    };
    Arc::clone(job.run(Par::Sequential).outcome().unwrap())
}

/// Returns the configuration of a manager on the near host.
pub fn config() -> Config {
    let local = LocalPort {
        node_guid: guid(NEAR),
        port_guid: Guid(guid(NEAR).0 + 1),
        port: port(1),
    };
    Config::new(Mode::Manage, local, Arc::default())
}

/// Returns a master on the near host.
pub fn master() -> Sm {
    let mut sm = Sm::new(config(), Arc::new(DefaultJudge::default()), PersistentState::default());
    sm.run_election(In::Lead, &mut Vec::new());
    sm
}
