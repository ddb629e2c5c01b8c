//! When blocks are read and written, what is written, and what follows from answers.

use std::sync::Arc;

use selvedge_fabric::{LinkState, PortSettings};
use selvedge_plan::aliases::{GuidSet, aliases_in};
use selvedge_plan::{Op, Phase};
use selvedge_planner::DefaultJudge;
use selvedge_types::PortState;

use super::*;
use crate::made::{FAR, NEAR, guid, inventory, row};

const IN_FORCE: &str = "SLV-SM-0080";
const SILENT: &str = "SLV-SM-0082";
const TAKEN: &str = "SLV-SM-0084";
const ALIAS: Guid = Guid(0xa1);
const OTHER: Guid = Guid(0xa2);

/// Alias GUIDs of a master. Its fabric is the row of `selvedge_planner::made` (host, two switches, host); each host has
/// room for two blocks.
struct Bench {
    aliases: AliasGuids,
    mode: Mode,
    inventory: Inventory,
    /// The requested change, by phase: port, and its aliases.
    change: Vec<Vec<(Guid, Vec<Guid>)>>,
}

impl Bench {
    fn new() -> Self {
        let mut found = row();
        for host in [NEAR, FAR] {
            for info in found[host].ports.iter_mut().filter_map(|port| port.info.as_mut()) {
                info.guid_cap = 16;
            }
        }
        Self {
            aliases: AliasGuids::default(),
            mode: Mode::Manage,
            inventory: inventory(found),
            change: Vec::new(),
        }
    }

    /// Returns a bench in which the host of the manager holds its wanted alias.
    fn named() -> Self {
        let mut bench = Self::new();
        bench.hand(0, In::Changed(vec![shall(NEAR, &[ALIAS])]));
        bench.hand(0, In::Holds((own(NEAR), 0), block(NEAR, &[ALIAS])));
        assert!(bench.hand(0, In::Due).is_empty());
        assert_eq!(bench.aliases.due(), None);
        bench
    }

    /// Hands an input in at this second. Returns codes of events, and words for the other effects.
    fn hand(&mut self, second: u64, input: In<'_>) -> Vec<&'static str> {
        let ctx = Ctx {
            now: at(second),
            mode: self.mode,
            judge: &DefaultJudge::default(),
            inventory: Some(&self.inventory),
        };
        let mut effects = Vec::new();
        self.aliases.handle(&ctx, input, &mut effects);
        let fabric = Arc::clone(&self.inventory.fabric);
        let guids = |set: &GuidSet| {
            let port = fabric.port(set.port).unwrap().guid;
            (port, aliases_in(port, &set.guids).collect())
        };
        let words = effects.into_iter().map(|effect| match effect {
            Effect::Event(event) => event.code(),
            Effect::Read(blocks) => ["", "read 1", "read 2"][blocks.len()],
            Effect::Write(change) => {
                let phases = change.value().phases.iter();
                self.change = phases.map(|sets| sets.iter().map(guids).collect()).collect();
                "write"
            }
        });
        words.collect()
    }

    fn refuses(&mut self, second: u64, block: u8) -> Vec<&'static str> {
        let refuses = In::Refuses {
            what: String::new(),
            place: (own(NEAR), block),
            holds: None,
        };
        self.hand(second, refuses)
    }
}

const fn at(second: u64) -> Time {
    Time(second * 1_000_000_000)
}

/// Returns the own GUID of the port of the host at this position in the row.
fn own(host: usize) -> Guid {
    Guid(guid(host).0 + 1)
}

/// Returns the wanted aliases of a host: these GUIDs, from entry 1 on.
fn shall(host: usize, guids: &[Guid]) -> PortAliases {
    PortAliases {
        port: own(host),
        guids: (1..).zip(guids.iter().copied()).collect(),
    }
}

/// Returns the first GUIDInfo block of a host with these aliases: its own GUID, then the aliases.
fn block(host: usize, guids: &[Guid]) -> GuidBlock {
    shall(host, guids).block(0)
}

#[test]
fn a_block_is_read_before_it_is_written() {
    let mut bench = Bench::new();
    bench.hand(1, In::Changed(vec![shall(NEAR, &[ALIAS])]));
    assert_eq!(bench.aliases.due(), Some(at(1)));
    assert_eq!(bench.hand(1, In::Due), ["read 1"]);
    assert_eq!(bench.aliases.due(), None);
    let place = (own(NEAR), 0);
    bench.hand(2, In::Holds(place, block(NEAR, &[])));
    bench.hand(2, In::BlocksRead);
    assert_eq!(
        (bench.aliases.due(), bench.hand(2, In::Due)),
        (Some(at(2)), vec!["write"])
    );
    assert_eq!(bench.change, [[(own(NEAR), vec![ALIAS])]]);
    bench.hand(3, In::Takes(place, block(NEAR, &[ALIAS])));
    assert_eq!(bench.hand(3, In::Written(1)), [IN_FORCE]);
    assert_eq!(bench.aliases.due(), None);
    // A port with its link down gets its alias when the link comes back.
    bench.hand(4, In::Changed(vec![shall(9, &[OTHER])]));
    assert!(bench.hand(4, In::Due).is_empty());
    assert_eq!(bench.aliases.due(), None);
}

