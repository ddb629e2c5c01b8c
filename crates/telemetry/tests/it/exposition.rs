//! The other ways out: guilbaults' family, InfluxDB's lines, brand and type, pictures.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_telemetry::exposition::brand::{self, Brand, BrandError, Expected};
use selvedge_telemetry::exposition::{guilbaults, influx};
use selvedge_telemetry::picture::{LinkLoad, connections, heat_map};
use selvedge_telemetry::prometheus::{TextFormat, Wanted};
use selvedge_telemetry::{End, Group, Inventory, Latest, Metric, NodeEntry, PortEntry, Wall};
use selvedge_types::{Guid, Lid, LinkSpeed, LinkWidth, NodeKind, PortState, Rate};

use crate::agents::{host, switch};
use crate::slots::every_second;
use crate::world::World;

const GROUPS: [Group; 3] = [Group::Extended, Group::RcvErrors, Group::XmitDiscards];

fn sampled() -> (World, Latest) {
    let mut world = World::new(every_second(&GROUPS));
    for device in world.agents.values_mut().flat_map(|agent| agent.ports.values_mut()) {
        device.count(Metric::XmitData, 1_000);
    }
    world.slot();
    let mut latest = Latest::default();
    for sample in &world.samples {
        latest.take(sample);
        // The agents of this world do not have this group.
        let mut discards = *sample;
        discards.key.group = Group::XmitDiscards;
        discards.known = Group::XmitDiscards.mask();
        latest.take(&discards);
    }
    (world, latest)
}

/// All names of the exporter's dictionary, in lower case.
const GUILBAULTS: &str = "linkdownedcounter symbolerrorcounter portxmitconstrainterrors portmalformedpkterrors
    portswlifetimelimitdiscards portxmitdiscards portswhoqlifetimelimitdiscards portxmitwait portxmitdata portrcvdata
    portxmitpkts portrcvpkts portrcverrors portunicastxmitpkts portunicastrcvpkts portmulticastxmitpkts
    portmulticastrcvpkts portbufferoverrunerrors portlocalphysicalerrors portrcvremotephysicalerrors
    portinactivediscards portdlidmappingerrors linkerrorrecoverycounter locallinkintegrityerrors vl15dropped
    portneighbormtudiscards portrcvconstrainterrors excessivebufferoverrunerrors";

#[test]
fn guilbaults_dashboards_find_every_name() {
    let (world, latest) = sampled();
    let mut page = String::new();
    guilbaults::write(
        &mut page,
        TextFormat::Prometheus,
        &Wanted::default(),
        (&world.inventory, &latest),
        true,
    )
    .unwrap();
    let names: BTreeSet<&str> = page
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    for name in GUILBAULTS.split_whitespace() {
        assert!(names.contains(&format!("infiniband_{name}_total")[..]), "{name}");
    }
    for name in ["infiniband_speed", "infiniband_width", "infiniband_scrape_ok"] {
        assert!(names.contains(name), "{name}");
    }
    let data = page
        .lines()
        .find(|line| line.starts_with("infiniband_portxmitdata_total{component=\"switch\""))
        .unwrap();
    for label in [
        "local_name=\"",
        "local_guid=\"0x",
        "local_port=\"",
        "remote_guid=\"0x",
        "remote_port=\"",
        "remote_name=\"",
    ] {
        assert!(data.contains(label), "{data}");
    }
    // Clean ports have their series: as many as there are ports with a link that is up.
    let linked = world
        .inventory
        .nodes
        .values()
        .flat_map(|node| &node.ports)
        .filter(|port| port.num > 0 && port.is_up() && port.peer.is_some())
        .count();
    let series = |name: &str| {
        page.lines()
            .filter(|line| line.starts_with(&format!("{name}{{")))
            .count()
    };
    assert!(linked > 0);
    assert_eq!(
        (
            series("infiniband_symbolerrorcounter_total"),
            series("infiniband_width")
        ),
        (linked, linked)
    );
}

