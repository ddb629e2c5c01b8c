//! Discovery of hand-made fabrics.

use std::collections::VecDeque;

use selvedge_types::PortState;
use selvedge_wire::{ExtLinkSpeeds, Method};

use super::*;

/// A node of a made-up fabric: its GUID, its kind, and the cables at its ports.
#[derive(Clone, Debug)]
struct Made {
    guid: u64,
    kind: NodeKind,
    /// Position = port number: the peer as (node, port).
    cables: Vec<Option<(usize, u8)>>,
    /// PortInfo of this port is answered with an error.
    mute: Option<u8>,
    /// Under which condition it shows NDR; `None`: it has no extended speeds.
    ndr: Option<Shown>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    ToAll,
    ToThoseWhoKnow,
}

fn switch(guid: u64, ports: usize) -> Made {
    Made {
        guid,
        kind: NodeKind::Switch,
        cables: vec![None; ports + 1],
        mute: None,
        ndr: None,
    }
}

fn host(guid: u64) -> Made {
    Made {
        guid,
        kind: NodeKind::Ca,
        cables: vec![None; 2],
        mute: None,
        ndr: None,
    }
}

/// Returns the number of cable ends that discovery found.
fn links(discovery: &Discovery) -> usize {
    let ports = discovery.found.iter().flat_map(|found| &found.ports);
    ports.filter(|port| port.peer.is_some()).count()
}

fn cable(nodes: &mut [Made], a: (usize, u8), b: (usize, u8)) {
    nodes[a.0].cables[usize::from(a.1)] = Some(b);
    nodes[b.0].cables[usize::from(b.1)] = Some(a);
}

/// Returns the node at the end of a directed route that begins at port 1 of node 0, and the port by which the route
/// enters it.
fn follow(nodes: &[Made], route: &DirectedRoute) -> (usize, u8) {
    let start = (0, u8::from(nodes[0].kind != NodeKind::Switch));
    route
        .ports()
        .iter()
        .fold(start, |(node, _), &exit| nodes[node].cables[usize::from(exit)].unwrap())
}

fn answer(nodes: &[Made], request: &Request) -> Mad {
    let (node, entered) = follow(nodes, &request.route);
    let made = &nodes[node];
    let mut mad = Mad::directed(Method::GetResp, request.attribute, request.modifier, &request.route);
    match request.attribute {
        AttributeId::NODE_INFO => mad.write(&NodeInfo {
            base_version: 1,
            class_version: 1,
            kind: made.kind,
            port_count: u8::try_from(made.cables.len() - 1).unwrap(),
            system_guid: Guid(1),
            node_guid: Guid(made.guid),
            port_guid: Guid(made.guid + 1),
            partition_cap: 1,
            device_id: 0,
            revision: 0,
            local_port: entered,
            vendor_id: 0,
        }),
        AttributeId::PORT_INFO => {
            let port = u8::try_from(request.modifier & !PortInfo::SM_SUPPORTS_EXTENDED_SPEEDS).unwrap();
            let knows = request.modifier & PortInfo::SM_SUPPORTS_EXTENDED_SPEEDS != 0;
            let shows = made.ndr == Some(Shown::ToAll) || knows && made.ndr.is_some();
            let is_end_port = made.kind != NodeKind::Switch || port == 0;
            let up = made.cables[usize::from(port)].is_some();
            mad.write(&PortInfo {
                state: Some(if up { PortState::Init } else { PortState::Down }),
                phys_state: Some(if up { PhysState::LinkUp } else { PhysState::Polling }),
                capabilities: match made.ndr.is_some() && is_end_port {
                    true => CapabilityMask::EXTENDED_SPEEDS,
                    false => CapabilityMask::default(),
                },
                ext_speed_supported: ExtLinkSpeeds::new(15).filter(|_| shows),
                ..PortInfo::default()
            });
            if made.mute == Some(port) {
                mad.set_status(selvedge_wire::Status::BAD_FIELD);
            }
        }
        AttributeId::NODE_DESCRIPTION => mad.write(&NodeDescription::new(&format!("n{node}"))),
        _ => {}
    }
    mad
}

