//! Links that `weave` routes around in place: every route is whole again, no other entry moves, and the prover of
//! transitions accepts the steps, on any number of lanes.

use crate::common;
use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, Link, LinkState, PortRef, SwitchIdx};
use selvedge_plan::{Lids, SlToVl, Tables};
use selvedge_routing::{Engine, Options, Rehung, Routed, WeaveMender};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, PhysState, PortNum, PortState};
use selvedge_verify::phases::{Links, PhaseOptions, PhaseStep, Proposal, Write, prove};
use selvedge_verify::{JudgeOptions, Subject, verify};

/// Counts the repairs and their results.
#[derive(Debug, Default)]
struct Tally {
    /// Number of repairs that were tried.
    all: usize,
    in_place: usize,
    without_wait: usize,
}

fn generated(spec: &str) -> Fabric {
    let Ok(Spec::Generated(recipe)) = spec.parse() else {
        panic!("{spec}: no generator")
    };
    recipe.fabric().unwrap()
}

fn cut(fabric: &mut Fabric, link: Link) {
    for at in [link.a, link.b] {
        let port = fabric.port(at).unwrap();
        let (settings, rate) = (port.settings, port.link.rate);
        let (state, phys) = (PortState::Down, PhysState::Polling);
        fabric.set_port(at, LinkState { state, phys, rate }, settings);
    }
}

fn ends(fabric: &Fabric, link: &Link) -> Option<[(SwitchIdx, PortNum); 2]> {
    let end = |at: PortRef| Some((fabric.switch_index(at.node)?, at.port));
    Some([end(link.a)?, end(link.b)?])
}

/// Steps as the prover wants them.
fn steps(moved: &[Rehung]) -> Vec<PhaseStep> {
    let mut steps: BTreeMap<u16, PhaseStep> = BTreeMap::new();
    let first_late = moved.iter().filter(|m| m.waits()).map(|m| m.step).min();
    for m in moved {
        let step = steps.entry(m.step).or_default();
        step.wait_before_ns = u64::from(first_late == Some(m.step));
        step.writes.push(Write {
            switch: m.switch,
            lid: m.lid,
            egress: m.egress,
        });
    }
    steps.into_values().collect()
}

/// Loses links one after another, as long as repairs in place are possible; `at_once` of them each time.
fn check(name: &str, mut fabric: Fabric, lmc: u8, lanes: u8, (at_once, seed): (usize, u64), tally: &mut Tally) {
    let lids = common::number(&fabric, lmc);
    let options = Options {
        lanes: Some(lanes),
        ..Options::default()
    };
    let routed = Engine::Weave.route(&fabric, &lids, &options, Seed(0), Par::Sequential);
    let Routed {
        mut tables,
        service_levels,
        lanes,
        ..
    } = routed.unwrap();
    let sl_to_vl = SlToVl::modulo(lanes);
    let Some(mut mender) = WeaveMender::new(&fabric, &lids, &tables, (&service_levels, lanes)) else {
        return;
    };
    let mut rng = Seed(seed).rng();
    for round in 0..4 {
        let between: Vec<Link> = fabric
            .links()
            .filter(|l| fabric.link_is_up(l.a) && ends(&fabric, l).is_some())
            .collect();
        if between.is_empty() {
            return;
        }
        let lost: Vec<Link> = (0..at_once)
            .map(|_| between[rng.below(between.len() as u64) as usize])
            .collect();
        let lost_ends: Vec<_> = lost.iter().filter_map(|link| ends(&fabric, link)).flatten().collect();
        lost.iter().for_each(|link| cut(&mut fabric, *link));
        let before = tables.clone();
        tally.all += 1;
        let Some(moved) = mender.lose(&mut tables, &lost_ends, true) else {
            assert_eq!(tables, before, "{name}: not repaired, so not changed");
            return;
        };
        tally.in_place += 1;
        tally.without_wait += usize::from(moved.iter().all(|m| !m.waits()));
        let what = format!("{name}, round {round}: {lost:?}");
        let subject = Subject::tables(&fabric, &lids, &tables, &service_levels, &sl_to_vl);
        let verdict = verify(subject, &JudgeOptions::default());
        assert!(verdict.is_ok(), "{what}: {:?}", verdict.errors().next());
        only_what_it_must(&what, &lids, &before, &moved, &lost_ends);
        let in_force = Subject::tables(&fabric, &lids, &before, &service_levels, &sl_to_vl);
        let proposal = Proposal {
            steps: steps(&moved),
            ..Proposal::default()
        };
        let options = PhaseOptions {
            drain_ns: Some(1),
            links: Links::Trained,
            ..PhaseOptions::default()
        };
        let proved = prove(in_force, None, &proposal, &options);
        assert!(proved.is_ok(), "{what}: {:?}", proved.err());
    }
}

