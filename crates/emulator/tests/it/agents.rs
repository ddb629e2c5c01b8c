//! Queues, M_Keys, clients, traps.

use crate::common::*;
use core::time::Duration;
use selvedge_chassis::Chassis;
use selvedge_emulator::{Delivery, DropReason, EmulatorConfig, EmulatorError};
use selvedge_sim::Time;
use selvedge_types::{Lid, PortState, Sl, TransactionId};
use selvedge_wire::{
    Address, AttributeId, Bits, Class, ClassPortInfo, Datagram, Mad, Method, NodeInfo, Notice, PortInfo, SmInfo, Trap,
};

fn ask_many(world: &mut World, count: u64, class: Class) {
    for tid in 0..count {
        let (address, mut mad) = if class == Class::PerfMgt {
            let mad = Mad::request(class, Method::Get, AttributeId::CLASS_PORT_INFO, 0);
            (Address::gsi(Lid(S), Sl::default()), mad)
        } else {
            let mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(TO_S));
            (Address::DIRECTED, mad)
        };
        mad.set_transaction(TransactionId(tid));
        world.emu.send(world.now, world.sm, &Datagram { address, mad });
    }
}

#[test]
fn a_full_queue_drops() {
    let check = |class: Class, sent: u64, answered: usize| {
        let mut world = World::configured();
        let (vl15, qp1) = dropped(world.emu.chassis(), &world);
        ask_many(&mut world, sent, class);
        let received = world.pass(1);
        assert_eq!(received.len(), answered);
        let tids: Vec<u64> = received.iter().map(|d| d.datagram.mad.transaction().0).collect();
        assert_eq!(
            tids,
            (0..answered as u64).collect::<Vec<_>>(),
            "first come, first served"
        );
        let overflow = sent - answered as u64;
        assert_eq!(world.emu.counts().drops(DropReason::QueueFull), overflow);
        let (vl15_after, qp1_after) = dropped(world.emu.chassis(), &world);
        match class.is_smp() {
            true => assert_eq!((vl15_after - vl15, qp1_after - qp1), (overflow, 0)),
            false => assert_eq!((vl15_after - vl15, qp1_after - qp1), (0, overflow)),
        }
        world.audit();
    };
    check(Class::SubnDirected, 16, 16);
    check(Class::SubnDirected, 17, 16);
    check(Class::SubnDirected, 40, 16);
    check(Class::PerfMgt, 20, 16);
}

fn dropped(chassis: &Chassis, world: &World) -> (u64, u64) {
    let counters = chassis.counters(world.port("S", 1));
    (counters.vl15_dropped, counters.qp1_dropped)
}

#[test]
fn an_agent_is_a_serial_server() {
    let config = EmulatorConfig {
        service_time: Duration::from_micros(10),
        link_delay: Duration::from_nanos(100),
        ..EmulatorConfig::default()
    };
    let mut world = World::with(&fabric(), config);
    ask_many(&mut world, 3, Class::SubnDirected);
    let at: Vec<u64> = world.pass(1).iter().map(|d| d.at.0).collect();
    assert_eq!(at, [10_200, 20_200, 30_200]);
    // A hop through a switch costs its delay in both directions.
    let mut world = World::with(&fabric(), config);
    world.get::<NodeInfo>(TO_T, 0).unwrap();
    let mut mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(TO_T));
    mad.set_transaction(TransactionId(1));
    let address = Address::DIRECTED;
    world.emu.send(world.now, world.sm, &Datagram { address, mad });
    let start = world.now;
    let received = world.pass(1);
    assert_eq!(received[0].at.0 - start.0, 10_000 + 2 * (2 * 100 + 500));
}

#[test]
fn a_longer_queue_holds_more() {
    let config = EmulatorConfig {
        queue_depth: 30,
        ..EmulatorConfig::default()
    };
    let mut world = World::with(&fabric(), config);
    ask_many(&mut world, 40, Class::SubnDirected);
    assert_eq!(world.pass(1).len(), 30);
}

