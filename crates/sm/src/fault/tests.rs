//! Tests the sub-machines of repairs and of backups, without a manager.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::Installed;
use selvedge_planner::{BackUp, Basis, Damage, Job, JobId, JobResult, Outcome, Prepare, Repair, Task, Warm};
use selvedge_sim::{Par, Time};
use selvedge_types::PortState;

use super::Suspects;
use super::backups::{self, BackupBook};
use super::probe::{self, Probe, Start};
use super::repair::{Chance, Ctx, Effect, In, Repairs};
use crate::event::SweepReason;
use crate::made::{FAR, FIRST, SECOND, info, inventory, outcome, place, row};

const ALL_KNOWN: Ctx = Ctx {
    knows_the_fabric: true,
    has_looked_again: true,
    sweep_reason: SweepReason::Start,
};

/// Hands in an input. Returns the effects by name.
fn hand(repairs: &mut Repairs, ctx: &Ctx, input: In<'_>) -> Vec<String> {
    let mut effects = Vec::new();
    repairs.handle(ctx, input, &mut effects);
    let words = effects.into_iter().map(|effect| match effect {
        Effect::Join(suspects) => format!("join {}", suspects.nodes.len()),
        Effect::Probe {
            suspects,
            reason,
            is_check,
        } => {
            let what = if is_check { "check" } else { "probe" };
            format!("{what} {}: {reason}", suspects.nodes.len())
        }
        Effect::Sweep(reason) => format!("sweep: {reason}"),
        Effect::Compute(job) => match &job.task {
            Task::Repair(repair) if repair.warm.is_some() => format!("repair {}, prepared", job.id.0),
            Task::Repair(_) => format!("repair {}", job.id.0),
            Task::Prepare(_) => format!("prepare {}", job.id.0),
            other => format!("{other:?}"),
        },
        Effect::Prepare => "have repairs prepared".to_owned(),
        Effect::Ready => "ready".to_owned(),
    });
    words.collect()
}

fn basis(outcome: &Outcome) -> Basis {
    let installed = Arc::new(Installed::unknown(2));
    Basis::new(&outcome.inventory, &installed, Arc::default())
}

/// Returns the repair of the link between the two switches of [`row`] (host, two switches, host). The first switch has
/// reported the loss.
fn repair(outcome: &Outcome) -> Box<Repair> {
    let [near, far] = [(FIRST, 2), (SECOND, 1)].map(|(at, port)| place(&outcome.inventory, at, port));
    let damage = Damage {
        lost: [near, far].into(),
        flagged: [near.node].into(),
        ..Damage::default()
    };
    let (plan, verdict) = (Arc::clone(&outcome.plan), Arc::clone(&outcome.verdict));
    Box::new(Repair::new(basis(outcome), damage, plan, verdict))
}

fn prepare(outcome: &Outcome) -> Box<Prepare> {
    Box::new(Prepare {
        basis: basis(outcome),
        adopt: selvedge_planner::Adopt::No,
        plan: Arc::clone(&outcome.plan),
        warm: None,
    })
}

#[test]
fn suspects_are_probed_unless_only_a_sweep_helps() {
    let outcome = outcome();
    let check = |reason: SweepReason, chance: Chance, ctx: &Ctx, want: &[&str]| {
        let mut repairs = Repairs::default();
        assert_eq!(hand(&mut repairs, ctx, In::MayProbe(chance)), [""; 0]);
        for at in [FIRST, SECOND] {
            let node = place(&outcome.inventory, at, 1).node;
            assert_eq!(hand(&mut repairs, ctx, In::Suspected(node, reason)), [""; 0]);
        }
        assert_eq!(
            hand(&mut repairs, ctx, In::MayProbe(chance)),
            want,
            "{reason} {chance:?}"
        );
        assert_eq!(repairs.has_suspects(), want.is_empty());
    };
    let (trap, found) = (SweepReason::Trap(128), SweepReason::LightSweep);
    let during = |is_over| Chance::LightSweep { is_over };
    check(trap, Chance::Probing, &ALL_KNOWN, &["join 2"]);
    check(trap, Chance::Free, &ALL_KNOWN, &[&format!("probe 2: {trap}")]);
    check(trap, during(false), &ALL_KNOWN, &[&format!("probe 2: {trap}")]);
    check(found, during(false), &ALL_KNOWN, &[]);
    check(found, during(true), &ALL_KNOWN, &[&format!("probe 2: {found}")]);
    let not_known = Ctx {
        knows_the_fabric: false,
        ..ALL_KNOWN
    };
    let not_looked = Ctx {
        has_looked_again: false,
        ..ALL_KNOWN
    };
    for ctx in [not_known, not_looked] {
        check(trap, Chance::Free, &ctx, &[&format!("sweep: {trap}")]);
    }
}

