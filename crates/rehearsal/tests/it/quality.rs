//! Quality of service on emulated fabrics: policies change under traffic, links go and come back, and whenever the
//! manager is idle, agents hold the tables of the plan (the checkers of a rehearsal compare them).

use std::sync::Arc;
use std::time::Duration;

use selvedge_emulator::{Fault, NodeName, PortName};
use selvedge_fabric::PortRef;
use selvedge_plan::qos::{OpenSmQos, PathRules, PlannedQos, QosPolicy, Settings};
use selvedge_plan::{EngineName, Policy};
use selvedge_qos::{intent, opensm};
use selvedge_rehearsal::{ManagerId, Options, Rehearsal};
use selvedge_sim::Seed;
use selvedge_types::{PortNum, Sl, Vl};

use crate::common;

/// A tree and a graph with cycles, with eight lanes.
const SPECS: [(&str, &str); 2] = [
    ("pgft:m=4x4,w=1x4,p=1x1,vls=8", "fat-tree"),
    ("random:switches=8,degree=3,hosts=2,seed=4,vls=8", "weave"),
];

fn classes(lines: &[&str]) -> Option<Arc<QosPolicy>> {
    let read = intent::parse(lines.iter().copied()).unwrap();
    Some(Arc::new(QosPolicy::Classes(Arc::new(read))))
}

fn settings(lines: &[(&str, &str)], file: Option<&str>) -> Option<Arc<QosPolicy>> {
    let mut settings = Settings::default();
    for (key, value) in lines {
        opensm::set(&mut settings, key, value).unwrap();
    }
    Some(Arc::new(QosPolicy::OpenSm(Box::new(OpenSmQos {
        settings,
        policy: file.map(|text| Arc::new(opensm::policy::parse(text).unwrap())),
        ..OpenSmQos::default()
    }))))
}

struct World {
    rehearsal: Rehearsal,
    manager: ManagerId,
}

impl World {
    fn up(spec: &str, policy: Policy) -> Self {
        let fabric = common::fabric(spec);
        let options = Options {
            seed: Seed(11),
            ..Options::default()
        };
        let mut rehearsal = Rehearsal::new(&fabric, options);
        rehearsal.watch();
        let manager = common::add_manager(&mut rehearsal, "a", "\"H-0\"", 1, policy);
        rehearsal.start(manager).unwrap();
        let mut world = Self { rehearsal, manager };
        world.quiet("bring-up");
        world
    }

    fn quiet(&mut self, what: &str) {
        let run = self.rehearsal.run_for(Duration::from_secs(40));
        let run = run.and_then(|_| self.rehearsal.run_until_quiet(Duration::from_secs(60)));
        run.unwrap_or_else(|why| panic!("{what}: {why}\n{}", self.rehearsal.log_text()));
    }

    fn to(&mut self, what: &str, policy: &Policy) {
        self.rehearsal.reload(self.manager, Arc::new(policy.clone())).unwrap();
        self.quiet(what);
        let log = self.rehearsal.log_text();
        assert!(!log.contains("SLV-SM-0005"), "{what}: the judge refuses a plan\n{log}");
    }

    fn qos(&self) -> Option<Arc<PlannedQos>> {
        let plan = self.rehearsal.view(self.manager)?.plan?;
        plan.lane_tables.as_ref()?.qos.clone()
    }

    /// Row and arbitration entries of the manager's port, and VLHighLimit that the agent holds.
    fn held(&self) -> (Vec<u8>, Vec<(u8, u8)>, u8) {
        let chassis = self.rehearsal.emulator().chassis();
        let node = chassis
            .fabric()
            .nodes()
            .iter_enumerated()
            .find(|(_, node)| node.description == "H-0");
        let (node, _) = node.unwrap();
        let at = chassis.port_at(node, 1).unwrap();
        let row = chassis.lanes(node, 0, 1).iter().map(|vl| vl.get()).collect();
        let entries = chassis.port(at).vl_arbitration.as_deref().unwrap();
        let entries = entries.high.iter().chain(&entries.low).filter(|entry| entry.weight > 0);
        let entries = entries.map(|entry| (entry.vl.get(), entry.weight)).collect();
        (row, entries, chassis.port(at).settings().vl_high_limit)
    }
}

