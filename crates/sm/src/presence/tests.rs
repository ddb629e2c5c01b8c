//! Nodes and links are missing until they return or are forgotten.

use std::time::Duration;

use selvedge_health::{How, KnownNode};
use selvedge_planner::{Found, PortReason};
use selvedge_types::{NodeKind, PortNum, PortState};

use super::*;
use crate::made::{FAR, FIRST, SECOND, guid, info, inventory, row};

/// What a sweep finds of the fabric of [`row`].
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// The whole row: near host, two switches, far host.
    All,
    /// The far host is gone, and its link is down.
    NoHost,
    /// The second switch is gone, and the far host with it.
    NoSwitch,
    /// The agent of the second switch does not answer; its link is up.
    Hung,
    /// The far host's agent does not answer, and the host is kept in the fabric.
    HostHung,
    /// NodeDescription of the far host was lost.
    NoName,
    /// The far host has another name.
    Renamed,
}

fn found(seen: Seen) -> Vec<Found> {
    let mut found = row();
    for (at, node) in found.iter_mut().enumerate() {
        node.description = format!("N-{at}");
    }
    let down = |port: &mut selvedge_planner::FoundPort, why: Option<PortReason>, state: PortState| {
        (port.peer, port.trouble, port.info) = (None, why, Some(info(state)));
    };
    match seen {
        Seen::All => {}
        Seen::NoHost => {
            found.truncate(FAR);
            down(&mut found[SECOND].ports[2], None, PortState::Down);
        }
        Seen::NoSwitch => {
            found.truncate(SECOND);
            down(&mut found[FIRST].ports[2], None, PortState::Down);
        }
        Seen::Hung => {
            found.truncate(SECOND);
            down(
                &mut found[FIRST].ports[2],
                Some(PortReason::PeerSilent),
                PortState::Active,
            );
        }
        Seen::HostHung => found[SECOND].ports[2].trouble = Some(PortReason::PeerSilent),
        Seen::NoName => found[FAR].description = String::new(),
        Seen::Renamed => found[FAR].description = "other".to_owned(),
    }
    found
}

/// A presence, and the lists that it wants stored.
#[derive(Default)]
struct Watched {
    presence: Presence,
    second: u64,
    stored: Vec<Arc<Known>>,
}

impl Watched {
    fn hand(&mut self, input: In<'_>) {
        self.second += 1;
        let now = Time::ZERO + Duration::from_secs(self.second);
        let mut effects = Vec::new();
        self.presence.handle(&Ctx { now }, input, &mut effects);
        self.stored
            .extend(effects.into_iter().map(|Effect::Remember(known)| known));
    }

    fn sees(&mut self, seen: Seen) {
        self.hand(In::Swept(&inventory(found(seen))));
    }

    /// Returns the nodes and links that are gone or silent, in words.
    fn absent(&self) -> Vec<String> {
        let absent = self.presence.absent();
        let nodes = absent.nodes.iter().map(|of| {
            let since = of.since.unix_ms(|time| time.0 / 1_000_000);
            format!("{} since {since}: {}", of.node, of.how)
        });
        let links = absent
            .links
            .iter()
            .map(|of| format!("link {} - {}", of.ends.0, of.ends.1));
        let silent = absent.silent.iter().map(|(node, _)| format!("{node} silent"));
        nodes.chain(links).chain(silent).collect()
    }
}

#[test]
fn what_is_gone_stays_listed_until_it_returns() {
    let check = |seen: &[Seen], want: &[&str]| {
        let mut watched = Watched::default();
        for &seen in seen {
            watched.sees(seen);
        }
        assert_eq!(watched.absent(), want, "{seen:?}");
    };
    use Seen::{All, HostHung, Hung, NoHost, NoName, NoSwitch, Renamed};
    // A node that was never there is not missing.
    check(&[NoHost], &[]);
    check(&[All, NoHost], &["host \"N-3\" since 2000: no link leads there"]);
    // It is missing since the first sweep without it, however many follow.
    check(
        &[All, NoHost, NoHost],
        &["host \"N-3\" since 2000: no link leads there"],
    );
    check(&[All, NoHost, All], &[]);
    let gone = "since 2000: no link leads there";
    let (switch, host) = (format!("switch \"N-2\" {gone}"), format!("host \"N-3\" {gone}"));
    check(&[All, NoSwitch], &[&*switch, &*host]);
    // A switch that returns brings the host back only if the host is there.
    check(&[All, NoSwitch, NoHost], &[&*host]);
    check(
        &[All, Hung],
        &[
            "switch \"N-2\" since 2000: the link at \"N-1\"[2] is up",
            "host \"N-3\" since 2000: it is behind switch \"N-2\", which does not answer",
        ],
    );
    check(&[All, HostHung], &["host \"N-3\" silent"]);
    // A lost answer leaves the name as it was; a new one replaces it.
    check(
        &[All, NoName, NoHost],
        &["host \"N-3\" since 3000: no link leads there"],
    );
    check(
        &[All, Renamed, NoHost],
        &["host \"other\" since 3000: no link leads there"],
    );
}

