//! Single switches at saturation, hot spots, parking lots.

use selvedge_dataplane::Queueing;

use super::support::{Flows, Lab, near};

/// Returns the share of the receivers' links for `n` senders and `n` other receivers on one switch, with packets always
/// waiting.
fn switch(n: u32, queueing: Queueing, packets: u32) -> f64 {
    let lab = Lab::new(&format!("single:ports={0},hosts={0}", 2 * n), "minhop").with(|s| {
        s.queueing = queueing;
        s.buffers.per_vl_blocks = Some(33 * packets);
        (s.warmup_ns, s.duration_ns) = (100_000, 4_000_000 / u64::from(n) + 500_000);
    });
    let found = lab.run(&format!("uniform:senders={n}"), "even", 1.0);
    2.0 * found.results.accepted_load
}

/// Karol, Hluchyj, Morgan 1987: head-of-line blocking of an N × N switch; from 8 on Monte Carlo of the same model.
#[test]
fn fifo_saturates_as_karol_says() {
    for (n, want) in [(2, 0.75), (3, 0.6825), (4, 0.655), (8, 0.618), (18, 0.600), (36, 0.593)] {
        near(switch(n, Queueing::Fifo, 8), want, 0.01, &format!("N = {n}"));
    }
}

/// With a queue per output no packet blocks another; the remaining loss is due to buffers that happen to be empty.
#[test]
fn voq_is_near_one() {
    for n in [2, 4, 8, 18] {
        let found = switch(n, Queueing::Voq, 60);
        assert!(found > 0.97 && found <= 1.001, "N = {n}: {found}");
    }
}

/// Pfister and Norton 1985, for senders that draw the hot host with probability h and else any other: each is limited
/// to 1 / (1 + h (N - 2)).
#[test]
fn a_hot_spot_limits_everybody() {
    for (percent, tolerance) in [(1_u32, 0.02), (5, 0.02), (10, 0.02)] {
        let lab = Lab::new("karytree:k=18,n=2", "fat-tree").with(|s| {
            // The tree of full buffers has to grow first; 24,000 packets of the hot link are within 1 %.
            (s.warmup_ns, s.duration_ns) = (1_500_000, 2_000_000);
        });
        let found = lab.run(&format!("hotspot:to=0,share={percent}%"), "bernoulli", 1.0);
        let want = 1.0 / (1.0 + f64::from(percent) / 100.0 * 322.0);
        // The hot host's own messages go elsewhere.
        let others: u64 = found.accepted[1..].iter().sum();
        let load = others as f64 / 323.0 / (2_000_000.0 / 82.96 * 2_048.0);
        near(load, want, tolerance, &format!("h = {percent} %"));
        // The hot host's link is full.
        near(
            found.received[0] as f64,
            2_000_000.0 / 82.96 * 2_048.0,
            0.01,
            "hot link",
        );
    }
}

/// Flows that share buffers, but no output, with an incast: slowed down on its lane, not affected on their own.
#[test]
fn victims_of_an_incast() {
    let of = |vls, sl| {
        let lab = Lab::new("karytree:k=4,n=2", "fat-tree").with(|s| {
            s.vls = vls;
            (s.warmup_ns, s.duration_ns) = (100_000, 3_000_000);
        });
        // Hosts 4 to 7, on one leaf, all send to host 0, and host 4 to host 8 as well.
        let mut flows: Vec<_> = (4..8).map(|from| (from, 0, 0)).collect();
        flows.extend((12..16).map(|from| (from, 0, 0)));
        // By another spine: destinations 0 and 9 have no link in common.
        flows.push((4, 9, sl));
        let found = lab.run_traffic(Flows::new(&flows, 2_048), None);
        found.received[9] as f64 / (3_000_000.0 / 82.96 * 2_048.0)
    };
    // Eight senders share one link; the victim shares its sender's queue with one of them, half and half.
    near(of(1, 0), 1.0 / 8.0, 0.05, "on the same lane");
    // Its sender sends an eighth to the hot host; the remaining capacity is free.
    let own = of(2, 1);
    assert!(own > 0.85, "on its own lane: {own}");
}

/// Inputs take turns at an output, not flows: k inputs with f flows each give a flow 1 / (k f).
#[test]
fn parking_lot() {
    let lab = Lab::new("mesh:3,hosts=2", "minhop").with(|s| (s.warmup_ns, s.duration_ns) = (100_000, 2_000_000));
    // Hosts 0 and 1 on the first switch, 2 and 3 on the second, 4 and 5 on the third; all to host 5.
    let flows: Vec<_> = (0..5).map(|from| (from, 5, 0)).collect();
    let found = lab.run_traffic(Flows::new(&flows, 2_048), None);
    let whole = found.received[5] as f64;
    near(whole, 2_000_000.0 / 82.96 * 2_048.0, 0.001, "hot link");
    let wants = [12.0, 12.0, 6.0, 6.0, 2.0];
    for (host, part) in wants.into_iter().enumerate() {
        near(found.accepted[host] as f64, whole / part, 0.01, &format!("host {host}"));
    }
}
