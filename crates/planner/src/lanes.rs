//! Lanes: which service level each destination has, how many lanes routes use, which lane tables must be read before a
//! plan, and which known lane tables stay known after a sweep.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::{Fabric, NodeIdx, PortCapability, PortRef, PortSettings};
use selvedge_plan::qos::{PlannedQos, QosPolicy};
use selvedge_plan::{
    EngineName, HeldLanes, LanePorts, LaneTable, LaneTables, Lids, MulticastLane, Plan, Policy, ServiceLevels, SlToVl,
    has_sl_mapping, link_lanes, own_row, ports_in_use, tables_of,
};
use selvedge_routing::{Engine, LaneUse};
use selvedge_types::{Lid, PortNum, PortState, Sl, Vl};

use crate::damage::Returned;
use crate::event::PlanEvent;
use crate::qos::layers_beside;

/// Returns service levels by destination. Hosts of one switch share most links, so they get different lanes. So do
/// hosts at the same port of different switches, which share the other links in regular fabrics.
///
/// A level depends only on the LID of the destination, its switch port and the LID of that switch. So it stays the same
/// when other parts of the fabric change and when the manager restarts, and need not be stored.
pub(crate) fn levels(fabric: &Fabric, lids: &Lids, lanes: u8) -> ServiceLevels {
    let lanes = u32::from(lanes.clamp(1, 15));
    let mut levels = vec![Sl::default(); lids.top().index() + 1];
    for (lid, at) in lids.by_lid() {
        let base = lids.base(at).unwrap_or(lid);
        let offset = u32::from(lid.0.wrapping_sub(base.0));
        let (switch, port) = match fabric.peer(at) {
            Some(peer) if at.port != PortNum::MANAGEMENT => (peer.node, peer.port),
            _ => (at.node, PortNum::MANAGEMENT),
        };
        let of_switch = lids.base(PortRef {
            node: switch,
            port: PortNum::MANAGEMENT,
        });
        let number = mixed(of_switch.unwrap_or(Lid::NONE)) + u32::from(port.get()) + offset;
        if let (Some(slot), Ok(sl)) = (levels.get_mut(lid.index()), u8::try_from(number % lanes)) {
            *slot = Sl::new(sl).unwrap_or_default();
        }
    }
    ServiceLevels::PerDestination(levels)
}

/// Spreads LIDs evenly. LIDs of neighbours often differ by a constant, so plain remainders would repeat too soon.
/// Multiplication by 2^32 / golden ratio avoids that (Knuth, The Art of Computer Programming 3, §6.4).
const fn mixed(lid: Lid) -> u32 {
    (lid.0 as u32).wrapping_mul(0x9E37_79B1) >> 20
}

/// The lanes of routes and of multicast copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// Number of lanes that routes may use: lane 0 and the lanes after it.
    pub routes: u8,
    /// The lane of multicast copies, if they have a lane of their own.
    pub copies: Option<Vl>,
}

/// Returns how many lanes routes may use, and whether multicast copies have a lane of their own.
///
/// Routes use one lane, unless the policy assumes that all senders use the service levels that they get. Then routes
/// use as many lanes as every link has, because a packet on a lane that some link lacks leaves the proved lane. Copies
/// get one lane more if links can have it, otherwise the last lane of the routes. Copies get no lane that routes
/// `in_force` use, because senders with an old path record still use its service level. The policy may demand it
/// nevertheless (`routing.multicast_lane`).
pub(crate) fn to_use(fabric: &Fabric, policy: &Policy, in_force: u8) -> Use {
    let shared = |routes| Use { routes, copies: None };
    if !policy.assume_sl_aware {
        return shared(1);
    }
    let of_port = |at: PortRef| {
        let seen = fabric
            .port(at)
            .filter(|_| has_sl_mapping(fabric.node(at.node), at.port));
        seen.map_or(1, |seen| PortCapability::lanes_of_code(seen.capability.vls).max(1))
    };
    let up = fabric.links().filter(|link| fabric.link_is_up(link.a));
    let fewest = up
        .flat_map(|link| [of_port(link.a), of_port(link.b)])
        .min()
        .unwrap_or(1);
    let most = policy.used_lanes.min(fewest).min(layers_beside(policy));
    let most = most.clamp(1, 15);
    if policy.copies_level().is_none() || most < 2 {
        return shared(most);
    }
    let (insists, can_give) = (policy.multicast_lane == MulticastLane::Own, most > THREE);
    let routes = match policy.link_lanes().min(fewest) > most {
        true => most,
        false if insists || can_give => most - 1,
        false => return shared(most),
    };
    if in_force > routes && !insists {
        return shared(most);
    }
    Use {
        routes,
        copies: Vl::new(routes),
    }
}

