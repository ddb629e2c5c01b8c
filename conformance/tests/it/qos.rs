//! OpenSM's QoS: room `qos` computes the tables that OpenSM writes and the service levels that it answers with, for the
//! same settings and policy files. `smpquery` and `saquery` read them back on ibsim.

use std::collections::BTreeMap;
use std::fs;

use crate::support::{LIMIT, lid_of};
use selvedge_conformance::parse::Discovery;
use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab};
use selvedge_fabric::{FabricBuilder, Node};
use selvedge_plan::partition::Partitions;
use selvedge_plan::qos::{Asked, End, Resolved, Settings, Target};
use selvedge_qos::opensm::policy::{parse, resolved};
use selvedge_qos::opensm::{PortFacts, PortTables, Template, set};
use selvedge_qos::path::{Limits, SlAsked, SlSet, pkey_of_path, sl_of_path};
use selvedge_types::{Guid, Mtu, NodeKind, PKey, PortNum, Sl, Vl};

/// Two switches with two hosts each.
const NET: &str = include_str!("../../fabrics/two-switches.net");
const MASTER: &str = "H1";
const CLIENT: &str = "H2";

/// Every port of ibsim.
const PORT: PortFacts = PortFacts {
    vl_cap: 4,
    oper_vls: 4,
    vl_arb_high: 8,
    vl_arb_low: 8,
    has_sl_mapping: true,
};

/// Settings that OpenSM and room `qos` read; the tables of hosts and of switch ports differ in most.
const SETTINGS: [&[&str]; 10] = [
    &[],
    &[
        "qos_high_limit 6",
        "qos_vlarb_high 0:4",
        "qos_vlarb_low 0:0,1:64,2:128,3:192,4:0,5:64,6:64,7:64",
    ],
    &[
        "qos_ca_vlarb_low 0:1,1:2,2:3,3:4,4:5,5:6,6:7,7:8,8:9",
        "qos_swe_vlarb_low 7:8",
    ],
    &[
        "qos_vlarb_low 9:1,14:2,8:3,0:255",
        "qos_ca_vlarb_high 0x3:0x10, 011:017,",
    ],
    &["qos_sl2vl 0,0,0,0,0,0,0,0,1,1,1,1,1,1,1,1"],
    &["qos_sl2vl 14,13,12,11,10,9,8,7,6,5,4,3,2,1,0,15"],
    &[
        "qos_ca_sl2vl 0,15,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "qos_swe_sl2vl 0,1,2,15,4,5,6,7,0,0,0,0,0,0,0,0",
    ],
    &[
        "qos_vlarb_high 1:1,1:2,2:3,1:4",
        "qos_swe_vlarb_high (null)",
        "qos_ca_high_limit 255",
    ],
    &["qos_max_vls 2", "qos_swe_max_vls 8", "qos_vlarb_low 0:4,1:4"],
    &[
        "qos_rtr_sl2vl 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
        "qos_sw0_vlarb_low 0:9",
        "qos_swe_vlarb_low 0:8",
    ],
];

fn settings(lines: &[&str]) -> Settings {
    let mut settings = Settings::default();
    for line in lines {
        let (key, value) = line.split_once(' ').unwrap();
        set(&mut settings, key, value).unwrap();
    }
    settings
}

fn tables(settings: &Settings, target: Target) -> PortTables {
    PortTables::new(&Template::new(settings, target), &PORT)
}

fn smpquery(lab: &PeerLab, arguments: &[&str]) -> String {
    lab.output(CLIENT, "smpquery", arguments).unwrap()
}

/// Reads the rows that `smpquery sl2vl` prints: `ports: in 1, out 2: | 0| 1|…`.
fn rows(text: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().filter(|line| line.contains("ports: in"));
    let cells = lines.filter_map(|line| line.rsplit(": ").next());
    cells
        .map(|cells| cells.split('|').filter_map(|cell| cell.trim().parse().ok()).collect())
        .collect()
}

/// Reads the entries that `smpquery vlarb` prints, low priority first: `VL : |0x0 |…`, `WEIGHT: |0x40|…`.
fn turns(text: &str) -> Vec<(u8, u8)> {
    let numbers = |start: &str| {
        let lines = text.lines().filter(|line| line.starts_with(start));
        let cells = lines.flat_map(|line| line.split('|').skip(1)).map(str::trim);
        let cells = cells.filter_map(|cell| u8::from_str_radix(cell.strip_prefix("0x")?, 16).ok());
        cells.collect::<Vec<u8>>()
    };
    numbers("VL").into_iter().zip(numbers("WEIGHT")).collect()
}

