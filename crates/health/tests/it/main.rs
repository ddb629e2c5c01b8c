//! The table of roles, states and faults, and the verdict, exit codes and event of each cell.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::sync::Arc;

use selvedge_health::{
    Absent, AbsentLink, AbsentNode, Alarm, Deviation, Duty, End, Facts, ForeignKey, GoneSign, How, News, NodeName,
    NotStored, OutOfService, Peer, PeerTrouble, Place, Refused, Role, Severity, Since, Verdict, Watch, What,
};
use selvedge_sim::Time;
use selvedge_types::{Guid, NodeKind, PhysState, PortNum, PortState};

/// Columns: the task of the process, its role, and its progress.
const COLUMNS: [(&str, Duty, Role, State); 10] = [
    ("master, first plan under way", Duty::Manage, Role::Master, State::New),
    ("master, plan in force", Duty::Manage, Role::Master, State::Planned),
    ("standby", Duty::Manage, Role::Standby, State::Swept),
    ("discovering", Duty::Manage, Role::Discovering, State::New),
    ("disabled", Duty::Manage, Role::NotActive, State::Swept),
    ("dry run, plan made", Duty::DryRun, Role::NotActive, State::Planned),
    ("dry run, first sweep", Duty::DryRun, Role::NotActive, State::New),
    ("watch, managed fabric", Duty::Watch, Role::NotActive, State::Managed),
    ("watch, unmanaged fabric", Duty::Watch, Role::NotActive, State::Swept),
    ("watch, first sweep", Duty::Watch, Role::NotActive, State::New),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No sweep has come to an end.
    New,
    /// A sweep has come to an end; no switch forwards.
    Swept,
    /// A sweep has come to an end; switches forward.
    Managed,
    /// A sweep has come to an end, switches forward, and there is a plan.
    Planned,
}

