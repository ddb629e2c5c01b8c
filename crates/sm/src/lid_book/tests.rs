//! Known LIDs of ports, over several plans and several processes.

use selvedge_fabric::{FabricBuilder, Node, PortRef};
use selvedge_sim::{Rng, Seed};
use selvedge_types::{Lmc, NodeKind, PortNum};

use super::*;

fn range(base: u16, lmc: u8) -> LidRange {
    LidRange {
        base: Lid(base),
        lmc: Lmc::new(lmc).unwrap(),
    }
}

/// Returns a fabric with one host (GUID 7) that holds the LIDs `held`, and the LIDs of a plan that gives it `planned`.
fn host(held: LidRange, planned: LidRange) -> (Fabric, Lids) {
    host_of(7, held, planned)
}

/// Returns a fabric with one host of this GUID that holds the LIDs `held`, and the LIDs of a plan that gives it
/// `planned`.
fn host_of(guid: u64, held: LidRange, planned: LidRange) -> (Fabric, Lids) {
    hosts(&[(guid, held, planned)])
}

/// Returns a fabric with hosts, and the LIDs of a plan. Each host is given by its GUID, the LIDs that it holds, and the
/// LIDs that the plan gives it if they are free.
fn hosts(hosts: &[(u64, LidRange, LidRange)]) -> (Fabric, Lids) {
    let (mut builder, mut lids) = (FabricBuilder::new(), Lids::new());
    let port = PortNum::new(1).unwrap();
    for &(guid, held, _) in hosts {
        let mut node = Node::new(NodeKind::Ca, Guid(guid), 1, "h");
        let settings = node.port_mut(port).unwrap();
        (settings.guid, settings.settings.lids) = (Guid(guid), held);
        builder.add(node);
    }
    let fabric = builder.finish().unwrap();
    for &(guid, _, planned) in hosts {
        let node = fabric.find(Guid(guid)).unwrap();
        let _taken = lids.insert(PortRef { node, port }, planned);
    }
    (fabric, lids)
}

/// Returns the LIDs that the book has assigned to the port with this GUID.
fn assigned(book: &LidBook, guid: u64) -> Option<LidRange> {
    book.claims.get(&Guid(guid))?.assigned
}

/// Returns a LID book with one port, which was read with the LIDs `range` and may have had the LIDs `before`.
fn book_of(guid: u64, range: LidRange, before: Option<LidRange>) -> LidBook {
    let mut book = LidBook::default();
    let claim = book.claims.entry(Guid(guid)).or_default();
    (claim.assigned, claim.evidence, claim.before) = (Some(range), Evidence::Read, before);
    book
}

/// Applies plans one after another. Each is (LIDs that the port holds before, LIDs of the plan, LIDs that it holds
/// after). At the end, compares the known LIDs under some LMC, and the others that the port may hold instead.
fn check(plans: &[(LidRange, LidRange, LidRange)], lmc: u8, want: LidRange, spared: &[LidRange]) {
    let mut book = LidBook::default();
    for &(before, planned, after) in plans {
        let (fabric, lids) = host(before, planned);
        book.plan(&fabric, &lids);
        let (fabric, _) = host(after, planned);
        book.acknowledge(&fabric, &lids);
    }
    let policy = Policy {
        lmc: Lmc::new(lmc).unwrap(),
        ..Policy::default()
    };
    let (known, may_hold) = book.known(&policy, &Fabric::default());
    assert_eq!((known.get(&Guid(7)), &*may_hold), (Some(&want), spared), "{plans:?}");
}

#[test]
fn who_holds_other_lids_than_it_is_known_by_is_a_stranger() {
    // The LIDs that the host holds, and whether they are unknown: it was planned to have 4, and had 8 before.
    let check = |held: LidRange, want: bool| {
        let (fabric, _) = host(held, range(4, 0));
        assert!(LidBook::default().strangers(&fabric).is_empty(), "nobody knows it");
        let book = book_of(7, range(4, 0), Some(range(8, 1)));
        assert_eq!(!book.strangers(&fabric).is_empty(), want, "{held:?}");
    };
    check(range(4, 0), false);
    check(range(8, 1), false);
    check(LidRange::default(), false);
    check(range(4100, 0), true);
    check(range(8, 2), true);
}

