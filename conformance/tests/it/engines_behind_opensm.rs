//! OpenSM brings a fabric up with each of its engines and ends; Selvedge takes its place with the same file. Correct
//! tables stay, whichever engine made them; only tables that the judge refuses may change.

use crate::support::{Fabric, LIMIT, emulate, port};
use selvedge_conformance::parse::Plane;
use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab, Probe, Survey};
use selvedge_types::Guid;

/// The host of both managers.
const SEAT: &str = "H-0";
/// The host at which the diagnostics run.
const OBSERVER: &str = "H-3";

/// A fat tree: every engine that accepts it makes correct tables with one lane.
const TREE: &str = "mport:m=4,n=2";
const TALL: &str = "mport:m=4,n=3";
/// A graph with cycles everywhere: with one lane, only engines that order up before down make correct tables.
const RANDOM: &str = "random:switches=12,degree=4,hosts=2,seed=1";
/// A tree that has lost links.
const DAMAGED: &str = "karytree:k=4,n=3,remove-links=3,seed=2";
const CHAIN: &str = "mesh:5x1,hosts=2";
const RING: &str = "ring:switches=5,hosts=2";
const MESH: &str = "mesh:4x3,hosts=1";

/// The result of a take-over from OpenSM.
#[derive(Debug)]
struct Taken {
    /// True if the judge finds no error in the tables that OpenSM left.
    is_right: bool,
    /// True if the judge finds no error in the tables after Selvedge's take-over.
    stays_right: bool,
    /// True if packets between switches cannot deadlock either with the tables that OpenSM left.
    has_order: bool,
    /// Number of entries that changed or disappeared.
    moved: usize,
    /// Number of entries that were missing before the take-over.
    added: usize,
    /// Switch and LID of each entry that changed or disappeared.
    which: Vec<(Guid, u16)>,
    /// The entry that was spoilt, if one was.
    spoilt: Option<(Guid, u16)>,
    /// Selvedge's log.
    log: String,
}

/// The change that the test makes in OpenSM's tables before Selvedge starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoil {
    Nothing,
    /// One entry for a host's LID drops its packets, at a switch other than that of the host.
    Drop,
    /// One entry for a host's LID sends packets back to a switch from which some of them come.
    Turn,
}

/// Changes an entry that packets to a host use on the path from one switch to another. Returns its switch and LID.
fn spoil(lab: &PeerLab, survey: &Survey, how: Spoil) -> Option<(Guid, u16)> {
    let lids = survey.lids();
    let trunk = |guid: Guid, exit: u8| {
        let mut links = survey
            .links
            .iter()
            .filter(|line| line.guid == guid && line.port == exit);
        links
            .find_map(|line| line.peer.as_ref())
            .filter(|peer| survey.tables.contains_key(&peer.guid))
            .map(|peer| peer.guid)
    };
    let is_host = |lid: u16| {
        lids.iter()
            .any(|(guid, own)| *own == lid && !survey.tables.contains_key(guid))
    };
    for (&guid, table) in &survey.tables {
        for (&lid, &exit) in table.exits.iter().filter(|(lid, _)| is_host(**lid)) {
            let Some(next) = trunk(guid, exit) else { continue };
            let exit = match how {
                Spoil::Nothing => return None,
                Spoil::Drop => 255,
                // From a switch that sends to this one.
                Spoil::Turn => {
                    let is_behind = |other: &u8| {
                        let from = trunk(guid, *other).filter(|from| *from != next);
                        let back = from
                            .and_then(|from| survey.tables[&from].exits.get(&lid).and_then(|back| trunk(from, *back)));
                        back == Some(guid)
                    };
                    let Some(behind) = (1..=36).find(is_behind) else {
                        continue;
                    };
                    behind
                }
            };
            let switch = lids[&guid];
            Probe::open(lab.base(), OBSERVER)
                .unwrap()
                .corrupt(switch, lid, exit)
                .unwrap();
            return Some((guid, lid));
        }
    }
    panic!("no entry to spoil");
}

