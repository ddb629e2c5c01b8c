//! The ports of the managers of a schedule, and their configuration.

use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::Policy;
use selvedge_sm::{Config, Mode};
use selvedge_types::{Guid, PortNum};
use selvedge_wire::LocalPort;

use super::schedule::Schedule;

/// How long the fabric must be unchanged before backups are computed: short, because schedules have no long idle time.
const BACKUPS_AFTER: Duration = Duration::from_millis(20);

/// Returns the configuration of a manager, as far as it does not depend on the manager's port.
pub fn config(schedule: &Schedule, policy: &Arc<Policy>, priority: u8) -> Config {
    let nowhere = LocalPort {
        node_guid: Guid::NONE,
        port_guid: Guid::NONE,
        port: PortNum::MANAGEMENT,
    };
    let setup = &schedule.setup;
    let mut config = Config::new(Mode::Manage, nowhere, Arc::clone(policy));
    config.priority = priority;
    config.window = setup.requests.window.into();
    config.agent_window = setup.requests.agent_window.into();
    config.retries = setup.requests.retries;
    config.timeout = Duration::from_millis(setup.requests.timeout_ms.into());
    config.sweep_interval = Some(setup.sweep());
    config.backups_after = setup.backups.then_some(BACKUPS_AFTER);
    config
}

/// Returns the ports of the two managers: the first port of the first host, and the last port of the last host.
pub fn seats(fabric: &Fabric) -> [String; 2] {
    let mut hosts = fabric.nodes().iter().filter(|n| !n.is_switch());
    let seat = |node: Option<&selvedge_fabric::Node>, port: u8| {
        node.map_or_else(String::new, |n| format!("\"{}\"[{port}]", n.description))
    };
    let first = hosts.next();
    let last = hosts.next_back().or(first);
    let ports = last.map_or(1, selvedge_fabric::Node::port_count);
    [seat(first, 1), seat(last, ports)]
}
