//! Backups equal the repairs that would be made after the loss, and are used only if nothing else has changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::PortRef;
use selvedge_planner::{BackUp, Backups, Basis, JobResult, RepairResult, Task};
use selvedge_sim::Par;
use selvedge_verify::Subject;
use selvedge_verify::standing::Standing;

use crate::mended::{Bench, between_switches, job};

/// Trees of several kinds, and a graph for `weave`.
const SPECS: [&str; 5] = [
    "karytree:k=4,n=2",
    "karytree:k=3,n=3",
    "mport:m=4,n=3",
    "pgft:m=4x4x4,w=1x2x2,p=1x2x2",
    "random:switches=24,degree=4,hosts=2,seed=3",
];

/// Computes the backups of all links.
fn worked_out(bench: &Bench) -> Arc<Backups> {
    let basis = Basis::new(&bench.inventory, &bench.installed, Arc::default());
    let mut task = BackUp::new(basis, Arc::clone(&bench.plan), Vec::new(), None);
    while !task.is_done() {
        task = match job(Task::BackUp(Box::new(task))).run(Par::Sequential) {
            JobResult::BackUp(Some(made)) => *made,
            other => panic!("{other:?}"),
        };
    }
    Arc::new(task.found().clone())
}

fn ready(spec: &str) -> Bench {
    let mut bench = Bench::up(spec);
    bench.prepare();
    bench.backups = vec![worked_out(&bench)];
    bench
}

/// Checks that Sets and results are the same.
fn assert_same(known: &RepairResult, anew: &RepairResult, what: &str) {
    let [known, anew] = [known, anew].map(|result| {
        let mended = result.mended.as_ref().unwrap();
        let outcome = &mended.outcome;
        let sets = outcome.changes.value().clone();
        (
            Arc::clone(&outcome.plan),
            sets,
            Arc::clone(&outcome.verdict),
            mended.installed.clone(),
        )
    });
    assert_eq!(known, anew, "{what}");
}

#[test]
fn what_was_worked_out_is_what_would_be_done() {
    for spec in SPECS {
        let bench = ready(spec);
        let unready = Bench {
            backups: Vec::new(),
            ..bench.clone()
        };
        let mut count = 0;
        for at in between_switches(&bench.inventory.fabric) {
            let what = format!("{spec} {at:?}");
            let (known, anew) = (bench.lose(&[at].into()), unready.lose(&[at].into()));
            assert!(!anew.was_known(), "{what}");
            assert_eq!(known.was_known(), anew.is_in_place(), "{what}");
            if known.was_known() {
                assert_same(&known, &anew, &what);
                count += 1;
            }
        }
        assert!(count > 8, "{spec}: {count}");
    }
}

#[test]
fn what_is_prepared_follows() {
    let (mut proofs, mut repairs) = (0, 0);
    for spec in SPECS {
        let start = ready(spec);
        let links = between_switches(&start.inventory.fabric);
        for &first in links.iter().step_by(7) {
            let mut known = start.clone();
            let mut anew = Bench {
                backups: Vec::new(),
                ..start.clone()
            };
            for bench in [&mut known, &mut anew] {
                let result = bench.lose(&[first].into());
                bench.take(&format!("{spec} {first:?}"), result);
                bench.prepare();
            }
            let standing = |bench: &Bench| bench.warm.as_ref().unwrap().standing.clone();
            let Some(proof) = standing(&known) else {
                assert!(standing(&anew).is_none(), "{spec} {first:?}");
                continue;
            };
            let fresh = Standing::new(Subject::plan(&known.inventory.fabric, &known.plan), Par::Sequential).unwrap();
            assert_eq!(
                (proof.state(), proof.proof()),
                (fresh.state(), fresh.proof()),
                "{spec} {first:?}"
            );
            proofs += 1;
            for &second in links.iter().step_by(5).filter(|&&second| second != first) {
                let what = format!("{spec} {first:?} {second:?}");
                let [known, anew] = [&known, &anew].map(|bench| bench.lose(&[second].into()));
                assert!(!known.was_known(), "{what}");
                assert_eq!(known.mended.is_some(), anew.mended.is_some(), "{what}");
                if known.mended.is_some() {
                    assert_same(&known, &anew, &what);
                    repairs += 1;
                }
            }
        }
    }
    println!("{proofs} proofs, {repairs} second repairs");
    assert!(proofs > 0 && repairs > 0, "{proofs} proofs, {repairs} second repairs");
}

/// A repair that comes before the prepared data is updated.
#[test]
fn the_next_repair_does_not_need_what_is_prepared() {
    for spec in SPECS {
        let mut bench = ready(spec);
        let links = between_switches(&bench.inventory.fabric);
        let (first, second) = (links[0], links[links.len() - 1]);
        let result = bench.lose(&[first].into());
        assert!(result.was_known(), "{spec}");
        bench.take(spec, result);
        let result = bench.lose(&[second].into());
        assert!(!result.was_known() && !result.is_in_place(), "{spec}");
        bench.take(spec, result);
    }
}

#[test]
fn nothing_is_taken_where_something_else_holds() {
    let check = |bench: &Bench, lost: &[PortRef], want: bool| {
        let lost: BTreeSet<PortRef> = lost.iter().copied().collect();
        assert_eq!(bench.lose(&lost).was_known(), want, "{lost:?}");
    };
    let bench = ready("karytree:k=3,n=3");
    let links = between_switches(&bench.inventory.fabric);
    let (at, other) = (links[0], links[links.len() - 1]);
    check(&bench, &[at], true);
    check(&bench, &[at, other], false);
    let unprepared = Bench {
        warm: None,
        ..bench.clone()
    };
    check(&unprepared, &[at], false);
    // Backups for this state are used, whatever other backups are kept.
    let mut later = bench.clone();
    let result = later.lose(&[at].into());
    let changes = result.outcome().unwrap().changes.value().clone();
    later.take("the first", result);
    later.prepare();
    check(&later, &[other], false);
    later.backups.push(worked_out(&later));
    check(&later, &[other], true);
    later.backups.reverse();
    check(&later, &[other], true);
    // They were not judged with earlier packets in flight.
    later.remember(&bench.installed, &changes);
    later.prepare();
    check(&later, &[other], false);
}
