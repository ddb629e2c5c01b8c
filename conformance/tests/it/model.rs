//! The analytic model's prediction for OpenSM, compared with OpenSM on the built-in emulator: `selvedge model` predicts
//! numbers of MADs, and a relay counts them.

use crate::support;
use std::collections::BTreeMap;

use crate::support::{Fabric, LIMIT, emulate};
use selvedge_conformance::parse::Plane;
use selvedge_conformance::{HeavyLock, MadCounts, OpenSm, OpenSmOptions, PeerLab, Relay, Running, until};
use selvedge_wire::{Class, Method};

/// The six-switch fabric of the paper, unused ports included.
const FIGURE_3: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fabrics/figure-3.net");

/// Numbers of MADs by method and by code of the attribute. Kinds without MADs are left out.
type Kinds = BTreeMap<(&'static str, u16), u64>;

const NODE_DESCRIPTION: u16 = 0x10;
const NODE_INFO: u16 = 0x11;
const SWITCH_INFO: u16 = 0x12;
const PORT_INFO: u16 = 0x15;
const PKEY_TABLE: u16 = 0x16;
/// Attributes by the name that the model prints. Source of the codes: IBA vol 1 §14.2.5.
const ATTRIBUTES: [(&str, u16); 7] = [
    ("Notice", 0x02),
    ("NodeDescription", NODE_DESCRIPTION),
    ("NodeInfo", NODE_INFO),
    ("SwitchInfo", SWITCH_INFO),
    ("PortInfo", PORT_INFO),
    ("P_KeyTable", PKEY_TABLE),
    ("LinearForwardingTable", 0x19),
];

/// Returns what `selvedge model` predicts for OpenSM.
fn predicted(lab: &PeerLab, spec: &str, seat: &str, question: &str) -> Kinds {
    let seat = format!("\"{seat}\"");
    let said = lab
        .selvedge(&["model", "--fabric", spec, "--seat", &seat, "--csv"])
        .unwrap()
        .success()
        .unwrap();
    let mut kinds = Kinds::new();
    for line in said.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [asked, "OpenSM", _, method, attribute, count] = cells[..] else {
            continue;
        };
        let code = ATTRIBUTES.iter().find(|(name, _)| *name == attribute).unwrap().1;
        let method = ["Get", "Set", "Trap", "TrapRepress"]
            .into_iter()
            .find(|m| *m == method)
            .unwrap();
        if asked == question {
            kinds.insert((method, code), count.parse().unwrap());
        }
    }
    assert!(!kinds.is_empty(), "{said}");
    kinds
}

/// Returns the numbers of SMP Gets and Sets that were counted since `before`.
fn counted(now: &MadCounts, before: &MadCounts) -> Kinds {
    let mut kinds = Kinds::new();
    for (kind, count) in now.iter() {
        let more = count - before.count(|other| other == kind);
        let method = match (kind.class, kind.method) {
            (Class::SubnDirected | Class::SubnLid, Method::Get) => "Get",
            (Class::SubnDirected | Class::SubnLid, Method::Set) => "Set",
            _ => continue,
        };
        if more > 0 {
            *kinds.entry((method, kind.attribute)).or_default() += more;
        }
    }
    kinds
}

/// OpenSM behind a relay, on a fabric of its own.
struct World {
    opensm: OpenSm,
    relay: Relay,
    _emulator: Running,
    plane: Plane,
    lab: PeerLab,
}

impl World {
    fn up(spec: &str) -> Self {
        let lab = PeerLab::new().unwrap();
        let plane = Fabric::new(&lab, spec).planes.remove(0);
        let emulator = emulate(&lab, spec);
        let relay = lab.relay().unwrap();
        // This emulator loses nothing; on a busy machine an answer may be late, and the request would be repeated.
        let options = OpenSmOptions {
            lines: vec!["transaction_timeout 5000".to_owned()],
            ..OpenSmOptions::default()
        };
        let mut opensm = lab.opensm_through(relay.base(), &plane.seat, &options).unwrap();
        opensm.wait_up(1, LIMIT).unwrap();
        Self {
            opensm,
            relay,
            _emulator: emulator,
            plane,
            lab,
        }
    }

