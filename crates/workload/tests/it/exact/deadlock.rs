//! Rings with a deadlock, and routes that avoid it.

use super::support::{Flows, Lab};

fn ring(engine: &str) -> Lab {
    Lab::new("ring:switches=6,hosts=1", engine).with(|s| {
        s.buffers.per_vl_blocks = Some(66);
        (s.warmup_ns, s.duration_ns) = (20_000, 200_000);
    })
}

/// Every host sends to its second neighbour in the same direction: shortest paths close a cycle.
#[test]
fn shortest_paths_around_a_ring_deadlock_and_the_circle_is_named() {
    let flows: Vec<_> = (0..6).map(|host| (host, (host + 2) % 6, 0)).collect();
    let found = ring("minhop").run_traffic(Flows::new(&flows, 2_048), None);
    let deadlock = found.results.deadlock.unwrap();
    assert_eq!(deadlock.cycle.len(), 6, "{deadlock:?}");
    assert!(deadlock.cycle.iter().all(|name| name.ends_with("VL 0")), "{deadlock:?}");
    let mut names = deadlock.cycle.clone();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 6, "every switch once: {deadlock:?}");
}

#[test]
fn routes_without_a_circle_run_on_one_lane() {
    for engine in ["updn", "weave"] {
        let flows: Vec<_> = (0..6).map(|host| (host, (host + 2) % 6, 0)).collect();
        let found = ring(engine).run_traffic(Flows::new(&flows, 2_048), None);
        assert_eq!(found.results.deadlock, None, "{engine}");
        // Every host delivers packets until the end.
        assert!(
            found.accepted.iter().all(|&bytes| bytes > 100_000),
            "{engine}: {:?}",
            found.accepted
        );
    }
}

/// Lifetimes that end within the simulation break the cycle, at the cost of dropped packets.
#[test]
fn head_of_queue_lifetimes_break_a_circle() {
    let flows: Vec<_> = (0..6).map(|host| (host, (host + 2) % 6, 0)).collect();
    let mut lab = ring("minhop");
    // 4.096 µs · 2.
    lab.settings.hoq_life = 1;
    let found = lab.run_traffic(Flows::new(&flows, 2_048), None);
    assert_eq!(found.results.deadlock, None);
    assert!(found.results.drops.head_of_queue > 0, "{:?}", found.results.drops);
    assert_eq!(found.results.drops.total(), found.results.drops.head_of_queue);
}
