//! Tests of jobs.

use proptest::prelude::*;
use selvedge_types::Mtu;

use super::*;
use crate::intent::{Class, Hardware, Intent, compile};

const PKEYS: PKeys = PKeys {
    first: 0x100,
    last: 0x101,
};

/// MPI at least 60 %, storage at least 30 %, control with low latency, the rest by default.
fn policy(layers: u8) -> Compiled {
    let class = |name: &str, share, latency| Class {
        name: name.to_owned(),
        share,
        latency,
        ..Class::default()
    };
    let intent = Intent {
        classes: vec![
            class("rest", None, Latency::Normal),
            class("mpi", Some(60), Latency::Normal),
            class("storage", Some(30), Latency::Normal),
            class("control", None, Latency::Low),
        ],
        default: "rest".to_owned(),
        ..Intent::default()
    };
    let hardware = Hardware {
        lanes: 8,
        vl_arb_high: 8,
        vl_arb_low: 16,
        mtu: Mtu::B4096,
    };
    compile(&intent, &hardware, layers).unwrap()
}

fn job(id: &str, class: Option<&str>, share: Option<u8>) -> Job {
    Job {
        id: id.to_owned(),
        hosts: vec!["n1".to_owned(), "n2".to_owned()],
        class: class.map(str::to_owned),
        share,
        ..Job::default()
    }
}

fn start(jobs: &mut Jobs, job: Job) -> Result<Started, JobError> {
    jobs.start(&policy(1), PKEYS, job, |host| host != "down")
}

