//! Hosts get the confirmation of a registration only when standbys know that there is something to copy.

use crate::support::two::{TREE, Two};
use crate::support::{Bench, Wish};
use selvedge_sa::{Config, Input, Worth};

#[test]
fn hosts_are_answered_when_the_standby_knows_of_them() {
    let mut two = Two::new();
    two.pass(10);
    assert!(two.is_all());
    // The datagram to the standby is lost: the standby asks again and gets it again, before the host is answered.
    two.loses_next = true;
    let ms = two.ms_to_join(1);
    assert!((1..=350).contains(&ms), "{ms}");
    assert_eq!(two.copier.worth(), Worth::Part);
    // The standby knows that its copy is incomplete: no answer waits for it until it has copied again.
    two.is_dead = true;
    assert_eq!(two.ms_to_join(2), 0);
    two.is_dead = false;
    two.pass(500);
    assert_eq!((two.members(), two.is_all()), (2, true));
    // The answer to the standby's confirmation is lost: the next query confirms again.
    let (lid, mad) = two.joining(3);
    two.master.lid = lid;
    let said = two.master.send(&mad);
    let arrived = two.said(said);
    two.told.clear();
    two.loses_next = true;
    two.hand(arrived);
    assert_eq!((two.copier.worth(), two.told.len()), (Worth::Part, 1));
}

#[test]
fn a_standby_that_is_silent_is_not_waited_for_longer_than_hosts_wait() {
    let mut two = Two::new();
    two.pass(10);
    assert!(two.is_all());
    two.is_dead = true;
    let ms = two.ms_to_join(1);
    assert!((700..1_000).contains(&ms), "{ms}");
    // By then the standby has noticed that it gets no answers.
    assert_eq!(two.copier.worth(), Worth::Unproven);
    // No answer waits for it again before it has sent a datagram.
    assert_eq!(two.ms_to_join(2), 0);
    two.is_dead = false;
    two.pass(1_000);
    assert_eq!((two.members(), two.is_all()), (2, true));
    assert_eq!(two.ms_to_join(3), 0);
    assert_eq!(two.copier.worth(), Worth::Part);
    // A host that repeats its request is answered once; a former master answers no host.
    two.pass(500);
    two.is_dead = true;
    two.told.clear();
    let (lid, mad) = two.joining(4);
    two.ask(lid, &mad);
    two.ask(lid, &mad);
    two.pass(1_000);
    assert_eq!(two.told.len(), 1);
    two.is_dead = false;
    two.pass(1_000);
    two.is_dead = true;
    let (lid, mad) = two.joining(6);
    two.ask(lid, &mad);
    two.master.feed(Input::Withdraw);
    two.told.clear();
    two.pass(1_000);
    assert!(two.told.is_empty());
}

/// The standby has a complete copy of one run of the master; the next run began before it noticed.
#[test]
fn a_standby_that_knows_another_life_is_waited_for() {
    let mut two = Two::new();
    two.pass(10);
    assert!(two.is_all());
    let config = Config {
        life: 78,
        ..Config::default()
    };
    let now = two.master.now;
    two.master = Bench::with(&Wish::new(TREE), config);
    two.master.now = now;
    two.loses_next = true;
    // Its query names the other run; the answer is lost.
    two.pass(360);
    assert!(two.is_all());
    let ms = two.ms_to_join(1);
    assert!((1..=350).contains(&ms), "{ms}");
    assert_eq!(two.copier.worth(), Worth::Part);
}

/// The standby's port has got another LID: no request comes from the old one any more. A host that repeats its request
/// with new transactions is answered in any case.
#[test]
fn a_standby_that_has_moved_is_waited_for_once() {
    let mut two = Two::new();
    two.pass(10);
    assert!(two.is_all());
    two.own = two.master.host(6);
    two.pass(400);
    assert!(two.is_all());
    two.told.clear();
    for _ in 0..18 {
        let (lid, mad) = two.joining(1);
        two.ask(lid, &mad);
        two.pass(50);
    }
    let answered = two.told.iter().filter(|to| to.address.lid == two.master.host(1));
    assert!(answered.count() >= 16, "{:?}", two.told.len());
    two.pass(200);
    assert!(two.is_all());
}
