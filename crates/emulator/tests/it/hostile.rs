//! Hostile bytes: nothing panics, no MAD is lost without a reason, and the same seed gives the same bytes.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::common::*;
use proptest::prelude::*;
use selvedge_emulator::{ClientId, Delivery, Emulator, EmulatorConfig, Fault};
use selvedge_sim::{Rng, Seed, Time};
use selvedge_types::{Lid, Sl, TransactionId};
use selvedge_wire::{Address, Datagram, MAD_LEN, Mad};

/// Attaches a client at every kind of port; one is a manager.
fn seated(world: &mut World) -> Vec<ClientId> {
    let clients: Vec<ClientId> = ["H0", "H1[1]", "H1[2]", "H2", "S", "T", "H2"]
        .into_iter()
        .map(|name| world.emu.attach_named(name).unwrap())
        .collect();
    world.emu.set_is_sm(world.now, clients[0], true).unwrap();
    clients
}

/// Waits until nothing moves: only traps could still be in flight, and they end.
fn settle(world: &mut World) {
    for fault in [
        "loss 0%",
        "duplicate 0%",
        "corrupt 0%",
        "delay 0% max=1us",
        "unhang S",
        "unhang T",
    ] {
        world.fault(fault);
    }
    for _ in 0..200 {
        if world.emu.next_event().is_none() {
            break;
        }
        world.pass(3_600_000);
    }
    assert_eq!(world.emu.next_event(), None);
    assert_eq!(world.emu.in_flight(), 0);
    world.audit();
}

/// Bytes that are nearly a MAD, so that they get past the first checks.
fn plausible() -> impl Strategy<Value = Mad> {
    let bytes = proptest::collection::vec(any::<u8>(), MAD_LEN);
    let class = prop_oneof![Just(0x81_u8), Just(0x01), Just(0x04), Just(0x03), any::<u8>()];
    let method = prop_oneof![Just(1_u8), Just(2), Just(5), Just(7), Just(0x81), any::<u8>()];
    let attribute = prop_oneof![0x00_u16..0x24, any::<u16>()];
    let hops = (any::<u8>(), 0_u8..6, 0_u8..6, proptest::collection::vec(0_u8..6, 6));
    let modifier = prop_oneof![Just(0_u32), 0_u32..8, any::<u32>()];
    (bytes, class, method, attribute, hops, modifier).prop_map(|(bytes, class, method, attribute, hops, modifier)| {
        let mut mad = Mad::new_checked(&bytes).unwrap();
        let raw = mad.as_bytes_mut();
        (raw[0], raw[1], raw[2], raw[3]) = (1, class, 1, method);
        raw[16..18].copy_from_slice(&attribute.to_be_bytes());
        raw[20..24].copy_from_slice(&modifier.to_be_bytes());
        if class == 0x81 {
            let (wild, pointer, count, path) = hops;
            // Usually a valid route, sometimes random bytes.
            raw[4] &= if wild & 7 == 0 { 0xFF } else { 0x7F };
            raw[6] = if wild & 0x18 == 0 { pointer } else { 0 };
            raw[7] = if wild & 0x60 == 0 { wild } else { count };
            raw[129..135].copy_from_slice(&path);
            if wild & 0x80 == 0 {
                raw[32..36].fill(0xFF);
            }
        }
        mad
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_are_accounted_for(
        mads in proptest::collection::vec((plausible(), 0_usize..7, 0_u16..9, any::<u8>()), 1..60),
        wild in proptest::collection::vec((proptest::collection::vec(any::<u8>(), MAD_LEN), any::<u16>()), 0..20),
        media in 0_u8..4,
    ) {
        let mut world = World::configured();
        let clients = seated(&mut world);
        if media & 1 != 0 {
            for fault in ["loss 5%", "duplicate 20%", "corrupt 20%", "delay 20% max=1ms", "loss 5% at S[3]"] {
                world.fault(fault);
            }
        }
        if media & 2 != 0 {
            world.fault("hang T");
        }
        let wild = wild.into_iter().map(|(bytes, lid)| (Mad::new_checked(&bytes).unwrap(), 0, lid, 0));
        for (mad, client, lid, pause) in mads.into_iter().chain(wild) {
            let lid = if pause & 1 == 0 { Lid::PERMISSIVE } else { Lid(lid) };
            let address = Address { lid, qp: u32::from(pause & 2), sl: Sl::default() };
            world.emu.send(world.now, clients[client], &Datagram { address, mad });
            if pause & 4 != 0 {
                world.pass(u64::from(pause >> 6));
            }
            world.audit();
        }
        settle(&mut world);
    }
}

/// Random requests under every fault; returns a hash of every byte of every delivery, and of all counts.
fn run(seed: u64, step: u64) -> (u64, u64) {
    let mut emu = Emulator::new(&fabric(), EmulatorConfig::default(), Seed(seed));
    let mut world = World::configured();
    std::mem::swap(&mut emu, &mut world.emu);
    world.sm = world.emu.attach_named("H0").unwrap();
    world.now = Time::ZERO;
    world.configure();
    let clients = seated(&mut world);
    let mut rng: Rng = Seed(99).rng();
    let start = world.now;
    let faults = [
        "loss 2%",
        "duplicate 5%",
        "corrupt 2%",
        "delay 10% max=2ms",
        "loss 5% at T[1]",
        "cut S[3]",
        "hang T",
        "restore S[3]",
        "unhang T",
        "reboot S",
        "flap T[4] times=5 down=3ms up=9ms",
        "kill H2",
        "revive H2",
    ];
    let mut at = start;
    for (i, fault) in (0_u64..).zip(faults) {
        let fault: Fault = fault.parse().unwrap();
        world.emu.apply(Time(start.0 + i * 20_000_000), &fault).unwrap();
    }
    let mut hasher = DefaultHasher::new();
    let mut received: Vec<Delivery> = Vec::new();
    let mut next_step = start;
    for tid in 0..3_000 {
        at = Time(at.0 + rng.below(200_000));
        while next_step < at {
            world.emu.advance(next_step, &mut received);
            next_step = Time(next_step.0 + step);
        }
        let path: Vec<u8> = (0..rng.below(4)).map(|_| 1 + rng.below(4) as u8).collect();
        let attribute = selvedge_wire::AttributeId::from_code(0x10 + rng.below(0x0C) as u16);
        let method = if rng.below(3) == 0 {
            selvedge_wire::Method::Set
        } else {
            selvedge_wire::Method::Get
        };
        let mut mad = Mad::directed(method, attribute, rng.below(6) as u32, &route(&path));
        mad.set_transaction(TransactionId(tid));
        let address = Address::DIRECTED;
        let client = clients[rng.below(clients.len() as u64) as usize];
        world.emu.send(at, client, &Datagram { address, mad });
    }
    world.emu.advance(Time(at.0 + 1_000_000_000), &mut received);
    assert!(received.len() > 500, "{}", received.len());
    for delivery in &received {
        (delivery.client, delivery.at, delivery.datagram).hash(&mut hasher);
    }
    world.audit();
    (hasher.finish(), received.len() as u64)
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let first = run(1, 50_000);
    assert_eq!(run(1, 50_000), first);
    assert_ne!(run(2, 50_000), first, "the dice are the seed's");
}

#[test]
fn how_often_the_caller_advances_does_not_matter() {
    assert_eq!(run(1, 50_000), run(1, 7_777_777));
}
