//! The inventory of the sampler: the ports of a plan in force.

use selvedge_fabric::{Fabric, Port, PortRef};
use selvedge_plan::Plan;
use selvedge_telemetry::{End, Inventory, NodeEntry, PortEntry};
use selvedge_types::{Lid, PortNum, PortState};

/// Returns the external ports of all nodes, with the LIDs of a plan. A port without a link, or with an agent that does
/// not answer the manager, is down.
#[must_use]
pub fn survey(fabric: &Fabric, plan: &Plan) -> Inventory {
    let mut inventory = Inventory::default();
    for (idx, node) in fabric.nodes().iter_enumerated() {
        let lid = |port: PortNum| {
            let port = if node.is_switch() { PortNum::MANAGEMENT } else { port };
            plan.lids.base(PortRef { node: idx, port }).unwrap_or(Lid::NONE)
        };
        let ports = node.external_ports();
        let entry = NodeEntry {
            kind: node.kind,
            description: node.description.clone(),
            ports: ports.map(|(num, port)| entry(fabric, num, port, lid(num))).collect(),
        };
        inventory.nodes.insert(node.guid, entry);
    }
    inventory
}

fn entry(fabric: &Fabric, num: PortNum, port: &Port, lid: Lid) -> PortEntry {
    let is_up = port.is_up() && !port.unread;
    PortEntry {
        num: num.get(),
        lid,
        state: if is_up { port.link.state } else { PortState::Down },
        peer: port.peer.filter(|_| is_up).map(|at| End {
            node: fabric.node(at.node).guid,
            port: at.port.get(),
        }),
        rate: is_up.then_some(port.link.rate),
    }
}
