//! What the binary does on unsuitable fabrics and ports: it reports what is wrong, where, and what to do, with the exit
//! code of docs/contracts.md, and changes nothing.

use crate::support;
use std::fs;

use crate::support::{Fabric, LIMIT, PAIRS, assert_coded, check_up, emulate, port, run_once};
use selvedge_conformance::{HeavyLock, OpenSmOptions, PeerLab};

/// Exit code for bad input.
const USAGE: i32 = 2;
/// Exit code for no access to a fabric.
const NO_FABRIC: i32 = 3;
/// Exit code for a refusal that changed nothing.
const REFUSED: i32 = 4;

/// A host without a cable, beside an intact fabric.
const LONELY: &str = "switchguid=0x10\nSwitch\t4 \"S\"\n[1]\t\"A\"[1]\n[2]\t\"B\"[1]\n\n\
                      caguid=0x20\nCa\t1 \"A\"\n[1]\t\"S\"[1]\n\ncaguid=0x30\nCa\t1 \"B\"\n[1]\t\"S\"[2]\n\n\
                      caguid=0x40\nCa\t1 \"C\"\n";

/// Two fabrics in one file.
const ISLANDS: &str = "switchguid=0x10\nSwitch\t4 \"S\"\n[1]\t\"A\"[1]\n[2]\t\"B\"[1]\n\n\
                       switchguid=0x11\nSwitch\t4 \"T\"\n[1]\t\"C\"[1]\n[2]\t\"D\"[1]\n\n\
                       caguid=0x20\nCa\t1 \"A\"\n[1]\t\"S\"[1]\n\ncaguid=0x30\nCa\t1 \"B\"\n[1]\t\"S\"[2]\n\n\
                       caguid=0x40\nCa\t1 \"C\"\n[1]\t\"T\"[1]\n\ncaguid=0x50\nCa\t1 \"D\"\n[1]\t\"T\"[2]\n";

/// Switches alone.
const NO_HOSTS: &str = "switchguid=0x10\nSwitch\t4 \"S\"\n[1]\t\"T\"[1]\n[2]\t\"T\"[2]\n\n\
                        switchguid=0x11\nSwitch\t4 \"T\"\n[1]\t\"S\"[1]\n[2]\t\"S\"[2]\n";

/// Checks that every plane of this file comes up on ibsim, each with a manager of its own.
fn comes_up(text: &str) {
    let lab = PeerLab::new().unwrap();
    let _ibsim = lab.ibsim(text).unwrap();
    let net = selvedge_conformance::parse::Net::parse(text).unwrap();
    for plane in net.planes() {
        let plan = run_once(&lab, lab.base(), &plane.seat, &[]);
        check_up(&lab, &plane, &plan, PAIRS);
    }
}

#[test]
fn two_components() {
    comes_up(ISLANDS);
}

#[test]
fn no_host_at_all() {
    comes_up(NO_HOSTS);
}

#[test]
fn a_single_switch() {
    let lab = PeerLab::new().unwrap();
    comes_up(&lab.net_file("generate", "single:ports=8,hosts=8").unwrap());
}

#[test]
fn an_sm_port_that_is_down() {
    let lab = PeerLab::new().unwrap();
    let _ibsim = lab.ibsim(LONELY).unwrap();
    let relay = lab.relay().unwrap();
    let said = lab
        .selvedge(&["run", "--port", &port(relay.base(), "C"), "--once"])
        .unwrap();
    assert_coded(&said, NO_FABRIC, "SLV-");
    assert_eq!(relay.sent().subnet_sets(), 0);
    // The others do not miss it.
    run_once(&lab, lab.base(), "A", &[]);
}

#[test]
fn nobody_serves_there() {
    let lab = PeerLab::new().unwrap();
    let said = lab
        .selvedge(&["run", "--port", &port(lab.base(), "A"), "--once"])
        .unwrap();
    assert_coded(&said, NO_FABRIC, "SLV-PORT-0001");
}

