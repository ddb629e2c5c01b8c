//! Training, and each fault.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::common::*;
use selvedge_chassis::TableKind;
use selvedge_emulator::{DropReason, EmulatorConfig, EmulatorError, Fault};
use selvedge_fabric::SwitchIdx;
use selvedge_sim::Time;
use selvedge_types::{Guid, LinkSpeed, LinkWidth, PhysState, PortState, TransactionId};
use selvedge_wire::{
    Address, AttributeId, Datagram, LinkDownDefault, LinkWidths, Mad, Method, NodeInfo, PortInfo, SwitchInfo,
};

const DOWN: (PortState, PhysState) = (PortState::Down, PhysState::Polling);
const TRAINING: (PortState, PhysState) = (PortState::Down, PhysState::Training);
const INIT: (PortState, PhysState) = (PortState::Init, PhysState::LinkUp);
const ACTIVE: (PortState, PhysState) = (PortState::Active, PhysState::LinkUp);

fn both(world: &World, a: (&str, u8), b: (&str, u8)) -> (PortState, PhysState) {
    let (at, peer) = (world.state(a.0, a.1), world.state(b.0, b.1));
    assert_eq!(at, peer);
    at
}

fn trunk(world: &World) -> (PortState, PhysState) {
    both(world, ("S", 3), ("T", 3))
}

#[test]
fn a_cut_link_trains_again_when_restored() {
    let mut world = World::configured();
    let psc = |world: &mut World, path: &[u8]| world.get::<SwitchInfo>(path, 0).unwrap().port_state_change;
    assert_eq!(trunk(&world), ACTIVE);
    assert!(!psc(&mut world, TO_S));
    world.fault("cut \"S\"[3]");
    assert_eq!(trunk(&world), DOWN);
    assert!(psc(&mut world, TO_S));
    assert!(psc(&mut world, &[1, 4]));
    world.pass(100);
    assert_eq!(trunk(&world), DOWN);
    world.fault("restore \"T\"[3]");
    assert_eq!(trunk(&world), DOWN);
    world.pass(2);
    assert_eq!(trunk(&world), TRAINING);
    world.pass(4);
    assert_eq!(trunk(&world), INIT);
    let downed = world.emu.chassis().counters(world.port("S", 3)).link_downed;
    assert_eq!(downed, 1);
    // The bit is cleared by writing 1.
    let mut info: SwitchInfo = world.get(TO_S, 0).unwrap();
    info.port_state_change = true;
    world.set(TO_S, 0, &info).unwrap();
    assert!(!psc(&mut world, TO_S));
    world.audit();
}

#[test]
fn links_can_train_at_the_start() {
    let config = EmulatorConfig {
        links_up: false,
        polling_time: Duration::from_millis(10),
        training_time: Duration::from_millis(20),
        ..EmulatorConfig::default()
    };
    let mut world = World::with(&fabric(), config);
    assert_eq!(trunk(&world), DOWN);
    assert!(world.get::<NodeInfo>(TO_S, 0).is_err());
    world.pass(10);
    assert_eq!(trunk(&world), TRAINING);
    world.pass(20);
    assert_eq!(trunk(&world), INIT);
    world.get::<NodeInfo>(TO_S, 0).unwrap();
}

#[test]
fn width_and_speed_are_what_both_ends_have_enabled() {
    let mut world = World::with(
        &fabric_with(|n| {
            if n.description == "T"
                && let Some(p) = n.port_mut(port(3))
            {
                p.capability.speed = LinkSpeed::Edr;
            }
        }),
        EmulatorConfig::default(),
    );
    let rate = |world: &mut World| world.get::<PortInfo>(TO_S, 3).unwrap().rate_active().unwrap();
    assert_eq!(
        (rate(&mut world).width, rate(&mut world).speed),
        (LinkWidth::X4, LinkSpeed::Edr)
    );
    world.change_port(TO_S, 3, |i| i.width_enabled = Some(LinkWidths::only(LinkWidth::X1)));
    assert_eq!(rate(&mut world).width, LinkWidth::X4, "only training changes it");
    world.change_port(TO_S, 3, |i| i.phys_state = Some(PhysState::Polling));
    world.pass(20);
    assert_eq!(
        (rate(&mut world).width, rate(&mut world).speed),
        (LinkWidth::X1, LinkSpeed::Edr)
    );
    // The ends have no width in common: the link never comes up.
    world.change_port(&[1, 4], 3, |i| i.width_enabled = Some(LinkWidths::only(LinkWidth::X4)));
    world.change_port(TO_S, 3, |i| i.phys_state = Some(PhysState::Polling));
    world.pass(1_000);
    assert_eq!(trunk(&world), DOWN);
}