/// Smallest number of lanes that must remain for routes if one of their lanes is taken for multicast copies. With two
/// lanes `dfsssp` finds routes for a quarter of the fabrics that it can route with four; with three lanes, for three
/// quarters.
const THREE: u8 = 3;

/// Returns the smallest OperationalVLs code with this many lanes.
pub(crate) fn code_for(lanes: u8) -> u8 {
    (1..=5)
        .find(|&code| PortCapability::lanes_of_code(code) >= lanes)
        .unwrap_or(5)
}

/// Returns the most lanes that the policy allows for routes.
pub const fn wanted(policy: &Policy) -> u8 {
    match policy.assume_sl_aware {
        true => policy.used_lanes,
        false => 1,
    }
}

/// The lanes of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    /// Number of lanes that the proof depends on.
    pub lanes: u8,
    /// Service levels that the proof depends on.
    pub relied_on: ServiceLevels,
    /// Planned lane tables of the ports. `None` if no lanes are used and no tables of earlier use are known.
    pub tables: Option<LaneTables>,
}

impl Levels {
    /// Adds quality of service. Its tables say which lanes are used; hosts that ask get their service level from it and
    /// from the layer of the destination if the proof depends on layers.
    pub(crate) fn add(&mut self, planned: Option<PlannedQos>) {
        let Some(planned) = planned else { return };
        let levels = match self.lanes > 1 {
            true => self.relied_on.clone(),
            false => ServiceLevels::default(),
        };
        self.tables = Some(LaneTables {
            lanes: self.lanes,
            copies: None,
            levels,
            qos: Some(Arc::new(planned)),
        });
    }
}

/// Returns the lanes of routes that an engine made with these lanes and levels. If the engine uses lanes only to spread
/// packets, its levels are dropped, so that its routes are proved for any level that senders use.
pub(crate) fn of_routes(
    fabric: &Fabric,
    (policy, to_use): (&Policy, Use),
    lids: &Lids,
    held: &HeldLanes,
    (engine, lanes, made): (&EngineName, u8, ServiceLevels),
) -> Levels {
    let uses = Engine::try_from(engine).map_or(LaneUse::One, Engine::lanes);
    let needs_none = matches!(uses, LaneUse::ToSpread { .. });
    // Tables of a file may rely on any lane.
    let copies = to_use.copies.filter(|own| needs_none || own.get() >= lanes);
    if lanes > 1 && !needs_none {
        let tables = LaneTables {
            lanes,
            copies,
            levels: made.clone(),
            qos: None,
        };
        return Levels {
            lanes,
            relied_on: made,
            tables: Some(tables),
        };
    }
    let used = copies.map_or(policy.used_lanes, Vl::get).clamp(1, 15);
    let tables = (used > 1 || copies.is_some() || !held.is_empty()).then(|| LaneTables {
        lanes: used,
        copies,
        levels: levels(fabric, lids, used),
        qos: None,
    });
    Levels {
        lanes: 1,
        relied_on: if needs_none { ServiceLevels::default() } else { made },
        tables,
    }
}

/// Returns the lane map of the rows in force. For an unknown row, the row of the plan counts.
pub(crate) fn map_in_force(fabric: &Fabric, plan: &Plan, held: &HeldLanes) -> SlToVl {
    let mut map = plan.sl_to_vl.clone();
    for (switch, &node) in fabric.switches().iter_enumerated() {
        let in_use = ports_in_use(fabric, plan, node);
        for table in tables_of(fabric, node, &in_use) {
            let LaneTable::SlToVl { port, ingress } = table else {
                continue;
            };
            let row = held.row(fabric.node(node).guid, port.port, ingress);
            if let Some(row) = row.filter(|row| **row != map.default && !has_same_layers(plan, row)) {
                map.exceptions.insert((switch, ingress, port.port), *row);
            }
        }
    }
    map
}

/// True if a row of quality of service puts each service level on a lane of the layer that the plan was proved with:
/// lanes of classes stand side by side, each with the layers in the same order.
fn has_same_layers(plan: &Plan, row: &[Vl; Sl::COUNT]) -> bool {
    let Some(qos) = plan.lane_tables.as_ref().and_then(|tables| tables.qos.as_ref()) else {
        return false;
    };
    let mut levels = qos.promises.iter().flat_map(|promise| &promise.levels);
    levels.all(|sl| {
        let at = usize::from(sl.get());
        row[at] != Vl::MANAGEMENT && row[at].get() % plan.lanes.max(1) == plan.sl_to_vl.default[at].get()
    })
}