fn wanted_row(tables: &PortTables) -> Vec<u8> {
    tables.row.unwrap().iter().map(|vl| vl.get()).collect()
}

fn wanted_turns(tables: &PortTables) -> Vec<(u8, u8)> {
    let blocks = [tables.blocks[0].unwrap(), tables.blocks[2].unwrap()];
    let turns = blocks.into_iter().flat_map(|block| block.turns.into_iter().take(8));
    turns.map(|(vl, weight)| (vl.get(), weight)).collect()
}

#[test]
fn opensm_writes_the_tables_that_qos_computes() {
    let _heavy = HeavyLock::acquire().unwrap();
    for lines in SETTINGS {
        let lab = PeerLab::new().unwrap();
        let _ibsim = lab.ibsim(NET).unwrap();
        let options = OpenSmOptions {
            lines: [&["qos TRUE"], lines].concat().into_iter().map(str::to_owned).collect(),
            once: true,
            ..OpenSmOptions::default()
        };
        lab.opensm(MASTER, &options).unwrap().finish(LIMIT).unwrap();
        let settings = settings(lines);
        let (host, switch) = (tables(&settings, Target::Ca), tables(&settings, Target::SwitchExternal));
        let lid = lid_of(&lab, "H3").to_string();
        assert_eq!(
            rows(&smpquery(&lab, &["sl2vl", &lid, "0"])),
            [wanted_row(&host)],
            "{lines:?}"
        );
        assert_eq!(
            turns(&smpquery(&lab, &["vlarb", &lid, "1"])),
            wanted_turns(&host),
            "{lines:?}"
        );
        let lid = lid_of(&lab, "S2").to_string();
        for egress in ["1", "2", "3"] {
            let found = rows(&smpquery(&lab, &["sl2vl", &lid, egress]));
            assert_eq!(found, vec![wanted_row(&switch); 9], "{lines:?} to {egress}");
            let found = turns(&smpquery(&lab, &["vlarb", &lid, egress]));
            assert_eq!(found, wanted_turns(&switch), "{lines:?} at {egress}");
        }
    }
}

const LEVELS: &str = "\
qos-levels
    qos-level
        name: DEFAULT
        sl: 2
    end-qos-level
    qos-level
        name: Narrow Band
        use: sl: 9, of course # no
        sl: 5
        mtu-limit: 2
        packet-life: 7
    end-qos-level
    qos-level
        name: Keyed
        sl: 6
        pkey: 0x100-0x200,0x7fff
    end-qos-level
    qos-level
        name: Dropped
        sl: 1
    end-qos-level
end-qos-levels
";

/// Policy files. `{H1}` and its like stand for port GUIDs.
const POLICIES: [&str; 14] = [
    "LEVELS
    port-groups
        port-group
            name: Two Hosts
            port-name: H2/P1, \"H3/p1\"
        end-port-group
        port-group
            name: four
            port-guid: {H4}
        end-port-group
    end-port-groups
    qos-match-rules
        qos-match-rule
            source: twohosts
            destination: FOUR
            qos-level-name: narrowBand
        end-qos-match-rule
        qos-match-rule
            qos-class: 7-9,11
            qos-level-name: Keyed
        end-qos-match-rule
        qos-match-rule
            service-id: 0x10000-0x10010
            pkey: 0x7fff
            qos-level-name: Dropped
        end-qos-match-rule
    end-qos-match-rules
    ",
    "LEVELS
    port-groups
        port-group
            name: All
            node-type: ca
        end-port-group
        port-group
            name: Mine
            node-type: SELF, Switch
        end-port-group
    end-port-groups
    qos-match-rules
        qos-match-rule
            source: Mine
            qos-level-name: Keyed
        end-qos-match-rule
        qos-match-rule
            destination: Mine, All
            qos-class: 8
            qos-level-name: narrowband
        end-qos-match-rule
    end-qos-match-rules
    qos-ulps
        sdp: 7
        any, target-port-guid {H3}: 3
    end-qos-ulps
    ",
    "qos-ulps
        DEFAULT: 4
        Sdp, port-num 5-16: 5
        sdp: 6
        rds: 7
        any, service-id 0x6234, 0x7000-0x7010: 8
        any, source-target-port-guid {H2}, {H3}: 9
        iser, port-num 900: 10
    end-qos-ulps
    ",
    "qos-ulps\ndefault: 0\nipoib: 6\nany, source-port-guid {H2}: 3\nsrp, target-port-guid {H1}: 2\nend-qos-ulps\n",
    "qos-setup
        vlarb-tables
            vlarb-scope
                group: Nobody
                vlarb-high: 0:255,1:127
                vl-high-limit: 10
            end-vlarb-scope
        end-vlarb-tables
    end-qos-setup
    qos-ulps
        default: 0
    end-qos-ulps
    ",
    "qos-levels\nqos-level\nname: DEFAULT\nsl: 4 mtu-limit: 1\nend-qos-level\nend-qos-levels\n",
    // What follows is refused.
    "qos-ulps\nend-qos-ulps\n",
    "qos-levels\nqos-level\nname: A\nsl: 4\nend-qos-level\nend-qos-levels\n",
    "qos-levels\nqos-level\nname: DEFAULT sl: 4\nend-qos-level\nend-qos-levels\n",
    "qos-levels\nqos-level\nname: DEFAULT\nSL: 4\nend-qos-level\nend-qos-levels\n",
    "qos-ulps\ndefault: 3\nmpi: 2\nend-qos-ulps\n",
    "qos-ulps\ndefault: 16\nend-qos-ulps\n",
    "LEVELS\nqos-match-rules\nqos-match-rule\nsource: Nobody\nqos-level-name: keyed\nend-qos-match-rule\n\
     end-qos-match-rules\n",
    "LEVELS\nqos-match-rules\nqos-match-rule\nqos-level-name: narow\nend-qos-match-rule\nend-qos-match-rules\n",
];

