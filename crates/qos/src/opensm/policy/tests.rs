//! Tests of policy files: what is accepted, what is refused, which level a query has, which ports groups have.

use selvedge_fabric::{Fabric, FabricBuilder, Node, PortRef};
use selvedge_plan::partition::{Partition, Partitions, Rule, Who};
use selvedge_plan::qos::Asked;
use selvedge_types::{Guid, NodeKind, PKey, PortNum, Sl, Vl};

use super::*;

fn parse(text: &str) -> PolicyFile {
    super::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Every section, with every key.
const WHOLE: &str = "\
# A comment.
port-groups
    port-group # another one
        name: Storage
        use: our targets: port-group, 0x1 # kept out
        port-guid: 0x10, 0x30-0x20
        port-guid: 0x21
    end-port-group
    port-group
        name: Virtual Servers
        port-name: \"vs1 HCA-1/P1\", vs2/p2
    end-port-group
    port-group
        name : Parts
        partition: Part1
        pkey: 0x8234, 1-2
    end-port-group
    port-group
        name: Kinds
        node-type: ca, Router, SELF
    end-port-group
end-port-groups

qos-setup
    vlarb-tables
        vlarb-scope
            group: Storage, Kinds
            across: Virtual Servers
            vlarb-high: 0:255,1:127
            vlarb-low: 8:255
            vlarb-low: 9:0x7f
            vl-high-limit: 10
        end-vlarb-scope
    end-vlarb-tables
    sl2vl-tables
        sl2vl-scope
            group: Storage
            from: *
            to: 1,3-5
            across-from: Parts
            across-to: Kinds
            sl2vl-table: 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        end-sl2vl-scope
    end-sl2vl-tables
end-qos-setup

qos-ulps
    sdp, port-num 30000 : 7
    default : 1
    any, pkey 0x8001: 4
end-qos-ulps

qos-levels
    qos-level
        name: Default
        sl: 0
    end-qos-level
    qos-level
        name: WholeSet
        use: all
        sl: 1
        mtu-limit: 4
        rate-limit: 5
        path-bits: 2,4,8-32
        pkey: 0x1234
        packet-life: 8
    end-qos-level
end-qos-levels

qos-match-rules
    qos-match-rule
        use: by class
        qos-class: 7-9,11
        qos-level-name: wholeset
    end-qos-match-rule
    qos-match-rule
        source: virtualservers
        destination: STORAGE,Kinds
        service-id: 22,4719-5000,
            6000
        pkey: 0x0F00-0x0FFF
        qos-level-name: DEFAULT
    end-qos-match-rule
end-qos-match-rules
";

#[test]
fn every_section_and_key() {
    let policy = parse(WHOLE);
    let names: Vec<&str> = policy.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["Storage", "VirtualServers", "Parts", "Kinds"]);
    assert_eq!(policy.groups[0].description, "our targets: port-group, 0x1");
    assert_eq!(
        policy.groups[0].guids.iter().collect::<Vec<_>>(),
        [(0x10, 0x10), (0x20, 0x30)]
    );
    let port = |node: &str, port| (node.to_owned(), PortNum::new(port).unwrap());
    let ports = policy.groups[1].ports.iter().map(|name| (name.node.clone(), name.port));
    assert_eq!(ports.collect::<Vec<_>>(), [port("vs1 HCA-1", 1), port("vs2", 2)]);
    assert_eq!(
        policy.groups[2].pkeys.iter().collect::<Vec<_>>(),
        [(1, 2), (0x234, 0x234)]
    );
    assert_eq!(policy.groups[3].kinds, [NodeKind::Ca, NodeKind::Router]);
    assert!(policy.groups[3].manager);

    let scope = &policy.arbitration[0];
    assert_eq!(
        (scope.groups.as_slice(), scope.across.as_slice()),
        (&[0, 3][..], &[1][..])
    );
    let vl = |vl| Vl::new(vl).unwrap();
    assert_eq!(scope.high, Some(vec![(vl(0), 255), (vl(1), 127)]));
    assert_eq!(scope.low, Some(vec![(vl(8), 255), (vl(9), 127)]));
    assert_eq!(scope.high_limit, Some(10));
    let scope = &policy.rows[0];
    assert_eq!(
        (scope.from.iter().collect::<Vec<_>>(), scope.row[15]),
        (vec![(0, 254)], vl(15))
    );
    assert_eq!(scope.to.iter().collect::<Vec<_>>(), [(1, 1), (3, 5)]);
    assert_eq!(
        (scope.across_from.as_slice(), scope.across_to.as_slice()),
        (&[2][..], &[3][..])
    );

    let level = &policy.levels[1];
    assert_eq!((level.sl.get(), level.rate, level.packet_life), (1, Some(5), Some(8)));
    assert_eq!(level.mtu.map(|mtu| mtu.bytes()), Some(2048));
    assert_eq!(policy.default, LevelRef::Level(0));
    // Rules of qos-ulps come last, wherever the section stands.
    let rules: Vec<(usize, LevelRef)> = policy.rules.iter().map(|rule| (rule.line, rule.level)).collect();
    let sl = |sl| LevelRef::Sl(Sl::new(sl).unwrap());
    assert_eq!(
        rules,
        [
            (71, LevelRef::Level(1)),
            (76, LevelRef::Level(0)),
            (48, sl(7)),
            (50, sl(4)),
        ]
    );
    assert_eq!(policy.rules[1].destinations, [0, 3]);
    let ids: Vec<_> = policy.rules[1].service_ids.iter().collect();
    assert_eq!(ids, [(22, 22), (4719, 5000), (6000, 6000)]);
}

