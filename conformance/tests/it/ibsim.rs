//! Selvedge on ibsim: every fabric comes up, every diagnostic agrees with its plan, and observers send no Set.

use crate::support;
use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::support::{CLUSTER, Fabric, LIMIT, Outputs, PAIRS, check_up, is_sm, judge, port, run_once};
use selvedge_conformance::parse::{Plan, Plane};
use selvedge_conformance::{HeavyLock, MadCounts, OpenSmOptions, PeerLab, Relay, Survey, until};
use selvedge_types::Guid;
use selvedge_wire::Method;

/// Source: IBA vol 1 §14.2.5: attribute 0x0019 is LinearForwardingTable.
const LINEAR_FORWARDING: u16 = 0x19;
/// Attribute 0x0015 is PortInfo.
const PORT_INFO: u16 = 0x15;

/// Facts of a fabric that are known without reading a file.
struct Known {
    switches: usize,
    hosts: usize,
    cables: usize,
    /// True if minhop's tables cannot deadlock. Then OpenSM's tables are as good as Selvedge's, and no entry changes.
    is_tree: bool,
}

/// Checks everything that must hold on one fabric, which is brought up once for all checks.
fn check(spec: &str, known: &Known) {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let fabric = Fabric::new(&lab, spec);
    let net = &fabric.net;
    let counts = (net.switches(), net.hosts(), net.cables());
    assert_eq!(counts, (known.switches, known.hosts, known.cables));
    let _ibsim = lab.ibsim(&fabric.text).unwrap();
    for plane in &fabric.planes {
        let plan = run_once(&lab, lab.base(), &plane.seat, &[]);
        let ours = check_up(&lab, plane, &plan, PAIRS);
        a_second_start_changes_nothing(&lab, plane, &plan);
        observers_beside_opensm(&lab, plane, &ours);
        let entries = take_over_from_opensm(&lab, plane);
        assert!(
            entries == 0 || !known.is_tree,
            "{entries} entries moved that were right"
        );
    }
    // Planes share hosts, never switches.
    let switches: usize = fabric.planes.iter().map(|plane| plane.net.switches()).sum();
    assert_eq!(switches, known.switches);
}

fn a_second_start_changes_nothing(lab: &PeerLab, plane: &Plane, plan: &Plan) {
    let relay = lab.relay().unwrap();
    assert_eq!(run_once(lab, relay.base(), &plane.seat, &[]), *plan);
    let sent = relay.sent();
    // ibsim's agents do not keep time-outs, thresholds and MTU of PortInfo, so every new manager sets those again;
    // nothing else is set.
    let port_infos = sent.count(|kind| kind.method == Method::Set && kind.attribute == PORT_INFO);
    assert_eq!(sent.subnet_sets() - port_infos, 0, "a second start sent Sets:\n{sent}");
    let ports: usize = plane.net.nodes.values().map(|node| node.cables.len() + 1).sum();
    assert!(port_infos <= ports as u64, "{sent}");
    assert!(sent.total() > 0 && relay.sm_claims() > 0);
}

/// Checks that `--dry-run` and `watch` only observe while OpenSM is master.
fn observers_beside_opensm(lab: &PeerLab, plane: &Plane, before: &Survey) {
    let mut opensm = lab.opensm(&plane.seat, &OpenSmOptions::default()).unwrap();
    opensm.wait_up(1, LIMIT).unwrap();
    let seat = other_seat(plane);
    let relay = lab.relay().unwrap();

    let outputs = Outputs::new(lab, "dry");
    let at = port(relay.base(), &seat);
    let mut arguments = vec!["run", "--port", &at, "--dry-run"];
    arguments.extend(outputs.options());
    let said = lab.selvedge(&arguments).unwrap();
    assert!(
        said.stderr.is_empty() || !said.stderr.contains("panicked"),
        "{}",
        said.stderr
    );
    assert!(
        matches!(said.status.code(), Some(0 | 1)),
        "{}{}",
        said.stdout,
        said.stderr
    );
    assert_eq!(outputs.plan().lids.len(), before.lids().len());
    assert_silent(&relay);

    let mut watch = lab.start_daemon(&["watch", "--port", &at]).unwrap();
    // Everything is read: every switch's whole table, and as many NodeInfos as there are nodes.
    let dry = relay.sent().total();
    let nodes = plane.net.nodes.len() as u64;
    until("watch to look around", LIMIT, String::new, || {
        watch.must_run()?;
        Ok((relay.sent().total() > dry + 3 * nodes).then_some(()))
    })
    .unwrap();
    assert!(!is_sm(lab, &seat), "watch claims to be an SM");
    watch.signal("TERM").unwrap();
    watch.finish(LIMIT).unwrap();
    assert_silent(&relay);
    opensm.stop(LIMIT).unwrap();
}

/// Takes the fabric over after OpenSM left it: LIDs stay, and only blocks that must change are sent. Returns the number
/// of changed entries.
fn take_over_from_opensm(lab: &PeerLab, plane: &Plane) -> u64 {
    let before = Survey::take(lab, &plane.seat).unwrap();
    let relay = lab.relay().unwrap();
    let plan = run_once(lab, relay.base(), &plane.seat, &[]);
    let after = Survey::take(lab, &plane.seat).unwrap();
    assert_eq!(after.lids(), before.lids(), "LIDs changed");
    support::assert_none("survey", &after.differences(&plane.net, &plan));
    let (entries, blocks) = changed(&before, &after);
    let sent = lft_sets(&relay.sent());
    // If no order of Sets is safe, entries are dropped first: such blocks are sent twice, others never.
    assert!(
        (blocks..=2 * blocks).contains(&sent),
        "{sent} blocks sent, {blocks} differ"
    );
    entries
}