#[test]
fn who_never_had_its_lids_has_no_claim_on_what_somebody_has() {
    let check = |away: LidRange, (held, planned): (LidRange, LidRange), want: bool| {
        for was_seen in [false, true] {
            let mut book = book_of(9, away, None);
            if !was_seen {
                book.claims.get_mut(&Guid(9)).unwrap().evidence = Evidence::Stored;
            }
            let (fabric, lids) = host(held, planned);
            book.plan(&fabric, &lids);
            assert_eq!(assigned(&book, 9).is_some(), want || was_seen, "{away:?} {held:?}");
        }
    };
    let holds = |range: LidRange| (range, range);
    check(range(5, 0), holds(range(5, 0)), false);
    check(range(5, 0), holds(range(4, 1)), false);
    check(range(4, 1), holds(range(5, 0)), false);
    check(range(6, 0), holds(range(4, 1)), true);
    // It may never get it, or must give it up.
    check(range(5, 0), (LidRange::default(), range(5, 0)), true);
    check(range(5, 0), (range(5, 0), range(7, 0)), true);
}

#[test]
fn what_another_master_gave_away_is_not_kept_for_who_never_took_it() {
    // Host 9 held LIDs and a plan gave it others, which it took or not; another master has given some of those to 7.
    // `want`: the LIDs stored for 9 then.
    let check = |(held, took): (LidRange, bool), of_7: LidRange, want: Option<LidRange>| {
        let mut book = LidBook::default();
        let (fabric, lids) = host_of(9, held, range(4, 1));
        book.plan(&fabric, &lids);
        let (fabric, _) = host_of(9, if took { range(4, 1) } else { held }, range(4, 1));
        book.acknowledge(&fabric, &lids);
        let (fabric, _) = host(of_7, of_7);
        book.of_another(&fabric);
        assert_eq!(assigned(&book, 9), want, "{held:?} {took} {of_7:?}");
        assert_eq!(assigned(&book, 7), Some(of_7));
    };
    let none = LidRange::default();
    check((none, false), range(5, 0), None);
    check((range(8, 0), false), range(5, 0), Some(range(8, 0)));
    // It took them; no other port has them.
    check((none, true), range(5, 0), Some(range(4, 1)));
    check((none, false), range(6, 0), Some(range(4, 1)));
    // It is there, and has them itself.
    let mut book = LidBook::default();
    let (fabric, lids) = host(none, range(5, 0));
    book.plan(&fabric, &lids);
    let (fabric, _) = host(range(5, 0), range(5, 0));
    book.of_another(&fabric);
    assert_eq!(book.claims(), BTreeMap::from([(Guid(7), range(5, 0))]));
}

#[test]
fn what_was_stored_and_another_held_meanwhile_is_its_owners_again() {
    // Host 9 had LID 5, in an earlier process. Another master gave it to 7, which later holds others, or is absent.
    let check = |of_7: Option<LidRange>, want: Option<LidRange>| {
        let mut book = LidBook::stored(&PersistentState {
            lids: BTreeMap::from([(Guid(9), range(5, 0))]),
            ..PersistentState::default()
        });
        let (fabric, _) = host(range(5, 0), range(5, 0));
        book.of_another(&fabric);
        assert_eq!(assigned(&book, 9), None);
        // Then this process ends.
        let mut book = LidBook::stored(&PersistentState {
            lids: book.claims(),
            lids_before: book.befores(),
            ..PersistentState::default()
        });
        let (fabric, _) = match of_7 {
            Some(held) => host(held, held),
            None => host_of(8, range(20, 0), range(20, 0)),
        };
        book.restore_yielded(&fabric);
        assert_eq!(assigned(&book, 9), want, "{of_7:?}");
    };
    check(Some(range(8, 3)), Some(range(5, 0)));
    check(Some(range(5, 0)), None);
    check(Some(range(4, 1)), None);
    // It may come back with it.
    check(None, None);
}