#[test]
fn the_shortest_files() {
    let level = parse("qos-levels\nqos-level\nname: default\nsl: 3\nend-qos-level\nend-qos-levels");
    assert_eq!(level.level(level.default).1.get(), 3);
    let ulps = parse("qos-ulps\n Default:0x4 # SL\nend-qos-ulps\n");
    assert_eq!(ulps.default, LevelRef::Sl(Sl::new(4).unwrap()));
    // The level is used before the default of qos-ulps.
    let both = "qos-ulps\ndefault: 4\nend-qos-ulps\nqos-levels\nqos-level\nname: DEFAULT\nsl: 3\nend-qos-level\n\
                end-qos-levels\n";
    let both = parse(both);
    assert_eq!(both.level(both.default).1.get(), 3);
    let empty = "qos-levels end-qos-levels qos-match-rules end-qos-match-rules qos-setup end-qos-setup\n";
    assert_eq!(super::parse(empty), Err(PolicyError::NoDefault));
}

/// Returns a file with a default and these lines, the first of which is line 4.
fn with(lines: &str) -> String {
    format!("qos-ulps\ndefault: 0\nend-qos-ulps\n{lines}")
}

fn refused(lines: &str, want: &str) {
    let error = super::parse(&with(lines)).expect_err(lines).to_string();
    let want = want.replace("line ", "QoS policy, line ");
    assert!(error.contains(&want), "{error}\n{want}");
}