    /// Injects a fault, as `selvedge fault` does.
    fn fault(&self, fault: &str) {
        support::fault(&self.lab, fault);
    }
}

fn check_bring_up(spec: &str) {
    let _heavy = HeavyLock::acquire().unwrap();
    let world = World::up(spec);
    let want = predicted(&world.lab, spec, &world.plane.seat, "bring-up");
    assert_eq!(counted(&world.relay.sent(), &MadCounts::default()), want, "{spec}");
}

#[test]
fn opensm_brings_up_with_as_many_mads_as_the_model_says() {
    let process = u64::from(std::process::id());
    let drawn = |n: u64| {
        let (switches, degree, hosts) = (8 + 2 * (process % 20) + 4 * n, 3 + process % 3, 1 + (process + n) % 4);
        format!(
            "random:switches={switches},degree={degree},hosts={hosts},seed={}",
            process + n
        )
    };
    let named = [
        "mport:m=8,n=1",
        "mport:m=4,n=2",
        "mport:m=8,n=3",
        "mport:m=16,n=2",
        "mport:m=16,n=3",
        FIGURE_3,
        "sx6536",
        "torus:4x4x4",
    ];
    for spec in named {
        check_bring_up(spec);
    }
    for n in 0..2 {
        check_bring_up(&drawn(n));
    }
}

/// Compares Gets and SwitchInfo Sets; the number of changed table blocks depends on OpenSM's routing, as the model
/// states.
///
/// Each of several traps may start another heavy sweep of OpenSM, before or after it logs SUBNET UP. Light sweeps
/// between them ask for SwitchInfo.
#[test]
fn opensm_sweeps_after_a_fault_as_the_model_says() {
    let cases = [
        ("sx6536", "link fault", "cut \"S-L1-17\"[36]"),
        ("mport:m=8,n=3", "link fault", "cut \"S-L1-31\"[8]"),
        ("mport:m=8,n=3", "switch fault", "kill \"S-L2-31\""),
    ];
    for (spec, question, fault) in cases {
        let _heavy = HeavyLock::acquire().unwrap();
        let world = World::up(spec);
        let before = world.relay.sent();
        let want = predicted(&world.lab, spec, &world.plane.seat, question);
        world.fault(fault);
        let seen = || counted(&world.relay.sent(), &before);
        let sweeps_in = |got: &Kinds| {
            let times = |kind: (&'static str, u16)| {
                let count = got.get(&kind).copied().unwrap_or(0);
                (count % want[&kind] == 0).then_some(count / want[&kind])
            };
            times(("Get", NODE_INFO)).filter(|&n| n > 0 && times(("Get", PORT_INFO)) == Some(n))
        };
        let (sweeps, got) = until(
            &format!("whole sweeps of {want:?} on {spec} after {fault}"),
            LIMIT,
            || format!("{:?}", seen()),
            || {
                let got = seen();
                let is_up = world.opensm.log().matches("SUBNET UP").count() > 1;
                Ok(sweeps_in(&got).filter(|_| is_up).map(|sweeps| (sweeps, got)))
            },
        )
        .unwrap();
        assert!(sweeps <= want[&("TrapRepress", 0x02)], "{spec}: {sweeps} sweeps");
        assert_eq!(got.get(&("Get", NODE_DESCRIPTION)), None, "{spec}: {fault}");
        assert_eq!(got.get(&("Set", PORT_INFO)), None, "{spec}: {fault}");
        assert_eq!(
            got[&("Set", SWITCH_INFO)],
            want[&("Set", SWITCH_INFO)],
            "{spec}: {fault}"
        );
        if sweeps == 1 {
            assert_eq!(got[&("Get", PKEY_TABLE)], want[&("Get", PKEY_TABLE)], "{spec}: {fault}");
        }
    }
}
