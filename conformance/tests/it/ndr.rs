//! Switches and adapters of the NDR generation on the built-in emulator. They show their speeds only to requests with
//! bit 31 of the attribute modifier. OpenSM's users report that such fabrics do not work (linux-rdma/opensm, issue 38).

use crate::support::{Fabric, LIMIT, emulate, fault, lid_of, port};
use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab, until};

const SPEC: &str = "mport:m=4,n=2,rate=4xNDR";
/// Rates of path records, with the selector "exactly" in front. Source: IBA vol 1 §15.2.5.16 (PathRecord, Rate).
const QDR_4X: &str = "0x87";
const NDR_4X: &str = "0x95";

fn lab() -> (PeerLab, Fabric, impl Drop) {
    let lab = PeerLab::new().unwrap();
    let fabric = Fabric::new(&lab, SPEC);
    let emulator = emulate(&lab, SPEC);
    for guid in fabric.planes[0].net.nodes.keys() {
        fault(&lab, &format!("shy {guid}"));
    }
    (lab, fabric, emulator)
}

/// Returns the rate from one host to another, as the administrator gives it.
fn rate(lab: &PeerLab, fabric: &Fabric) -> String {
    let asked = || {
        let path = ["H-0", "H-7"].map(|host| lid_of(lab, host).to_string()).join(":");
        let said = lab.run(&fabric.planes[0].seat, "saquery", &["--src-to-dst", &path])?;
        let rate = said.stdout.lines().find(|line| line.trim_start().starts_with("rate."));
        Ok(rate.and_then(|line| line.rsplit('.').next()).map(str::to_owned))
    };
    until("a path record", LIMIT, String::new, asked).unwrap()
}

#[test]
fn opensm_takes_them_for_qdr() {
    let _heavy = HeavyLock::acquire().unwrap();
    let (lab, fabric, _emulator) = lab();
    let mut opensm = lab.opensm(&fabric.planes[0].seat, &OpenSmOptions::default()).unwrap();
    opensm.wait_up(1, LIMIT).unwrap();
    assert_eq!(rate(&lab, &fabric), QDR_4X);
}

#[test]
fn selvedge_knows_them() {
    let _heavy = HeavyLock::acquire().unwrap();
    let (lab, fabric, _emulator) = lab();
    let at = port(lab.base(), &fabric.planes[0].seat);
    let _manager = lab.start_daemon(&["run", "--port", &at]).unwrap();
    assert_eq!(rate(&lab, &fabric), NDR_4X);
}
