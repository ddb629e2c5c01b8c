//! Topology files: round trips, output of ibsim and infiniband-diags, and invalid files.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, diff};
use selvedge_topology::{Format, Loaded, NodeNames, Spec, Summary, Warning, read, seen_lids, write};
use selvedge_types::{Guid, Lid, PortNum};

const REAL: &[u8] = include_bytes!("../fixtures/dgx-ndr-582.topo");
const NET: &[u8] = include_bytes!("../fixtures/golden/mport-4-2.net");
const FRESH: &[u8] = include_bytes!("../fixtures/golden/ibnetdiscover-fresh.topo");
const UP: &[u8] = include_bytes!("../fixtures/golden/ibnetdiscover-up.topo");
const FULL: &[u8] = include_bytes!("../fixtures/golden/ibnetdiscover-full.topo");

fn load(text: &str) -> Loaded {
    read("f", text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn text_of(fabric: &Fabric, format: Format) -> String {
    write(fabric, format, &NodeNames::default())
}

#[test]
fn what_is_written_is_read_back() {
    let more = [
        "karytree:k=3,n=3,rate=4xEDR",
        "mport:m=6,n=2,rails=2,guids=shuffled",
        "sx6536:remove-links=5%,ports-per-host=2",
        "torus:4x3,hosts=0",
        "karytree:k=3,n=2,hcas=2,ports-per-host=4,guids=shuffled",
        "ring:switches=5,rate=12xQDR",
    ];
    for spec in Spec::examples().chain(more) {
        let Ok(Spec::Generated(recipe)) = spec.parse() else {
            panic!("{spec}")
        };
        let fabric = recipe.fabric().unwrap();
        for format in [Format::IbsimNet, Format::Ibnetdiscover] {
            let text = text_of(&fabric, format);
            let again = load(&text);
            assert_eq!(
                (again.format, again.warnings.as_slice()),
                (format, [].as_slice()),
                "{spec}"
            );
            assert_eq!(diff(&fabric, &again.fabric).changes, [], "{spec}");
            assert_eq!(text_of(&again.fabric, format), text, "{spec}");
        }
    }
}

#[test]
fn nothing_is_lost_at_default_capabilities() {
    let Ok(Spec::Generated(recipe)) = "sx6536:remove-links=3".parse() else {
        panic!()
    };
    let fabric = recipe.fabric().unwrap();
    for format in [Format::IbsimNet, Format::Ibnetdiscover] {
        assert_eq!(load(&text_of(&fabric, format)).fabric, fabric);
    }
}

#[test]
fn ibsim_saw_what_was_written() {
    let written = read("net", NET).unwrap();
    let seen = read("fresh", FRESH).unwrap();
    assert_eq!((written.format, seen.format), (Format::IbsimNet, Format::Ibnetdiscover));
    assert_eq!(diff(&written.fabric, &seen.fabric).changes, []);
    assert_eq!(written.fabric, seen.fabric);
}

/// All records but the head, which has a date and the place of the observer.
fn records(text: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(text).into_owned();
    let records = text.split("\n\n").skip(1).map(|r| r.trim_end().to_owned());
    records.filter(|r| !r.is_empty()).collect()
}

#[test]
fn the_same_bytes_as_ibnetdiscover() {
    for bytes in [FRESH, UP, REAL] {
        let fabric = read("f", bytes).unwrap().fabric;
        let written = records(text_of(&fabric, Format::Ibnetdiscover).as_bytes());
        let theirs = records(bytes);
        let different: Vec<&String> = written.symmetric_difference(&theirs).take(4).collect();
        assert_eq!((written.len(), different), (theirs.len(), vec![]));
    }
}

#[test]
fn a_real_cluster() {
    let Loaded {
        fabric,
        format,
        warnings,
    } = read("dgx", REAL).unwrap();
    assert_eq!((format, warnings.as_slice()), (Format::Ibnetdiscover, [].as_slice()));
    let summary = Summary::of(&fabric);
    assert_eq!(
        (summary.switches, summary.hosts, summary.aggregation_nodes),
        (40, 542, 40)
    );
    assert_eq!(
        (summary.switch_links, summary.host_links, summary.components),
        (532, 582, 1)
    );
    assert_eq!(summary.ports_by_rate.get("4xNDR"), Some(&2_228));
    assert_eq!(summary.uncabled_ports, 954);
    let (lids, conflicts) = seen_lids(&fabric);
    assert_eq!((lids.len(), lids.top(), conflicts), (622, Lid(695), vec![]));
    // As a net file for ibsim, too, although 69 hosts share a description.
    let again = load(&text_of(&fabric, Format::IbsimNet));
    assert_eq!(diff(&fabric, &again.fabric).changes, []);
}

#[test]
fn lids_and_lanes_are_kept() {
    let up = read("up", UP).unwrap();
    assert_eq!(seen_lids(&up.fabric).0.top(), Lid(23));
    let full = read("full", FULL).unwrap();
    assert_eq!(full.warnings, []);
    assert_eq!(diff(&up.fabric, &full.fabric).changes, []);
    let port = full
        .fabric
        .node(selvedge_fabric::NodeIdx(0))
        .external_ports()
        .next()
        .unwrap()
        .1;
    assert_eq!(
        (port.capability.vls, port.link.rate.to_string()),
        (4, "4xHDR".to_owned())
    );
}

/// A switch, a host with two ports, a router and an aggregation node, as `ibnetdiscover --grouping` prints them.
const GROUPED: &str = r#"
Chassis 1 (guid 0x5442ba00003000)
Hostname: one

# Spine Nodes
vendid=0x8f1
devid=0x5a06
sysimgguid=0x5442ba00003000		# Chassis 1
switchguid=0x5442ba00003080(5442ba00003080)	# ISR9024 Spine 1 Chip 1
Switch	24 "S-005442ba00003080"		# "leaf "one" #1" base port 0 lid 6 lmc 0
[22][ext 3]	"H-0008f10403961354"[1](8f10403961355) 		# "host HCA-1" lid 4 4xSDR
[23]	"H-0008f10403961354"[2](8f10403961356) 		# "host HCA-1" lid 8 1xDDR s=2 w=1 v=3
[7]	"R-0008f10403961400"[1](8f10403961401) 		# "router" lid 9 4x??? slot 7
[8]	"H-0008f10403961500"[1](8f10403961500) 		# "Mellanox Technologies Aggregation Node" lid 11 12xFDR10

Non-Chassis Nodes
caguid=0x8f10403961354
Ca	2 "H-0008f10403961354"		# "host HCA-1" (scp)
[1](8f10403961355) 	"S-005442ba00003080"[22][ext 3]		# lid 4 lmc 1 "leaf "one" #1" lid 6 4xSDR
[2](8f10403961357) 	"S-005442ba00003080"[23]		# lid 7 lmc 1 "leaf "one" #1" lid 6 1xDDR
Rt	2 "R-0008f10403961400"		# "router"
"#;

#[test]
fn the_odd_lines_of_real_listings() {
    let text = format!("{GROUPED}Ca\t1 \"H-0008f10403961500\"\t# \"Mellanox Technologies Aggregation Node\"\n");
    let Loaded { fabric, warnings, .. } = load(&text);
    let summary = Summary::of(&fabric);
    assert_eq!(
        (
            summary.switches,
            summary.hosts,
            summary.aggregation_nodes,
            summary.routers
        ),
        (1, 1, 1, 1)
    );
    assert_eq!(summary.host_links, 4);
    let switch = fabric.switch(selvedge_fabric::SwitchIdx(0));
    assert_eq!(switch.description, "leaf \"one\" #1");
    assert_eq!(switch.switch.map(|s| s.enhanced_port0), Some(false));
    let rate = |port| switch.port(PortNum::new(port).unwrap()).unwrap().link.rate.to_string();
    assert_eq!(
        [rate(22), rate(23), rate(7), rate(8)],
        ["4xSDR", "1xDDR", "4x???", "12xFDR10"]
    );
    let host = fabric.node(fabric.find(Guid(0x8_f104_0396_1354)).unwrap());
    let port = |n| host.port(PortNum::new(n).unwrap()).unwrap();
    assert_eq!(
        (port(1).guid.0, port(2).guid.0),
        (0x8_f104_0396_1355, 0x8_f104_0396_1357)
    );
    assert_eq!(
        (port(1).settings.lids.base, port(1).settings.lids.lmc.get()),
        (Lid(4), 1)
    );
    assert_eq!(port(2).settings.lids.base, Lid::NONE, "7 is not aligned");
    let found: Vec<String> = warnings
        .iter()
        .map(|w| w.to_string().split(": ").take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        found,
        [
            "SLV-TOPOLOGY-0022 f:13",
            "SLV-TOPOLOGY-0020 f:13",
            "SLV-TOPOLOGY-0020 f:14",
            "SLV-TOPOLOGY-0024 f:12",
            "SLV-TOPOLOGY-0027 f:20",
        ]
    );
    // The LID of the aggregation node stands in the switch's line only.
    let node = fabric.node(fabric.find(Guid(0x8_f104_0396_1500)).unwrap());
    assert_eq!(node.port(PortNum::new(1).unwrap()).unwrap().settings.lids.base, Lid(11));
}

#[test]
fn net_files_as_ibsim_reads_them() {
    let text = "
        # the first port is the subnet manager's
        Switch 8 \"Switch1\"
        [1] \"Hca1\"          # no number: port 1
        [3] \"Switch2\"[3] w=3 s=7 e=2
        Switch 8 \"Switch2\"
        [3] \"Switch1\"[3] w=3 s=7 e=3
        Hca 2 \"Hca1\"
        [1] \"Switch1\"[1]
        switchguid+0x10
        Switch 4 \"Switch3\"
        module=\"m\"
        Ca 1 \"h\"
        @[1] \"uplink\"
        module=\"\"
        Switch 4 \"Switch4\"
        [2] \"m@uplink\"
        do Link something
    ";
    // An alias joins from both ends in ibsim; the other end's line is missing here.
    let Loaded {
        fabric,
        format,
        warnings,
    } = load(text);
    assert_eq!(format, Format::IbsimNet);
    let guid = |name: &str| fabric.nodes().iter().find(|n| n.description == name).map(|n| n.guid.0);
    assert_eq!(
        ["Switch1", "Switch2", "Hca1", "Switch3", "Switch4", "h"].map(guid),
        [0x20_0000, 0x20_0001, 0x10_0000, 0x20_0010, 0x20_0011, 0x10_0003].map(Some)
    );
    let hca = fabric.node(fabric.find(Guid(0x10_0000)).unwrap());
    assert_eq!(hca.port(PortNum::new(2).unwrap()).unwrap().guid, Guid(0x10_0002));
    let rates = Summary::of(&fabric).ports_by_rate;
    assert_eq!(
        rates.into_iter().collect::<Vec<_>>(),
        [("4xEDR".to_owned(), 2), ("4xSDR".to_owned(), 4)]
    );
    assert!(
        matches!(warnings.as_slice(), [Warning::MissingReverse { .. }]),
        "{warnings:?}"
    );
    assert_eq!(Summary::of(&fabric).host_links, 2);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let check = |text: &str, want: &[&str]| {
        let error = read("f", text.as_bytes()).expect_err(text).to_string();
        for part in want {
            assert!(error.contains(part), "{text}: {error} lacks {part}");
        }
    };
    let two = "Switch 4 \"a\"\nSwitch 4 \"b\"\n";
    check("", &["0010", "f:", "no node"]);
    check("hello\nworld\n", &["0010"]);
    check("Switch 300 \"a\"\n", &["0011", "f:1", "1-254"]);
    check("Switch 0 \"a\"\n", &["0011", "f:1"]);
    check("Switch 4 \"\"\nSwitch 4 \"a\"", &["0011", "f:1"]);
    check("Switch 4 \"a\"\nSwitch\t : 0x10 ports 4 \"a\"", &["f:2", "without -l"]);
    check("Switch 4 \"a\"\n[1] no peer\n", &["0011", "f:2", "[1] no peer"]);
    check("[1] \"a\"[2]\nSwitch 4 \"a\"\n", &["0011", "f:1", "beginning"]);
    check("Switch 4 \"a\"\ninclude \"more\"\n", &["0011", "f:2", "included"]);
    check("switchguid=zz\nSwitch 4 \"a\"\n", &["0011", "f:1", "number"]);
    check("Switch 4 \"a\"\nSwitch 8 \"a\"\n", &["0012", "f:2", "line 1"]);
    check("Switch 4 \"a\"\nSwitch 4 \"a\"\n", &["0012", "f:2", "line 1"]);
    check(
        "switchguid=0x7\nSwitch 4 \"a\"\nswitchguid=0x7\nSwitch 4 \"b\"\n",
        &["0012", "f:4", "0x0000000000000007", "line 2"],
    );
    check(
        &format!("{two}[1] \"a\"[1]\n[2] \"a\"[1]\n"),
        &["0013", "f:4", "line 3"],
    );
    check(
        &format!("{two}[1] \"a\"[1]\n[1] \"a\"[2]\n"),
        &["0013", "f:4", "line 3"],
    );
    check(
        "Switch 4 \"a\"\n[1] \"b\"[1]\nSwitch 4 \"b\"\n[1] \"a\"[2]\n",
        &["0013", "f:"],
    );
    check(
        "Switch 4 \"a\"\n[1] \"gone\"[1]\n",
        &["0014", "f:2", "\"gone\"", "cut off"],
    );
    check("Switch 4 \"a\"\n[5] \"b\"[1]\n", &["0015", "f:2", "1-4, not 5"]);
    check(
        &format!("{two}[1] \"a\"[9]\n"),
        &["0015", "f:3", "\"a\" has ports 1-4, not 9"],
    );
    check(&format!("{two}[1] \"a\"[0]\n"), &["0015", "not 0"]);
    let many: String = (0..40_000).map(|n| format!("Switch 254 \"{n}\"\n")).collect();
    check(&many, &["0017", "f:39216", "10000000 ports"]);
    // Half of a real listing.
    check(&String::from_utf8_lossy(&REAL[..REAL.len() / 2]), &["0014", "cut off"]);
}

#[test]
fn what_is_odd_is_read_with_a_warning() {
    let check = |text: &str, links: usize, want: &[&str]| {
        let Loaded { fabric, warnings, .. } = load(text);
        let found: Vec<String> = warnings.iter().map(|w| w.to_string()).collect();
        assert_eq!(
            (fabric.links().count(), found.len()),
            (links, want.len()),
            "{text}: {found:?}"
        );
        for (found, part) in found.iter().zip(want) {
            assert!(found.contains(part), "{text}: {found} lacks {part}");
        }
    };
    check("Switch 4 \"a\"\n[1] \"b\"[2]\nSwitch 4 \"b\"\n", 1, &["0020"]);
    check("Switch 4 \"a\"\n[1] \"a\"[1]\n", 0, &["0021"]);
    check("Switch 4 \"a\"\n[1] \"a\"[2]\n[2] \"a\"[1]\n", 1, &[]);
    check(
        "Switch 4 \"a\"\n[1] \"a\"[2] # \"a\" lid 0 4xGDR\n[2] \"a\"[1]\n",
        1,
        &["0022"],
    );
    check("junk\nSwitch 4 \"a\"\nmore junk\n", 0, &["0023"]);
    let twice = "Switch 4 \"S-0000000000000001\"\n[1] \"S-0000000000000001\"[2]\n".repeat(2);
    check(&twice, 1, &["0025", "0020"]);
    check(
        "Ca 1 \"S-0000000000000001\"\n[1](7) \"s\"\nCa 1 \"h\"\n[1](7) \"s\"[2]\n\
         Switch 4 \"s\"\n[1] \"S-0000000000000001\"\n[2] \"h\"\n",
        2,
        &["0026"],
    );
    check("Switch 4 \"a\" # \"a\" base port 0 lid 50000 lmc 0\n", 0, &["0027"]);
    // Bytes that are no UTF-8, and a line feed of another system.
    let loaded = read(
        "f",
        b"Switch 4 \"a\" # \"\xff\xfe\"\r\n[1] \"a\"[2]\r\n[2] \"a\"[1]\r\n",
    )
    .unwrap();
    assert_eq!((loaded.fabric.links().count(), loaded.warnings.len()), (1, 0));
}

#[test]
fn names_of_the_operator_are_written() {
    let fabric = read("net", NET).unwrap().fabric;
    let names = NodeNames::parse("map", b"0x025e1e0100000000 \"rack 1 leaf\"\n").unwrap();
    let text = write(&fabric, Format::Ibnetdiscover, &names);
    assert!(
        text.contains("\"S-025e1e0100000000\"\t\t# \"rack 1 leaf\" enhanced port 0"),
        "{text}"
    );
    assert!(text.contains("# lid 0 lmc 0 \"rack 1 leaf\" lid 0 4xHDR"), "{text}");
}

/// GUIDs that the file states stay with their ports, whatever GUIDs the reader invents.
#[test]
fn stated_guids_are_never_given_away() {
    let check = |text: &str, want: &[(u64, &str)]| {
        let Loaded { fabric, warnings, .. } = load(text);
        for &(guid, name) in want {
            let at = fabric.find_port(Guid(guid)).unwrap_or_else(|| panic!("{guid:#x}"));
            assert_eq!(fabric.port_name(at), name, "{guid:#x}");
        }
        assert_eq!(warnings, [], "{text}");
        let guids: Vec<Guid> = fabric.end_ports().map(|(_, port)| port.guid).collect();
        assert_eq!(guids.iter().collect::<BTreeSet<_>>().len(), guids.len(), "{guids:?}");
    };
    // Port 2 of the first host, without a stated GUID, would get 0x22.
    let listing = r#"switchguid=0x10(10)
Switch	4 "S-0000000000000010"		# "sw" base port 0 lid 1 lmc 0
[1]	"H-0000000000000020"[1](21) 		# "a" lid 2 4xEDR
[2]	"H-0000000000000021"[1](22) 		# "b" lid 3 4xEDR
caguid=0x20
Ca	2 "H-0000000000000020"		# "a"
[1](21) 	"S-0000000000000010"[1]		# lid 2 lmc 0 "sw" lid 1 4xEDR
caguid=0x21
Ca	2 "H-0000000000000021"		# "b"
[1](22) 	"S-0000000000000010"[2]		# lid 3 lmc 0 "sw" lid 1 4xEDR
"#;
    check(listing, &[(0x10, "\"sw\"[0]"), (0x21, "\"a\"[1]"), (0x22, "\"b\"[1]")]);
    // Only the switch's line states the GUID.
    let one_sided: String = listing
        .lines()
        .take(5)
        .chain(["Ca	2 \"H-0000000000000020\"", "Ca	2 \"H-0000000000000021\""])
        .map(|line| format!("{line}\n"))
        .collect();
    let fabric = load(&one_sided.replace("caguid=0x20\n", "")).fabric;
    assert_eq!(
        fabric.port_name(fabric.find_port(Guid(0x22)).unwrap()),
        "\"H-0000000000000021\"[1]"
    );
    // The switch's GUID equals the GUID that a host's port would get. A cabled port comes before an uncabled one.
    check(
        r#"switchguid=0x31
Switch 4 "s"
[1] "h"[1]
[2] "i"[2]
caguid=0x30
Ca 2 "h"
[1] "s"[1]
caguid=0x2e
Ca 4 "i"
[2] "s"[2]
"#,
        &[(0x31, "\"s\"[0]"), (0x30, "\"i\"[2]")],
    );
}
