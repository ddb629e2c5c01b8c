//! Tests what a manager stores, and which Sets it does not send before that is stored.

use super::*;

#[test]
fn nothing_is_set_before_it_can_be_stored() {
    let mut bench = Bench::new(Mode::Manage);
    bench.is_full = true;
    bench.hand(Input::Start);
    // The first plan is replaced by one that needs no storing; here each port needs a LID.
    bench.compute();
    bench.compute();
    assert!(bench.jobs.is_empty());
    for id in [bench.asked, bench.asked - 1] {
        bench.hand(Input::NotPersisted { id });
    }
    assert_eq!(
        (bench.sets, bench.jobs.len()),
        (0, 0),
        "it is told of each attempt, and waits"
    );
    bench.hand(Input::Persisted { id: bench.asked });
    assert!(bench.sm.view().is_up(), "{:?}", bench.events);
    assert_eq!(bench.hosts.map(|h| h.info.lid), [Lid(1), Lid(2)]);
}

#[test]
fn what_is_given_out_is_stored_first_and_once() {
    let mut bench = Bench::up(Mode::Manage);
    let [(state, sets_before), (in_force, sets_sent)] = &bench.stored[..] else {
        panic!("{:?}", bench.stored)
    };
    assert_eq!(*sets_before, 0);
    // Which manager wrote the tables is stored when they are written.
    let engines = bench.sm.config.policy.engines.clone();
    assert!(state.engines.is_empty() && *sets_sent > 0);
    assert_eq!(
        *in_force,
        PersistentState {
            engines,
            lane_count: 1,
            lanes_wanted: 1,
            ..state.clone()
        }
    );
    let lids = [(0x11, 1), (0x21, 2)].map(|(guid, lid)| (Guid(guid), LidRange::single(Lid(lid))));
    assert_eq!(state.lids, lids.into());
    assert!(state.generation > bench.sm.tickets.generation());
    // Sweeps without new LIDs do not wait for the disk; the generation stays below the stored one.
    let ahead = state.generation;
    let state = state.clone();
    for _ in 0..GENERATIONS_AHEAD {
        bench.hand(Input::Command(Command::Sweep));
        bench.compute();
    }
    assert_eq!(bench.stored.len(), 2);
    assert_eq!(bench.sm.tickets.generation(), ahead);
    bench.hand(Input::Command(Command::Sweep));
    bench.compute();
    assert_eq!(bench.stored.len(), 3);
    // After a restart, generations are above all that may have been sent.
    let mut again = Bench::with_state(Mode::Manage, state);
    again.hand(Input::Start);
    again.compute();
    assert!(again.sm.tickets.generation() > ahead);
}

#[test]
fn state_of_another_fabric_is_set_aside() {
    let check = |guids: &[u64], want: (bool, bool)| {
        let lids = guids
            .iter()
            .zip(7..)
            .map(|(&guid, lid)| (Guid(guid), LidRange::single(Lid(lid))))
            .collect();
        let state = PersistentState {
            lids,
            generation: Generation(9),
            ..PersistentState::default()
        };
        let mut bench = Bench::with_state(Mode::Manage, state);
        bench.hand(Input::Start);
        bench.compute();
        let is_said = bench.has("SLV-SM-0040");
        let (stored, _) = &bench.stored[0];
        let is_kept = stored.lids.contains_key(&Guid(0x99));
        assert_eq!((is_said, is_kept), want, "{guids:x?}");
    };
    check(&[], (false, false));
    check(&[0x11, 0x99], (false, true));
    check(&[0x99], (true, false));
    // Too few ports are found to decide.
    let many: Vec<u64> = (0x99..0xa9).collect();
    check(&many, (true, true));
}
