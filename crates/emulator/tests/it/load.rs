//! Loads: what hosts send arrives, links are shared, ports wait where credits lack, and counters follow the tables.

use std::time::Duration;

use selvedge_chassis::{Counters, DetailRow, PortIdx};
use selvedge_emulator::EmulatorConfig;
use selvedge_fabric::{PortRef, WaitTick};
use selvedge_sim::Time;
use selvedge_telemetry::rates::Capacity;
use selvedge_types::{Idx, NodeKind};
use selvedge_wire::{LinearForwardingTable, Method, PortCountersExtended};

use crate::common::{H2, S, TO_S, World, fabric_with};

/// Words of a packet: 2,048 bytes of payload and the headers that PortXmitData counts.
const WORDS: u64 = 518;

/// Returns the counters of all ports now.
fn all(world: &mut World) -> Vec<Counters> {
    world.emu.settle_counters();
    let chassis = world.emu.chassis();
    let ports = (0..chassis.port_count()).map(PortIdx::from_usize);
    ports.map(|port| chassis.counters(port)).collect()
}

/// A fabric without traffic of its own, with a load for some time.
fn loaded(spec: &str, engine: &str, load: &str, millis: u64) -> (World, Vec<Counters>) {
    let mut world = World::routed(spec, engine);
    world.fault(&format!("load {load}"));
    world.pass(millis);
    let counters = all(&mut world);
    (world, counters)
}

/// Packets per second that a link can carry: 4x HDR, 25 GB/s, packets of 2,074 bytes.
fn packets_per_s(world: &World, port: PortIdx) -> u64 {
    let rate = world.emu.chassis().port(port).rate;
    assert_eq!(rate.to_string(), "4xHDR");
    25_000_000_000 / (4 * WORDS + 2)
}

fn is_host(world: &World, port: PortIdx) -> bool {
    let chassis = world.emu.chassis();
    let wire = chassis.wire(port);
    wire.peer().is_some() && chassis.fabric().node(wire.node()).kind == NodeKind::Ca
}

/// Checks that what is sent into a link is received at its other end, and that switches neither make nor lose packets.
fn conserved(world: &World, counters: &[Counters]) {
    let chassis = world.emu.chassis();
    for (at, sent) in counters.iter().enumerate() {
        let Some(peer) = chassis.wire(PortIdx::from_usize(at)).peer() else {
            assert_eq!(*sent, Counters::default(), "a port without a cable");
            continue;
        };
        let received = &counters[peer.to_usize()];
        assert_eq!(
            (sent.xmit_data, sent.xmit_packets),
            (received.rcv_data, received.rcv_packets)
        );
        assert_eq!(sent.xmit_data, sent.xmit_packets * WORDS);
        assert_eq!(sent.unicast_xmit_packets, sent.xmit_packets);
    }
    for (node, of) in chassis
        .fabric()
        .nodes()
        .iter_enumerated()
        .filter(|(_, of)| of.is_switch())
    {
        let ports = (1..=of.port_count()).map(|num| &counters[chassis.port_at(node, num).unwrap().to_usize()]);
        let (out, into) = ports.fold((0, 0), |(out, into), c| (out + c.xmit_packets, into + c.rcv_packets));
        // Each port may hold a fraction of a packet.
        assert!(
            u64::abs_diff(out, into) < of.port_count().into(),
            "{}: {into} in, {out} out",
            of.description
        );
    }
}

#[test]
fn what_is_sent_is_received() {
    for (load, senders) in [
        ("uniform 40%", 16..=16),
        ("shift:5 100%", 16..=16),
        ("permutation:3 70% size=2045", 12..=16),
        ("bit-reversal 100%", 12..=12),
        ("incast:H-3 90%", 15..=15),
        ("pairs:H-0>H-9,H-4>H-9,H-0>H-15 80%", 2..=2),
        (
            "uniform 30% among S-L1-0 S-L1-2 + incast:H-1 60% among H-12 H-13",
            10..=10,
        ),
    ] {
        let (world, counters) = loaded("karytree:k=4,n=2", "fat-tree", load, 1_234);
        conserved(&world, &counters);
        let hosts = counters
            .iter()
            .enumerate()
            .filter(|(at, _)| is_host(&world, PortIdx::from_usize(*at)));
        let sending = hosts.filter(|(_, c)| c.xmit_packets > 0).count();
        assert!(senders.contains(&sending), "{load}: {sending}");
        let (sent, received) = totals(&world, &counters);
        assert!(
            u64::abs_diff(sent, received) < 16,
            "{load}: {sent} sent, {received} received"
        );
    }
}

