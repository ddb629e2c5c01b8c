//! The shapes that `auto` recognises, and the engines that it chooses.

use crate::common;
use selvedge_fabric::Fabric;
use selvedge_plan::SlToVl;
use selvedge_routing::{Engine, Note, Options, Routed, Topology};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_verify::{JudgeOptions, Subject, verify};

fn fabric(spec: &str) -> Fabric {
    match spec.parse().unwrap() {
        Spec::Generated(recipe) => recipe.fabric().unwrap(),
        Spec::File(path) => panic!("{} is no generator", path.display()),
    }
}

/// Routes, judges, and returns the notes.
fn route(spec: &str, options: &Options) -> Routed {
    let fabric = fabric(spec);
    let lids = common::number(&fabric, 0);
    let routed = Engine::Auto
        .route(&fabric, &lids, options, Seed(1), Par::Sequential)
        .unwrap();
    let again = Engine::Auto
        .route(&fabric, &lids, options, Seed(1), Par::Rayon)
        .unwrap();
    assert_eq!(routed, again, "{spec}: one thread and many");
    let sl_to_vl = SlToVl::modulo(routed.lanes);
    let subject = Subject::tables(&fabric, &lids, &routed.tables, &routed.service_levels, &sl_to_vl);
    let verdict = verify(subject, &JudgeOptions::default());
    assert_eq!(verdict.errors().next(), None, "{spec}");
    routed
}

fn looks(routed: &Routed) -> String {
    let topology = routed.notes.iter().find_map(|note| match note {
        Note::Recognised { topology } => Some(topology.to_string()),
        _ => None,
    });
    topology.unwrap()
}

#[test]
fn fabrics_are_recognised() {
    let check = |spec: &str, engine: &str, want: &str| {
        let routed = route(spec, &Options::default());
        assert_eq!(routed.engine.0, engine, "{spec}");
        let found = looks(&routed);
        assert!(found.starts_with(want), "{spec}: {found}, want {want}");
    };
    let whole = ", 0 links and 0 switches missing";
    let grid = |spec: &str, want: &str| check(spec, "weave", &format!("{want}{whole}"));
    check("sx6536", "fat-tree", "fat tree of 2 levels with 18 leaves");
    check("karytree:k=4,n=3", "fat-tree", "fat tree of 3 levels with 16 leaves");
    check(
        "karytree:k=4,n=3,remove-links=3%",
        "fat-tree",
        "fat tree of 3 levels with 16 leaves",
    );
    check("single:ports=8,hosts=8", "fat-tree", "fat tree of 1 levels");
    grid("ring:switches=7,hosts=1", "ring of 7 switches");
    grid("ring:switches=4,hosts=1", "ring of 4 switches");
    grid("ring:switches=3,hosts=1", "ring of 3 switches");
    grid("torus:3x3,hosts=1", "torus of 3x3");
    grid("torus:6x5,hosts=1", "torus of 6x5");
    grid("torus:4x6,hosts=1", "torus of 6x4");
    grid("torus:3x4x5,hosts=1", "torus of 5x4x3");
    grid(
        "torus:4x4,hosts=1",
        "hypercube of 4 dimensions (a torus of 4x4 is the same)",
    );
    grid("torus:2x2x2,hosts=1", "hypercube of 3 dimensions");
    grid("mesh:2x2x2x2x2,hosts=1", "hypercube of 5 dimensions");
    grid("mesh:5x3,hosts=1", "mesh of 5x3");
    grid("mesh:4x4x3,hosts=1,guids=shuffled", "mesh of 4x4x3");
    grid("torus:5x5x5,hosts=1,guids=shuffled", "torus of 5x5x5");
    grid("torus:5x5,hosts=1,rails=2", "torus of 5x5");
    check(
        "random:switches=24,degree=4,hosts=1,seed=3",
        "weave",
        "irregular: 24 switches of 4 to 4 neighbours, 48 links",
    );
    check(
        "random:switches=60,degree=6,hosts=1,seed=4",
        "weave",
        "irregular: 60 switches",
    );
}

/// Cables are lost at random: the number of fabrics that are still recognised. None is recognised as another shape.
#[test]
fn damaged_grids_are_recognised() {
    let check = |spec: &str, removed: u32, want: &str, least: usize| {
        let seen = (1..=20).filter(|seed| {
            let fabric = fabric(&format!("{spec},remove-links={removed},seed={seed}"));
            let lids = common::number(&fabric, 0);
            let options = Options::default();
            let routed = Engine::Auto
                .route(&fabric, &lids, &options, Seed(1), Par::Sequential)
                .unwrap();
            let found = routed.notes.iter().find_map(|note| match note {
                Note::Recognised {
                    topology: Topology::Grid(grid),
                } => Some(grid.to_string()),
                _ => None,
            });
            let want = format!("{want}, {removed} links and 0 switches missing");
            assert!(
                found.as_ref().is_none_or(|found| *found == want),
                "{found:?}, want {want}, seed {seed}"
            );
            found.is_some()
        });
        let seen = seen.count();
        assert!(seen >= least, "{spec} less {removed}: {seen} of 20");
    };
    check("torus:6x6,hosts=1", 1, "torus of 6x6", 18);
    check("torus:5x5x5,hosts=1", 4, "torus of 5x5x5", 20);
    check("torus:5x5x5,hosts=1", 11, "torus of 5x5x5", 15);
    check("mesh:5x5x5,hosts=1", 3, "mesh of 5x5x5", 15);
    check("mesh:6x6,hosts=1", 1, "mesh of 6x6", 15);
    check(
        "mesh:2x2x2x2x2x2,hosts=1",
        3,
        "hypercube of 6 dimensions (a torus of 4x4x4 is the same)",
        18,
    );
}

#[test]
fn reasons_are_given() {
    let check = |spec: &str, want: &str| {
        let routed = route(spec, &Options::default());
        let found = routed
            .notes
            .iter()
            .map(ToString::to_string)
            .find(|text| text.contains("SLV-ROUTE-0132"));
        assert!(found.as_ref().unwrap().contains(want), "{spec}: {found:?}");
    };
    check(
        "sx6536",
        "auto takes fat-tree; candidates fat-tree, weave: fat-tree accepts the fabric",
    );
    check(
        "torus:5x5,hosts=1",
        "auto takes weave; candidates fat-tree, weave: fat-tree refuses (SLV-ROUTE-0011",
    );
}

#[test]
fn lanes_are_passed_on() {
    let options = Options {
        lanes: Some(4),
        ..Options::default()
    };
    assert_eq!(route("torus:5x5,hosts=1", &options).lanes, 4);
}
