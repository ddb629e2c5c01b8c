//! Alarms: thresholds with hysteresis and time to live, acknowledgement, flaps, and what health makes of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use selvedge_health::{Duty, Facts, Place, Role, Since, Verdict, What, assess};
use selvedge_sim::Time;
use selvedge_telemetry::alarm::{
    Ack, Alarm, AlarmBook, AlarmId, AlarmIn, AlarmNews, AlarmRules, Ended, Level, Subject,
};
use selvedge_telemetry::cable::{BerEstimate, CableEnd, RankBy, rank};
use selvedge_telemetry::congestion::{Cause, Congestion, Load, Tree};
use selvedge_telemetry::rates::Growth;
use selvedge_telemetry::{End, Group, Inventory, Metric, NodeEntry, PortEntry, SampleKey, WIDEST};
use selvedge_types::{Guid, Lid, LinkSpeed, LinkWidth, NodeKind, PortState, Rate};

const QDR: Rate = Rate {
    width: LinkWidth::X4,
    speed: LinkSpeed::Qdr,
};

const A: End = End { node: Guid(1), port: 1 };
const B: End = End { node: Guid(2), port: 1 };

/// Two switches with two links; the links of the ports in `down` are down.
fn inventory(down: &[u8]) -> Arc<Inventory> {
    let node = |guid: u64, far: u64| {
        let port = |num: u8| PortEntry {
            num,
            lid: Lid(guid as u16),
            state: if down.contains(&num) {
                PortState::Down
            } else {
                PortState::Active
            },
            peer: (!down.contains(&num)).then_some(End {
                node: Guid(far),
                port: num,
            }),
            rate: Some(QDR),
        };
        NodeEntry {
            kind: NodeKind::Switch,
            description: format!("switch {guid}"),
            ports: vec![port(1), port(2)],
        }
    };
    Arc::new(Inventory {
        nodes: [(Guid(1), node(1, 2)), (Guid(2), node(2, 1))].into(),
    })
}

fn growth(end: End, metric: Metric, by: u64) -> Growth {
    let group = Group::Base;
    let mut grown = [0; WIDEST];
    grown[group.place(metric).unwrap()] = by;
    Growth {
        key: SampleKey {
            node: end.node,
            port: end.port,
            group,
        },
        over: Duration::from_secs(10),
        grown,
        known: group.mask(),
        at_least: 0,
        is_derived: false,
    }
}

struct Desk {
    book: AlarmBook,
    news: Vec<AlarmNews>,
}

impl Desk {
    fn new(rules: AlarmRules) -> Self {
        let mut desk = Self {
            book: AlarmBook::new(rules),
            news: Vec::new(),
        };
        desk.give(0, AlarmIn::Inventory(inventory(&[])));
        desk
    }

    fn give(&mut self, at_s: u64, input: AlarmIn<'_>) -> Vec<AlarmNews> {
        self.news.clear();
        self.book.handle(Time::from_secs(at_s), input, &mut self.news);
        self.news.clone()
    }

    fn grow(&mut self, at_s: u64, end: End, metric: Metric, by: u64) -> Vec<AlarmNews> {
        self.give(at_s, AlarmIn::Grown(&[growth(end, metric, by)]))
    }

    /// Wakes the book whenever it asks for it, until nothing is due any more. Returns when what ended.
    fn run_until(&mut self, until_s: u64) -> Vec<(u64, AlarmNews)> {
        let mut ended = Vec::new();
        for _ in 0..10_000 {
            let Some(due) = self.book.next_wake().filter(|due| *due <= Time::from_secs(until_s)) else {
                return ended;
            };
            let s = due.since(Time::ZERO).as_secs();
            let mut news = Vec::new();
            self.book.handle(due, AlarmIn::Wake, &mut news);
            ended.extend(news.into_iter().map(|news| (s, news)));
        }
        panic!("the book never comes to rest");
    }
}