#[test]
fn m_keys_with_protection_bits() {
    // At H2: key 5, protection bits, the key in the request, and whether Get, Set are answered and the key is shown.
    let check = |protect: u8, shown: u64, get: bool, set: bool, visible: bool| {
        let mut world = World::new();
        world.change_port(TO_H2, 1, |i| {
            (i.m_key, i.m_key_protect) = (5, Bits::saturating(protect))
        });
        world.m_key = shown;
        let found: Option<PortInfo> = world.get(TO_H2, 1).ok();
        assert_eq!(found.is_some(), get, "Get with {protect}, {shown}");
        if let Some(found) = found {
            assert_eq!(found.m_key, if visible { 5 } else { 0 }, "key with {protect}, {shown}");
        }
        let mut info: PortInfo = World::new().get(TO_H2, 1).unwrap();
        (info.m_key, info.m_key_protect, info.state) = (5, Bits::saturating(protect), None);
        (info.phys_state, info.gid_prefix) = (None, 77);
        assert_eq!(world.set(TO_H2, 1, &info).is_ok(), set, "Set with {protect}, {shown}");
        let held = *world.emu.chassis().port(world.port("H2", 1)).settings();
        assert_eq!(held.subnet_prefix == 77, set);
        let refused = u64::from(!get) + u64::from(!set);
        assert_eq!(world.emu.counts().drops(DropReason::BadMKey), refused);
        world.audit();
    };
    for protect in 0..=3 {
        check(protect, 5, true, true, true);
    }
    for wrong in [0, 6] {
        check(0, wrong, true, false, true);
        check(1, wrong, true, false, false);
        check(2, wrong, false, false, false);
        check(3, wrong, false, false, false);
    }
}

#[test]
fn the_key_of_port_0_guards_the_switch() {
    let mut world = World::new();
    world.change_port(TO_S, 0, |i| (i.m_key, i.m_key_protect) = (5, Bits::saturating(2)));
    assert_eq!(world.get::<NodeInfo>(TO_S, 0), Err(NO_ANSWER));
    assert_eq!(world.get::<PortInfo>(TO_S, 3), Err(NO_ANSWER));
    world.get::<NodeInfo>(TO_T, 0).unwrap();
    world.m_key = 5;
    world.get::<PortInfo>(TO_S, 3).unwrap();
}

#[test]
fn a_lease_that_runs_out_clears_the_protection() {
    let mut world = World::new();
    world.change_port(TO_H2, 1, |i| {
        (i.m_key, i.m_key_protect, i.m_key_lease) = (5, Bits::saturating(2), 3);
    });
    let knows = |world: &mut World| {
        world.m_key = 5;
        let held = world.get::<PortInfo>(TO_H2, 1).unwrap();
        world.m_key = 0;
        held
    };
    world.m_key = 0;
    assert!(world.get::<PortInfo>(TO_H2, 1).is_err());
    world.pass(2_000);
    // The manager responds in time: the lease starts again.
    assert_eq!(knows(&mut world).m_key_protect.get(), 2);
    world.pass(2_000);
    assert!(world.get::<PortInfo>(TO_H2, 1).is_err());
    world.pass(2_900);
    assert!(world.get::<PortInfo>(TO_H2, 1).is_err());
    world.pass(200);
    let found: PortInfo = world.get(TO_H2, 1).unwrap();
    assert_eq!((found.m_key, found.m_key_protect.get()), (5, 0));
    assert_eq!(knows(&mut world).m_key_violations, 3);
    // Without a lease period it never runs out.
    world.m_key = 5;
    world.change_port(TO_H2, 1, |i| {
        (i.m_key_protect, i.m_key_lease) = (Bits::saturating(2), 0)
    });
    world.m_key = 0;
    assert!(world.get::<PortInfo>(TO_H2, 1).is_err());
    world.pass(100_000_000);
    assert!(world.get::<PortInfo>(TO_H2, 1).is_err());
}