#[test]
fn a_manager_can_switch_a_port_off() {
    let mut world = World::configured();
    world.change_port(TO_S, 3, |i| i.phys_state = Some(PhysState::Disabled));
    assert_eq!(world.state("S", 3), (PortState::Down, PhysState::Disabled));
    assert_eq!(world.state("T", 3), DOWN);
    world.pass(1_000);
    assert_eq!(world.state("S", 3), (PortState::Down, PhysState::Disabled));
    // A change made by a Set does not count at that switch.
    assert!(!world.get::<SwitchInfo>(TO_S, 0).unwrap().port_state_change);
    assert!(world.get::<SwitchInfo>(&[1, 4], 0).unwrap().port_state_change);
    world.change_port(TO_S, 3, |i| i.phys_state = Some(PhysState::Polling));
    world.pass(20);
    assert_eq!(trunk(&world), INIT);
    // Coming up counts at both switches.
    assert!(world.get::<SwitchInfo>(TO_S, 0).unwrap().port_state_change);
    // A port with the default Sleep does not come back by itself.
    world.change_port(TO_S, 3, |i| i.link_down_default = Some(LinkDownDefault::Sleep));
    world.fault("cut S[3]");
    world.fault("restore S[3]");
    world.pass(1_000);
    assert_eq!(world.state("S", 3), (PortState::Down, PhysState::Sleep));
    world.audit();
}

#[test]
fn a_manager_can_reset_a_link() {
    let mut world = World::configured();
    let psc = |world: &mut World, path: &[u8]| world.get::<SwitchInfo>(path, 0).unwrap().port_state_change;
    world.change_port(TO_S, 3, |i| i.state = Some(PortState::Down));
    assert_eq!(trunk(&world), INIT, "at once, without training");
    assert_eq!(world.emu.chassis().counters(world.port("S", 3)).link_downed, 0);
    // Only the other end was changed by the link state machine.
    assert!(!psc(&mut world, TO_S));
    assert!(psc(&mut world, TO_T));
    // Without a change no trap is sent.
    let mut info: SwitchInfo = world.get(TO_T, 0).unwrap();
    info.port_state_change = true;
    world.set(TO_T, 0, &info).unwrap();
    world.change_port(TO_S, 3, |i| i.state = Some(PortState::Down));
    assert_eq!(trunk(&world), INIT);
    assert!(!psc(&mut world, TO_T));
    // A port that is down stays so.
    world.change_port(TO_S, 5, |i| i.state = Some(PortState::Down));
    assert_eq!(world.state("S", 5), DOWN);
}

#[test]
fn a_cut_swallows_what_is_in_the_cable() {
    let config = EmulatorConfig {
        link_delay: Duration::from_micros(10),
        ..EmulatorConfig::default()
    };
    let mut world = World::with(&fabric(), config);
    let mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(TO_T));
    let address = Address::DIRECTED;
    world.emu.send(Time::ZERO, world.sm, &Datagram { address, mad });
    let mut received = Vec::new();
    world.emu.advance(Time::from_micros(15), &mut received);
    world
        .emu
        .apply(Time::from_micros(16), &"cut S[3]".parse().unwrap())
        .unwrap();
    world.emu.advance(Time::from_millis(1), &mut received);
    assert!(received.is_empty());
    assert_eq!(world.emu.counts().drops(DropReason::LinkDown), 1);
    world.audit();
}

#[test]
fn a_flapping_link() {
    let mut world = World::configured();
    let fault: Fault = "flap S[3] times=3 down=10ms up=50ms".parse().unwrap();
    world.emu.apply(world.now, &fault).unwrap();
    for _ in 0..3 {
        world.pass(9);
        assert_eq!(trunk(&world), DOWN);
        world.pass(41);
        assert_eq!(trunk(&world), INIT);
        world.pass(10);
    }
    assert_eq!(world.emu.chassis().counters(world.port("T", 3)).link_downed, 3);
}