#[test]
fn a_node_that_the_simulator_does_not_have() {
    let lab = PeerLab::new().unwrap();
    let _ibsim = lab.ibsim(LONELY).unwrap();
    let said = lab
        .selvedge(&["run", "--port", &port(lab.base(), "nobody"), "--once"])
        .unwrap();
    assert_coded(&said, NO_FABRIC, "SLV-PORT-0001");
}

/// OpenSM leaves its M_Key in the ports: without this key the manager is refused, with it the fabric comes up.
#[test]
fn an_m_key_that_forbids_sets() {
    let _heavy = HeavyLock::acquire().unwrap();
    let lab = PeerLab::new().unwrap();
    let spec = "mport:m=4,n=2";
    let _emulator = emulate(&lab, spec);
    let plane = Fabric::new(&lab, spec).planes.remove(0);
    let lines = [
        "m_key 0x0000000000005e1f",
        "m_key_protection_level 1",
        "m_key_lease_period 0",
    ];
    let lines = lines.map(str::to_owned).to_vec();
    let options = OpenSmOptions {
        once: true,
        lines,
        ..OpenSmOptions::default()
    };
    lab.opensm("H-0", &options).unwrap().finish(LIMIT).unwrap();

    let relay = lab.relay().unwrap();
    let said = lab
        .selvedge(&["run", "--port", &port(relay.base(), "H-3"), "--once"])
        .unwrap();
    assert_coded(&said, REFUSED, "M_Key");
    assert!(
        said.stderr.contains("give the key (m_key)"),
        "no advice in:\n{}",
        said.stderr
    );
    let sent = relay.sent();
    assert_eq!(sent.subnet_sets(), 0, "{sent}");

    let plan = run_once(&lab, lab.base(), "H-3", &["--m-key", "0x5e1f"]);
    let survey = selvedge_conformance::Survey::take(&lab, "H-3").unwrap();
    support::assert_none("survey", &survey.differences(&plane.net, &plan));
}

/// Files that contradict themselves: each is refused before anything starts, with the file's name and the line.
#[test]
fn files_that_contradict_themselves() {
    let lab = PeerLab::new().unwrap();
    let file = lab.folder().join("bad.net");
    let check = |text: &str, code: &str| {
        fs::write(&file, text).unwrap();
        let said = lab
            .selvedge(&["run", "--fabric", file.to_str().unwrap(), "--once"])
            .unwrap();
        assert_coded(&said, USAGE, code);
        assert!(said.stderr.contains("bad.net"), "{}", said.stderr);
    };
    check("", "SLV-TOPOLOGY-");
    check(&LONELY[..LONELY.len() / 2], "SLV-TOPOLOGY-");
    check(&LONELY.replace("\"S\"[2]", "\"S\"[1]"), "SLV-TOPOLOGY-");
    check(&LONELY.replace("0x40", "0x30"), "SLV-TOPOLOGY-");
}

#[test]
fn more_lids_than_there_are() {
    let lab = PeerLab::new().unwrap();
    let spec = "random:switches=128,degree=4,hosts=4,seed=1";
    let said = lab
        .selvedge(&["run", "--fabric", spec, "--once", "--lmc", "7"])
        .unwrap();
    assert_coded(&said, REFUSED, "SLV-SM-");
}

#[test]
fn a_switch_with_254_ports() {
    let lab = PeerLab::new().unwrap();
    let said = lab
        .selvedge(&["run", "--fabric", "single:ports=254,hosts=254", "--once", "--json"])
        .unwrap();
    said.success().unwrap();
}

#[test]
fn a_configuration_with_an_unknown_key() {
    let lab = PeerLab::new().unwrap();
    let file = lab.folder().join("selvedge.toml");
    fs::write(&file, "[routing]\nengin = [\"updn\"]\n").unwrap();
    let arguments = [
        "run",
        "--fabric",
        "single:ports=4,hosts=4",
        "--once",
        "--config",
        file.to_str().unwrap(),
    ];
    let said = lab.selvedge(&arguments).unwrap();
    assert_coded(&said, USAGE, "SLV-CONFIG-");
    assert!(
        said.stderr.contains("did you mean 'routing.engines'"),
        "{}",
        said.stderr
    );
}