#[test]
fn a_wrong_m_key_is_reported() {
    let mut world = World::configured();
    world.emu.set_is_sm(world.now, world.sm, true).unwrap();
    world.pass(1_000);
    repress_all(&mut world);
    world.change_port(TO_H2, 1, |i| i.m_key = 5);
    world.m_key = 6;
    let mut mad = Mad::directed(Method::Set, AttributeId::PORT_INFO, 1, &route(TO_H2));
    mad.set_m_key(6);
    let address = Address::DIRECTED;
    world.emu.send(world.now, world.sm, &Datagram { address, mad });
    let received = world.pass(1);
    assert_eq!(traps(&received), [(256, H2)]);
    let notice: Notice = received[0].datagram.mad.read().unwrap();
    let Some(Trap::BadMKey(bad)) = notice.trap() else {
        panic!("{notice}")
    };
    assert_eq!((bad.m_key, bad.method, bad.attribute), (6, 2, 0x15));
    assert_eq!(
        (bad.directed, bad.hop_count, &bad.return_path[1..4]),
        (true, 3, &[1, 3, 1][..])
    );
}

fn repress(world: &mut World, trap: &Delivery) {
    let mut mad = trap.datagram.mad;
    mad.set_method(Method::TrapRepress);
    let address = trap.datagram.address;
    world.emu.send(world.now, world.sm, &Datagram { address, mad });
}

fn repress_all(world: &mut World) {
    for _ in 0..20 {
        for trap in world
            .pass(200)
            .iter()
            .filter(|d| d.datagram.mad.method() == Method::Trap)
        {
            repress(world, trap);
        }
    }
}

#[test]
fn traps_are_repeated_until_repressed() {
    let mut world = World::configured();
    world.emu.set_is_sm(world.now, world.sm, true).unwrap();
    assert_eq!(traps(&world.pass(1)), [(144, H0)], "the capability mask changed");
    repress_all(&mut world);
    assert_eq!(traps(&world.pass(1_000)), []);
    world.emu.apply(world.now, &"cut S[2]".parse().unwrap()).unwrap();
    let first = world.pass(1);
    assert_eq!(traps(&first), [(128, S)]);
    assert_eq!(traps(&world.pass(350)), [(128, S); 3], "every 100 ms");
    // A second event of the same kind before the first trap is acknowledged sends no second trap.
    world.emu.apply(world.now, &"restore S[2]".parse().unwrap()).unwrap();
    assert_eq!(traps(&world.pass(20)), []);
    repress(&mut world, &first[0]);
    assert_eq!(traps(&world.pass(1_000)), []);
    // After that it is a new one.
    world.emu.apply(world.now, &"cut S[2]".parse().unwrap()).unwrap();
    assert_eq!(traps(&world.pass(1)), [(128, S)]);
    world.audit();
}

#[test]
fn the_subnet_timeout_spaces_traps() {
    let mut world = World::configured();
    world.emu.set_is_sm(world.now, world.sm, true).unwrap();
    repress_all(&mut world);
    // 4.096 us * 2^18 = 1.07 s
    world.change_port(TO_S, 0, |i| i.subnet_timeout = Bits::saturating(18));
    world.fault("cut S[2]");
    let times: Vec<u64> = world.pass(3_500).iter().map(|d| d.at.0 / 1_000_000).collect();
    assert_eq!(times.len(), 4);
    assert_eq!((times[1] - times[0], times[3] - times[2]), (1_073, 1_074));
}

#[test]
fn traps_end_some_time() {
    let config = EmulatorConfig {
        trap_sends_max: 3,
        ..EmulatorConfig::default()
    };
    let mut world = World::with(&fabric(), config);
    world.configure();
    world.fault("cut S[2]");
    world.pass(10_000);
    let counts = world.emu.counts();
    assert_eq!((counts.traps, counts.traps_given_up), (3, 1));
    // H0 has no manager.
    assert_eq!(counts.drops(DropReason::NoClient), 3);
    assert_eq!(world.emu.next_event(), None);
    world.audit();
}

