//! Endpoints send, receive and wait; the simulation is stepped, and changed while it runs, from outside.

use selvedge_dataplane::{Account, Change, DropReason, Ps, header};
use selvedge_types::Lid;

use crate::lab::{Lab, Mark, Seen, at, drain, lid, packet, send};

const SINGLE: &str = "single:ports=4,hosts=3";
/// 2,074 bytes at 4x HDR.
const FULL: Ps = 82_960;
/// A packet of the MTU through one switch: cut-through, two cables of 25 ns, 100 ns in the switch.
const ONE_HOP: Ps = FULL + 150_000;

#[test]
fn a_packet_arrives_with_its_header() {
    let lab = Lab::new(SINGLE, 0);
    let mut simulation = lab.start();
    assert_eq!(simulation.next_event_at(), None);
    simulation.run_until(1_000_000);
    let sent = packet(&simulation, 7, 0, 2).with_pkey(0x8001);
    let (from, to) = (lid(&simulation, 0), lid(&simulation, 2));
    send(&mut simulation, 0, sent);
    assert_eq!(simulation.next_event_at(), Some(1_000_000));
    drain(&mut simulation);
    let want = Seen::Packet(Mark(7), from, to, 0x8001, 0);
    assert_eq!(simulation.endpoint().seen, [(1_000_000 + ONE_HOP, 2, want)]);
}

#[test]
fn packets_follow_each_other_without_a_gap() {
    let lab = Lab::new(SINGLE, 0);
    let mut simulation = lab.start();
    for mark in 0..3 {
        let next = packet(&simulation, mark, 0, 1);
        send(&mut simulation, 0, next);
    }
    drain(&mut simulation);
    let want: Vec<Ps> = (0..3).map(|n| ONE_HOP + n * FULL).collect();
    assert_eq!(simulation.endpoint().times(1), want);
    // The wake-up, one after each packet that left another one waiting.
    assert_eq!(simulation.endpoint().pulls, 3);
}

#[test]
fn a_packet_may_wait_for_its_time() {
    let lab = Lab::new(SINGLE, 0);
    let mut simulation = lab.start();
    let next = packet(&simulation, 1, 0, 1);
    let (endpoint, subnet) = simulation.parts_mut();
    endpoint.put(0, next, 500_000);
    subnet.wake(0, 0);
    subnet.set_timer(2, 600_000, 99);
    drain(&mut simulation);
    assert_eq!(simulation.endpoint().times(1), [500_000 + ONE_HOP]);
    assert!(simulation.endpoint().seen.contains(&(600_000, 2, Seen::Timer(99))));
}

/// At one instant a port handles timers and packets in the order of their scheduling: a timer that was set before the
/// packet left the switch comes first, one that was set later comes after it. So an endpoint that sets timers at
/// other times, or keeps stale ones, may see another order.
#[test]
fn a_timer_and_a_packet_of_one_instant_come_in_the_order_of_their_scheduling() {
    let run = |set_at: Ps| {
        let lab = Lab::new(SINGLE, 0);
        let mut simulation = lab.start();
        let sent = packet(&simulation, 7, 0, 2);
        send(&mut simulation, 0, sent);
        simulation.run_until(set_at);
        simulation.parts_mut().1.set_timer(2, ONE_HOP, 99);
        drain(&mut simulation);
        let seen = simulation.endpoint().seen.iter();
        let kinds: Vec<bool> = seen
            .map(|(at, _, seen)| (*at == ONE_HOP) && matches!(seen, Seen::Timer(99)))
            .collect();
        kinds
    };
    assert_eq!(run(0), [true, false]);
    assert_eq!(run(ONE_HOP - 1), [false, true]);
}

#[test]
fn an_answer_is_sent_in_the_event_of_the_packet() {
    let lab = Lab::new(SINGLE, 0);
    let mut simulation = lab.start();
    simulation.parts_mut().0.answers = Some(Mark(1));
    let next = packet(&simulation, 7, 0, 1);
    send(&mut simulation, 0, next);
    drain(&mut simulation);
    // 30 bytes back take 1,200 ps.
    assert_eq!(simulation.endpoint().times(0), [ONE_HOP + 150_000 + 1_200]);
}