fn sls(started: Result<Started, JobError>) -> Vec<u8> {
    match started {
        Ok(Started::Granted(grant)) => grant.sls.iter().map(|sl| sl.get()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn jobs_get_the_levels_of_their_class() {
    let mut jobs = Jobs::default();
    assert_eq!(sls(start(&mut jobs, job("a", None, None))), [0]);
    assert_eq!(sls(start(&mut jobs, job("b", Some("mpi"), Some(40)))), [1]);
    let small = Job {
        small: Some(("control".to_owned(), 2048)),
        ..job("c", Some("mpi"), Some(20))
    };
    let Ok(Started::Granted(grant)) = start(&mut jobs, small) else {
        panic!()
    };
    assert_eq!((grant.sls[0].get(), grant.small_sls[0].get()), (1, 3));
    assert_eq!(jobs.running().count(), 3);
}

#[test]
fn what_does_not_fit_is_refused_with_the_sum() {
    let mut jobs = Jobs::default();
    let check = |jobs: &mut Jobs, job: Job, want: &str| {
        let before = jobs.clone();
        let error = start(jobs, job).unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
        assert_eq!(*jobs, before, "nothing changes");
    };
    start(&mut jobs, job("a", Some("mpi"), Some(40))).unwrap();
    check(
        &mut jobs,
        job("b", Some("mpi"), Some(30)),
        "SLV-QOS-0066: job b: with it the jobs of class mpi would have 70 % of a link; the class has 60 %",
    );
    check(
        &mut jobs,
        job("b", Some("mpi"), Some(61)),
        "SLV-QOS-0065: job b wants 61 % of a link in class mpi; want 1 to 60",
    );
    check(
        &mut jobs,
        job("b", None, Some(11)),
        "SLV-QOS-0065: job b wants 11 % of a link in class rest; want 1 to 10",
    );
    check(&mut jobs, job("b", Some("mpi"), Some(0)), "SLV-QOS-0065");
    check(
        &mut jobs,
        job("a", None, None),
        "SLV-QOS-0060: a job called 'a' runs or waits already",
    );
    check(
        &mut jobs,
        job("b", Some("stroage"), None),
        "SLV-QOS-0064: no QoS class is called 'stroage'; did you mean 'storage'?; known: rest, mpi, storage, control",
    );
    let small = Job {
        small: Some(("tiny".to_owned(), 1024)),
        ..job("b", None, None)
    };
    check(&mut jobs, small, "SLV-QOS-0064: no QoS class is called 'tiny'");
    let none = Job {
        hosts: Vec::new(),
        ..job("b", None, None)
    };
    check(&mut jobs, none, "SLV-QOS-0062");
    let down = Job {
        hosts: vec!["n1".to_owned(), "down".to_owned()],
        ..job("b", None, None)
    };
    check(
        &mut jobs,
        down,
        "SLV-QOS-0063: job b: host 'down' is unknown or has no link",
    );
    let error = jobs.end(&policy(1), PKEYS, "A1").unwrap_err().to_string();
    assert!(
        error.starts_with("SLV-QOS-0061: no job called 'A1' runs or waits; did you mean 'a'?"),
        "{error}"
    );
}

#[test]
fn jobs_wait_in_order_of_arrival() {
    let mut jobs = Jobs::default();
    let waits = |id, share| Job {
        waits: true,
        ..job(id, Some("mpi"), Some(share))
    };
    start(&mut jobs, waits("a", 50)).unwrap();
    let got = start(&mut jobs, waits("b", 40)).unwrap();
    let want = Started::Waits {
        sum: 90,
        share: 60,
        before: 0,
    };
    assert_eq!(got, want);
    // It would fit, but b is first.
    let got = start(&mut jobs, waits("c", 10)).unwrap();
    let want = Started::Waits {
        sum: 60,
        share: 60,
        before: 1,
    };
    assert_eq!(got, want);
    let other = start(&mut jobs, job("d", Some("storage"), Some(30))).unwrap();
    assert!(matches!(other, Started::Granted(_)), "other classes do not wait");
    let restored = Jobs::restore(jobs.running().cloned().collect(), jobs.waiting().to_vec());
    assert_eq!(restored, jobs);
    let granted = jobs.end(&policy(1), PKEYS, "a").unwrap();
    let ids: Vec<&str> = granted.iter().map(|grant| grant.job.id.as_str()).collect();
    assert_eq!(ids, ["b", "c"]);
    assert!(jobs.waiting().is_empty());
}

#[test]
fn isolated_jobs_have_p_keys_of_their_own() {
    let mut jobs = Jobs::default();
    let isolated = |id, waits| Job {
        isolated: true,
        waits,
        ..job(id, None, None)
    };
    let pkey = |started| match started {
        Ok(Started::Granted(grant)) => grant.pkey.map(|pkey| pkey.0),
        other => panic!("{other:?}"),
    };
    assert_eq!(pkey(start(&mut jobs, isolated("a", false))), Some(0x8100));
    assert_eq!(pkey(start(&mut jobs, isolated("b", false))), Some(0x8101));
    let error = start(&mut jobs, isolated("c", false)).unwrap_err().to_string();
    assert!(
        error.starts_with("SLV-QOS-0067: job c: all P_Keys for jobs, 0x0100 to 0x0101, are in use"),
        "{error}"
    );
    assert!(matches!(
        start(&mut jobs, isolated("c", true)),
        Ok(Started::Waits { .. })
    ));
    let granted = jobs.end(&policy(1), PKEYS, "a").unwrap();
    assert_eq!(granted[0].pkey, Some(PKey(0x8100)));
}

#[test]
fn the_environment_names_level_and_p_key() {
    let text = |layers, isolated, alternates| {
        let mut jobs = Jobs::default();
        let job = Job {
            isolated,
            alternates,
            ..job("a", Some("mpi"), None)
        };
        let Ok(Started::Granted(grant)) = jobs.start(&policy(layers), PKEYS, job, |_| true) else {
            panic!()
        };
        let all = environment(&grant, 2)
            .into_iter()
            .map(|variable| format!("{}={}", variable.name, variable.value));
        all.collect::<Vec<_>>().join(" ")
    };
    let one = text(1, false, false);
    assert!(
        one.contains("UCX_IB_SL=1 ") && one.contains("NCCL_IB_SL=1 ") && !one.contains("PKEY"),
        "{one}"
    );
    let all = text(1, true, true);
    assert!(
        all.contains("UCX_IB_PKEY=0x8100 ") && all.ends_with("UCX_IB_NUM_PATHS=4"),
        "{all}"
    );
    // With two layers of routing only the path record knows the level.
    let two = text(2, false, false);
    assert_eq!(
        two,
        "OMPI_MCA_btl_openib_ib_path_record_service_level=1 MV2_PATH_SL_QUERY=1"
    );
}

/// Number of the job, its class, its share; whether it ends, is isolated, waits.
fn any_step() -> impl Strategy<Value = (u8, usize, Option<u8>, [bool; 3])> {
    (
        0..12_u8,
        0..4_usize,
        proptest::option::of(1..=60_u8),
        any::<[bool; 3]>(),
    )
}

proptest! {
    /// Whatever starts and ends: no class has more than its share, no P_Key is given twice, and no job is lost.
    #[test]
    fn the_sum_of_a_class_stays_within_its_share(
        steps in proptest::collection::vec(any_step(), 1..80),
    ) {
        let policy = policy(1);
        let mut jobs = Jobs::default();
        let mut known = std::collections::BTreeSet::new();
        for (number, class, share, [ends, isolated, waits]) in steps {
            let id = format!("j{number}");
            if ends {
                let was_known = known.remove(&id);
                prop_assert_eq!(jobs.end(&policy, PKEYS, &id).is_ok(), was_known);
            } else {
                let name = policy.classes[class].class.name.clone();
                let job = Job { isolated, waits, ..job(&id, Some(&name), share) };
                if jobs.start(&policy, PKEYS, job, |_| true).is_ok() {
                    prop_assert!(known.insert(id));
                }
            }
            for class in 0..policy.classes.len() {
                prop_assert!(jobs.sum(&policy, class) <= u32::from(share_of(&policy, class)));
            }
            let mut pkeys: Vec<PKey> = jobs.running().filter_map(|grant| grant.pkey).collect();
            let count = pkeys.len();
            pkeys.sort_unstable();
            pkeys.dedup();
            prop_assert_eq!(pkeys.len(), count);
            prop_assert_eq!(jobs.running().count() + jobs.waiting().len(), known.len());
            prop_assert!(jobs.clone().admit(&policy, PKEYS).is_empty(), "a job waits that could run");
        }
    }
}