#[test]
fn an_alarm_begins_at_its_threshold_and_clears_below_half_of_it() {
    let mut desk = Desk::new(AlarmRules::default());
    assert_eq!(desk.grow(10, A, Metric::SymbolErrors, 9), []);
    let news = desk.grow(20, A, Metric::SymbolErrors, 1);
    let [AlarmNews::Began(alarm)] = &news[..] else {
        panic!("{news:?}")
    };
    assert_eq!(
        (alarm.level, alarm.peer, alarm.since),
        (Level::Warning, Some(B), Since::Run(Time::from_secs(20)))
    );
    assert_eq!(
        news[0].to_string(),
        "SLV-TELEMETRY-0201: warning: SymbolErrorCounter at port 1 of node 0x0000000000000001, linked to port 1 of \
         node 0x0000000000000002: SymbolErrorCounter grew by 10 within 300 s; the threshold is 10; reseat the \
         cable, clean its connectors, then replace it"
    );
    // 5 within the window keep it; the same alarm does not begin twice.
    assert_eq!(desk.grow(300, A, Metric::SymbolErrors, 5), []);
    let ended = desk.run_until(2_000);
    let [(at, AlarmNews::Cleared(alarm, Ended::Below))] = &ended[..] else {
        panic!("{ended:?}")
    };
    assert!((600..=615).contains(at), "{at}");
    assert_eq!(alarm.last, Since::Run(Time::from_secs(300)));
    assert_eq!(desk.book.next_wake(), None);
    // Values that trickle in below the threshold never begin one.
    for at in (2_000..12_000).step_by(60) {
        assert_eq!(desk.grow(at, A, Metric::SymbolErrors, 1), [], "{at}");
    }
}

#[test]
fn a_rising_alarm_is_told_again_and_loses_its_acknowledgement() {
    let mut desk = Desk::new(AlarmRules::default());
    let id = AlarmId {
        at: A,
        subject: Subject::Counter(Metric::RcvErrors),
    };
    assert_eq!(desk.grow(1, A, Metric::RcvErrors, 20).len(), 1);
    let facts = |desk: &Desk| desk.book.facts(&inventory(&[]));
    assert_eq!(facts(&desk).len(), 1);
    let ack = |id| AlarmIn::Acknowledge {
        id,
        by: "eve".to_owned(),
        note: "cable ordered".to_owned(),
    };
    let news = desk.give(2, ack(id));
    assert!(matches!(&news[..], [AlarmNews::Acknowledged(_)]), "{news:?}");
    assert!(
        news[0].to_string().starts_with("SLV-TELEMETRY-0204: acknowledged by "),
        "{}",
        news[0]
    );
    assert_eq!((facts(&desk).len(), desk.book.alarms().count()), (0, 1));
    assert_eq!(
        desk.grow(3, A, Metric::RcvErrors, 20),
        [],
        "an acknowledged alarm stays acknowledged"
    );
    let news = desk.grow(4, A, Metric::RcvErrors, 20_000);
    assert!(
        matches!(&news[..], [AlarmNews::Rose(alarm)] if alarm.level == Level::Critical),
        "{news:?}"
    );
    assert_eq!(facts(&desk).len(), 1);
    // An alarm that does not exist cannot be acknowledged or cleared.
    let other = AlarmId { at: B, ..id };
    assert_eq!(
        (desk.give(5, ack(other)), desk.give(5, AlarmIn::Clear(other))),
        (vec![], vec![])
    );
    // What an operator clears begins again only with new evidence.
    let news = desk.give(6, AlarmIn::Clear(id));
    assert!(
        matches!(&news[..], [AlarmNews::Cleared(_, Ended::Operator)]),
        "{news:?}"
    );
    assert_eq!(desk.grow(7, A, Metric::RcvErrors, 9), []);
    assert_eq!(desk.grow(8, A, Metric::RcvErrors, 1).len(), 1);
}