#[test]
fn a_reason_ends_with_the_suspects_that_it_was_for() {
    let outcome = outcome();
    let node = place(&outcome.inventory, FIRST, 1).node;
    let mut repairs = Repairs::default();
    hand(&mut repairs, &ALL_KNOWN, In::Suspected(node, SweepReason::Trap(128)));
    assert_eq!(
        hand(&mut repairs, &ALL_KNOWN, In::MayProbe(Chance::Probing)),
        ["join 1"]
    );
    hand(&mut repairs, &ALL_KNOWN, In::Suspected(node, SweepReason::LightSweep));
    let during = |is_over| In::MayProbe(Chance::LightSweep { is_over });
    assert_eq!(
        hand(&mut repairs, &ALL_KNOWN, during(false)),
        [""; 0],
        "the trap has been dealt with"
    );
    let want = format!("probe 1: {}", SweepReason::LightSweep);
    assert_eq!(hand(&mut repairs, &ALL_KNOWN, during(true)), [want]);
}

#[test]
fn a_repair_waits_for_what_is_being_prepared() {
    let outcome = outcome();
    let warm = || Some(Box::new(Warm::default()));
    let mut repairs = Repairs::default();
    let mut hand = |input: In<'_>| hand(&mut repairs, &ALL_KNOWN, input);
    assert_eq!(hand(In::Repair(JobId(1), repair(&outcome))), ["repair 1"]);
    assert_eq!(hand(In::Warm(warm())), [""; 0]);
    assert_eq!(hand(In::Repair(JobId(2), repair(&outcome))), ["repair 2, prepared"]);
    assert_eq!(hand(In::Prepare(JobId(3), prepare(&outcome))), ["prepare 3"]);
    assert_eq!(hand(In::Repair(JobId(4), repair(&outcome))), [""; 0]);
    assert_eq!(hand(In::Prepared(warm())), ["repair 4, prepared"]);
    assert_eq!(hand(In::Prepare(JobId(5), prepare(&outcome))), ["prepare 5"]);
    assert_eq!(hand(In::Prepared(warm())), ["ready"]);
    assert_eq!(hand(In::Repair(JobId(6), repair(&outcome))), ["repair 6, prepared"]);
}

#[test]
fn what_was_repaired_is_probed_again() {
    let outcome = outcome();
    let [near, other, host] = [FIRST, SECOND, FAR].map(|at| place(&outcome.inventory, at, 1).node);
    let applied = In::Applied { has_switches: true };
    let mut repairs = Repairs::default();
    assert_eq!(
        hand(&mut repairs, &ALL_KNOWN, applied),
        ["have repairs prepared"],
        "a plan that is no repair"
    );
    hand(&mut repairs, &ALL_KNOWN, In::Repair(JobId(1), repair(&outcome)));
    assert_eq!(repairs.links(), (1, 0), "both ends of one link");
    assert!(repairs.is_under_way() && repairs.is_for(near) && repairs.is_for(other) && !repairs.is_for(host));
    hand(&mut repairs, &ALL_KNOWN, In::SaidLate(other));
    let again = format!("check 2: {}", SweepReason::Start);
    let applied = In::Applied { has_switches: true };
    assert_eq!(
        hand(&mut repairs, &ALL_KNOWN, applied),
        ["have repairs prepared", &again]
    );
    assert!(!repairs.is_under_way() && !repairs.has_suspects());

    hand(&mut repairs, &ALL_KNOWN, In::Repair(JobId(2), repair(&outcome)));
    let ctx = Ctx {
        knows_the_fabric: false,
        ..ALL_KNOWN
    };
    let swept = format!("sweep: {}", SweepReason::Again);
    let applied = In::Applied { has_switches: true };
    assert_eq!(hand(&mut repairs, &ctx, applied), [swept], "some Set has failed");
}