/// The policy that names a group of qos-setup that is not there: OpenSM does not look at that section.
const ONLY_OPENSM: usize = 4;

/// Queries: source and destination, and more options of `saquery`.
const QUERIES: [(&str, &str, &[&str]); 13] = [
    ("H2", "H4", &[]),
    ("H4", "H2", &[]),
    ("H2", "H3", &[]),
    ("H1", "H4", &[]),
    ("H4", "H1", &[]),
    ("H4", "H3", &["--qos_class", "8"]),
    ("H4", "H3", &["--qos_class", "12"]),
    ("H4", "H3", &["--service_id", "0x10005", "--pkey", "0xffff"]),
    ("H4", "H3", &["--service_id", "0x10008"]),
    ("H4", "H3", &["--service_id", "0x7005"]),
    ("H4", "H3", &["--pkey", "0x7fff"]),
    ("H4", "H3", &["--sl", "3"]),
    ("H4", "H3", &["--service_id", "0x1060384", "--sl", "2"]),
];

/// SL, P_Key and MTU code of a path; `None`: no path.
type Answer = Option<(u8, u16, u8)>;

/// Reads the answer of `saquery`.
fn answer(lab: &PeerLab, (source, destination, more): (&str, &str, &[&str])) -> Answer {
    let lids = [source, destination].map(|name| lid_of(lab, name).to_string());
    let words = [&["PR", "--slid", &lids[0], "--dlid", &lids[1]], more].concat();
    let text = lab.run(CLIENT, "saquery", &words).unwrap().stdout;
    let number = |name: &str| {
        let value = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(name)?.trim_matches('.').strip_prefix("0x"));
        value.and_then(|value| u16::from_str_radix(value, 16).ok())
    };
    // The upper bits of the MTU are its selector.
    let byte = |name| number(name).map(|value| (value & 0x3F) as u8);
    Some((byte("sl.")?, number("pkey.")?, byte("mtu.")?))
}

/// The hosts as room `qos` sees them.
struct Seen {
    hosts: BTreeMap<String, Guid>,
    fabric: selvedge_fabric::Fabric,
}

impl Seen {
    /// Takes the hosts' GUIDs from `ibnetdiscover`, and makes a fabric of them.
    fn take(lab: &PeerLab) -> Self {
        let found = Discovery::parse(&lab.output(CLIENT, "ibnetdiscover", &[]).unwrap()).unwrap();
        let mut builder = FabricBuilder::new();
        let one = PortNum::new(1).unwrap();
        let switch = builder.add(Node::new(NodeKind::Switch, Guid(1), 8, "S"));
        let mut hosts = BTreeMap::new();
        let named = found.nodes.iter().filter(|(_, node)| node.name.starts_with('H'));
        for ((guid, node), at) in named.zip(1..) {
            let port = node.ports[&1].guid;
            let mut host = Node::new(NodeKind::Ca, *guid, 1, node.name.clone());
            host.port_mut(one).unwrap().guid = port;
            let host = builder.add(host);
            builder.link((switch, PortNum::new(at).unwrap()), (host, one)).unwrap();
            hosts.insert(node.name.clone(), port);
        }
        Self {
            hosts,
            fabric: builder.finish().unwrap(),
        }
    }