#[test]
fn data_is_in_words_there_and_in_bytes_in_influx() {
    let (world, latest) = sampled();
    let end = world
        .inventory
        .nodes
        .iter()
        .flat_map(|(guid, node)| {
            node.ports.iter().map(|port| End {
                node: *guid,
                port: port.num,
            })
        })
        .find(|end| {
            world.inventory.port(*end).is_some_and(|port| port.peer.is_some())
                && latest
                    .metric(end.node, end.port, Metric::XmitData)
                    .is_some_and(|words| words > 0)
        });
    let end = end.unwrap();
    let words = latest.metric(end.node, end.port, Metric::XmitData).unwrap();
    let mut page = String::new();
    guilbaults::write(
        &mut page,
        TextFormat::Prometheus,
        &Wanted::default(),
        (&world.inventory, &latest),
        false,
    )
    .unwrap();
    let local = format!("local_guid=\"{}\",local_port=\"{}\"", end.node, end.port);
    let line = page
        .lines()
        .find(|line| line.starts_with("infiniband_portxmitdata_total") && line.contains(&local))
        .unwrap();
    assert!(line.ends_with(&format!(" {words}")), "{line}");
    assert!(page.ends_with("infiniband_scrape_ok 0\n"));
    let mut lines = String::new();
    influx::write(
        &mut lines,
        &Wanted::default(),
        (&world.inventory, &latest),
        Wall(1_700_000_000_000_000_000),
    )
    .unwrap();
    let tags = format!("infiniband_port,guid={},port={},", end.node, end.port);
    let line = lines.lines().find(|line| line.starts_with(&tags)).unwrap();
    assert!(line.contains(&format!("port_xmit_data={}i", 4 * words)), "{line}");
    assert!(lines.lines().all(|line| line.ends_with(" 1700000000000000000")));
}

#[test]
fn influx_escapes_names() {
    let (mut world, latest) = sampled();
    let (guid, node) = world.inventory.nodes.iter_mut().next().unwrap();
    node.description = "a b,c=d\\e\nf".to_owned();
    let guid = *guid;
    let mut lines = String::new();
    influx::write(&mut lines, &Wanted::default(), (&world.inventory, &latest), Wall(0)).unwrap();
    let line = lines
        .lines()
        .find(|line| line.contains(&format!("guid={guid},")))
        .unwrap();
    assert!(line.contains(",node=a\\ b\\,c\\=d/e\\ f"), "{line}");
    // Measurement, tags, fields and time are four parts, whatever the name is.
    assert_eq!(line.replace("\\ ", "").split(' ').count(), 3, "{line}");
}

#[test]
fn brand_and_type_are_checked() {
    let (world, _) = sampled();
    let (switch, host) = (switch(0), host(0));
    let quantum = Brand {
        vendor: 0x2C9,
        device: 0xD2F0,
    };
    let cx6 = Brand {
        vendor: 0x2C9,
        device: 0x101B,
    };
    let brands = BTreeMap::from([(switch, quantum)]);
    let expect = |node, port, brand| (End { node, port }, Expected { brand });
    let check = |expected: [(End, Expected); 1]| brand::check(&world.inventory, &brands, &expected.into());
    assert_eq!(check([expect(switch, 1, quantum)]), []);
    let found = check([expect(switch, 1, cx6)]);
    assert!(matches!(found[..], [BrandError::Another { .. }]), "{found:?}");
    assert_eq!(
        found[0].to_string(),
        format!(
            "SLV-TELEMETRY-0212: port 1 of node {switch} is of Quantum (0x0002c9:0xd2f0), and ConnectX-6 \
             (0x0002c9:0x101b) was expected; check whether the adapter was replaced, or correct the expectation"
        )
    );
    assert!(matches!(
        check([expect(switch, 200, quantum)])[..],
        [BrandError::NoPort { port: 200, .. }]
    ));
    assert!(matches!(
        check([expect(host, 1, cx6)])[..],
        [BrandError::Unknown { .. }]
    ));
    let mut page = String::new();
    brand::write(&mut page, TextFormat::Prometheus, &world.inventory, &brands).unwrap();
    assert!(
        page.contains(",device=\"Quantum\",vendor_id=\"0x0002c9\",device_id=\"0xd2f0\"} 1\n"),
        "{page}"
    );
}

