//! Path records with quality of service: classes and jobs; OpenSM's policy, partitions and dropped service levels.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::jobs::{wish_with, with_qos};
use crate::support::two::TREE;
use crate::support::{Bench, Value, Wish, number, port};
use selvedge_fabric::PortRef;
use selvedge_plan::qos::{Match, PathRules, PlannedQos, PortLanes};
use selvedge_plan::{LaneTables, ServiceLevels};
use selvedge_qos::jobs::Job;
use selvedge_qos::opensm::policy::{parse, resolved};
use selvedge_sa::{Input, JobRequest};
use selvedge_types::{Lid, PortNum, Sl, Vl};
use selvedge_wire::Method;
use selvedge_wire::sa::{Field, records};

use records::path as p;

/// SL, P_Key and MTU code of the path between two hosts; `None`: no path.
fn path(bench: &mut Bench, (from, to): (usize, usize), more: &[(Field, Value)]) -> Option<(u8, u16, u8)> {
    let lids = [(p::SLID, bench.host(from)), (p::DLID, bench.host(to))];
    let lids = lids.map(|(field, Lid(lid))| (field, number(lid)));
    let fields: Vec<(Field, Value)> = lids.into_iter().chain(more.iter().cloned()).collect();
    let told = bench.ask(Method::Get, &records::PATH, &fields);
    let row = told.rows.first()?;
    let byte = |field: Field| field.get(row) as u8;
    Some((byte(p::SL), p::PKEY.get(row) as u16, byte(p::MTU)))
}

fn sl(bench: &mut Bench, ends: (usize, usize), more: &[(Field, Value)]) -> Option<u8> {
    path(bench, ends, more).map(|(sl, ..)| sl)
}

fn service(id: u64) -> [(Field, Value); 2] {
    [
        (p::SERVICE_ID_MSB, number(id >> 56)),
        (p::SERVICE_ID_LSB, number(id & 0x00FF_FFFF_FFFF_FFFF)),
    ]
}

#[test]
fn a_path_has_the_service_level_of_its_class() {
    let guid = Bench::new(&Wish::new(TREE)).guid(4);
    let classes: [(&str, Vec<Match>); 4] = [
        ("rest", vec![]),
        (
            "storage",
            vec![Match::ServiceId(0x10, 0x1F), Match::PortGroup("oss".to_owned())],
        ),
        ("control", vec![Match::TrafficClass(7), Match::Job("sim".to_owned())]),
        ("mpi", vec![]),
    ];
    let groups = BTreeMap::from([("oss".to_owned(), [guid].into())]);
    let mut bench = Bench::new(&wish_with(&classes, groups, 1));
    assert_eq!(sl(&mut bench, (0, 1), &[]), Some(0), "the default class has SL 0");
    assert_eq!(sl(&mut bench, (0, 1), &service(0x15)), Some(1));
    assert_eq!(sl(&mut bench, (0, 1), &service(0x20)), Some(0));
    assert_eq!(
        sl(&mut bench, (0, 4), &[]),
        Some(1),
        "a port of the group is the destination"
    );
    assert_eq!(sl(&mut bench, (4, 0), &[]), Some(1), "it is the source");
    assert_eq!(sl(&mut bench, (0, 1), &[(p::TRAFFIC_CLASS, number(7_u8))]), Some(2));
    // Requested service levels: of a class, of none.
    for (requested, want) in [(0_u8, Some(0)), (3, Some(3)), (4, None), (15, None)] {
        assert_eq!(
            sl(&mut bench, (0, 1), &[(p::SL, number(requested))]),
            want,
            "SL {requested}"
        );
    }
    // A job: by a match, and by the class that it names.
    let job = |id: &str, class: Option<&str>| Job {
        id: id.to_owned(),
        hosts: vec!["H-1".to_owned(), "H-2".to_owned()],
        class: class.map(str::to_owned),
        ..Job::default()
    };
    let start = |bench: &mut Bench, job| {
        bench.feed(Input::Job(JobRequest::Start(job)));
        bench.sa.take_job_answer().unwrap().unwrap();
    };
    start(&mut bench, job("sim", None));
    assert_eq!(sl(&mut bench, (1, 2), &[]), Some(2));
    assert_eq!(
        sl(&mut bench, (1, 3), &[]),
        Some(0),
        "the other end does not run the job"
    );
    start(&mut bench, job("other", Some("mpi")));
    assert_eq!(sl(&mut bench, (2, 1), &[]), Some(3));
    bench.feed(Input::Job(JobRequest::End("other".to_owned())));
    assert_eq!(sl(&mut bench, (2, 1), &[]), Some(2));
}

