//! Random packets, unicast and multicast, over tables that change at random while they move: every packet has an end,
//! every credit comes back, and steps of any length lead to the same.

use selvedge_dataplane::{Buffers, Change, EndPort, LinkRate, LongHaul, Ps, Queueing, Simulation, Speed, VlArb};
use selvedge_fabric::{PortRef, SwitchIdx};
use selvedge_plan::multicast::PortMask;
use selvedge_sim::{Rng, Seed};
use selvedge_types::{Lid, LidRange, PortNum, Vl};

use crate::lab::{Box, Lab, Mark, Seen, drain, lid, packet};

const FABRICS: [&str; 4] = [
    "karytree:k=3,n=2",
    "random:switches=8,degree=3,hosts=2,seed=1",
    "ring:switches=5,hosts=2",
    "single:ports=9,hosts=8",
];
const END: Ps = 30_000_000;
const GROUPS: u64 = 3;

fn one<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

fn lab(rng: &mut Rng) -> Lab {
    let mut lab = Lab::new(one(rng, &FABRICS), rng.below(3) as u8);
    let settings = &mut lab.settings;
    settings.vls = 2 + rng.below(3) as u8;
    settings.queueing = one(rng, &[Queueing::Fifo, Queueing::Voq]);
    settings.speedup = 1 + rng.below(3) as u8;
    // Finite, so that no cycle of copies holds packets for ever.
    settings.hoq_life = rng.below(3) as u8;
    settings.switch_life = one(rng, &[2, 20]);
    settings.buffers = Buffers {
        per_vl_blocks: Some(settings.packet_blocks() + rng.below(100) as u32),
        shared_blocks: one(rng, &[0, 0, 100]),
        shared_per_vl_blocks: one(rng, &[None, Some(50)]),
    };
    let between = |link: &selvedge_fabric::Link| lab.fabric.switch_index(link.b.node).is_some();
    let cables: Vec<_> = lab.fabric.links().filter(between).collect();
    if let Some(cable) = cables.first().filter(|_| rng.below(2) == 0) {
        settings.long_haul.push(LongHaul {
            at: cable.a,
            delay_ns: 1_000,
            per_vl_blocks: settings.packet_blocks() + rng.below(2_000) as u32,
        });
    }
    lab
}

/// Ports of a switch that lead to hosts, or also to switches with a larger index, so that no copy comes back. Port 0
/// stands for none.
fn onwards(lab: &Lab, switch: SwitchIdx, to_switches: bool) -> Vec<PortNum> {
    let node = lab.fabric.switches()[switch];
    let leads_on = |port: PortNum| {
        let peer = lab.fabric.peer(PortRef { node, port });
        peer.is_some_and(|peer| match lab.fabric.switch_index(peer.node) {
            Some(next) => to_switches && next > switch,
            None => true,
        })
    };
    let ports = lab.fabric.node(node).external_ports().map(|(port, _)| port);
    let mut found: Vec<PortNum> = ports.filter(|&port| leads_on(port)).collect();
    found.push(PortNum::MANAGEMENT);
    found
}

fn change(rng: &mut Rng, lab: &Lab, simulation: &Simulation<Box>) -> Change {
    let switches = lab.fabric.switches().len() as u64;
    let switch = SwitchIdx(rng.below(switches) as u32);
    let node = lab.fabric.switches()[switch];
    let ports = lab.fabric.node(node).port_count();
    let port = |rng: &mut Rng| PortNum::new(1 + rng.below(u64::from(ports)) as u8).unwrap();
    let at = PortRef { node, port: port(rng) };
    let host = one(rng, simulation.subnet().end_ports());
    match rng.below(9) {
        0 => {
            let lid = Lid(host.lid.0 + rng.below(u64::from(host.lids)) as u16);
            let to_host = onwards(lab, switch, false);
            // Of other entries some would lead in a circle, for ever.
            let outputs = [255, 0, lab.tables.get(switch, lid), one(rng, &to_host).get()];
            let output = one(rng, &outputs);
            Change::Entry { switch, lid, output }
        }
        1 => Change::Cut(at),
        2 => Change::Mend(at),
        3 => Change::Rate(at, LinkRate::four(one(rng, &Speed::ALL))),
        4 => Change::SlToVl {
            port: one(rng, &[at, host.at]),
            ingress: port(rng),
            row: core::array::from_fn(|_| Vl::new(rng.below(5) as u8).unwrap()),
        },
        5 => {
            let mut entry = || (rng.below(6) as u8, rng.below(256) as u8);
            let (low, high) = ((0..5).map(|_| entry()).collect(), vec![entry()]);
            let high_limit = rng.below(256) as u8;
            Change::Arbitration(at, VlArb { low, high, high_limit })
        }
        6 => Change::Lids(
            host.at,
            LidRange {
                base: host.lid,
                lmc: one(rng, &[0, 1, 2].map(|lmc| selvedge_types::Lmc::new(lmc).unwrap())),
            },
        ),
        _ => {
            let mut mask = PortMask::default();
            let outputs = onwards(lab, switch, true);
            (0..rng.below(6)).for_each(|_| mask.insert(one(rng, &outputs)));
            Change::Multicast {
                switch,
                mlid: Lid((0xC000 + rng.below(GROUPS)) as u16),
                ports: mask,
            }
        }
    }
}

