//! Tests of the peers among themselves: what Selvedge is compared with must itself work here.

use std::time::Duration;

use selvedge_conformance::parse::{Discovery, Fields, SmInfo, hops, link_lines, tables};
use selvedge_conformance::{MadKind, OpenSmOptions, PeerLab, until};
use selvedge_wire::Method;

const NET: &str = include_str!("../../fabrics/two-switches.net");
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn opensm_brings_up_ibsim_and_every_diagnostic_agrees() {
    let lab = PeerLab::new().unwrap();
    let mut ibsim = lab.ibsim(NET).unwrap();
    let mut opensm = lab.opensm("H1", &OpenSmOptions::default()).unwrap();
    opensm.wait_up(1, LIMIT).unwrap();

    let found = Discovery::parse(&lab.output("H2", "ibnetdiscover", &[]).unwrap()).unwrap();
    assert_eq!((found.switches(), found.hosts(), found.links()), (2, 4, 5));
    let links = link_lines(&lab.output("H2", "iblinkinfo", &["-l"]).unwrap()).unwrap();
    assert_eq!(links.iter().filter(|line| line.is_active()).count(), 10);
    let all = tables(&lab.output("H2", "dump_fts", &[]).unwrap()).unwrap();
    for lid in found.switch_lids() {
        let one = tables(&lab.output("H2", "ibroute", &[&lid.to_string()]).unwrap()).unwrap();
        assert!(all.contains(&one[0]));
    }
    let lids = found.host_lids();
    let (first, last) = (lids[0].to_string(), lids[3].to_string());
    let path = hops(&lab.output("H2", "ibtracert", &[&first, &last]).unwrap()).unwrap();
    assert!((2..=3).contains(&path.len()));
    let port = Fields::parse(&lab.output("H3", "smpquery", &["portinfo", &last, "1"]).unwrap());
    assert_eq!(port.text("LinkState").unwrap(), "Active");
    let counters = Fields::parse(&lab.output("H3", "perfquery", &[&first, "1"]).unwrap());
    assert_eq!(counters.number("PortSelect").unwrap(), 1);
    let sm = SmInfo::parse(&lab.output("H4", "sminfo", &[]).unwrap()).unwrap();
    assert_eq!(sm.state, "SMINFO_MASTER");

    // A cut cable: the fabric falls apart, OpenSM gets a trap and sweeps again.
    ibsim.unlink("S1", 3).unwrap();
    opensm.wait_up(2, LIMIT).unwrap();
    let left = Discovery::parse(&lab.output("H2", "ibnetdiscover", &[]).unwrap()).unwrap();
    assert_eq!((left.switches(), left.hosts()), (1, 2));
    ibsim.relink("S1", 3).unwrap();
    opensm.wait_up(3, LIMIT).unwrap();
    opensm.stop(LIMIT).unwrap();
    until("ibsim to forget OpenSM", LIMIT, String::new, || {
        Ok(ibsim.attached()?.is_empty().then_some(()))
    })
    .unwrap();
}

#[test]
fn opensm_ends_by_itself_after_one_sweep() {
    let lab = PeerLab::new().unwrap();
    let _ibsim = lab.ibsim(NET).unwrap();
    let options = OpenSmOptions {
        once: true,
        ..OpenSmOptions::default()
    };
    let opensm = lab.opensm("H1", &options).unwrap();
    opensm.finish(LIMIT).unwrap();
}

#[test]
fn a_peer_that_ends_early_is_an_error_at_once() {
    let lab = PeerLab::new().unwrap();
    let _ibsim = lab.ibsim(NET).unwrap();
    let mut opensm = lab.opensm("H9", &OpenSmOptions::default()).unwrap();
    let error = opensm.wait_up(1, LIMIT).unwrap_err().to_string();
    assert!(error.contains("SLV-LAB-0004"), "{error}");
}

#[test]
fn the_relay_counts_what_each_client_sends() {
    let lab = PeerLab::new().unwrap();
    let _ibsim = lab.ibsim(NET).unwrap();
    let relay = lab.relay().unwrap();
    let mut opensm = lab
        .opensm_through(relay.base(), "H1", &OpenSmOptions::default())
        .unwrap();
    opensm.wait_up(1, LIMIT).unwrap();
    let by_opensm = relay.sent_by(opensm.process().pid());
    // At least: one PortInfo Set for each of 4 hosts and 2 switches, a table block and SwitchInfo for each switch.
    assert!(by_opensm.subnet_sets() >= 10, "{by_opensm}");

    let query = lab
        .spawn(relay.base(), "H2", "smpquery", &["-D", "nodeinfo", "0,1"])
        .unwrap();
    let pid = query.pid();
    query.finish(LIMIT).unwrap().success().unwrap();
    let by_query = relay.sent_by(pid);
    assert_eq!((by_query.total(), by_query.subnet_sets()), (1, 0), "{by_query}");
    let is_get = |kind: &MadKind| kind.method == Method::Get && kind.attribute == 0x11;
    assert_eq!(by_query.count(is_get), 1);
    opensm.stop(LIMIT).unwrap();
}