#[test]
fn wrong_words_are_named_with_what_was_expected() {
    refused(
        "port-group\n",
        "line 4: found 'port-group'; want qos-ulps, port-groups, qos-setup, qos-levels or qos-match-rules; did you \
         mean 'port-groups'?",
    );
    refused(
        "port-groups\nport-group\nname: A\nprot-guid: 1\n",
        "line 7: found 'prot-guid'; want name:, use:, port-guid:, port-name:, pkey:, partition:, node-type: or \
         end-port-group; did you mean 'port-guid'?",
    );
    refused(
        "port-groups\nend-port-groups\n",
        "line 5: found 'end-port-groups'; want port-group",
    );
    refused(
        "port-groups\nport-group\nname: A\nend-port-groups\n",
        "line 7: found 'end-port-groups'; want name:",
    );
    refused(
        "port-groups\nport-group\nnode-type: HOST\n",
        "line 6: found 'HOST'; want CA, SWITCH, ROUTER, SELF or ALL",
    );
    refused(
        "port-groups\nport-group\nname:\nend-port-group\n",
        "line 7: found 'end-port-group'; want a text",
    );
    refused("port-groups\nport-group\nName: A\n", "line 6: found 'Name'; want name:");
    refused("port-groups\nport-group\nname: A, B\n", "line 6: found ','; want name:");
    refused("qos-levels\nqos-level\nsl: low\n", "line 6: found 'low'; want a number");
    refused(
        "qos-levels\nqos-level\nsl: 1\n",
        "line 7: found the end of the file; want name:",
    );
    refused(
        "qos-ulps\nend-qos-ulps\n",
        "line 5: found 'end-qos-ulps'; want default:, sdp:",
    );
    refused(
        "qos-ulps\nipiob: 3\n",
        "line 5: found 'ipiob'; want default:, sdp:, sdp, port-num, rds:, rds, port-num, iser:, iser, port-num, srp, \
         target-port-guid, ipoib:, ipoib, pkey, any, service-id, any, pkey, any, target-port-guid, any, \
         source-port-guid, any, source-target-port-guid or end-qos-ulps; did you mean 'ipoib'?",
    );
    refused("qos-ulps\nmpi: 3\n", "line 5: found 'mpi'; want default:");
    refused("qos-ulps\nsdp, port-num 5 7\n", "line 5: found '7'; want ':' and an SL");
    refused(
        "qos-setup\nvlarb-tables\nvlarb-scope\nvlarb-high: 0-5\n",
        "line 7: found '-5'; want ':' and a weight",
    );
    refused(
        "qos-setup\nvlarb-tables\nsl2vl-scope\n",
        "line 6: found 'sl2vl-scope'; want vlarb-scope or",
    );
}

#[test]
fn wrong_values_are_named_with_the_values_allowed() {
    let level = |line: &str, want: &str| refused(&format!("qos-levels\nqos-level\n{line}\n"), want);
    level("sl: 16", "line 6: found 16; want an SL from 0 to 15");
    level(
        "sl: 08",
        "line 6: found 08; want a number of at most 64 bits (octal after a leading 0)",
    );
    level("mtu-limit: 6", "line 6: found 6; want mtu-limit 1 to 5");
    level("mtu-limit: 0", "line 6: found 0; want mtu-limit 1 to 5");
    level("rate-limit: 1", "line 6: found 1; want rate-limit 2 to 22");
    level("packet-life: 64", "line 6: found 64; want packet-life 0 to 63");
    level("pkey: 0x1ffff", "line 6: found 0x1ffff; want a P_Key of 16 bits");
    level(
        "path-bits: 99999999999999999999",
        "line 6: found 99999999999999999999; want a number of at most 64 bits",
    );
    let group = |line: &str, want: &str| refused(&format!("port-groups\nport-group\n{line}\n"), want);
    group(
        "port-name: vs1 HCA-1",
        "line 6: found 'vs1HCA-1'; want a port as NODE_DESCRIPTION/P1",
    );
    group("port-name: vs1/P0", "line 6: found 'vs1/P0'; want a port as");
    group("port-name: vs1/P1x", "line 6: found 'vs1/P1x'; want a port as");
    group("port-name: vs1/P255", "line 6: found 'vs1/P255'; want a port as");
    refused(
        "qos-ulps\nsdp, port-num 1-65536: 3\n",
        "line 5: found 65536; want a TCP port",
    );
    refused("qos-ulps\nrds: 16\n", "line 5: found 16; want an SL from 0 to 15");
    let scope = |line: &str, want: &str| refused(&format!("qos-setup\nsl2vl-tables\nsl2vl-scope\n{line}\n"), want);
    scope(
        "sl2vl-table: 0,1,2",
        "line 7: found 3 VLs; want 16 VLs, one for each SL",
    );
    scope(
        "sl2vl-table: 0,16",
        "line 7: found 16; want a VL from 0 to 15 (15 drops the SL)",
    );
    scope("to: 1-255", "line 7: found 255; want a port number from 0 to 254, or *");
    let scope = |line: &str, want: &str| refused(&format!("qos-setup\nvlarb-tables\nvlarb-scope\n{line}\n"), want);
    scope("vlarb-low: 15:1", "line 7: found 15; want a VL from 0 to 14");
    scope("vlarb-low: 1:256", "line 7: found 256; want a weight from 0 to 255");
    scope("vl-high-limit: 256", "line 7: found 256; want vl-high-limit 0 to 255");
    scope(
        &format!("vlarb-low: {}", vec!["0:1"; 65].join(",")),
        "line 7: found 65 entries; want at most 64",
    );
}

