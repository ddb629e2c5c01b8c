//! Every engine on unusual fabrics and on damaged random ones, each plan judged: it is correct, or the engine has
//! reported why it does not route.

use crate::common;
use selvedge_fabric::{Fabric, FabricBuilder, Node, NodeKey};
use selvedge_plan::{Lids, SlToVl, Tables};
use selvedge_routing::{Capability, Engine, EngineError, Options, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Guid, NodeKind, PhysState, PortState};
use selvedge_verify::phases::{PhaseOptions, PhaseStep, Proposal, Write, needs_wait, prove};
use selvedge_verify::{JudgeOptions, Kind, Subject, Verdict, verify};

/// True if there can be no credit loop: the engine promises it, or uses only up, then down paths on these fabrics.
fn is_safe(engine: Engine) -> bool {
    engine.can(Capability::DeadlockFree) || engine == Engine::Ftree
}

/// Engines that never refuse a fabric.
const ROUTE_ANY: [Engine; 4] = [Engine::MinHop, Engine::UpDn, Engine::Sssp, Engine::Weave];

fn route(engine: Engine, fabric: &Fabric, lids: &Lids, lanes: u8) -> Result<Routed, EngineError> {
    let options = Options {
        lanes: Some(lanes),
        ..Options::default()
    };
    engine.route(fabric, lids, &options, Seed(0), Par::Sequential)
}

fn judged(fabric: &Fabric, lids: &Lids, routed: &Routed) -> Verdict {
    let lanes = SlToVl::modulo(routed.lanes);
    let subject = Subject::tables(fabric, lids, &routed.tables, &routed.service_levels, &lanes);
    verify(subject, &JudgeOptions::default())
}

/// Routes a fabric by all engines on 1 to 15 lanes; returns the number of plans without an error.
fn check(name: &str, fabric: &Fabric) -> u32 {
    let mut good = 0;
    for lmc in [0, 2] {
        let lids = common::number(fabric, lmc);
        for engine in Engine::ALL {
            for lanes in [1, 2, 4, 8, 15] {
                let what = format!("{name}, LMC {lmc}, {} on {lanes} lanes", engine.name());
                let routed = match route(engine, fabric, &lids, lanes) {
                    Ok(routed) => routed,
                    Err(error) => {
                        assert!(error.to_string().starts_with("SLV-ROUTE-"), "{what}: {error}");
                        assert!(!ROUTE_ANY.contains(&engine), "{what}: {error}");
                        continue;
                    }
                };
                assert!(routed.lanes >= 1 && (routed.lanes <= lanes), "{what}: {}", routed.lanes);
                let verdict = judged(fabric, &lids, &routed);
                for error in verdict.errors() {
                    let can_deadlock = [Kind::HostCycle, Kind::AgentCycle].contains(&error.fault.kind());
                    // Paths away from hosts and back do not reach every LID.
                    let can_miss = engine == Engine::DnUp && error.fault.kind() == Kind::BlackHole;
                    assert!(!is_safe(engine) && (can_deadlock || can_miss), "{what}: {error}");
                }
                good += u32::from(verdict.is_ok());
            }
        }
    }
    good
}

/// Number of plans of one engine that never refuses: for two LMCs and five numbers of lanes.
const EACH: u32 = 10;

#[test]
fn fabrics_without_much_in_them() {
    let fabric = |build: &dyn Fn(&mut common::Net)| {
        let mut net = common::Net::default();
        build(&mut net);
        net.finish()
    };
    let check_all = |name: &str, build: &dyn Fn(&mut common::Net)| {
        let good = check(name, &fabric(build));
        assert!(good >= EACH * ROUTE_ANY.len() as u32, "{name}: {good}");
    };
    check_all("nothing", &|_| {});
    check_all("a switch", &|net| {
        net.switch(1, 8);
    });
    check_all("a switch and a host", &|net| {
        let switch = net.switch(1, 1);
        net.host(switch);
    });
    check_all("a switch cabled to itself", &|net| {
        let switch = net.switch(1, 8);
        net.link(switch, switch);
        net.host(switch);
        net.host(switch);
    });
    check_all("a chain of 20", &|net| {
        let keys: Vec<NodeKey> = (1..=20).map(|guid| net.switch(guid, 6)).collect();
        keys.windows(2).for_each(|pair| net.link(pair[0], pair[1]));
        for &key in keys.iter().step_by(5) {
            net.host(key);
        }
    });
}