/// Two leaves with a host each, two spines; the link of leaf 10 to spine 2 is down.
fn leaf_and_spine() -> Inventory {
    let rate = Some(Rate {
        width: LinkWidth::X4,
        speed: LinkSpeed::Hdr,
    });
    let port = |num, peer: (u64, u8)| PortEntry {
        num,
        lid: Lid(1),
        state: PortState::Active,
        peer: Some(End {
            node: Guid(peer.0),
            port: peer.1,
        }),
        rate,
    };
    let node = |kind, name: &str, ports| NodeEntry {
        kind,
        description: name.to_owned(),
        ports,
    };
    let down = PortEntry {
        state: PortState::Down,
        peer: None,
        ..port(3, (4, 2))
    };
    let nodes = [
        (
            Guid(1),
            node(
                NodeKind::Switch,
                "leaf 10",
                vec![port(1, (5, 1)), port(2, (3, 1)), down],
            ),
        ),
        (
            Guid(2),
            node(
                NodeKind::Switch,
                "leaf 2",
                vec![port(1, (6, 1)), port(2, (3, 2)), port(3, (4, 2))],
            ),
        ),
        (
            Guid(3),
            node(NodeKind::Switch, "spine <1>", vec![port(1, (1, 2)), port(2, (2, 2))]),
        ),
        (Guid(4), node(NodeKind::Switch, "spine 2", vec![port(2, (2, 3))])),
        (Guid(5), node(NodeKind::Ca, "host \"a\"", vec![port(1, (1, 1))])),
        (Guid(6), node(NodeKind::Ca, "host b", vec![port(1, (2, 1))])),
    ];
    Inventory { nodes: nodes.into() }
}

#[test]
fn a_heat_map_has_a_cell_for_each_pair() {
    let inventory = leaf_and_spine();
    let share = |end: End| {
        Some(if end == (End { node: Guid(2), port: 3 }) {
            0.5
        } else {
            0.1
        })
    };
    let map = heat_map(&inventory, share);
    let names = |list: &[(Guid, String)]| -> Vec<String> { list.iter().map(|(_, name)| name.clone()).collect() };
    assert_eq!(names(&map.leaves), ["leaf 2", "leaf 10"], "by their numbers");
    assert_eq!(names(&map.spines), ["spine 2", "spine <1>"]);
    assert_eq!(map.cells.len(), 3);
    assert_eq!(map.cells[&(Guid(2), Guid(4))], (0.5, 0.1));
    let svg = map.svg("utilisation");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(
        svg.contains("<title>leaf 2 - spine 2: 50.0 % up, 10.0 % down</title>"),
        "{svg}"
    );
    assert!(svg.contains("spine &lt;1&gt;") && !svg.contains("<1>"), "{svg}");
    assert_eq!(
        svg.matches("fill=\"#eeeeee\"").count(),
        1,
        "leaf 10 has no link to spine 2"
    );
    let opened = svg.matches("<g>").count();
    assert_eq!((opened, svg.matches("</g>").count()), (3, 3));
    assert_eq!(
        heat_map(&Inventory::default(), share).svg("x").matches("<path").count(),
        0
    );
}

/// The graph has each link once, and Graphviz' grammar: names in quotation marks.
#[test]
fn connections_show_loads_and_errors() {
    let inventory = leaf_and_spine();
    let load = |end: End| LinkLoad {
        utilisation: (end.node != Guid(6)).then_some(0.25),
        wait: Some(if end.port == 3 { 0.5 } else { 0.0 }),
        errors: u64::from(end == (End { node: Guid(3), port: 1 })) * 7,
    };
    let dot = connections(&inventory, load, true);
    assert!(dot.starts_with("graph fabric {") && dot.ends_with("}\n"));
    assert_eq!(dot.matches(" -- ").count(), 5, "{dot}");
    assert!(dot.contains("label=\"2:1 25%/25% 7 errors\", style=dashed"), "{dot}");
    assert!(
        dot.contains("label=\"3:2 25%/25%\", style=solid, color=\"#") && dot.contains("penwidth=3.0"),
        "{dot}"
    );
    assert!(dot.contains("[label=\"host \\\"a\\\"\", shape=ellipse]"), "{dot}");
    assert!(dot.contains("label=\"1:1 25%/?\""), "{dot}");
    let dot = connections(&inventory, load, false);
    assert_eq!((dot.matches(" -- ").count(), dot.contains("host")), (3, false), "{dot}");
}