#[test]
fn what_is_missing_or_given_twice() {
    let twice = |lines: &str, line: usize, what: &str| {
        refused(
            lines,
            &format!("SLV-QOS-0012: line {line}: {what} is given a second time; remove one"),
        );
    };
    let missing = |lines: &str, line: usize, what: &str| {
        refused(lines, &format!("SLV-QOS-0013: line {line}: this {what}; add one"));
    };
    let group = "port-group\nname: A\nend-port-group\n";
    twice("port-groups\nport-group\nname: A\nname: B\n", 7, "'name'");
    twice(
        &format!("port-groups\n{group}port-group\nname: a\nend-port-group\n"),
        8,
        "port-group 'a'",
    );
    twice("qos-levels\nqos-level\nsl: 1\nsl: 1\n", 7, "'sl'");
    let level = "qos-level\nname: L\nsl: 1\nend-qos-level\n";
    twice(
        &format!("qos-levels\n{level}{level}end-qos-levels\n"),
        9,
        "qos-level 'L'",
    );
    twice(
        "qos-match-rules\nqos-match-rule\nqos-level-name: a\nqos-level-name: a\n",
        7,
        "'qos-level-name'",
    );
    missing(
        "port-groups\nport-group\nuse: x\nend-port-group\n",
        5,
        "port-group has no name",
    );
    missing(
        "qos-levels\nqos-level\nname: x\nend-qos-level\n",
        5,
        "qos-level has no sl",
    );
    missing(
        "qos-levels\nqos-level\nsl: 1\nend-qos-level\n",
        5,
        "qos-level has no name",
    );
    missing(
        "qos-match-rules\nqos-match-rule\nuse: x\nend-qos-match-rule\n",
        5,
        "qos-match-rule has no qos-level-name",
    );
    missing(
        "qos-setup\nvlarb-tables\nvlarb-scope\nend-vlarb-scope\n",
        6,
        "vlarb-scope has no group or across",
    );
    missing(
        "qos-setup\nsl2vl-tables\nsl2vl-scope\ngroup: a\nend-sl2vl-scope\n",
        6,
        "sl2vl-scope has no sl2vl-table",
    );
    let row = "sl2vl-table: 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0";
    missing(
        &format!("qos-setup\nsl2vl-tables\nsl2vl-scope\n{row}\nend-sl2vl-scope\n"),
        6,
        "sl2vl-scope has no group, across-to or across-from",
    );
}

#[test]
fn unknown_groups_and_levels() {
    let group = "port-group\nname: A\nend-port-group\n";
    let level = "qos-level\nname: L\nsl: 1\nend-qos-level\n";
    let rule = |line: &str| {
        format!(
            "port-groups\n{group}end-port-groups\nqos-levels\n{level}end-qos-levels\nqos-match-rules\nqos-match-rule\n\
             qos-level-name: L\n{line}\nend-qos-match-rule\nend-qos-match-rules\n"
        )
    };
    refused(
        &rule("source: A, Sorage"),
        "SLV-QOS-0016: line 18: no port-group is called 'Sorage'",
    );
    refused(
        "qos-levels\nqos-level\nname: Bulk\nsl: 1\nend-qos-level\nend-qos-levels\nqos-match-rules\nqos-match-rule\n\
         qos-level-name: Bulc\nend-qos-match-rule\nend-qos-match-rules\n",
        "SLV-QOS-0015: line 12: no qos-level is called 'Bulc'; did you mean 'Bulk'?",
    );
}

/// Any bytes give a policy or an error, never a panic.
#[test]
fn no_text_panics() {
    use proptest::prelude::*;
    let words = WHOLE
        .split_inclusive([' ', '\n', ',', ':'])
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let word = prop_oneof![
        6 => proptest::sample::select(words),
        1 => "\\PC{0,4}",
        1 => Just("\"".to_owned()),
    ];
    proptest!(|(parts in proptest::collection::vec(word, 0..60))| {
        if let Err(error) = super::parse(&parts.concat()) {
            prop_assert!(error.to_string().starts_with("SLV-QOS-00"));
        }
    });
    // One word of the whole file is missing.
    let words: Vec<&str> = WHOLE.split_inclusive([' ', '\n', ',', ':']).collect();
    for at in 0..words.len() {
        let rest = [&words[..at], &words[at + 1..]].concat().concat();
        let _ = super::parse(&rest);
    }
}

