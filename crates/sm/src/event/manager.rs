//! The name of another manager in events.

use std::fmt;

use selvedge_health::End;
use selvedge_planner::Inventory;
use selvedge_types::Guid;

/// Another manager: by port GUID, and by node and port if that port was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerName {
    /// GUID of the manager's port.
    pub guid: Guid,
    /// The manager's port, if known.
    pub at: Option<End>,
}

impl ManagerName {
    /// Names the manager with this port GUID.
    #[must_use]
    pub fn of(inventory: Option<&Inventory>, guid: Guid) -> Self {
        let found = inventory.and_then(|inventory| {
            let fabric = &inventory.fabric;
            let at = fabric.find_port(guid)?;
            let node = fabric.node(at.node);
            Some(End {
                node: node.guid,
                name: node.description.clone(),
                port: at.port,
            })
        });
        Self { guid, at: found }
    }
}

impl fmt::Display for ManagerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let guid = self.guid;
        match &self.at {
            Some(at) => write!(f, "{at} (port GUID {guid})"),
            None => write!(f, "port GUID {guid}"),
        }
    }
}