#[test]
fn an_alarm_without_time_to_live_stays_until_an_operator_clears_it() {
    let rules = AlarmRules {
        ttl: Duration::ZERO,
        ..AlarmRules::default()
    };
    let mut desk = Desk::new(rules);
    desk.grow(1, A, Metric::LinkRecoveries, 10);
    assert_eq!(
        (desk.book.next_wake(), desk.give(1_000_000, AlarmIn::Wake)),
        (None, vec![])
    );
    assert_eq!(desk.book.alarms().count(), 1);
}

#[test]
fn flaps_are_counted_once_whoever_counts_them() {
    let mut desk = Desk::new(AlarmRules::default());
    let is_flap = |news: &[AlarmNews]| news.iter().any(|news| news.alarm().id.subject == Subject::Flaps);
    // Twice down, seen by the manager and counted by both ends: 2, not 6.
    for at in [10, 40] {
        assert!(!is_flap(&desk.give(at, AlarmIn::Inventory(inventory(&[1])))));
        assert!(!is_flap(&desk.give(at + 5, AlarmIn::Inventory(inventory(&[])))));
        assert!(!is_flap(&desk.grow(at + 6, A, Metric::LinkDowned, 1)));
        assert!(!is_flap(&desk.grow(at + 7, B, Metric::LinkDowned, 1)));
    }
    let news = desk.give(70, AlarmIn::Inventory(inventory(&[1])));
    let [AlarmNews::Began(alarm)] = &news[..] else {
        panic!("{news:?}")
    };
    assert_eq!(
        (alarm.id.at, alarm.peer),
        (A, Some(B)),
        "both ends, although the link is down"
    );
    assert_eq!(alarm.evidence, "the link went down 3 times within 600 s");
    // The third one leaves the window of 10 minutes last; the first two have left before.
    let ended = desk.run_until(3_000);
    let flaps: Vec<u64> = ended
        .iter()
        .filter(|(_, news)| news.alarm().id.subject == Subject::Flaps)
        .map(|(at, _)| *at)
        .collect();
    assert!(flaps.len() == 1 && (610..=680).contains(&flaps[0]), "{ended:?}");
    // Three losses between two readings show in LinkDowned only.
    assert!(is_flap(&desk.grow(5_000, B, Metric::LinkDowned, 3)));
}

#[test]
fn bit_errors_need_confidence() {
    let mut desk = Desk::new(AlarmRules::default());
    let estimate = |errors, s| BerEstimate::new(errors, Duration::from_secs(s), QDR).unwrap();
    // One error in a second is 2.5e-11, but it may be chance: 1e-12 gives one in 25 s.
    assert_eq!(desk.give(1, AlarmIn::BitErrors(&[(A, estimate(1, 1))])), []);
    assert_eq!(desk.give(2, AlarmIn::BitErrors(&[(A, estimate(40, 1_000))])), []);
    let news = desk.give(3, AlarmIn::BitErrors(&[(A, estimate(100, 1_000))]));
    assert!(
        matches!(&news[..], [AlarmNews::Began(alarm)] if alarm.level == Level::Warning),
        "{news:?}"
    );
    let news = desk.give(4, AlarmIn::BitErrors(&[(A, estimate(1_000_000, 10))]));
    assert!(matches!(&news[..], [AlarmNews::Rose(_)]), "{news:?}");
    assert_eq!(desk.run_until(1_000).len(), 1);
}