/// With two layers of routing the destination's layer decides which of the class's service levels a path has.
#[test]
fn a_class_has_a_service_level_for_each_layer_of_routing() {
    let classes: [(&str, Vec<Match>); 2] = [("rest", vec![]), ("storage", vec![Match::ServiceId(1, 1)])];
    let plain = wish_with(&classes, BTreeMap::new(), 2);
    let layer_of = |lid: u16| Sl::new((lid % 2) as u8).unwrap();
    let levels = ServiceLevels::PerDestination((0..64).map(layer_of).collect());
    let wish = Wish {
        relied_on: 2,
        lanes: plain.lanes.clone().map(|lanes| LaneTables { levels, ..lanes }),
        ..plain
    };
    let mut bench = Bench::new(&wish);
    for to in 1..6 {
        let layer = (bench.host(to).0 % 2) as u8;
        assert_eq!(sl(&mut bench, (0, to), &[]), Some(layer), "host {to}");
        assert_eq!(sl(&mut bench, (0, to), &service(1)), Some(2 + layer), "host {to}");
        // The service level of another layer would leave the layer on which the route is free of deadlock.
        assert_eq!(
            sl(&mut bench, (0, to), &[(p::SL, number(1 - layer))]),
            None,
            "host {to}"
        );
    }
}

const POLICY: &str = "qos-levels\nqos-level\nname: DEFAULT\nsl: 1\nend-qos-level\nqos-level\nname: Narrow\nsl: 2\n\
                      mtu-limit: 1\nend-qos-level\nqos-level\nname: Dropped\nsl: 5\nend-qos-level\nend-qos-levels\n\
                      qos-match-rules\nqos-match-rule\nqos-class: 8\nqos-level-name: Narrow\nend-qos-match-rule\n\
                      qos-match-rule\nservice-id: 9\nqos-level-name: Dropped\nend-qos-match-rule\n\
                      end-qos-match-rules\n";

/// A plan with OpenSM's tables: SL n on lane n mod 4; a switch drops SL 5 of packets from its port 1.
fn opensm(policy: Option<&str>) -> Wish {
    let plain = Wish::new(TREE);
    let fabric = Bench::new(&plain).snapshot.fabric().clone();
    let row: [Vl; Sl::COUNT] = std::array::from_fn(|sl| Vl::new(sl as u8 % 4).unwrap());
    let mut dropping = row;
    dropping[5] = Vl::MANAGEMENT;
    let mut ports = BTreeMap::new();
    for (node, kind) in fabric.nodes().iter_enumerated() {
        for (num, _) in kind.all_ports() {
            let rows = BTreeMap::from([(port(1), dropping)]);
            let lanes = PortLanes {
                row: Some(row),
                rows: if kind.is_switch() { rows } else { BTreeMap::new() },
                ..PortLanes::default()
            };
            ports.insert(PortRef { node, port: num }, lanes);
        }
    }
    let policy = policy.map(|text| {
        let file = Arc::new(parse(text).unwrap());
        Arc::new(resolved(&file, &fabric, &selvedge_plan::partition::Partitions::default(), None).0)
    });
    let qos = PlannedQos {
        ports,
        rules: PathRules::OpenSm(policy),
        promises: Vec::new(),
    };
    with_qos(qos)
}

#[test]
fn a_service_level_that_a_hop_drops_is_no_path() {
    let mut bench = Bench::new(&opensm(Some(POLICY)));
    // The first host of a leaf is at its port 1.
    let at_port_one = |bench: &Bench, host: usize| {
        let fabric = bench.snapshot.fabric();
        let at = fabric.find_port(bench.guid(host)).unwrap();
        fabric.peer(at).unwrap().port == PortNum::new(1).unwrap()
    };
    let (dropped, passing): (Vec<usize>, Vec<usize>) = (0..4).partition(|host| at_port_one(&bench, *host));
    assert!(!dropped.is_empty() && !passing.is_empty());
    let to = |from: usize| (from + 1) % 2 + 2 * (from / 2);
    for from in dropped {
        assert_eq!(sl(&mut bench, (from, to(from)), &service(9)), None, "host {from}");
    }
    let mut without = Bench::new(&opensm(None));
    assert_eq!(sl(&mut without, (0, 1), &[]), Some(0), "that of the partition");
}