#[test]
fn a_dead_node_comes_back_empty() {
    let mut world = World::configured();
    world.fault("kill T");
    assert_eq!(world.state("S", 3), DOWN);
    assert_eq!(world.state("H2", 1), DOWN);
    assert!(world.get::<NodeInfo>(TO_T, 0).is_err());
    world.fault("cut S[4]");
    world.fault("restore S[4]");
    world.pass(100);
    assert_eq!(world.state("S", 4), DOWN, "nobody at the other end");
    world.fault("revive T");
    world.pass(20);
    assert_eq!(trunk(&world), INIT);
    let info: SwitchInfo = world.get(TO_T, 0).unwrap();
    assert_eq!(info.linear_top.0, 0);
    assert!(info.port_state_change, "its own links came up");
    assert_eq!(world.get::<PortInfo>(TO_T, 0).unwrap().lid.0, 0);
    let chassis = world.emu.chassis();
    assert!(
        chassis
            .switch(chassis.fabric().switches()[SwitchIdx(1)])
            .unwrap()
            .linear_blocks()
            .is_empty()
    );
    // H2 kept what it had.
    assert_eq!(chassis.port(world.port("H2", 1)).settings().lids.base.0, H2);
    world.audit();
}

#[test]
fn a_reboot_loses_what_was_asked() {
    let mut world = World::configured();
    let boots = |world: &World| {
        world
            .emu
            .chassis()
            .boots(world.emu.chassis().fabric().find(Guid(0x10)).unwrap())
    };
    assert_eq!(boots(&world), 1);
    let mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(TO_S));
    let address = Address::DIRECTED;
    world.emu.send(world.now, world.sm, &Datagram { address, mad });
    let during = Time(world.now.0 + 2_000);
    world.emu.apply(during, &"reboot S".parse().unwrap()).unwrap();
    assert!(world.pass(1).is_empty());
    assert_eq!(world.emu.counts().drops(DropReason::NoPower), 1);
    assert_eq!(boots(&world), 2);
    world.pass(20);
    assert_eq!(world.state("S", 1), INIT);
    world.get::<NodeInfo>(TO_S, 0).unwrap();
    // A host's manager is still a manager, and its port says so.
    world.emu.set_is_sm(world.now, world.sm, true).unwrap();
    world.fault("reboot H0");
    world.pass(20);
    let info = world.emu.chassis().port(world.port("H0", 1));
    assert_eq!(info.capability_mask >> 1 & 1, 1);
    let node = world.emu.chassis().fabric().find(Guid(0x100)).unwrap();
    assert!(world.emu.chassis().version(node, TableKind::Settings) > 1);
    world.audit();
}

#[test]
fn without_power_nothing_is_sent() {
    let mut world = World::configured();
    world.fault("kill H0");
    assert!(world.get::<NodeInfo>(TO_H0, 0).is_err());
    assert_eq!(world.emu.counts().drops(DropReason::NoPower), 1);
    world.audit();
}

#[test]
fn a_hung_agent_answers_later() {
    let mut world = World::configured();
    world.fault("hang T");
    for _ in 0..20 {
        assert!(world.get::<NodeInfo>(TO_T, 0).is_err());
    }
    assert_eq!(world.emu.counts().drops(DropReason::QueueFull), 4);
    // The node still forwards.
    world.get::<NodeInfo>(TO_H2, 0).unwrap();
    world.fault("unhang T");
    assert_eq!(world.pass(1).len(), 16);
    world.get::<NodeInfo>(TO_T, 0).unwrap();
    // The waiting requests of a hung node are lost when it dies.
    world.fault("hang T");
    assert!(world.get::<NodeInfo>(TO_T, 0).is_err());
    world.fault("reboot T");
    world.pass(20);
    world.get::<NodeInfo>(TO_T, 0).unwrap();
    assert_eq!(world.emu.in_flight(), 0);
    world.audit();
}

/// Sends a thousand requests to `T` and returns the number of responses.
fn thousand(world: &mut World) -> usize {
    let asked = (0..1_000).map(|_| {
        let mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(TO_T));
        let address = Address::DIRECTED;
        world.emu.send(world.now, world.sm, &Datagram { address, mad });
        world.pass(1).len()
    });
    asked.sum()
}

#[test]
fn media_lose_and_duplicate() {
    let check = |fault: &str, answers: std::ops::Range<usize>| {
        let mut world = World::new();
        world.fault(fault);
        let found = thousand(&mut world);
        assert!(answers.contains(&found), "{fault}: {found}");
        world.audit();
        world
    };
    // A fault of all links may hit a request once and its response once: 0.9^2 = 81 %.
    let world = check("loss 10%", 760..860);
    assert!((140..240).contains(&world.emu.counts().drops(DropReason::Lost)));
    // A fault of one link may hit at each crossing; this one is crossed twice.
    check("loss 10% at S[3]", 760..860);
    check("loss 10% at S[4]", 1_000..1_001);
    check("loss 100%", 0..1);
    // Request and answer are doubled, each at 10 %: 1.1^2 = 121 %.
    let world = check("duplicate 10%", 1_160..1_260);
    assert!(world.emu.counts().duplicates > 150);
    check("duplicate 10% at T[3]", 1_160..1_260);
    check("corrupt 100%", 0..1_000);
}

