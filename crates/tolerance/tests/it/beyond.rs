//! What the paper does not have: migration because of congestion, and alternates that die.

use selvedge_hca::{Costs, PS_PER_US, Ps, QpState};
use selvedge_tolerance::{Congestion, Deaths, Decision, Reach, Sample, Status, Thresholds, ToleranceError, path};
use selvedge_types::Lid;

use crate::duo::{Duo, MS};

const CALM: Sample = Sample {
    wait: 0,
    bandwidth: Some(1_000),
    expected: 1_000,
};
const WAITS: Sample = Sample { wait: 400, ..CALM };
const SLOW: Sample = Sample {
    bandwidth: Some(300),
    ..CALM
};
/// Between the thresholds.
const BUSY: Sample = Sample {
    wait: 200,
    bandwidth: Some(600),
    expected: 1_000,
};

fn policy() -> Congestion {
    Congestion::new(Thresholds {
        hold_off_ps: 10 * MS,
        ..Thresholds::default()
    })
    .unwrap()
}

/// Hands samples in, 1 ms apart from a time on; returns the times at which a migration was asked for.
fn run(policy: &mut Congestion, from_ms: u64, samples: &[(Sample, u64)]) -> Vec<u64> {
    let all = samples
        .iter()
        .flat_map(|&(sample, count)| (0..count).map(move |_| sample));
    let asked = (from_ms..)
        .zip(all)
        .filter(|(ms, sample)| policy.handle(ms * MS, sample, true) == Decision::Migrate);
    asked.map(|(ms, _)| ms).collect()
}

#[test]
fn a_row_of_congested_samples_asks_for_a_migration() {
    let check = |samples: &[(Sample, u64)], want: &[u64]| {
        assert_eq!(run(&mut policy(), 0, samples), want, "{samples:?}");
    };
    check(&[(CALM, 100)], &[]);
    check(&[(BUSY, 100)], &[]);
    check(&[(WAITS, 2), (BUSY, 1), (WAITS, 2), (CALM, 1)], &[]);
    check(&[(WAITS, 3)], &[2]);
    check(&[(SLOW, 2), (WAITS, 1)], &[2]);
    let idle = Sample {
        bandwidth: None,
        ..CALM
    };
    check(&[(idle, 50)], &[]);
}

#[test]
fn two_congested_paths_do_not_make_a_connection_swing() {
    let mut policy = policy();
    assert_eq!(run(&mut policy, 0, &[(WAITS, 60)]), [2], "the other path is no better");
    let counts = policy.counts();
    assert_eq!((counts.asked, counts.congested), (1, 60));
    assert_eq!((counts.held_off, counts.not_calm_yet), (3, 16));
    // Busy is not calm enough; three calm samples in a row are.
    assert_eq!(
        run(&mut policy, 60, &[(BUSY, 9), (CALM, 2), (BUSY, 1), (WAITS, 3)]),
        [0_u64; 0]
    );
    assert_eq!(run(&mut policy, 75, &[(CALM, 3), (WAITS, 3)]), [80]);
    // Calm during the hold-off does not count before its end.
    assert_eq!(run(&mut policy, 81, &[(CALM, 5), (WAITS, 3)]), [0_u64; 0]);
}

#[test]
fn a_connection_that_is_not_armed_is_not_migrated() {
    let mut policy = policy();
    for ms in 0..9 {
        assert_eq!(policy.handle(ms * MS, &WAITS, false), Decision::Stay);
    }
    assert_eq!(policy.counts().not_armed, 3);
    assert_eq!(run(&mut policy, 9, &[(WAITS, 3)]), [11], "armed meanwhile");
}

