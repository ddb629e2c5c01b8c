//! Directed routes in both directions, LID routes along installed tables, and every reason for a loss.

use crate::common::*;
use selvedge_emulator::DropReason;
use selvedge_types::{Guid, Lid, PhysState, PortState, Sl};
use selvedge_wire::{
    Address, AttributeId, Class, ClassPortInfo, Datagram, DirectedRoute, LinearForwardingTable, Mad, Method, NodeInfo,
    SwitchInfo,
};

#[test]
fn directed_routes_lead_there_and_back() {
    let check = |path: &[u8], guid: u64, local_port: u8| {
        let mut world = World::new();
        let info: NodeInfo = world.get(path, 0).unwrap();
        assert_eq!((info.node_guid, info.local_port), (Guid(guid), local_port), "{path:?}");
        world.audit();
    };
    check(TO_H0, 0x100, 1);
    check(TO_S, 0x10, 1);
    check(TO_H1_1, 0x110, 1);
    check(TO_H1_2, 0x110, 2);
    check(TO_T, 0x20, 3);
    check(&[1, 4], 0x20, 4);
    check(&[1, 3, 4], 0x10, 4);
    check(TO_H2, 0x120, 1);
    check(&[1, 1], 0x100, 1);
    // 63 hops to and fro.
    let long: Vec<u8> = [1].into_iter().chain([3, 4].into_iter().cycle().take(62)).collect();
    check(&long, 0x10, 4);
}

#[test]
fn a_directed_answer_shows_the_way_back() {
    let mut world = World::new();
    let mad = world
        .ask(Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(TO_H2)))
        .unwrap();
    assert!(mad.is_returning());
    assert_eq!((mad.hop_pointer(), mad.hop_count()), (0, 3));
    assert_eq!([mad.return_path(1), mad.return_path(2), mad.return_path(3)], [1, 3, 1]);
}

#[test]
fn directed_routes_that_lead_nowhere() {
    let check = |path: &[u8], change: &dyn Fn(&mut Mad), reason: DropReason| {
        let mut world = World::new();
        let mut mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(path));
        change(&mut mad);
        assert_eq!(world.ask(mad), Err(NO_ANSWER), "{path:?}");
        assert_eq!(
            world.emu.counts().drops(reason),
            1,
            "{path:?}: {:?}",
            world.emu.counts()
        );
        world.audit();
    };
    let unchanged = |_: &mut Mad| {};
    check(&[2], &unchanged, DropReason::NoSuchPort);
    check(&[1, 0], &unchanged, DropReason::NoSuchPort);
    check(&[1, 200], &unchanged, DropReason::NoSuchPort);
    check(&[1, 5], &unchanged, DropReason::LinkDown);
    check(&[1, 2, 2], &unchanged, DropReason::NotASwitch);
    check(&[1], &|m| m.set_hop_pointer(1), DropReason::Malformed);
    check(&[1], &|m| m.as_bytes_mut()[7] = 64, DropReason::Malformed);
    check(&[1], &|m| m.as_bytes_mut()[0] = 2, DropReason::Malformed);
    check(TO_H2, &|m| m.set_dr_dlid(Lid(3)), DropReason::NotASwitch);
    check(TO_S, &|m| m.set_dr_dlid(Lid(3)), DropReason::NoPath);
}

#[test]
fn parts_of_a_route_may_go_by_lid() {
    // (LID of the first part, directed part, LID of the last part, node)
    let check = |first: Option<u16>, path: &[u8], last: Option<u16>, guid: u64| {
        let mut world = World::configured();
        let mut mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(path));
        let mut address = Address::DIRECTED;
        if let Some(lid) = first {
            mad.set_dr_slid(Lid(H0));
            address = Address::smi(Lid(lid));
        }
        if let Some(lid) = last {
            mad.set_dr_dlid(Lid(lid));
        }
        let answer = world.ask_at(Datagram { address, mad }).unwrap();
        assert_eq!(
            answer.read::<NodeInfo>().unwrap().node_guid,
            Guid(guid),
            "{first:?} {path:?} {last:?}"
        );
        world.audit();
    };
    check(Some(T), &[1], None, 0x120);
    check(Some(S), &[4, 2], None, 0x110);
    check(None, &[1], Some(H2), 0x120);
    check(None, &[1, 3], Some(T), 0x20);
    check(Some(S), &[3], Some(H1_2), 0x110);
    check(Some(S), &[3], Some(S), 0x10);
}

#[test]
fn lid_routes_follow_the_installed_tables() {
    let mut world = World::configured();
    for (lid, guid, local_port) in [
        (H0, 0x100, 1),
        (S, 0x10, 1),
        (T, 0x20, 3),
        (H1_1, 0x110, 1),
        (H1_2, 0x110, 2),
        (H2, 0x120, 1),
    ] {
        let info: NodeInfo = world.get_by_lid(lid, 0).unwrap();
        assert_eq!((info.node_guid, info.local_port), (Guid(guid), local_port), "LID {lid}");
    }
    // The other parallel link, once the table says so.
    world.install(TO_S, &[255, 1, 0, 4, 2, 4, 4]);
    let info: NodeInfo = world.get_by_lid(T, 0).unwrap();
    assert_eq!(info.local_port, 4);
    world.audit();
}