#[test]
fn a_set_that_somebody_took_is_no_claim_on_what_another_was_read_to_hold() {
    let known = |book: &LidBook| book.known(&Policy::default(), &Fabric::default());
    for was_read in [false, true] {
        let (mut book, none) = (LidBook::default(), LidRange::default());
        let reads = std::iter::once(none).chain(was_read.then_some(range(5, 0)));
        for held in reads {
            let (fabric, lids) = host_of(9, held, range(5, 0));
            book.plan(&fabric, &lids);
            let (fabric, lids) = host_of(9, range(5, 0), range(5, 0));
            book.acknowledge(&fabric, &lids);
        }
        assert_eq!(known(&book).0.get(&Guid(9)), Some(&range(5, 0)));
        // The Set of LID 5 for host 9 may have reached 7, over a moved cable.
        let (fabric, lids) = host(range(5, 0), range(5, 0));
        book.plan(&fabric, &lids);
        let (lids, spared) = known(&book);
        assert_eq!(lids.get(&Guid(7)), Some(&range(5, 0)));
        assert_eq!(
            (lids.contains_key(&Guid(9)), spared.len()),
            (was_read, usize::from(!was_read))
        );
        // It has others now: LID 5 is no longer in doubt, not even for the plan that is about to be made.
        let (fabric, lids) = host(range(8, 0), range(8, 0));
        let (now, _) = book.known(&Policy::default(), &fabric);
        assert_eq!(now.get(&Guid(9)), Some(&range(5, 0)));
        book.plan(&fabric, &lids);
        assert_eq!(known(&book).0.get(&Guid(9)), Some(&range(5, 0)));
    }
}

#[test]
fn a_later_life_is_told_whose_lids_went_to_another() {
    // Host 9 held LIDs or none, and took 5 by its answer. The LIDs stored for it once 7 was read with others.
    let check = |held_before: LidRange, of_7: LidRange, want: Option<LidRange>| {
        let mut book = LidBook::default();
        let (fabric, lids) = host_of(9, held_before, range(5, 0));
        book.plan(&fabric, &lids);
        let (fabric, _) = host_of(9, range(5, 0), range(5, 0));
        book.acknowledge(&fabric, &lids);
        assert_eq!(book.claims().get(&Guid(9)), Some(&range(5, 0)));
        let (fabric, lids) = host(of_7, of_7);
        book.plan(&fabric, &lids);
        let claims = book.claims();
        assert_eq!(claims.get(&Guid(9)), want.as_ref(), "{held_before:?} {of_7:?}");
        assert_eq!(claims.get(&Guid(7)), Some(&of_7));
        // The next process has it again once 7 holds others.
        let mut later = LidBook::stored(&PersistentState {
            lids: claims,
            lids_before: book.befores(),
            ..PersistentState::default()
        });
        let (fabric, _) = host(range(20, 0), range(20, 0));
        later.restore_yielded(&fabric);
        assert_eq!(assigned(&later, 9), want.or(Some(range(5, 0))));
    };
    let none = LidRange::default();
    check(none, range(5, 0), None);
    check(range(14, 0), range(5, 0), Some(range(14, 0)));
    check(none, range(8, 0), Some(range(5, 0)));
}

#[test]
fn who_never_answered_keeps_its_claim() {
    // Host 7 holds 13 and goes away; 9, which holds 12, is planned to have both and goes away before it takes them.
    let mut book = LidBook::default();
    for of_7 in [LidRange::default(), range(13, 0)] {
        let (fabric, lids) = host(of_7, range(13, 0));
        book.plan(&fabric, &lids);
    }
    let (fabric, lids) = host_of(9, range(12, 0), range(12, 1));
    book.plan(&fabric, &lids);
    book.acknowledge(&fabric, &lids);
    let (fabric, lids) = host_of(8, range(20, 0), range(20, 0));
    book.plan(&fabric, &lids);
    let claims = book.claims();
    assert_eq!(claims.get(&Guid(9)), Some(&range(12, 1)));
    assert_eq!(book.befores().get(&Guid(9)), Some(&range(12, 0)));
}