#[test]
fn congestion_that_stays_is_worth_knowing_and_no_condition() {
    let mut desk = Desk::new(AlarmRules::default());
    let tree = Tree {
        root: A,
        to: B,
        cause: Cause::Saturated,
        load: Load {
            utilisation: 0.97,
            wait: 0.0,
        },
        branches: Vec::new(),
        hosts: Vec::new(),
    };
    let congestion = Congestion {
        trees: vec![tree],
        ..Congestion::default()
    };
    assert_eq!(desk.give(10, AlarmIn::Congestion(&congestion)), []);
    assert_eq!(desk.give(60, AlarmIn::Congestion(&congestion)), []);
    assert_eq!(desk.give(65, AlarmIn::Congestion(&Congestion::default())), []);
    assert_eq!(desk.give(70, AlarmIn::Congestion(&congestion)), [], "it began anew");
    let news = desk.give(130, AlarmIn::Congestion(&congestion));
    assert!(
        matches!(&news[..], [AlarmNews::Began(alarm)] if alarm.level == Level::Info),
        "{news:?}"
    );
    assert!(desk.book.facts(&inventory(&[])).is_empty());
}

#[test]
fn alarms_of_a_node_end_when_it_leaves_and_their_number_is_limited() {
    let mut desk = Desk::new(AlarmRules {
        alarms_max: 2,
        ..AlarmRules::default()
    });
    desk.grow(1, A, Metric::LinkDowned, 1);
    desk.grow(2, B, Metric::LinkDowned, 1);
    // A third one of the same level is not kept; one of a higher level takes the place of the newest.
    assert_eq!(desk.grow(3, End { port: 2, ..A }, Metric::LinkDowned, 1), []);
    let news = desk.grow(4, A, Metric::SymbolErrors, 10);
    assert!(
        matches!(&news[..], [AlarmNews::Cleared(old, Ended::Dropped), AlarmNews::Began(_)] if old.id.at == B),
        "{news:?}"
    );
    let mut left = (*inventory(&[])).clone();
    left.nodes.remove(&Guid(1));
    let news = desk.give(5, AlarmIn::Inventory(Arc::new(left)));
    assert!(
        news.len() == 2
            && news
                .iter()
                .all(|news| matches!(news, AlarmNews::Cleared(_, Ended::Gone))),
        "{news:?}"
    );
}

#[test]
fn a_resumed_alarm_keeps_its_acknowledgement_and_its_time_to_live() {
    let mut first = Desk::new(AlarmRules::default());
    first.grow(10, A, Metric::SymbolErrors, 12);
    let id = AlarmId {
        at: A,
        subject: Subject::Counter(Metric::SymbolErrors),
    };
    let ack = AlarmIn::Acknowledge {
        id,
        by: "eve".to_owned(),
        note: String::new(),
    };
    first.give(11, ack);
    let kept = first.book.alarms().next().unwrap().clone();
    let mut desk = Desk::new(AlarmRules::default());
    desk.give(0, AlarmIn::Resume(vec![kept.clone()]));
    assert_eq!(desk.book.alarms().collect::<Vec<_>>(), [&kept]);
    assert!(desk.book.facts(&inventory(&[])).is_empty());
    let ended = desk.run_until(1_000);
    assert!(
        matches!(&ended[..], [(300, AlarmNews::Cleared(_, Ended::Below))]),
        "{ended:?}"
    );
}

#[test]
fn a_stored_alarm_goes_on_in_one_that_has_begun_already() {
    let stored = |level, node| Alarm {
        id: AlarmId {
            at: End { node: Guid(node), ..A },
            subject: Subject::Counter(Metric::SymbolErrors),
        },
        peer: None,
        level,
        since: Since::Calendar(1_000),
        last: Since::Calendar(2_000),
        evidence: String::new(),
        clears: String::new(),
        ack: Some(Ack {
            at: Since::Calendar(3_000),
            by: "eve".to_owned(),
            note: String::new(),
        }),
    };
    let resume = |level, grown| {
        let mut desk = Desk::new(AlarmRules::default());
        desk.grow(10, A, Metric::SymbolErrors, grown);
        assert_eq!(desk.give(11, AlarmIn::Resume(vec![stored(level, 1)])), []);
        let alarm = desk.book.alarms().next().unwrap().clone();
        assert_eq!(alarm.since, Since::Calendar(1_000));
        (alarm.level, alarm.ack.is_some())
    };
    assert_eq!(resume(Level::Warning, 12), (Level::Warning, true));
    assert_eq!(resume(Level::Critical, 12), (Level::Critical, true));
    // It has risen: no operator has acknowledged this level.
    assert_eq!(resume(Level::Warning, 20_000), (Level::Critical, false));
    let mut desk = Desk::new(AlarmRules::default());
    let news = desk.give(1, AlarmIn::Resume(vec![stored(Level::Warning, 99)]));
    assert!(matches!(&news[..], [AlarmNews::Cleared(_, Ended::Gone)]), "{news:?}");
}

