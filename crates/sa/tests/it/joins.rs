//! Tests every JoinState: the result of a join with and without a group, the result of a leave, and the lifetime of a
//! group.
//!
//! Source: IBA vol 1 §15.2.5.17 (o15-0.1.9: states that create a group; o15-0.2.4: states that join; o15-0.1.14:
//! leaves). Its release 1.3 adds send-only full members, which create and keep a group as full members do.
//! `conformance/tests/it/join_states.rs` sends OpenSM the same requests.

use std::collections::BTreeSet;

use selvedge_wire::sa::{Field, SaStatus, records};
use selvedge_wire::{Gid, Method, Status};

use crate::support::{Bench, Value, Wish, group_parameters, number};
use records::member as f;

const TREE: &str = "pgft:m=2x4,w=1x2,p=1x1";
const GROUP: Gid = Gid([0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
/// Join states that create a group and keep it alive.
const KEEPS: u8 = 1 | 8;

/// The components of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Components {
    /// MGID, PortGID and JoinState.
    Join,
    /// All components that create a group.
    Create,
}

fn fields(bench: &Bench, host: usize, state: u8, components: Components) -> Vec<(Field, Value)> {
    let mut fields = vec![
        (f::MGID, Value::Gid(GROUP)),
        (f::PORT_GID, Value::Gid(bench.gid(host))),
        (f::JOIN_STATE, number(state)),
    ];
    if components == Components::Create {
        fields.extend(group_parameters());
    }
    fields
}

/// Sends a host's request. Returns MLID and JoinState of the answer.
fn ask(
    bench: &mut Bench,
    method: Method,
    host: usize,
    state: u8,
    components: Components,
) -> Result<(u64, u64), Status> {
    bench.lid = bench.host(host);
    let fields = fields(bench, host, state, components);
    let told = bench.ask(method, &records::MEMBER, &fields);
    let row = told.rows.first();
    row.map(|row| (f::MLID.get(row), f::JOIN_STATE.get(row)))
        .ok_or(told.status)
}

fn join(bench: &mut Bench, host: usize, state: u8) -> Result<(u64, u64), Status> {
    ask(bench, Method::Set, host, state, Components::Create)
}

fn leave(bench: &mut Bench, host: usize, state: u8) -> Result<(u64, u64), Status> {
    ask(bench, Method::Delete, host, state, Components::Join)
}

/// Returns the states of the members if the group exists.
fn members(bench: &Bench) -> Option<Vec<u8>> {
    let group = bench.sa.groups().iter().next()?;
    Some(group.members.iter().map(|member| member.join_state).collect())
}

/// The case of a public report: a kernel joins a missing group as send-only full member. It sends all components that
/// create a group, without an earlier query.
#[test]
fn a_send_only_full_member_creates_a_group() {
    let mut bench = Bench::new(&Wish::new(TREE));
    assert_eq!(join(&mut bench, 0, 8), Ok((0xC000, 8)));
    let group = bench.sa.take_changed_groups().pop().unwrap();
    let receives: Vec<bool> = group.members.iter().map(|member| member.receives).collect();
    assert_eq!(receives, [false], "it gets no copies");
}

#[test]
fn every_join_state_where_the_group_is_not_there() {
    for state in 0..16 {
        for components in [Components::Join, Components::Create] {
            let mut bench = Bench::new(&Wish::new(TREE));
            let want = match components {
                _ if state & KEEPS == 0 => Err(SaStatus::REQUEST_INVALID),
                Components::Join => Err(SaStatus::INSUFFICIENT_COMPONENTS),
                Components::Create => Ok((0xC000, u64::from(state))),
            };
            let got = ask(&mut bench, Method::Set, 0, state, components);
            assert_eq!(got, want, "JoinState {state} {components:?}");
            assert_eq!(members(&bench), want.ok().map(|_| vec![state]), "JoinState {state}");
        }
    }
}

#[test]
fn every_join_state_where_the_group_is_there() {
    for creator in [1, 8] {
        for state in 0..16 {
            for components in [Components::Join, Components::Create] {
                let mut bench = Bench::new(&Wish::new(TREE));
                assert_eq!(join(&mut bench, 0, creator), Ok((0xC000, u64::from(creator))));
                let got = ask(&mut bench, Method::Set, 1, state, components);
                let want = match state {
                    0 => Err(SaStatus::REQUEST_INVALID),
                    state => Ok((0xC000, u64::from(state))),
                };
                assert_eq!(got, want, "JoinState {state} {components:?} beside {creator}");
            }
        }
    }
}

/// The states of a port accumulate.
#[test]
fn states_add_up() {
    for first in 1..16 {
        for second in 1..16 {
            let mut bench = Bench::new(&Wish::new(TREE));
            assert_eq!(join(&mut bench, 0, 1).map(|(_, state)| state), Ok(1));
            assert_eq!(join(&mut bench, 1, first).map(|(_, state)| state), Ok(u64::from(first)));
            let both = u64::from(first | second);
            assert_eq!(join(&mut bench, 1, second).map(|(_, state)| state), Ok(both));
        }
    }
}

/// For each held state, gives up every state: a leave succeeds only for states that are held. The group ends with the
/// last state that keeps it, and with it its other members.
#[test]
fn every_leave_of_every_state() {
    for (held, given) in (1..16_u8).flat_map(|held| (0..16_u8).map(move |given| (held, given))) {
        for keeper in [0, 1, 2, 4, 8] {
            let mut bench = Bench::new(&Wish::new(TREE));
            // A temporary full member creates the group, because neither of the two may be able to.
            assert!(join(&mut bench, 2, 1).is_ok());
            assert!(join(&mut bench, 0, held).is_ok());
            if keeper != 0 {
                assert!(join(&mut bench, 1, keeper).is_ok());
            }
            assert_eq!(leave(&mut bench, 2, 1), Ok((0xC000, 0)));
            let case = format!("has {held}, gives {given} up, beside {keeper}");
            if (held | keeper) & KEEPS == 0 {
                assert_eq!(members(&bench), None, "{case}");
                continue;
            }
            let got = leave(&mut bench, 0, given);
            if given == 0 || given & !held != 0 {
                assert_eq!(got, Err(SaStatus::REQUEST_INVALID), "{case}");
                assert!(members(&bench).is_some(), "{case}");
                continue;
            }
            let left = held & !given;
            assert_eq!(got, Ok((0xC000, u64::from(left))), "{case}");
            let want: BTreeSet<u8> = [left, keeper].into_iter().filter(|state| *state != 0).collect();
            let want = Some(want).filter(|_| (left | keeper) & KEEPS != 0);
            let found = members(&bench).map(|members| members.into_iter().collect::<BTreeSet<u8>>());
            assert_eq!(found, want, "{case}");
        }
    }
}

/// A port that vanishes leaves all its groups.
#[test]
fn a_port_that_is_gone_keeps_no_group() {
    for (keeper, want) in [(1, true), (2, false), (4, false), (8, true)] {
        let mut bench = Bench::new(&Wish::new(TREE));
        assert!(join(&mut bench, 7, 8).is_ok());
        assert!(join(&mut bench, 0, keeper).is_ok());
        bench.commit(&Wish {
            gone: vec![7],
            generation: 2,
            ..Wish::new(TREE)
        });
        assert_eq!(members(&bench).is_some(), want, "beside {keeper}");
    }
}

/// Sends requests without MGID, without JoinState, and without each component that creates a group.
#[test]
fn what_a_join_needs() {
    let mut bench = Bench::new(&Wish::new(TREE));
    let all = fields(&bench, 0, 8, Components::Create);
    for missing in [1, 2] {
        let mut fields = all.clone();
        fields.remove(missing);
        let told = bench.ask(Method::Set, &records::MEMBER, &fields);
        assert_eq!(told.status, SaStatus::INSUFFICIENT_COMPONENTS, "{missing}");
    }
    // Q_Key, TClass, P_Key, SL and flow label are needed to create a group; the MTU is optional.
    for at in 3..all.len() {
        let mut fields = all.clone();
        let (field, _) = fields.remove(at);
        let told = bench.ask(Method::Set, &records::MEMBER, &fields);
        let is_needed = [f::QKEY, f::TRAFFIC_CLASS, f::PKEY, f::SL, f::FLOW_LABEL].contains(&field);
        let want = match is_needed {
            true => SaStatus::INSUFFICIENT_COMPONENTS,
            false => Status::OK,
        };
        assert_eq!(told.status, want, "{}", field.name);
    }
}
