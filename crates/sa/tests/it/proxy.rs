//! Ports that join groups for other ports, and access rights to such memberships.

use std::sync::Arc;

use crate::support::two::Two;
use crate::support::{Bench, Value, Wish, group_parameters, number};
use selvedge_sa::{Config, Input, JoinedBy, Registrations, Sa};
use selvedge_types::PKey;
use selvedge_wire::sa::{Field, SaStatus, records};
use selvedge_wire::{Gid, Method, Status};

use records::member as f;

const IPOIB: Gid = Gid([
    0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,
]);

/// Eight hosts in the default partition, except: the fifth is only in another one, and the last two are limited
/// members.
fn wish() -> Wish {
    let mut wish = Wish::new("pgft:m=2x4,w=1x2,p=1x1");
    wish.keys.insert(5, vec![PKey(0x8001)]);
    wish.keys.insert(6, vec![PKey(0x7FFF)]);
    wish.keys.insert(7, vec![PKey(0x7FFF)]);
    wish
}

fn named(bench: &Bench, mgid: Gid, host: usize, state: u8) -> Vec<(Field, Value)> {
    vec![
        (f::MGID, Value::Gid(mgid)),
        (f::PORT_GID, Value::Gid(bench.gid(host))),
        (f::JOIN_STATE, number(state)),
    ]
}

/// A host joins for another one. Returns join state and ProxyJoin of the answer.
fn ask(bench: &mut Bench, asker: usize, method: Method, fields: &[(Field, Value)]) -> Result<(u64, u64), Status> {
    bench.lid = bench.host(asker);
    let told = bench.ask(method, &records::MEMBER, fields);
    let row = told.rows.first().map(|row| (f::JOIN_STATE.get(row), f::PROXY.get(row)));
    row.ok_or(told.status)
}

fn set(bench: &mut Bench, asker: usize, host: usize, state: u8) -> Result<(u64, u64), Status> {
    let mut fields = named(bench, IPOIB, host, state);
    fields.extend(group_parameters());
    ask(bench, asker, Method::Set, &fields)
}

fn delete(bench: &mut Bench, asker: usize, host: usize, state: u8) -> Result<(u64, u64), Status> {
    let fields = named(bench, IPOIB, host, state);
    ask(bench, asker, Method::Delete, &fields)
}

const INVALID: Result<(u64, u64), Status> = Err(SaStatus::REQUEST_INVALID);

/// Returns host, join state, and the joining port: the host itself (0), another host, or unknown.
fn members(bench: &Bench) -> Vec<(usize, u8, Option<usize>)> {
    let place = |guid| (0..8).find(|&host| bench.guid(host) == guid).unwrap();
    let all = bench.sa.groups().iter().flat_map(|group| &group.members);
    all.map(|member| {
        let by = match member.joined_by {
            JoinedBy::Itself => Some(place(member.guid)),
            JoinedBy::Proxy(by) => by.map(place),
        };
        (place(member.guid), member.join_state, by)
    })
    .collect()
}

#[test]
fn members_of_a_partition_join_and_leave_for_each_other() {
    let mut bench = Bench::new(&wish());
    assert_eq!(set(&mut bench, 0, 1, 1), Ok((1, 1)), "a group that a proxy creates");
    assert_eq!(set(&mut bench, 2, 3, 4), Ok((4, 1)));
    assert_eq!(members(&bench), [(1, 1, Some(0)), (3, 4, Some(2))]);
    // Any member of the partition may change a membership made by proxy.
    assert_eq!(set(&mut bench, 4, 3, 1), Ok((5, 1)));
    assert_eq!(delete(&mut bench, 0, 3, 4), Ok((1, 1)));
    assert_eq!(delete(&mut bench, 4, 1, 1), Ok((0, 1)));
    assert_eq!(delete(&mut bench, 4, 1, 1), INVALID, "it is none any more");
    // The port itself may change it too.
    assert_eq!(delete(&mut bench, 3, 3, 1), Ok((0, 1)));
    assert_eq!(bench.sa.groups().iter().count(), 0);
}

#[test]
fn others_may_neither_join_nor_leave_for_them() {
    let mut bench = Bench::new(&wish());
    // The requester shares no partition with the port; the port is not in the group's partition; two limited members
    // may not communicate.
    assert_eq!(set(&mut bench, 5, 0, 1), INVALID);
    assert_eq!(set(&mut bench, 0, 5, 1), INVALID);
    assert_eq!(set(&mut bench, 6, 7, 1), INVALID);
    assert_eq!(bench.sa.groups().iter().count(), 0, "no group has begun");
    assert_eq!(set(&mut bench, 6, 0, 1), Ok((1, 1)), "a limited member for a full one");
    assert_eq!(set(&mut bench, 5, 1, 1), INVALID);
    assert_eq!(set(&mut bench, 6, 7, 1), INVALID);
    assert_eq!(delete(&mut bench, 5, 0, 1), INVALID);
    assert_eq!(members(&bench), [(0, 1, Some(6))]);
}