#[test]
fn what_the_last_plan_gives_out_is_stored() {
    // The host 9 is away. Its LID falls to 7, which has more LIDs now.
    let mut book = LidBook::default();
    let none = LidRange::default();
    for (guid, held, planned) in [
        (9, none, range(5, 0)),
        (9, range(5, 0), range(5, 0)),
        (7, none, range(4, 1)),
    ] {
        let (fabric, lids) = host_of(guid, held, planned);
        book.plan(&fabric, &lids);
    }
    assert_eq!(book.claims().get(&Guid(7)), Some(&range(4, 1)));
}

#[test]
fn stored_lids_that_are_few_are_kept_and_not_asked_about_again() {
    let mut book = LidBook::stored(&PersistentState {
        lids: BTreeMap::from([(Guid(7), range(5, 0))]),
        ..PersistentState::default()
    });
    let none = LidRange::default();
    let (fabric, _) = hosts(&[(8, none, none), (9, none, none), (10, none, none)]);
    assert_eq!(book.none_met(&fabric), Some(1));
    let mut effects = Vec::new();
    book.handle(In::Planning(&fabric), &mut effects);
    assert_eq!((book.none_met(&fabric), effects.len()), (None, 0));
    assert_eq!(book.claims().get(&Guid(7)), Some(&range(5, 0)));
}

#[test]
fn what_a_port_was_read_to_hold_and_lost_is_its_own() {
    let (mut book, none) = (LidBook::default(), LidRange::default());
    // Host 7 held LID 5, and in one answer a flipped bit showed another GUID.
    for (guid, held) in [(7, range(5, 0)), (9, range(5, 0)), (7, none), (7, none)] {
        let (fabric, lids) = host_of(guid, held, range(5, 0));
        book.plan(&fabric, &lids);
        let (known, _) = book.known(&Policy::default(), &Fabric::default());
        assert_eq!(known.get(&Guid(7)), Some(&range(5, 0)), "{guid} {held:?}");
    }
}

#[test]
fn who_has_no_claim_on_new_lids_has_one_on_the_old() {
    // Host 9 held LIDs and a plan gave it others, which it never took: another port has one of these now.
    let check = |held: LidRange, of_another: LidRange, want: Option<LidRange>| {
        let mut book = LidBook::default();
        let (fabric, lids) = host_of(9, held, range(12, 2));
        book.plan(&fabric, &lids);
        let (fabric, lids) = host(of_another, of_another);
        book.plan(&fabric, &lids);
        let (known, _) = book.known(&Policy::default(), &Fabric::default());
        assert_eq!(known.get(&Guid(9)), want.as_ref(), "{held:?} {of_another:?}");
        assert_eq!(assigned(&book, 9), want);
        assert!(book.befores().is_empty());
    };
    check(range(12, 0), range(14, 0), Some(range(12, 0)));
    check(range(12, 1), range(12, 0), None);
    check(LidRange::default(), range(14, 0), None);
}

#[test]
fn who_only_seemed_to_take_its_lids_is_known_by_the_old() {
    let mut book = LidBook::default();
    let (fabric, lids) = host_of(9, range(14, 0), range(5, 0));
    book.plan(&fabric, &lids);
    let (fabric, _) = host_of(9, range(5, 0), range(5, 0));
    book.acknowledge(&fabric, &lids);
    let known = |book: &LidBook| {
        book.known(&Policy::default(), &Fabric::default())
            .0
            .get(&Guid(9))
            .copied()
    };
    assert_eq!(known(&book), Some(range(5, 0)));
    // The Set went to 7.
    let (fabric, lids) = host(range(5, 0), range(5, 0));
    book.plan(&fabric, &lids);
    assert_eq!(known(&book), Some(range(14, 0)));
    // It is back, with its former LIDs.
    let (fabric, lids) = host_of(9, range(14, 0), range(14, 0));
    book.plan(&fabric, &lids);
    assert_eq!(
        (known(&book), book.claims[&Guid(9)].replaced),
        (Some(range(14, 0)), None)
    );
}

#[test]
fn what_was_only_stored_is_no_claim_on_what_somebody_has() {
    // Two claims on one LID are stored; whether the other port was seen with it since the start.
    for was_seen in [false, true] {
        let lids = BTreeMap::from([(Guid(7), range(5, 0)), (Guid(9), range(5, 0))]);
        let mut book = LidBook::stored(&PersistentState {
            lids,
            ..PersistentState::default()
        });
        if was_seen {
            book.claims.get_mut(&Guid(9)).unwrap().read();
        }
        let (fabric, lids) = host(range(5, 0), range(5, 0));
        book.plan(&fabric, &lids);
        assert_eq!(assigned(&book, 9).is_some(), was_seen);
        assert!(assigned(&book, 7).is_some());
    }
}

