//! The same tables as OpenSM's, byte for byte, where OpenSM's are good: see `fixtures/README.md`.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code")]

mod common;

use std::collections::BTreeMap;

use selvedge_plan::{NO_PATH, Tables};
use selvedge_routing::{Engine, Options, UpDnOptions};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Guid, Lid};

struct Recording {
    fabric: selvedge_fabric::Fabric,
    lids: selvedge_plan::Lids,
    tables: BTreeMap<Guid, Vec<u8>>,
}

fn recording(net: &str, tables: &str) -> Recording {
    let (fabric, lids) = common::discover(net);
    let tables = common::recorded(tables);
    assert_eq!(tables.len(), fabric.switches().len());
    Recording { fabric, lids, tables }
}

fn route(recording: &Recording, engine: Engine, connect_roots: bool) -> Tables {
    let options = Options {
        updn: UpDnOptions {
            connect_roots,
            ..UpDnOptions::default()
        },
        ..Options::default()
    };
    let Recording { fabric, lids, .. } = recording;
    let routed = engine.route(fabric, lids, &options, Seed(0), Par::Sequential).unwrap();
    routed.tables
}

/// Every entry of ours beside OpenSM's: `(switch, LID, ours, OpenSM's)`.
fn pairs<'a>(recording: &'a Recording, ours: &'a Tables) -> impl Iterator<Item = (Guid, Lid, u8, u8)> + 'a {
    recording.tables.iter().flat_map(move |(&guid, entries)| {
        let node = recording.fabric.find(guid).unwrap();
        let switch = recording.fabric.switch_index(node).unwrap();
        let lids = (0..=ours.top().0).map(Lid);
        lids.map(move |lid| {
            let theirs = entries.get(lid.index()).copied().unwrap_or(NO_PATH);
            (guid, lid, ours.get(switch, lid), theirs)
        })
    })
}

macro_rules! equal {
    ($test:ident, $engine:ident, $net:literal, $lfts:literal) => {
        #[test]
        fn $test() {
            let recording = recording(
                include_str!(concat!("fixtures/", $net)),
                include_str!(concat!("fixtures/", $lfts)),
            );
            let ours = route(&recording, Engine::$engine, false);
            for (switch, lid, ours, theirs) in pairs(&recording, &ours) {
                assert_eq!(ours, theirs, "switch {switch} LID {lid}");
            }
        }
    };
}

equal!(minhop_on_a_tree, MinHop, "tree-4-3.net", "tree-4-3.minhop.lft");
equal!(updn_on_a_tree, UpDn, "tree-4-3.net", "tree-4-3.updn.lft");
equal!(
    minhop_on_a_tree_lmc,
    MinHop,
    "tree-3-2-lmc2.net",
    "tree-3-2-lmc2.minhop.lft"
);
equal!(updn_on_a_tree_lmc, UpDn, "tree-3-2-lmc2.net", "tree-3-2-lmc2.updn.lft");
equal!(minhop_on_a_torus, MinHop, "torus-4x4.net", "torus-4x4.minhop.lft");
equal!(minhop_on_a_ring, MinHop, "ring-7.net", "ring-7.minhop.lft");
equal!(
    minhop_on_a_random_graph_lmc,
    MinHop,
    "random-24-lmc2.net",
    "random-24-lmc2.minhop.lft"
);

#[test]
fn connected_roots_only_add_entries() {
    let recording = recording(
        include_str!("fixtures/tree-4-3.net"),
        include_str!("fixtures/tree-4-3.updn.lft"),
    );
    let ours = route(&recording, Engine::UpDn, true);
    let mut added = 0;
    for (switch, lid, ours, theirs) in pairs(&recording, &ours).filter(|(_, lid, ..)| lid.0 > 0) {
        if theirs == NO_PATH {
            assert_ne!(ours, NO_PATH, "switch {switch} LID {lid} is still not reached");
            added += 1;
        } else {
            assert_eq!(ours, theirs, "switch {switch} LID {lid}");
        }
    }
    assert_eq!(added, 816, "spine to spine and the like");
}