type Row = (Fault, Option<(&'static str, Severity)>, &'static str, &'static str);

/// Rows: a fault, the code and severity of its condition, the event that clears it, and a cell for each column. A cell
/// is a verdict: Starting, Healthy, Degraded, Failed, Ready (standby), Watching, Unmanaged; with a `!` if the condition
/// of the row is reported there. A disabled manager has a condition of its own.
#[rustfmt::skip]
const TABLE: [Row; 33] = [
    //                                                     master    standby disc disabled dry run  watch
    (Fault::None,         None,                        "", "S  H     R       S    F        W  S     W  U  S"),
    (Fault::HostGone,     warns("SLV-HEALTH-0001"),    "the node returns",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::SwitchGone,   warns("SLV-HEALTH-0001"),    "selvedge forget",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::BehindSilent, warns("SLV-HEALTH-0001"),    "the node returns",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::LinkGone,     warns("SLV-HEALTH-0002"),    "the link returns",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::SwitchHung,   warns("SLV-HEALTH-0003"),    "the agent answers",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::HostHung,     warns("SLV-HEALTH-0003"),    "the agent answers",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::Refused,      fails("SLV-HEALTH-0004"),    "a plan is accepted",
                                                           "F! F!    R       F!   F!       F! F!    F! F! F!"),
    (Fault::RefusedKept,  warns("SLV-HEALTH-0004"),    "a plan is accepted",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::MKey,         fails("SLV-HEALTH-0005"),    "the manager's M_Key",
                                                           "F! F!    R       F!   F!       F! F!    F! F! F!"),
    (Fault::MKeyNeverGiven, warns("SLV-HEALTH-0005"),  "the manager's M_Key",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::MKeyFormer,   warns("SLV-HEALTH-0030"),    "the configured M_Key",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::SetsFailed,   warns("SLV-HEALTH-0006"),    "Sets are acknowledged",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::Apart,        warns("SLV-HEALTH-0007"),    "a plan connects all hosts",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::DiskFull,     warns("SLV-HEALTH-0008"),    "the state is stored",
                                                           "D! D!    D!      D!   F!       D! D!    D! D! D!"),
    (Fault::HistoryStopped, warns("SLV-HEALTH-0028"), "stored again",
                                                           "D! D!    D!      D!   F!       D! D!    D! D! D!"),
    (Fault::ExpectedMissing, warns("SLV-HEALTH-0011"), "it is found",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::Additional, warns("SLV-HEALTH-0012"), "it is gone",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::Slow, warns("SLV-HEALTH-0013"), "expected speed",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::Narrow, warns("SLV-HEALTH-0014"), "expected width",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::WrongPort, warns("SLV-HEALTH-0015"), "plugged in as expected",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::OtherTopology, warns("SLV-HEALTH-0016"), "of this fabric is given",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::RolledBack, warns("SLV-HEALTH-0017"), "the next change that is kept",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::ExpectedUnread, warns("SLV-HEALTH-0024"), "topology approve",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::PortErrors, warns("SLV-HEALTH-0025"), "half of its threshold",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::LinkFlaps, warns("SLV-HEALTH-0026"), "it stays up",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::BitErrors, warns("SLV-HEALTH-0027"), "within the limit",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::IsSmCleared, warns("SLV-HEALTH-0020"), "the port shows IsSM",
                                                           "D! D!    D!      D!   F!       D! D!    D! D! D!"),
    (Fault::StandbyGone, warns("SLV-HEALTH-0021"), "selvedge forget",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    // A manager that is not master gives way.
    (Fault::SecondMaster, fails("SLV-HEALTH-0022"), "gives way",
                                                           "F! F!    R       S    F        W  S     W  U  S"),
    (Fault::OtherKey, warns("SLV-HEALTH-0023"), "SM_Key",
                                                           "D! D!    R       D!   F!       D! D!    D! D! D!"),
    (Fault::OtherKeyMaster, fails("SLV-HEALTH-0023"), "SM_Key",
                                                           "F! F!    R       F!   F!       F! F!    F! F! F!"),
    (Fault::OwnPortDown,  fails("SLV-HEALTH-0009"),    "the port has a link",
                                                           "F! F!    F!      F!   F!       F! F!    F! F! F!"),
];

/// The exit codes of each verdict: first that of `selvedge status` and `run --once`, then that of `selvedge health`.
const EXITS: [(&str, Verdict, u8, u8); 7] = [
    ("S", Verdict::Starting, 1, 3),
    ("H", Verdict::Healthy, 0, 0),
    ("D", Verdict::Degraded, 1, 1),
    ("F", Verdict::Failed, 1, 2),
    ("R", Verdict::StandbyReady, 0, 0),
    ("W", Verdict::Watching, 0, 0),
    ("U", Verdict::Unmanaged, 1, 1),
];

const fn warns(code: &str) -> Option<(&str, Severity)> {
    Some((code, Severity::Warning))
}

const fn fails(code: &str) -> Option<(&str, Severity)> {
    Some((code, Severity::Error))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    HostGone,
    SwitchGone,
    BehindSilent,
    LinkGone,
    SwitchHung,
    HostHung,
    Refused,
    RefusedKept,
    MKey,
    MKeyNeverGiven,
    MKeyFormer,
    SetsFailed,
    Apart,
    DiskFull,
    HistoryStopped,
    ExpectedMissing,
    Additional,
    Slow,
    Narrow,
    WrongPort,
    OtherTopology,
    RolledBack,
    ExpectedUnread,
    PortErrors,
    LinkFlaps,
    BitErrors,
    IsSmCleared,
    StandbyGone,
    SecondMaster,
    OtherKey,
    OtherKeyMaster,
    OwnPortDown,
}

fn end(node: u64, port: u8) -> End {
    End {
        node: Guid(node),
        name: format!("S-{node}"),
        port: PortNum::new(port).unwrap(),
    }
}

fn node(kind: NodeKind, guid: u64) -> NodeName {
    NodeName {
        guid: Guid(guid),
        kind,
        name: format!("N-{guid}"),
    }
}

fn foreign_key(is_anothers: bool) -> ForeignKey {
    ForeignKey {
        ports: "\"H-1\"[1]".into(),
        is_anothers,
    }
}

fn gone(kind: NodeKind, how: How) -> Absent {
    let nodes = vec![AbsentNode {
        node: node(kind, 7),
        since: Since::Calendar(1),
        how,
        was_at: vec![end(1, 1), end(2, 1)],
    }];
    Absent {
        nodes,
        ..Absent::default()
    }
}

impl Fault {
    /// Facts with this fault.
    fn strikes(self, facts: &Facts) -> Facts {
        let mut facts = facts.clone();
        let absent = |absent| Arc::new(absent);
        match self {
            Self::None => {}
            Self::HostGone => facts.absent = absent(gone(NodeKind::Ca, How::NoLink)),
            Self::SwitchGone => facts.absent = absent(gone(NodeKind::Switch, How::NoLink)),
            Self::BehindSilent => {
                facts.absent = absent(gone(NodeKind::Ca, How::Behind(node(NodeKind::Switch, 8))));
            }
            Self::LinkGone => {
                let down = Some((PortState::Down, PhysState::Polling));
                let links = vec![AbsentLink {
                    ends: (end(1, 2), end(2, 2)),
                    since: Since::Calendar(1),
                    states: (down, None),
                    note: None,
                }];
                facts.absent = absent(Absent {
                    links,
                    ..Absent::default()
                });
            }
            Self::SwitchHung => facts.absent = absent(gone(NodeKind::Switch, How::Silent(end(1, 1)))),
            Self::HostHung => {
                let silent = vec![(node(NodeKind::Ca, 7), Some(end(1, 1)))];
                facts.absent = absent(Absent {
                    silent,
                    ..Absent::default()
                });
            }
            Self::Refused | Self::RefusedKept => {
                facts.refused = Some(Arc::new(Refused {
                    why: "a credit loop".to_owned(),
                    in_force: (self == Self::RefusedKept).then_some(3),
                }));
            }
            Self::MKeyFormer => facts.m_key_former = Some("\"H-1\"[1]".into()),
            Self::MKey | Self::MKeyNeverGiven => facts.m_key_foreign = Some(foreign_key(self == Self::MKey)),
            Self::SetsFailed => facts.sets_failed = 2,
            Self::Apart => facts.apart = Some("2 of 6 host pairs do not reach each other".into()),
            Self::DiskFull => {
                facts.not_stored = vec![NotStored {
                    what: "state".to_owned(),
                    since: Since::Calendar(1),
                    error: "no space".to_owned(),
                }];
            }
            Self::HistoryStopped => facts.history_stopped = Some("counters: the disk is full".into()),
            Self::ExpectedMissing => deviates(&mut facts, What::ExpectedMissing),
            Self::Additional => deviates(&mut facts, What::Additional),
            Self::Slow => deviates(&mut facts, What::Slow),
            Self::Narrow => deviates(&mut facts, What::Narrow),
            Self::WrongPort => deviates(&mut facts, What::WrongPort),
            Self::OtherTopology => deviates(&mut facts, What::OtherTopology),
            Self::RolledBack => facts.rolled_back = Some("change 1 of routing.engines: a credit loop".into()),
            Self::ExpectedUnread => deviates(&mut facts, What::ExpectedUnread),
            Self::PortErrors | Self::LinkFlaps | Self::BitErrors => alarms(&mut facts, self),
            Self::IsSmCleared => facts.is_sm_cleared = true,
            Self::StandbyGone => {
                let (since, sign) = (Since::Calendar(1), GoneSign::Silent);
                has_peer(&mut facts, PeerTrouble::Gone { since, sign });
            }
            Self::SecondMaster => has_peer(&mut facts, PeerTrouble::Master { priority: 3 }),
            Self::OtherKey => has_peer(&mut facts, PeerTrouble::OtherKey(Role::Standby)),
            Self::OtherKeyMaster => has_peer(&mut facts, PeerTrouble::OtherKey(Role::Master)),
            Self::OwnPortDown => facts.own_port_down = Some("port 1 is DOWN".into()),
        }
        facts
    }
}

fn deviates(facts: &mut Facts, what: What) {
    facts.deviations = Arc::new(vec![Deviation {
        what,
        place: Place::Link(end(1, 3), end(2, 3)),
        evidence: "4xHDR is expected, 4xEDR was found".to_owned(),
    }]);
}

fn alarms(facts: &mut Facts, fault: Fault) {
    let what = match fault {
        Fault::LinkFlaps => What::LinkFlaps,
        Fault::BitErrors => What::BitErrors,
        _ => What::PortErrors,
    };
    let place = Place::Link(end(1, 3), end(2, 3));
    facts.alarms = Arc::new(vec![alarm(what, place, 2, "at \"S-1\"[3]: 14 of 10")]);
}

fn alarm(what: What, place: Place, since: u64, evidence: &str) -> Alarm {
    Alarm {
        what,
        place,
        since: Since::Run(Time(since)),
        evidence: evidence.to_owned(),
    }
}

/// Two counters of one link are one condition, which began with the first; a link out of service has none.
#[test]
fn alarms_of_a_link_are_one_condition() {
    let link = Place::Link(end(1, 3), end(2, 3));
    let mut facts = facts(Duty::Manage, Role::Master, State::Planned);
    facts.alarms = Arc::new(vec![
        alarm(What::PortErrors, link.clone(), 9, "symbols"),
        alarm(What::PortErrors, link.clone(), 7, "recoveries"),
        alarm(What::LinkFlaps, link, 8, "3 times"),
        alarm(What::PortErrors, Place::Port(end(3, 1)), 8, "discards"),
    ]);
    let mut watch = Watch::default();
    assert_eq!(watch.take(Since::Run(Time(9)), facts.clone()).len(), 3);
    let conditions = &watch.health().conditions;
    let found: Vec<_> = conditions
        .iter()
        .map(|c| (c.what, c.evidence.as_str(), c.since))
        .collect();
    let at = |ns| Since::Run(Time(ns));
    assert!(
        found.contains(&(What::PortErrors, "symbols; recoveries", at(7))),
        "{found:?}"
    );
    assert!(found.contains(&(What::LinkFlaps, "3 times", at(8))), "{found:?}");
    // The next assessment has no news.
    assert!(watch.take(Since::Run(Time(10)), facts.clone()).is_empty());
    let ports = [(end(2, 3).node, end(2, 3).port)].into_iter().collect();
    facts.out_of_service = Arc::new(OutOfService {
        ports,
        ..OutOfService::default()
    });
    assert_eq!(watch.take(Since::Run(Time(11)), facts).len(), 2, "both cleared");
}

fn has_peer(facts: &mut Facts, trouble: PeerTrouble) {
    facts.peers = Arc::new(vec![Peer {
        at: end(5, 1),
        port_guid: Guid(6),
        trouble,
    }]);
}

fn facts(duty: Duty, role: Role, state: State) -> Facts {
    Facts {
        duty,
        role,
        has_swept: state != State::New,
        is_planned: state == State::Planned,
        is_managed: matches!(state, State::Managed | State::Planned),
        ..Facts::default()
    }
}

/// Checks one cell: the fault strikes, goes on, and ends.
fn check_cell(column: usize, row: usize) {
    let (name, duty, role, state) = COLUMNS[column];
    let (fault, event, clears, cells) = TABLE[row];
    let cell = |row: usize| TABLE[row].3.split_whitespace().nth(column).unwrap();
    let verdict = |cell: &str| EXITS.iter().find(|(letter, ..)| cell.starts_with(letter)).unwrap();
    let told = format!("{fault:?}, {name} ({cells})");
    let sound = facts(duty, role, state);
    let mut watch = Watch::default();
    let first = watch.take(Since::Run(Time(1)), sound.clone());
    assert_eq!(watch.health().verdict, verdict(cell(0)).1, "{told}: before");
    // A disabled manager is told of its own state.
    assert!(
        first.len() <= usize::from(role == Role::NotActive && duty == Duty::Manage),
        "{told}"
    );

    let began = watch.take(Since::Run(Time(2)), fault.strikes(&sound));
    let &(_, want, status, health) = verdict(cell(row));
    assert_eq!(watch.health().verdict, want, "{told}");
    assert_eq!(u8::from(!want.is_good()), status, "{told}: exit code of status");
    assert_eq!(want.nagios(), health, "{told}: exit code of health");
    let is_told = cell(row).ends_with('!');
    let code = |news: &News| match news {
        News::Began(condition) => (condition.what.code(), condition.severity),
        News::Cleared(condition) => panic!("{told}: {condition} cleared"),
    };
    let codes: Vec<_> = began.iter().map(code).collect();
    assert_eq!(
        codes,
        event.filter(|_| is_told).into_iter().collect::<Vec<_>>(),
        "{told}: event"
    );
    if let Some(News::Began(condition)) = began.first() {
        assert!(condition.clears().contains(clears), "{told}: {}", condition.clears());
        assert!(!condition.evidence.is_empty(), "{told}: evidence");
        assert!(condition.to_string().contains(&condition.place.to_string()), "{told}");
    }

    // The fault goes on: nothing is reported twice, and the condition keeps its time.
    let mut same = fault.strikes(&sound);
    same.master = Some(Guid(9));
    let since = |watch: &Watch| watch.health().conditions.iter().map(|of| of.since).collect::<Vec<_>>();
    let before = since(&watch);
    assert_eq!(watch.take(Since::Run(Time(3)), same), [], "{told}: told twice");
    assert_eq!(since(&watch), before, "{told}: since");

    // The fault ends: its condition clears.
    let cleared = watch.take(Since::Run(Time(4)), sound);
    assert_eq!(cleared.len(), began.len(), "{told}: cleared");
    for (cleared, began) in cleared.iter().zip(&began) {
        let (News::Cleared(cleared), News::Began(began)) = (cleared, began) else {
            panic!("{told}: {cleared:?}");
        };
        assert_eq!((cleared.what, &cleared.place), (began.what, &began.place), "{told}");
    }
    assert_eq!(watch.health().verdict, verdict(cell(0)).1, "{told}: after");
}

#[test]
fn every_cell_of_the_table() {
    let mut cells = 0;
    for (row, (fault, _, _, in_row)) in TABLE.iter().enumerate() {
        assert_eq!(in_row.split_whitespace().count(), COLUMNS.len(), "{fault:?}");
        for column in 0..COLUMNS.len() {
            check_cell(column, row);
            cells += 1;
        }
    }
    assert_eq!(cells, 330);
}

#[test]
fn every_kind_of_condition_has_a_row_and_a_code_of_its_own() {
    let mut codes: Vec<&str> = What::ALL.iter().map(|what| what.code()).collect();
    codes.dedup();
    assert_eq!(codes.len(), What::ALL.len());
    let in_table = |code: &str| {
        TABLE
            .iter()
            .any(|(_, event, ..)| event.is_some_and(|(of, _)| of == code))
    };
    let without: Vec<&str> = codes.into_iter().filter(|code| !in_table(code)).collect();
    // The column "disabled" is its row.
    assert_eq!(without, [What::Disabled.code()]);
    assert_eq!(Verdict::ALL.len(), EXITS.len());
    let mut columns = COLUMNS.iter();
    assert!(columns.any(|(name, ..)| *name == "disabled"));
}

#[test]
fn a_port_that_is_down_claims_nothing_of_the_fabric() {
    let sound = facts(Duty::Manage, Role::Master, State::Planned);
    let gone = Fault::HostGone.strikes(&Fault::Refused.strikes(&Fault::SetsFailed.strikes(&sound)));
    let gone = Fault::SecondMaster.strikes(&Fault::IsSmCleared.strikes(&gone));
    let mut watch = Watch::default();
    watch.take(Since::Run(Time(1)), Fault::OwnPortDown.strikes(&gone));
    let whats: Vec<What> = watch.health().conditions.iter().map(|of| of.what).collect();
    assert_eq!(whats, [What::OwnPortDown]);
}

#[test]
fn the_summary_counts_by_kind() {
    let mut absent = gone(NodeKind::Ca, How::NoLink);
    let mut second = absent.nodes[0].clone();
    second.node.guid = Guid(8);
    let mut switch = absent.nodes[0].clone();
    switch.node = node(NodeKind::Switch, 9);
    absent.nodes.extend([second, switch]);
    let facts = Facts {
        absent: Arc::new(absent),
        ..facts(Duty::Manage, Role::Master, State::Planned)
    };
    let mut watch = Watch::default();
    watch.take(Since::Run(Time(1)), facts);
    assert_eq!(watch.health().summary(), "degraded: 2 hosts missing, 1 switch missing");
    let Place::Node(first) = &watch.health().conditions[0].place else {
        panic!("{:?}", watch.health());
    };
    assert_eq!(first.to_string(), "host \"N-7\"");
}

#[test]
fn what_is_gone_is_not_said_twice() {
    let mut facts = facts(Duty::Manage, Role::Master, State::Planned);
    facts.absent = Arc::new(gone(NodeKind::Ca, How::NoLink));
    facts.deviations = Arc::new(vec![Deviation {
        what: What::ExpectedMissing,
        place: Place::Node(node(NodeKind::Ca, 7)),
        evidence: String::new(),
    }]);
    let mut watch = Watch::default();
    watch.take(Since::Run(Time(1)), facts);
    let whats: Vec<What> = watch.health().conditions.iter().map(|of| of.what).collect();
    assert_eq!(whats, [What::NodeMissing]);
}
