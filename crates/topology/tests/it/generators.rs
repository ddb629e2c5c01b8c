//! Generated fabrics against closed forms.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, Node, NodeIdx, diff};
use selvedge_topology::{Format, NodeNames, Recipe, Spec, Summary, write};
use selvedge_types::{Lmc, PortNum};

fn fabric(spec: &str) -> Fabric {
    recipe(spec).fabric().unwrap_or_else(|error| panic!("{spec}: {error}"))
}

fn recipe(spec: &str) -> Recipe {
    match spec.parse() {
        Ok(Spec::Generated(recipe)) => recipe,
        other => panic!("{spec}: {other:?}"),
    }
}

/// Compares a generated fabric with the expected numbers of switches, hosts, cables between switches and cables to
/// hosts.
fn check(spec: &str, want: [usize; 4]) {
    let summary = Summary::of(&fabric(spec));
    let found = [
        summary.switches,
        summary.hosts,
        summary.switch_links,
        summary.host_links,
    ];
    assert_eq!(found, want, "{spec}");
}

#[test]
fn k_ary_trees() {
    // n k^(n-1) switches, k^n hosts, (n-1) k^n cables between switches.
    for (k, n) in [(2_usize, 1_u32), (2, 3), (4, 2), (18, 2), (3, 4)] {
        let hosts = k.pow(n);
        let levels = n as usize;
        let want = [levels * k.pow(n - 1), hosts, (levels - 1) * hosts, hosts];
        check(&format!("karytree:k={k},n={n}"), want);
    }
    check("karytree:k=18,n=3", [972, 5_832, 11_664, 5_832]);
}

#[test]
fn m_port_trees() {
    // 2 (m/2)^n hosts, (2n-1) (m/2)^(n-1) switches, all m ports used where n > 1.
    for (m, n) in [(4_usize, 2_u32), (6, 2), (8, 3), (36, 2), (4, 4)] {
        let hosts = 2 * (m / 2).pow(n);
        let levels = n as usize;
        let want = [
            (2 * levels - 1) * (m / 2).pow(n - 1),
            hosts,
            (levels - 1) * hosts,
            hosts,
        ];
        let spec = format!("mport:m={m},n={n}");
        check(&spec, want);
        assert_eq!(Summary::of(&fabric(&spec)).uncabled_ports, 0, "{spec}");
    }
}

#[test]
fn generalised_trees() {
    // Level l has w1…wl m(l+1)…mh switches; each level but the top has w(l+1) p(l+1) cables upwards.
    check("pgft:h=2,m=18;18,w=1;9,p=1;2", [18 + 9, 324, 324, 324]);
    check("pgft:m=4x4x8,w=1x4x2,p=1x1x2", [32 + 32 + 8, 128, 128 + 128, 128]);
    check("xgft:m=3x2x4,w=1x2x2", [8 + 2 * 4 + 4, 24, 16 + 16, 24]);
    check("xgft:m=5,w=1", [1, 5, 0, 5]);
    assert_eq!(diff(&fabric("sx6536"), &fabric("pgft:m=18x18,w=1x9,p=1x2")).changes, []);
}

#[test]
fn sx6536_has_two_cables_between_each_leaf_and_spine() {
    let fabric = fabric("sx6536");
    check("sx6536", [27, 324, 324, 324]);
    for (idx, node) in switches(&fabric).filter(|(_, n)| n.description.starts_with("S-L1")) {
        assert_eq!(node.port_count(), 36);
        let spines: Vec<NodeIdx> = neighbours(&fabric, idx)
            .into_iter()
            .filter(|n| fabric.node(*n).is_switch())
            .collect();
        let different: BTreeSet<_> = spines.iter().collect();
        assert_eq!((spines.len(), different.len()), (18, 9), "{}", node.description);
    }
}

#[test]
fn grids() {
    check("mesh:4x4", [16, 16, 24, 16]);
    check("mesh:3x4x5,hosts=0", [60, 0, 2 * 20 + 3 * 15 + 4 * 12, 0]);
    check("torus:4x4x4", [64, 64, 192, 64]);
    check("torus:5x3,hosts=2", [15, 30, 30, 30]);
    // Two switches in a dimension have one cable; one has none.
    check("torus:2x3x1", [6, 6, 3 + 6, 6]);
    check("ring:switches=8,hosts=3", [8, 24, 8, 24]);
    check("ring:switches=2", [2, 2, 1, 2]);
    check("ring:switches=1", [1, 1, 0, 1]);
    let torus = fabric("torus:4x5x6");
    for (idx, node) in switches(&torus) {
        assert_eq!(neighbours(&torus, idx).len(), 7, "{}", node.description);
    }
    // Ports 2 and 3 of a switch with one host lead to x+1 and x-1.
    let (x1, _) = switches(&torus).find(|(_, n)| n.description == "S-1-0-0").unwrap();
    let at = |port| {
        torus.node(
            torus
                .node(x1)
                .port(PortNum::new(port).unwrap())
                .unwrap()
                .peer
                .unwrap()
                .node,
        )
    };
    assert_eq!(
        (at(2).description.as_str(), at(3).description.as_str()),
        ("S-2-0-0", "S-0-0-0")
    );
}

