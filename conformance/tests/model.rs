//! The analytic model against OpenSM on our emulator.

// Helpers of tests panic as tests do; clippy knows only functions marked #[test].
#![allow(clippy::unwrap_used)]

mod support;

use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab};
use support::{Fabric, LIMIT, emulate};

#[test]
fn probe() {
    for spec in std::env::var("SPECS").unwrap().split(' ') {
        let _heavy = HeavyLock::acquire().unwrap();
        let lab = PeerLab::new().unwrap();
        let plane = Fabric::new(&lab, spec).planes.remove(0);
        let _emulator = emulate(&lab, spec);
        let relay = lab.relay().unwrap();
        let mut opensm = lab.opensm_through(relay.base(), &plane.seat, &OpenSmOptions::default()).unwrap();
        opensm.wait_up(1, LIMIT).unwrap();
        println!("=== {spec} seat {}\n{}", plane.seat, relay.sent());
        println!("{}", opensm.log());
    }
}