/// A switch with hosts of GUIDs 0x11, 0x21, 0x31 … at ports 1, 2, 3 …, and a router at the last port.
fn fabric() -> Fabric {
    let mut builder = FabricBuilder::new();
    let switch = builder.add(Node::new(NodeKind::Switch, Guid(0x1), 4, "S"));
    for at in 1..=4_u8 {
        let kind = if at == 4 { NodeKind::Router } else { NodeKind::Ca };
        let guid = u64::from(at) * 16;
        let mut node = Node::new(kind, Guid(guid), 1, format!("host {at}"));
        node.port_mut(PortNum::new(1).unwrap()).unwrap().guid = Guid(guid + 1);
        let node = builder.add(node);
        builder
            .link((switch, PortNum::new(at).unwrap()), (node, PortNum::new(1).unwrap()))
            .unwrap();
    }
    builder.finish().unwrap()
}

fn partitions() -> Partitions {
    let rule = |who, is_full| Rule {
        who,
        is_full,
        is_first: false,
    };
    let mut partitions = Partitions::only_default(&[rule(Who::All, false), rule(Who::Manager, true)]);
    for (key, name, members) in [(2, "Two", &[0x11, 0x21][..]), (5, "Five", &[0x31])] {
        let rules = members.iter().map(|guid| rule(Who::Port(Guid(*guid)), true)).collect();
        let name = name.to_owned();
        partitions.partitions.insert(
            key,
            Partition {
                name,
                key,
                sl: Sl::default(),
                rules,
            },
        );
    }
    partitions
}

fn port_of(fabric: &Fabric, guid: u64) -> PortRef {
    fabric.find_port(Guid(guid)).unwrap()
}

fn resolve(text: &str) -> (Resolved, Vec<String>) {
    let fabric = fabric();
    let manager = port_of(&fabric, 0x21);
    let (resolved, missing) = resolved(&parse(text).into(), &fabric, &partitions(), Some(manager));
    (resolved, missing.iter().map(ToString::to_string).collect())
}

const fn end(guid: u64, kind: NodeKind) -> End {
    End { guid: Guid(guid), kind }
}

#[test]
fn groups_of_every_kind() {
    let check = |lines: &str, want: &[u64], missing: &str| {
        let text = with(&format!(
            "port-groups\nport-group\nname: G\n{lines}\nend-port-group\nend-port-groups\n"
        ));
        let (resolved, found) = resolve(&text);
        let fabric = fabric();
        let members = fabric.end_ports().filter(|(at, port)| {
            let kind = fabric.node(at.node).kind;
            resolved.is_in(&[0], End { guid: port.guid, kind })
        });
        let mut members: Vec<u64> = members.map(|(_, port)| port.guid.0).collect();
        members.sort_unstable();
        assert_eq!(members, want, "{lines}");
        assert_eq!(found.len(), usize::from(!missing.is_empty()), "{found:?}");
        assert!(found.concat().contains(missing), "{found:?}");
    };
    check("port-guid: 0x11, 0x20-0x30", &[0x11, 0x21], "");
    check("port-name: \"host 3/P1\"", &[0x31], "");
    check("port-name: S/P3", &[0x1], "");
    check(
        "port-name: host 3/P1",
        &[],
        "SLV-QOS-0020: QoS policy, line 7: no node of the fabric is called 'host3', so port-group 'G' lacks its port",
    );
    check(
        "port-name: \"host 3/P2\"",
        &[],
        "SLV-QOS-0021: QoS policy, line 7: host 3 has ports 1 to 1; port-group 'G' names port 2",
    );
    check("partition: Two", &[0x11, 0x21], "");
    check(
        "partition: two",
        &[],
        "SLV-QOS-0022: QoS policy, line 7: no partition is called 'two'",
    );
    check(
        "pkey: 0x8005, 0x100",
        &[0x31],
        "SLV-QOS-0023: QoS policy, line 5: no partition has a P_Key from 0x0100",
    );
    check("pkey: 2-5", &[0x11, 0x21, 0x31], "");
    check("node-type: ROUTER", &[0x41], "");
    check("node-type: SELF, SWITCH", &[0x1, 0x21], "");
    check("node-type: ALL", &[0x1, 0x11, 0x21, 0x31, 0x41], "");
}