#[test]
fn random_graphs_are_regular_simple_and_connected() {
    for (switches_wanted, degree) in [(128, 4), (10, 3), (50, 2), (6, 5), (2, 1), (9, 8), (200, 2)] {
        for seed in 1..=5 {
            let spec = format!("random:switches={switches_wanted},degree={degree},hosts=2,seed={seed}");
            let fabric = fabric(&spec);
            assert_eq!(Summary::of(&fabric).components, 1, "{spec}");
            for (idx, _) in switches(&fabric) {
                let around: Vec<NodeIdx> = neighbours(&fabric, idx)
                    .into_iter()
                    .filter(|n| fabric.node(*n).is_switch())
                    .collect();
                let different: BTreeSet<_> = around.iter().copied().filter(|&n| n != idx).collect();
                assert_eq!((around.len(), different.len()), (degree, degree), "{spec}");
            }
        }
    }
    let text = |seed| net(&format!("random:switches=16,degree=4,seed={seed}"));
    assert_ne!(text(1), text(2));
}

#[test]
fn one_switch() {
    check("clusters:hosts=3,links=2", [2, 6, 2, 6]);
    check("single", [1, 36, 0, 36]);
    check("single:ports=254,hosts=0", [1, 0, 0, 0]);
    check("single:ports=36,hosts=18,ports-per-host=2", [1, 18, 0, 36]);
}

#[test]
fn ports_per_host_and_rails() {
    check("karytree:k=4,n=2,ports-per-host=2", [8, 16, 16, 32]);
    check("mport:m=6,n=2,rails=2", [18, 18, 36, 36]);
    check("torus:3x3,hosts=2,ports-per-host=4,rails=2", [18, 18, 36, 72]);
    let fabric = fabric("sx6536:rails=2,ports-per-host=4");
    for node in fabric.nodes().iter().filter(|n| !n.is_switch()) {
        let guids: BTreeSet<_> = node.external_ports().map(|(_, port)| port.guid).collect();
        assert_eq!(guids.len(), 4);
        assert!(!guids.contains(&node.guid));
        let peers = node.external_ports().map(|(_, port)| port.peer.unwrap().node);
        let names: Vec<&str> = peers.map(|n| fabric.node(n).description.as_str()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4, "{names:?}");
        for (port, name) in names.iter().enumerate() {
            assert!(name.starts_with(&format!("S-P{}-L1-", port % 2)), "{names:?}");
        }
    }
    // Two planes meet in hosts only.
    let between = fabric.links().filter(|l| {
        let plane = |n: NodeIdx| fabric.node(n).description.get(..4);
        fabric.node(l.a.node).is_switch() && fabric.node(l.b.node).is_switch() && plane(l.a.node) != plane(l.b.node)
    });
    assert_eq!(between.count(), 0);
}

#[test]
fn links_are_removed() {
    check("sx6536:remove-links=1%", [27, 324, 321, 324]);
    check("sx6536:remove-links=0.1%", [27, 324, 324, 324]);
    check("sx6536:remove-links=0.5%", [27, 324, 322, 324]);
    check("sx6536:remove-links=7", [27, 324, 317, 324]);
    check("sx6536:remove-links=100%", [27, 324, 0, 324]);
    let removed = |seed: u32| net(&format!("sx6536:remove-links=3,seed={seed}"));
    assert_eq!(removed(4), removed(4));
    assert_ne!(removed(4), removed(5));
}

#[test]
fn the_same_specification_gives_the_same_bytes() {
    for example in Spec::examples() {
        assert_eq!(net(example), net(example), "{example}");
    }
    // A change of what a seed gives must be in CHANGELOG.md: stored results name seeds.
    let text = net("random:switches=8,degree=3,seed=7,guids=shuffled,remove-links=2");
    let sum = text
        .bytes()
        .fold(0_u32, |sum, b| sum.wrapping_mul(31).wrapping_add(b.into()));
    assert_eq!(sum, 2_185_391_303, "{text}");
}

#[test]
fn shuffled_guids_name_the_same_cables() {
    let (ordered, shuffled) = (fabric("karytree:k=4,n=2"), fabric("karytree:k=4,n=2,guids=shuffled"));
    let cables = |fabric: &Fabric| -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for link in fabric.links() {
            let mut ends = [fabric.port_name(link.a), fabric.port_name(link.b)];
            ends.sort();
            names.insert(ends.join(" - "));
        }
        names
    };
    assert_eq!(cables(&ordered), cables(&shuffled));
    let names = |fabric: &Fabric| -> Vec<String> { fabric.nodes().iter().map(|n| n.description.clone()).collect() };
    assert_ne!(names(&ordered), names(&shuffled));
}