/// Lets OpenSM bring up a fabric and end, changes the tables as `how` says, and starts Selvedge. `engine` may name a
/// root, as in `updn from S-0`.
fn take_over(spec: &str, engine: &str, how: Spoil) -> Taken {
    let lab = PeerLab::new().unwrap();
    let mut fabric = Fabric::new(&lab, spec);
    let _simulator = emulate(&lab, spec);
    let plane: Plane = fabric.planes.remove(0);
    let (engine, root) = engine
        .split_once(" from ")
        .map_or((engine, None), |(engine, root)| (engine, Some(root)));
    let mut lines = Vec::new();
    if let Some(root) = root {
        let (guid, _) = fabric.net.nodes.iter().find(|(_, node)| node.id == root).unwrap();
        let roots = lab.folder().join("roots");
        std::fs::write(&roots, format!("{guid}\n")).unwrap();
        lines.push(format!("root_guid_file {}", roots.display()));
    }
    let options = OpenSmOptions {
        engine: engine.to_owned(),
        lines,
        ..OpenSmOptions::default()
    };
    let mut opensm = lab.opensm(SEAT, &options).unwrap();
    opensm.wait_up(1, LIMIT).unwrap();
    let conf = lab.folder().join("opensm.conf");
    std::fs::write(&conf, opensm.file("opensm.conf").unwrap()).unwrap();
    opensm.stop(LIMIT).unwrap();
    let before = Survey::take(&lab, OBSERVER).unwrap();
    let (is_right, has_order) = judge(&lab, &fabric.text, &before);
    let spoilt = spoil(&lab, &before, how);

    let (conf, at) = (conf.display().to_string(), port(lab.base(), SEAT));
    let log = lab.folder().join("taken.log");
    let words = ["run", "-F", &conf, "--port", &at, "--once", "-f"];
    let said = lab
        .selvedge(&[&words[..], &[&log.display().to_string()]].concat())
        .unwrap();
    let said = said.success().unwrap();
    let after = Survey::take(&lab, OBSERVER).unwrap();
    assert_eq!(after.lids(), before.lids(), "{spec}, {engine}: {said}");
    let up = after.links.iter().filter(|line| line.peer.is_some());
    assert!(up.clone().all(|line| line.is_active()), "{spec}, {engine}: {said}");
    assert!(!plane.net.nodes.is_empty());
    let (mut which, mut added) = (Vec::new(), 0);
    for (guid, table) in &after.tables {
        let held = &before.tables[guid].exits;
        added += table.exits.keys().filter(|lid| !held.contains_key(lid)).count();
        let moved = held.iter().filter(|(lid, exit)| table.exits.get(lid) != Some(exit));
        which.extend(moved.map(|(lid, _)| (*guid, *lid)));
    }
    Taken {
        is_right,
        stays_right: judge(&lab, &fabric.text, &after).0,
        has_order,
        moved: which.len(),
        added,
        which,
        spoilt,
        log: std::fs::read_to_string(log).unwrap(),
    }
}