#[test]
fn backups_are_made_once_for_what_is_proved() {
    let outcome = outcome();
    let task = Task::Prepare(prepare(&outcome));
    let JobResult::Prepare(warm) = Job { id: JobId(1), task }.run(Par::Sequential) else {
        panic!("another result");
    };
    let mut repairs = Repairs::default();
    hand(&mut repairs, &ALL_KNOWN, In::Prepared(warm));
    assert_eq!(repairs.proved(usize::MAX), None, "too large");
    let state = repairs.proved(1).unwrap();

    let mut book = BackupBook::default();
    let mut hand = |second: u64, input: backups::In| {
        let ctx = backups::Ctx {
            now: Time::ZERO + Duration::from_secs(second),
            quiet: Some(Duration::from_secs(10)),
            plan: Some(&outcome.plan),
            inventory: Some(&outcome.inventory),
            knows_the_fabric: true,
        };
        let mut effects = Vec::new();
        book.handle(&ctx, input, &mut effects);
        (effects, book.due(), book.kept().len())
    };
    let (effects, due, _) = hand(5, backups::In::Ready);
    assert_eq!((effects.len(), due), (0, Some(Time::ZERO + Duration::from_secs(15))));
    assert!(hand(15, backups::In::Due(None)).0.is_empty(), "nothing is proved");
    let (effects, due, _) = hand(15, backups::In::Due(Some(state)));
    let [backups::Effect::Begin { plan, known: None, .. }] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!(due, None);
    let task = Box::new(BackUp::new(basis(&outcome), Arc::clone(plan), Vec::new(), None));
    hand(15, backups::In::HandedOut(JobId(2)));
    assert!(
        hand(15, backups::In::Due(Some(state))).0.is_empty(),
        "they are being made"
    );
    let task = Task::BackUp(task);
    let JobResult::BackUp(made) = Job { id: JobId(2), task }.run(Par::Sequential) else {
        panic!("another result");
    };
    let (_, _, kept) = hand(16, backups::In::Made(made));
    assert_eq!(kept, 1);
    let (effects, _, _) = hand(30, backups::In::Due(Some(state)));
    let begins = effects
        .iter()
        .any(|effect| !matches!(effect, backups::Effect::Event(_)));
    assert!(!begins, "they are complete: {effects:?}");
}

#[test]
fn a_probe_ends_when_what_was_said_is_explained() {
    let inventory = Arc::new(inventory(row()));
    // The state of the first switch's port to the second, and whether the local port is unchanged; then all answers are
    // there.
    let check = |is_check: bool, state: PortState, is_as_known: bool, want: &[&str]| {
        let node = place(&inventory, FIRST, 1).node;
        let start = Start {
            inventory: Arc::clone(&inventory),
            held: BTreeSet::new(),
            reason: SweepReason::Trap(128),
            began: Time::ZERO,
            is_check,
        };
        let suspects = Suspects {
            nodes: [node].into(),
            flagged: [node].into(),
            reason: None,
        };
        let mut probe = Probe::new(start, &suspects);
        let answer = info(state);
        let inputs = [
            probe::In::Port(place(&inventory, FIRST, 2), Some(&answer)),
            probe::In::OwnPort { is_as_known },
            probe::In::AllEnded,
        ];
        let got = inputs.into_iter().map(|input| {
            let mut effects = Vec::new();
            probe.handle(Time::ZERO, input, &mut effects);
            match effects.pop() {
                None => "",
                Some(probe::Effect::AskBehind { .. }) => "ask",
                Some(probe::Effect::Repair(damage)) if damage.lost.len() == 1 => "repair",
                Some(probe::Effect::Sweep(_)) => "sweep",
                Some(probe::Effect::Confirmed) => "confirmed",
                Some(other) => panic!("{other:?}"),
            }
        });
        let got: Vec<_> = got.take(want.len()).collect();
        assert_eq!(got, want, "{is_check} {state:?} {is_as_known}");
    };
    use PortState::{Active, Down, Init};
    check(false, Down, true, &["", "repair"]);
    check(false, Down, false, &["", "sweep"]);
    check(false, Active, true, &["", "", "sweep"]);
    check(true, Active, true, &["", "", "confirmed"]);
    check(true, Down, true, &["", "", "repair"]);
    // The node behind it is asked first.
    check(false, Init, true, &["ask", ""]);
}