const ASKED: Asked = Asked {
    source: end(0x11, NodeKind::Ca),
    destination: end(0x31, NodeKind::Ca),
    service_id: None,
    class: None,
    pkey: None,
};

#[test]
fn the_first_rule_that_matches_gives_the_level() {
    let rules = [
        ("source: H1\nqos-class: 3", 1),
        ("destination: H3\npkey: 0x8005", 2),
        ("service-id: 5-9\nsource: H1\ndestination: H3", 3),
        ("source: H3\ndestination: H1", 4),
        ("qos-class: 3-4", 5),
    ];
    let group = |n: u8| format!("port-group\nname: H{n}\nport-guid: 0x{n}1\nend-port-group\n");
    let level = |(_, sl): &(&str, u8)| format!("qos-level\nname: L{sl}\nsl: {sl}\nend-qos-level\n");
    let rule =
        |(lines, sl): &(&str, u8)| format!("qos-match-rule\n{lines}\nqos-level-name: l{sl}\nend-qos-match-rule\n");
    let text = format!(
        "port-groups\n{}{}end-port-groups\nqos-levels\n{}end-qos-levels\nqos-match-rules\n{}end-qos-match-rules\n\
         qos-ulps\nany, service-id 100: 9\ndefault: 8\nend-qos-ulps\n",
        group(1),
        group(3),
        rules.iter().map(level).collect::<String>(),
        rules.iter().map(rule).collect::<String>(),
    );
    let (resolved, _) = resolve(&text);
    let check = |asked: Asked, want: u8| {
        let (_, sl) = resolved.policy.level(resolved.level_of(&asked));
        assert_eq!(sl.get(), want, "{asked:?}");
    };
    let back = Asked {
        source: ASKED.destination,
        destination: ASKED.source,
        ..ASKED
    };
    let class = |class, asked| Asked {
        class: Some(class),
        ..asked
    };
    let id = |id, asked| Asked {
        service_id: Some(id),
        ..asked
    };
    check(ASKED, 8);
    check(class(3, ASKED), 1);
    check(class(4, ASKED), 5);
    check(
        Asked {
            pkey: Some(PKey(5)),
            ..ASKED
        },
        2,
    );
    check(id(7, ASKED), 3);
    check(class(3, id(7, ASKED)), 1);
    check(back, 4);
    check(class(3, back), 4);
    check(id(100, ASKED), 9);
    check(id(101, ASKED), 8);
}

