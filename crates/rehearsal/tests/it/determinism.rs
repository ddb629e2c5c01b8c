//! Same fabric, seed and commands: the same bytes.

use crate::common;
use std::time::Duration;

use selvedge_plan::Policy;
use selvedge_rehearsal::{Options, Rehearsal};
use selvedge_sim::Seed;

/// Two managers on a noisy fabric that loses a cable, a switch and its master.
fn run(seed: u64) -> (String, u64) {
    let fabric = common::fabric("karytree:k=3,n=2");
    let mut world = Rehearsal::new(
        &fabric,
        Options {
            seed: Seed(seed),
            ..Options::default()
        },
    );
    let a = common::add_manager(&mut world, "a", "\"H-0\"", 1, Policy::default());
    let b = common::add_manager(&mut world, "b", "\"H-8\"", 0, Policy::default());
    for fault in ["loss 2%", "duplicate 2%", "delay 10% max=1ms"] {
        world.fault(&fault.parse().unwrap()).unwrap();
    }
    world.start(a).unwrap();
    world.start(b).unwrap();
    world.run_for(Duration::from_secs(5)).unwrap();
    world.fault(&"cut \"S-L1-0\"[4]".parse().unwrap()).unwrap();
    world.fault(&"kill \"S-L2-2\"".parse().unwrap()).unwrap();
    world.run_for(Duration::from_secs(5)).unwrap();
    world.kill(a).unwrap();
    world.run_for(Duration::from_secs(30)).unwrap();
    (world.log_text(), world.digest())
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let first = run(1);
    assert!(first.0.lines().count() > 20, "{}", first.0);
    assert_eq!(first, run(1));
    assert_ne!(first.1, run(2).1, "the seed decides what is lost");
}
