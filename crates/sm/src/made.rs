//! Fixtures of tests: the made-up row of `planner`, and a manager on its near host.

use std::sync::Arc;

use selvedge_fabric::PortRef;
use selvedge_planner::{DefaultJudge, Inventory};
use selvedge_types::Guid;
use selvedge_wire::LocalPort;

use crate::config::{Config, Mode};
use crate::core::Sm;
use crate::election::In;
use crate::io::PersistentState;

#[path = "../../planner/src/made.rs"]
mod row;

pub use row::*;

/// A port of an inventory by the position that its node had.
pub fn place(inventory: &Inventory, at: usize, num: u8) -> PortRef {
    let node = inventory.fabric.find(guid(at)).unwrap();
    PortRef { node, port: port(num) }
}

/// A master on the near host.
pub fn master() -> Sm {
    let local = LocalPort {
        node_guid: guid(NEAR),
        port_guid: Guid(guid(NEAR).0 + 1),
        port: port(1),
    };
    let config = Config::new(Mode::Manage, local, Arc::default());
    let mut sm = Sm::new(config, Arc::new(DefaultJudge::default()), PersistentState::default());
    sm.run_election(In::Lead, &mut Vec::new());
    sm
}