    /// Returns the answer that room `qos` gives to a query. `plain` is the MTU code of paths without a limit.
    fn answer(
        &self,
        policy: Option<&Resolved>,
        valid: SlSet,
        plain: u8,
        (source, destination, more): (&str, &str, &[&str]),
    ) -> Answer {
        let end = |name: &str| End {
            guid: self.hosts[name],
            kind: NodeKind::Ca,
        };
        let option = |name: &str| {
            let value = more.chunks(2).find(|pair| pair[0] == name)?[1];
            let hex = value.strip_prefix("0x");
            hex.map_or_else(|| value.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
        };
        let pkey = option("--pkey").map(|pkey| PKey(pkey as u16));
        let asked = Asked {
            source: end(source),
            destination: end(destination),
            service_id: option("--service_id"),
            class: option("--qos_class").map(|class| class as u16),
            pkey,
        };
        let (level, sl) = match policy.map(|policy| policy.policy.level(policy.level_of(&asked))) {
            Some((level, sl)) => (level, Some(sl)),
            None => (None, None),
        };
        let full = PKey::DEFAULT_FULL;
        let of_level = pkey_of_path(level, pkey, |pkey| pkey.matches(full)).ok()?;
        let sl = sl_of_path(&SlAsked {
            requested: option("--sl").and_then(|sl| Sl::new(sl as u8)),
            level: sl,
            partition: Some(Sl::default()),
            valid,
            engine: None,
        });
        let mtu = Limits::of(level).mtu(Mtu::from_code(plain).unwrap());
        let pkey = of_level.or(pkey).unwrap_or(full);
        Some((sl.ok()?.get(), pkey.0, mtu.code()))
    }
}

#[test]
fn opensm_answers_with_the_service_levels_that_qos_gives() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _ibsim = lab.ibsim(NET).unwrap();
    // SL 1 has no lane at hosts.
    let lines = ["qos TRUE", "qos_ca_sl2vl 0,15,2,3,4,5,6,7,8,9,10,11,12,13,14,15"];
    let settings = settings(&lines[1..]);
    let valid = SlSet::along(
        [Target::Ca, Target::SwitchExternal]
            .map(|target| settings.sl2vl(target))
            .iter(),
    );
    assert!(!valid.contains(Sl::new(1).unwrap()), "{:?}", Vl::MANAGEMENT);
    let seen = Seen::take(&lab);
    let file = lab.folder().join("policy.conf");
    let mut plain = None;
    for (number, text) in POLICIES.into_iter().enumerate() {
        let mut text = text.replace("LEVELS", LEVELS);
        for (name, guid) in &seen.hosts {
            text = text.replace(&format!("{{{name}}}"), &guid.to_string());
        }
        fs::write(&file, &text).unwrap();
        let options = OpenSmOptions {
            lines: lines
                .iter()
                .map(|line| (*line).to_owned())
                .chain([format!("qos_policy_file {}", file.display())])
                .collect(),
            ..OpenSmOptions::default()
        };
        let mut opensm = lab.opensm(MASTER, &options).unwrap();
        opensm.wait_up(1, LIMIT).unwrap();
        let refused = ["ERR AC03", "ERR AC04"]
            .iter()
            .any(|error| opensm.log().contains(error));
        let policy = parse(&text).map(std::sync::Arc::new);
        assert_eq!(
            policy.is_err() && number != ONLY_OPENSM,
            refused,
            "policy {number}: {policy:?}\n{text}"
        );
        let resolved = policy.ok().map(|policy| {
            let manager = seen.fabric.find_port(seen.hosts[MASTER]);
            let (resolved, missing) = resolved(&policy, &seen.fabric, &Partitions::default(), manager);
            // No partition has the keys of level Keyed but one; no rule and no group lacks anything.
            assert_eq!(missing, [], "policy {number}");
            resolved
        });
        let plain = *plain.get_or_insert_with(|| answer(&lab, ("H1", "H2", &[])).unwrap().2);
        let queries = QUERIES.into_iter().filter(|_| number != ONLY_OPENSM);
        for query in queries {
            let want = seen.answer(resolved.as_ref(), valid, plain, query);
            assert_eq!(answer(&lab, query), want, "policy {number}, {query:?}");
        }
        opensm.stop(LIMIT).unwrap();
    }
}