/// The example of the manuals, other weights, and OpenSM's settings: each change happens under traffic, and the
/// judge accepts each plan and each step. Lane 1 loses its turn only when its packets are gone: the judge would refuse
/// tables that cut it.
#[test]
fn policies_change_under_traffic() {
    for (spec, engine) in SPECS {
        let mut policy = Policy {
            engines: vec![EngineName(engine.to_owned())],
            ..Policy::default()
        };
        let mut world = World::up(spec, policy.clone());
        assert!(world.qos().is_none());
        policy.qos = classes(&[
            "MPI: share=70, default",
            "OST: share=30, sl=1",
            "MDS: latency=low, sl=2",
        ]);
        world.to("the example of the manuals", &policy);
        let (row, entries, limit) = world.held();
        assert_eq!(row[..4], [0, 1, 2, 0]);
        // One packet of 4,096 bytes is 64 units; MPI sends seven of ten, in entries of at most three.
        assert!(entries.contains(&(2, 1)) && limit == 0, "{entries:?} {limit}");
        let of = |lane| {
            entries
                .iter()
                .filter(|(vl, _)| *vl == lane)
                .map(|(_, weight)| u32::from(*weight))
                .sum::<u32>()
        };
        assert_eq!((of(0), of(1)), (7 * 64, 3 * 64));
        assert_eq!(world.qos().unwrap().promises.len(), 3);

        policy.qos = classes(&["MPI: share=50, default", "OST: share=50, sl=1"]);
        world.to("other weights, and a class less", &policy);
        let (row, entries, _) = world.held();
        assert_eq!((&row[..3], entries), (&[0, 1, 0][..], vec![(0, 64), (1, 64)]));

        policy.qos = settings(
            &[
                ("qos_sl2vl", "0,3,15,3,0,3,0,3,0,3,0,3,0,3,0,15"),
                ("qos_vlarb_low", "0:64,3:128"),
                ("qos_vlarb_high", "0:0"),
                ("qos_high_limit", "4"),
                ("qos_ca_high_limit", "9"),
            ],
            None,
        );
        world.to("OpenSM's settings", &policy);
        let (row, entries, limit) = world.held();
        assert_eq!(
            (&row[..4], entries, limit),
            (&[0, 3, 15, 3][..], vec![(0, 64), (3, 128)], 9)
        );
    }
}

/// Routes that would use several lanes use one layer beside classes.
#[test]
fn classes_are_planned_beside_routes_of_one_layer() {
    let policy = Policy {
        engines: vec![EngineName("weave".to_owned())],
        assume_sl_aware: true,
        used_lanes: 2,
        qos: classes(&[
            "low: latency=low, sl=5",
            "bulk: share=60, default",
            "rest: share=20, sl=6",
        ]),
        ..Policy::default()
    };
    let mut world = World::up("random:switches=8,degree=3,hosts=2,seed=4,vls=8", policy.clone());
    let plan = world.rehearsal.view(world.manager).unwrap().plan.unwrap();
    assert_eq!(plan.lanes, 1);
    let qos = world.qos().unwrap();
    let PathRules::Classes(compiled) = &qos.rules else {
        panic!()
    };
    assert_eq!(compiled.layers, 1);
    let levels: Vec<Vec<u8>> = compiled
        .classes
        .iter()
        .map(|plan| plan.sls.iter().map(|sl| sl.get()).collect())
        .collect();
    // The default class has the lowest levels: hosts that do not ask send with SL 0.
    assert_eq!(levels, [[1], [0], [2]]);
    let lanes = qos.ports.values().next().unwrap().row.unwrap();
    let used: std::collections::BTreeSet<Vl> = lanes[..3].iter().copied().collect();
    assert_eq!(used.len(), 3, "{lanes:?}");
    // Other weights on the live fabric: layers stay, and so do the service levels.
    let other = Policy {
        qos: classes(&[
            "low: latency=low, sl=5",
            "bulk: share=50, default",
            "rest: share=40, sl=6",
        ]),
        ..policy
    };
    world.to("other weights", &other);
    assert_eq!(world.qos().unwrap().promises[1].share, Some(50));
    assert!(lanes.iter().all(|vl| *vl != Vl::MANAGEMENT) && Sl::new(5).is_some());
}

