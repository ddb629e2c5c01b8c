//! Fixtures of tests: a host, two switches in a row and a second host, as discovery finds them.

use std::collections::BTreeMap;

use selvedge_plan::{EngineName, Generation, Lids, Plan, ServiceLevels, SlToVl, Tables};
use selvedge_types::{Guid, IdxVec, Lid, NodeKind, PhysState, PortNum, PortState};
use selvedge_wire::{DirectedRoute, NodeInfo, PortInfo, SwitchInfo};

// Tests of `sm` include this file too.
use selvedge_planner::{Found, FoundPort, Inventory};

/// Index of the near host in the list. Each node's GUID follows from its index.
pub const NEAR: usize = 0;
/// Index of the first switch. Its port 1 leads to the near host, its port 2 to the other switch.
pub const FIRST: usize = 1;
/// Index of the second switch: port 1 leads to the first switch, port 2 to the far host.
pub const SECOND: usize = 2;
/// Index of the host behind the second switch.
pub const FAR: usize = 3;
/// Cables, each by node index and port of both ends.
const CABLES: [[(usize, u8); 2]; 3] = [
    [(NEAR, 1), (FIRST, 1)],
    [(FIRST, 2), (SECOND, 1)],
    [(SECOND, 2), (FAR, 1)],
];

/// Returns a port number.
pub fn port(n: u8) -> PortNum {
    PortNum::new(n).unwrap()
}

/// Returns the GUID of a node from its index.
pub fn guid(at: usize) -> Guid {
    Guid(10 * (at as u64 + 1))
}

/// Returns the PortInfo of a port with a link that is up.
pub fn info(state: PortState) -> PortInfo {
    PortInfo {
        state: Some(state),
        phys_state: Some(PhysState::LinkUp),
        ..PortInfo::default()
    }
}

/// Returns the row as a sweep finds it: all links ACTIVE, LinearFDBTop in the first block.
pub fn row() -> Vec<Found> {
    let kinds = [NodeKind::Ca, NodeKind::Switch, NodeKind::Switch, NodeKind::Ca];
    let route = |at: usize| (0..at).fold(DirectedRoute::LOCAL, |way, hop| way.then(port([1, 2, 2][hop])).unwrap());
    let mut found: Vec<Found> = (0..).zip(kinds).map(|(at, kind)| node(at, kind, route(at))).collect();
    for [a, b] in CABLES {
        for ((at, num), (far, far_num)) in [(a, b), (b, a)] {
            found[at].ports[usize::from(num)].peer = Some((far, port(far_num)));
        }
    }
    found
}

fn node(at: usize, kind: NodeKind, route: DirectedRoute) -> Found {
    let is_switch = kind == NodeKind::Switch;
    let ports = if is_switch { 2 } else { 1 };
    let seen = |num: u8| FoundPort {
        info: (is_switch || num > 0).then(|| info(PortState::Active)),
        guid: Guid(guid(at).0 + u64::from(num)),
        ..FoundPort::default()
    };
    Found {
        info: NodeInfo {
            kind,
            node_guid: guid(at),
            port_count: ports,
            system_guid: guid(at),
            vendor_id: 0,
            device_id: 0,
            revision: 0,
            partition_cap: 1,
            port_guid: Guid(guid(at).0 + u64::from(!is_switch)),
            local_port: 1,
            base_version: 1,
            class_version: 1,
        },
        route,
        description: format!("n{at}"),
        switch: is_switch.then(|| SwitchInfo {
            linear_cap: 64,
            linear_top: Lid(9),
            ..SwitchInfo::default()
        }),
        ports: (0..=ports).map(seen).collect(),
        left_out: None,
    }
}

/// Returns the snapshot of the found nodes. The manager is on the near host.
pub fn inventory(found: Vec<Found>) -> Inventory {
    Inventory::build(found, (NEAR, port(1))).unwrap()
}

/// Returns a plan without LIDs.
pub fn empty_plan() -> Plan {
    Plan {
        generation: Generation(1),
        engine: EngineName("none".to_owned()),
        lids: Lids::new(),
        tables: Tables::new(3, Lid(1)),
        service_levels: ServiceLevels::default(),
        sl_to_vl: SlToVl::default(),
        lanes: 1,
        lane_tables: None,
        ports: BTreeMap::new(),
        end_ports: BTreeMap::new(),
        switches: IdxVec::new(),
    }
}
