//! The same tables as OpenSM's, byte for byte, where OpenSM's are good: see `fixtures/README.md`.

use crate::common;
use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_plan::{NO_PATH, Tables};
use selvedge_routing::{
    Engine, EngineError, FtreeOptions, HopWeight, HostLists, LidMatrix, Listed, NoFatTree, Options, PortOrder,
    UpDnOptions,
};
use selvedge_sim::{Par, Seed};
use selvedge_topology::{read_lfts, read_lid_matrix};
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

/// OpenSM's defaults where they differ from those of this crate.
fn defaults() -> Options {
    Options {
        updn: UpDnOptions {
            connect_roots: false,
            ..UpDnOptions::default()
        },
        ..Options::default()
    }
}

fn route(recording: &Recording, engine: Engine, options: &Options) -> Tables {
    let Recording { fabric, lids, .. } = recording;
    let routed = engine.route(fabric, lids, options, Seed(0), Par::Sequential).unwrap();
    routed.tables
}

/// A file of GUIDs, one a line.
fn guids(text: &str) -> Vec<Guid> {
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// A file of lines of a GUID and numbers.
fn numbers(text: &str) -> impl Iterator<Item = (Guid, Vec<u8>)> {
    text.lines().map(|line| {
        let mut words = line.split_whitespace();
        let guid = words.next().unwrap().parse().unwrap();
        (guid, words.map(|w| w.parse().unwrap()).collect())
    })
}

/// Every entry of this crate beside OpenSM's: `(switch, LID, ours, OpenSM's)`.
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
        equal!($test, $engine, $net, $lfts, defaults());
    };
    ($test:ident, $engine:ident, $net:literal, $lfts:literal, $options:expr) => {
        #[test]
        fn $test() {
            let recording = recording(
                include_str!(concat!("../fixtures/", $net)),
                include_str!(concat!("../fixtures/", $lfts)),
            );
            let ours = route(&recording, Engine::$engine, &$options);
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
equal!(
    minhop_on_a_tree_with_parallel_links,
    MinHop,
    "tree-links-2.net",
    "tree-links-2.minhop.lft"
);
equal!(
    updn_on_a_tree_with_parallel_links,
    UpDn,
    "tree-links-2.net",
    "tree-links-2.updn.lft"
);
equal!(minhop_on_a_torus, MinHop, "torus-4x4.net", "torus-4x4.minhop.lft");
equal!(minhop_on_a_ring, MinHop, "ring-7.net", "ring-7.minhop.lft");
equal!(
    minhop_on_a_random_graph,
    MinHop,
    "random-32.net",
    "random-32.minhop.lft"
);
equal!(
    minhop_on_a_random_graph_lmc,
    MinHop,
    "random-24-lmc2.net",
    "random-24-lmc2.minhop.lft"
);
equal!(
    minhop_on_a_tree_with_holes,
    MinHop,
    "tree-3-3-holes.net",
    "tree-3-3-holes.minhop.lft"
);
equal!(dnup_on_a_tree, DnUp, "tree-4-3.net", "tree-4-3.dnup.lft");
equal!(
    dnup_on_a_tree_with_parallel_links,
    DnUp,
    "tree-links-2.net",
    "tree-links-2.dnup.lft"
);
equal!(
    dnup_on_a_tree_with_holes,
    DnUp,
    "tree-3-3-holes.net",
    "tree-3-3-holes.dnup.lft"
);
equal!(dnup_on_a_tree_lmc, DnUp, "tree-3-2-lmc2.net", "tree-3-2-lmc2.dnup.lft");
equal!(dnup_on_a_torus, DnUp, "torus-4x4.net", "torus-4x4.dnup.lft");
equal!(dnup_on_a_ring, DnUp, "ring-7.net", "ring-7.dnup.lft");
equal!(dnup_on_a_random_graph, DnUp, "random-32.net", "random-32.dnup.lft");
equal!(
    dnup_on_a_random_graph_lmc,
    DnUp,
    "random-24-lmc2.net",
    "random-24-lmc2.dnup.lft"
);
equal!(dor_on_a_tree, Dor, "tree-4-3.net", "tree-4-3.dor.lft");
equal!(dor_on_a_tree_lmc, Dor, "tree-3-2-lmc2.net", "tree-3-2-lmc2.dor.lft");
equal!(
    dor_on_a_tree_with_parallel_links,
    Dor,
    "tree-links-2.net",
    "tree-links-2.dor.lft"
);
equal!(
    dor_on_a_tree_with_holes,
    Dor,
    "tree-3-3-holes.net",
    "tree-3-3-holes.dor.lft"
);
equal!(dor_on_a_torus, Dor, "torus-4x4.net", "torus-4x4.dor.lft");
equal!(dor_on_a_ring, Dor, "ring-7.net", "ring-7.dor.lft");
equal!(dor_on_a_random_graph, Dor, "random-32.net", "random-32.dor.lft");
equal!(
    dor_on_a_random_graph_lmc,
    Dor,
    "random-24-lmc2.net",
    "random-24-lmc2.dor.lft"
);
equal!(lash_on_a_tree, Lash, "tree-4-3.net", "tree-4-3.lash.lft");
equal!(lash_on_a_tree_lmc, Lash, "tree-3-2-lmc2.net", "tree-3-2-lmc2.lash.lft");
equal!(
    lash_on_a_tree_with_parallel_links,
    Lash,
    "tree-links-2.net",
    "tree-links-2.lash.lft"
);
equal!(
    lash_on_a_tree_with_holes,
    Lash,
    "tree-3-3-holes.net",
    "tree-3-3-holes.lash.lft"
);
equal!(lash_on_a_torus, Lash, "torus-4x4.net", "torus-4x4.lash.lft");
equal!(lash_on_a_ring, Lash, "ring-7.net", "ring-7.lash.lft");
equal!(lash_on_a_random_graph, Lash, "random-32.net", "random-32.lash.lft");
equal!(
    lash_on_a_random_graph_lmc,
    Lash,
    "random-24-lmc2.net",
    "random-24-lmc2.lash.lft"
);
equal!(ftree_on_a_tree, Ftree, "tree-4-3.net", "tree-4-3.ftree.lft");
equal!(
    ftree_on_a_tree_with_parallel_links,
    Ftree,
    "tree-links-2.net",
    "tree-links-2.ftree.lft"
);
equal!(
    ftree_with_connected_roots,
    Ftree,
    "tree-4-3.net",
    "tree-4-3.ftree+conn.lft",
    Options {
        ftree: FtreeOptions {
            connect_roots: true,
            ..FtreeOptions::default()
        },
        ..defaults()
    }
);
equal!(
    ftree_with_compute_and_io_nodes,
    Ftree,
    "tree-4-3.net",
    "tree-4-3.ftree+cnio.lft",
    Options {
        hosts: HostLists {
            compute: guids(include_str!("../fixtures/tree-4-3.cnio.cn")),
            io: guids(include_str!("../fixtures/tree-4-3.cnio.io")),
        },
        ..defaults()
    }
);
equal!(
    ftree_with_roots_and_holes,
    Ftree,
    "tree-3-3-holes.net",
    "tree-3-3-holes.ftree+roots.lft",
    Options {
        ftree: FtreeOptions {
            roots: guids(include_str!("../fixtures/tree-3-3-holes.roots.roots")),
            ..FtreeOptions::default()
        },
        ..defaults()
    }
);
equal!(
    updn_with_roots_and_holes,
    UpDn,
    "tree-3-3-holes.net",
    "tree-3-3-holes.updn+roots.lft",
    Options {
        updn: UpDnOptions {
            roots: guids(include_str!("../fixtures/tree-3-3-holes.roots.roots")),
            connect_roots: false,
        },
        ..defaults()
    }
);
equal!(
    minhop_with_a_routing_order,
    MinHop,
    "tree-4-3.net",
    "tree-4-3.minhop+order.lft",
    Options {
        guid_order: guids(include_str!("../fixtures/tree-4-3.order.order")),
        ..defaults()
    }
);
equal!(
    minhop_with_hop_weights,
    MinHop,
    "tree-4-3.net",
    "tree-4-3.minhop+weights.lft",
    Options {
        hop_weights: numbers(include_str!("../fixtures/tree-4-3.weights.weights"))
            .map(|(switch, n)| HopWeight {
                switch,
                port: n[0],
                hops: n[1]
            })
            .collect(),
        ..defaults()
    }
);
equal!(
    minhop_with_a_port_order,
    MinHop,
    "tree-4-3.net",
    "tree-4-3.minhop+ports.lft",
    Options {
        port_order: numbers(include_str!("../fixtures/tree-4-3.ports.ports"))
            .map(|(switch, ports)| PortOrder { switch, ports })
            .collect(),
        ..defaults()
    }
);

#[test]
fn a_tree_with_holes_is_no_fat_tree_without_roots() {
    let recording = recording(
        include_str!("../fixtures/tree-3-3-holes.net"),
        include_str!("../fixtures/tree-3-3-holes.minhop.lft"),
    );
    let Recording { fabric, lids, .. } = &recording;
    let refused = Engine::Ftree.route(fabric, lids, &defaults(), Seed(0), Par::Sequential);
    let why = NoFatTree::Uneven {
        switch: Guid(0x025e_1e01_0000_0002),
        like: Guid(0x025e_1e01_0000_0000),
    };
    assert_eq!(refused.unwrap_err(), EngineError::NoFatTree { why });
}

/// Tables that OpenSM's updn made, as if hosts had other LIDs: entries follow their ports, as in OpenSM.
#[test]
fn file_with_tables() {
    let recording = recording(
        include_str!("../fixtures/tree-3-2-lmc2.net"),
        include_str!("../fixtures/tree-3-2-lmc2.file+moved.lft"),
    );
    let text = include_bytes!("../fixtures/tree-3-2-lmc2.moved.lfts");
    let read = read_lfts("moved", text, &recording.fabric, None).unwrap();
    assert_ne!(read.lids, recording.lids);
    let listed = Listed::Tables {
        tables: read.tables,
        lids: read.lids,
    };
    only_equal(&recording, listed);
}

/// Hop counts of OpenSM's dnup: entries are chosen as minhop does.
#[test]
fn file_with_hops() {
    let recording = recording(
        include_str!("../fixtures/tree-3-2-lmc2.net"),
        include_str!("../fixtures/tree-3-2-lmc2.file+hops.lft"),
    );
    let hops = read_lid_matrix("hops", include_bytes!("../fixtures/tree-3-2-lmc2.hops.matrix")).unwrap();
    only_equal(&recording, Listed::Hops(LidMatrix { hops }));
}

fn only_equal(recording: &Recording, listed: Listed) {
    let options = Options {
        listed: Some(Arc::new(listed)),
        ..defaults()
    };
    let ours = route(recording, Engine::File, &options);
    for (switch, lid, ours, theirs) in pairs(recording, &ours) {
        assert_eq!(ours, theirs, "switch {switch} LID {lid}");
    }
}

#[test]
fn file_without_a_file_says_so() {
    let (fabric, lids) = common::discover(include_str!("../fixtures/ring-7.net"));
    let refused = Engine::File.route(&fabric, &lids, &defaults(), Seed(0), Par::Sequential);
    assert_eq!(refused.unwrap_err(), EngineError::NothingListed);
}

#[test]
fn connected_roots_only_add_entries() {
    let recording = recording(
        include_str!("../fixtures/tree-4-3.net"),
        include_str!("../fixtures/tree-4-3.updn.lft"),
    );
    let ours = route(&recording, Engine::UpDn, &Options::default());
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
