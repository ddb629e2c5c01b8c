//! The judge's verdicts on `dor` and `lash`. `opensm.rs` shows that their tables are OpenSM's.

use crate::common;
use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, SlToVl};
use selvedge_routing::{Engine, EngineError, Options, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_verify::{JudgeOptions, Kind, Subject, Verdict, verify};

fn generated(spec: &str) -> (Fabric, Lids) {
    let Ok(Spec::Generated(recipe)) = spec.parse() else {
        panic!("{spec}")
    };
    let fabric = recipe.fabric().unwrap();
    let lids = common::number(&fabric, 0);
    (fabric, lids)
}

fn route(engine: Engine, (fabric, lids): &(Fabric, Lids), lanes: Option<u8>) -> Result<Routed, EngineError> {
    let options = Options {
        lanes,
        ..Options::default()
    };
    engine.route(fabric, lids, &options, Seed(0), Par::Sequential)
}

fn judged((fabric, lids): &(Fabric, Lids), routed: &Routed) -> Verdict {
    let lanes = SlToVl::modulo(routed.lanes);
    let subject = Subject::tables(fabric, lids, &routed.tables, &routed.service_levels, &lanes);
    verify(subject, &JudgeOptions::default())
}

#[test]
fn dor_is_safe_on_meshes_and_refused_on_tori() {
    let check = |spec: &str, is_safe: bool| {
        let fabric = generated(spec);
        let routed = route(Engine::Dor, &fabric, None).unwrap();
        let verdict = judged(&fabric, &routed);
        assert_eq!(verdict.is_ok(), is_safe, "{spec}: {:?}", verdict.errors().next());
        assert_eq!(verdict.count_of(Kind::HostCycle) > 0, !is_safe, "{spec}");
    };
    check("mesh:4x4,hosts=2", true);
    check("mesh:3x4x5,hosts=1", true);
    check("mesh:2x2x2x2,hosts=2", true);
    // Paths of at most one hop have no dependencies.
    check("torus:3x3,hosts=2", true);
    check("torus:4x4,hosts=2", false);
    check("torus:5x5x5,hosts=1", false);
    check("ring:switches=6,hosts=1", false);
}

/// Minhop spreads over all dimensions; on a mesh that closes credit loops where `dor` has none.
#[test]
fn the_order_of_dimensions_is_what_keeps_a_mesh_safe() {
    let fabric = generated("mesh:4x4,hosts=2");
    let minhop = route(Engine::MinHop, &fabric, None).unwrap();
    assert!(judged(&fabric, &minhop).count_of(Kind::HostCycle) > 0);
}

/// The number of lanes of `lash`, compared with the number that OpenSM reported (it assigns lanes to pairs of
/// switches).
#[test]
fn lash_on_lanes() {
    let mut report = String::new();
    macro_rules! check {
        ($name:literal, $theirs:literal) => {
            let fabric = common::discover(include_str!(concat!("../fixtures/", $name, ".net")));
            let routed = route(Engine::Lash, &fabric, None).unwrap();
            let verdict = judged(&fabric, &routed);
            assert!(verdict.is_ok(), "{}: {:?}", $name, verdict.errors().next());
            report += &format!("{}: {}, OpenSM {}\n", $name, routed.lanes, $theirs);
        };
    }
    check!("tree-4-3", 4);
    check!("tree-3-2-lmc2", 1);
    check!("tree-links-2", 1);
    check!("tree-3-3-holes", 3);
    check!("torus-4x4", 2);
    check!("ring-7", 2);
    check!("random-32", 4);
    check!("random-24-lmc2", 4);
    let want = "tree-4-3: 1, OpenSM 4\ntree-3-2-lmc2: 1, OpenSM 1\ntree-links-2: 1, OpenSM 1\n\
                tree-3-3-holes: 2, OpenSM 3\ntorus-4x4: 4, OpenSM 2\nring-7: 2, OpenSM 2\n\
                random-32: 4, OpenSM 4\nrandom-24-lmc2: 3, OpenSM 4\n";
    assert_eq!(report, want);
}

#[test]
fn lash_refuses_when_lanes_run_out() {
    let ring = common::discover(include_str!("../fixtures/ring-7.net"));
    let error = route(Engine::Lash, &ring, Some(1)).unwrap_err();
    assert_eq!(
        error,
        EngineError::TooFewLanes {
            engine: "lash",
            most: 1
        }
    );
    assert!(
        error
            .to_string()
            .starts_with("SLV-ROUTE-0006: lash needs more than the 1 lanes")
    );
    assert_eq!(route(Engine::Lash, &ring, Some(2)).unwrap().lanes, 2);
}

/// A fabric in parts, as OpenSM's crash with 13 switches (issue 30 there): each part is routed.
#[test]
fn lash_routes_a_fabric_in_parts() {
    let whole = generated("ring:switches=13,hosts=1").0;
    let fabric = common::without(&whole, |link| link % 4 == 0);
    assert_eq!(whole.links().count() - fabric.links().count(), 4, "four parts");
    let lids = common::number(&fabric, 0);
    let parts = (fabric, lids);
    let routed = route(Engine::Lash, &parts, None).unwrap();
    let verdict = judged(&parts, &routed);
    assert!(verdict.is_ok(), "{:?}", verdict.errors().next());
}