#[test]
fn thresholds_that_contradict_each_other_are_refused() {
    let check = |change: fn(&mut Thresholds), want: &str| {
        let mut thresholds = Thresholds::default();
        change(&mut thresholds);
        let found = Congestion::new(thresholds).unwrap_err();
        assert!(
            matches!(found, ToleranceError::Policy { .. }) && found.to_string().contains(want),
            "{found}"
        );
    };
    check(|t| t.wait_low = t.wait_high, "wait_low: 300; want less than wait_high");
    check(|t| t.wait_high = 1_001, "wait_high: 1001");
    check(|t| t.bandwidth_low = t.bandwidth_high, "bandwidth_low: 800");
    check(|t| t.bandwidth_high = 2_000, "bandwidth_high: 2000");
    check(|t| t.samples = 0, "samples: 0");
}

const fn reach(at: Ps, from: Option<Lid>, to: Lid, dies: bool) -> Reach {
    Reach { at, from, to, dies }
}

/// LIDs of port 2 of both hosts.
fn lids() -> [Lid; 2] {
    [0, 1].map(|host| path(host, 2, 8).ah.dlid)
}

/// An armed connection with its alternate path by port 2 of three, which dies in silence; then the cable of port 1 is
/// pulled. Returns the state of the queue pair and the port in use.
fn dies(respecify: bool, backs: Option<Ps>) -> (QpState, u8) {
    let mut duo = Duo::far_apart(3, 2, Costs::default());
    duo.load(2);
    duo.run(MS);
    duo.exchange();
    duo.rails.set_between(2, false);
    let at = duo.now() + MS;
    let [a, b] = lids();
    let both = |at, dies| [(a, b), (b, a)].map(|(from, to)| reach(at, Some(from), to, dies));
    let mut list = both(at, true).to_vec();
    list.extend(backs.into_iter().flat_map(|after| both(at + after, false)));
    let mut deaths = [0, 1].map(|_: usize| Deaths::new(list.clone()));
    while let Some(at) = deaths[0].next_at().filter(|_| respecify) {
        duo.run(at - duo.now());
        for host in [0, 1] {
            let third = path(1 - host, 3, 8);
            let choose = |_, dead: &selvedge_hca::Path| if dead.port == 2 { vec![*dead, third] } else { vec![] };
            let list = &mut deaths[host];
            let done = duo.with(host, |process, hca, now| {
                list.handle(now, hca, process, choose).unwrap()
            });
            let expected = if duo.now() == at && deaths[host].is_dead(a, b) {
                2
            } else {
                0
            };
            assert_eq!((done.moved.len(), done.without.len()), (expected, 0));
        }
    }
    duo.run(MS);
    duo.exchange();
    duo.invariant_shared_state("after the alternate died");
    duo.rails.set_cable(0, 1, false).unwrap();
    duo.exchange();
    let attr = duo.attr(0, 0);
    (attr.state, attr.primary.port)
}

#[test]
fn an_armed_alternate_that_dies_is_replaced_in_time() {
    assert_eq!(dies(false, None).0, QpState::Err, "without it the connection fails");
    assert_eq!(dies(true, None), (QpState::Rts, 3));
    assert_eq!(
        dies(true, Some(MS)),
        (QpState::Rts, 3),
        "a path that comes back is not loaded again"
    );
}

#[test]
fn a_connection_without_another_path_is_named() {
    let mut duo = Duo::connected(2, 1, Costs::FREE);
    duo.load(2);
    duo.exchange();
    let now = duo.now();
    let mut deaths = Deaths::new(vec![
        reach(now + PS_PER_US, None, lids()[1], true),
        reach(now, None, lids()[0], true),
    ]);
    let same = |_, dead: &selvedge_hca::Path| vec![*dead];
    let done = duo.with(0, |process, hca, now| deaths.handle(now, hca, process, same).unwrap());
    assert_eq!(
        (done.moved, done.without),
        (vec![], vec![duo.qps[0][0]]),
        "a dead path is not taken"
    );
    let done = duo.with(0, |process, hca, now| {
        deaths.handle(now, hca, process, |_, _| Vec::new()).unwrap()
    });
    assert_eq!(done, Default::default(), "nothing is due");
    assert_eq!(deaths.next_at(), Some(now + PS_PER_US));
    assert_eq!(duo.processes[0].count(Status::Armed), 1);
}
