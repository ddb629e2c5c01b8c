//! Rates of a link, and limits by credits.

use selvedge_dataplane::{LinkRate, Speed};
use selvedge_types::{LinkWidth, Mtu};

use super::support::{Flows, Lab, near};

/// Payload rate = data rate · MTU / (MTU + 26): LRH 8, BTH 12, ICRC 4, VCRC 2.
#[test]
fn payload_rates_of_every_speed_and_mtu() {
    // Buffers that cover the round trip at every rate.
    let mut lab = Lab::new("single:ports=4,hosts=2", "minhop").with(|s| s.buffers.per_vl_blocks = Some(2_048));
    let mut check = |speed, width, mtu: Mtu, gbit: f64| {
        lab.settings.link = Some(LinkRate { width, speed });
        lab.settings.mtu = mtu;
        let bytes = f64::from(mtu.bytes());
        let want = gbit * bytes / (bytes + 26.0);
        // 2,000 packets, so that one more or less is within the tolerance.
        lab.settings.duration_ns = (2_000.0 * bytes * 8.0 / want) as u64;
        let found = lab.run_traffic(Flows::new(&[(0, 1, 0)], u32::from(mtu.bytes())), None);
        let gbit_found = found.received[1] as f64 * 8.0 / lab.settings.duration_ns as f64;
        near(gbit_found, want, 0.001, &format!("{width} {speed:?} {mtu:?}"));
    };
    let mtus = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];
    for mtu in mtus {
        check(Speed::Sdr, LinkWidth::X4, mtu, 8.0);
        check(Speed::Qdr, LinkWidth::X4, mtu, 32.0);
        check(Speed::Fdr, LinkWidth::X4, mtu, 54.545_454_5);
        check(Speed::Edr, LinkWidth::X4, mtu, 100.0);
        check(Speed::Hdr, LinkWidth::X4, mtu, 200.0);
    }
    check(Speed::Ddr, LinkWidth::X1, Mtu::B2048, 4.0);
    check(Speed::Fdr10, LinkWidth::X4, Mtu::B2048, 40.0);
    check(Speed::Ndr, LinkWidth::X4, Mtu::B4096, 400.0);
    check(Speed::Xdr, LinkWidth::X12, Mtu::B4096, 2_400.0);
}

/// Throughput = buffer / (time of a packet + both ways through the cable + switch), until it is the link's.
#[test]
fn throughput_is_linear_in_the_buffer() {
    let mut lab = Lab::new("single:ports=4,hosts=2", "minhop").with(|s| {
        s.link = Some(LinkRate::four(Speed::Qdr));
        s.cable_delay_ns = 2_000;
        s.duration_ns = 2_000_000;
    });
    let packet_ns = 2_074.0 * 0.25;
    let round_trip_ns = packet_ns + 100.0 + 2.0 * 2_000.0;
    for packets in 1..=12_u32 {
        // A remainder smaller than a packet does not help.
        for rest in [0, 32] {
            lab.settings.buffers.per_vl_blocks = Some(33 * packets + rest);
            let found = lab.run_traffic(Flows::new(&[(0, 1, 0)], 2_048), None);
            let gbit = found.received[1] as f64 * 8.0 / lab.settings.duration_ns as f64;
            let want = (f64::from(packets) * 2_048.0 * 8.0 / round_trip_ns).min(2_048.0 * 8.0 / packet_ns);
            near(gbit, want, 0.005, &format!("{packets} packets"));
        }
    }
}

/// A shared pool gives a lane's credits back while it has room: with it, a small private buffer does not limit.
#[test]
fn a_shared_pool_adds_to_private_buffers() {
    let mut lab = Lab::new("single:ports=4,hosts=3", "minhop").with(|s| {
        s.buffers.per_vl_blocks = Some(33);
        s.duration_ns = 400_000;
    });
    let received = |lab: &Lab, flows| lab.run_traffic(flows, None).received[2];
    let alone = received(&lab, Flows::new(&[(0, 2, 0)], 2_048));
    lab.settings.buffers.shared_blocks = 330;
    let pooled = received(&lab, Flows::new(&[(0, 2, 0)], 2_048));
    // 33 blocks: one packet per 83 + 150 ns. The pool's credits come back when the first byte arrives: 150 ns, and
    // the packet itself holds the link for 83 ns of these.
    near(alone as f64, 400_000.0 / 232.96 * 2_048.0, 0.01, "private only");
    near(pooled as f64, 400_000.0 / 150.0 * 2_048.0, 0.01, "with a pool");
}

/// A packet's time through an idle tree: its length once, and a delay per cable and switch.
#[test]
fn latency_of_an_idle_fabric() {
    let lab = Lab::new("karytree:k=4,n=2", "fat-tree").with(|s| {
        s.link = Some(LinkRate::four(Speed::Edr));
        s.duration_ns = 3_000_000;
    });
    let found = lab.run("pairs:0>15", "poisson", 0.001);
    // 2,074 bytes of 80 ps, 4 cables of 25 ns, 3 switches of 100 ns.
    assert_eq!(found.results.latency_ns.p50, 565, "{:?}", found.results.latency_ns);
}
