//! A standby's copy of the registrations at the master, and whether the standby knows that it is complete.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::support::two::{TREE, Two};
use crate::support::{Bench, Value, Wish, number};
use selvedge_plan::ServiceLevels;
use selvedge_sa::{Config, Input, Sa, Worth};
use selvedge_types::Sl;
use selvedge_wire::sa::{Rmpp, SaStatus, records};
use selvedge_wire::{AttributeId, Datagram, Method, Status};

#[test]
fn the_copy_is_what_the_master_has_and_knows_when_it_is_not() {
    let mut two = Two::new();
    two.join(1);
    two.pass(10);
    assert_eq!((two.copies, two.members(), two.is_all()), (1, 1, true));
    two.check_same();
    // Nothing happens: nothing is copied.
    two.pass(10_000);
    assert_eq!((two.copies, two.is_all()), (1, true));
    // The standby knows of a change before the host that made it gets its answer.
    two.join(2);
    assert!(!two.is_all());
    two.join(3);
    two.pass(100);
    assert_eq!((two.copies, two.members(), two.is_all()), (2, 3, true));
    two.check_same();
}

#[test]
fn what_senders_are_told_is_copied_until_they_are_told_something_else() {
    let wish = |relied_on: u8, level: u8, generation: u64| {
        let of_lid = |lid: u8| Sl::new((lid + level) % 4).unwrap();
        Wish {
            relied_on,
            levels: ServiceLevels::PerDestination((0..64).map(of_lid).collect()),
            generation,
            lmc: 1,
            ..Wish::new(TREE)
        }
    };
    let mut two = Two::with(&wish(4, 0, 1));
    two.pass(10);
    let check = |two: &mut Two, lanes: u8, level: u8| {
        let told = two.copier.take_levels().unwrap();
        assert_eq!((told.by, told.lanes), (two.master.host(0), lanes));
        let snapshot = Arc::clone(&two.master.snapshot);
        let (plan, fabric) = (snapshot.plan(), snapshot.fabric());
        assert_eq!(told.by_port.len(), if lanes > 1 { plan.lids.iter().count() } else { 0 });
        for (at, range) in plan.lids.iter().filter(|_| lanes > 1) {
            let want: Vec<u8> = range.iter().map(|lid| (lid.0 as u8 + level) % 4).collect();
            assert_eq!(told.by_port.get(&fabric.port(at).unwrap().guid), Some(&want));
        }
        assert!(two.copier.take_levels().is_none());
    };
    check(&mut two, 4, 0);
    let commit = |two: &mut Two, wish: &Wish| {
        let said = two.master.feed(Input::Committed(wish.snapshot()));
        let own = two.own;
        let to_us = said
            .into_iter()
            .map(|output| output.datagram)
            .filter(|to| to.address.lid == own);
        let to_us = to_us.collect();
        two.hand(to_us);
    };
    // A plan with the same service levels is not reported, and neither is an unchanged member.
    commit(&mut two, &wish(4, 0, 2));
    assert!(two.is_all());
    two.join(2);
    two.pass(100);
    assert!(two.is_all() && two.copier.take_levels().is_none());
    // With other levels, the standby knows that its levels are out of date before any sender gets new ones.
    commit(&mut two, &wish(4, 1, 3));
    assert_eq!(two.copier.take_levels().map(|told| told.lanes), Some(0));
    two.pass(100);
    check(&mut two, 4, 1);
    commit(&mut two, &wish(1, 1, 4));
    assert_eq!(two.copier.take_levels().map(|told| told.lanes), Some(0));
    two.pass(100);
    check(&mut two, 1, 1);
}

#[test]
fn a_better_manager_waits_for_its_first_copy_but_not_for_ever() {
    let after = |two: &mut Two, ms: u64| {
        two.pass(ms);
        two.copier.is_settled(two.master.now)
    };
    let mut two = Two::new();
    assert!(!two.copier.is_settled(two.master.now));
    assert!(after(&mut two, 10));
    // A master of another make: the available data is enough.
    for refuses in [true, false] {
        let mut two = Two::new();
        two.is_foreign = Some(refuses);
        assert!(!two.copier.is_settled(two.master.now));
        assert!(after(&mut two, 1_000));
    }
    let mut two = Two::new();
    two.is_dead = true;
    assert!(!after(&mut two, 4_900));
    assert!(after(&mut two, 200));
}