/// Packets that hosts sent and received.
fn totals(world: &World, counters: &[Counters]) -> (u64, u64) {
    let hosts = counters
        .iter()
        .enumerate()
        .filter(|(at, _)| is_host(world, PortIdx::from_usize(*at)));
    hosts.fold((0, 0), |(sent, received), (_, c)| {
        (sent + c.xmit_packets, received + c.rcv_packets)
    })
}

#[test]
fn hosts_send_what_the_pattern_says() {
    let check = |load: &str, permille: u64| {
        let (world, counters) = loaded("karytree:k=4,n=2", "fat-tree", load, 10_000);
        for (at, found) in counters
            .iter()
            .enumerate()
            .filter(|(at, _)| is_host(&world, PortIdx::from_usize(*at)))
        {
            let want = packets_per_s(&world, PortIdx::from_usize(at)) * 10 * permille / 1_000;
            for count in [found.xmit_packets, found.rcv_packets] {
                assert!(
                    u64::abs_diff(count, want) <= want / 100_000 + 1,
                    "{load}: {count} of {want}"
                );
            }
            assert_eq!(found.xmit_wait, 0, "{load}");
        }
        assert!(world.emu.congestion().is_empty(), "{load}");
    };
    check("uniform 40%", 400);
    check("shift:4 100%", 1_000);
    check("shift 12.5%", 125);
    check("uniform 20% + shift:4 30%", 500);
}

fn names(world: &World, ports: &[PortRef]) -> Vec<String> {
    let name = |port: &PortRef| world.emu.chassis().fabric().port_name(*port);
    ports.iter().map(name).collect()
}

#[test]
fn an_incast_saturates_the_port_of_its_host() {
    let load = "incast:H-3 90% among H-4 H-5 H-12";
    let (mut world, counters) = loaded("karytree:k=4,n=2", "fat-tree", load, 2_000);
    let found = world.emu.congestion();
    assert_eq!(found.len(), 1, "{found:?}");
    let root = world.emu.chassis().port_idx(found[0].port).unwrap();
    let host = world.emu.chassis().wire(root).peer().unwrap();
    assert_eq!(
        world
            .emu
            .chassis()
            .fabric()
            .node(world.emu.chassis().wire(host).node())
            .description,
        "H-3"
    );
    assert_eq!(found[0].offered_permille, 2_700);
    let pairs: Vec<Vec<String>> = found[0]
        .pairs
        .iter()
        .map(|(from, to)| names(&world, &[*from, *to]))
        .collect();
    assert_eq!(
        pairs,
        [["H-4", "H-3"], ["H-5", "H-3"], ["H-12", "H-3"]].map(|pair| pair.map(|at| format!("\"{at}\"[1]")))
    );
    // The root sends all the time and never waits. It alone counts congestion.
    let full = packets_per_s(&world, root) * 2;
    let at_root = counters[root.to_usize()];
    assert!(at_root.xmit_packets.abs_diff(full) <= 4, "{at_root:?}");
    assert_eq!(at_root.xmit_wait, 0);
    let congested = |world: &World, port: PortIdx| world.emu.chassis().detail(port, DetailRow::TimeCongested)[0];
    assert_eq!(congested(&world, root), 1_953_125);
    // Ports upstream share the time between data and waiting; no other port waits.
    let waiting: Vec<usize> = (0..counters.len()).filter(|at| counters[*at].xmit_wait > 0).collect();
    let chassis = world.emu.chassis();
    let want: Vec<usize> = found[0]
        .waiting
        .iter()
        .map(|at| chassis.port_idx(*at).unwrap().to_usize())
        .collect();
    assert_eq!(waiting, want);
    assert!(waiting.len() >= 3 + 2, "{waiting:?}");
    for at in waiting {
        let (c, port) = (&counters[at], PortIdx::from_usize(at));
        let whole = c.xmit_data + c.xmit_wait;
        assert!(whole.abs_diff(full * WORDS) <= 4 * WORDS, "{whole}");
        assert_eq!(congested(&world, port), 0);
        assert_eq!(world.emu.chassis().detail(port, DetailRow::VlXmitWait)[0], c.xmit_wait);
    }
    // Each sender gets a third.
    world.fault("load off");
    let sender = world.port("H-4", 1).to_usize();
    assert!(counters[sender].xmit_packets.abs_diff(full / 3) <= 4);
}