#[test]
fn traps_need_a_manager_and_a_route() {
    let check = |prepare: &dyn Fn(&mut World), suppressed: u64, drop: Option<DropReason>| {
        let mut world = World::configured();
        prepare(&mut world);
        world.fault("cut S[2]");
        world.pass(50);
        assert_eq!(world.emu.counts().traps_suppressed, suppressed);
        if let Some(reason) = drop {
            assert_eq!(world.emu.counts().drops(reason), 1);
        }
        world.audit();
    };
    check(&|w| w.change_port(TO_S, 0, |i| i.sm_lid = Lid::NONE), 1, None);
    check(
        &|w| w.install(TO_S, &[255, 255, 0, 3, 2, 4, 3]),
        0,
        Some(DropReason::NoPath),
    );
    check(&|_| {}, 0, Some(DropReason::NoClient));
}

#[test]
fn one_manager_per_port() {
    let mut world = World::configured();
    let second = world.emu.attach_named("0x100").unwrap();
    let is_sm = |world: &World| world.emu.chassis().port(world.port("H0", 1)).capability_mask >> 1 & 1;
    world.emu.set_is_sm(world.now, world.sm, true).unwrap();
    world.pass(0);
    assert_eq!(is_sm(&world), 1);
    let refused = world.emu.set_is_sm(world.now, second, true);
    assert!(
        matches!(refused, Err(EmulatorError::SecondManager { .. })),
        "{refused:?}"
    );
    world.emu.set_is_sm(world.now, second, false).unwrap();
    // A reset of the driver clears the bit, and the manager sets it again.
    world.emu.apply(world.now, &"clear-is-sm H0".parse().unwrap()).unwrap();
    world.pass(0);
    assert_eq!(is_sm(&world), 0);
    world.emu.set_is_sm(world.now, world.sm, true).unwrap();
    world.pass(0);
    assert_eq!(is_sm(&world), 1);
    let no_end = world.emu.apply(world.now, &"clear-is-sm T[1]".parse().unwrap());
    assert!(matches!(no_end, Err(EmulatorError::NotAnEndPort { .. })), "{no_end:?}");
    world.emu.detach(world.now, world.sm);
    world.pass(0);
    assert_eq!(is_sm(&world), 0);
    world.emu.set_is_sm(world.now, second, true).unwrap();
    let gone = world.emu.set_is_sm(world.now, world.sm, true);
    assert_eq!(gone, Err(EmulatorError::NoSuchClient));
    // A datagram of a detached client is ignored.
    let before = world.emu.counts().sent.total();
    ask_many(&mut world, 1, Class::SubnDirected);
    assert_eq!(world.emu.counts().sent.total(), before);
}

#[test]
fn answers_go_to_the_client_that_asked() {
    let mut world = World::configured();
    let tool = world.emu.attach_named("H0").unwrap();
    // Both use the same transaction id.
    for client in [tool, world.sm] {
        let mut mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(TO_T));
        mad.set_transaction(TransactionId(9));
        let address = Address::DIRECTED;
        world.emu.send(world.now, client, &Datagram { address, mad });
    }
    let clients: Vec<_> = world.pass(1).iter().map(|d| d.client).collect();
    assert_eq!(clients, [tool, world.sm]);
    // So do answers of other clients: of the manager at H2 about itself, and of subnet administration.
    let manager = world.emu.attach_named("H2").unwrap();
    world.emu.set_is_sm(world.now, manager, true).unwrap();
    world.pass(0);
    for (class, attribute) in [
        (Class::SubnLid, AttributeId::SM_INFO),
        (Class::SubnAdm, AttributeId::PORT_INFO),
    ] {
        let mut mad = Mad::request(class, Method::Get, attribute, 0);
        mad.set_transaction(TransactionId(10));
        let address = if class.is_smp() {
            Address::smi(Lid(H2))
        } else {
            Address::gsi(Lid(H2), Sl::default())
        };
        world.emu.send(world.now, tool, &Datagram { address, mad });
        let asked: Vec<Delivery> = of_method(&world.pass(1), Method::Get);
        assert_eq!((asked.len(), asked[0].client), (1, manager));
        assert_eq!(asked[0].datagram.address.lid, Lid(H0));
        let mut answer = asked[0].datagram;
        answer.mad.set_method(Method::GetResp);
        if class.is_smp() {
            answer.mad.write(&SmInfo::default());
        }
        world.emu.send(world.now, manager, &answer);
        let answered = of_method(&world.pass(1), Method::GetResp);
        assert_eq!((answered.len(), answered[0].client), (1, tool), "{class:?}");
    }
    // Without a manager, subnet administration is not answered.
    let before = world.emu.counts().drops(DropReason::NoClient);
    let mad = Mad::request(Class::SubnAdm, Method::Get, AttributeId::PORT_INFO, 0);
    let address = Address::gsi(Lid(H1_1), Sl::default());
    assert_eq!(world.ask_at(Datagram { address, mad }), Err(NO_ANSWER));
    assert_eq!(world.emu.counts().drops(DropReason::NoClient), before + 1);
    world.audit();
}