/// Packet 3 is behind the short packet 2 when output 3 (to host 2) begins to send packet 4, so nothing waits for that
/// output then. When packet 3 has become the first of its input, the output is busy, and nothing else comes for it.
#[test]
fn an_output_learns_of_a_packet_that_was_behind_a_shorter_one() {
    let lab = Lab::new("single:ports=6,hosts=5", 0);
    let mut simulation = lab.start();
    let mut put = |mark, (from, to): (u32, u32), payload, not_before| {
        let lids = (lid(&simulation, from), lid(&simulation, to));
        let next = selvedge_dataplane::Packet::new(Mark(mark), lids, 0, payload, header::LOCAL as u8);
        let (endpoint, subnet) = simulation.parts_mut();
        endpoint.put(from, next, not_before);
        subnet.wake(from, 0);
    };
    put(1, (4, 3), 2_048, 0);
    put(2, (1, 3), 0, 1_000);
    put(3, (1, 2), 2_048, 0);
    put(4, (0, 2), 2_048, FULL / 2);
    drain(&mut simulation);
    assert_eq!(
        simulation.endpoint().times(2),
        [FULL / 2 + ONE_HOP, FULL / 2 + ONE_HOP + FULL]
    );
}

/// Packets from everywhere to everywhere, more than buffers hold.
fn crowd(lab: &Lab) -> selvedge_dataplane::Simulation<crate::lab::Box> {
    let mut simulation = lab.start();
    let ports = simulation.subnet().end_ports().len() as u32;
    for (mark, (from, to)) in (0..200).zip((0..ports).flat_map(|from| (0..ports).map(move |to| (from, to))).cycle()) {
        if from != to {
            let mut next = packet(&simulation, mark, from, to);
            next.sl = (mark % 2) as u8;
            send(&mut simulation, from, next);
        }
    }
    simulation
}

#[test]
fn steps_lead_to_what_a_run_leads_to() {
    let lab = Lab::new("karytree:k=3,n=2", 0);
    let mut run = crowd(&lab);
    run.run_until(100_000_000);
    let mut stepped = crowd(&lab);
    let mut steps = 0;
    while let Some(next) = stepped.next_event_at() {
        assert_eq!(stepped.step(), Some(next));
        assert_eq!(stepped.now(), next);
        steps += 1;
    }
    assert_eq!((steps, stepped.step()), (run.events(), None));
    assert_eq!(stepped.endpoint().seen, run.endpoint().seen);
    // Pieces of any length.
    let mut pieces = crowd(&lab);
    for end in (0..100_000_000).step_by(77_777) {
        pieces.run_until(end);
        pieces.subnet().check().unwrap();
        assert_eq!(pieces.now(), end);
    }
    assert_eq!(pieces.endpoint().seen, run.endpoint().seen);
    assert!(
        run.account().under_way == 0 && run.account().delivered > 150,
        "{:?}",
        run.account()
    );
}

#[test]
fn an_entry_changes_from_outside_while_packets_move() {
    let lab = Lab::new(SINGLE, 0);
    let mut simulation = lab.start();
    let (switch, _) = lab.leaf_of(&simulation, 0);
    let to = Lid(lid(&simulation, 1));
    let leads_to = |output| Change::Entry {
        switch,
        lid: to,
        output,
    };
    for mark in 0..4 {
        let next = packet(&simulation, mark, 0, 1);
        send(&mut simulation, 0, next);
    }
    // Packets reach the switch 125 ns after their first byte was sent.
    let reach = |n: Ps| 125_000 + n * FULL;
    simulation.run_until(reach(0));
    simulation.apply(leads_to(255));
    simulation.apply_at(reach(2), leads_to(lab.leaf_of(&simulation, 1).1.get()));
    drain(&mut simulation);
    let endpoint = simulation.endpoint();
    assert_eq!(endpoint.lost, [(Mark(1), DropReason::NoEntry)]);
    assert_eq!(endpoint.times(1), [ONE_HOP, ONE_HOP + 2 * FULL, ONE_HOP + 3 * FULL]);
}

#[test]
fn a_port_sees_its_link_go_and_come() {
    let lab = Lab::new(SINGLE, 0);
    let mut simulation = lab.start();
    let (switch, port) = lab.leaf_of(&simulation, 0);
    let cable = at(&lab.fabric, switch, port);
    simulation.apply(Change::Cut(cable));
    assert!(!simulation.subnet().is_up(0));
    let next = packet(&simulation, 1, 0, 1);
    send(&mut simulation, 0, next);
    simulation.run_until(300_000);
    assert_eq!(simulation.account(), Account::default());
    simulation.apply(Change::Mend(cable));
    drain(&mut simulation);
    let seen = &simulation.endpoint().seen;
    assert_eq!(seen[..2], [(0, 0, Seen::Link(false)), (300_000, 0, Seen::Link(true))]);
    assert_eq!(simulation.endpoint().times(1), [300_000 + ONE_HOP]);
    // A packet that is on the cable when it breaks is lost.
    let next = packet(&simulation, 2, 0, 1);
    send(&mut simulation, 0, next);
    simulation.step();
    simulation.apply(Change::Cut(cable));
    drain(&mut simulation);
    assert_eq!(simulation.endpoint().lost, [(Mark(2), DropReason::InFlight)]);
}