#[test]
fn ulps_match_what_their_names_say() {
    let check = |line: &str, asked: &[Asked], others: &[Asked]| {
        let (resolved, _) = resolve(&format!("qos-ulps\n{line} : 5\ndefault: 0\nend-qos-ulps\n"));
        let is_matched = |asked: &Asked| resolved.rule_of(asked).is_some();
        assert!(asked.iter().all(is_matched), "{line}");
        assert!(!others.iter().any(is_matched) && !is_matched(&ASKED), "{line}");
    };
    let id = |id| Asked {
        service_id: Some(id),
        ..ASKED
    };
    let pkey = |pkey| Asked {
        pkey: Some(PKey(pkey)),
        ..ASKED
    };
    let between = |source, destination| Asked {
        source: end(source, NodeKind::Ca),
        destination: end(destination, NodeKind::Ca),
        ..ASKED
    };
    check("sdp", &[id(0x1_0000), id(0x1_FFFF)], &[id(0xFFFF), id(0x2_0000)]);
    check("SDP, port-num 30000", &[id(0x1_7530)], &[id(0x1_7531), id(30000)]);
    check("rds", &[id(0x106_48CA)], &[id(0x106_0000)]);
    check(
        "rds, port-num 1-2",
        &[id(0x106_0001), id(0x106_0002)],
        &[id(0x106_0003)],
    );
    check("iser", &[id(0x106_0CBC)], &[id(0x106_48CA)]);
    check("iser, port-num 900", &[id(0x106_0384)], &[id(0x106_0CBC)]);
    check("ipoib", &[pkey(0xFFFF), pkey(0x7FFF)], &[pkey(0x8001)]);
    check("ipoib, pkey 2", &[pkey(0x8002)], &[pkey(0xFFFF)]);
    check("any, service-id 0x6234", &[id(0x6234)], &[id(0x6235)]);
    check("any, pkey 0x8002", &[pkey(2)], &[pkey(3)]);
    check(
        "srp, target-port-guid 0x41",
        &[between(0x11, 0x41)],
        &[between(0x41, 0x11)],
    );
    check(
        "any, target-port-guid 0x40-0x41",
        &[between(0x11, 0x41)],
        &[between(0x41, 0x11)],
    );
    check(
        "any, source-port-guid 0x41",
        &[between(0x41, 0x11)],
        &[between(0x11, 0x41)],
    );
    check(
        "any, source-target-port-guid 0x41,0x11",
        &[between(0x11, 0x41), between(0x41, 0x11)],
        &[],
    );
    let missing = |line: &str| resolve(&format!("qos-ulps\n{line}: 5\ndefault: 0\nend-qos-ulps\n")).1;
    // The manager alone is a full member of the default partition.
    let found = missing("ipoib").concat();
    assert!(
        found.contains("SLV-QOS-0024: QoS policy, line 2: the partition with P_Key 0x7fff has 1 full"),
        "{found}"
    );
    assert!(missing("ipoib, pkey 2").is_empty());
    assert!(missing("any, pkey 9").concat().contains("SLV-QOS-0023"));
}

#[test]
fn setup_gives_tables_to_the_ports_in_scope() {
    let group = |n: u8| format!("port-group\nname: H{n}\nport-guid: 0x{n}1\nend-port-group\n");
    let row = |vl: u8| vec![vl.to_string(); 16].join(",");
    let text = with(&format!(
        "port-groups\n{}{}port-group\nname: SW\nnode-type: SWITCH\nend-port-group\nend-port-groups\nqos-setup\n\
         vlarb-tables\nvlarb-scope\ngroup: SW\nacross: H1\nvlarb-high: 1:9\nend-vlarb-scope\nvlarb-scope\ngroup: SW\n\
         vlarb-high: 2:9\nvl-high-limit: 7\nend-vlarb-scope\nend-vlarb-tables\nsl2vl-tables\nsl2vl-scope\n\
         across-from: H1\nacross-to: H3\nsl2vl-table: {}\nend-sl2vl-scope\nsl2vl-scope\ngroup: SW\nfrom: 0\nto: 1-2\n\
         sl2vl-table: {}\nend-sl2vl-scope\nsl2vl-scope\ngroup: H3\nsl2vl-table: {}\nend-sl2vl-scope\n\
         end-sl2vl-tables\nend-qos-setup\n",
        group(1),
        group(3),
        row(1),
        row(2),
        row(3),
    ));
    let (resolved, _) = resolve(&text);
    let fabric = fabric();
    let switch = port_of(&fabric, 0x1);
    let check = |egress: PortRef, ingress: u8, high: Option<u8>, limit: Option<u8>, lane: Option<u8>| {
        let found = tables_in_scope(&resolved, &fabric, egress, PortNum::new(ingress).unwrap());
        assert_eq!(found.high.map(|entries| entries[0].0.get()), high, "{egress:?}");
        assert_eq!(found.high_limit, limit, "{egress:?}");
        assert_eq!(found.row.map(|row| row[3].get()), lane, "{egress:?} from {ingress}");
    };
    let out = |port| PortRef {
        port: PortNum::new(port).unwrap(),
        ..switch
    };
    check(out(1), 0, Some(1), Some(7), Some(2));
    check(out(2), 1, Some(2), Some(7), None);
    check(out(3), 1, Some(2), Some(7), Some(1));
    check(out(3), 2, Some(2), Some(7), None);
    check(port_of(&fabric, 0x31), 0, None, None, Some(3));
    check(port_of(&fabric, 0x11), 0, None, None, None);
}