#[test]
fn none_is_met_until_a_port_of_what_was_stored_is_there_or_others_have_lids() {
    let check = |guid: u64, is_doubted: bool, want: (Option<usize>, Option<usize>)| {
        let mut book = LidBook::stored(&PersistentState {
            lids: BTreeMap::from([(Guid(7), range(5, 0))]),
            ..PersistentState::default()
        });
        let (fabric, lids) = host_of(guid, LidRange::default(), range(6, 0));
        let before = book.none_met(&fabric);
        book.earlier.is_doubted = is_doubted;
        book.plan(&fabric, &lids);
        let (others, _) = host_of(9, LidRange::default(), range(6, 0));
        assert_eq!((before, book.none_met(&others)), want, "{guid} {is_doubted}");
    };
    check(7, false, (None, None));
    check(7, true, (None, None));
    check(8, false, (Some(1), None));
    // Those were too few to decide.
    check(8, true, (Some(1), Some(1)));
}

#[test]
fn what_is_another_fabrics_is_set_aside_until_a_port_of_it_is_found() {
    let check = |found: u64, held: LidRange, want: Option<LidRange>| {
        let mut book = LidBook::stored(&PersistentState {
            lids: BTreeMap::from([(Guid(7), range(5, 0)), (Guid(9), range(6, 0))]),
            lids_before: BTreeMap::from([(Guid(7), range(4, 0))]),
            ..PersistentState::default()
        });
        let (fabric, lids) = host_of(8, LidRange::default(), range(6, 0));
        book.plan(&fabric, &lids);
        book.set_untried_aside();
        let of_this_life = BTreeMap::from([(Guid(8), range(6, 0))]);
        assert_eq!(book.claims(), of_this_life);
        assert_eq!(
            (book.befores().contains_key(&Guid(7)), book.none_met(&fabric)),
            (false, None)
        );
        // Then this process ends.
        let mut book = LidBook::stored(&PersistentState {
            lids: book.claims(),
            lids_before: book.befores(),
            lids_aside: book.earlier.aside.clone(),
            ..PersistentState::default()
        });
        book.restore_yielded(&fabric);
        assert_eq!(book.claims(), of_this_life);
        let (fabric, _) = host_of(found, held, range(20, 0));
        book.restore_yielded(&fabric);
        assert_eq!(assigned(&book, 7), want, "{found} {held:?}");
        // LIDs that this process has given to another port belong to no other.
        assert_eq!(assigned(&book, 9), None);
    };
    check(10, range(20, 0), None);
    check(7, LidRange::default(), Some(range(5, 0)));
    check(9, LidRange::default(), Some(range(5, 0)));
    check(9, range(5, 0), None);
}

#[test]
fn a_plan_that_was_not_sent_changes_nothing() {
    let check = |held: LidRange, planned: LidRange| {
        let mut book = book_of(7, held, None);
        let (fabric, lids) = host(held, planned);
        book.plan(&fabric, &lids);
        book.withdraw(&fabric, &lids);
        assert_eq!(book.claims(), BTreeMap::from([(Guid(7), held)]));
        assert!(book.befores().is_empty());
    };
    check(range(5, 0), range(8, 0));
    check(range(5, 0), range(5, 0));
}

#[test]
fn who_lost_its_lids_is_known_by_the_same_after_a_plan_that_was_not_sent() {
    // The state of an earlier process: the LIDs of its last plan, and the port's former LIDs.
    let check = |before: Option<LidRange>, to_get: LidRange| {
        let stored = PersistentState {
            lids: BTreeMap::from([(Guid(7), range(12, 2))]),
            lids_before: before.map(|before| (Guid(7), before)).into_iter().collect(),
            ..PersistentState::default()
        };
        let mut book = LidBook::stored(&stored);
        let (fabric, lids) = host(LidRange::default(), to_get);
        book.plan(&fabric, &lids);
        book.withdraw(&fabric, &lids);
        assert_eq!((&book.claims(), &book.befores()), (&stored.lids, &stored.lids_before));
    };
    for before in [None, Some(range(6, 0))] {
        check(before, range(12, 2));
        check(before, range(6, 0));
        check(before, range(20, 2));
    }
}

