//! Forwarding tables, LIDs and lanes against what OpenSM, ibroute and dump_fts wrote.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, NO_PATH, ServiceLevels, SlToVl};
use selvedge_topology::{
    Forwarding, LftStyle, read, read_guid2lid, read_lfts, read_lid_matrix, read_service_levels, read_sl_to_vl,
    seen_lids, write_guid2lid, write_lfts, write_service_levels, write_sl_to_vl,
};
use selvedge_types::{Guid, Lid, LidRange, PortNum, Sl};

const UP: &[u8] = include_bytes!("../fixtures/golden/ibnetdiscover-up.topo");
const LFTS: &str = include_str!("../fixtures/golden/opensm-lfts.dump");
const FTS: &str = include_str!("../fixtures/golden/dump_fts.txt");
const IBROUTE: &str = include_str!("../fixtures/golden/ibroute-S-L1-1.txt");
const SL2VL: &str = include_str!("../fixtures/golden/opensm-sl2vl.dump");
const GUID2LID: &str = include_str!("../fixtures/golden/guid2lid");

fn fabric() -> Fabric {
    read("up", UP).unwrap_or_else(|error| panic!("{error}")).fabric
}

fn tables(text: &str) -> Forwarding {
    read_lfts("f", text.as_bytes(), &fabric(), None).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_same_bytes_as_opensm() {
    let read = tables(LFTS);
    assert_eq!(read.warnings, []);
    assert_eq!(write_lfts(&fabric(), &read.lids, &read.tables, LftStyle::Opensm), LFTS);
}

#[test]
fn the_same_bytes_as_ibroute() {
    let read = tables(LFTS);
    let text = write_lfts(&fabric(), &read.lids, &read.tables, LftStyle::Ibroute);
    assert!(text.contains(IBROUTE), "{text}");
}

#[test]
fn all_programs_say_the_same() {
    let opensm = tables(LFTS);
    let diags = tables(FTS);
    assert_eq!((&diags.tables, &diags.lids), (&opensm.tables, &opensm.lids));
    assert_eq!(diags.warnings, []);
    assert_eq!(seen_lids(&fabric()).0, opensm.lids);
    let known = read_guid2lid("g", GUID2LID.as_bytes()).unwrap();
    assert_eq!(known.on(&fabric()), (opensm.lids, vec![]));
}

#[test]
fn lids_come_from_wherever_they_are() {
    // `ibroute -n` and a dump without a comment name no owners: the fabric's own LIDs count.
    let bare: String = LFTS
        .lines()
        .map(|l| format!("{}\n", l.split(" # ").next().unwrap_or("")))
        .collect();
    let headless = bare.replace("switch Lid", "switch");
    let read = tables(&headless);
    assert_eq!(
        (read.lids, read.warnings.as_slice()),
        (tables(LFTS).lids, [].as_slice())
    );
    // Given LIDs have priority; a port without a given LID keeps that of the dump.
    let host = fabric().find_port(Guid(0x025e_1e02_0000_0001)).unwrap();
    let mut known = Lids::new();
    known.insert(host, LidRange::single(Lid(40))).unwrap();
    let read = read_lfts("f", LFTS.as_bytes(), &fabric(), Some(&known)).unwrap();
    assert_eq!((read.lids.len(), read.lids.base(host)), (14, Some(Lid(40))));
    let found: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    assert!(
        found[0].contains("2 LIDs with routes have no known owner, the lowest is 4"),
        "{found:?}"
    );
}

/// Returns a dump as `ibroute -n` prints it for each switch: no line names a port, and headers name the switches.
fn numbers_only(text: &str) -> String {
    let line = |line: &str| match line.starts_with("0x") {
        true => format!("{}\n", line.split(':').next().unwrap_or("")),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn each_port_has_its_lids_from_the_first_source_that_knows_them() {
    let all = tables(LFTS).lids;
    let check = |text: &str, what: &str| {
        let read = tables(text);
        assert_eq!(
            (read.lids, read.warnings.as_slice()),
            (all.clone(), [].as_slice()),
            "{what}"
        );
    };
    let with_heads = write_lfts(&fabric(), &all, &tables(LFTS).tables, LftStyle::Ibroute);
    check(&numbers_only(&with_heads), "ibroute -n");
    check(&numbers_only(FTS), "dump_fts -n");
    // Some lines name ports, others do not. Of a port with two LIDs, only one is named.
    let some = |keep: usize| {
        let line = |(at, line): (usize, &str)| match at % keep {
            0 => format!("{line}\n"),
            _ => format!("{}\n", line.split(" # ").next().unwrap_or("")),
        };
        LFTS.lines().enumerate().map(line).collect::<String>()
    };
    for keep in [2, 3, 7, 23] {
        check(&some(keep), "some names");
    }
    // A LID's owner in the dump has priority over that in the fabric.
    let other = LFTS.replace("0x025e1e0200000001", "0x77");
    let host = fabric().find_port(Guid(0x025e_1e02_0000_0001)).unwrap();
    assert_eq!(tables(&other).lids.range(host), None);
}

#[test]
fn descriptions_and_punctuation_may_be_missing() {
    let all = tables(LFTS);
    let check = |change: &dyn Fn(&str) -> String| {
        let text: String = LFTS.lines().map(|line| format!("{}\n", change(line))).collect();
        let read = tables(&text);
        assert_eq!((&read.tables, &read.lids), (&all.tables, &all.lids), "{text}");
        assert_eq!(read.warnings, [], "{text}");
    };
    let bare = |line: &str| {
        line.split(" (")
            .next()
            .unwrap_or("")
            .split(": '")
            .next()
            .unwrap_or("")
            .to_owned()
    };
    check(&bare);
    check(&|line| match line.starts_with("Unicast") {
        true => format!("{}:", bare(line)),
        false if line.starts_with("0x") => format!("{})", bare(line)),
        false => line.to_owned(),
    });
    check(&|line| bare(line).replace("guid 0x", "guid "));
    check(&|line| format!("{}\r", bare(line).replace("Switch portguid", "(Switch portguid")));
    // OpenSM's LID matrix names ports in the same way.
    let hops = "Switch: guid 0x0a:\n0x0001: 00 ff # portguid 0x0a: 'a'\n";
    assert_eq!(
        read_lid_matrix("h", hops.as_bytes()).unwrap()[&Guid(10)][&Guid(10)],
        [0, 255]
    );
}

/// A file that lacks lanes or levels is refused, and the error names them.
#[test]
fn lanes_and_levels_that_are_missing_are_named() {
    let lids = tables(LFTS).lids;
    let sls = write_service_levels(&lids, &ServiceLevels::default());
    let level = |text: &str| {
        let read = read_service_levels("s", text.as_bytes(), &fabric(), &lids);
        read.map(|_| String::new()).unwrap_or_else(|error| error.to_string())
    };
    assert_eq!(level(&sls), "");
    let lacks = |lines: usize| {
        level(
            &sls.lines()
                .take(lines)
                .map(|line| format!("{line}\n"))
                .collect::<String>(),
        )
    };
    assert!(
        lacks(21).contains("0035: s: no service level of 1 LIDs in use: LID 23 of \"H-7\"[1];"),
        "{}",
        lacks(21)
    );
    assert!(
        lacks(0).contains("22 LIDs in use: LID 1 of \"S-L1-0\"[0], LID 2"),
        "{}",
        lacks(0)
    );
    assert!(lacks(0).contains("and 17 more"), "{}", lacks(0));
    let lanes = |text: &str| match read_sl_to_vl("v", text.as_bytes(), &fabric()) {
        Ok((_, warnings)) => warnings.iter().map(ToString::to_string).collect::<String>(),
        Err(error) => error.to_string(),
    };
    // Six switches of four linked ports: sixteen pairs each.
    let check = |text: &str, want: &str| assert!(lanes(text).contains(want), "{}", lanes(text));
    assert_eq!(lanes(SL2VL), "");
    check(
        "",
        "0036: v: no lanes for 96 of 96 pairs of ports with a link, at 0x025e1e0100000000 \"S-L1-0\" (16)",
    );
    check("", "\"S-L2-0\" (16) and 1 more; give");
    let short: String = SL2VL.lines().take(20).map(|line| format!("{line}\n")).collect();
    check(&short, "no lanes for 82 of 96 pairs");
    // One missing row, and a row that no packet needs: from a port to itself.
    check(
        &SL2VL.replacen("3   2   :", "#", 1),
        "no lanes for 1 of 96 pairs of ports with a link, at 0x025e1e0100000000",
    );
    assert_eq!(lanes(&SL2VL.replacen("2   2   :", "#", 1)), "");
    // Tables of unknown switches are named, whether the other tables are complete or not.
    let foreign = "Switch 0x55, base LID 9, \"x\"\n0 1 : 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
    check(
        &format!("{SL2VL}{foreign}"),
        "0040: v:199: the fabric has no switch 0x0000000000000055",
    );
    check(foreign, "; the fabric has no switch 0x0000000000000055");
}

#[test]
fn guid2lid_as_opensm_writes_it() {
    let fabric = fabric();
    let lids = tables(LFTS).lids;
    let text = write_guid2lid(&fabric, &lids);
    let lines = |text: &str| -> BTreeSet<String> { text.split("\n\n").map(|l| l.trim().to_owned()).collect() };
    assert_eq!(lines(&text), lines(GUID2LID));
    let check = |text: &str, want: &str| {
        let error = read_guid2lid("g", text.as_bytes()).expect_err(text).to_string();
        assert!(error.contains(want), "{text}: {error}");
    };
    check("\n0x1 0x2\n", "0031: g:2");
    check("0x1 2 3 4\n", "0031");
    check("zz 2 3\n", "0031");
    check("0x1 3 4\n", "0032: g:1: LIDs 3-4");
    check("0x1 0 0\n", "0032");
    check("0x1 5 4\n", "0032");
    check("0x1 0xc000 0xc000\n", "0032");
    check("0x1 0 0xffffffffffffffff\n", "0032");
    check(
        "0x1 2 3\n0x1 4 4\n",
        "0037: g:2: the LID range of 0x0000000000000001 is 4 here and 2-3 in line 1;",
    );
    assert!(read_guid2lid("g", b"0x1 2 3\n0x1 2 3\n").is_ok());
}

/// LIDs that two ports cannot both have, and LIDs that no port has, are named with their lines.
#[test]
fn conflicts_of_known_lids_are_named() {
    let fabric = fabric();
    let on = |text: &str| {
        let (lids, warnings) = read_guid2lid("g", text.as_bytes()).unwrap().on(&fabric);
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        (lids.len(), warnings)
    };
    let check = |text: &str, ports: usize, want: &[&str]| {
        let (found, warnings) = on(text);
        assert_eq!((found, warnings.len()), (ports, want.len()), "{text}: {warnings:?}");
        for (warning, part) in warnings.iter().zip(want) {
            assert!(warning.contains(part), "{warning} lacks {part}");
        }
    };
    check("0x025e1e0100000000 2 3\n0x025e1e0100000001 4 4\n", 2, &[]);
    // One LID for two ports; a range that holds the LID of another port.
    check(
        "0x025e1e0100000001 5 5\n\n0x025e1e0100000000 5 5\n",
        1,
        &["0051: g:3: LID 5 of 0x025e1e0100000000 is a LID of 0x025e1e0100000001 in line 1"],
    );
    check(
        "# none\n0x025e1e0100000000 2 3\n0x025e1e0100000001 3 3\n0x99 7 7\n",
        1,
        &[
            "0051: g:3: LID 3 of 0x025e1e0100000001 is a LID of 0x025e1e0100000000 in line 2",
            "0052: g: no port of the fabric has 1 of the GUIDs: 0x0000000000000099 (line 4, LID 7);",
        ],
    );
    // A GUID of no port claims the LID of a port.
    check("0x025e1e0100000000 2 2\n0x99 2 2\n", 1, &["0051: g:2: LID 2", "0052"]);
    // The GUID of a host's node is not that of its port.
    check(
        "0x025e1e0200000000 8 15\n",
        0,
        &["0x025e1e0200000000 (line 1, LID 8-15, the node GUID of \"H-0\");"],
    );
}

/// A row may be repeated. A row that says something else of the same key is refused, with both lines.
#[test]
fn rows_that_contradict_each_other_are_refused() {
    let lids = tables(LFTS).lids;
    let level = |text: &str| match read_service_levels("s", text.as_bytes(), &fabric(), &lids) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    let sls = write_service_levels(&lids, &ServiceLevels::default());
    assert_eq!(level(&format!("{sls}{sls}")), "");
    let error = level(&format!("{sls}0x0001 2\n"));
    assert!(
        error.contains("0037: s:23: the service level of LID 1 is 2 here and 0 in line 1;"),
        "{error}"
    );
    let lanes = |text: &str| match read_sl_to_vl("v", text.as_bytes(), &fabric()) {
        Ok((map, _)) => {
            assert_eq!(map, SlToVl::modulo(8));
            String::new()
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(lanes(&format!("{SL2VL}{SL2VL}")), "");
    let other = SL2VL.replacen("0   1   : 0  1 ", "0   1   : 1  15", 1);
    let error = lanes(&format!("{other}{SL2VL}"));
    let want = "the row 0 1 of switch 0x025e1e0100000000 \"S-L1-0\" is 0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7 here and \
                1,15,2,3,4,5,6,7,0,1,2,3,4,5,6,7 in line 4;";
    assert!(error.contains("0037: v:") && error.contains(want), "{error}");
    let table = |text: &str| match read_lfts("f", text.as_bytes(), &fabric(), None) {
        Ok(read) => {
            assert_eq!(read.tables, tables(LFTS).tables);
            String::new()
        }
        Err(error) => error.to_string(),
    };
    let head = "Unicast lids [0-9] of switch Lid 1 guid 0x025e1e0100000000 ('S-L1-0'):\n";
    let first = LFTS.lines().nth(1).unwrap();
    // Twice in one table, before and after the right row.
    assert_eq!(table(&LFTS.replacen(first, &format!("{first}\n{first}"), 1)), "");
    for (rows, want) in [
        (format!("0x0002 009\n{first}\n0x0002 003"), "0037: f:"),
        (format!("{first}\n0x0001 077"), "the port of LID 1 at switch 0x"),
    ] {
        let error = table(&LFTS.replacen(first, &rows, 1));
        assert!(error.contains(want), "{error}");
    }
    // A second table of one switch: the same, with another port, with a row less.
    assert_eq!(table(&format!("{LFTS}{LFTS}")), "");
    let error = table(&format!(
        "{head}0x0002 004\n1 lids dumped\n{head}0x0002 003\n1 lids dumped\n"
    ));
    assert!(
        error.contains(
            "0037: f:5: the port of LID 2 at switch 0x025e1e0100000000 \"S-L1-0\" is 3 here and 4 in line 2;"
        ),
        "{error}"
    );
    let error = table(&format!("{head}0x0002 004\n1 lids dumped\n{head}0 lids dumped\n"));
    assert!(
        error.contains("f:4: the port of LID 2") && error.contains("none here and 4 in line 2"),
        "{error}"
    );
}

/// The last row of a table without a last line may be cut, too: it is unknown.
#[test]
fn the_last_row_of_a_cut_table_is_left_out() {
    let head = "Unicast lids [0-9] of switch Lid 1 guid 0x025e1e0100000000 ('S-L1-0'):\n";
    let check = |rows: &str, want: &str, ports: [u8; 2]| {
        let read = tables(&format!("{head}{rows}"));
        let found: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|text| text.contains(want)), "{found:?} lacks {want}");
        assert!(read.warnings.iter().any(selvedge_topology::DumpWarning::is_gap));
        let port = |lid| read.tables.get(selvedge_fabric::SwitchIdx(0), Lid(lid));
        assert_eq!([port(2), port(4)], ports, "{rows}");
    };
    check(
        "0x0002 003\n0x0004 00",
        "0047: f:1: the table of switch 0x025e1e0100000000 does not end; the file seems cut off here; its last row, of \
         LID 4, is left out",
        [3, NO_PATH],
    );
    check("0x0002 003\n", "of LID 2, is left out", [NO_PATH, NO_PATH]);
    let other = "Unicast lids [0-9] of switch Lid 2 guid 0x025e1e0100000001 ('S-L1-1'):\n0 lids dumped\n";
    check(
        &format!("0x0002 003\n0x0004 001\n{other}"),
        "of LID 4, is left out",
        [3, NO_PATH],
    );
    // Its missing rows are in a second table.
    check(
        &format!("0x0002 003\n0x0004 00\n{head}0x0002 003\n0x0004 001\n2 lids dumped\n"),
        "0043: f:4: a second table of switch 0x025e1e0100000000, equal to the first in line 1",
        [3, 1],
    );
}

#[test]
fn lanes_as_opensm_writes_them() {
    let lids = tables(LFTS).lids;
    assert_eq!(write_sl_to_vl(&fabric(), &lids, &SlToVl::modulo(8)), SL2VL);
    let sls = ServiceLevels::PerDestination((0..24).filter_map(|lid| Sl::new(lid % 3)).collect());
    let text = write_service_levels(&lids, &sls);
    assert_eq!(
        text.lines().take(3).collect::<Vec<_>>(),
        ["0x0001 1", "0x0002 2", "0x0004 1"]
    );
    assert_eq!(text.lines().count(), lids.by_lid().count());
    // And back.
    let read = read_service_levels("s", text.as_bytes(), &fabric(), &lids).unwrap();
    assert!(lids.by_lid().all(|(lid, _)| read.to(lid) == sls.to(lid)));
    assert_eq!(
        read_sl_to_vl("v", SL2VL.as_bytes(), &fabric()).unwrap(),
        (SlToVl::modulo(8), vec![])
    );
    // The first row of the first switch differs.
    let other = SL2VL.replacen("0   1   : 0  1 ", "0   1   : 1  15", 1);
    let (read, _) = read_sl_to_vl("v", other.as_bytes(), &fabric()).unwrap();
    assert_eq!((read.default, read.exceptions.len()), (SlToVl::modulo(8).default, 1));
    assert_eq!(write_sl_to_vl(&fabric(), &lids, &read), other);
    let level = |text: &str| {
        read_service_levels("s", text.as_bytes(), &fabric(), &Lids::new())
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    for bad in ["1", "0x1 16", "0x1 2 3", "x 1", "0xc000 1", "0x10000 1"] {
        assert!(level(bad).contains("0031: s:1"), "{bad}");
    }
    let lanes = |text: &str| {
        read_sl_to_vl("v", text.as_bytes(), &fabric())
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    for bad in [
        "0 1 : 1 2",
        "0 : 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
        "Switch 0xzz",
        "0 255 : 0",
        "1 1 : 16",
    ] {
        assert!(lanes(bad).contains("0031: v:1"), "{bad}");
    }
}

#[test]
fn odd_dumps_are_read_with_warnings() {
    let check = |text: &str, want: &[&str]| {
        let found: Vec<String> = tables(text).warnings.iter().map(ToString::to_string).collect();
        for part in want {
            assert!(found.iter().any(|w| w.contains(part)), "{found:?} lacks {part}");
        }
    };
    let head = "Unicast lids [0-9] of switch Lid 1 guid 0x025e1e0100000000 ('S-L1-0'):\n";
    check(head, &["0047", "0041"]);
    check(
        &format!("{head}0x0004 099 # x\n0 lids dumped\n"),
        &["0042", "port 99 and has ports 0-4"],
    );
    check(&format!("{LFTS}{LFTS}"), &["0043: f:"]);
    check(
        &format!("{head}0x0004 001\ngarbage here\nx0005 001\n\n  Lid  Out   Destination\n1 lids dumped\n"),
        &["0053: f:3: 'garbage here' in the table of switch 0x025e1e0100000000 is no row and was left out, with 1"],
    );
    // Two ports that the fabric gives one LID: the warning names the LID and its owner.
    check(
        &format!(
            "{head}0x0004 001 # Switch portguid 0x025e1e0100000001\n0x0006 001 # x portguid 0x025e1e0100000001\n\
                  0x0005 001 # x portguid 0x025e1e0100000002\n3 lids dumped\n"
        ),
        &["0048: f: LIDs of \"S-L1-2\"[0] left out: LID 5 belongs to \"S-L1-1\"[0] already"],
    );
    check(
        &LFTS.replace(
            "0x0002 003 # Switch portguid 0x025e1e0100000001",
            "0x0002 003 # Switch portguid 0x025e1e0100000002",
        ),
        &["0044", "here and to \"S-L1-2\"[0] in an earlier line"],
    );
    check(&LFTS.replace("0x025e1e0200000001", "0x77"), &["0045", "0046"]);
    check(
        &LFTS.replace("guid 0x025e1e0100000005 (", "guid 0x55 ("),
        &["0040", "0041"],
    );
    // What ibroute forgets: the first entry of a block that has no other.
    let short =
        |top: &str| format!("Unicast lids [{top}] of switch Lid 1 guid 0x025e1e0100000000 (x):\n0 lids dumped\n");
    check(&short("0x0-0x40"), &["0049: f: no routes to LID 64"]);
    for top in ["0-64", "0x0-0x41", "0x0-0x0"] {
        let warnings = tables(&short(top)).warnings;
        assert!(!warnings.iter().any(|w| w.to_string().contains("0049")), "{warnings:?}");
    }
    // ibroute -a shows entries that drop; they stay so.
    let dropped = tables(&format!("{head}0x0004 255 : (illegal port)\n1 lids dumped\n"));
    assert_eq!(dropped.tables.get(selvedge_fabric::SwitchIdx(0), Lid(4)), NO_PATH);
    assert_eq!(tables(LFTS).tables.top(), Lid(23));
    // Tables of multicast LIDs are no unicast tables.
    let mixed = format!("{LFTS}Multicast mlids [0xc000-0xc3ff] of switch Lid 1 guid 0x1 (x):\n0xc000      x\n");
    assert_eq!(tables(&mixed).tables, tables(LFTS).tables);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let check = |text: &str, want: &str| {
        let error = read_lfts("f", text.as_bytes(), &fabric(), None)
            .expect_err(text)
            .to_string();
        assert!(error.contains(want), "{text}: {error}");
    };
    let head = "Unicast lids [0-9] of switch Lid 1 guid 0x025e1e0100000000 ('S-L1-0'):\n";
    check("", "0030: f");
    check("0x0001 001\n", "0030: f");
    check("\nUnicast lids of switch\n", "0031: f:2");
    check("Unicast lids [0-99999] of switch Lid 1 guid 0x1 (x):\n", "0031: f:1");
    check(&format!("{head}0xc000 001\n"), "0031: f:2");
    check(&format!("{head}0x0001 256\n"), "0031: f:2");
    check(&format!("{head}0x0001\n"), "0031: f:2");
    check(&format!("{head}0x0001 001 # Switch portguid zz\n"), "0031: f:2");
}

#[test]
fn what_opensm_cannot_read_is_not_written() {
    // OpenSM gives up on an entry beyond the switch's ports: such entries, and LIDs without one, have no line.
    let fabric = fabric();
    let mut read = tables(LFTS);
    let switch = fabric
        .switch_index(fabric.find(Guid(0x025e_1e01_0000_0000)).unwrap())
        .unwrap();
    read.tables.set(switch, Lid(2), 77);
    let text = write_lfts(&fabric, &read.lids, &read.tables, LftStyle::Opensm);
    assert_eq!(text.lines().count(), LFTS.lines().count() - 1);
    // A LID without an owner has OpenSM's words for it.
    read.lids.remove(PortRef {
        node: fabric.find(Guid(0x025e_1e01_0000_0001)).unwrap(),
        port: PortNum::MANAGEMENT,
    });
    let text = write_lfts(&fabric, &read.lids, &read.tables, LftStyle::Opensm);
    assert!(text.contains("# unknown node and type"), "{text}");
}