#[test]
fn services_and_subscriptions_are_copied_as_well() {
    use records::{inform_info as i, service as s};
    let mut two = Two::new();
    let (gid, lid) = (two.master.gid(1), two.master.host(1));
    for (id, lease) in [(1_u8, 100_u32), (2, u32::MAX)] {
        let fields = [
            (s::ID, number(id)),
            (s::GID, Value::Gid(gid)),
            (s::LEASE, number(lease)),
            (s::KEY, Value::Bytes(vec![7; 16])),
        ];
        let mad = two.master.question(Method::Set, &records::SERVICE, &fields);
        two.set(lid, &mad);
    }
    let fields = [
        (i::LID_BEGIN, number(0xFFFF_u16)),
        (i::IS_GENERIC, number(1_u8)),
        (i::SUBSCRIBE, number(1_u8)),
        (i::TYPE, number(0xFFFF_u16)),
        (i::TRAP_NUMBER, number(66_u8)),
        (i::PRODUCER, number(0xFF_FFFF_u32)),
    ];
    let mad = two.master.question(Method::Set, &records::INFORM_INFO, &fields);
    two.set(lid, &mad);
    two.pass(10);
    assert_eq!(two.copy.counts(), (0, 0, 1, 2));
    let text = two.copy.to_text();
    assert!(
        text.contains(" 100 ") || text.contains(" 99 "),
        "what is left of a lease: {text}"
    );
    assert!(text.contains(&"07".repeat(16)), "the key of a service: {text}");
}

/// A port that left is recorded as forgotten; a standby knows it until it is back at the master.
#[test]
fn ports_that_the_master_has_forgotten_are_copied() {
    let mut two = Two::new();
    let guid = two.master.guid(7);
    two.join(7);
    two.join(1);
    two.pass(10);
    assert_eq!(two.copier.take_forgotten(), Some(BTreeSet::new()));
    let commit = |two: &mut Two, gone: Vec<usize>| {
        let wish = Wish {
            gone,
            ..Wish::new(TREE)
        };
        let own = two.own;
        let said = two.master.feed(Input::Committed(wish.snapshot())).into_iter();
        let to_us = said.map(|output| output.datagram).filter(|to| to.address.lid == own);
        let to_us = to_us.collect();
        two.hand(to_us);
        two.pass(100);
    };
    commit(&mut two, vec![7]);
    assert_eq!((two.members(), two.is_all()), (1, true));
    assert_eq!(two.copier.take_forgotten(), Some(BTreeSet::from([guid])));
    assert!(two.copy.forgotten().contains(&guid));
    two.check_same();
    // Without changes nothing is reported.
    two.join(2);
    two.pass(100);
    assert_eq!((two.members(), two.copier.take_forgotten()), (2, None));
    commit(&mut two, Vec::new());
    assert_eq!(two.copier.take_forgotten(), Some(BTreeSet::new()));
    let status = |two: &mut Two, key: u64| {
        two.master.key = key;
        two.master.ask(Method::GetTable, &records::FORGOTTEN, &[]).status
    };
    assert_eq!(status(&mut two, 1), Status::OK);
    assert_ne!(status(&mut two, 0), Status::OK);
}

#[test]
fn a_table_of_many_segments_is_copied_whole() {
    let mut two = Two::new();
    for host in [0, 1, 2, 3, 4, 6, 7] {
        two.join(host);
    }
    two.pass(10);
    // Seven rows of 56 bytes: two segments.
    assert_eq!((two.copies, two.members(), two.is_all()), (1, 7, true));
    two.check_same();
}

#[test]
fn of_a_master_that_says_no_revision_it_never_is_all() {
    for refuses in [true, false] {
        let mut two = Two::new();
        two.is_foreign = Some(refuses);
        two.join(1);
        two.pass(1_500);
        assert_eq!((two.members(), two.is_all()), (1, false), "{refuses}");
        let copies = two.copies;
        two.join(2);
        two.pass(1_000);
        assert_eq!(
            (two.copies, two.members(), two.is_all()),
            (copies + 1, 2, false),
            "{refuses}"
        );
    }
}

#[test]
fn what_was_all_stays_so_when_the_master_dies_and_what_was_not_does_not() {
    let mut two = Two::new();
    two.join(1);
    two.pass(10);
    two.is_dead = true;
    two.pass(10_000);
    assert_eq!(two.copier.worth(), Worth::Unproven);
    let mut two = Two::new();
    two.join(1);
    two.pass(10);
    two.join(2);
    two.is_dead = true;
    two.pass(10_000);
    assert_eq!(two.copier.worth(), Worth::Part);
    two.copier.end();
    assert_eq!((two.copier.worth(), two.copier.next_wake()), (Worth::Part, None));
}

#[test]
fn another_life_of_the_master_is_not_taken_for_this_one() {
    let mut two = Two::new();
    two.pass(10);
    assert_eq!((two.copies, two.is_all()), (1, true));
    let config = Config {
        life: 78,
        ..Config::default()
    };
    let now = two.master.now;
    two.master = Bench::with(&Wish::new("pgft:m=2x4,w=1x2,p=1x1"), config);
    two.master.now = now;
    two.pass(2_000);
    assert_eq!((two.copies, two.is_all()), (2, true));
}

