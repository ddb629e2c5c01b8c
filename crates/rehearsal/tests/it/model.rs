//! The analytic model against our manager on the emulator: MADs counted at the agents, and virtual time.

use crate::common;
use std::time::Duration;

use selvedge_emulator::EmulatorConfig;
use selvedge_fabric::Fabric;
use selvedge_model::published::figure_3;
use selvedge_model::{Answer, Attribute, Cost, Counts, Manager, Method, Shape, Wires, bring_up};
use selvedge_plan::Policy;
use selvedge_rehearsal::{Options, Rehearsal};
use selvedge_sim::Seed;
use selvedge_sm::{Command, Event};
use selvedge_wire::{AttributeId, Class};

/// A fabric brought up by this manager at the model's place, with this window and service time; the time it took.
fn rehearse(fabric: &Fabric, window: u32, service: Duration) -> (Rehearsal, u64) {
    let options = Options {
        emulator: EmulatorConfig {
            service_time: service,
            ..EmulatorConfig::default()
        },
        ..Options::default()
    };
    let mut world = Rehearsal::new(fabric, options);
    let seat = fabric.port_name(Shape::first_seat(fabric).unwrap());
    let id = common::add_manager_with(&mut world, "sm", &seat, Policy::default(), |config| {
        config.window = window as usize;
    });
    world.start(id).unwrap();
    let up = |r: &Rehearsal| {
        let mut up = r.log().iter().filter(|e| matches!(e.event, Event::SubnetUp { .. }));
        up.next().map(|e| e.at.0)
    };
    world
        .run_until(Duration::from_secs(3_600), "the subnet is up", |r| up(r).is_some())
        .unwrap();
    let at = up(&world).unwrap();
    (world, at)
}

fn predict(fabric: &Fabric, window: u32, service: Duration) -> Answer {
    let wires = Wires {
        service_ns: u64::try_from(service.as_nanos()).unwrap(),
        ..Wires::default()
    };
    let cost = Cost {
        window,
        ..Cost::of(Manager::Selvedge, wires)
    };
    bring_up(&Shape::from_first_host(fabric).unwrap(), &cost)
}

fn counted(world: &Rehearsal) -> Counts {
    let accepted = &world.emulator().counts().accepted;
    let mut counts = Counts::default();
    let attributes = [
        (Attribute::Notice, AttributeId::NOTICE),
        (Attribute::NodeDescription, AttributeId::NODE_DESCRIPTION),
        (Attribute::NodeInfo, AttributeId::NODE_INFO),
        (Attribute::SwitchInfo, AttributeId::SWITCH_INFO),
        (Attribute::PortInfo, AttributeId::PORT_INFO),
        (Attribute::PKeyTable, AttributeId::PKEY_TABLE),
        (Attribute::LinearForwardingTable, AttributeId::LINEAR_FORWARDING),
    ];
    let methods = [
        (Method::Get, selvedge_wire::Method::Get),
        (Method::Set, selvedge_wire::Method::Set),
    ];
    for (method, on_wire) in methods {
        for (attribute, id) in attributes {
            counts.add(method, attribute, accepted.of(Class::SubnDirected, on_wire, id));
        }
    }
    assert_eq!(
        counts.total(),
        accepted.total(),
        "something that the model has no word for"
    );
    counts
}

/// Agents of 5 µs, as in the emulator's defaults; the numbers do not depend on it.
fn check_counts(name: &str, fabric: &Fabric) {
    let service = Duration::from_micros(5);
    let (world, _) = rehearse(fabric, 32, service);
    assert_eq!(counted(&world), predict(fabric, 32, service).counts, "{name}");
}

#[test]
fn counts_are_exact() {
    for spec in [
        "mport:m=8,n=1",
        "mport:m=4,n=2",
        "mport:m=8,n=3",
        "mport:m=16,n=2",
        "mport:m=16,n=3",
        "sx6536",
        "torus:4x4x4",
        // Not in the requested list: hosts with two ports, ports without cables, two planes.
        "karytree:k=4,n=2,ports-per-host=2",
        "single:ports=36,hosts=5",
        "karytree:k=3,n=2,rails=2",
    ] {
        check_counts(spec, &common::fabric(spec));
    }
    check_counts("Figure 3", &figure_3(8));
}

/// Two random graphs, other ones in each run of the test; a failure names the graph.
#[test]
fn counts_are_exact_on_graphs_nobody_chose() {
    let seed = std::env::var("SELVEDGE_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()));
    for part in ["first", "second"] {
        let mut rng = Seed(seed).child(part).rng();
        let mut draw = |low: u64, high: u64| low + rng.below(high - low + 1);
        let (switches, degree, hosts) = (2 * draw(4, 30), draw(3, 6), draw(1, 5));
        let spec = format!(
            "random:switches={switches},degree={degree},hosts={hosts},seed={}",
            draw(1, 1_000_000)
        );
        check_counts(&format!("SELVEDGE_SEED={seed}: {spec}"), &common::fabric(&spec));
    }
}

/// A sweep of a fabric in which nothing has changed reads what the bring-up read, and writes nothing.
#[test]
fn a_sweep_reads_as_much_again() {
    for spec in ["sx6536", "torus:4x4x4", "mport:m=8,n=3"] {
        let fabric = common::fabric(spec);
        let service = Duration::from_micros(5);
        let (mut world, _) = rehearse(&fabric, 32, service);
        // Right after a bring-up, nodes behind links are asked: that is not part of the sweep.
        world.run_until_quiet(Duration::from_secs(60)).unwrap();
        let before = counted(&world);
        let (id, _) = world.managers().next().unwrap();
        world.command(id, Command::Sweep).unwrap();
        world.run_until_quiet(Duration::from_secs(60)).unwrap();
        let want = predict(&fabric, 32, service).counts;
        for (method, attribute, count) in counted(&world).iter() {
            let more = count - before.of(method, attribute);
            let want = if method == Method::Get {
                want.of(method, attribute)
            } else {
                0
            };
            assert_eq!(more, want, "{spec}: {method:?} {attribute:?}");
        }
    }
}

/// Virtual time is the same on every machine, so this is no timed test.
#[test]
fn times_are_within_five_percent() {
    let fabrics = [
        "mport:m=8,n=1",
        "mport:m=4,n=2",
        "mport:m=8,n=3",
        "sx6536",
        "torus:4x4x4",
    ];
    let fabrics = fabrics.map(|spec| (spec, common::fabric(spec)));
    for (name, fabric) in fabrics.into_iter().chain([("Figure 3", figure_3(8))]) {
        for (window, service) in [1, 4, 32].into_iter().flat_map(|w| [5, 20, 100, 1_000].map(|s| (w, s))) {
            let service = Duration::from_micros(service);
            let (_, measured) = rehearse(&fabric, window, service);
            let predicted = predict(&fabric, window, service).time_ns();
            let error = predicted as f64 / measured as f64 - 1.0;
            assert!(
                error.abs() <= 0.05,
                "{name}, window {window}, {service:?}: {predicted} against {measured} ns"
            );
            // With one request at a time there is nothing to schedule, and nothing to be wrong about.
            assert!(
                window > 1 || predicted == measured,
                "{name}, {service:?}: {predicted} against {measured} ns"
            );
        }
    }
}