/// Judges tables that were read. Returns two values: whether the tables are correct, and whether packets between
/// switches cannot deadlock either, of which the judge only warns.
fn judge(lab: &PeerLab, net: &str, survey: &Survey) -> (bool, bool) {
    let (lfts, lids) = survey.dump();
    let file = |name: &str, text: &str| {
        let path = lab.folder().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (net, lfts, lids) = (file("net", net), file("lfts", &lfts), file("lids", &lids));
    let said = lab
        .selvedge(&["verify", "--fabric", &net, "--lfts", &lfts, "--lids", &lids])
        .unwrap();
    match said.status.code() {
        Some(0) => (true, !said.stdout.contains("SLV-JUDGE-0008 warning")),
        Some(1) => {
            let can_deadlock = ["SLV-JUDGE-0006 error", "SLV-JUDGE-0007 error"]
                .iter()
                .any(|code| said.stdout.contains(code));
            assert!(can_deadlock, "another reason than deadlock: {}", said.stdout);
            (false, false)
        }
        other => panic!("{other:?}: {}{}", said.stdout, said.stderr),
    }
}

/// Checks that correct tables do not change. `want`: whether OpenSM's tables are correct with one lane.
fn check(spec: &str, engine: &str, want: bool) {
    let taken = take_over(spec, engine, Spoil::Nothing);
    println!(
        "| `{spec}` | {engine} | {} | {} | {} |",
        taken.is_right, taken.moved, taken.added
    );
    assert_eq!(taken.is_right, want, "{spec}, {engine}: {taken:?}");
    assert!(taken.stays_right, "{spec}, {engine}: {taken:?}");
    if taken.is_right {
        assert_eq!((taken.moved, taken.added), (0, 0), "{spec}, {engine}");
    }
}

/// Checks that one wrong entry in OpenSM's tables gets a right route again. `want`: whether packets between switches
/// cannot deadlock with OpenSM's tables, so that all routes follow one order. Then the repair follows that order, and
/// no other entry changes.
fn check_spoilt(spec: &str, engine: &str, want: bool) {
    for how in [Spoil::Drop, Spoil::Turn] {
        let taken = take_over(spec, engine, how);
        // OpenSM leaves out routes between switches that its engine forbids: these may be added.
        let (moved, added) = (taken.moved, taken.added);
        println!("| `{spec}` | {engine} | {how:?} | {moved} | {added} |");
        let others = taken.which.iter().filter(|at| Some(**at) != taken.spoilt).count();
        assert!(
            taken.is_right && taken.stays_right && taken.spoilt.is_some() && (others == 0 || !want),
            "{spec}, {engine}, {how:?}: {taken:?}\n{}",
            taken.log
        );
        assert_eq!(taken.has_order, want, "{spec}, {engine}, {how:?}");
    }
}

/// A dry run beside OpenSM, which stays master, says which engine's tables it found and keeps, and what Selvedge's own
/// engine would make.
#[test]
fn a_dry_run_says_whose_tables_it_found() {
    let _heavy = HeavyLock::acquire().unwrap();
    for engine in ["updn", "minhop", "ftree"] {
        let lab = PeerLab::new().unwrap();
        let _simulator = emulate(&lab, TALL);
        let options = OpenSmOptions {
            engine: engine.to_owned(),
            ..OpenSmOptions::default()
        };
        let mut opensm = lab.opensm(SEAT, &options).unwrap();
        opensm.wait_up(1, LIMIT).unwrap();
        let at = port(lab.base(), OBSERVER);
        let said = lab.selvedge(&["run", "--port", &at, "--dry-run"]).unwrap();
        assert!(
            matches!(said.status.code(), Some(0 | 1)),
            "{engine}: {}{}",
            said.stdout,
            said.stderr
        );
        let found = said.stdout.lines().find(|line| line.starts_with("found "));
        let found = found.unwrap_or_else(|| panic!("{engine}: {}", said.stdout));
        assert!(
            found.contains("tables were found, and are kept: all "),
            "{engine}: {found}"
        );
        let engines = found.split("they look like those of ").nth(1).unwrap();
        let (engines, share) = engines.split_once(": ").unwrap();
        assert!(engines.split(" and ").any(|name| name == engine), "{engine}: {found}");
        assert!(share.ends_with("% are equal"), "{engine}: {found}");
        let own = "without them fat-tree would plan: busiest link ";
        assert!(said.stdout.contains(own), "{engine}: {}", said.stdout);
        opensm.stop(LIMIT).unwrap();
    }
}

#[test]
fn one_entry_is_spoilt() {
    let _heavy = HeavyLock::acquire().unwrap();
    for engine in ["minhop", "updn", "ftree"] {
        check_spoilt(TREE, engine, true);
    }
    check_spoilt(TALL, "updn", true);
    check_spoilt(DAMAGED, "updn", true);
    check_spoilt(RANDOM, "updn from S-0", true);
    check_spoilt(MESH, "dor", true);
}

#[test]
fn one_entry_is_spoilt_where_switches_packets_can_deadlock() {
    let _heavy = HeavyLock::acquire().unwrap();
    check_spoilt(TALL, "(null)", false);
    check_spoilt(TREE, "dfsssp", false);
}

#[test]
fn on_a_tree() {
    let _heavy = HeavyLock::acquire().unwrap();
    for engine in ["minhop", "updn", "dnup", "ftree", "sssp", "dfsssp", "lash", "nue"] {
        check(TREE, engine, true);
    }
    // If no engine is named, OpenSM takes `minhop` and Selvedge a fat tree's closed form: other entries on three
    // levels.
    check(TALL, "(null)", true);
}

#[test]
fn where_there_are_cycles() {
    let _heavy = HeavyLock::acquire().unwrap();
    check(DAMAGED, "updn", true);
    check(RANDOM, "updn from S-0", true);
    check(RING, "updn from S-0", true);
    check(MESH, "dor", true);
    check(CHAIN, "minhop", true);
    // These rely on several lanes, by levels that only OpenSM knew, or can deadlock: where its `updn` finds no roots it
    // takes `minhop` ("disabling UPDN algorithm, no root nodes were found"). They are replaced by a correct plan.
    for engine in ["updn", "minhop,updn", "dfsssp,updn", "lash,updn"] {
        check(RANDOM, engine, false);
    }
    for spec in [RING, MESH] {
        check(spec, "updn", false);
    }
}
