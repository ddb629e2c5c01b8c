//! Jobs: started and ended by an operator, kept over a restart, and copied by a standby.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::two::{TREE, Two};
use crate::support::{Bench, Wish};
use selvedge_plan::partition::Who;
use selvedge_plan::qos::{Class, Hardware, Intent, Match, PathRules, PlannedQos};
use selvedge_plan::{LaneTables, ServiceLevels};
use selvedge_qos::intent::compile;
use selvedge_qos::jobs::{Job, JobError, Started};
use selvedge_sa::{Config, Input, JobAnswer, JobRequest, Registrations, Sa};
use selvedge_types::{Guid, Mtu};
use selvedge_wire::Method;
use selvedge_wire::sa::{SaStatus, records};

/// A plan with these classes, the first of which is the default one.
pub fn wish_with(classes: &[(&str, Vec<Match>)], groups: BTreeMap<String, BTreeSet<Guid>>, layers: u8) -> Wish {
    let class = |(name, matches): &(&str, Vec<Match>)| Class {
        name: (*name).to_owned(),
        share: (*name == "mpi").then_some(60),
        matches: matches.clone(),
        ..Class::default()
    };
    let intent = Intent {
        classes: classes.iter().map(class).collect(),
        default: classes[0].0.to_owned(),
        groups,
    };
    let hardware = Hardware {
        lanes: 4,
        vl_arb_high: 8,
        vl_arb_low: 16,
        mtu: Mtu::B2048,
    };
    let qos = PlannedQos {
        ports: BTreeMap::new(),
        rules: PathRules::Classes(Arc::new(compile(&intent, &hardware, layers).unwrap())),
        promises: Vec::new(),
    };
    with_qos(qos)
}

/// A plan with this quality of service.
pub fn with_qos(qos: PlannedQos) -> Wish {
    Wish {
        lanes: Some(LaneTables {
            lanes: 4,
            copies: None,
            levels: ServiceLevels::default(),
            qos: Some(Arc::new(qos)),
        }),
        ..Wish::new(TREE)
    }
}

/// A plan with a class of 60 % for MPI, and one for the rest.
fn wish(generation: u64) -> Wish {
    let classes = [("rest", Vec::new()), ("mpi", Vec::new())];
    Wish {
        generation,
        ..wish_with(&classes, BTreeMap::new(), 1)
    }
}

fn job(id: &str, share: u8, waits: bool) -> Job {
    Job {
        id: id.to_owned(),
        hosts: vec!["H-1".to_owned(), "H-2".to_owned()],
        class: Some("mpi".to_owned()),
        share: Some(share),
        waits,
        ..Job::default()
    }
}

fn ask(bench: &mut Bench, request: JobRequest) -> Result<JobAnswer, JobError> {
    bench.feed(Input::Job(request));
    bench.sa.take_job_answer().unwrap()
}

fn runs(registrations: &Registrations) -> Vec<String> {
    let text = registrations.to_text();
    let jobs = text.lines().filter_map(|line| line.strip_prefix("job "));
    let running = jobs.filter(|line| line.starts_with("{\"running\""));
    running.map(|line| line.split('"').nth(7).unwrap().to_owned()).collect()
}

#[test]
fn jobs_start_wait_end_and_are_kept() {
    let mut bench = Bench::new(&wish(1));
    let before = bench.sa.revision();
    let started = ask(&mut bench, JobRequest::Start(job("a", 40, false))).unwrap();
    let JobAnswer::Started(Started::Granted(grant)) = started else {
        panic!("{started:?}");
    };
    assert_eq!(grant.sls.len(), 1);
    assert!(bench.sa.revision() > before);
    let started = ask(&mut bench, JobRequest::Start(job("b", 30, true))).unwrap();
    assert!(matches!(
        started,
        JobAnswer::Started(Started::Waits {
            sum: 70,
            share: 60,
            before: 0
        })
    ));
    // A refusal changes nothing.
    let revision = bench.sa.revision();
    let refused = ask(&mut bench, JobRequest::Start(job("c", 30, false))).unwrap_err();
    assert!(refused.to_string().starts_with("SLV-QOS-0066"), "{refused}");
    assert_eq!(bench.sa.revision(), revision);
    // After a restart the jobs are there; until a plan is in force, none starts.
    let kept = Registrations::from_text(&bench.sa.registrations().to_text()).unwrap();
    assert_eq!(runs(&kept), ["a"]);
    bench.sa = Sa::with_registrations(Config::default(), bench.now, kept);
    bench.feed(Input::Serve);
    assert_eq!(
        ask(&mut bench, JobRequest::Start(job("d", 1, false))),
        Err(JobError::NoClasses)
    );
    bench.feed(Input::Committed(wish(2).snapshot()));
    let ended = ask(&mut bench, JobRequest::End("a".to_owned())).unwrap();
    let JobAnswer::Ended(granted) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(
        granted.iter().map(|grant| grant.job.id.as_str()).collect::<Vec<_>>(),
        ["b"]
    );
    assert_eq!(runs(&bench.sa.registrations()), ["b"]);
}

