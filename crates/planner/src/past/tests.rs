//! Which packets may be in flight, after plans, waits, sweeps and faults.

use selvedge_fabric::{FabricBuilder, LinkState, Node, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, LostLink};
use selvedge_types::{NodeKind, PortNum, PortState};

use super::*;
use crate::made::empty_plan;

fn port(n: u8) -> PortNum {
    PortNum::new(n).unwrap()
}

/// Returns switches with these GUIDs in a row; port 1 leads to the next.
fn row(guids: &[u64], down: Option<u64>) -> Arc<Fabric> {
    let mut b = FabricBuilder::new();
    let keys: Vec<_> = guids
        .iter()
        .map(|&guid| {
            let mut node = Node::new(NodeKind::Switch, Guid(guid), 2, format!("s{guid}"));
            for n in [1, 2] {
                let state = if down == Some(guid) && n == 1 {
                    PortState::Down
                } else {
                    PortState::Active
                };
                let link = &mut node.port_mut(port(n)).unwrap().link;
                *link = LinkState { state, ..*link };
            }
            b.add(node)
        })
        .collect();
    for pair in keys.windows(2) {
        b.link((pair[0], port(1)), (pair[1], port(2))).unwrap();
    }
    Arc::new(b.finish().unwrap())
}

/// Returns a fabric after the last change, and the links lost until then.
fn seen(fabric: &Arc<Fabric>, lost: Vec<Lost>) -> Recent {
    let lost = lost.into_iter().collect();
    Recent {
        seen: Some(Seen {
            lost,
            ..Seen::new(fabric)
        }),
        ..Recent::default()
    }
}

fn check(now: &Arc<Fabric>, want: &[(Option<u32>, u8, u32, u8)]) {
    let before = row(&[1, 2, 3], None);
    // Lost at the last change, and before that.
    let found = seen(&before, Vec::new()).lost_until(now);
    let lost = lost_since(&before, now);
    assert_eq!(seen(now, lost.clone()).lost_until(now), found);
    // A link that carries packets again does not count, if both its ends are known.
    let found_before = seen(&before, lost).lost_until(&before);
    assert!(found_before.iter().all(|link| link.from.is_none()));
    let found: Vec<_> = found
        .iter()
        .map(|l| (l.from.map(|s| s.0), l.port, l.to.0, l.into))
        .collect();
    assert_eq!(found, want);
}

#[test]
fn links_that_went_down_are_known_from_both_ends() {
    check(&row(&[1, 2, 3], None), &[]);
    check(&row(&[1, 2, 3], Some(2)), &[(Some(1), 1, 2, 2), (Some(2), 2, 1, 1)]);
    // Only one end of the link is left, because its switch is gone.
    check(&row(&[1, 2], None), &[(None, 2, 1, 1)]);
}

#[test]
fn what_crossed_a_link_is_still_there_when_the_other_side_comes_into_sight_again() {
    let before = row(&[1, 2, 3], None);
    let recent = seen(&row(&[1], None), lost_since(&before, &row(&[1], None)));
    let found = recent.lost_until(&row(&[1, 2, 3], Some(1)));
    let found: Vec<_> = found.iter().map(|l| (l.from.map(|s| s.0), l.to.0)).collect();
    // The first link leads to a switch again. It is unknown which node was behind it meanwhile.
    assert_eq!(found, [(None, 0), (Some(0), 1), (Some(1), 0)]);
}

#[test]
fn who_was_never_seen_has_sent_until_more_is_seen() {
    let recent = seen(&row(&[1], None), Vec::new());
    let found = recent.lost_until(&row(&[1, 2], None));
    let found: Vec<_> = found.iter().map(|l| (l.from, l.to.0, l.into)).collect();
    assert_eq!(found, [(None, 0, 1)]);
    assert!(recent.lost_until(&row(&[1], None)).is_empty());
}

#[test]
fn links_that_come_and_go_are_forgotten_when_they_are_back() {
    let (up, down) = (row(&[1, 2, 3], None), row(&[1, 2, 3], Some(2)));
    let after = |fabric: &Arc<Fabric>| After {
        fabric: Arc::clone(fabric),
        plan: Arc::new(empty_plan()),
        installed: Arc::new(Installed::unknown(3)),
    };
    let mut past = Past::default();
    let mut taken = Taken::default();
    taken.note((Guid(2), 0, [1; BLOCK_LIDS]), Some([0; BLOCK_LIDS]));
    past.add(taken, false, Time::ZERO, after(&up));
    let lost = |past: &Past| {
        let kept = past.recent.seen.as_ref().map_or(0, |seen| seen.lost.len());
        (kept, past.recent.lost_until(&down).len())
    };
    for _ in 0..2 {
        past.add(Taken::default(), false, Time::ZERO, after(&down));
        assert_eq!(lost(&past), (2, 2));
        past.add(Taken::default(), false, Time::ZERO, after(&up));
        // It went down unseen meanwhile.
        assert_eq!(lost(&past), (0, 2));
    }
}

#[test]
fn what_a_host_has_sent_is_under_way_when_its_link_is_lost() {
    let with_host = |state: PortState| {
        let mut b = FabricBuilder::new();
        let keys = [(NodeKind::Switch, 1), (NodeKind::Ca, 2)].map(|(kind, guid)| {
            let mut node = Node::new(kind, Guid(guid), 1, format!("n{guid}"));
            let link = &mut node.port_mut(port(1)).unwrap().link;
            *link = LinkState { state, ..*link };
            b.add(node)
        });
        b.link((keys[0], port(1)), (keys[1], port(1))).unwrap();
        b.finish().unwrap()
    };
    let (up, down) = (with_host(PortState::Active), with_host(PortState::Down));
    let link = LostLink {
        from: None,
        port: 1,
        to: SwitchIdx(0),
        into: 1,
    };
    assert_eq!(lost(&up, &down), [link]);
    assert_eq!(lost(&up, &up), []);
    assert_eq!(lost(&down, &up), []);
}

