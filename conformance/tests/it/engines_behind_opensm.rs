//! OpenSM brings a fabric up with each of its engines and ends; Selvedge takes its place with the same file. Correct
//! tables stay, whichever engine made them; only tables that the judge refuses may change.

use crate::support::{Fabric, LIMIT, emulate, port};
use selvedge_conformance::parse::Plane;
use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab, Probe, Survey};
use selvedge_types::Guid;

/// Where managers sit.
const SEAT: &str = "H-0";
/// The host of the diagnostics.
const OBSERVER: &str = "H-3";

/// A fat tree: every engine that takes it is right on one lane.
const TREE: &str = "mport:m=4,n=2";
const TALL: &str = "mport:m=4,n=3";
/// Cycles everywhere: only what keeps up and down apart is right on one lane.
const RANDOM: &str = "random:switches=12,degree=4,hosts=2,seed=1";
/// A tree that has lost links.
const DAMAGED: &str = "karytree:k=4,n=3,remove-links=3,seed=2";
const CHAIN: &str = "mesh:5x1,hosts=2";
const RING: &str = "ring:switches=5,hosts=2";
const MESH: &str = "mesh:4x3,hosts=1";

/// What came of it.
#[derive(Debug)]
struct Taken {
    /// The judge finds nothing wrong with what OpenSM left.
    is_right: bool,
    /// The same for the tables after Selvedge's take-over.
    stays_right: bool,
    /// Packets from switch to switch cannot deadlock either, by what OpenSM left.
    has_order: bool,
    /// Entries that are others afterwards, or none.
    moved: usize,
    /// Entries that were none before.
    added: usize,
    /// Which moved: switch and LID.
    which: Vec<(Guid, u16)>,
    /// The entry that was spoilt, if one was.
    spoilt: Option<(Guid, u16)>,
    /// Selvedge's log.
    log: String,
}

/// The change of the tables before Selvedge starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoil {
    Nothing,
    /// One entry of a host's LID, at a switch that is not its own, drops its packets.
    Drop,
    /// It sends it back to where some of it comes from.
    Turn,
}

/// Spoils an entry that hosts' packets use on the path from one switch to another.
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

/// `engine` may name a root, as `updn from S-0`.
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

/// The judge's verdict on tables that were read: whether they are correct, and whether packets between switches cannot
/// deadlock either, of which the judge only warns.
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

/// Nothing that is right moves: with `want`, what OpenSM leaves is right on one lane.
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

/// One entry is spoilt before Selvedge starts: it gets a route again. No other entry moves if all routes follow one
/// order, which is so with `want`: the repair follows the same order. If packets between switches can deadlock, there
/// is no order.
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

/// A dry run beside OpenSM, which stays master, says which engine's tables it found and keeps, and what its own engine
/// would make.
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
