//! `selvedge soak` in real time: the same faults for OpenSM and for our manager, as programs on our emulator.

use std::time::Duration;

use selvedge_conformance::{HeavyLock, PeerLab};

/// The seed of a tree. With it, the first events last few seconds and leave every agent and cable unchanged at their
/// end.
const SEEDS: &str = "3..4";
const EVENTS: &str = "12";
const LIMIT: Duration = Duration::from_secs(180);

/// Checks what must hold in every run, because counts vary in real time: the run comes to its end, and agents accept
/// Sets. After the faults, every port is ACTIVE with a LID of its own, every route exists, and the judge finds no
/// error.
fn check(manager: &str) {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let arguments = [
        "soak",
        "--manager",
        manager,
        "--seeds",
        SEEDS,
        "--events",
        EVENTS,
        "--json",
    ];
    let ended = lab.start_selvedge(&arguments).unwrap().finish(LIMIT).unwrap();
    let said: String = ended.stdout.split_whitespace().collect();
    assert!(said.contains(&format!("\"manager\":\"{manager}\"")), "{said}");
    assert!(!said.contains("\"error\":"), "{said}");
    assert!(said.contains("\"sets\":") && !said.contains("\"sets\":0,"), "{said}");
    let converged = said.split("\"converged_s\":[").nth(1).unwrap_or_default();
    let mended = converged.split(']').next().unwrap_or_default().split(',').nth(1);
    let seconds: Option<f64> = mended.and_then(|text| text.parse().ok());
    assert!(seconds.is_some_and(|seconds| seconds < 60.0), "{mended:?}: {said}");
}

#[test]
fn opensm() {
    check("opensm");
}

#[test]
fn selvedge() {
    check("selvedge");
}
