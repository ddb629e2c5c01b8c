//! Forwarding tables, LIDs and lanes against what OpenSM, ibroute and dump_fts wrote.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, NO_PATH, ServiceLevels, SlToVl};
use selvedge_topology::{
    Forwarding, LftStyle, lids_of, read, read_guid2lid, read_lfts, read_service_levels, read_sl_to_vl, seen_lids,
    write_guid2lid, write_lfts, write_service_levels, write_sl_to_vl,
};
use selvedge_types::{Guid, Lid, PortNum, Sl};

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
    let ranges = read_guid2lid("g", GUID2LID.as_bytes()).unwrap();
    assert_eq!(lids_of("g", &fabric(), &ranges), (opensm.lids, vec![]));
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
    // Given LIDs count most.
    let known = Lids::new();
    let read = read_lfts("f", LFTS.as_bytes(), &fabric(), Some(&known)).unwrap();
    assert!(read.lids.is_empty());
    assert!(
        read.warnings[0]
            .to_string()
            .contains("22 LIDs with routes have no known owner"),
        "{:?}",
        read.warnings
    );
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
    check("0x1 2 3\n0x1 4 4\n", "0033");
    let ranges = read_guid2lid(
        "g",
        b"# none\n0x025e1e0100000000 2 3\n0x025e1e0100000001 3 3\n0x99 7 7\n",
    )
    .unwrap();
    let (lids, warnings) = lids_of("g", &fabric, &ranges);
    assert_eq!((lids.len(), warnings.len()), (1, 1));
    assert!(warnings[0].to_string().contains("0048"), "{warnings:?}");
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
    let read = read_service_levels("s", text.as_bytes()).unwrap();
    assert!(lids.by_lid().all(|(lid, _)| read.to(lid) == sls.to(lid)));
    assert_eq!(
        read_sl_to_vl("v", SL2VL.as_bytes(), &fabric()).unwrap(),
        SlToVl::modulo(8)
    );
    // The first row of the first switch differs.
    let other = SL2VL.replacen("0   1   : 0  1 ", "0   1   : 1  15", 1);
    let read = read_sl_to_vl("v", other.as_bytes(), &fabric()).unwrap();
    assert_eq!((read.default, read.exceptions.len()), (SlToVl::modulo(8).default, 1));
    assert_eq!(write_sl_to_vl(&fabric(), &lids, &read), other);
    let level = |text: &str| {
        read_service_levels("s", text.as_bytes())
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
    check(&format!("{LFTS}{head}9 lids dumped\n"), &["0043"]);
    check(
        &LFTS.replace(
            "0x0002 003 # Switch portguid 0x025e1e0100000001",
            "0x0002 003 # Switch portguid 0x025e1e0100000002",
        ),
        &["0044"],
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