#[test]
fn what_a_block_held_between_two_changes_is_not_forgotten() {
    let fabric = row(&[1, 2, 3], None);
    let mut past = Past::default();
    let mut add = |held: u8, data: u8| {
        let mut taken = Taken::default();
        taken.note((Guid(2), 0, [data; BLOCK_LIDS]), Some([held; BLOCK_LIDS]));
        let after = After {
            fabric: Arc::clone(&fabric),
            plan: Arc::new(empty_plan()),
            installed: Arc::new(Installed::unknown(3)),
        };
        past.add(taken, false, Time::ZERO, after);
    };
    add(9, 1);
    add(1, 2);
    // Another manager had written it.
    add(7, 2);
    let blocks = past.recent.blocks_on(&fabric);
    let values = |step: &Vec<BlockOf<SwitchIdx>>| step.iter().map(|(_, _, data)| data[0]).collect::<Vec<_>>();
    assert_eq!(values(&blocks.before), [9]);
    assert_eq!(
        blocks.phases.iter().map(values).collect::<Vec<_>>(),
        [[1], [2], [7], [2]]
    );
}

#[test]
fn what_waited_for_a_link_is_gone_up_to_the_step_before_it_was_asked_about() {
    let fabric = row(&[1, 2, 3], None);
    // Arguments: when steps were acknowledged, when the second switch's port was queried, and the number of steps
    // before that.
    let check = |ended: &[u64], asked: u64, want: Option<usize>| {
        let mut past = Past::default();
        for (data, at) in (1..).zip(ended) {
            let mut taken = Taken::default();
            taken.note((Guid(2), 0, [data; BLOCK_LIDS]), Some([data - 1; BLOCK_LIDS]));
            let after = After {
                fabric: Arc::clone(&fabric),
                plan: Arc::new(empty_plan()),
                installed: Arc::new(Installed::unknown(3)),
            };
            past.add(taken, false, Time::from_millis(*at), after);
        }
        past.note_emptied(Guid(2), port(1), Time::from_millis(asked));
        past.note_emptied(Guid(9), port(1), Time::from_millis(asked));
        let found = past.recent.emptied_on(&fabric);
        let of = |phases| EmptiedLink {
            from: SwitchIdx(1),
            port: 1,
            phases,
        };
        assert_eq!(found, want.map(of).into_iter().collect::<Vec<_>>(), "{ended:?} {asked}");
        past.forget();
        assert_eq!(past.recent.emptied_on(&fabric), []);
    };
    check(&[], 5, None);
    check(&[3, 7], 2, Some(0));
    check(&[3, 7], 3, Some(1));
    check(&[3, 7], 6, Some(1));
    check(&[3, 7], 8, Some(2));
}

#[test]
fn what_was_worked_out_of_an_earlier_change_is_not_taken() {
    let fabric = row(&[1, 2, 3], None);
    let after = || After {
        fabric: Arc::clone(&fabric),
        plan: Arc::new(empty_plan()),
        installed: Arc::new(Installed::unknown(3)),
    };
    let taken = |data: u8| {
        let mut taken = Taken::default();
        taken.note((Guid(1), 0, [data; BLOCK_LIDS]), Some([data - 1; BLOCK_LIDS]));
        taken
    };
    let mut past = Past::default();
    assert!(!past.is_unsettled() && !past.is_settled_with_some());
    past.add(taken(1), false, Time::ZERO, after());
    let mut settled = past.clone();
    settled.settle(Time::ZERO);
    assert!(past.is_unsettled() && settled.is_settled_with_some());
    let mut later = past.clone();
    later.add(taken(2), false, Time::ZERO, after());
    assert!(!later.take_settled(settled.clone()));
    assert_eq!((later.is_unsettled(), later.recent.written.steps.len()), (true, 2));
    assert!(past.take_settled(settled) && past.is_settled_with_some());
}

#[test]
fn what_nobody_knows_is_waited_out() {
    let check = |taken: Taken, astray: bool, now: Duration, want: Duration| {
        let fabric = row(&[1, 2, 3], None);
        let mut past = Past::default();
        let after = After {
            fabric: Arc::clone(&fabric),
            plan: Arc::new(empty_plan()),
            installed: Arc::new(Installed::unknown(3)),
        };
        let start = Time::from_secs(1);
        past.add(taken, false, start, after);
        if astray {
            past.note_astray(&fabric);
        }
        assert_eq!(past.fog(start + now), want, "after {now:?}");
    };
    let taken = |is_blind: bool| {
        let mut taken = Taken::default();
        taken.note((Guid(1), 0, [1; BLOCK_LIDS]), None);
        if is_blind {
            taken.note_blind();
        }
        taken
    };
    // Two lifetimes of 4.096 µs, the shortest.
    let (all, some) = (Duration::from_nanos(8_192), Duration::from_nanos(4_192));
    check(taken(false), false, Duration::ZERO, Duration::ZERO);
    check(taken(true), false, Duration::ZERO, all);
    check(taken(false), true, Duration::from_micros(4), some);
    check(taken(true), true, Duration::from_secs(1), Duration::ZERO);
    // The switch forwards no packet differently because of it, but another switch may have received it.
    let mut unnoticed = Taken::default();
    unnoticed.note_sent();
    check(unnoticed, true, Duration::ZERO, all);
    check(Taken::default(), true, Duration::ZERO, Duration::ZERO);
}
