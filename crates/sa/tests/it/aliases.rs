//! Alias GUIDs: GUIDInfoRecord sets and deletes them, and every record that names a port accepts them.

use crate::support;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{Bench, Value, Wish, group_parameters, number};
use selvedge_plan::aliases::PortAliases;
use selvedge_sa::{Config, Input, Registrations, Sa};
use selvedge_sim::Time;
use selvedge_types::{Guid, PKey};
use selvedge_wire::sa::records::guid_info as f;
use selvedge_wire::sa::{Field, SaStatus, records};
use selvedge_wire::{Class, Gid, Mad, Method, Status};

const TREE: &str = "pgft:m=2x4,w=1x2,p=1x1";
const ENTRIES: [Field; 8] = [
    f::GUID0,
    f::GUID1,
    f::GUID2,
    f::GUID3,
    f::GUID4,
    f::GUID5,
    f::GUID6,
    f::GUID7,
];
/// The first GUID that OpenSM assigns.
const FIRST: u64 = 0x0014_0500_0000_0001;

/// Returns a fabric with hosts that have room for this many GUIDs.
fn tree(guid_cap: u8) -> Bench {
    Bench::new(&Wish {
        guid_cap,
        ..Wish::new(TREE)
    })
}

/// Returns the fields of a request for a block of a host.
fn block(bench: &Bench, host: usize, block: u8, guids: &[(usize, u64)]) -> Vec<(Field, Value)> {
    let mut fields = vec![(f::LID, number(bench.host(host).0)), (f::BLOCK, number(block))];
    fields.extend(guids.iter().map(|&(place, guid)| (ENTRIES[place], Value::Number(guid))));
    fields
}

/// Sends a change. Returns the status and the entries in the answer.
fn change(bench: &mut Bench, method: Method, fields: &[(Field, Value)]) -> (Status, [u64; 8]) {
    let told = bench.ask(method, &records::GUID_INFO, fields);
    let row = told.rows.first().copied();
    (told.status, ENTRIES.map(|field| row.map_or(0, |row| field.get(&row))))
}

/// A host sets its own entries. Returns the answer.
fn set(bench: &mut Bench, host: usize, number: u8, guids: &[(usize, u64)]) -> [u64; 8] {
    bench.lid = bench.host(host);
    let fields = block(bench, host, number, guids);
    let (status, answer) = change(bench, Method::Set, &fields);
    assert_eq!(status, Status::OK, "host {host} block {number} {guids:x?}");
    answer
}

/// Returns the contents of a host's block.
fn held(bench: &mut Bench, host: usize, number: u8) -> [u64; 8] {
    let fields = block(bench, host, number, &[]);
    let (status, answer) = change(bench, Method::Get, &fields);
    assert_eq!(status, Status::OK);
    answer
}

/// Returns the changed ports that the manager gets.
fn told(bench: &mut Bench) -> Vec<(Guid, Vec<(u8, u64)>)> {
    let changed = bench.sa.take_changed_aliases().into_iter();
    let all = changed.map(|PortAliases { port, guids }| (port, guids.iter().map(|(at, guid)| (*at, guid.0)).collect()));
    all.collect()
}

#[test]
fn wrong_requests_are_refused_as_by_opensm() {
    let mut bench = tree(12);
    let own = bench.guid(0).0;
    let refused = |bench: &mut Bench, fields: &[(Field, Value)], want: Status| {
        for method in [Method::Set, Method::Delete] {
            assert_eq!(change(bench, method, fields).0, want, "{method:?} {fields:x?}");
        }
    };
    let all = block(&bench, 0, 0, &[(1, 0x11)]);
    refused(&mut bench, &all[1..], SaStatus::INSUFFICIENT_COMPONENTS);
    refused(
        &mut bench,
        &[all[0].clone(), all[2].clone()],
        SaStatus::INSUFFICIENT_COMPONENTS,
    );
    let nobody = [(f::LID, number(999_u16)), (f::BLOCK, number(0_u8))];
    refused(&mut bench, &nobody, SaStatus::NO_RECORDS);
    for beyond in [2, 31, 255] {
        let beyond = block(&bench, 0, beyond, &[(1, 0x11)]);
        refused(&mut bench, &beyond, SaStatus::NO_RECORDS);
    }
    for guid in [own, 0x11, 0] {
        let first = block(&bench, 0, 0, &[(0, guid), (1, 0x11)]);
        refused(&mut bench, &first, SaStatus::REQUEST_INVALID);
    }
    // Another port's entry is refused; a switch has room for one GUID.
    let others = block(&bench, 1, 0, &[(1, 0x11)]);
    refused(&mut bench, &others, SaStatus::DENIED);
    bench.key = 1;
    let switch = [(f::LID, number(1_u16)), (f::BLOCK, number(1_u8))];
    refused(&mut bench, &switch, SaStatus::NO_RECORDS);
    assert_eq!(change(&mut bench, Method::Set, &others).0, Status::OK, "trusted");
    assert_eq!(bench.sa.aliases().count(), 1);
}