/// Returns the event that counts links with fewer lanes than planned, if there are any.
pub(crate) fn short(fabric: &Fabric, policy: &Policy, settings: &BTreeMap<PortRef, PortSettings>) -> Option<PlanEvent> {
    let lanes = policy.used_lanes;
    let has = |at: PortRef| settings.get(&at).map(link_lanes).filter(|&has| has < lanes);
    let mut links = fabric.links().filter_map(|link| Some((link.a, has(link.a)?)));
    let (first, has) = links.next()?;
    Some(PlanEvent::LanesShort {
        lanes,
        links: 1 + links.count(),
        first: (fabric.port_name(first), has),
    })
}

/// Returns the lane tables that must be read before a plan can be compared with them: those of switches that forward,
/// those of hosts that send, and the row of each switch from port 0 to itself, which no plan writes. Tables of new
/// nodes are written without reading.
pub fn unread(fabric: &Fabric, policy: &Policy, held: &HeldLanes) -> Vec<LaneTable> {
    let mut todo = Vec::new();
    if policy.used_lanes <= 1 && policy.qos.is_none() {
        return todo;
    }
    let ports_of = match policy.qos.as_deref() {
        Some(QosPolicy::OpenSm(_)) => LanePorts::as_opensm,
        Some(QosPolicy::Classes(_)) | None => LanePorts::linked,
    };
    for node in fabric.nodes().indices() {
        let n = fabric.node(node);
        let is_live = |port: &PortNum| {
            let state = n.port(*port).map(|seen| seen.link.state);
            n.is_switch() || state == Some(PortState::Active)
        };
        let is_known = |table: &LaneTable| match table {
            LaneTable::SlToVl { port, ingress } => held.row(n.guid, port.port, *ingress).is_some(),
            LaneTable::Arbitration { port, block } => held.turns(n.guid, port.port, *block).is_some(),
        };
        let own = own_row(fabric, node).filter(|table| !is_known(table));
        if n.is_switch() && n.switch_settings.linear_top == 0 {
            todo.extend(own);
            continue;
        }
        let up = n.external_ports().map(|(port, _)| port);
        let up: Vec<PortNum> = up
            .filter(|&port| fabric.link_is_up(PortRef { node, port }))
            .filter(is_live)
            .collect();
        let ports = ports_of(n, up);
        todo.extend(own.filter(|own| !ports.egress.contains(&own.port().port)));
        todo.extend(tables_of(fabric, node, &ports).filter(|table| !is_known(table)));
    }
    // Consecutive requests go to different agents.
    let mut numbered: Vec<(usize, LaneTable)> = Vec::with_capacity(todo.len());
    for of_node in todo.chunk_by(|a, b| a.port().node == b.port().node) {
        numbered.extend(of_node.iter().copied().enumerate());
    }
    numbered.sort_unstable_by_key(|&(number, table)| std::cmp::Reverse((number, table)));
    numbered.into_iter().map(|(_, table)| table).collect()
}

/// Returns the lane tables in `written` that are still known in `fabric`: those of nodes that have the same MasterSMLID
/// as in `old` and were not reset since. `old` is the fabric after the manager wrote the tables.
pub(crate) fn carried(written: &Arc<HeldLanes>, old: &Fabric, fabric: &Fabric) -> Arc<HeldLanes> {
    let mut held = Arc::clone(written);
    if held.is_empty() {
        return held;
    }
    let sm_lid = |fabric: &Fabric, at: PortRef| fabric.port(at).map(|port| port.settings.sm_lid);
    let is_ours = |at: PortRef| {
        let before = old.find(fabric.node(at.node).guid);
        let before = before.map(|node| PortRef { node, ..at });
        before.is_some_and(|before| sm_lid(old, before) == sm_lid(fabric, at))
    };
    let known = Arc::make_mut(&mut held);
    known.retain(|guid| fabric.find(guid).is_some() && old.find(guid).is_some());
    for node in fabric.nodes().indices() {
        let n = fabric.node(node);
        for (port, seen) in n.all_ports() {
            let at = PortRef { node, port };
            let is_end = !n.is_switch() || port == PortNum::MANAGEMENT;
            let was_reset = match n.is_switch() {
                true => n.switch_settings.linear_top == 0 || is_trained_anew(old, fabric, node),
                // The node behind the link may have been powered off and on.
                false => seen.link.state != PortState::Active || has_gone_back(old, fabric, at),
            };
            if is_end && (was_reset || !is_ours(at)) {
                known.forget_port(n, port);
            }
        }
    }
    held
}