#[test]
fn lid_routes_that_lead_nowhere() {
    let check = |s_table: &[u8], t_table: &[u8], lid: u16, reason: DropReason| {
        let mut world = World::configured();
        world.install(TO_S, s_table);
        world.install(TO_T, t_table);
        assert_eq!(world.get_by_lid::<NodeInfo>(lid, 0), Err(NO_ANSWER));
        assert_eq!(
            world.emu.counts().drops(reason),
            1,
            "{reason}: {:?}",
            world.emu.counts()
        );
        world.audit();
    };
    let (s, t) = ([255, 1, 0, 3, 2, 4, 3], [255, 3, 3, 0, 4, 2, 1]);
    check(&[255, 1, 0, 3, 2, 4, 255], &t, H2, DropReason::NoPath);
    // Above LinearFDBTop nothing is looked up, whatever the table holds.
    check(&s[..6], &t, H2, DropReason::NoPath);
    check(&s, &t, 7, DropReason::NoPath);
    check(&s, &t, 0xC000, DropReason::NoPath);
    check(&[255, 1, 0, 3, 2, 4, 9], &t, H2, DropReason::NoSuchPort);
    check(&[255, 1, 0, 3, 2, 4, 5], &t, H2, DropReason::LinkDown);
    check(&[255, 1, 0, 3, 2, 4, 0], &t, H2, DropReason::WrongLid);
    check(&[255, 1, 0, 3, 2, 4, 2], &t, H2, DropReason::WrongLid);
    check(&[255, 1, 0, 3, 2, 4, 1], &t, H2, DropReason::TurnedBack);
    check(&s, &[255, 3, 3, 0, 4, 2, 4], H2, DropReason::HopLimit);
}

#[test]
fn gmps_pass_active_ports_only() {
    let ask = |world: &mut World| world.gmp(T, Method::Get, &ClassPortInfo::default());
    let check = |path: &[u8], num: u8, dropped: u64| {
        let mut world = World::configured();
        ask(&mut world).unwrap();
        // The port that leads to it goes down, comes back, and is not activated.
        world.change_port(path, num, |info| info.phys_state = Some(PhysState::Polling));
        world.pass(20);
        let info: selvedge_wire::PortInfo = world.get(path, u32::from(num)).unwrap();
        assert_eq!(info.state, Some(PortState::Init));
        assert_eq!(ask(&mut world).is_err(), dropped > 0);
        assert_eq!(world.emu.counts().drops(DropReason::NotActive), dropped);
        // SMPs pass.
        world.get_by_lid::<NodeInfo>(T, 0).unwrap();
        world.audit();
    };
    check(TO_S, 3, 1);
    check(TO_T, 3, 1);
    check(TO_S, 4, 0);
}

#[test]
fn before_any_configuration_nothing_goes_by_lid() {
    let mut world = World::new();
    assert_eq!(world.get_by_lid::<SwitchInfo>(S, 0), Err(NO_ANSWER));
    let mad = Mad::request(Class::PerfMgt, Method::Get, AttributeId::CLASS_PORT_INFO, 0);
    let address = Address::gsi(Lid(S), Sl::default());
    assert_eq!(world.ask_at(Datagram { address, mad }), Err(NO_ANSWER));
    world.audit();
}

#[test]
fn tables_can_be_read_back() {
    let world = World::configured();
    let chassis = world.emu.chassis();
    let tables = chassis.tables();
    assert_eq!(tables.top(), Lid(6));
    let s = selvedge_fabric::SwitchIdx(0);
    assert_eq!(
        (0..=7).map(|lid| tables.get(s, Lid(lid))).collect::<Vec<_>>(),
        [255, 1, 0, 3, 2, 4, 3, 255]
    );
    let installed = chassis.installed();
    assert_eq!(installed.get(s, Lid(6)), Some(3));
    assert_eq!(installed.block(s, 1), None);
    let seen = chassis.observe();
    let h2 = seen.find(Guid(0x120)).unwrap();
    let h2_port = seen.node(h2).port(port(1)).unwrap();
    assert_eq!(h2_port.settings.lids.base, Lid(H2));
    assert_eq!(h2_port.link.state, PortState::Active);
    assert_eq!(seen.links().count(), 6);
}

#[test]
fn an_empty_block_drops() {
    assert_eq!(LinearForwardingTable::EMPTY.ports[0], selvedge_plan::NO_PATH);
    assert_eq!(DirectedRoute::MAX_HOPS, 63);
}