/// Only LIDs that led over a lost link move.
fn only_what_it_must(what: &str, lids: &Lids, before: &Tables, moved: &[Rehung], lost: &[(SwitchIdx, PortNum)]) {
    let concerned = |lid: Lid| lost.iter().any(|&(switch, port)| before.get(switch, lid) == port.get());
    let concerned: BTreeSet<Lid> = lids
        .by_lid()
        .map(|(lid, _)| lid)
        .filter(|&lid| concerned(lid))
        .collect();
    let strangers: Vec<&Rehung> = moved.iter().filter(|m| !concerned.contains(&m.lid)).collect();
    assert!(strangers.is_empty(), "{what}: {strangers:?}");
}

#[test]
fn lost_links_are_led_around() {
    let mut tally = Tally::default();
    for seed in 0..60 {
        let lanes = [1, 2, 4, 8][seed as usize % 4];
        let lmc = u8::from(seed % 5 == 0);
        let at_once = 1 + seed as usize % 3;
        let fabric = common::random(Seed(seed));
        check(&format!("seed {seed}"), fabric, lmc, lanes, (at_once, seed), &mut tally);
    }
    for (spec, lanes) in [
        ("random:switches=40,degree=4,hosts=2,seed=1", 1),
        ("random:switches=40,degree=4,hosts=2,seed=2", 4),
        ("torus:4x4,hosts=1", 2),
        ("random:switches=30,degree=6,hosts=1,seed=3", 1),
        ("karytree:k=4,n=2", 1),
    ] {
        for seed in 0..4 {
            let fabric = generated(spec);
            check(spec, fabric, 0, lanes, (1, seed), &mut tally);
        }
    }
    println!("{tally:?}");
    assert!(tally.in_place * 10 > tally.all * 6, "{tally:?}");
    assert!(
        tally.without_wait * 4 > tally.all && tally.without_wait < tally.in_place,
        "{tally:?}"
    );
}

#[test]
fn tables_that_lead_nowhere_are_not_for_this() {
    let fabric = generated("random:switches=12,degree=4,hosts=1,seed=3");
    let lids = common::number(&fabric, 0);
    let routed = Engine::Weave
        .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
        .unwrap();
    let with = |change: &dyn Fn(&mut Routed)| {
        let mut routed = routed.clone();
        change(&mut routed);
        let levels = (&routed.service_levels, routed.lanes);
        WeaveMender::new(&fabric, &lids, &routed.tables, levels).is_some()
    };
    assert!(with(&|_| {}));
    // An entry that drops packets.
    assert!(!with(&|routed| routed.tables.set(SwitchIdx(3), Lid(1), 255)));
    // Shortest paths in a ring form a credit loop.
    let ring = generated("torus:6,hosts=1");
    let lids = common::number(&ring, 0);
    let routed = Engine::MinHop
        .route(&ring, &lids, &Options::default(), Seed(0), Par::Sequential)
        .unwrap();
    let levels = (&routed.service_levels, routed.lanes);
    assert!(WeaveMender::new(&ring, &lids, &routed.tables, levels).is_none());
}
