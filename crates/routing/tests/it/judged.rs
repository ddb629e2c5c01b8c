//! The judge's verdicts on `sssp` and `dfsssp`, beside those on OpenSM's tables: see `fixtures/README.md`.

use crate::common;
use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, NO_PATH, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, EngineError, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::{LinkRemoval, Spec, without_links};
use selvedge_types::Lid;
use selvedge_verify::{JudgeOptions, Subject, Verdict, verify};

fn judged(fabric: &Fabric, lids: &Lids, tables: &Tables, levels: &ServiceLevels, lanes: u8) -> Verdict {
    let sl_to_vl = SlToVl::modulo(lanes);
    let subject = Subject::tables(fabric, lids, tables, levels, &sl_to_vl);
    verify(subject, &JudgeOptions::default())
}

/// OpenSM's tables as they were recorded.
fn theirs(fabric: &Fabric, lids: &Lids, text: &str) -> Tables {
    let mut tables = Tables::new(fabric.switches().len(), lids.top());
    for (guid, entries) in common::recorded(text) {
        let switch = fabric.switch_index(fabric.find(guid).unwrap()).unwrap();
        for (lid, &egress) in (0..).map(Lid).zip(&entries).filter(|(_, egress)| **egress != NO_PATH) {
            tables.set(switch, lid, egress);
        }
    }
    tables
}

/// A recording, with the number of lanes that OpenSM's `dfsssp` reported.
fn check(name: &str, net: &str, recorded: &str, their_lanes: u8) -> String {
    let (fabric, lids) = common::discover(net);
    let uniform = ServiceLevels::default();
    let theirs = judged(&fabric, &lids, &theirs(&fabric, &lids, recorded), &uniform, 1);
    // It counts hosts only, not what switches send to hosts: its one lane can be too few.
    let refused = their_lanes == 1 && theirs.errors().count() > 0;
    let options = Options::default();
    let route = |engine: Engine| {
        engine
            .route(&fabric, &lids, &options, Seed(0), Par::Sequential)
            .unwrap()
    };
    let sssp = route(Engine::Sssp);
    let spread = judged(&fabric, &lids, &sssp.tables, &uniform, 1).figures;
    let dfsssp = route(Engine::Dfsssp);
    let ours = judged(&fabric, &lids, &dfsssp.tables, &dfsssp.service_levels, dfsssp.lanes);
    assert_eq!(ours.errors().count(), 0, "{name}: {:?}", ours.errors().next());
    let (ours, theirs) = (ours.figures, theirs.figures);
    for figures in [&spread, &ours] {
        assert_eq!(figures.host_pairs_reached, theirs.host_pairs_reached, "{name}");
        assert!(figures.load.max <= theirs.load.max, "{name}");
    }
    assert!(dfsssp.lanes <= their_lanes || refused, "{name}");
    format!(
        "{name}: sssp {}, dfsssp {} on {} lanes; OpenSM {} on {their_lanes}{}\n",
        spread.load.max,
        ours.load.max,
        dfsssp.lanes,
        theirs.load.max,
        if refused { " (refused)" } else { "" }
    )
}

macro_rules! fixture {
    ($name:literal, $lanes:literal) => {
        check(
            $name,
            include_str!(concat!("../fixtures/", $name, ".net")),
            include_str!(concat!("../fixtures/", $name, ".sssp.lft")),
            $lanes,
        )
    };
}

/// Most host pairs on a link, and lanes. A change of this table is explained where it is committed.
#[test]
fn sssp_and_dfsssp_are_no_worse_than_opensm() {
    let table = [
        fixture!("tree-4-3", 1),
        fixture!("tree-links-2", 1),
        fixture!("tree-3-3-holes", 1),
        fixture!("tree-3-2-lmc2", 1),
        fixture!("ring-7", 2),
        fixture!("torus-4x4", 4),
        fixture!("random-32", 4),
        fixture!("random-24-lmc2", 4),
    ];
    let want = "\
tree-4-3: sssp 60, dfsssp 60 on 1 lanes; OpenSM 96 on 1
tree-links-2: sssp 16, dfsssp 16 on 1 lanes; OpenSM 20 on 1
tree-3-3-holes: sssp 22, dfsssp 22 on 1 lanes; OpenSM 30 on 1 (refused)
tree-3-2-lmc2: sssp 6, dfsssp 6 on 1 lanes; OpenSM 6 on 1
ring-7: sssp 6, dfsssp 6 on 2 lanes; OpenSM 6 on 2
torus-4x4: sssp 34, dfsssp 40 on 2 lanes; OpenSM 48 on 4
random-32: sssp 110, dfsssp 110 on 4 lanes; OpenSM 130 on 4
random-24-lmc2: sssp 78, dfsssp 78 on 3 lanes; OpenSM 86 on 4
";
    assert_eq!(table.concat(), want);
}

