//! Which pairs have alternate paths, on small fabrics.

use std::sync::Arc;

use selvedge_api::AlternateShare;
use selvedge_routing::Engine;

use super::*;
use crate::testing::{lids_with, start};
use crate::watch::NoWatch;
use crate::watch::tests::Recorded;

fn question(spec: &str, lmc: u8, policy: &str) -> Question {
    let mut start = start(spec, Engine::Auto);
    start.lids = Arc::new(lids_with(&start.fabric, lmc));
    Question {
        name: spec.to_owned(),
        start,
        bits: 0,
        policy: Some(policy.parse().unwrap()),
        sample: None,
        seed: 1,
        top: 5,
        threads: Threads::ONE,
    }
}

fn all(question: &Question) -> Alternates {
    question.answer(&[], &NoWatch).unwrap().alternates
}

#[test]
fn two_planes_share_nothing() {
    let found = all(&question("karytree:k=3,n=2,rails=2", 0, "port"));
    assert_eq!(
        (found.hosts, found.pairs, found.with_alternate, found.disjoint),
        (9, 36, 36, 36)
    );
    assert_eq!(found.shared_links, [AlternateShare { shared: 0, pairs: 36 }]);
    assert!(found.ok && found.faults.is_empty() && found.worst.is_empty());
}

#[test]
fn a_leaf_is_the_unavoidable_fault_of_all_its_hosts() {
    let found = all(&Question {
        top: 50,
        ..question("karytree:k=3,n=2", 2, "manager")
    });
    assert_eq!((found.pairs, found.with_alternate, found.lmc), (36, 36, 2));
    // Each of three leaves has three hosts: 3 pairs within, and 3 × 6 with others.
    let leaf = found.faults.iter().find(|fault| fault.name == "\"S-L1-0\"").unwrap();
    assert_eq!((leaf.kind.as_str(), leaf.unavoidable), ("switch", 21));
    assert_eq!(found.disjoint + found.worst.len() as u64, 36, "{:?}", found.worst);
}

#[test]
fn a_chain_breaks_in_the_middle() {
    // Every path crosses the middle: no alternate avoids it, but nothing says so in the ports alone.
    let found = all(&question("mesh:3x1,hosts=1", 1, "manager"));
    assert_eq!((found.pairs, found.disjoint, found.ok), (3, 0, false));
    let middle = found.faults.iter().find(|fault| fault.name == "\"S-1-0\"").unwrap();
    assert_eq!((middle.pairs, middle.unavoidable), (1, 2), "{:?}", found.faults);
    assert_eq!(
        (found.worst[0].source.as_str(), found.worst[0].target.as_str()),
        ("H-0", "H-2")
    );
    assert_eq!(found.worst[0].avoidable, 3);
}

#[test]
fn pairs_without_an_alternate_are_counted_by_reason() {
    let found = all(&question("karytree:k=3,n=2", 0, "openmpi"));
    assert_eq!((found.with_alternate, found.ok), (0, false));
    let [refused] = &found.refused[..] else {
        panic!("{found:?}")
    };
    assert_eq!((refused.code.as_str(), refused.pairs), ("SLV-APM-0005", 36));
    assert!(refused.example.contains("H-0"), "{}", refused.example);
}

#[test]
fn one_answer_on_any_number_of_threads() {
    let [one, four] = [1, 4].map(|threads| {
        let asked = Question {
            threads: Threads::new(threads),
            ..question("torus:4x4x3,hosts=1", 1, "manager")
        };
        let watch = Recorded::default();
        let found = asked.answer(&[], &watch).unwrap().alternates;
        let last = watch.reports().pop().unwrap();
        assert_eq!((last.stage, last.done, last.total), (Stage::Alternates, 3, 3));
        found
    });
    assert_eq!(one, four);
}

#[test]
fn a_sample_is_drawn_by_its_seed() {
    let drawn = |seed: u64| {
        let asked = Question {
            sample: Some(20),
            seed,
            ..question("karytree:k=4,n=2", 1, "manager")
        };
        let found = all(&asked);
        assert_eq!((found.pairs, found.pairs_there_are), (20, 120));
        found
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn hosts_are_named() {
    let asked = question("karytree:k=3,n=2", 1, "lmc=1");
    let names = ["H-1", "H-5", "H-7"].map(str::to_owned);
    let found = asked.answer(&names, &NoWatch).unwrap().alternates;
    assert_eq!((found.hosts, found.pairs), (3, 3));
    let listed = asked.of_host("H-4", &NoWatch).unwrap().paths.paths;
    assert_eq!(listed.len(), 8);
    assert!(
        listed
            .iter()
            .all(|path| path.source == "H-4" && path.alternate.is_some())
    );
    let error = asked.of_host("H-44", &NoWatch).unwrap_err().to_string();
    assert!(error.contains("did you mean 'H-4'?"), "{error}");
    let error = asked.of_pair(("H-1", "H-1"), &NoWatch).unwrap_err().to_string();
    assert!(error.starts_with("SLV-APM-0003"), "{error}");
}

#[test]
fn a_pair_is_asked_by_every_policy() {
    let asked = Question {
        policy: None,
        ..question("karytree:k=3,n=2,rails=2", 1, "manager")
    };
    let listed = asked.of_pair(("H-0", "H-8"), &NoWatch).unwrap().paths;
    let policies: Vec<&str> = listed.paths.iter().map(|path| path.policy.as_str()).collect();
    assert_eq!(policies, ["manager", "port", "hca", "lmc=1", "openmpi", "mvapich2"]);
    let has: Vec<bool> = listed.paths.iter().map(|path| path.alternate.is_some()).collect();
    assert_eq!(has, [true, true, false, true, true, true]);
    assert!(listed.paths[2].refused.as_ref().unwrap().starts_with("SLV-APM-0008"));
    assert!(listed.ok && listed.paths[2].primary.is_some());
    let one = Question {
        policy: Some(Policy::Hca),
        ..asked
    };
    let error = one.of_pair(("H-0", "H-8"), &NoWatch).unwrap_err().to_string();
    assert!(error.starts_with("SLV-APM-0008"), "{error}");
}

#[test]
fn a_cancelled_study_has_no_answer() {
    for units in [0, 1] {
        let watch = Recorded::cancelling_at(units);
        let asked = question("torus:4x4x3,hosts=1", 1, "manager");
        assert_eq!(asked.answer(&[], &watch).unwrap_err(), StudyError::Cancelled);
    }
}
