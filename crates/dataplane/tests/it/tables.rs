//! Tables that change entry by entry while packets move; adapters with several ports and LIDs; multicast.

use selvedge_dataplane::{Account, BLOCK_BYTES, Change, DropReason, EndPort, Ps, VlArb};
use selvedge_fabric::{Fabric, FabricBuilder, LinkState, Node, PortRef, SwitchIdx};
use selvedge_plan::multicast::PortMask;
use selvedge_types::{
    Guid, Lid, LidRange, LinkSpeed, LinkWidth, Lmc, NodeKind, PhysState, PortNum, PortState, Rate, Vl,
};

use crate::lab::{Lab, Mark, Seen, at, drain, lid, packet, send};

const FULL: Ps = 82_960;
const GROUP: Lid = Lid(0xC003);
const NEAR: SwitchIdx = SwitchIdx(0);
const FAR: SwitchIdx = SwitchIdx(1);

fn num(port: u8) -> PortNum {
    PortNum::new(port).unwrap()
}

fn mask(ports: &[u8]) -> PortMask {
    let mut mask = PortMask::default();
    ports.iter().for_each(|&port| mask.insert(num(port)));
    mask
}

/// Two switches with two cables (ports 1 and 2). An adapter has port 3 of both; one more host is at port 4 of the near
/// switch, two at ports 4 and 5 of the far one. End ports: 0 near and 1 far (the adapter), 2 near, 3 and 4 far.
fn two_switches() -> Fabric {
    let mut builder = FabricBuilder::new();
    let near = builder.add(Node::new(NodeKind::Switch, Guid(1), 5, "near"));
    let far = builder.add(Node::new(NodeKind::Switch, Guid(2), 5, "far"));
    let adapter = builder.add(Node::new(NodeKind::Ca, Guid(0x10), 2, "adapter"));
    let mut host = |guid| builder.add(Node::new(NodeKind::Ca, Guid(guid), 1, "host"));
    let hosts = [host(0x20), host(0x30), host(0x40)];
    for cable in [1, 2] {
        builder.link((near, num(cable)), (far, num(cable))).unwrap();
    }
    builder.link((adapter, num(1)), (near, num(3))).unwrap();
    builder.link((adapter, num(2)), (far, num(3))).unwrap();
    builder.link((hosts[0], num(1)), (near, num(4))).unwrap();
    builder.link((hosts[1], num(1)), (far, num(4))).unwrap();
    builder.link((hosts[2], num(1)), (far, num(5))).unwrap();
    let mut fabric = builder.finish().unwrap();
    let ends: Vec<PortRef> = fabric.links().flat_map(|link| [link.a, link.b]).collect();
    for end in ends {
        let port = fabric.port(end).unwrap().clone();
        let up = LinkState {
            state: PortState::Active,
            phys: PhysState::LinkUp,
            rate: Rate {
                width: LinkWidth::X4,
                speed: LinkSpeed::Hdr,
            },
        };
        fabric.set_port(end, up, port.settings);
    }
    fabric
}

fn marks(seen: &[(Ps, EndPort, Seen)], port: EndPort) -> Vec<u64> {
    let of = |&(_, at, seen): &(Ps, EndPort, Seen)| match seen {
        Seen::Packet(Mark(mark), ..) if at == port => Some(mark),
        _ => None,
    };
    seen.iter().filter_map(of).collect()
}

#[test]
fn an_adapter_sends_by_both_its_ports_at_a_time() {
    let lab = Lab::of(two_switches(), 0);
    let mut simulation = lab.start();
    let ports = simulation.subnet().end_ports();
    let nodes: Vec<_> = ports.iter().map(|port| port.at.node).collect();
    assert_eq!((nodes[0] == nodes[1], nodes.len()), (true, 5));
    let (by_near, by_far) = (packet(&simulation, 1, 0, 2), packet(&simulation, 2, 1, 3));
    send(&mut simulation, 0, by_near);
    send(&mut simulation, 1, by_far);
    drain(&mut simulation);
    assert_eq!(simulation.endpoint().times(2), [FULL + 150_000]);
    assert_eq!(simulation.endpoint().times(3), [FULL + 150_000]);
}

