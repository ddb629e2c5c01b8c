//! The parsers on recorded outputs of real peers, and on outputs that are cut or strange.

use selvedge_conformance::parse::{Discovery, Fields, Hop, SmInfo, Table, hops, link_lines, tables};
use selvedge_types::{Guid, NodeKind};

const S1: Guid = Guid(0x20_0000);
const S2: Guid = Guid(0x20_0001);

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../recorded/", $name, ".txt"))
    };
}

#[test]
fn ibnetdiscover() {
    let found = Discovery::parse(recorded!("ibnetdiscover")).unwrap();
    assert_eq!((found.switches(), found.hosts(), found.links()), (2, 4, 5));
    assert_eq!(found.host_lids(), [1, 4, 5, 6]);
    assert_eq!(found.switch_lids(), [2, 3]);
    let s1 = &found.nodes[&S1];
    assert_eq!(
        (s1.kind, s1.name.as_str(), s1.port_count, s1.lid),
        (NodeKind::Switch, "S1", 8, Some(2))
    );
    assert_eq!((s1.ports[&3].peer, s1.ports[&3].peer_port), (S2, 3));
    let h4 = &found.nodes[&Guid(0x10_0006)];
    assert_eq!(
        (h4.ports[&1].peer, h4.ports[&1].peer_port, h4.ports[&1].lid),
        (S2, 2, 6)
    );
}

#[test]
fn iblinkinfo() {
    let lines = link_lines(recorded!("iblinkinfo")).unwrap();
    assert_eq!(lines.len(), 20);
    assert_eq!(lines.iter().filter(|line| line.is_active()).count(), 10);
    let h4 = &lines[0];
    assert_eq!(
        (h4.name.as_str(), h4.lid, h4.port, h4.guid),
        ("H4", 6, 1, Guid(0x10_0007))
    );
    let peer = h4.peer.as_ref().unwrap();
    assert_eq!((peer.guid, peer.port, peer.name.as_str()), (S2, 2, "S2"));
    let down = lines.iter().find(|line| !line.is_active()).unwrap();
    assert_eq!(
        (down.state.as_str(), down.physical.as_str(), &down.peer),
        ("Down", "Polling", &None)
    );
}

#[test]
fn ibroute_and_dump_fts_agree() {
    let one = tables(recorded!("ibroute")).unwrap();
    let all = tables(recorded!("dump_fts")).unwrap();
    let want = Table {
        guid: S1,
        name: "S1".to_owned(),
        top: 6,
        exits: [(1, 1), (2, 0), (3, 3), (4, 2), (5, 3), (6, 3)].into(),
    };
    assert_eq!(one.as_slice(), std::slice::from_ref(&want));
    assert_eq!(all.len(), 2);
    assert!(all.contains(&want));
}

#[test]
fn ibtracert() {
    let hop = |exit, guid, entry| Hop { exit, guid, entry };
    let want = [hop(1, S1, 1), hop(3, S2, 3), hop(2, Guid(0x10_0007), 1)];
    assert_eq!(hops(recorded!("ibtracert")).unwrap(), want);
}

#[test]
fn fields() {
    let port = Fields::parse(recorded!("portinfo"));
    assert_eq!(port.number("Lid").unwrap(), 1);
    assert_eq!(port.number("CapMask").unwrap(), 0x50_C04A);
    assert_eq!(port.text("LinkState").unwrap(), "Active");
    assert!(port.text("NoSuchField").is_err());
    assert!(port.number("LinkState").is_err());
    let counters = Fields::parse(recorded!("perfquery"));
    assert!(counters.number("PortXmitPkts").unwrap() > 0);
}

#[test]
fn sminfo() {
    let info = SmInfo::parse(recorded!("sminfo")).unwrap();
    assert_eq!((info.lid, info.guid, info.priority), (1, Guid(0x10_0001), 0));
    assert_eq!(info.state, "SMINFO_MASTER");
    assert!(SmInfo::parse("sminfo: iberror: failed: query").is_err());
}

#[test]
fn cut_outputs_are_errors() {
    let routes = recorded!("ibroute");
    let cut = routes
        .lines()
        .filter(|line| !line.starts_with("0x0004"))
        .collect::<Vec<_>>()
        .join("\n");
    assert!(tables(&cut).is_err());
    assert!(tables(&routes.replace("6 valid lids dumped", "")).is_err());
    assert!(tables("0x0001 001 : (x)").is_err());
    let path = recorded!("ibtracert");
    assert!(hops(path.split_once("To ").unwrap().0).is_err());
    assert!(hops("").is_err());
    assert!(Discovery::parse("[1]\t\"S-1\"[1]").is_err());
    assert!(Discovery::parse("Switch\t8 \"S-xyz\"\t# \"a\" base port 0 lid 3 lmc 0").is_err());
    assert!(link_lines("rubbish ==> rubbish").is_err());
}