/// Links go down and come back while quality of service is planned: a port that comes back has its tables again.
#[test]
fn a_link_that_comes_back_has_its_tables() {
    let policies = [
        classes(&[
            "MPI: share=70, default",
            "OST: share=30, sl=1",
            "MDS: latency=low, sl=2",
        ]),
        settings(
            &[
                ("qos_swe_high_limit", "3"),
                ("qos_sl2vl", "0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,15"),
            ],
            None,
        ),
    ];
    for (number, qos) in policies.into_iter().enumerate() {
        let policy = Policy {
            qos,
            ..Policy::default()
        };
        let mut world = World::up(SPECS[0].0, policy);
        let fabric = common::fabric(SPECS[0].0);
        let links: Vec<_> = fabric.links().collect();
        let of_kind = |is_host: bool| {
            let is_it = |at: PortRef| !fabric.node(at.node).is_switch() && fabric.node(at.node).description != "H-0";
            links
                .iter()
                .find(|link| (is_it(link.a) || is_it(link.b)) == is_host && is_free(&fabric, link))
                .unwrap()
        };
        for is_host in [false, true] {
            let link = of_kind(is_host);
            let name = PortName {
                node: NodeName::Guid(fabric.node(link.a.node).guid),
                port: Some(link.a.port.get()),
            };
            world.rehearsal.fault(&Fault::CutLink(name.clone())).unwrap();
            world.quiet("a link is down");
            world.rehearsal.fault(&Fault::RestoreLink(name)).unwrap();
            world.quiet("the link is back");
        }
        let log = world.rehearsal.log_text();
        assert!(!log.contains("SLV-SM-0005"), "policy {number}\n{log}");
        let held = world.qos().unwrap();
        assert!(held.ports.keys().any(|at| at.port != PortNum::MANAGEMENT));
    }
}

/// True if a link does not lead to the manager's host.
fn is_free(fabric: &selvedge_fabric::Fabric, link: &selvedge_fabric::Link) -> bool {
    [link.a, link.b]
        .iter()
        .all(|at| fabric.node(at.node).description != "H-0")
}

/// Classes that the hardware cannot keep: with a plan in force they are refused with what is possible, and the plan
/// stays; a fabric without a plan gets what is possible.
#[test]
fn refused_classes_leave_the_plan_in_force() {
    let good = Policy {
        qos: classes(&["MPI: share=70, default", "OST: share=30, sl=1"]),
        ..Policy::default()
    };
    let bad = Policy {
        qos: classes(&["MPI: share=80, default", "OST: share=40, sl=1"]),
        ..Policy::default()
    };
    let mut world = World::up(SPECS[0].0, good);
    let before = world.held();
    world.rehearsal.reload(world.manager, Arc::new(bad.clone())).unwrap();
    world.quiet("refused classes");
    assert_eq!(world.held(), before);
    let log = world.rehearsal.log_text();
    assert!(
        log.contains("SLV-SM-0102") && log.contains("possible: MPI >= "),
        "{log}"
    );

    let world = World::up(SPECS[0].0, bad);
    let promises = world.qos().unwrap().promises.clone();
    let shares: Vec<_> = promises.iter().map(|promise| promise.share.unwrap()).collect();
    assert!(
        shares.iter().map(|share| u32::from(*share)).sum::<u32>() <= 100,
        "{shares:?}"
    );
    assert!(world.rehearsal.log_text().contains("SLV-SM-0120"));
}