fn walk(nodes: &[Made]) -> (Discovery, Vec<Event>) {
    let (discovery, events, _) = walk_and_count(nodes);
    (discovery, events)
}

/// Does the same as `walk`. Also returns the number of PortInfo Gets.
fn walk_and_count(nodes: &[Made]) -> (Discovery, Vec<Event>, usize) {
    let (mut discovery, mut events, mut requests) = (Discovery::new(false), Vec::new(), Vec::new());
    discovery.begin(&mut requests);
    let mut queue = VecDeque::from(requests);
    let mut gets = 0;
    while let Some(request) = queue.pop_front() {
        gets += usize::from(request.attribute == AttributeId::PORT_INFO);
        let mut more = Vec::new();
        discovery
            .answered(
                request.ask,
                &request.route,
                &answer(nodes, &request),
                &mut more,
                &mut events,
            )
            .unwrap();
        queue.extend(more);
    }
    (discovery, events, gets)
}

/// Checks a discovery: the GUIDs that it found, those that it left out, and the codes of its events.
fn check(nodes: &[Made], found: &[u64], left_out: &[u64], codes: &[&str]) -> Discovery {
    let (discovery, events) = walk(nodes);
    let guids = |left_out: bool| {
        let mut guids: Vec<u64> = discovery
            .found
            .iter()
            .filter(|f| f.left_out.is_some() == left_out)
            .map(|f| f.info.node_guid.0)
            .collect();
        guids.sort_unstable();
        guids
    };
    assert_eq!(
        (guids(false), guids(true)),
        (found.to_vec(), left_out.to_vec()),
        "{events:?}"
    );
    assert_eq!(events.iter().map(Event::code).collect::<Vec<_>>(), codes, "{events:?}");
    discovery
}

#[test]
fn every_node_and_cable_once() {
    let mut nodes = vec![host(10), switch(20, 4), switch(30, 4), host(40)];
    cable(&mut nodes, (0, 1), (1, 1));
    cable(&mut nodes, (1, 3), (2, 3));
    cable(&mut nodes, (1, 4), (2, 4));
    cable(&mut nodes, (2, 1), (3, 1));
    let discovery = check(&nodes, &[10, 20, 30, 40], &[], &[]);
    assert_eq!(links(&discovery), 2 * 4);
}

#[test]
fn of_two_hosts_with_one_guid_the_first_is_kept() {
    let mut nodes = vec![host(10), switch(20, 4), host(40), host(40)];
    cable(&mut nodes, (0, 1), (1, 1));
    cable(&mut nodes, (1, 2), (2, 1));
    cable(&mut nodes, (1, 3), (3, 1));
    let discovery = check(&nodes, &[10, 20, 40], &[], &["SLV-SM-0012"]);
    let leaf = discovery.found.iter().find(|f| f.info.node_guid == Guid(20)).unwrap();
    assert_eq!(
        (leaf.ports[2].trouble, leaf.ports[3].trouble),
        (None, Some(PortReason::DuplicateGuid))
    );
}

#[test]
fn of_two_switches_with_one_guid_none_is_kept_and_nobody_else_is_blamed() {
    // Two leaves with GUID 30 at the same ports of two spines.
    let mut nodes = vec![
        host(10),
        switch(20, 4),
        switch(21, 4),
        switch(30, 4),
        switch(30, 4),
        host(50),
    ];
    cable(&mut nodes, (0, 1), (1, 1));
    for (spine, leaf_port) in [(1, 1), (2, 2)] {
        cable(&mut nodes, (spine, 2), (3, leaf_port));
        cable(&mut nodes, (spine, 3), (4, leaf_port));
    }
    cable(&mut nodes, (1, 4), (2, 4));
    cable(&mut nodes, (3, 3), (5, 1));
    check(&nodes, &[10, 20, 21, 50], &[30], &["SLV-SM-0012"]);
}