fn fill(rng: &mut Rng, simulation: &mut Simulation<Box>) {
    let ports = simulation.subnet().end_ports().len() as u64;
    for mark in 0..600 {
        let from = rng.below(ports) as EndPort;
        let mut next = packet(simulation, mark, from, rng.below(ports) as EndPort);
        (next.sl, next.payload) = (rng.below(2) as u8, rng.below(2_049) as u16);
        next = selvedge_dataplane::Packet::new(
            Mark(mark),
            (lid(simulation, from), next.dlid),
            next.sl,
            next.payload,
            next.overhead,
        );
        if rng.below(4) == 0 {
            next.dlid = (0xC000 + rng.below(GROUPS)) as u16;
        }
        let (endpoint, subnet) = simulation.parts_mut();
        endpoint.put(from, next, rng.below(END));
        subnet.wake(from, 0);
    }
}

/// No lifetime ends here: a packet that a switch forgot would wait for ever.
#[test]
fn packets_of_all_lengths_leave_a_tree_without_lifetimes() {
    for seed in 0..200 {
        let mut rng = Seed(seed).rng();
        let mut lab = Lab::new(one(&mut rng, &[FABRICS[0], FABRICS[3]]), 0);
        lab.settings.vls = 1 + rng.below(2) as u8;
        lab.settings.queueing = one(&mut rng, &[Queueing::Fifo, Queueing::Voq]);
        lab.settings.speedup = 1 + rng.below(2) as u8;
        let mut simulation = lab.start();
        let ports = simulation.subnet().end_ports().len() as u64;
        for mark in 0..300 {
            let (from, to) = (rng.below(ports) as EndPort, rng.below(ports) as EndPort);
            let lids = (lid(&simulation, from), lid(&simulation, to));
            let payload = one(&mut rng, &[0, 64, 2_048, 2_048]);
            let sl = rng.below(2) as u8 % lab.settings.vls;
            let next = selvedge_dataplane::Packet::new(Mark(mark), lids, sl, payload, 26);
            let (endpoint, subnet) = simulation.parts_mut();
            endpoint.put(from, next, rng.below(END / 20));
            subnet.wake(from, 0);
        }
        drain(&mut simulation);
        let lost = &simulation.endpoint().lost;
        assert_eq!(
            (simulation.endpoint().seen.len(), lost),
            (300, &Vec::new()),
            "seed {seed}"
        );
    }
}

/// Runs with changes at their times: handed in before, or between two steps.
fn run(seed: u64, handed_in: bool) -> (Vec<(Ps, EndPort, Seen)>, usize, u64) {
    let mut rng = Seed(seed).rng();
    let lab = lab(&mut rng);
    let mut simulation = lab.start();
    fill(&mut rng, &mut simulation);
    let mut changes: Vec<(Ps, Change)> = (0..60)
        .map(|_| (1 + rng.below(END), change(&mut rng, &lab, &simulation)))
        .collect();
    changes.sort_by_key(|(at, _)| *at);
    let mut now = 0;
    for (at, change) in changes {
        if handed_in {
            simulation.apply_at(at, change);
            continue;
        }
        // A change at a time comes before the packets of that time.
        simulation.run_until(at - 1);
        simulation.apply_at(at, change);
        simulation
            .subnet()
            .check()
            .unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        now = at.max(now);
    }
    simulation.run_until(2 * END);
    // Hosts behind cut cables still hold packets; mend all, so that they go.
    for link in lab.fabric.links() {
        simulation.apply(Change::Mend(link.a));
    }
    drain(&mut simulation);
    let copies = simulation.account().sent;
    (
        simulation.endpoint().seen.clone(),
        simulation.endpoint().lost.len(),
        copies,
    )
}

#[test]
fn every_packet_has_an_end_and_every_credit_comes_back() {
    let (mut arrived, mut lost, mut copied) = (0, 0, 0);
    for seed in 0..60 {
        let stepped = run(seed, false);
        assert!(stepped == run(seed, true), "seed {seed}");
        let packets = stepped.0.iter().filter(|(.., seen)| matches!(seen, Seen::Packet(..)));
        arrived += packets.count();
        lost += stepped.1;
        copied += stepped.2 - 600;
    }
    assert_eq!(arrived + lost, 60 * 600 + copied as usize);
    assert!(
        arrived > 10_000 && lost > 1_000 && copied > 1_000,
        "{arrived} {lost} {copied}"
    );
}
