//! Options of an OpenSM configuration file take effect in the fabric: OpenSM's own tools read the values back.

use std::collections::BTreeMap;

use crate::support::{Fabric, emulate, lid_of, port};
use selvedge_conformance::parse::Fields;
use selvedge_conformance::{HeavyLock, PeerLab, Survey};
use selvedge_types::Guid;

const SPEC: &str = "mport:m=4,n=2";
const MASTER: &str = "H-0";
const HOST: &str = "H-3";

/// Every option with a value that a port or a switch shows. Each has a value other than OpenSM's default.
const CONF: &str = "m_key 0x5e1f\nm_key_lease_period 61\nm_key_protection_level 1\n\
    subnet_prefix 0xfe80000000000abc\nlmc 1\nsm_sl 1\npacket_life_time 0x11\nvl_stall_count 6\n\
    head_of_queue_lifetime 0x0e\nleaf_head_of_queue_lifetime 0x0d\nmax_op_vls 2\nsubnet_timeout 17\n\
    local_phy_errors_threshold 7\noverrun_errors_threshold 6\n";

#[test]
fn values_of_a_file_stand_in_ports() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let fabric = Fabric::new(&lab, SPEC);
    let _emulator = emulate(&lab, SPEC);
    let file = lab.folder().join("opensm.conf");
    std::fs::write(&file, CONF).unwrap();
    let at = port(lab.base(), MASTER);
    let run = ["run", "--port", &at, "--once"];
    let file = ["-F", file.to_str().unwrap()];
    lab.selvedge(&[&run[..], &file].concat()).unwrap().success().unwrap();

    let host = own(&lab, HOST, "portinfo", "1");
    let want = |info: &Fields, wanted: &[(&'static str, u64)]| {
        for &(field, value) in wanted {
            assert_eq!(info.number(field).unwrap(), value, "{field}");
        }
    };
    let of_all_ports = [("LocalPhysErr", 7), ("OverrunErr", 6)];
    want(&host, &of_all_ports);
    want(
        &host,
        &[
            ("MkeyLeasePeriod", 61),
            ("ProtectBits", 1),
            ("GidPrefix", 0xFE80_0000_0000_0ABC),
            ("LMC", 1),
            ("SMSL", 1),
            ("SubnetTimeout", 17),
        ],
    );
    assert_eq!(host.text("OperVLs").unwrap(), "VL0-1");
    let (leaf, up, down) = leaf(&fabric);
    want(&own(&lab, &leaf, "switchinfo", ""), &[("LifeTime", 0x11)]);
    for (number, hoq_life) in [(up, 0x0E), (down, 0x0D)] {
        let info = own(&lab, &leaf, "portinfo", &number.to_string());
        want(&info, &of_all_ports);
        want(&info, &[("VLStallCount", 6), ("HoqLife", hoq_life)]);
        assert_eq!(info.text("OperVLs").unwrap(), "VL0-1");
    }
    // A program without the key may set nothing.
    let said = lab.selvedge(&run).unwrap();
    assert!(
        !said.status.success() && said.stderr.contains("give the key (m_key)"),
        "{}",
        said.stderr
    );
}

/// Returns the answer of a node's agent to a request from the same node.
fn own(lab: &PeerLab, node: &str, what: &str, more: &str) -> Fields {
    let words = ["-D", what, "0", more];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    Fields::parse(&lab.output(node, "smpquery", &words).unwrap())
}

/// Returns a switch with hosts, one of its ports that leads to a switch, and one that leads to a host.
fn leaf(fabric: &Fabric) -> (String, u8, u8) {
    let net = &fabric.net;
    let find = |node: Guid, to_switch: bool| {
        let cables = &net.nodes[&node].cables;
        let mut found = cables.iter().filter(|(_, (peer, _))| net.is_switch(*peer) == to_switch);
        found.next().map(|(port, _)| *port)
    };
    let mut switches = net.nodes.keys().filter(|node| net.is_switch(**node));
    let found = switches.find_map(|node| Some((net.nodes[node].id.clone(), find(*node, true)?, find(*node, false)?)));
    found.unwrap()
}

#[test]
fn lids_are_given_anew_only_where_a_file_asks_for_it() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let _emulator = emulate(&lab, SPEC);
    let at = port(lab.base(), MASTER);
    let [first, cache, file] = ["first", "guid2lid", "opensm.conf"].map(|name| lab.folder().join(name));
    let run = |more: &[&str]| {
        let words = [&["run", "--port", &at, "--once"], more].concat();
        lab.selvedge(&words).unwrap().success().unwrap();
        Survey::take(&lab, HOST).unwrap().lids()
    };
    std::fs::write(&file, "reassign_lids FALSE\n").unwrap();
    // LIDs from 256 on, as in a guid2lid file.
    lab.selvedge(&["run", "--fabric", SPEC, "--once", "--lids-out", first.to_str().unwrap()])
        .unwrap()
        .success()
        .unwrap();
    let shifted = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let lid = u16::from_str_radix(words[1].trim_start_matches("0x"), 16).unwrap() + 0x100;
        format!("{} {lid:#06x} {lid:#06x}\n\n", words[0])
    };
    let text = std::fs::read_to_string(&first).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    std::fs::write(&cache, lines.map(shifted).collect::<String>()).unwrap();
    let all = |lids: BTreeMap<Guid, u16>| lids.into_values().collect::<Vec<u16>>();
    assert!(
        all(run(&["--guid2lid", cache.to_str().unwrap()]))
            .iter()
            .all(|lid| *lid > 0x100)
    );
    let file_words = ["-F", file.to_str().unwrap()];
    assert!(all(run(&file_words)).iter().all(|lid| *lid > 0x100), "LIDs in use stay");
    std::fs::write(&file, "reassign_lids TRUE\n").unwrap();
    assert!(
        all(run(&file_words)).iter().all(|lid| *lid <= 0x100),
        "they are given anew"
    );
    assert!(lid_of(&lab, MASTER) <= 0x100);
}

/// The table has every flag that the installed OpenSM prints, and `selvedge run` explains each flag that it lacks.
#[test]
fn every_flag_of_opensm_is_explained() {
    let lab = PeerLab::new().unwrap();
    let help = std::process::Command::new("opensm").arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let mut flags = Vec::new();
    for line in help
        .lines()
        .filter(|line| line.starts_with("--") && !line.starts_with("---"))
    {
        let words = line.split([' ', ',']).filter(|word| !word.is_empty());
        flags.extend(words.take_while(|word| word.starts_with('-')).map(str::to_owned));
    }
    assert!(flags.len() > 100, "{flags:?}");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/opensm-flags.md");
    let page = std::fs::read_to_string(page).unwrap();
    for flag in &flags {
        let words = [format!("`{flag}`"), format!("`{flag} ("), format!("({flag})`")];
        assert!(
            words.iter().any(|word| page.contains(word)),
            "{flag} is not in the table"
        );
        // The second flag ends the command before a manager starts.
        let said = lab.selvedge(&["run", flag, "--no-such-flag"]).unwrap().stderr;
        let is_unknown = said.contains(&format!("argument '{flag}'"));
        assert!(
            !is_unknown && !said.contains("similar argument"),
            "{flag} is not explained: {said}"
        );
        let is_taken = !said.contains("OpenSM's flag");
        let row = page
            .lines()
            .find(|line| words.iter().any(|word| line.contains(word)))
            .unwrap();
        assert!(
            !is_taken || row.contains("| here -"),
            "{flag} is taken, and the table says: {row}\n{said}"
        );
    }
}
