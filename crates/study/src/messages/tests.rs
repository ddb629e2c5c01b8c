//! Tests of messages under load.

use selvedge_dataplane::VlArb;
use selvedge_hca::Transport;
use selvedge_messaging::{Scheme, Sizes};
use selvedge_types::Sl;

use super::*;

fn sl(level: u8) -> Sl {
    Sl::new(level).unwrap()
}

fn job(level: u8) -> Policy {
    Policy::new(Scheme::Job(sl(level)), Transport::Rc).unwrap()
}

/// Level 1 has priority over level 0.
fn bed(loaders: u32, policy: Policy) -> Bed {
    Bed {
        settings: Settings {
            link: Some("4x-ddr".parse().unwrap()),
            vls: 2,
            vl_arb: VlArb {
                high: vec![(1, 255)],
                low: vec![(0, 255)],
                high_limit: 0,
            },
            ..Settings::default()
        },
        long_haul: None,
        costs: Costs::default(),
        library: Library::default(),
        measured: 1,
        load: (loaders > 0).then(|| {
            let load = Load {
                policy,
                sizes: vec![65_536],
                in_flight: 4,
            };
            (loaders, load)
        }),
        settle: 200_000 * PS_PER_NS,
        seed: Seed(1),
    }
}

#[test]
fn priority_brings_a_loaded_latency_near_to_an_idle_one() {
    for bytes in [8, 65_536] {
        let idle = bed(0, job(0)).latency(&job(0), bytes, 20).unwrap().mean_ps;
        let same = bed(3, job(0)).latency(&job(0), bytes, 20).unwrap().mean_ps;
        let first = bed(3, job(0)).latency(&job(1), bytes, 20).unwrap().mean_ps;
        assert!(idle < first && first < same, "{bytes} B: {idle} {first} {same}");
    }
}

#[test]
fn one_seed_gives_one_answer() {
    let time = |seed| {
        let bed = Bed {
            seed: Seed(seed),
            ..bed(2, job(0))
        };
        bed.latency(&job(0), 1_000, 10).unwrap()
    };
    assert_eq!(time(1), time(1));
    assert_ne!(time(1), time(2));
}

#[test]
fn a_kernel_ends_and_takes_longer_under_load() {
    let kernel = Kernel {
        block: 65_536,
        short: 64,
        sums: 2,
        rounds: 3,
    };
    let round = |loaders| {
        let bed = Bed {
            measured: 2,
            ..bed(loaders, job(0))
        };
        bed.kernel(&job(0), &kernel).unwrap().round_ps
    };
    let (idle, loaded) = (round(0), round(2));
    // A host gets three blocks, two of them by the cable that both hosts of a cluster share: 16 Gbit/s.
    let least = 4.0 * 65_536.0 * 8.0 / 16.0 * 1_000.0;
    assert!(least < idle && idle < 2.0 * least, "{least} {idle}");
    assert!(loaded > idle * 1.2, "{idle} {loaded}");
}

#[test]
fn a_long_cable_is_slow_where_a_lane_cannot_hold_a_round_trip() {
    let time = |blocks| {
        let bed = Bed {
            long_haul: Some((50_000, blocks)),
            ..bed(0, job(0))
        };
        bed.latency(&job(0), 1 << 20, 2).unwrap().mean_ps / 1e6
    };
    // 10 km. A request, an answer, and then 8 round trips: a connection has 64 packets under way at most.
    let (small, large) = (time(400), time(4_000));
    assert!((900.0..1_100.0).contains(&large), "{large} µs");
    // 12 packets in each round trip of 101 µs.
    assert!(small > 4_000.0, "{small} µs");
}

#[test]
fn classes_by_size_help_short_messages_of_the_same_job() {
    let sizes = Sizes {
        control: sl(1),
        classes: vec![(1_024, sl(1))],
        rest: sl(0),
    };
    let classes = Policy::new(Scheme::Sizes(sizes), Transport::Rc).unwrap();
    let time = |policy: &Policy, bytes| bed(3, policy.clone()).latency(policy, bytes, 20).unwrap().mean_ps;
    assert!(time(&classes, 1_024) < 0.8 * time(&job(0), 1_024));
    assert!(
        time(&classes, 1_025) > 0.8 * time(&job(0), 1_025),
        "above the threshold nothing is gained"
    );
}
