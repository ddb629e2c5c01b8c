//! Data is stored before anything that depends on it is sent.

use std::time::Duration;

use selvedge_coordinator::{In, Out};
use selvedge_plan::Policy;
use selvedge_sm::{Input, PersistentState};
use selvedge_wire::Status;

use crate::bench::{Bench, Did};

fn statuses(bench: &Bench) -> Vec<Did> {
    bench.did.clone()
}

#[test]
fn a_host_is_answered_after_the_mark_is_removed() {
    let mut bench = Bench::up(Policy::default());
    bench.run_for(Duration::from_secs(1));
    bench.did.clear();
    assert_eq!(bench.join(0).len(), 1);
    assert_eq!(statuses(&bench), [Did::RemovedMark, Did::Sent(Status::OK)]);
    // Registrations of the next host need no other mark.
    assert_eq!(bench.join(1).len(), 1);
    assert_eq!(bench.did.last(), Some(&Did::Sent(Status::OK)));
    bench.run_for(Duration::from_secs(1));
    let tail = &bench.did[bench.did.len() - 2..];
    assert_eq!(tail, [Did::StoredRegistrations, Did::SetMark { has_ended: false }]);
}

#[test]
fn a_host_asks_again_while_the_mark_cannot_be_removed() {
    let mut bench = Bench::up(Policy::default());
    bench.run_for(Duration::from_secs(1));
    bench.did.clear();
    bench.mark_is_stuck = true;
    bench.join(0);
    assert_eq!(statuses(&bench), [Did::RemovedMark, Did::Sent(Status::BUSY)]);
    assert_eq!(bench.coordinator.retries().mark.failures(), 1);
    // It is not tried again for each request.
    bench.join(0);
    assert_eq!(bench.did.last(), Some(&Did::Sent(Status::BUSY)));
    assert_eq!(bench.did.iter().filter(|did| **did == Did::RemovedMark).count(), 1);
    bench.mark_is_stuck = false;
    bench.run_for(Duration::from_secs(1));
    bench.join(0);
    assert_eq!(bench.did.last(), Some(&Did::Sent(Status::OK)));
}

#[test]
fn the_manager_waits_until_its_state_is_stored() {
    let mut bench = Bench::new(Policy::default());
    let persist = |id| In::Persist {
        id,
        state: PersistentState::default(),
    };
    let mut out = Vec::new();
    let mut handle = |input| {
        out.clear();
        bench.coordinator.handle(bench.now, input, &mut out);
        let names = out.iter().map(|wanted| match wanted {
            Out::StoreState { id, .. } => format!("store {id}"),
            Out::Manager(Input::Persisted { id }) => format!("persisted {id}"),
            Out::Manager(Input::NotPersisted { id }) => format!("not persisted {id}"),
            _ => "something else".to_owned(),
        });
        names.collect::<Vec<_>>()
    };
    let stored = |id, is_stored| In::StateStored { id, is_stored };
    assert_eq!(handle(persist(1)), ["store 1"]);
    // One at a time, and only the newest.
    assert!(handle(persist(2)).is_empty());
    assert!(handle(persist(3)).is_empty());
    assert_eq!(handle(stored(1, true)), ["persisted 1", "store 3"]);
    assert_eq!(handle(stored(3, false)), ["not persisted 3"]);
    assert!(bench.coordinator.next_wake().is_some());
}

#[test]
fn a_process_that_ends_stores_what_is_behind() {
    let mut bench = Bench::up(Policy::default());
    bench.run_for(Duration::from_secs(1));
    bench.join(0);
    // The driver does both in place, and hands nothing in any more.
    let mut out = Vec::new();
    bench.coordinator.handle(bench.now, In::End, &mut out);
    let is_to_store = matches!(
        out[..],
        [Out::StoreRegistrations { .. }, Out::SetMark { has_ended: true }]
    );
    assert!(is_to_store, "{} things to do", out.len());
}