/// A host that takes a quarter of what its link carries: the port before it is the root, and waits itself.
#[test]
fn a_host_that_stalls_is_the_root() {
    let mut world = World::configured();
    world.fault("stall H2 75%");
    world.fault("load pairs:H0>H2 50%");
    let before = all(&mut world);
    world.pass(1_000);
    let after = all(&mut world);
    let found = world.emu.congestion();
    assert_eq!(names(&world, &[found[0].port]), ["\"T\"[1]"]);
    assert_eq!((found.len(), found[0].offered_permille), (1, 2_000));
    assert_eq!(names(&world, &found[0].waiting), ["\"S\"[3]", "\"H0\"[1]"]);
    let full = packets_per_s(&world, world.port("T", 1)) * WORDS;
    for (node, port) in [("H0", 1), ("S", 3), ("T", 1)] {
        let at = world.port(node, port).to_usize();
        let waited = after[at].xmit_wait - before[at].xmit_wait;
        assert!(waited.abs_diff(full * 3 / 4) < 10 * WORDS, "{node}: {waited} of {full}");
    }
    world.fault("stall H2 0%");
    let ended = all(&mut world);
    world.pass(1_000);
    assert_eq!(
        all(&mut world)[world.port("T", 1).to_usize()].xmit_wait,
        ended[world.port("T", 1).to_usize()].xmit_wait
    );
    assert!(world.emu.congestion().is_empty());
}

/// Whatever device counts, and in whatever tick, a reader that knows the device finds the same share of time.
#[test]
fn devices_wait_for_the_same_share_of_time_in_their_own_ticks() {
    let share = |vendor: u32, switch: u16, host: u16| {
        let fabric = fabric_with(|node| {
            let is_switch = node.kind == NodeKind::Switch;
            (node.vendor_id, node.device_id) = (vendor, if is_switch { switch } else { host });
        });
        let mut world = World::with(&fabric, EmulatorConfig::default());
        world.configure();
        world.fault("stall H2 75%");
        world.fault("load pairs:H0>H2 50%");
        let before = all(&mut world);
        world.pass(1_000);
        let after = all(&mut world);
        [("H0", 1), ("S", 3), ("T", 1)].map(|(node, port)| {
            let port = world.port(node, port);
            let chassis = world.emu.chassis();
            let tick = WaitTick::of_node(chassis.fabric().node(chassis.wire(port).node()));
            let link = Capacity::of(chassis.port(port).rate).unwrap();
            let ticks = after[port.to_usize()].xmit_wait - before[port.to_usize()].xmit_wait;
            (ticks, link.wait_share(tick, ticks, Duration::from_secs(1)))
        })
    };
    let generated = share(0x02_5E1E, 1, 2);
    let quantum = share(0x2C9, 0xD2F0, 0x101B);
    let switch_ib = share(0x2C9, 0xCB20, 0x1003);
    for of in [generated, quantum, switch_ib] {
        assert!(of.iter().all(|(_, share)| (share - 0.75).abs() < 0.001), "{of:?}");
    }
    // A word of the port; 8 bytes of the port; 32 bytes of one of four lanes.
    let switches = [generated, quantum, switch_ib].map(|of| of[1].0);
    assert!(switches[0].abs_diff(2 * switches[1]) < 4, "{switches:?}");
    assert!(switches[0].abs_diff(32 * switches[2]) < 64, "{switches:?}");
}