#[test]
fn path_bits_choose_the_way_and_arrive_with_the_packet() {
    let lab = Lab::of(two_switches(), 2);
    let mut simulation = lab.start();
    let to = lid(&simulation, 3);
    assert_eq!(simulation.subnet().end_ports()[3].lids, 4);
    for bits in 0..4 {
        let output = 1 + (bits % 2) as u8;
        simulation.apply(Change::Entry {
            switch: NEAR,
            lid: Lid(to + bits),
            output,
        });
    }
    simulation.parts_mut().1.watch(at(&lab.fabric, NEAR, num(2)));
    for bits in 0..4 {
        let mut next = packet(&simulation, u64::from(bits), 2, 3);
        (next.dlid, next.slid) = (to + bits, next.slid + bits);
        send(&mut simulation, 2, next);
    }
    drain(&mut simulation);
    let seen = &simulation.endpoint().seen;
    let from = lid(&simulation, 2);
    for bits in 0..4 {
        let want = Seen::Packet(Mark(u64::from(bits)), from + bits, to + bits, 0xFFFF, 0);
        assert_eq!(seen[usize::from(bits)].2, want);
    }
    assert_eq!(simulation.subnet().departures().len(), 2, "bits 1 and 3");
    // A LID beyond the port's range is no LID of it.
    let mut wrong = packet(&simulation, 9, 3, 4);
    wrong.dlid = to + 3;
    simulation.apply(Change::Entry {
        switch: FAR,
        lid: Lid(to + 3),
        output: 5,
    });
    send(&mut simulation, 3, wrong);
    drain(&mut simulation);
    assert_eq!(simulation.endpoint().lost, [(Mark(9), DropReason::WrongHost)]);
}

#[test]
fn switches_copy_by_their_multicast_tables() {
    let lab = Lab::of(two_switches(), 0);
    let mut simulation = lab.start();
    let group = |mark, from| {
        let mut next = packet(&simulation, mark, from, 2);
        next.dlid = GROUP.0;
        next
    };
    let packets: Vec<_> = (0..100).map(|mark| group(mark, 0)).collect();
    // Without a table nothing is copied.
    send(&mut simulation, 0, packets[0]);
    drain(&mut simulation);
    assert_eq!(simulation.endpoint().lost, [(Mark(0), DropReason::NoEntry)]);
    for (switch, ports) in [(NEAR, mask(&[1, 3, 4])), (FAR, mask(&[0, 1, 4, 5]))] {
        simulation.apply(Change::Multicast {
            switch,
            mlid: GROUP,
            ports,
        });
    }
    let start = simulation.now();
    for &next in &packets {
        send(&mut simulation, 0, next);
    }
    drain(&mut simulation);
    let endpoint = simulation.endpoint();
    let want: Vec<u64> = (0..100).collect();
    for port in [2, 3, 4] {
        assert_eq!(marks(&endpoint.seen, port), want, "{port}");
    }
    assert_eq!((marks(&endpoint.seen, 0), marks(&endpoint.seen, 1)), (vec![], vec![]));
    // Port 1 comes before port 4: its copy leaves first, and the input sends one copy at a time.
    let first = |port| endpoint.times(port)[0] - start;
    assert_eq!((first(3), first(2)), (FULL + 275_000, 2 * FULL + 150_000));
    assert_eq!(first(4), 2 * FULL + 275_000);
    // One drop; each of 100 packets became two at the near switch, and one of these two at the far one.
    let want = Account {
        sent: 301,
        delivered: 300,
        dropped: 1,
        under_way: 0,
    };
    assert_eq!(simulation.account(), want);
}

#[test]
fn a_copy_for_a_broken_link_is_left_out_and_the_buffer_is_free_again() {
    let lab = Lab::of(two_switches(), 0);
    let mut simulation = lab.start();
    for (switch, ports) in [(NEAR, mask(&[1, 3, 4])), (FAR, mask(&[1, 4, 5]))] {
        simulation.apply(Change::Multicast {
            switch,
            mlid: GROUP,
            ports,
        });
    }
    let mut next = packet(&simulation, 0, 0, 2);
    next.dlid = GROUP.0;
    // Far more than the buffers hold, so each packet needs the blocks of an earlier one.
    let buffer = lab.settings.lane_blocks() * BLOCK_BYTES;
    let packets = u64::from(5 * buffer / 2_074);
    for mark in 0..packets {
        next.header = Mark(mark);
        send(&mut simulation, 0, next);
    }
    let cable = at(&lab.fabric, FAR, num(5));
    simulation.apply_at(packets / 2 * FULL, Change::Cut(cable));
    drain(&mut simulation);
    let seen = &simulation.endpoint().seen;
    assert_eq!(
        (marks(seen, 2).len(), marks(seen, 3).len()),
        (packets as usize, packets as usize)
    );
    let before = marks(seen, 4).len();
    assert!(before > 2 && before < packets as usize, "{before} of {packets}");
}