#[test]
fn rates_and_capabilities() {
    let fabric = fabric("karytree:k=2,n=2,rate=2xNDR,mtu=2048,vls=2");
    for (_, node) in fabric.nodes().iter_enumerated() {
        for (_, port) in node.external_ports() {
            assert_eq!(port.is_up(), port.peer.is_some());
            assert_eq!((port.capability.mtu.bytes(), port.capability.vls), (2048, 2));
            if port.is_up() {
                assert_eq!(port.link.rate.to_string(), "2xNDR");
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let check = |spec: &str, want: &[&str]| {
        let error = recipe(spec).fabric().expect_err(spec).to_string();
        for part in want {
            assert!(error.contains(part), "{spec}: {error} lacks {part}");
        }
    };
    check("karytree:k=100,n=5", &["0005", "nodes", "1000000"]);
    check("karytree:k=4000000000,n=200", &["0005", "far too many"]);
    check("karytree:k=128,n=2", &["0005", "256 ports on a switch", "254"]);
    check("torus:2x2,hosts=251", &["ports on a switch"]);
    check("torus:1000000x1000000", &["nodes"]);
    check("clusters:hosts=3,links=0", &["0003", "at least 1"]);
    check("clusters:hosts=254", &["0005", "255 ports on a switch"]);
    check("single:ports=254,hosts=255", &["0003", "255 ports"]);
    check("single:ports=255", &["0005", "255 ports on a switch"]);
    check("single:ports=0,hosts=0", &["0003"]);
    check("random:switches=5,degree=3", &["even"]);
    check("random:switches=5,degree=5", &["degree", "1 to 4"]);
    check("random:switches=6,degree=1", &["degree"]);
    check("random:switches=1,degree=0", &["at least 2"]);
    check("sx6536:remove-links=325", &["324 cables"]);
    check("sx6536:ports-per-host=5", &["1 to 4"]);
    check("sx6536:rails=2,ports-per-host=3", &["multiple of rails=2"]);
    check("sx6536:rails=0", &["1 to 4"]);
    check("sx6536:hcas=5", &["hcas=5", "1 to 4"]);
    check("sx6536:hcas=0", &["hcas=0", "1 to 4"]);
    check("sx6536:hcas=2,ports-per-host=3", &["multiple of hcas=2"]);
    check("sx6536:rails=2,hcas=3", &["multiple of rails=2"]);
    check("karytree:k=90,n=3,ports-per-host=4", &["ports"]);
}

#[test]
fn several_adapters_per_host() {
    check("karytree:k=4,n=2,hcas=2", [8, 32, 16, 32]);
    check("single:ports=16,hosts=4,hcas=2,ports-per-host=4", [1, 8, 0, 16]);
    let shape = |spec: &str| {
        let fabric = fabric(spec);
        let name = |at: NodeIdx| fabric.node(at).description.clone();
        let hcas = fabric
            .nodes()
            .iter()
            .filter(|node| node.description.starts_with("H-3 "));
        hcas.map(|hca| {
            let leaves = hca.external_ports().map(|(_, port)| name(port.peer.unwrap().node));
            (hca.description.clone(), leaves.collect::<Vec<_>>())
        })
        .collect::<Vec<_>>()
    };
    let want = |hca: &str, leaves: &[&str]| (hca.to_owned(), leaves.iter().map(|&leaf| leaf.to_owned()).collect());
    // Each adapter on another leaf, or with rails on another plane.
    let two = [want("H-3 HCA-1", &["S-L1-0"]), want("H-3 HCA-2", &["S-L1-1"])];
    assert_eq!(shape("karytree:k=4,n=2,hcas=2"), two);
    let two = [want("H-3 HCA-1", &["S-P0-L1-0"]), want("H-3 HCA-2", &["S-P1-L1-0"])];
    assert_eq!(shape("karytree:k=4,n=2,hcas=2,rails=2"), two);
    let two = [
        want("H-3 HCA-1", &["S-L1-0", "S-L1-1"]),
        want("H-3 HCA-2", &["S-L1-2", "S-L1-3"]),
    ];
    assert_eq!(shape("karytree:k=4,n=2,hcas=2,ports-per-host=4"), two);
    // Without the key, nothing changes.
    assert_eq!(net("karytree:k=4,n=2,hcas=1"), net("karytree:k=4,n=2"));
}

#[test]
fn lids_are_counted() {
    let wanted = |spec: &str, lmc| Summary::lids_wanted(&fabric(spec), Lmc::new(lmc).unwrap());
    assert_eq!(wanted("sx6536", 0), 27 + 324);
    assert_eq!(wanted("sx6536", 3), 27 + 8 * 324);
    assert_eq!(wanted("sx6536:ports-per-host=2", 0), 27 + 648);
    assert!(wanted("karytree:k=18,n=3", 7) > 49_151);
}

fn switches(fabric: &Fabric) -> impl Iterator<Item = (NodeIdx, &Node)> {
    fabric.nodes().iter_enumerated().filter(|(_, n)| n.is_switch())
}

fn neighbours(fabric: &Fabric, idx: NodeIdx) -> Vec<NodeIdx> {
    fabric
        .node(idx)
        .external_ports()
        .filter_map(|(_, port)| Some(port.peer?.node))
        .collect()
}

fn net(spec: &str) -> String {
    write(&fabric(spec), Format::IbsimNet, &NodeNames::default())
}