#[test]
fn what_another_port_has_it_gives_up_first() {
    let mut bench = Bench::named();
    bench.hand(1, In::Changed(vec![shall(NEAR, &[]), shall(FAR, &[ALIAS])]));
    bench.hand(1, In::Holds((own(FAR), 0), block(FAR, &[OTHER])));
    assert_eq!(bench.hand(1, In::Due), ["write"]);
    let first = vec![(own(NEAR), vec![]), (own(FAR), vec![])];
    assert_eq!(bench.change, [first, vec![(own(FAR), vec![ALIAS])]]);
    // The first phase fails: the Sets that were not sent are planned again.
    bench.hand(2, In::GaveUp(own(FAR)));
    bench.hand(2, In::WrittenInPart);
    assert_eq!(
        (bench.aliases.due(), bench.hand(2, In::Due)),
        (Some(at(2)), vec!["write"])
    );
    bench.hand(3, In::Unknown((own(NEAR), 0)));
    for port in [own(NEAR), own(FAR)] {
        bench.hand(3, In::GaveUp(port));
    }
    bench.hand(3, In::Interrupted);
    assert_eq!(
        (bench.aliases.due(), bench.hand(3, In::Due)),
        (Some(at(3)), vec!["read 1"])
    );
}

#[test]
fn a_port_that_refuses_is_left_alone_for_longer_if_it_goes_on() {
    let mut bench = Bench::named();
    let left_out = BTreeSet::from([own(NEAR)]);
    assert_eq!(bench.refuses(1, 0), [SILENT]);
    assert!(bench.refuses(2, 1).is_empty(), "another block of it");
    assert_eq!((bench.aliases.left_out(), bench.aliases.due()), (left_out, Some(at(5))));
    assert_eq!(bench.hand(5, In::Due), ["read 2"]);
    assert!(bench.refuses(6, 0).is_empty());
    assert_eq!(bench.aliases.due(), Some(at(66)));
    // The operator's change is tried at once.
    bench.hand(7, In::Changed(vec![shall(NEAR, &[OTHER])]));
    assert_eq!(
        (bench.aliases.due(), bench.hand(7, In::Due)),
        (Some(at(7)), vec!["read 2"])
    );
    bench.hand(8, In::Takes((own(NEAR), 0), block(NEAR, &[OTHER])));
    assert_eq!(bench.refuses(9, 1), [SILENT], "it has taken something since");
    assert_eq!(bench.aliases.due(), Some(at(13)));
}

#[test]
fn a_port_that_may_have_been_off_is_read_again() {
    let mut bench = Bench::named();
    let fabric = Arc::clone(&bench.inventory.fabric);
    let mut set = |at: PortRef| {
        let ops = vec![Op::Port {
            port: at,
            settings: PortSettings::default(),
            state: None,
        }];
        let phases = vec![Phase {
            label: "",
            wait_before_ns: 0,
            ops,
        }];
        let changes = ChangeSet {
            phases,
            ..ChangeSet::default()
        };
        bench.hand(1, In::PlanInForce(&fabric, &changes));
        (bench.aliases.due(), bench.hand(1, In::Due))
    };
    let near = fabric.find_port(own(NEAR)).unwrap();
    let far = fabric.find_port(own(FAR)).unwrap();
    assert_eq!(set(far), (None, vec![]));
    assert_eq!(set(near), (Some(at(1)), vec!["read 1"]));
    // The port of the switch at the other end of its link.
    assert_eq!(set(fabric.peer(near).unwrap()), (Some(at(1)), vec!["read 1"]));
    assert_eq!(
        bench.aliases.book().unread().iter().collect::<Vec<_>>(),
        [&(own(NEAR), 0)]
    );
}

#[test]
fn an_alias_of_a_port_that_is_gone_goes_to_the_port_that_waits_for_it() {
    let mut bench = Bench::named();
    bench.hand(1, In::Changed(vec![shall(FAR, &[ALIAS])]));
    bench.hand(1, In::Holds((own(FAR), 0), block(FAR, &[])));
    assert!(bench.hand(1, In::Due).is_empty(), "the other port holds it");
    let mut fabric = Fabric::clone(&bench.inventory.fabric);
    let near = fabric.find_port(own(NEAR)).unwrap();
    let (link, settings) = fabric.port(near).map(|port| (port.link, port.settings)).unwrap();
    let state = PortState::Down;
    fabric.set_port(near, LinkState { state, ..link }, settings);
    bench.inventory.fabric = Arc::new(fabric);
    let fabric = Arc::clone(&bench.inventory.fabric);
    bench.hand(2, In::PlanInForce(&fabric, &ChangeSet::default()));
    assert_eq!(
        (bench.aliases.due(), bench.hand(2, In::Due)),
        (Some(at(2)), vec!["write"])
    );
    assert_eq!(bench.change, [[(own(FAR), vec![ALIAS])]]);
}

#[test]
fn a_port_that_comes_has_its_own_guid() {
    let mut bench = Bench::new();
    bench.hand(1, In::Changed(vec![shall(NEAR, &[own(FAR)])]));
    bench.hand(1, In::Holds((own(NEAR), 0), block(NEAR, &[own(FAR)])));
    assert_eq!(bench.hand(1, In::Due), [TAKEN, "write"]);
    assert_eq!(bench.change, [[(own(NEAR), vec![])]]);
}

#[test]
fn a_block_that_differs_is_written_again() {
    let mut bench = Bench::named();
    bench.hand(1, In::HoldsOtherwise((own(NEAR), 0), block(NEAR, &[])));
    assert_eq!(bench.aliases.book().held()[&(own(NEAR), 0)], block(NEAR, &[]));
    assert_eq!(
        (bench.aliases.due(), bench.hand(1, In::Due)),
        (Some(at(1)), vec!["write"])
    );
    bench.hand(2, In::AnotherManages);
    assert!(bench.aliases.book().held().is_empty());
    bench.mode = Mode::DryRun;
    bench.hand(3, In::Changed(vec![shall(NEAR, &[ALIAS])]));
    assert_eq!(bench.aliases.due(), None, "aliases are the master's");
}
