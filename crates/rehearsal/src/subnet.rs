//! Which ports can reach each other: end ports of the hardware, grouped by the links that are up.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_types::{IdxVec, PhysState, PortNum};

/// Groups of ports connected by trained links and switches. A channel adapter forwards nothing, so two of its ports may
/// be in different groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subnets {
    /// Group of each port, named by the smallest port in it.
    group: IdxVec<PortIdx, PortIdx>,
    /// End ports that can be reached: port 0 of switches with power, ports of others with a trained link.
    live: Vec<PortIdx>,
}

impl Subnets {
    /// Returns the groups of ports by the present links.
    pub fn of(chassis: &Chassis) -> Self {
        let ports = chassis
            .fabric()
            .nodes()
            .indices()
            .flat_map(|node| ports_of(chassis, node));
        let ports: Vec<PortIdx> = ports.collect();
        let mut group: IdxVec<PortIdx, PortIdx> = (0..chassis.port_count())
            .map(|i| PortIdx(u32::try_from(i).unwrap_or(u32::MAX)))
            .collect();
        let mut live = Vec::new();
        for &port in &ports {
            let wire = chassis.wire(port);
            if !chassis.is_powered(wire.node()) {
                continue;
            }
            let own = chassis.end_port(port);
            join(&mut group, port, own);
            if is_up(chassis, port)
                && let Some(peer) = wire.peer()
            {
                join(&mut group, port, peer);
            }
            let reachable = is_up(chassis, port) || chassis.is_switch(wire.node());
            if own == port && reachable {
                live.push(port);
            }
        }
        for &port in &ports {
            group[port] = root(&mut group, port);
        }
        Self { group, live }
    }

    /// True if packets can get from one port to the other.
    pub fn connected(&self, a: PortIdx, b: PortIdx) -> bool {
        self.group[a] == self.group[b]
    }

    /// Returns the group of a port.
    pub fn group(&self, port: PortIdx) -> PortIdx {
        self.group[port]
    }

    /// Returns the end ports that can be reached from another port.
    pub fn live(&self) -> &[PortIdx] {
        &self.live
    }
}

/// Returns all ports of a node.
pub(crate) fn ports_of(chassis: &Chassis, node: selvedge_fabric::NodeIdx) -> impl Iterator<Item = PortIdx> + use<'_> {
    let count = chassis.fabric().node(node).port_count();
    (0..=count).filter_map(move |num| chassis.port_at(node, num))
}

/// True if the link at a port is trained; port 0 has none.
pub(crate) fn is_up(chassis: &Chassis, port: PortIdx) -> bool {
    let wire = chassis.wire(port);
    wire.num() != PortNum::MANAGEMENT && wire.phys() == PhysState::LinkUp && wire.peer().is_some()
}

/// Returns the root of a port's tree, and halves the path to it for the next call.
fn root(group: &mut IdxVec<PortIdx, PortIdx>, mut port: PortIdx) -> PortIdx {
    while group[port] != port {
        group[port] = group[group[port]];
        port = group[port];
    }
    port
}

/// Merges two groups. The smaller root wins, so that groups do not depend on the order of merging.
fn join(group: &mut IdxVec<PortIdx, PortIdx>, a: PortIdx, b: PortIdx) {
    let (a, b) = (root(group, a), root(group, b));
    let (low, high) = (a.min(b), a.max(b));
    group[high] = low;
}