/// True if a link of a switch went down and came up. The switch may have been off while the link was down. It may have
/// its old LID and LinearFDBTop nevertheless, from Sets that were in flight when it came back.
fn is_trained_anew(old: &Fabric, now: &Fabric, node: NodeIdx) -> bool {
    let switch = now.node(node);
    let mut ports = switch.external_ports();
    old.find(switch.guid).is_none() || ports.any(|(port, _)| has_gone_back(old, now, PortRef { node, port }))
}

/// True if a link went down and came up: one end had a higher port state and is now in INIT. One end is enough, because
/// a Set may have changed the other end since.
fn has_gone_back(old: &Fabric, now: &Fabric, at: PortRef) -> bool {
    let state = |fabric: &Fabric, at: PortRef| fabric.port(at).map(|port| port.link.state);
    let before = |at: PortRef| {
        let node = old.find(now.node(at.node).guid)?;
        state(old, PortRef { node, ..at })
    };
    let was_set = |at: PortRef| matches!(before(at), Some(PortState::Armed | PortState::Active));
    let mut ends = [Some(at), now.peer(at)].into_iter().flatten();
    ends.any(|end| was_set(end) && state(now, end) == Some(PortState::Init))
}

/// Returns the lane tables that are still known after links have come back. Hosts behind these links may have been
/// powered off and on.
pub(crate) fn without(held: &Arc<HeldLanes>, fabric: &Fabric, returned: &[Returned]) -> Arc<HeldLanes> {
    if held.is_empty() {
        return Arc::clone(held);
    }
    let mut left = Arc::clone(held);
    let ends = returned.iter().flat_map(|back| [back.near.0, back.far.0]);
    for at in ends.filter(|at| !fabric.node(at.node).is_switch()) {
        Arc::make_mut(&mut left).forget_port(fabric.node(at.node), at.port);
    }
    left
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_types::{Guid, LidRange, Lmc, NodeKind, PhysState};

    use super::*;

    /// Returns the levels of the hosts of one switch, by port.
    fn of_hosts(hosts: u8, lanes: u8) -> Vec<u8> {
        let mut builder = FabricBuilder::new();
        let switch = builder.add(Node::new(NodeKind::Switch, Guid(1), hosts, "s"));
        for host in 1..=hosts {
            let key = builder.add(Node::new(NodeKind::Ca, Guid(100 + u64::from(host)), 1, "h"));
            let port = |num| PortNum::new(num).unwrap();
            builder.link((switch, port(host)), (key, port(1))).unwrap();
        }
        let fabric = builder.finish().unwrap();
        let mut lids = Lids::new();
        for ((at, _), lid) in fabric.end_ports().zip(7..) {
            let range = LidRange {
                base: Lid(lid),
                lmc: Lmc::ZERO,
            };
            lids.insert(at, range).unwrap();
        }
        let levels = levels(&fabric, &lids, lanes);
        let hosts = fabric.end_ports().filter(|(at, _)| at.port != PortNum::MANAGEMENT);
        hosts.map(|(at, _)| levels.to(lids.base(at).unwrap()).get()).collect()
    }

    #[test]
    fn hosts_of_a_switch_are_spread_evenly() {
        for (hosts, lanes) in [(4, 4), (9, 4), (15, 15), (30, 8), (3, 1)] {
            let mut uses: BTreeMap<u8, usize> = BTreeMap::new();
            for level in of_hosts(hosts, lanes) {
                assert!(level < lanes);
                *uses.entry(level).or_default() += 1;
            }
            let most = uses.values().max().copied().unwrap();
            assert_eq!(most, usize::from(hosts).div_ceil(usize::from(lanes)), "{hosts} {lanes}");
        }
    }

    /// Returns two switches with this OperationalVLs code at their ports.
    fn linked(code: u8) -> Fabric {
        let mut builder = FabricBuilder::new();
        let port = PortNum::new(1).unwrap();
        let keys = [1, 2].map(|guid| {
            let mut switch = Node::new(NodeKind::Switch, Guid(guid), 1, "s");
            for num in [PortNum::MANAGEMENT, port] {
                let port = switch.port_mut(num).unwrap();
                (port.capability.vls, port.capability.mask) = (code, 1 << 6);
                port.link.state = PortState::Active;
                port.link.phys = PhysState::LinkUp;
            }
            builder.add(switch)
        });
        builder.link((keys[0], port), (keys[1], port)).unwrap();
        builder.finish().unwrap()
    }

    /// Rows that no plan writes are read from every switch, including a new one with other tables that are written
    /// without reading.
    #[test]
    fn rows_that_nobody_writes_are_read_everywhere() {
        let check = |used: u8, top: u16, known: &[u64], want: (usize, usize)| {
            let mut fabric = linked(3);
            for node in [NodeIdx(0), NodeIdx(1)] {
                let settings = fabric.node(node).switch_settings;
                let linear_top = top;
                fabric.set_switch(node, selvedge_fabric::SwitchSettings { linear_top, ..settings });
            }
            let policy = Policy {
                used_lanes: used,
                ..Policy::default()
            };
            let mut held = HeldLanes::default();
            for &guid in known {
                let own = PortNum::MANAGEMENT;
                held.learn_rows(
                    Guid(guid),
                    own,
                    selvedge_plan::LaneRows::From(own),
                    1,
                    [Vl::default(); Sl::COUNT],
                );
            }
            let (own, others): (Vec<_>, Vec<_>) = unread(&fabric, &policy, &held)
                .into_iter()
                .partition(|table| table.port().port == PortNum::MANAGEMENT);
            assert_eq!((own.len(), others.len()), want, "{used} {top} {known:?}");
        };
        check(1, 9, &[], (0, 0));
        check(4, 0, &[], (2, 0));
        check(4, 0, &[2], (1, 0));
        // Tables of the only port of each: two VL arbitration blocks, and the rows from port 0 and from the port
        // itself.
        check(4, 9, &[], (2, 8));
        check(4, 9, &[1, 2], (0, 8));
    }

    #[test]
    fn copies_get_a_spare_lane_or_the_last_of_four_and_more() {
        use MulticastLane::{Auto, Own, Shared};
        let check = |code: u8, used: u8, lane: MulticastLane, in_force: u8, want: (u8, Option<u8>)| {
            let policy = Policy {
                used_lanes: used,
                assume_sl_aware: true,
                multicast_lane: lane,
                ..Policy::default()
            };
            let found = to_use(&linked(code), &policy, in_force);
            let found = (found.routes, found.copies.map(Vl::get));
            assert_eq!(found, want, "VLCap {code}, {used} used, {lane:?}, {in_force} in force");
        };
        // VLCap 1 to 5: 1, 2, 4, 8 and 15 lanes.
        check(1, 4, Auto, 0, (1, None));
        check(2, 4, Auto, 0, (2, None));
        check(2, 2, Auto, 0, (2, None));
        check(2, 2, Own, 0, (1, Some(1)));
        check(3, 2, Auto, 0, (2, Some(2)));
        check(3, 3, Auto, 0, (3, Some(3)));
        check(3, 4, Auto, 0, (3, Some(3)));
        check(3, 4, Shared, 0, (4, None));
        check(3, 4, Auto, 3, (3, Some(3)));
        // The levels that senders use stay, unless the policy insists.
        check(3, 4, Auto, 4, (4, None));
        check(3, 4, Own, 4, (3, Some(3)));
        check(4, 4, Auto, 4, (4, Some(4)));
        check(5, 15, Auto, 0, (14, Some(14)));
        check(5, 14, Auto, 0, (14, Some(14)));
        check(4, 1, Auto, 0, (1, None));
    }

    #[test]
    fn a_link_that_was_active_and_is_not_yet_again_was_down() {
        let check = |before: PortState, now: PortState, want: bool| {
            let fabric = |state: PortState| {
                let mut builder = FabricBuilder::new();
                let port = PortNum::new(1).unwrap();
                let mut switch = Node::new(NodeKind::Switch, Guid(1), 1, "s");
                switch.port_mut(port).unwrap().link.state = state;
                let mut host = Node::new(NodeKind::Ca, Guid(2), 1, "h");
                // Its state was restored by a Set that was in flight.
                host.port_mut(port).unwrap().link.state = PortState::Active;
                let keys = [builder.add(switch), builder.add(host)];
                builder.link((keys[0], port), (keys[1], port)).unwrap();
                builder.finish().unwrap()
            };
            let (old, new) = (fabric(before), fabric(now));
            let [switch, host] = [1, 2].map(|guid| new.find(Guid(guid)).unwrap());
            assert_eq!(is_trained_anew(&old, &new, switch), want, "{before:?} {now:?}");
            let port = PortNum::new(1).unwrap();
            assert_eq!(has_gone_back(&old, &new, PortRef { node: host, port }), want);
        };
        use PortState::{Active, Armed, Down, Init};
        check(Active, Active, false);
        check(Active, Init, true);
        check(Armed, Init, true);
        check(Active, Down, false);
        check(Init, Init, false);
    }
}