#[test]
fn two_hosts_without_a_switch() {
    let mut builder = FabricBuilder::new();
    let keys = [1, 2].map(|guid| {
        let mut node = Node::new(NodeKind::Ca, Guid(guid), 1, "h");
        let port = node.port_mut(common::port(1)).unwrap();
        port.guid = Guid(guid + 10);
        port.link.state = PortState::Active;
        port.link.phys = PhysState::LinkUp;
        builder.add(node)
    });
    builder
        .link((keys[0], common::port(1)), (keys[1], common::port(1)))
        .unwrap();
    assert!(check("two hosts", &builder.finish().unwrap()) >= EACH * ROUTE_ANY.len() as u32);
}

/// No hosts, so only traffic of switches: a missing route or a credit loop is a warning.
#[test]
fn no_hosts() {
    let mut net = common::Net::default();
    let keys: Vec<NodeKey> = (1..=6).map(|guid| net.switch(guid, 6)).collect();
    (0..6).for_each(|i| net.link(keys[i], keys[(i + 1) % 6]));
    assert!(check("a ring without hosts", &net.finish()) >= EACH * ROUTE_ANY.len() as u32);
}

#[test]
fn thirty_parallel_links() {
    let mut net = common::Net::default();
    let (a, b) = (net.switch(1, 36), net.switch(2, 36));
    (0..30).for_each(|_| net.link(a, b));
    for key in [a, a, a, b, b] {
        net.host(key);
    }
    let fabric = net.finish();
    assert!(check("30 links", &fabric) >= EACH * ROUTE_ANY.len() as u32);
    // Load is spread: five hosts cannot need one link twice in a direction.
    let lids = common::number(&fabric, 0);
    for engine in [Engine::MinHop, Engine::UpDn, Engine::Weave, Engine::Sssp] {
        let routed = route(engine, &fabric, &lids, 1).unwrap();
        let figures = judged(&fabric, &lids, &routed).figures;
        assert!(figures.load.max <= 3, "{}: {}", engine.name(), figures.load.max);
    }
}

#[test]
fn hosts_on_every_port_of_the_largest_switches() {
    let mut net = common::Net::default();
    let key = net.switch(1, 254);
    for _ in 0..254 {
        net.host(key);
    }
    assert!(check("254 hosts", &net.finish()) >= EACH * ROUTE_ANY.len() as u32);
    let mut net = common::Net::default();
    let (a, b) = (net.switch(1, 254), net.switch(2, 254));
    (0..200).for_each(|_| net.link(a, b));
    for _ in 0..54 {
        net.host(a);
        net.host(b);
    }
    assert!(check("two of 254 ports", &net.finish()) >= EACH * ROUTE_ANY.len() as u32);
}

/// Two parts, one of them a ring, and a switch on its own: pairs in different parts are no fault.
#[test]
fn disconnected() {
    let mut net = common::Net::default();
    let keys: Vec<NodeKey> = (1..=7).map(|guid| net.switch(guid, 8)).collect();
    (0..4).for_each(|i| net.link(keys[i], keys[(i + 1) % 4]));
    net.link(keys[4], keys[5]);
    for &key in &keys {
        net.host(key);
    }
    let fabric = net.finish();
    assert!(check("three parts", &fabric) >= EACH * 2);
    let lids = common::number(&fabric, 0);
    let verdict = judged(&fabric, &lids, &route(Engine::UpDn, &fabric, &lids, 1).unwrap());
    assert_eq!(
        (verdict.count_of(Kind::Separated), verdict.count_of(Kind::HostAlone)),
        (1, 1)
    );
    assert_eq!(verdict.figures.host_pairs_reached, 4 * 3 + 2);
}

