//! Tests of the judge by corruption: 1,000 single-entry corruptions with a fault of each class, and those without one
//! between them, classified by brute force; and larger corruptions.

use crate::support;
use std::collections::BTreeMap;

use crate::brute::{Brute, Class};
use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, Plan, ServiceLevels, SlToVl};
use selvedge_sim::{Rng, Seed};
use selvedge_types::{Lid, LidRange, PortNum, Sl, Vl};
use selvedge_verify::{Fault, JudgeOptions, Severity, Step, Subject, Traffic, Verdict, Witness, verify};

const CASES: u64 = 1_000;

/// Returns the judge's report in the form of the brute force.
fn classified(fabric: &Fabric, verdict: &Verdict) -> BTreeMap<(Class, SwitchIdx, Lid), (u64, u64)> {
    let switch_of = |place: &selvedge_verify::Place| {
        let node = fabric.find(place.node_guid).unwrap();
        fabric.switch_index(node).unwrap()
    };
    let mut found = BTreeMap::new();
    for finding in &verdict.findings {
        let (class, switch, lid, lost) = match &finding.fault {
            Fault::BlackHole { switch, lid, lost, .. } => (Class::BlackHole, switch, lid, *lost),
            Fault::Loop { switch, lid, lost, .. } => (Class::Loop, switch, lid, *lost),
            Fault::WrongDelivery { switch, lid, lost, .. } => (Class::WrongDelivery, switch, lid, *lost),
            Fault::LaneDrop {
                switch, lid, lost, vl, ..
            } => (Class::LaneDrop(vl.get()), switch, lid, *lost),
            Fault::OwnLid { switch, lid, .. } => (Class::OwnLid, switch, lid, Default::default()),
            _ => continue,
        };
        let before = found.insert((class, switch_of(switch), *lid), (lost.hosts, lost.switches));
        assert_eq!(before, None, "reported twice: {finding}");
    }
    found
}

/// Checks that the cycle of a witness is closed and made of dependencies that the brute force found.
fn check_cycle(fabric: &Fabric, brute: &Brute, traffic: Traffic, steps: &[Step]) {
    assert!(!steps.is_empty());
    let edges = brute.edges(traffic);
    let channel = |step: &Step| {
        let node = fabric.find(step.hop.switch.node_guid).unwrap();
        let ingress = step.hop.ingress;
        (
            fabric.peer(PortRef { node, port: ingress }).unwrap(),
            step.from_vl.get(),
        )
    };
    for (step, next) in steps.iter().zip(steps.iter().cycle().skip(1)) {
        let node = fabric.find(step.hop.switch.node_guid).unwrap();
        let egress = PortNum::new(step.hop.egress).unwrap();
        let wanted = (PortRef { node, port: egress }, step.hop.vl.unwrap().get());
        assert_eq!(wanted, channel(next), "the cycle has a gap");
        assert!(edges.contains(&(channel(step), wanted)), "nobody makes {step}");
    }
}

/// Judges a plan in both ways, compares the results, and returns the classes of faults.
fn compare(fabric: &Fabric, plan: &Plan, what: &str) -> Vec<Class> {
    let options = JudgeOptions {
        findings_max: usize::MAX,
        ..JudgeOptions::default()
    };
    let verdict = verify(Subject::plan(fabric, plan), &options);
    let brute = Brute::new(fabric, plan);
    let found = classified(fabric, &verdict);
    assert_eq!(found, brute.found, "{what}");
    let pairs = verdict.figures.pairs;
    assert_eq!(pairs.delivered, brute.delivered, "{what}");
    let mut cycle = None;
    for finding in &verdict.findings {
        if let (Fault::Cycle { traffic, length }, Witness::Cycle(steps)) = (&finding.fault, &finding.witness) {
            assert_eq!(steps.len(), *length as usize, "{what}: a step without witness");
            check_cycle(fabric, &brute, *traffic, steps);
            cycle = Some(*traffic);
        }
        let is_loss = matches!(
            finding.fault,
            Fault::BlackHole { .. } | Fault::Loop { .. } | Fault::WrongDelivery { .. } | Fault::LaneDrop { .. }
        );
        if let Witness::Path { hops, .. } = &finding.witness {
            assert!(is_loss && !hops.is_empty());
        } else {
            assert!(!is_loss, "{what}: no witness of {finding}");
        }
    }
    assert_eq!(cycle, brute.cyclic(), "{what}");
    let is_bad = brute.is_bad() || mismatched(fabric, plan);
    assert_eq!(
        verdict.count(Severity::Error) > 0,
        is_bad,
        "{what}: {:?}",
        verdict.findings
    );
    let mut classes: Vec<Class> = found.keys().map(|key| key.0).collect();
    classes.extend(cycle.map(|_| Class::Cycle));
    classes.sort();
    classes.dedup();
    classes
}