#[test]
fn only_who_shows_the_key_is_told_and_told_again() {
    use records::revision as f;
    let mut bench = Bench::new(&Wish::new("pgft:m=2x4,w=1x2,p=1x1"));
    let status = |bench: &mut Bench| bench.ask(Method::Get, &records::REVISION, &[]).status;
    assert_ne!(status(&mut bench), Status::OK);
    bench.key = 1;
    assert_eq!(status(&mut bench), Status::OK);
    // The current number: no answer, however often it is asked, until the number changes.
    let fields = [(f::LIFE, number(0_u8)), (f::NUMBER, number(bench.sa.revision() as u32))];
    let mad = bench.question(Method::Get, &records::REVISION, &fields);
    assert_eq!((bench.send(&mad).len(), bench.send(&mad).len()), (0, 0));
    let told = bench.feed(Input::Withdraw);
    assert!(
        told.is_empty(),
        "a master that leaves is not one whose tables have changed"
    );
}

/// Arbitrary answers cause no panic, here or where the copy is taken over.
#[test]
fn answers_that_make_no_sense_are_no_copies() {
    let mut two = Two::new();
    two.join(1);
    two.pass(5);
    let mut out = Vec::new();
    let (mut tables, mut others, mut copies) = (0, 0, 0);
    for round in 0..2_000_u32 {
        two.master.now += Duration::from_millis(50);
        two.copier.wake(two.master.now, &mut out);
        for output in std::mem::take(&mut out) {
            if output.datagram.mad.attribute() == AttributeId::PORT_INFO {
                // PortInfo of its own port names the master.
                for told in two.answers(&output.datagram) {
                    two.copier.received(two.master.now, &told, &mut out);
                }
                continue;
            }
            let mut mad = output.datagram.mad;
            let method = if mad.method() == Method::GetTable {
                tables += 1;
                Method::GetTableResp
            } else {
                others += 1;
                // Refused, as by OpenSM: a revision would say that nothing has changed.
                mad.set_status(Status::BAD_METHOD_ATTRIBUTE);
                Method::GetResp
            };
            mad.set_method(method);
            mad.set_attribute_offset((round % 40) as u16);
            if method == Method::GetTableResp {
                mad.set_rmpp(Some(Rmpp {
                    segment: round % 5,
                    length: round.wrapping_mul(0x9E37_79B1),
                    ..Rmpp::data(1, selvedge_wire::sa::RmppFlags((round % 8) as u8), 0)
                }));
                mad.sa_data_mut().fill(round as u8);
            }
            let datagram = Datagram { mad, ..output.datagram };
            two.copier.received(two.master.now, &datagram, &mut out);
        }
        if let Some(copy) = two.copier.take() {
            copies += 1;
            let mut sa = Sa::new(Config::default());
            sa.handle(two.master.now, Input::Copied(copy), &mut Vec::new());
        }
    }
    println!("{tables} parts of tables, {others} other answers, {copies} copies");
    assert!(tables > 0 && others > 0 && copies > 0, "{tables} {others} {copies}");
}

/// A list of several rows, another one, and none again. A manager that registers nothing has none.
#[test]
fn the_list_of_places_out_of_service_is_copied() {
    let mut two = Two::new();
    two.pass(100);
    let taken = |two: &mut Two| two.copier.take_out_of_service().map(|list| list.to_text());
    assert_eq!(taken(&mut two).as_deref(), Some(""));
    let long = "drain switch 0x0000000000000010 since 5 reason the fan of the second power supply is broken\n";
    let two_places = format!("{long}isolate switch 0x0000000000000020 since 6 disabled 0x0000000000000030[1]\n");
    for text in [long, &two_places, ""] {
        two.master.feed(Input::OutOfService(text.into()));
        two.pass(2_000);
        assert_eq!(taken(&mut two).as_deref(), Some(text));
        assert!(two.is_all() && taken(&mut two).is_none());
    }
    // A registration is copied, and the list is the same.
    two.join(1);
    two.pass(2_000);
    assert_eq!((two.is_all(), taken(&mut two)), (true, None));
    two.master.lid = two.master.host(2);
    let asked = two.master.ask(Method::GetTable, &records::OUT_OF_SERVICE, &[]);
    assert_eq!(asked.status, SaStatus::DENIED, "it is for standbys");
}

#[test]
fn another_make_of_master_has_no_list() {
    let mut two = Two::new();
    two.is_foreign = Some(true);
    two.pass(5_000);
    assert!(two.copies > 0 && two.copier.take_out_of_service().is_none());
}