/// The responses to each copy of a request: time, and bytes without the transaction ID.
type Answers = BTreeMap<(u32, usize), Vec<(u64, Vec<u8>)>>;

/// Asks `T` for blocks of its table, in this order, on a medium with a fault.
fn blocks(fault: &str, order: &[u32]) -> Answers {
    let mut world = World::new();
    world.fault(fault);
    let mut answers = Answers::new();
    for (tid, &block) in (1..).zip(order) {
        let mut mad = Mad::directed(Method::Get, AttributeId::LINEAR_FORWARDING, block, &route(TO_T));
        mad.set_transaction(TransactionId(tid));
        let address = Address::DIRECTED;
        let start = world.now;
        world.emu.send(world.now, world.sm, &Datagram { address, mad });
        let copy = (0..).find(|copy| !answers.contains_key(&(block, *copy))).unwrap();
        let came = world.pass(1).into_iter().map(|answer| {
            let bytes = answer.datagram.mad.as_bytes();
            (answer.at.0 - start.0, [&bytes[..8], &bytes[16..]].concat())
        });
        answers.insert((block, copy), came.collect());
    }
    answers
}

#[test]
fn what_happens_to_a_mad_does_not_depend_on_the_order() {
    let upwards: Vec<u32> = (0..200).chain(0..200).collect();
    let downwards: Vec<u32> = upwards.iter().rev().copied().collect();
    let twice: Vec<u32> = (0..200).flat_map(|block| [block, block]).collect();
    for fault in [
        "loss 30%",
        "loss 30% at T[3]",
        "duplicate 30%",
        "delay 50% max=500us",
        "corrupt 30%",
        "corrupt 30% at S[3]",
    ] {
        let first = blocks(fault, &upwards);
        assert_eq!(first, blocks(fault, &downwards), "{fault}");
        assert_eq!(first, blocks(fault, &twice), "{fault}");
        // The second copy of a request has its own outcome, and so has each block.
        let of = |copy: usize| (0..200).map(move |block| (block, copy));
        let lot = |copy: usize| of(copy).map(|key| first[&key].clone()).collect::<Vec<_>>();
        assert_ne!(lot(0), lot(1), "{fault}");
        let kinds: BTreeSet<usize> = first.values().map(Vec::len).collect();
        assert!(kinds.len() > 1 || fault.starts_with("delay"), "{fault}: {kinds:?}");
    }
}

#[test]
fn media_delay_and_can_be_mended() {
    let mut world = World::new();
    world.fault("delay 100% max=1us at S[3]");
    let mut late = 0;
    for _ in 0..100 {
        let mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(TO_T));
        let address = Address::DIRECTED;
        world.emu.send(world.now, world.sm, &Datagram { address, mad });
        let start = world.now;
        let took = world.pass(1)[0].at.0 - start.0;
        assert!((6_400..=8_400).contains(&took), "{took}");
        late += u32::from(took > 6_400);
    }
    assert!(late > 90);
    world.fault("delay 0% max=1us at S[3]");
    assert!(!world.emu.chassis().wire(world.port("T", 3)).is_marked());
    world.fault("loss 50%");
    world.fault("loss 0%");
    assert_eq!(thousand(&mut world), 1_000);
}

#[test]
fn faults_need_their_place() {
    let mut world = World::new();
    let check = |world: &mut World, text: &str, code: &str| {
        let error = world.emu.apply(Time::ZERO, &text.parse().unwrap()).unwrap_err();
        assert!(error.to_string().starts_with(code), "{error}");
    };
    check(&mut world, "cut S", "SLV-EMU-0008");
    check(&mut world, "cut S[5]", "SLV-EMU-0007");
    check(&mut world, "cut S[0]", "SLV-EMU-0007");
    check(&mut world, "cut S[6]", "SLV-EMU-0006");
    check(&mut world, "kill X", "SLV-EMU-0004");
    check(&mut world, "loss 1% at X[1]", "SLV-EMU-0004");
    assert_eq!(world.emu.next_event(), None);
    assert!(matches!("burn S".parse::<Fault>(), Err(EmulatorError::Syntax { .. })));
}