/// Returns the number of entries that differ, and of the blocks of 64 entries that have them.
fn changed(before: &Survey, after: &Survey) -> (u64, u64) {
    let mut blocks: BTreeMap<(Guid, u16), u64> = BTreeMap::new();
    for (guid, table) in &after.tables {
        let old = before.tables.get(guid).map(|table| &table.exits);
        let lids = table.exits.keys().chain(old.into_iter().flat_map(BTreeMap::keys));
        let lids: std::collections::BTreeSet<u16> = lids.copied().collect();
        for lid in lids {
            if old.and_then(|old| old.get(&lid)) != table.exits.get(&lid) {
                *blocks.entry((*guid, lid / 64)).or_default() += 1;
            }
        }
    }
    (blocks.values().sum(), blocks.len() as u64)
}

fn lft_sets(sent: &MadCounts) -> u64 {
    sent.count(|kind| kind.method == Method::Set && kind.attribute == LINEAR_FORWARDING)
}

/// Observers send no Set of any class, and never set IsSM.
fn assert_silent(relay: &Relay) {
    let sent = relay.sent();
    let other = sent.count(|kind| kind.method != Method::Get);
    assert_eq!((sent.subnet_sets(), other), (0, 0), "observers sent:\n{sent}");
    assert!(sent.total() > 0);
    assert_eq!(relay.sm_claims(), 0);
}

/// Returns the id of a node of the plane other than the plane's `seat`, if there is one.
fn other_seat(plane: &Plane) -> String {
    let with_first = plane.net.nodes.values().filter(|node| node.cables.contains_key(&1));
    let mut ids = with_first.map(|node| node.id.clone()).filter(|id| *id != plane.seat);
    ids.next_back().unwrap_or_else(|| plane.seat.clone())
}

/// Makes the facts of a tree.
const fn tree(switches: usize, hosts: usize, cables: usize) -> Known {
    Known {
        switches,
        hosts,
        cables,
        is_tree: true,
    }
}

/// Makes the facts of a graph other than a tree.
const fn graph(switches: usize, hosts: usize, cables: usize) -> Known {
    Known {
        is_tree: false,
        ..tree(switches, hosts, cables)
    }
}

#[test]
fn sx6536() {
    check("sx6536", &tree(27, 324, 324 + 18 * 9 * 2));
}

#[test]
fn mport_tree_of_six_switches() {
    check("mport:m=4,n=2", &tree(6, 8, 16));
}

#[test]
fn random_graph_of_128_switches() {
    check(
        "random:switches=128,degree=4,hosts=2,seed=1",
        &graph(128, 256, 256 + 128 * 4 / 2),
    );
}

#[test]
fn torus() {
    check("torus:4x4x4", &graph(64, 64, 64 + 64 * 3));
}

#[test]
fn dual_rail_tree() {
    check("karytree:k=4,n=2,rails=2", &tree(16, 16, 2 * (16 + 16)));
}

#[test]
fn hosts_with_two_ports_on_one_tree() {
    check("karytree:k=4,n=2,ports-per-host=2", &tree(8, 16, 2 * 16 + 16));
}

/// Ten pairs of a leaf and a spine have no cable, so that the fabric is not a complete tree. The README beside the file
/// has the counts.
#[test]
fn a_real_cluster() {
    check(CLUSTER, &graph(40, 582, 1114));
}

/// A manager that keeps running learns of cut and plugged cables by traps, and acts correctly.
#[test]
fn a_cut_cable_is_routed_around() {
    let lab = PeerLab::new().unwrap();
    let fabric = Fabric::new(&lab, "mport:m=4,n=2");
    let mut ibsim = lab.ibsim(&fabric.text).unwrap();
    let plane = &fabric.planes[0];
    let mut manager = lab
        .start_daemon(&["run", "--port", &port(lab.base(), &plane.seat)])
        .unwrap();
    let mut wait_good = |cables: usize| {
        let last = RefCell::new(String::new());
        let what = format!("good tables and {cables} active cables");
        until(
            &what,
            LIMIT,
            || last.borrow().clone(),
            || {
                manager.must_run()?;
                // While the manager is at work no two diagnostics need to see the same.
                let Ok(survey) = Survey::take(&lab, "H-5") else {
                    return Ok(None);
                };
                if survey.discovery.links() != cables || survey.active_ends() != 2 * cables {
                    return Ok(None);
                }
                let (exit, said) = judge(&lab, "H-5", &survey);
                last.replace(said);
                Ok((exit == Some(0)).then_some(survey))
            },
        )
        .unwrap()
    };
    let before = wait_good(16);
    ibsim.unlink("S-L1-0", 3).unwrap();
    let cut = wait_good(15);
    assert_ne!(cut.tables, before.tables);
    assert_eq!(cut.lids(), before.lids());
    ibsim.relink("S-L1-0", 3).unwrap();
    let after = wait_good(16);
    assert_eq!(after.lids(), before.lids());
}

#[test]
fn through_libibumad() {
    let lab = PeerLab::new().unwrap();
    let fabric = Fabric::new(&lab, "mport:m=4,n=2");
    let _ibsim = lab.ibsim(&fabric.text).unwrap();
    let plane = &fabric.planes[0];
    let outputs = Outputs::new(&lab, "umad");
    let binary = selvedge_conformance::binary().unwrap();
    let mut arguments = vec!["run", "--port", "", "--once"];
    arguments.extend(outputs.options());
    lab.output(&plane.seat, binary.to_str().unwrap(), &arguments).unwrap();
    check_up(&lab, plane, &outputs.plan(), PAIRS);
}
