//! The paper's micro-benchmarks: what is fitted is met, and how times grow.

use selvedge_tolerance::paper::{
    Case, FEW, FEW_LONGER, INIT_RTS_LONGER, Transition, computation, fitted, init_rts, latency, transition,
};

const SEC: f64 = 1e12;

#[test]
fn fitted_costs_meet_what_they_are_fitted_to() {
    let settings = fitted().unwrap();
    for qps in [1, 64] {
        let times = [false, true].map(|with| init_rts(&settings, qps, with).unwrap() as f64);
        assert!((times[1] / times[0] - 1.0 - INIT_RTS_LONGER).abs() < 0.002, "{times:?}");
    }
    let of = |wanted| transition(&settings, FEW, wanted).unwrap() as f64;
    let longer = of(Transition::ArmedMigrated) / of(Transition::MigratedArmed) - 1.0;
    assert!((longer - FEW_LONGER).abs() < 0.005, "{longer}");
}

#[test]
fn times_are_linear_in_the_number_of_queue_pairs() {
    let settings = fitted().unwrap();
    for wanted in [Transition::MigratedArmed, Transition::ArmedMigrated] {
        let of = |qps| transition(&settings, qps, wanted).unwrap() as f64;
        let [a, b, c] = [64, 128, 192].map(of);
        assert!(((c - b) / (b - a) - 1.0).abs() < 0.02, "{wanted:?}: {a} {b} {c}");
        assert!(b > 1.5 * a && c < SEC, "{wanted:?}: it ends");
        let lost = [64, 128].map(|qps| computation(&settings, qps, wanted).unwrap() as f64);
        assert!((lost[1] / lost[0] - 2.0).abs() < 0.1, "{lost:?}");
    }
}

#[test]
fn each_transition_costs_latency_and_a_fault_costs_too() {
    let settings = fitted().unwrap();
    let of = |bytes, case| latency(&settings, 64, bytes, case).unwrap();
    let original = of(128, Case::Original);
    assert_eq!(original.iterations, 64);
    assert!((1e6..2e7).contains(&original.mean_ps), "{original:?}");
    let cases = [
        Case::Requested(Transition::MigratedArmed),
        Case::Requested(Transition::ArmedMigrated),
        Case::Fault,
    ];
    for case in cases {
        let found = of(128, case);
        // After a fault the receiver's queue pairs follow one by one, and each exchanges its paths.
        assert!(
            found.iterations >= 64 && found.mean_ps > 1.2 * original.mean_ps,
            "{case:?}: {found:?}"
        );
        // The overhead of a queue pair does not depend on the length.
        let over = |bytes| of(bytes, case).mean_ps - of(bytes, Case::Original).mean_ps;
        let (short, long) = (over(8), over(1_024));
        assert!((short / long - 1.0).abs() < 0.15, "{case:?}: {short} {long}");
    }
}