/// True if assigned and planned LIDs differ, if a live end port has none, or if LinearFDBTop of a switch is below the
/// highest LID.
fn mismatched(fabric: &Fabric, plan: &Plan) -> bool {
    let is_used = |at: PortRef| at.port == PortNum::MANAGEMENT || fabric.link_is_up(at);
    let mut ends = fabric.end_ports().filter(|(at, _)| is_used(*at));
    let is_low = |settings: &selvedge_fabric::SwitchSettings| settings.linear_top < plan.lids.top().0;
    ends.any(|(at, _)| plan.lids.range(at) != Some(plan.ports[&at].lids)) || plan.switches.iter().any(is_low)
}

/// A good plan on a small fabric: a ring, a tree, or random; on one lane or several; with LMC 0 or 1.
fn good(rng: &mut Rng) -> (Fabric, Plan) {
    let mut below = |n: usize| usize::try_from(rng.below(n as u64)).unwrap();
    if below(5) == 0 {
        return ring_on_two_lanes(4 + below(5), 1 + below(2));
    }
    let fabric = match below(4) {
        0 => support::ring(3 + below(5), 1 + below(2)),
        1 => support::tree(2 + below(3), 1 + below(3), 1 + below(3)),
        _ => {
            let (switches, more, hosts) = (2 + below(7), below(8), 2 + below(8));
            let down = if below(3) == 0 { 1 + below(3) } else { 0 };
            support::random(switches, more, hosts, down, &mut below)
        }
    };
    let lids = support::lids(&fabric, u8::from(below(5) == 0));
    let root = SwitchIdx(u32::try_from(below(fabric.switches().len())).unwrap());
    let tables = support::updown(&fabric, &lids, root);
    let mut plan = support::plan(&fabric, lids, tables);
    if below(2) == 0 {
        let levels = (0..=plan.lids.top().0).map(|_| Sl::new(below(4) as u8).unwrap());
        plan.service_levels = ServiceLevels::PerDestination(levels.collect());
        plan.sl_to_vl = SlToVl::modulo(1 + below(4) as u8);
        for _ in 0..below(6) {
            let key = random_key(&fabric, &mut below);
            plan.sl_to_vl
                .exceptions
                .insert(key, [Vl::new(below(8) as u8).unwrap(); Sl::COUNT]);
        }
    }
    (fabric, plan)
}

/// Shortest paths on a ring, each half of the destinations on its own lane: neither lane has a cycle, both together
/// have one.
fn ring_on_two_lanes(switches: usize, hosts: usize) -> (Fabric, Plan) {
    let fabric = support::ring(switches, hosts);
    let lids = support::lids(&fabric, 0);
    let tables = support::minhop(&fabric, &lids);
    let mut plan = support::plan(&fabric, lids, tables);
    let mut levels = vec![Sl::default(); plan.lids.top().index() + 1];
    for (lid, at) in plan.lids.by_lid() {
        let leaf = match fabric.switch_index(at.node) {
            Some(switch) => switch,
            None => fabric.switch_index(fabric.peer(at).unwrap().node).unwrap(),
        };
        levels[lid.index()] = Sl::new(u8::from(leaf.0 as usize >= switches / 2)).unwrap();
    }
    plan.service_levels = ServiceLevels::PerDestination(levels);
    plan.sl_to_vl = SlToVl::modulo(2);
    (fabric, plan)
}

fn random_key(fabric: &Fabric, below: &mut impl FnMut(usize) -> usize) -> (SwitchIdx, PortNum, PortNum) {
    let switch = SwitchIdx(below(fabric.switches().len()) as u32);
    let used = fabric.switch(switch).external_ports().filter(|(_, p)| p.peer.is_some());
    let used: Vec<PortNum> = used.map(|(num, _)| num).collect();
    let mut any = |zero: usize| match below(used.len() + zero) {
        n if n < used.len() => used[n],
        _ => PortNum::MANAGEMENT,
    };
    let ingress = any(1);
    (switch, ingress, any(0))
}

