//! Registrations survive the administrator: the next one gives the same answers.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Bench, Value, Wish, number};
use selvedge_plan::{COPIES_LEVEL, Policy};
use selvedge_sa::{Config, Input, Registrations, Sa};
use selvedge_sim::Time;
use selvedge_wire::sa::{Field, Layout, SaData, records};
use selvedge_wire::{Gid, Method, Status};

const IPOIB: Gid = Gid([
    0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,
]);

fn wish() -> Wish {
    Wish::new("pgft:m=2x4,w=1x2,p=1x1")
}

/// Two members of a group, a subscription, a service that ends in ten seconds and one that does not.
fn registered() -> Bench {
    use records::{inform_info as i, member as m, service as s};
    let mut bench = Bench::new(&wish());
    let mut set = |host: usize, layout: &'static Layout, fields: Vec<(Field, Value)>| {
        bench.lid = bench.host(host);
        assert_eq!(bench.ask(Method::Set, layout, &fields).status, Status::OK, "{fields:?}");
    };
    let gid = |host| Value::Gid(Bench::new(&wish()).gid(host));
    let join = |host, state: u8| {
        vec![
            (m::MGID, Value::Gid(IPOIB)),
            (m::PORT_GID, gid(host)),
            (m::JOIN_STATE, number(state)),
        ]
    };
    let mut create = join(0, 1);
    let zero = |field| (field, number(0_u8));
    create.extend([zero(m::TRAFFIC_CLASS), zero(m::SL), zero(m::FLOW_LABEL)]);
    create.extend([(m::QKEY, number(0xB1B_u16)), (m::PKEY, number(0xFFFF_u16))]);
    set(0, &records::MEMBER, create);
    set(3, &records::MEMBER, join(3, 5));
    for (id, lease) in [(1_u8, 10_u32), (2, u32::MAX)] {
        set(
            1,
            &records::SERVICE,
            vec![
                (s::ID, number(id)),
                (s::GID, gid(1)),
                (s::LEASE, number(lease)),
                (s::KEY, Value::Bytes(vec![7; 16])),
            ],
        );
    }
    set(
        2,
        &records::INFORM_INFO,
        vec![
            (i::LID_BEGIN, number(0xFFFF_u16)),
            (i::IS_GENERIC, number(1_u8)),
            (i::SUBSCRIBE, number(1_u8)),
            (i::TYPE, number(0xFFFF_u16)),
            (i::TRAP_NUMBER, number(66_u8)),
            (i::PRODUCER, number(0xFF_FFFF_u32)),
        ],
    );
    bench
}

/// Returns every row of the registrations, as a trusted client sees it.
fn rows(bench: &mut Bench) -> Vec<Vec<SaData>> {
    bench.lid = bench.host(0);
    bench.key = 1;
    let layouts = [&records::MEMBER, &records::SERVICE, &records::INFORM_INFO_RECORD];
    layouts
        .map(|layout| bench.ask(Method::GetTable, layout, &[]).rows)
        .into()
}

/// Starts another administrator with the registrations in the text.
fn next_life(bench: &mut Bench, text: &str) {
    let kept = Registrations::from_text(text).unwrap();
    bench.sa = Sa::with_registrations(Config::default(), bench.now, kept);
    bench.feed(Input::Serve);
    let snapshot = Arc::clone(&bench.snapshot);
    bench.feed(Input::Committed(snapshot));
}