#[test]
fn another_shape_is_another_node() {
    let mut nodes = vec![host(10), switch(20, 4), switch(30, 4), switch(30, 8)];
    cable(&mut nodes, (0, 1), (1, 1));
    cable(&mut nodes, (1, 2), (2, 1));
    cable(&mut nodes, (1, 3), (3, 1));
    let discovery = check(&nodes, &[10, 20, 30], &[], &["SLV-SM-0012"]);
    assert_eq!(links(&discovery), 2 * 2);
}

#[test]
fn a_cable_from_a_switch_to_itself() {
    let mut nodes = vec![host(10), switch(20, 4)];
    cable(&mut nodes, (0, 1), (1, 1));
    cable(&mut nodes, (1, 2), (1, 3));
    let discovery = check(&nodes, &[10, 20], &[], &[]);
    assert_eq!(links(&discovery), 2 * 2);
}

#[test]
fn a_switch_whose_own_port_says_nothing_is_left_out() {
    let mut nodes = vec![host(10), switch(20, 4), switch(30, 4)];
    cable(&mut nodes, (0, 1), (1, 1));
    cable(&mut nodes, (1, 2), (2, 1));
    nodes[2].mute = Some(0);
    check(&nodes, &[10, 20], &[30], &["SLV-SM-0010"]);
}

#[test]
fn a_route_has_63_hops_at_most() {
    let mut nodes = vec![host(10)];
    nodes.extend((0..70).map(|i| switch(100 + i, 2)));
    cable(&mut nodes, (0, 1), (1, 1));
    for i in 1..70 {
        cable(&mut nodes, (i, 2), (i + 1, 1));
    }
    let (discovery, events) = walk(&nodes);
    assert_eq!((discovery.found.len(), events.len()), (1 + 63, 0));
    assert_eq!(
        discovery.found.last().unwrap().ports[2].trouble,
        Some(PortReason::BeyondReach)
    );
}

/// Agents that show their extended speeds only to requests with bit 31 are asked once more; other agents are not. The
/// next node of the same make is asked with bit 31 at once.
#[test]
fn speeds_are_seen_wherever_they_are() {
    let check = |shown: Option<Shown>, asked: usize| {
        let mut nodes = vec![host(10), switch(20, 4), switch(30, 4), host(40)];
        cable(&mut nodes, (0, 1), (1, 1));
        cable(&mut nodes, (1, 2), (2, 1));
        cable(&mut nodes, (2, 2), (3, 1));
        for node in &mut nodes {
            node.ndr = shown;
        }
        let (discovery, _, gets) = walk_and_count(&nodes);
        let ports = discovery
            .found
            .iter()
            .flat_map(|found| &found.ports)
            .filter_map(|port| port.info);
        let seen = ports.filter(|info| info.ext_speed_supported.is_some()).count();
        assert_eq!((seen, gets), (if shown.is_some() { 12 } else { 0 }, asked), "{shown:?}");
    };
    check(None, 12);
    check(Some(Shown::ToAll), 12);
    // Every node here is of one make: the first host is asked twice, all others once.
    check(Some(Shown::ToThoseWhoKnow), 13);
}