#[test]
fn a_port_is_known_by_what_it_held_until_it_has_the_new() {
    let none = LidRange::default();
    let (old, new) = (range(5, 0), range(8, 1));
    check(&[(none, old, old)], 0, old, &[]);
    check(&[(old, new, new)], 1, new, &[]);
    // Raised, and lowered again before it got them.
    check(&[(old, new, old)], 0, old, &[new]);
    check(&[(old, new, old)], 1, new, &[old]);
    check(&[(old, new, old), (old, old, old)], 0, old, &[]);
    // It has lost its power since: its former LIDs count.
    check(&[(old, new, old), (none, new, none)], 0, old, &[new]);
    check(&[(none, old, old), (none, new, none)], 0, old, &[new]);
    check(&[(none, new, none)], 0, new, &[]);
    // Another LID, not another LMC.
    check(&[(old, range(9, 0), old)], 0, range(9, 0), &[old]);
}

/// Checks invariants of every claim, and of the state that a later run makes of it.
fn check_claims(book: &LidBook) {
    for (guid, claim) in &book.claims {
        assert!(claim.assigned.is_some() || claim.before.is_none(), "{claim:?}");
        let is_aside = book.aside().contains_key(guid);
        match claim.evidence {
            Evidence::None => assert!(claim.assigned.is_none(), "{claim:?}"),
            Evidence::Stored => assert_ne!(
                claim.assigned.is_some(),
                claim.yielded.is_some() || is_aside,
                "{claim:?}"
            ),
            Evidence::Planned { .. } => {}
            Evidence::Acknowledged => assert!(claim.before.is_none(), "{claim:?}"),
            Evidence::Read => assert!(claim.assigned.is_some() && claim.before.is_none(), "{claim:?}"),
        }
    }
    let later = LidBook::stored(&state_of(book));
    assert_eq!((later.claims(), later.befores()), (book.claims(), book.befores()));
}

/// Returns the state that a manager with this LID book stores.
fn state_of(book: &LidBook) -> PersistentState {
    PersistentState {
        lids: book.claims(),
        lids_before: book.befores(),
        lids_aside: book.aside().clone(),
        ..PersistentState::default()
    }
}

#[test]
fn claims_are_whole_whatever_happens() {
    for seed in 0..400 {
        let (mut rng, mut book) = (Seed(seed).rng(), LidBook::default());
        for _ in 0..30 {
            let any = |rng: &mut Rng| match rng.below(4) {
                0 => LidRange::default(),
                _ => [
                    range(1, 0),
                    range(2, 1),
                    range(4, 0),
                    range(4, 2),
                    range(8, 1),
                    range(9, 0),
                ][rng.below(6) as usize],
            };
            let (mut found, mut took) = (Vec::new(), Vec::new());
            for guid in 1..7 {
                if rng.below(3) > 0 {
                    let (held, planned) = (any(&mut rng), any(&mut rng));
                    found.push((guid, held, planned));
                    took.push((guid, if rng.below(3) > 0 { planned } else { held }, planned));
                }
            }
            let ((fabric, lids), (applied, _)) = (hosts(&found), hosts(&took));
            let inputs = match rng.below(8) {
                0 => vec![In::OfAnother(&fabric)],
                1 => vec![
                    In::Planning(&fabric),
                    In::Accepted(&fabric, &lids),
                    In::Withdrawn(&fabric, &lids),
                ],
                2 => {
                    book = LidBook::stored(&state_of(&book));
                    vec![In::Found(&fabric)]
                }
                _ => vec![
                    In::Planning(&fabric),
                    In::Accepted(&fabric, &lids),
                    In::Applied(&applied, &lids),
                ],
            };
            for input in inputs {
                book.handle(input, &mut Vec::new());
                check_claims(&book);
            }
        }
    }
}