/// Links never carry more than they can, and a flow is held back only by a link that is full.
#[test]
fn links_are_filled_and_not_more() {
    for seed in 0..40 {
        let load = format!("permutation:{seed} 60% among S-L1-0 S-L1-1 S-L1-2 + incast:H-7 30%");
        let (world, counters) = loaded("karytree:k=4,n=2", "minhop", &load, 1_000);
        conserved(&world, &counters);
        let found = world.emu.congestion();
        assert!(!found.is_empty());
        let chassis = world.emu.chassis();
        for (at, c) in counters.iter().enumerate().filter(|(_, c)| c.xmit_packets > 0) {
            let most = packets_per_s(&world, PortIdx::from_usize(at));
            assert!(c.xmit_packets <= most, "{} of {most}", c.xmit_packets);
            let is_root = found
                .iter()
                .any(|root| chassis.port_idx(root.port).unwrap().to_usize() == at);
            assert!(
                !is_root || c.xmit_packets >= most - most / 500,
                "a root that is not full: {load}"
            );
        }
    }
}

#[test]
fn the_load_follows_the_tables() {
    let mut world = World::configured();
    world.fault("load pairs:H0>H2 50%");
    let (s3, s4, h2) = (world.port("S", 3), world.port("S", 4), world.port("H2", 1));
    world.pass(100);
    let before = all(&mut world);
    // Configuration sent some MADs.
    assert!(before[s3.to_usize()].xmit_data > 1_000 * WORDS && before[s4.to_usize()].xmit_data < 1_000 * WORDS);
    let mut table = LinearForwardingTable::EMPTY;
    table.ports[..7].copy_from_slice(&[255, 1, 0, 3, 2, 4, 4]);
    world.set(TO_S, 0, &table).unwrap();
    world.pass(100);
    let after = all(&mut world);
    let moved = |port: PortIdx| after[port.to_usize()].xmit_data - before[port.to_usize()].xmit_data;
    assert!(
        moved(s3) < 100 * WORDS,
        "what was sent until the Set arrived: {}",
        moved(s3)
    );
    let received = after[h2.to_usize()].rcv_data - before[h2.to_usize()].rcv_data;
    assert!(moved(s4) > 1_000 * WORDS, "{}", moved(s4));
    assert!((moved(s3) + moved(s4)).abs_diff(received) < 20 * WORDS, "{received}");
}