/// From a reading to the verdict: both ends, evidence, and what clears it.
#[test]
fn alarms_reach_the_verdict() {
    let mut desk = Desk::new(AlarmRules::default());
    desk.grow(1, B, Metric::SymbolErrors, 14);
    desk.grow(2, A, Metric::LinkRecoveries, 11);
    desk.grow(3, A, Metric::LinkDowned, 1);
    let facts = Facts {
        duty: Duty::Manage,
        role: Role::Master,
        has_swept: true,
        is_planned: true,
        alarms: Arc::new(desk.book.facts(&inventory(&[]))),
        ..Facts::default()
    };
    let health = assess(&facts, Since::Run(Time::from_secs(9)));
    assert_eq!(health.verdict, Verdict::Degraded);
    let [condition] = &health.conditions[..] else {
        panic!("{health:?}")
    };
    assert_eq!(
        (condition.what, condition.since),
        (What::PortErrors, Since::Run(Time::from_secs(1)))
    );
    assert!(matches!(condition.place, Place::Link(..)));
    assert_eq!(condition.place.to_string(), "link \"switch 1\"[1] - \"switch 2\"[1]");
    for part in [
        "at \"switch 2\"[1]: SymbolErrorCounter grew by 14 within 300 s",
        "at \"switch 1\"[1]: LinkErrorRecovery",
    ] {
        assert!(condition.evidence.contains(part), "{}", condition.evidence);
    }
}

#[test]
fn cables_are_ranked_with_both_ends() {
    let inventory = inventory(&[]);
    let end = |node, port| End { node: Guid(node), port };
    let counted = |symbols, downs, recoveries| {
        let mut growth = growth(A, Metric::SymbolErrors, symbols);
        growth.grown[Group::Base.place(Metric::LinkDowned).unwrap()] = downs;
        growth.grown[Group::Base.place(Metric::LinkRecoveries).unwrap()] = recoveries;
        CableEnd::new(&growth, Some(QDR))
    };
    let mut ends = BTreeMap::new();
    ends.insert(end(1, 1), counted(500, 0, 1));
    ends.insert(end(2, 1), counted(3, 0, 1));
    ends.insert(end(2, 2), counted(40, 2, 0));
    let order = |by| -> Vec<u8> {
        rank(&inventory, &[], &ends, by)
            .iter()
            .map(|cable| cable.a.port)
            .collect()
    };
    assert_eq!(order(RankBy::SymbolErrors), [1, 2]);
    assert_eq!(order(RankBy::Ber), [1, 2]);
    assert_eq!(order(RankBy::Downs), [2, 1]);
    assert_eq!(order(RankBy::Worst), [2, 1]);
    assert_eq!(order(RankBy::Recoveries), [1, 2]);
    let cables = rank(&inventory, &[], &ends, RankBy::SymbolErrors);
    let first = &cables[0];
    assert_eq!(
        (first.a, first.b, first.symbol_errors(), first.recoveries()),
        (A, B, 503, 1)
    );
    // 500 errors in 10 s at 40 Gbit/s.
    let ber = first.ber().unwrap();
    assert!((ber.rate - 500.0 / 4e11).abs() < 1e-15 && !first.is_clean(), "{ber}");
    assert!(
        rank(&inventory, &[], &BTreeMap::new(), RankBy::Worst)
            .iter()
            .all(|cable| cable.is_clean())
    );
}