/// Corrupts good plans until `CASES` of them have a fault of the class (without a class: `CASES` plans). Returns in how
/// many each class appeared, and in how many none.
fn run(
    name: &str,
    until: Option<Class>,
    corrupt: impl Fn(&Fabric, &mut Plan, &mut Rng),
) -> (BTreeMap<Class, u64>, u64) {
    let (mut seen, mut clean) = (BTreeMap::new(), 0);
    let mut case = 0;
    while until.map_or(case, |class| seen.get(&class).copied().unwrap_or(0)) < CASES {
        assert!(case < 20 * CASES, "{name}: the class hardly appears: {seen:?}");
        let mut rng = Seed(2).child(name).nth(case).rng();
        let (fabric, mut plan) = good(&mut rng);
        corrupt(&fabric, &mut plan, &mut rng);
        let classes = compare(&fabric, &plan, &format!("{name} {case}"));
        clean += u64::from(classes.is_empty());
        case += 1;
        for class in classes {
            let class = match class {
                Class::LaneDrop(_) => Class::LaneDrop(0),
                other => other,
            };
            *seen.entry(class).or_insert(0) += 1;
        }
    }
    println!("{name}: {case} cases, {seen:?}, none {clean}");
    (seen, clean)
}

fn random_entry(fabric: &Fabric, plan: &Plan, rng: &mut Rng) -> (SwitchIdx, Lid) {
    let lids: Vec<Lid> = plan.lids.by_lid().map(|(lid, _)| lid).collect();
    let switch = SwitchIdx(rng.below(fabric.switches().len() as u64) as u32);
    (switch, lids[rng.below(lids.len() as u64) as usize])
}

/// A random entry set to a random port towards another switch.
fn turn(fabric: &Fabric, plan: &mut Plan, rng: &mut Rng) {
    let (switch, lid) = random_entry(fabric, plan, rng);
    let ways = support::neighbours(fabric, switch);
    if !ways.is_empty() {
        let (port, _) = ways[rng.below(ways.len() as u64) as usize];
        plan.tables.set(switch, lid, port.get());
    }
}

#[test]
fn good_plans_pass() {
    let (seen, clean) = run("good", None, |_, _, _| {});
    assert_eq!(
        seen.get(&Class::Cycle).copied().unwrap_or(0),
        seen.values().sum::<u64>()
    );
    assert!(clean > 900, "{clean}");
}

#[test]
fn black_holes() {
    let (_, clean) = run("black hole", Some(Class::BlackHole), |fabric, plan, rng| {
        let (switch, lid) = random_entry(fabric, plan, rng);
        // No entry, no such port, no cable, or LinearFDBTop too low.
        match rng.below(4) {
            0 => plan.tables.set(switch, lid, 255),
            1 => plan.tables.set(switch, lid, 200),
            2 => plan.tables.set(switch, lid, fabric.switch(switch).port_count()),
            _ => plan.switches[switch].linear_top = lid.0 - 1,
        }
    });
    assert!(clean < 100, "{clean}");
}

#[test]
fn loops() {
    let (_, clean) = run("loop", Some(Class::Loop), turn);
    assert!(clean > 300, "{clean}");
}

#[test]
fn cycles() {
    // A single entry that turns away from up and down and still arrives: mostly the first that closes a cycle,
    // else the first of all.
    let (seen, clean) = run("cycle", Some(Class::Cycle), |fabric, plan, rng| {
        let before = plan.tables.clone();
        let wants_cycle = rng.below(4) > 0;
        for _ in 0..30 {
            turn(fabric, plan, rng);
            let brute = Brute::new(fabric, plan);
            if brute.found.is_empty() && (brute.cyclic().is_some() || !wants_cycle) {
                return;
            }
            plan.tables = before.clone();
        }
    });
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(clean > 1_000, "{clean}");
}

#[test]
fn wrong_sl_to_vl() {
    // One lane of a switch's table, mostly of a part that is in use, or of the table that the others share.
    let (seen, clean) = run("sl2vl", Some(Class::LaneDrop(0)), |fabric, plan, rng| {
        let mut below = |n: usize| usize::try_from(rng.below(n as u64)).unwrap();
        // A lane that the links lack, or another of theirs.
        let lanes = [16, 4][below(2)];
        let vl = Vl::new(below(lanes) as u8).unwrap();
        let sl = match &plan.service_levels {
            ServiceLevels::Uniform(sl) => usize::from(sl.get()),
            ServiceLevels::PerDestination(_) => below(4),
        };
        if below(2) == 0 {
            plan.sl_to_vl.default[sl] = vl;
            return;
        }
        let key = random_key(fabric, &mut below);
        let mut table = *plan.sl_to_vl.table(key.0, key.1, key.2);
        table[sl] = vl;
        plan.sl_to_vl.exceptions.insert(key, table);
    });
    assert!(seen[&Class::Cycle] > 20, "{seen:?}");
    assert!(clean > 300, "{clean}");
}