#[test]
fn what_a_port_has_joined_itself_is_its_own() {
    let mut bench = Bench::new(&wish());
    assert_eq!(set(&mut bench, 1, 1, 1), Ok((1, 0)));
    assert_eq!(set(&mut bench, 0, 1, 4), INVALID);
    assert_eq!(delete(&mut bench, 0, 1, 1), INVALID);
    // Another port joined for it first. After its own join it owns the membership nevertheless.
    assert_eq!(set(&mut bench, 0, 2, 1), Ok((1, 1)));
    assert_eq!(set(&mut bench, 2, 2, 1), Ok((1, 0)));
    assert_eq!(delete(&mut bench, 0, 2, 1), INVALID);
    assert_eq!(members(&bench), [(1, 1, Some(1)), (2, 1, Some(2))]);
    assert_eq!(delete(&mut bench, 2, 2, 1), Ok((0, 0)));
}

#[test]
fn whoever_shows_the_key_may_all_of_it() {
    let mut bench = Bench::new(&wish());
    assert_eq!(set(&mut bench, 1, 1, 1), Ok((1, 0)));
    bench.key = 1;
    assert_eq!(set(&mut bench, 5, 2, 1), Ok((1, 1)));
    assert_eq!(set(&mut bench, 5, 1, 4), Ok((5, 0)), "it stays the port's");
    assert_eq!(members(&bench), [(1, 5, Some(1)), (2, 1, None)]);
    assert_eq!(
        set(&mut bench, 0, 5, 1),
        INVALID,
        "the port itself has to be in the partition"
    );
    // Trusted requesters see which members joined by proxy, and may query for it.
    bench.lid = bench.host(0);
    let told = bench.ask(Method::GetTable, &records::MEMBER, &[(f::PROXY, number(1_u8))]);
    let of = |row| Gid(f::PORT_GID.wide(row));
    assert_eq!(told.rows.iter().map(of).collect::<Vec<_>>(), [bench.gid(2)]);
    assert_eq!(delete(&mut bench, 5, 1, 5), Ok((0, 0)));
    bench.key = 2;
    assert_eq!(delete(&mut bench, 5, 2, 1), Err(SaStatus::DENIED), "a wrong one");
    bench.key = 0;
    assert_eq!(delete(&mut bench, 0, 2, 1), Ok((0, 1)));
}

#[test]
fn a_proxy_uses_up_its_own_groups_and_nobody_elses() {
    let config = Config {
        groups_per_client: 2,
        ..Config::default()
    };
    let mut bench = Bench::with(&wish(), config);
    let mut create = |asker: usize, host: usize| {
        let mut fields = named(&bench, Gid::default(), host, 1);
        fields.extend(group_parameters());
        ask(&mut bench, asker, Method::Set, &fields).map(|_| ())
    };
    let (done, full) = (Ok(()), Err(SaStatus::NO_RESOURCES));
    assert_eq!(
        [create(0, 1), create(0, 2), create(0, 3), create(0, 0)],
        [done, done, full, full]
    );
    assert_eq!([create(1, 1), create(1, 1), create(1, 1)], [done, done, full]);
}

#[test]
fn it_is_remembered_who_joined() {
    let mut bench = Bench::new(&wish());
    assert_eq!(set(&mut bench, 0, 1, 1), Ok((1, 1)));
    assert_eq!(set(&mut bench, 2, 2, 1), Ok((1, 0)));
    bench.key = 1;
    assert_eq!(set(&mut bench, 0, 3, 1), Ok((1, 1)));
    bench.key = 0;
    let before = members(&bench);
    assert_eq!(before, [(1, 1, Some(0)), (2, 1, Some(2)), (3, 1, None)]);
    let text = bench.sa.registrations().to_text();
    let kept = Registrations::from_text(&text).unwrap();
    bench.sa = Sa::with_registrations(Config::default(), bench.now, kept);
    bench.feed(Input::Serve);
    let snapshot = Arc::clone(&bench.snapshot);
    bench.feed(Input::Committed(snapshot));
    assert_eq!(members(&bench), before);
    assert_eq!(delete(&mut bench, 4, 2, 1), INVALID);
    assert_eq!(delete(&mut bench, 4, 1, 1), Ok((0, 1)));
}

#[test]
fn a_standby_knows_that_it_was_a_proxy() {
    let mut two = Two::with(&wish());
    for host in [1, 2] {
        let mut fields = named(&two.master, IPOIB, host, 1);
        fields.extend(group_parameters());
        let mad = two.master.question(Method::Set, &records::MEMBER, &fields);
        two.ask(two.master.host(1), &mad);
    }
    two.pass(100);
    two.check_same();
    let copy = two.copy.to_text();
    let line = |host: usize, more: &str| format!("member {} 1{more}\n", two.master.guid(host));
    assert!(
        copy.contains(&line(1, "")) && copy.contains(&line(2, " proxy")),
        "{copy}"
    );
}