fn of_method(received: &[Delivery], method: Method) -> Vec<Delivery> {
    let of_method = received.iter().filter(|d| d.datagram.mad.method() == method);
    of_method.copied().collect()
}

#[test]
fn clients_sit_at_end_ports() {
    let mut world = World::new();
    let check = |world: &mut World, name: &str, want: Result<(u64, u8), &str>| {
        let found = world.emu.attach_named(name);
        let found = found
            .map(|c| world.emu.local(c).unwrap())
            .map(|l| (l.port_guid.0, l.port.get()));
        match (found, want) {
            (Ok(found), Ok(want)) => assert_eq!(found, want, "{name}"),
            (Err(error), Err(code)) => assert!(error.to_string().starts_with(code), "{error}"),
            (found, _) => panic!("{name}: {found:?}"),
        }
    };
    check(&mut world, "H1", Ok((0x111, 1)));
    check(&mut world, "\"H1\"[2]", Ok((0x112, 2)));
    check(&mut world, "0x20", Ok((0x20, 0)));
    check(&mut world, "S[0]", Ok((0x10, 0)));
    check(&mut world, "S[3]", Err("SLV-EMU-0001"));
    check(&mut world, "H1[3]", Err("SLV-EMU-0006"));
    check(&mut world, "H1[0]", Err("SLV-EMU-0006"));
    check(&mut world, "H7", Err("SLV-EMU-0004"));
    check(&mut world, "0x7", Err("SLV-EMU-0004"));
    check(&mut world, "H1[", Err("SLV-EMU-0008"));
    let twins = fabric_with(|n| {
        if n.is_switch() {
            n.description = "twin".to_owned();
        }
    });
    let mut world = World::with(&twins, EmulatorConfig::default());
    check(&mut world, "twin", Err("SLV-EMU-0005"));
}

#[test]
fn a_manager_on_a_switch_asks_too() {
    let mut world = World::configured();
    let client = world.emu.attach_named("T").unwrap();
    let mut send = |mad: Mad, address: Address| {
        world.emu.send(world.now, client, &Datagram { address, mad });
        let received = world.pass(1);
        assert_eq!((received.len(), received[0].client), (1, client));
        received[0].datagram.mad
    };
    let mad = send(
        Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(&[3])),
        Address::DIRECTED,
    );
    assert_eq!(mad.read::<NodeInfo>().unwrap().node_guid.0, 0x10);
    let mad = send(
        Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(&[])),
        Address::DIRECTED,
    );
    assert_eq!(mad.read::<NodeInfo>().unwrap().local_port, 0);
    let request = Mad::request(Class::SubnLid, Method::Get, AttributeId::NODE_INFO, 0);
    assert_eq!(
        send(request, Address::smi(Lid(H2)))
            .read::<NodeInfo>()
            .unwrap()
            .node_guid
            .0,
        0x120
    );
    let request = Mad::request(Class::PerfMgt, Method::Get, AttributeId::CLASS_PORT_INFO, 0);
    let answer = send(request, Address::gsi(Lid(H1_1), Sl::default()));
    assert_eq!(answer.read_gmp::<ClassPortInfo>().unwrap().class_version, 1);
    // To itself.
    let request = Mad::request(Class::SubnLid, Method::Get, AttributeId::NODE_INFO, 0);
    assert_eq!(
        send(request, Address::smi(Lid(T)))
            .read::<NodeInfo>()
            .unwrap()
            .local_port,
        0
    );
    assert_eq!(world.state("T", 0).0, PortState::Active);
    assert!(world.now > Time::ZERO);
}
