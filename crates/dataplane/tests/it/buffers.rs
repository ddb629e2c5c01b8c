//! Buffers private to lanes beside a shared pool, and cables of kilometres.

use selvedge_dataplane::{Change, EndPort, LinkRate, LongHaul, PS_PER_NS, Ps, Settings, Simulation};
use selvedge_fabric::PortRef;

use crate::lab::{Box, Lab, drain, packet, send};

/// Blocks of a packet of the MTU.
const PACKET: u32 = 33;
/// Time of a packet on a link of 4x HDR.
const PACKET_PS: Ps = 2_074 * 40;

fn offer(simulation: &mut Simulation<Box>, from: EndPort, to: EndPort, sl: u8, count: u64) {
    for mark in 0..count {
        let mut next = packet(simulation, mark, from, to);
        next.sl = sl;
        send(simulation, from, next);
    }
}

/// Returns how many packets a host has sent into a switch from which they cannot leave, on two lanes one after the
/// other.
fn stored(shared: u32, share: Option<u32>, [first, second]: [u64; 2]) -> u64 {
    let mut lab = Lab::new("single:ports=3,hosts=2", 0);
    lab.settings.buffers.per_vl_blocks = Some(2 * PACKET);
    lab.settings.buffers.shared_blocks = shared * PACKET;
    lab.settings.buffers.shared_per_vl_blocks = share.map(|share| share * PACKET);
    let mut simulation = lab.start();
    let slow = "1x-sdr".parse::<LinkRate>().unwrap();
    let at = simulation.subnet().end_ports()[1].at;
    simulation.apply(Change::Rate(at, slow));
    offer(&mut simulation, 0, 1, 0, first);
    offer(&mut simulation, 0, 1, 1, second);
    // The first packet takes 8 µs to leave.
    simulation.run_until(6_000 * PS_PER_NS);
    simulation.check().unwrap();
    let left = simulation.endpoint().waiting[0].len() as u64;
    drain(&mut simulation);
    first + second - left
}

#[test]
fn a_lane_has_its_private_blocks_and_what_it_may_take_of_the_pool() {
    let check = |shared, share, offered, want| {
        assert_eq!(stored(shared, share, offered), want, "{shared} {share:?} {offered:?}");
    };
    check(0, None, [50, 0], 2);
    check(0, None, [2, 50], 4);
    check(10, None, [50, 0], 12);
    check(10, Some(3), [50, 0], 5);
    // The other lane finds a full pool, but has its own blocks; or it gets what its neighbour may not take.
    check(10, None, [12, 50], 14);
    check(10, Some(3), [5, 50], 10);
    check(10, Some(7), [9, 50], 14);
    check(10, Some(0), [50, 0], 2);
}

/// Two clusters with a cable of so many ns, and blocks of each lane.
fn clusters(delay_ns: u64, per_vl_blocks: u32) -> Lab {
    let mut lab = Lab::new("clusters:hosts=2,links=1", 0);
    let is_long = |at: PortRef| {
        lab.fabric
            .peer(at)
            .is_some_and(|peer| lab.fabric.node(peer.node).is_switch())
    };
    let cable = lab
        .fabric
        .links()
        .find(|link| is_long(link.a) && is_long(link.b))
        .unwrap();
    lab.settings.long_haul = vec![LongHaul {
        at: cable.a,
        delay_ns,
        per_vl_blocks,
    }];
    lab
}

/// Returns the throughput over the cable as a share of its rate, with packets on one lane, or on two in turn.
fn throughput(lab: &Lab, lanes: u8) -> f64 {
    let mut simulation = lab.start();
    let (from, to) = (0, 2);
    for mark in 0..8_000_u64 {
        let mut next = packet(&simulation, mark, from, to);
        next.sl = (mark % u64::from(lanes)) as u8;
        send(&mut simulation, from, next);
    }
    let (begin, end) = (100_000 * PS_PER_NS, 500_000 * PS_PER_NS);
    simulation.run_until(end);
    simulation.check().unwrap();
    let arrived = simulation
        .endpoint()
        .times(to)
        .into_iter()
        .filter(|at| *at > begin)
        .count() as u64;
    (arrived * PACKET_PS) as f64 / (end - begin) as f64
}

#[test]
fn a_long_cable_is_full_if_its_buffer_holds_what_is_sent_in_a_round_trip() {
    let check = |delay_ns: u64, blocks: u32, lanes: u8| {
        let found = throughput(&clusters(delay_ns, blocks), lanes);
        let Settings { switch_delay_ns, .. } = Settings::default();
        // From the first byte of a packet to its credits: there, through the switch, and back.
        let round_trip = (2 * delay_ns + switch_delay_ns) * PS_PER_NS + PACKET_PS;
        let held = u64::from(lanes) * u64::from(blocks / PACKET) * PACKET_PS;
        let want = (held as f64 / round_trip as f64).min(1.0);
        assert!(
            (found - want).abs() < 0.01,
            "{delay_ns} ns, {blocks} blocks, {lanes} lanes: {found}, not {want}"
        );
    };
    // 2 km, 10 µs: a round trip is 244 packets.
    check(10_000, 1_000, 1);
    check(10_000, 4_000, 1);
    check(10_000, 8_090, 1);
    check(10_000, 20_000, 1);
    // Each lane has a buffer of its own.
    check(10_000, 2_000, 2);
    check(10_000, 4_045, 2);
    // 10 km and 0.5 km.
    check(50_000, 16_384, 1);
    check(2_500, 1_000, 1);
}

#[test]
fn packets_on_a_long_cable_that_breaks_are_lost_and_their_credits_come_back() {
    let lab = clusters(10_000, 4_000);
    let mut simulation = lab.start();
    offer(&mut simulation, 0, 2, 0, 300);
    simulation.run_until(8_000 * PS_PER_NS);
    let at = lab.settings.long_haul[0].at;
    simulation.apply(Change::Cut(at));
    simulation.run_until(9_000 * PS_PER_NS);
    simulation.apply(Change::Mend(at));
    drain(&mut simulation);
    let (lost, arrived) = (simulation.endpoint().lost.len(), simulation.endpoint().times(2).len());
    assert_eq!(lost + arrived, 300);
    // All that were on the cable, and those that came to a broken one.
    assert!((90..120).contains(&lost), "{lost}");
}

#[test]
fn a_long_cable_that_is_not_there_is_refused() {
    let mut lab = clusters(10_000, 4_000);
    lab.settings.long_haul[0].at.port = selvedge_types::PortNum::MANAGEMENT;
    let network = selvedge_dataplane::Network {
        fabric: &lab.fabric,
        lids: &lab.lids,
        tables: &lab.tables,
        service_levels: &selvedge_plan::ServiceLevels::default(),
        sl_to_vl: &selvedge_plan::SlToVl::modulo(2),
    };
    let error = Simulation::of_endpoint(&network, &lab.settings, Box::default()).unwrap_err();
    assert!(
        error.to_string().starts_with("SLV-DATA-0014: no cable is at"),
        "{error}"
    );
}