#[test]
fn a_row_of_lanes_applies_from_the_next_packet_on() {
    let lab = Lab::of(two_switches(), 0);
    let mut simulation = lab.start();
    let lane_of = |simulation: &mut selvedge_dataplane::Simulation<_>| {
        let next = packet(simulation, 0, 0, 2);
        send(simulation, 0, next);
        drain(simulation);
        match simulation.endpoint().seen.last() {
            Some((_, 2, Seen::Packet(.., vl))) => Some(*vl),
            _ => None,
        }
    };
    assert_eq!(lane_of(&mut simulation), Some(0));
    let row = |vl: u8| [Vl::new(vl).unwrap(); 16];
    simulation.apply(Change::SlToVl {
        port: at(&lab.fabric, NEAR, num(4)),
        ingress: num(3),
        row: row(1),
    });
    assert_eq!(lane_of(&mut simulation), Some(1));
    simulation.apply(Change::SlToVl {
        port: at(&lab.fabric, NEAR, num(4)),
        ingress: num(3),
        row: row(15),
    });
    lane_of(&mut simulation);
    assert_eq!(simulation.endpoint().lost, [(Mark(0), DropReason::Lane)]);
    // The row of an end port.
    assert_eq!(simulation.subnet().lane(0, 2), 0);
    let port = simulation.subnet().end_ports()[0].at;
    simulation.apply(Change::SlToVl {
        port,
        ingress: num(0),
        row: row(1),
    });
    assert_eq!((simulation.subnet().lane(0, 2), simulation.subnet().lane(1, 2)), (1, 0));
}

#[test]
fn arbitration_of_one_output_changes_while_it_sends() {
    let lab = Lab::of(two_switches(), 0);
    let mut simulation = lab.start();
    // The adapter on lane 0, a far host on lane 1, both to the near host.
    for mark in 0..200 {
        for (from, sl) in [(0, 0), (3, 1)] {
            let mut next = packet(&simulation, mark, from, 2);
            next.sl = sl;
            send(&mut simulation, from, next);
        }
    }
    let change = Change::Arbitration(
        at(&lab.fabric, NEAR, num(4)),
        VlArb {
            low: vec![(0, 33), (1, 99), (7, 5)],
            ..VlArb::default()
        },
    );
    simulation.apply_at(100 * FULL, change);
    drain(&mut simulation);
    let lanes: Vec<u8> = simulation
        .endpoint()
        .seen
        .iter()
        .filter_map(|(_, _, seen)| match seen {
            Seen::Packet(.., vl) => Some(*vl),
            _ => None,
        })
        .collect();
    let ones = |lanes: &[u8]| lanes.iter().filter(|&&vl| vl == 1).count();
    assert!((38..=42).contains(&ones(&lanes[10..90])), "{}", ones(&lanes[10..90]));
    assert!(
        (58..=62).contains(&ones(&lanes[110..190])),
        "{}",
        ones(&lanes[110..190])
    );
}

#[test]
fn a_port_that_starts_without_link_and_lid_gets_both() {
    let mut fabric = two_switches();
    let hosts: Vec<PortRef> = fabric.end_ports().map(|(at, _)| at).collect();
    let last = *hosts.last().unwrap();
    let mut lab = Lab::of(fabric.clone(), 0);
    let port = fabric.port(last).unwrap().clone();
    let down = LinkState {
        state: PortState::Down,
        phys: PhysState::Polling,
        ..port.link
    };
    fabric.set_port(last, down, port.settings);
    lab.fabric = fabric;
    lab.lids.remove(last);
    let mut simulation = lab.start();
    let unset = simulation.subnet().end_ports()[4];
    assert_eq!(
        (unset.lid, unset.lids, simulation.subnet().is_up(4)),
        (Lid(0), 0, false)
    );
    // Beyond the tables' top.
    let own = LidRange {
        base: Lid(0x3000),
        lmc: Lmc::new(1).unwrap(),
    };
    simulation.apply(Change::Lids(last, own));
    for (switch, output) in [(NEAR, 1), (FAR, 5)] {
        simulation.apply(Change::Entry {
            switch,
            lid: Lid(0x3001),
            output,
        });
    }
    let mut next = packet(&simulation, 5, 0, 4);
    next.dlid = 0x3001;
    send(&mut simulation, 0, next);
    drain(&mut simulation);
    assert_eq!(simulation.endpoint().lost, [(Mark(5), DropReason::LinkDown)]);
    simulation.apply(Change::Mend(last));
    let start = simulation.now();
    send(&mut simulation, 0, next);
    // Older entries are still there.
    let old = packet(&simulation, 6, 0, 3);
    send(&mut simulation, 0, old);
    drain(&mut simulation);
    assert_eq!(simulation.endpoint().times(4), [start + FULL + 275_000]);
    assert_eq!(simulation.endpoint().times(3), [start + 2 * FULL + 275_000]);
}
