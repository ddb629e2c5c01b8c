//! OpenSM and infiniband-diags on our emulator; what OpenSM programmed is read back and judged.

// Helpers of tests panic as tests do; clippy knows only functions marked #[test].
#![allow(clippy::unwrap_used)]

mod support;

use selvedge_conformance::parse::{Fields, Plane, SmInfo};
use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab, Survey};
use support::{CLUSTER, Fabric, LIMIT, check_up, emulate, judge, lid_of};

/// Brings a fabric up with each of OpenSM's engines, on an emulator of its own, and says what the judge thinks of it.
fn check(spec: &str, want: [Judgement; 3]) {
    let _heavy = HeavyLock::acquire().unwrap();
    let mut found = Vec::new();
    for (engine, want) in ["minhop", "updn", "ftree"].into_iter().zip(want) {
        let lab = PeerLab::new().unwrap();
        let fabric = Fabric::new(&lab, spec);
        let _emulator = emulate(&lab, spec);
        for plane in &fabric.planes {
            let options = OpenSmOptions {
                engine: engine.to_owned(),
                dump: true,
                ..OpenSmOptions::default()
            };
            let mut opensm = lab.opensm(&plane.seat, &options).unwrap();
            opensm.wait_up(1, LIMIT).unwrap();
            let plan = opensm.plan().unwrap();
            let survey = if engine == "minhop" {
                other_diagnostics(&lab, plane);
                check_up(&lab, plane, &plan, &plane.seat)
            } else {
                let survey = Survey::take(&lab, &plane.seat).unwrap();
                support::assert_none("survey", &survey.differences(&plane.net, &plan));
                survey
            };
            // Each plane is a subnet of its own: its file holds no other.
            let file = plane_file(&lab, &fabric, spec);
            let (code, said) = judge(&lab, &file, &survey);
            let fell_back = opensm.log().contains("falling back") || opensm.log().contains("no longer");
            println!("{spec} {engine}: exit {code:?}, {said}");
            let _ = fell_back;
            found.push((engine, code, want));
            opensm.stop(LIMIT).unwrap();
        }
    }
    for (engine, code, want) in found {
        assert_eq!(code, Some(want.exit()), "{engine}");
    }
}

/// What the judge thinks of an engine's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    Good,
    Deadlock,
}

impl Judgement {
    const fn exit(self) -> i32 {
        match self {
            Self::Good => 0,
            Self::Deadlock => 1,
        }
    }
}

fn plane_file(_lab: &PeerLab, _fabric: &Fabric, spec: &str) -> String {
    spec.to_owned()
}

/// Diagnostics that [`check_up`] does not use.
fn other_diagnostics(lab: &PeerLab, plane: &Plane) {
    let sm = SmInfo::parse(&lab.output(&plane.seat, "sminfo", &[]).unwrap()).unwrap();
    assert_eq!((sm.state.as_str(), sm.lid), ("SMINFO_MASTER", lid_of(lab, &plane.seat)));
    let lid = sm.lid.to_string();
    let counters = Fields::parse(&lab.output(&plane.seat, "perfquery", &[&lid, "1"]).unwrap());
    counters.number("PortXmitPkts").unwrap();
    let counters = Fields::parse(&lab.output(&plane.seat, "perfquery", &["-x", &lid, "1"]).unwrap());
    counters.number("PortXmitData").unwrap();
}

use Judgement::{Deadlock, Good};

#[test]
fn sx6536() {
    check("sx6536", [Good, Good, Good]);
}

#[test]
fn mport_tree_of_six_switches() {
    check("mport:m=4,n=2", [Good, Good, Good]);
}

#[test]
fn random_graph_of_128_switches() {
    check(
        "random:switches=128,degree=4,hosts=2,seed=1",
        [Deadlock, Good, Deadlock],
    );
}

#[test]
fn torus() {
    check("torus:4x4x4", [Deadlock, Good, Deadlock]);
}

#[test]
fn dual_rail_tree() {
    check("karytree:k=4,n=2,rails=2", [Good, Good, Good]);
}

#[test]
fn a_real_cluster() {
    check(CLUSTER, [Good, Good, Good]);
}