/// Routers between two switches, and hosts with a rail on each: end ports like any other, never transit nodes.
#[test]
fn routers_and_rails() {
    let mut net = common::Net::default();
    let keys: Vec<NodeKey> = (1..=4).map(|guid| net.switch(guid, 12)).collect();
    (0..3).for_each(|i| net.link(keys[i], keys[i + 1]));
    for &key in &keys {
        net.host(key);
    }
    let fabric = net.finish();
    let mut builder = FabricBuilder::new();
    let old: Vec<NodeKey> = fabric.nodes().iter().map(|node| builder.add(node.clone())).collect();
    for link in fabric.links() {
        let end = |at: selvedge_fabric::PortRef| (old[at.node.0 as usize], at.port);
        builder.link(end(link.a), end(link.b)).unwrap();
    }
    for (guid, kind) in [(0x5000, NodeKind::Router), (0x6000, NodeKind::Ca)] {
        let mut node = Node::new(kind, Guid(guid), 2, "two ports");
        for number in [1, 2] {
            node.port_mut(common::port(number)).unwrap().guid = Guid(guid + u64::from(number));
        }
        let key = builder.add(node);
        for (number, switch) in [(1, 1), (2, 4)] {
            let free = if kind == NodeKind::Router { 11 } else { 12 };
            let there = (old[fabric.find(Guid(switch)).unwrap().0 as usize], common::port(free));
            builder.link((key, common::port(number)), there).unwrap();
            for (node, port) in [(key, common::port(number)), there] {
                let port = builder.node_mut(node).port_mut(port).unwrap();
                port.link.state = PortState::Active;
                port.link.phys = PhysState::LinkUp;
            }
        }
    }
    let fabric = builder.finish().unwrap();
    assert!(check("routers", &fabric) >= EACH * ROUTE_ANY.len() as u32);
    let lids = common::number(&fabric, 0);
    let verdict = judged(&fabric, &lids, &route(Engine::UpDn, &fabric, &lids, 1).unwrap());
    // Four hosts, two ports of the router, two rails.
    assert_eq!(
        (verdict.figures.host_ports, verdict.figures.host_pairs_reached),
        (8, 8 * 7)
    );
}

/// Random fabrics, whole and damaged (some fall apart), on 1 to 15 lanes.
#[test]
fn random_and_damaged() {
    let mut good = 0;
    for seed in 0..12 {
        let whole = common::random(Seed(1_000 + seed));
        let damaged = common::without(&whole, |link| (link as u64 + seed).is_multiple_of(4));
        good += check(&format!("random {seed}"), &whole) + check(&format!("damaged {seed}"), &damaged);
    }
    assert!(good > 24 * 2 * EACH, "{good}");
}

fn differences(lids: &Lids, before: &Tables, after: &Tables) -> Vec<Write> {
    let all = lids
        .by_lid()
        .flat_map(|(lid, _)| before.switch_indices().map(move |switch| (switch, lid)));
    let differ = all.filter(|&(switch, lid)| before.get(switch, lid) != after.get(switch, lid));
    differ
        .map(|(switch, lid)| Write {
            switch,
            lid,
            egress: after.get(switch, lid),
        })
        .collect()
}

/// From one engine's tables to another's on one lane: dropping first what differs and waiting is always safe; without
/// the wait, or all at once, it sometimes is.
#[test]
fn from_engine_to_engine() {
    let options = PhaseOptions {
        drain_ns: Some(1),
        ..PhaseOptions::default()
    };
    let (mut at_once, mut without_wait, mut all) = (0, 0, 0);
    for seed in 0..40 {
        let fabric = common::random(Seed(2_000 + seed));
        let lids = common::number(&fabric, u8::try_from(seed % 2).unwrap());
        let tables = |engine| route(engine, &fabric, &lids, 1).unwrap().tables;
        let (updn, weave) = (tables(Engine::UpDn), tables(Engine::Weave));
        let lanes = SlToVl::default();
        let levels = selvedge_plan::ServiceLevels::default();
        for (before, after) in [(&updn, &weave), (&weave, &updn)] {
            let subject = Subject::tables(&fabric, &lids, before, &levels, &lanes);
            let writes = differences(&lids, before, after);
            let step = |wait_before_ns, egress: Option<u8>| PhaseStep {
                wait_before_ns,
                writes: writes
                    .iter()
                    .map(|w| Write {
                        egress: egress.unwrap_or(w.egress),
                        ..*w
                    })
                    .collect(),
            };
            let proposal = |steps| Proposal {
                steps,
                ..Proposal::default()
            };
            let proved = |steps| prove(subject, None, &proposal(steps), &options);
            let proof = proved(vec![step(0, Some(255)), step(1, None)]).unwrap();
            assert!(
                proof.figures.lost.hosts == 0 && proof.figures.waits == [2],
                "seed {seed}"
            );
            let waits = needs_wait(
                subject,
                None,
                &proposal(vec![step(0, Some(255)), step(0, None)]),
                &options,
            );
            assert_eq!(
                waits.unwrap().is_empty(),
                proof.figures.waits_spare == [2],
                "seed {seed}"
            );
            all += 1;
            without_wait += u32::from(proof.figures.waits_spare == [2]);
            at_once += u32::from(proved(vec![step(0, None)]).is_ok());
        }
    }
    println!("{at_once} at once, {without_wait} without a wait, of {all}");
    assert!(
        at_once > 0 && at_once <= without_wait && without_wait < all,
        "{at_once} {without_wait} {all}"
    );
}