/// A generated fabric less some links, routed by `sssp` and `dfsssp`: the peak of both, and the lanes.
fn peaks(spec: &str, lost: &str, seed: u64) -> (u64, u64, u8) {
    let Spec::Generated(recipe) = spec.parse().unwrap() else {
        panic!("{spec} is no generator")
    };
    let removal = LinkRemoval::parse(lost).unwrap();
    let fabric = without_links(&recipe.fabric().unwrap(), removal, Seed(seed)).unwrap();
    let lids = common::number(&fabric, 0);
    let route = |engine: Engine| {
        engine
            .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
            .unwrap()
    };
    let (sssp, dfsssp) = (route(Engine::Sssp), route(Engine::Dfsssp));
    let spread = judged(&fabric, &lids, &sssp.tables, &sssp.service_levels, 1);
    let safe = judged(&fabric, &lids, &dfsssp.tables, &dfsssp.service_levels, dfsssp.lanes);
    assert_eq!(
        safe.errors().count(),
        0,
        "{spec} {lost} {seed}: {:?}",
        safe.errors().next()
    );
    (spread.figures.load.max, safe.figures.load.max, dfsssp.lanes)
}

/// Whole trees, with and without parallel links, are spread evenly: packets to switches do not disturb the balance.
#[test]
fn whole_trees_are_spread_evenly() {
    assert_eq!(peaks("sx6536", "0", 0), (306, 306, 1));
    assert_eq!(peaks("karytree:k=6,n=2", "0", 0), (30, 30, 1));
    assert_eq!(peaks("karytree:k=4,n=3", "0", 0), (60, 60, 1));
}

/// Hosts of a damaged tree need one lane among each other; the turns of switches' own packets are few enough to fit.
#[test]
fn damaged_trees_are_not_refused() {
    for seed in 1..=6 {
        for lost in ["1%", "3%"] {
            let (sssp, dfsssp, lanes) = peaks("karytree:k=6,n=3", lost, seed);
            assert_eq!(sssp, dfsssp, "{lost} {seed}: no way of a host changes for a lane");
            assert!(lanes <= 4, "{lost} {seed}: {lanes}");
        }
    }
}

#[test]
fn too_few_lanes_are_refused() {
    let (fabric, lids) = common::discover(include_str!("../fixtures/ring-7.net"));
    let route = |lanes| {
        let options = Options {
            lanes: Some(lanes),
            ..Options::default()
        };
        Engine::Dfsssp.route(&fabric, &lids, &options, Seed(0), Par::Sequential)
    };
    assert_eq!(
        route(1).unwrap_err(),
        EngineError::TooFewLanes {
            engine: "dfsssp",
            most: 1
        }
    );
    assert_eq!(route(2).unwrap().lanes, 2);
}

#[test]
fn what_can_deadlock_is_refused() {
    let (fabric, lids) = common::discover(include_str!("../fixtures/ring-7.net"));
    for (engine, safe) in [
        (Engine::MinHop, false),
        (Engine::DnUp, false),
        (Engine::Sssp, false),
        (Engine::UpDn, true),
        (Engine::Dfsssp, true),
    ] {
        let options = Options::default();
        let routed = engine
            .route(&fabric, &lids, &options, Seed(0), Par::Sequential)
            .unwrap();
        let verdict = judged(&fabric, &lids, &routed.tables, &routed.service_levels, routed.lanes);
        assert_eq!(verdict.errors().count() == 0, safe, "{}", engine.name());
    }
}

#[test]
fn ftree_puts_the_same_on_each_link_down() {
    for (k, n) in [(4, 3), (6, 2)] {
        let fabric = common::karytree(k, n);
        let lids = common::number(&fabric, 0);
        let routed = Engine::Ftree
            .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
            .unwrap();
        let verdict = judged(&fabric, &lids, &routed.tables, &routed.service_levels, 1);
        assert_eq!(verdict.errors().count(), 0);
        // A link to a leaf carries one destination for all hosts of the other leaves.
        let hosts = k.pow(n);
        assert_eq!(verdict.figures.load.max, (hosts - k) as u64);
    }
}

/// Random fabrics: if `dfsssp` accepts one, there is no error, on the number of lanes that it reports.
#[test]
fn dfsssp_never_deadlocks() {
    let mut routed = 0;
    for seed in 0..60 {
        let fabric = common::random(Seed(seed));
        let lids = common::number(&fabric, u8::try_from(seed % 2).unwrap());
        match Engine::Dfsssp.route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential) {
            Ok(ours) => {
                let verdict = judged(&fabric, &lids, &ours.tables, &ours.service_levels, ours.lanes);
                assert_eq!(
                    verdict.errors().count(),
                    0,
                    "seed {seed}: {:?}",
                    verdict.errors().next()
                );
                routed += 1;
            }
            Err(error) => assert_eq!(
                error,
                EngineError::TooFewLanes {
                    engine: "dfsssp",
                    most: 8
                },
                "seed {seed}"
            ),
        }
    }
    assert!(routed > 50, "{routed}");
}
