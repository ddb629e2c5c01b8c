//! Arbitration between lanes on a shared link.

use selvedge_dataplane::VlArb;

use super::support::{Flows, Lab, near};

/// Two hosts to a third, each on its lane, with tables at every output: bytes of each.
fn shares(arb: &VlArb, bytes: u32) -> [f64; 2] {
    let lab = Lab::new("single:ports=4,hosts=3", "minhop").with(|s| {
        s.vls = 2;
        s.vl_arb = arb.clone();
        (s.warmup_ns, s.duration_ns) = (50_000, 2_000_000);
    });
    let found = lab.run_traffic(Flows::new(&[(0, 2, 0), (1, 2, 1)], bytes), None);
    [found.accepted[0] as f64, found.accepted[1] as f64]
}

/// IBA §7.6.9: weights in units of 64 bytes, a packet rounded up; 2,074 bytes are 33.
#[test]
fn low_priority_shares_are_weights() {
    let check = |low: &[(u8, u8)], bytes, want: f64| {
        let arb = VlArb {
            low: low.to_vec(),
            ..VlArb::default()
        };
        let [a, b] = shares(&arb, bytes);
        near(b / a, want, 0.005, &format!("{low:?}"));
    };
    check(&[(0, 33), (1, 33)], 2_048, 1.0);
    check(&[(0, 33), (1, 99)], 2_048, 3.0);
    check(&[(0, 33), (1, 231)], 2_048, 7.0);
    // 34 units let a second packet begin.
    check(&[(0, 33), (1, 34)], 2_048, 2.0);
    // 228 + 26 bytes: 4 units. Two bytes more are padded to 232, and make 5: two packets, and sixteen.
    check(&[(0, 8), (1, 80)], 228, 10.0);
    check(&[(0, 8), (1, 80)], 230, 8.0);
}

/// The limit is in units of 4 KiB; 33 units of 64 bytes a packet, so L = 1 lets two packets of high priority pass
/// (33 < 64), L = 0 one, and 255 all.
#[test]
fn the_limit_of_high_priority_is_exact() {
    let check = |high_limit, want: f64| {
        let arb = VlArb {
            high: vec![(1, 255)],
            low: vec![(0, 255)],
            high_limit,
        };
        let [a, b] = shares(&arb, 2_048);
        near(b / a, want, 0.005, &format!("limit {high_limit}"));
    };
    check(0, 1.0);
    check(1, 2.0);
    check(2, 4.0);
    check(4, 8.0);
    let arb = VlArb {
        high: vec![(1, 255)],
        low: vec![(0, 255)],
        high_limit: 255,
    };
    let [a, b] = shares(&arb, 2_048);
    assert!(a == 0.0 && b > 0.0, "unlimited: {a} {b}");
}