#[test]
fn it_survives_a_restart_and_is_stored_only_when_it_changes() {
    let mut first = Watched::default();
    for seen in [Seen::All, Seen::All, Seen::NoHost, Seen::NoHost] {
        first.sees(seen);
    }
    assert_eq!(first.stored.len(), 2, "found, and lost");
    let mut second = Watched {
        presence: Presence::new(Arc::clone(&first.stored[1])),
        ..Watched::default()
    };
    let before = ["host \"N-3\" since 3000: it was gone when the manager started"];
    assert_eq!(second.absent(), before);
    second.sees(Seen::NoHost);
    assert_eq!(second.absent(), ["host \"N-3\" since 3000: no link leads there"]);
    assert_eq!(second.stored.len(), 0);
    // A node that went while no manager ran is missing since the first sweep.
    second.sees(Seen::NoSwitch);
    assert_eq!(second.absent().len(), 2);
    second.sees(Seen::All);
    assert!(second.absent().is_empty());
}

#[test]
fn another_fabric_begins_a_new_list() {
    let foreign = KnownNode {
        kind: NodeKind::Ca,
        name: "far away".to_owned(),
        gone: None,
    };
    let nodes = [0x7001, 0x7002].map(|guid| (Guid(guid), foreign.clone()));
    let known = Known {
        nodes: nodes.into(),
        ..Known::default()
    };
    let mut watched = Watched {
        presence: Presence::new(Arc::new(known)),
        ..Watched::default()
    };
    watched.sees(Seen::All);
    assert!(watched.absent().is_empty());
    assert!(!watched.stored[0].nodes.contains_key(&Guid(0x7001)));
}

#[test]
fn what_is_there_is_never_forgotten() {
    let mut watched = Watched::default();
    watched.sees(Seen::All);
    watched.sees(Seen::NoHost);
    let all: BTreeSet<Guid> = (0..4).map(guid).collect();
    watched.hand(In::Forget(all, BTreeSet::new()));
    assert!(watched.absent().is_empty());
    let known = watched.stored.last().unwrap();
    assert_eq!(known.nodes.len(), 3, "three nodes are there");
    assert_eq!(known.links.len(), 2);
    // A forgotten node is known again when it is found.
    watched.sees(Seen::All);
    watched.sees(Seen::NoHost);
    assert_eq!(watched.absent().len(), 1);
}

#[test]
fn a_repair_leaves_out_what_links_that_are_up_do_not_reach() {
    let mut watched = Watched::default();
    watched.sees(Seen::All);
    // The nodes are still in the fabric of a repair: only their link is down.
    let mut inventory = inventory(found(Seen::All));
    let fabric = Arc::make_mut(&mut inventory.fabric);
    let node = fabric.find(guid(FIRST)).unwrap();
    let at = selvedge_fabric::PortRef {
        node,
        port: PortNum::new(2).unwrap(),
    };
    let (mut link, settings) = (fabric.port(at).unwrap().link, fabric.port(at).unwrap().settings);
    link.state = PortState::Down;
    fabric.set_port(at, link, settings);
    watched.hand(In::Repaired(Arc::new(inventory)));
    assert!(
        watched.presence.is_behind(),
        "its check does not wait for the comparison"
    );
    assert!(watched.presence.absent().nodes.is_empty());
    watched.hand(In::Idle);
    assert!(!watched.presence.is_behind());
    let hows: Vec<&How> = watched.presence.absent().nodes.iter().map(|of| &of.how).collect();
    assert_eq!(hows, [&How::NoLink, &How::NoLink], "{:?}", watched.absent());
}

#[test]
fn a_link_is_missing_by_both_ends() {
    let mut known = Known::default();
    let mut watched = Watched::default();
    watched.sees(Seen::All);
    known.clone_from(&watched.stored[0]);
    // A second link between the switches was known.
    let port = |n| PortNum::new(n).unwrap();
    let link = ((guid(FIRST), port(3)), (guid(SECOND), port(3)));
    known.links.insert(link, None);
    let mut watched = Watched {
        presence: Presence::new(Arc::new(known)),
        ..Watched::default()
    };
    watched.sees(Seen::All);
    assert_eq!(watched.absent(), ["link \"N-1\"[3] - \"N-2\"[3]"]);
    watched.hand(In::Forget(BTreeSet::new(), BTreeSet::from([link])));
    assert!(watched.absent().is_empty());
}

#[test]
fn nothing_is_claimed_while_the_own_port_is_down() {
    let mut watched = Watched::default();
    watched.sees(Seen::All);
    watched.hand(In::CutOff("port 1 is DOWN".to_owned()));
    assert!(watched.absent().is_empty());
    assert_eq!(
        watched.presence.own_port_down().map(|why| &**why),
        Some("port 1 is DOWN")
    );
    watched.sees(Seen::All);
    assert_eq!(watched.presence.own_port_down(), None);
}