/// Another block of P_Keys is requested if the last place of a block is used and the table has more.
#[test]
fn keys_are_read_block_by_block() {
    let mut nodes = vec![host(0x10), switch(0x20, 2)];
    cable(&mut nodes, (0, 1), (1, 1));
    let port = PortNum::new(1).unwrap();
    // The requested port (host, port 0 of the switch, or a switch port that enforces), and the number of keys in its
    // block.
    let check =
        |(node, port): (usize, PortNum), (room, enforced): (u16, u16), block: u16, keys: u16, want: Option<u32>| {
            let mut discovery = walk(&nodes).0;
            discovery.found[node].info.partition_cap = room;
            discovery.found[node].switch = discovery.found[node].switch.map(|switch| selvedge_wire::SwitchInfo {
                enforce_cap: enforced,
                ..switch
            });
            let (mut out, mut events) = (Vec::new(), Vec::new());
            let mut mad = Mad::directed(Method::GetResp, PKeyTable::ID, block.into(), &DirectedRoute::LOCAL);
            let mut table = PKeyTable::default();
            for (slot, key) in table.keys.iter_mut().zip(1..=keys) {
                *slot = selvedge_types::PKey(key);
            }
            mad.write(&table);
            let ask = Ask::PKeys(node, port, block);
            discovery
                .answered(ask, &DirectedRoute::LOCAL, &mad, &mut out, &mut events)
                .unwrap();
            let asked: Vec<u32> = out.iter().map(|request| request.modifier).collect();
            assert_eq!(
                asked,
                want.into_iter().collect::<Vec<_>>(),
                "{node} {port} {room} {block} {keys}"
            );
            let held = &discovery.found[node].ports[port.index()].pkeys;
            assert_eq!(held.len(), usize::from(32 * block + keys));
        };
    let (of_host, own) = ((0, port), (1, PortNum::MANAGEMENT));
    check(of_host, (128, 0), 0, 31, None);
    check(of_host, (128, 0), 0, 32, Some(1));
    check(of_host, (32, 0), 0, 32, None);
    check(of_host, (40, 0), 1, 8, None);
    check(of_host, (128, 0), 2, 32, Some(3));
    check(of_host, (128, 0), 3, 32, None);
    check(own, (64, 0), 0, 32, Some(1));
    check((1, port), (64, 32), 0, 32, None);
    check((1, port), (32, 64), 0, 32, Some(1 << 16 | 1));
}

#[test]
fn whom_nobody_can_make_out_is_asked_again() {
    // The ingress port that a host reports, which has one port.
    let mut nodes = vec![host(10), switch(20, 4), host(40)];
    cable(&mut nodes, (0, 1), (1, 1));
    nodes[1].cables[2] = Some((2, 17));
    let discovery = check(&nodes, &[10, 20], &[], &["SLV-SM-0011", "SLV-SM-0010"]);
    assert_eq!(discovery.found[1].ports[2].trouble, Some(PortReason::PeerSilent));
}

#[test]
fn a_link_that_repairs_itself_is_up_and_one_that_contradicts_itself_is_asked_again() {
    let mut nodes = vec![host(10), switch(20, 4)];
    cable(&mut nodes, (0, 1), (1, 1));
    // Whether discovery asks behind a port in these states, and the trouble that it records for the port.
    let check = |state, phys, want: bool, trouble: Option<PortReason>| {
        let mut discovery = walk(&nodes).0;
        let (mut out, mut events) = (Vec::new(), Vec::new());
        let port = PortNum::new(2).unwrap();
        let mut mad = Mad::directed(Method::GetResp, PortInfo::ID, 2, &DirectedRoute::LOCAL);
        let (state, phys_state) = (Some(state), Some(phys));
        mad.write(&PortInfo {
            state,
            phys_state,
            ..PortInfo::default()
        });
        let ask = Ask::Port(1, port);
        discovery.ended(ask, &DirectedRoute::LOCAL, Some(&mad), &mut out, &mut events);
        let codes: Vec<&str> = events.iter().map(Event::code).collect();
        let told: &[&str] = if trouble.is_none() {
            &[]
        } else {
            &["SLV-SM-0011", "SLV-SM-0010"]
        };
        let noted = discovery.found[1].ports[2].trouble;
        assert_eq!(
            (out.len(), noted, &codes[..]),
            (want.into(), trouble, told),
            "{state:?} {phys_state:?}"
        );
    };
    let silent = Some(PortReason::PeerSilent);
    check(PortState::Active, PhysState::LinkUp, true, None);
    check(PortState::Active, PhysState::Recovery, true, None);
    check(PortState::Active, PhysState::PhyTest, false, silent);
    check(PortState::Init, PhysState::Polling, false, silent);
    check(PortState::Down, PhysState::Polling, false, None);
    check(PortState::Down, PhysState::LinkUp, false, None);
}