#[test]
fn a_job_names_hosts_that_are_connected() {
    let mut bench = Bench::new(&Wish {
        gone: vec![3],
        ..wish(1)
    });
    let with_host = |host: String| Job {
        hosts: vec![host],
        ..job("a", 1, false)
    };
    let guid = bench.snapshot.fabric().end_ports().find(|(at, _)| {
        let node = bench.snapshot.fabric().node(at.node);
        node.description == "H-1"
    });
    let node = bench.snapshot.fabric().node(guid.unwrap().0.node).guid;
    let known = ask(&mut bench, JobRequest::Start(with_host(node.to_string())));
    assert!(known.is_ok(), "{known:?}");
    for unknown in ["H", "H-", "S-L1-0", ""] {
        let refused = ask(
            &mut bench,
            JobRequest::Start(Job {
                id: "b".to_owned(),
                ..with_host(unknown.to_owned())
            }),
        );
        let host = unknown.to_owned();
        assert_eq!(
            refused,
            Err(JobError::HostDown {
                id: "b".to_owned(),
                host
            })
        );
    }
}

#[test]
fn an_isolated_job_gets_a_partition_of_its_hosts_until_it_ends() {
    let mut bench = Bench::new(&wish(1));
    assert_eq!(bench.sa.take_job_partitions(), None);
    let isolated = |id: &str| Job {
        isolated: true,
        ..job(id, 10, false)
    };
    let started = ask(&mut bench, JobRequest::Start(isolated("a"))).unwrap();
    let JobAnswer::Started(Started::Granted(grant)) = started else {
        panic!("{started:?}");
    };
    let partitions = bench.sa.take_job_partitions().unwrap();
    let [partition] = &partitions[..] else {
        panic!("{partitions:?}");
    };
    assert_eq!(grant.pkey.map(|pkey| pkey.0), Some(partition.key | 0x8000));
    assert_eq!((partition.name.as_str(), partition.rules.len()), ("job a", 2));
    let hosts = grant.ports.iter().map(|guid| Who::Port(*guid));
    assert!(partition.rules.iter().map(|rule| rule.who).eq(hosts));
    // A job that is not isolated changes no partition.
    ask(&mut bench, JobRequest::Start(job("b", 10, false))).unwrap();
    assert_eq!(bench.sa.take_job_partitions(), None);
    // After a restart the manager gets it before the first plan.
    let kept = bench.sa.registrations();
    bench.sa = Sa::with_registrations(Config::default(), bench.now, kept);
    assert_eq!(bench.sa.take_job_partitions(), Some(partitions));
    bench.feed(Input::Serve);
    bench.feed(Input::Committed(wish(2).snapshot()));
    // Another manager is master: its jobs count, and it may have none.
    let mut standby = Sa::with_registrations(Config::default(), bench.now, bench.sa.registrations());
    assert!(standby.take_job_partitions().is_some());
    standby.handle(bench.now, Input::Forget, &mut Vec::new());
    assert_eq!(standby.take_job_partitions(), Some(Vec::new()));
    ask(&mut bench, JobRequest::End("a".to_owned())).unwrap();
    assert_eq!(bench.sa.take_job_partitions(), Some(Vec::new()));
}

#[test]
fn a_plan_without_classes_has_no_jobs() {
    let mut bench = Bench::new(&Wish::new(TREE));
    let refused = ask(&mut bench, JobRequest::Start(job("a", 1, false)));
    assert_eq!(refused, Err(JobError::NoClasses));
    assert_eq!(runs(&bench.sa.registrations()), Vec::<String>::new());
}

#[test]
fn a_standby_copies_the_jobs_of_its_master() {
    let mut two = Two::with(&wish(1));
    two.pass(100);
    assert_eq!((two.is_all(), runs(&two.copy).len()), (true, 0));
    for id in [
        "a",
        "a job with a name of more than one piece of sixty-four bytes, and a \"quote\"",
    ] {
        let said = two.master.feed(Input::Job(JobRequest::Start(job(id, 20, false))));
        let to_us = two.said(said);
        two.hand(to_us);
        assert!(two.master.sa.take_job_answer().unwrap().is_ok());
        assert!(!two.is_all(), "the standby knows that its copy is old");
        two.pass(2_000);
        assert!(two.is_all());
        assert_eq!(
            two.copy.to_text().matches("\njob ").count(),
            two.master.sa.jobs().running().count()
        );
        two.check_same();
    }
    two.master.feed(Input::Job(JobRequest::End("a".to_owned())));
    two.pass(2_000);
    two.check_same();
    assert_eq!(two.copy.to_text().matches("\njob ").count(), 1);
    two.master.lid = two.master.host(2);
    let asked = two.master.ask(Method::GetTable, &records::JOBS, &[]);
    assert_eq!(asked.status, SaStatus::DENIED, "it is for standbys");
}