#[test]
fn wrong_lids() {
    let (seen, clean) = run("lid", Some(Class::WrongDelivery), |fabric, plan, rng| {
        let owned: Vec<(PortRef, LidRange)> = plan.lids.iter().collect();
        let any = |rng: &mut Rng| owned[rng.below(owned.len() as u64) as usize];
        let (a, b) = (any(rng), any(rng));
        match rng.below(8) {
            // A port has moved to LIDs without an owner, which the tables do not know.
            0 => {
                let next = (plan.lids.top().0 + 1).next_multiple_of(a.1.lmc.lids());
                let moved = LidRange { base: Lid(next), ..a.1 };
                plan.lids.remove(a.0);
                plan.lids.insert(a.0, moved).unwrap();
                tell(plan, a.0, moved);
            }
            // The settings of a port have another LID than the one assigned.
            1 => tell(plan, a.0, b.1),
            // A port has no LID.
            2 => {
                plan.lids.remove(a.0);
                tell(plan, a.0, LidRange::default());
                for settings in plan.ports.values_mut() {
                    settings.sm_lid = Lid::NONE;
                }
            }
            // An entry leads to another port than the owner's: the switch's own, a host's, or any.
            _ => {
                let (switch, lid) = random_entry(fabric, plan, rng);
                let node = fabric.switches()[switch];
                let is_end = |at: PortRef| fabric.peer(at).is_some_and(|peer| !fabric.node(peer.node).is_switch());
                let ports = fabric.switch(switch).external_ports().map(|(port, _)| port);
                let mut ends: Vec<PortNum> = ports.filter(|port| is_end(PortRef { node, port: *port })).collect();
                ends.extend([PortNum::MANAGEMENT, support::port(1 + rng.below(8) as u8)]);
                plan.tables
                    .set(switch, lid, ends[rng.below(ends.len() as u64) as usize].get());
            }
        }
    });
    assert!(seen[&Class::OwnLid] > 20, "{seen:?}");
    assert!(clean > 100, "{clean}");
}

/// Replaces all entries of a few LIDs by shortest paths, instead of a single entry.
#[test]
fn detours_of_whole_lids() {
    let (seen, clean) = run("detour", None, |fabric, plan, rng| {
        let shortest = support::minhop(fabric, &plan.lids);
        for _ in 0..1 + rng.below(12) {
            let (_, lid) = random_entry(fabric, plan, rng);
            for switch in fabric.switches().indices() {
                plan.tables.set(switch, lid, shortest.get(switch, lid));
            }
        }
    });
    assert!(seen[&Class::Cycle] > 150, "{seen:?}");
    assert!(clean > 300, "{clean}");
}

/// Puts everything in one service level, instead of a change of one entry.
#[test]
fn another_service_level() {
    let (seen, clean) = run("sl", None, |_, plan, rng| {
        plan.service_levels = ServiceLevels::Uniform(Sl::new(rng.below(16) as u8).unwrap());
    });
    assert!(seen[&Class::Cycle] > 50, "{seen:?}");
    assert!(clean > 300, "{clean}");
}

/// Swaps the LIDs of two ports, but leaves the tables as they are.
#[test]
fn swapped_lids() {
    let (seen, _) = run("swap", None, |_, plan, rng| {
        let owned: Vec<(PortRef, LidRange)> = plan.lids.iter().collect();
        let any = |rng: &mut Rng| owned[rng.below(owned.len() as u64) as usize];
        let (a, b) = (any(rng), any(rng));
        if a.1.lmc == b.1.lmc {
            plan.lids = swapped(&plan.lids, a, b);
            tell(plan, a.0, b.1);
            tell(plan, b.0, a.1);
        }
    });
    assert!(seen[&Class::WrongDelivery] > 500, "{seen:?}");
}

/// Changes the LIDs in a port's settings; a port without a link has none.
fn tell(plan: &mut Plan, port: PortRef, lids: LidRange) {
    if let Some(settings) = plan.ports.get_mut(&port) {
        settings.lids = lids;
    }
}

fn swapped(lids: &Lids, a: (PortRef, LidRange), b: (PortRef, LidRange)) -> Lids {
    let mut lids = lids.clone();
    if a.0 != b.0 {
        lids.remove(a.0);
        lids.remove(b.0);
        lids.insert(a.0, b.1).unwrap();
        lids.insert(b.0, a.1).unwrap();
    }
    lids
}