#[test]
fn the_next_one_gives_the_same_answers() {
    let mut bench = registered();
    let before = rows(&mut bench);
    assert_eq!(before.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    let text = bench.sa.registrations().to_text();
    assert_eq!(bench.sa.registrations().counts(), (1, 2, 1, 2));
    next_life(&mut bench, &text);
    assert_eq!(rows(&mut bench), before);
    // The lease continues with its remaining time.
    bench.later(Duration::from_secs(11));
    assert_eq!(rows(&mut bench)[1].len(), 1);
}

#[test]
fn a_change_is_a_new_revision() {
    let mut bench = registered();
    let revision = bench.sa.revision();
    assert!(revision >= 5);
    rows(&mut bench);
    assert_eq!(bench.sa.revision(), revision, "questions change nothing");
    bench.later(Duration::from_secs(11));
    assert_ne!(bench.sa.revision(), revision, "a lease ran out");
    let revision = bench.sa.revision();
    bench.feed(Input::Withdraw);
    assert_eq!(
        bench.sa.registrations().counts(),
        (1, 2, 1, 1),
        "kept while nobody else is master"
    );
    assert_eq!(bench.sa.revision(), revision);
    bench.feed(Input::Forget);
    assert_eq!(bench.sa.registrations(), Registrations::default());
    assert_ne!(bench.sa.revision(), revision);
}

#[test]
fn ports_that_are_gone_are_forgotten() {
    let mut bench = registered();
    let text = bench.sa.registrations().to_text();
    let gone = Wish {
        gone: vec![3],
        ..wish()
    };
    bench.snapshot = gone.snapshot();
    next_life(&mut bench, &text);
    assert_eq!(bench.sa.registrations().counts(), (1, 1, 1, 2));
}

#[test]
fn what_makes_no_sense_is_left_out() {
    let bench = registered();
    let text = bench.sa.registrations().to_text();
    let check = |old: &str, new: &str, want: usize| {
        let text = text.replace(old, new);
        let kept = Registrations::from_text(&text).unwrap();
        let sa = Sa::with_registrations(Config::default(), Time::ZERO, kept);
        assert_eq!(sa.registrations().counts().0, want, "{old} {new}");
    };
    check("group ff12", "group ff12", 1);
    check("group ff12", "group fe80", 0);
    // A group without members may be a partition's preset group, which the partitions will show.
    check("member", "#member", 1);
}

/// The service level of a preset group follows the operator's setting while the group has no members. Members use the
/// level that they got when they joined, so a group with members keeps it, also over a restart.
#[test]
fn a_group_keeps_its_level_while_it_has_members() {
    use records::member as f;
    let told = |assume_sl_aware| {
        let policy = Policy {
            used_lanes: 4,
            assume_sl_aware,
            ..Policy::default()
        };
        Input::Presets(policy.partitions_told())
    };
    let level = |bench: &mut Bench| {
        bench.key = 0;
        let rows = bench.ask(Method::GetTable, &records::MEMBER, &[]).rows;
        assert_eq!(rows.len(), 1, "{rows:?}");
        f::SL.get(&rows[0])
    };
    let own = u64::from(COPIES_LEVEL.get());
    let mut bench = Bench::new(&wish());
    bench.feed(told(false));
    assert_eq!(level(&mut bench), 0);
    bench.feed(told(true));
    assert_eq!(level(&mut bench), own);
    bench.lid = bench.host(3);
    let join = |bench: &Bench| {
        vec![
            (f::MGID, Value::Gid(IPOIB)),
            (f::PORT_GID, Value::Gid(bench.gid(3))),
            (f::JOIN_STATE, number(1_u8)),
        ]
    };
    let mut other = join(&bench);
    other.push((f::SL, number(0_u8)));
    let refused = bench.ask(Method::Set, &records::MEMBER, &other).status;
    assert_ne!(refused, Status::OK, "a member that insists on another level");
    let fields = join(&bench);
    let joined = bench.ask(Method::Set, &records::MEMBER, &fields);
    assert_eq!((joined.status, f::SL.get(&joined.rows[0])), (Status::OK, own));
    bench.feed(told(false));
    assert_eq!(level(&mut bench), own, "somebody uses it");
    let text = bench.sa.registrations().to_text();
    next_life(&mut bench, &text);
    bench.feed(told(false));
    assert_eq!(level(&mut bench), own, "over a restart");
    bench.lid = bench.host(3);
    let left = bench.ask(Method::Delete, &records::MEMBER, &fields);
    assert_eq!(left.status, Status::OK);
    bench.feed(told(false));
    assert_eq!(level(&mut bench), 0);
}