#[test]
fn entries_are_set_and_deleted() {
    let mut bench = tree(12);
    let own = [0, 1].map(|host| bench.guid(host).0);
    assert_eq!(held(&mut bench, 0, 0), [own[0], 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        set(&mut bench, 0, 0, &[(1, 0x11), (3, 0x13)]),
        [own[0], 0x11, 0, 0x13, 0, 0, 0, 0]
    );
    // Only named entries change, and there is no room after the twelfth.
    assert_eq!(set(&mut bench, 0, 0, &[(1, 0x21)]), [own[0], 0x21, 0, 0x13, 0, 0, 0, 0]);
    assert_eq!(
        set(&mut bench, 0, 1, &[(3, 0x1B), (4, 0x1C)]),
        [0, 0, 0, 0x1B, 0, 0, 0, 0]
    );
    assert_eq!(
        told(&mut bench),
        [(Guid(own[0]), vec![(1, 0x21), (3, 0x13), (11, 0x1B)])]
    );
    assert_eq!(told(&mut bench), []);
    // A GUID of another port, one that the port has at another entry, and a port's own GUID are not entered.
    assert_eq!(
        set(&mut bench, 1, 0, &[(1, 0x13), (2, own[0]), (3, own[1])]),
        [own[1], 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(set(&mut bench, 0, 0, &[(2, 0x1B)]), [own[0], 0x21, 0, 0x13, 0, 0, 0, 0]);
    // A removed GUID is free.
    assert_eq!(set(&mut bench, 1, 0, &[(1, 0x11)]), [own[1], 0x11, 0, 0, 0, 0, 0, 0]);
    bench.lid = bench.host(0);
    let some = block(&bench, 0, 0, &[(3, 0), (5, 0)]);
    assert_eq!(
        change(&mut bench, Method::Delete, &some),
        (Status::OK, [own[0], 0x21, 0, 0, 0, 0, 0, 0])
    );
    assert_eq!(held(&mut bench, 0, 0), [own[0], 0x21, 0, 0, 0, 0, 0, 0]);
    // Asked by what a block holds.
    let by_guid = bench.ask(Method::GetTable, &records::GUID_INFO, &[(f::GUID3, number(0x1B_u8))]);
    assert_eq!(by_guid.rows.len(), 1);
}

#[test]
fn guid_0_keeps_remembers_and_gives_out() {
    let mut bench = tree(16);
    let own = [0, 1].map(|host| bench.guid(host).0);
    assert_eq!(
        set(&mut bench, 0, 0, &[(1, 0), (2, 0x12)]),
        [own[0], FIRST, 0x12, 0, 0, 0, 0, 0]
    );
    assert_eq!(
        set(&mut bench, 0, 0, &[(1, 0), (2, 0)]),
        [own[0], FIRST, 0x12, 0, 0, 0, 0, 0]
    );
    assert_eq!(set(&mut bench, 1, 1, &[(0, 0)]), [FIRST + 1, 0, 0, 0, 0, 0, 0, 0]);
    // The entry gets its former GUID.
    bench.lid = bench.host(0);
    let first = block(&bench, 0, 0, &[(1, 0)]);
    assert_eq!(change(&mut bench, Method::Delete, &first).1[1], 0);
    assert_eq!(set(&mut bench, 0, 0, &[(1, 0)])[1], FIRST);
    // But not while another port has it.
    assert_eq!(change(&mut bench, Method::Delete, &first).1[1], 0);
    assert_eq!(set(&mut bench, 1, 0, &[(1, FIRST)])[1], FIRST);
    assert_eq!(set(&mut bench, 0, 0, &[(1, 0)])[1], 0);
    // A GUID chosen by a client is not assigned to others.
    assert_eq!(set(&mut bench, 0, 0, &[(3, FIRST + 2)])[3], FIRST + 2);
    assert_eq!(set(&mut bench, 0, 0, &[(4, 0)])[4], FIRST + 3);
}

#[test]
fn aliases_name_their_port() {
    let mut bench = tree(8);
    set(&mut bench, 1, 0, &[(1, 0x51)]);
    set(&mut bench, 0, 0, &[(1, 0x50)]);
    let gid = |bench: &Bench, guid: u64| Gid::new(bench.gid(0).prefix(), Guid(guid));
    let (from, to) = (gid(&bench, 0x50), gid(&bench, 0x51));
    let lids = (u64::from(bench.host(0).0), u64::from(bench.host(1).0));
    {
        use records::path as f;
        let ends = [(f::SGID, Value::Gid(from)), (f::DGID, Value::Gid(to))];
        let path = bench.ask(Method::Get, &records::PATH, &ends);
        assert_eq!(path.status, Status::OK);
        let row = path.rows[0];
        assert_eq!(
            (Gid(f::SGID.wide(&row)), Gid(f::DGID.wide(&row))),
            (from, to),
            "as they were asked for"
        );
        assert_eq!((f::SLID.get(&row), f::DLID.get(&row)), lids);
        let stranger = [(f::SGID, Value::Gid(from)), (f::DGID, Value::Gid(gid(&bench, 0x52)))];
        assert_eq!(
            bench.ask(Method::Get, &records::PATH, &stranger).status,
            SaStatus::INVALID_GID
        );
    }
    {
        use records::multi_path as f;
        let gids = Value::Bytes([from.0, to.0].concat());
        let ends = [
            (f::SGID_COUNT, number(1_u8)),
            (f::DGID_COUNT, number(1_u8)),
            (f::GIDS, gids),
        ];
        let paths = bench.ask(Method::GetMulti, &records::MULTI_PATH, &ends);
        let row = paths.rows[0];
        assert_eq!(Gid(records::path::DGID.wide(&row)), to);
        assert_eq!(records::path::DLID.get(&row), lids.1);
    }
    {
        use records::service as f;
        let own = [(f::ID, number(7_u8)), (f::GID, Value::Gid(from))];
        assert_eq!(bench.ask(Method::Set, &records::SERVICE, &own).status, Status::OK);
        let others = [(f::ID, number(8_u8)), (f::GID, Value::Gid(to))];
        assert_eq!(
            bench.ask(Method::Set, &records::SERVICE, &others).status,
            SaStatus::DENIED
        );
    }
}

/// Joins a group as a port with this GUID. Returns the status.
fn join(bench: &mut Bench, method: Method, guid: u64) -> Status {
    use records::member as f;
    let group = Gid([0xFF, 0x12, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    let port = Gid::new(bench.gid(0).prefix(), Guid(guid));
    let mut fields = vec![
        (f::MGID, Value::Gid(group)),
        (f::PORT_GID, Value::Gid(port)),
        (f::JOIN_STATE, number(1_u8)),
    ];
    fields.extend(group_parameters());
    bench.ask(method, &records::MEMBER, &fields).status
}

#[test]
fn aliases_are_members_of_their_own() {
    let mut bench = tree(8);
    let own = bench.guid(0).0;
    set(&mut bench, 0, 0, &[(1, 0x51), (2, 0x52)]);
    let members = |bench: &mut Bench| -> Vec<u64> {
        bench.key = 1;
        let rows = bench.ask(Method::GetTable, &records::MEMBER, &[]).rows;
        bench.key = 0;
        let guids = rows.iter().map(|row| Gid(records::member::PORT_GID.wide(row)).guid().0);
        guids.filter(|guid| *guid != 0).collect()
    };
    // For tree planning the port is one member, whichever of its GUIDs has joined.
    let trees = |bench: &mut Bench| -> Vec<Vec<u64>> {
        let groups = bench
            .sa
            .take_changed_groups()
            .into_iter()
            .filter(|group| !group.members.is_empty());
        let guids = groups.map(|group| group.members.iter().map(|member| member.guid.0).collect());
        guids.collect()
    };
    for guid in [0x51, 0x52, own] {
        assert_eq!(join(&mut bench, Method::Set, guid), Status::OK, "{guid:x}");
        assert_eq!(trees(&mut bench), [[own]]);
    }
    assert_eq!(members(&mut bench), [0x51, 0x52, own]);
    assert_eq!(join(&mut bench, Method::Delete, 0x52), Status::OK);
    assert_eq!(members(&mut bench), [0x51, own]);
    assert_eq!(trees(&mut bench), [[own]]);
    // A member leaves its groups first.
    let both = block(&bench, 0, 0, &[(1, 0), (2, 0)]);
    assert_eq!(change(&mut bench, Method::Delete, &both).0, SaStatus::DENIED);
    assert_eq!(held(&mut bench, 0, 0)[1..3], [0x51, 0x52]);
    assert_eq!(join(&mut bench, Method::Delete, 0x51), Status::OK);
    assert_eq!(change(&mut bench, Method::Delete, &both).0, Status::OK);
    assert_eq!(members(&mut bench), [own]);
    assert_eq!(join(&mut bench, Method::Set, 0x51), SaStatus::INVALID_GID);
    // A GUID that is replaced is no longer a member.
    set(&mut bench, 0, 0, &[(1, 0x61)]);
    assert_eq!(join(&mut bench, Method::Set, 0x61), Status::OK);
    assert_eq!(join(&mut bench, Method::Delete, own), Status::OK);
    set(&mut bench, 0, 0, &[(1, 0x62)]);
    assert_eq!(members(&mut bench), [] as [u64; 0]);
}

#[test]
fn aliases_stay_while_their_port_is_away_unless_another_asks() {
    let wish = |gone: &[usize], generation: u64| Wish {
        guid_cap: 8,
        gone: gone.to_vec(),
        generation,
        ..Wish::new(TREE)
    };
    let mut bench = tree(8);
    let own = [3, 4].map(|host| bench.guid(host).0);
    set(&mut bench, 3, 0, &[(1, 0x31), (2, 0x32)]);
    let lid = bench.lid;
    assert_eq!(join(&mut bench, Method::Set, 0x31), Status::OK);
    told(&mut bench);
    bench.commit(&wish(&[3], 2));
    assert_eq!(bench.sa.aliases().count(), 2);
    assert_eq!(bench.sa.registered()[3], 0, "members are gone with their port");
    assert_eq!(
        bench.sa.registrations().forgotten().iter().collect::<Vec<_>>(),
        [&Guid(own[0])]
    );
    // A virtual function has moved to another port.
    assert_eq!(set(&mut bench, 3, 0, &[(1, 0x31)]), [own[1], 0x31, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        told(&mut bench),
        [(Guid(own[0]), vec![(2, 0x32)]), (Guid(own[1]), vec![(1, 0x31)])]
    );
    bench.commit(&wish(&[], 3));
    assert_eq!(bench.host(3), lid);
    assert_eq!(held(&mut bench, 3, 0), [own[0], 0, 0x32, 0, 0, 0, 0, 0]);
}

#[test]
fn a_port_that_comes_has_its_own_guid() {
    let wish = |gone: &[usize], generation: u64| Wish {
        guid_cap: 8,
        gone: gone.to_vec(),
        generation,
        ..Wish::new(TREE)
    };
    let whole = tree(8);
    let late = whole.guid(5).0;
    let mut bench = Bench::new(&wish(&[5], 1));
    assert_eq!(set(&mut bench, 0, 0, &[(1, late), (2, 0x12)])[1..3], [late, 0x12]);
    told(&mut bench);
    let before = bench.sa.revision();
    bench.commit(&wish(&[], 2));
    assert_eq!(held(&mut bench, 0, 0)[1..3], [0, 0x12]);
    assert_eq!(told(&mut bench), [(bench.guid(0), vec![(2, 0x12)])]);
    assert_ne!(bench.sa.revision(), before, "to be stored");
}

#[test]
fn there_are_so_many_and_no_more() {
    let config = Config {
        aliases: 16,
        ..Config::default()
    };
    let wish = |gone: &[usize], generation: u64| Wish {
        guid_cap: 32,
        gone: gone.to_vec(),
        generation,
        ..Wish::new(TREE)
    };
    let mut bench = Bench::with(&wish(&[], 1), config);
    let many: Vec<(usize, u64)> = (0..8).map(|place| (place, 0x100 + place as u64)).collect();
    set(&mut bench, 2, 1, &many);
    set(&mut bench, 2, 2, &[(0, 0x200)]);
    let more = block(&bench, 2, 3, &[(0, 0x300)]);
    assert_eq!(change(&mut bench, Method::Set, &more).0, SaStatus::NO_RESOURCES);
    bench.commit(&wish(&[2], 2));
    // Aliases of an absent port are removed to make room.
    set(&mut bench, 0, 1, &[(0, 0x300)]);
    assert_eq!(bench.sa.aliases().count(), 1);
}

#[test]
fn aliases_outlive_the_process() {
    let mut bench = tree(255);
    set(&mut bench, 0, 0, &[(1, 0), (7, 0x17)]);
    set(&mut bench, 1, 31, &[(6, 0x1F6)]);
    let first = block(&bench, 0, 0, &[(1, 0)]);
    bench.lid = bench.host(0);
    change(&mut bench, Method::Delete, &first);
    let text = bench.sa.registrations().to_text();
    let kept = Registrations::from_text(&text).unwrap();
    let mut sa = Sa::with_registrations(Config::default(), Time::ZERO, kept);
    sa.handle(
        Time::ZERO,
        Input::Committed(Arc::clone(&bench.snapshot)),
        &mut Vec::new(),
    );
    assert_eq!(sa.registrations().to_text(), text);
    bench.sa = sa;
    let want: BTreeMap<Guid, Vec<(u8, u64)>> =
        [(bench.guid(0), vec![(7, 0x17)]), (bench.guid(1), vec![(254, 0x1F6)])].into();
    assert_eq!(told(&mut bench), Vec::from_iter(want));
    // An assigned GUID is remembered and not assigned to another port.
    assert_eq!(set(&mut bench, 2, 0, &[(1, 0)])[1], FIRST + 1);
    assert_eq!(set(&mut bench, 0, 0, &[(1, 0)])[1], FIRST);
}

#[test]
fn standbys_copy_them() {
    let mut two = support::two::Two::with(&Wish {
        guid_cap: 255,
        ..Wish::new(TREE)
    });
    two.pass(10);
    let (lid, port) = (two.master.host(1), two.master.guid(1));
    let fields = block(&two.master, 1, 31, &[(6, 0), (5, 0x55)]);
    let mad: Mad = two.master.question(Method::Set, &records::GUID_INFO, &fields);
    assert_eq!(mad.class(), Class::SubnAdm);
    two.set(lid, &mad);
    assert!(
        !two.is_all(),
        "the standby knows that something is new before the host is answered"
    );
    two.pass(100);
    assert!(two.is_all());
    two.check_same();
    let text = two.copy.to_text();
    for line in [
        format!("alias {port} 253 {}", Guid(0x55)),
        format!("alias {port} 254 {}", Guid(FIRST)),
        format!("given {port} 254 {}", Guid(FIRST)),
    ] {
        assert!(text.lines().any(|have| have == line), "{line}\n{text}");
    }
    // A manager with an older copy is informed of removed aliases.
    let mut standby = Sa::new(Config::default());
    for copy in [two.copy.clone(), Registrations::default()] {
        standby.handle(two.master.now, Input::Copied(Box::new(copy)), &mut Vec::new());
    }
    let told = standby.take_changed_aliases();
    assert_eq!(
        told.iter().map(|of| (of.port, of.guids.len())).collect::<Vec<_>>(),
        [(port, 0)]
    );
    // Untrusted requesters do not see them in this form.
    two.master.lid = two.master.host(2);
    assert_eq!(
        two.master.ask(Method::GetTable, &records::ALIAS, &[]).status,
        SaStatus::DENIED
    );
}

#[test]
fn partitions_do_not_matter_to_the_port_itself() {
    let mut bench = Bench::new(&Wish {
        guid_cap: 8,
        keys: [(0, vec![PKey(0x8001)])].into(),
        ..Wish::new(TREE)
    });
    assert_eq!(set(&mut bench, 0, 0, &[(1, 0x11)])[1], 0x11);
    bench.feed(Input::Forget);
    assert_eq!(bench.sa.aliases().count(), 0);
}