#[test]
fn a_cut_link_carries_nothing_from_then_on() {
    let mut world = World::configured();
    world.fault("load pairs:H0>H2 50%");
    let (s3, t3) = (world.port("S", 3), world.port("T", 3));
    world.pass(50);
    world.fault(r#"cut "S"[3]"#);
    let cut = all(&mut world);
    world.pass(50);
    let after = all(&mut world);
    let (s, t) = (&after[s3.to_usize()], &after[t3.to_usize()]);
    assert_eq!(
        (s.xmit_data, t.rcv_data),
        (cut[s3.to_usize()].xmit_data, cut[t3.to_usize()].rcv_data)
    );
    assert_eq!((s.link_downed, t.link_downed), (1, 1));
    let discarded = s.xmit_discards - cut[s3.to_usize()].xmit_discards;
    let want = cut[s3.to_usize()].xmit_packets;
    assert!(
        discarded.abs_diff(want) < 100,
        "as much as it sent before: {discarded} of {want}"
    );
    assert_eq!(
        world.emu.chassis().detail(s3, DetailRow::XmitDiscards)[0],
        s.xmit_discards
    );
    // Without an entry the switch discards at the input port.
    world.install(TO_S, &[255, 1, 0, 4, 2, 4, 255]);
    let before = all(&mut world)[world.port("S", 1).to_usize()].rcv_switch_relay_errors;
    world.pass(50);
    let relay = all(&mut world)[world.port("S", 1).to_usize()].rcv_switch_relay_errors - before;
    assert!(relay.abs_diff(want) < 100, "{relay} of {want}");
}

#[test]
fn a_load_that_is_off_moves_nothing() {
    let mut world = World::configured();
    world.fault("load shift 30%");
    world.pass(20);
    world.fault("load off");
    let off = all(&mut world);
    assert!(off[world.port("H0", 1).to_usize()].xmit_packets > 1_000);
    world.pass(1_000);
    assert_eq!(all(&mut world), off);
    assert!(world.emu.congestion().is_empty());
}

#[test]
fn agents_show_counters_that_move() {
    let mut world = World::configured();
    world.fault("load shift 30%");
    let asked = |port: u8| PortCountersExtended {
        port_select: port,
        ..PortCountersExtended::default()
    };
    let mut read = |lid: u16, port: u8| {
        let found = world.gmp(lid, Method::Get, &asked(port)).unwrap();
        world.pass(10);
        found
    };
    let (first, sum) = (read(S, 3), read(S, 255));
    let (second, later_sum) = (read(S, 3), read(S, 255));
    assert!(second.rcv_packets > first.rcv_packets + 1_000, "{first} {second}");
    assert!(later_sum.rcv_data > sum.rcv_data + 1_000 * WORDS && sum.rcv_data > first.rcv_data);
    assert!(read(H2, 1).rcv_packets > 1_000);
    // A Set clears them, and they go on.
    let clear = PortCountersExtended {
        port_select: 3,
        counter_select: 0xFFFF,
        ..PortCountersExtended::default()
    };
    let cleared = world.gmp(S, Method::Set, &clear).unwrap();
    assert!(cleared.rcv_packets < 100, "{cleared}");
    world.pass(10);
    let found = world.gmp(S, Method::Get, &asked(3)).unwrap();
    assert!((100..second.rcv_packets).contains(&found.rcv_packets), "{found}");
}

#[test]
fn what_is_counted_does_not_depend_on_reads() {
    let run = |reads: &[u64]| {
        let mut world = World::routed("karytree:k=4,n=2", "fat-tree");
        world.fault("load uniform 33% + incast:H-2 50%");
        for &at in reads {
            world.now = Time::from_millis(at);
            world.emu.advance(world.now, &mut Vec::new());
            all(&mut world);
        }
        world.now = Time::from_millis(5_000);
        world.emu.advance(world.now, &mut Vec::new());
        all(&mut world)
    };
    let once = run(&[]);
    assert_eq!(run(&[1, 2, 3, 500, 4_999]), once);
    assert_eq!(run(&(1..200).collect::<Vec<_>>()), once);
}

/// A switch that was off counts from zero again, and other ports keep what they have.
#[test]
fn counters_are_lost_with_the_power() {
    let mut world = World::configured();
    world.fault("load pairs:H0>H2 50%");
    world.pass(50);
    let before = all(&mut world);
    world.fault("reboot T");
    world.pass(5);
    let after = all(&mut world);
    let (t1, h2) = (world.port("T", 1).to_usize(), world.port("H2", 1).to_usize());
    assert!(before[t1].xmit_packets > 1_000);
    assert_eq!(
        (after[t1].xmit_packets, after[h2].rcv_packets),
        (0, before[h2].rcv_packets)
    );
}

#[test]
fn names_that_are_wrong_are_refused() {
    let world = World::configured();
    let check = |text: &str, want: &str| {
        let mut emu = world.emu.clone();
        let error = emu.apply(world.now, &text.parse().unwrap()).unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
        assert!(emu.congestion().is_empty());
    };
    check("load incast:H9 90%", "SLV-EMU-0004");
    check("load incast:S 90%", "SLV-EMU-0009: \"S\" is no host");
    check("load uniform 90% among H9", "SLV-EMU-0004");
    check("load pairs:H0>H1[7] 90%", "SLV-EMU-0006");
    check("errors S[77] rcv 1", "SLV-EMU-0006");
}
