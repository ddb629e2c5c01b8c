//! Transitions, compared with a judge that tries every order.
mod aging;
mod measured;
mod waits;

use crate::support;
use crate::timeline;
use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, LinkState, NodeIdx, PortRef, SwitchIdx};
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_sim::{Par, Rng, Seed};
use selvedge_types::{Lid, PortNum, PortState, Sl, Vl};
use selvedge_verify::phases::{
    Links, PhaseFault, PhaseFinding, PhaseOptions, PhaseStep, Proposal, StandingTurns, Write, needs_wait, prove,
    prove_quickly,
};
use selvedge_verify::{Severity, Sources, Subject, Traffic};

const DRAIN_NS: u64 = 1_000_000;

/// A transition of a few entries on a small fabric.
struct Case {
    fabric: Fabric,
    lids: Lids,
    tables: Tables,
    levels: [ServiceLevels; 2],
    maps: [SlToVl; 2],
    steps: Vec<(bool, Vec<Write>)>,
}

impl Case {
    fn subject(&self) -> Subject<'_> {
        Subject::tables(&self.fabric, &self.lids, &self.tables, &self.levels[0], &self.maps[0])
    }

    fn proposal(&self) -> Proposal<'_> {
        let step = |(wait, writes): &(bool, Vec<Write>)| PhaseStep {
            wait_before_ns: if *wait { DRAIN_NS } else { 0 },
            writes: writes.clone(),
        };
        Proposal {
            steps: self.steps.iter().map(step).collect(),
            service_levels: Some(&self.levels[1]),
            sl_to_vl: Some(&self.maps[1]),
        }
    }

    fn brute(&self) -> timeline::Case<'_> {
        timeline::Case {
            fabric: &self.fabric,
            lids: &self.lids,
            tables: &self.tables,
            levels: [&self.levels[0], &self.levels[1]],
            maps: [&self.maps[0], &self.maps[1]],
            steps: self.steps.clone(),
        }
    }
}

fn options() -> PhaseOptions {
    PhaseOptions {
        drain_ns: Some(DRAIN_NS),
        // Everything is refused, so that all of it is compared.
        switch_pairs: Severity::Error,
        ..PhaseOptions::default()
    }
}

fn below(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).unwrap()
}

fn pick<T: Clone>(rng: &mut Rng, from: &[T]) -> T {
    from[below(rng, from.len())].clone()
}

fn random_case(rng: &mut Rng) -> Case {
    let mut draw = |bound: usize| usize::try_from(rng.below(bound as u64)).unwrap();
    let fabric = match draw(4) {
        0 | 1 => support::ring(3 + draw(3), 1),
        2 => support::tree(2 + draw(2), 2, 1),
        _ => {
            let (switches, more, hosts, down) = (3 + draw(3), 1 + draw(3), 2 + draw(3), draw(2));
            support::random(switches, more, hosts, down, &mut draw)
        }
    };
    let lids = support::lids(&fabric, 0);
    let roots = fabric.switches().len();
    let (from, to) = (draw(roots), draw(roots));
    let root = |root: usize| SwitchIdx(root as u32);
    let mut tables = support::updown(&fabric, &lids, root(from));
    let after = match draw(3) {
        0 => support::minhop(&fabric, &lids),
        _ => support::updown(&fabric, &lids, root(to)),
    };
    if draw(12) == 0 {
        tables = support::minhop(&fabric, &lids);
    }
    let levels = random_levels(&lids, &mut draw);
    let maps = random_maps(&fabric, &mut draw);
    let steps = random_steps(rng, &fabric, &lids, (&mut tables, &after));
    Case {
        fabric,
        lids,
        tables,
        levels,
        maps,
        steps,
    }
}

/// Returns the service levels before and after: mostly one level for all LIDs; else two levels, and some LIDs change
/// between them.
fn random_levels(lids: &Lids, draw: &mut impl FnMut(usize) -> usize) -> [ServiceLevels; 2] {
    if draw(4) > 0 {
        return [ServiceLevels::default(), ServiceLevels::default()];
    }
    let mut before: Vec<Sl> = (0..=lids.top().0).map(|_| Sl::new(draw(2) as u8).unwrap()).collect();
    let first = ServiceLevels::PerDestination(before.clone());
    for sl in &mut before {
        if draw(5) == 0 {
            *sl = Sl::new(draw(3) as u8).unwrap();
        }
    }
    [first, ServiceLevels::PerDestination(before)]
}

fn random_maps(fabric: &Fabric, draw: &mut impl FnMut(usize) -> usize) -> [SlToVl; 2] {
    let mut map = SlToVl::modulo(1 + draw(2) as u8);
    for _ in 0..draw(3) * draw(3) {
        let switch = SwitchIdx(draw(fabric.switches().len()) as u32);
        let mut port = || support::port(draw(5) as u8);
        let key = (switch, port(), port());
        let vl = Vl::new([0, 1, 2, 15][draw(4)]).unwrap();
        map.exceptions.insert(key, [vl; Sl::COUNT]);
    }
    let mut after = map.clone();
    if draw(8) == 0 {
        after.default = SlToVl::modulo(1 + draw(2) as u8).default;
    }
    [map, after]
}

/// Up to five writes in up to three steps, towards `after` or anywhere; everything else has changed before.
fn random_steps(
    rng: &mut Rng,
    fabric: &Fabric,
    lids: &Lids,
    (tables, after): (&mut Tables, &Tables),
) -> Vec<(bool, Vec<Write>)> {
    let every = lids
        .by_lid()
        .flat_map(|(lid, _)| fabric.switches().indices().map(move |switch| (switch, lid)));
    let mut differ: Vec<(SwitchIdx, Lid)> = every
        .filter(|&(s, lid)| tables.get(s, lid) != after.get(s, lid))
        .collect();
    rng.shuffle(&mut differ);
    let mut left = 2 + below(rng, 4);
    let chosen: Vec<_> = differ.iter().copied().take(left).collect();
    // Some LIDs have moved wholly already, most have not.
    for &(switch, lid) in differ.iter().skip(left).filter(|(_, lid)| lid.0 % 4 == 0) {
        tables.set(switch, lid, after.get(switch, lid));
    }
    if rng.below(3) == 0 {
        let write = |egress: u8, (switch, lid)| Write { switch, lid, egress };
        let drop: Vec<Write> = chosen.iter().take(3).map(|&at| write(255, at)).collect();
        let fill = drop
            .iter()
            .map(|w| write(after.get(w.switch, w.lid), (w.switch, w.lid)));
        let fill = (rng.below(2) == 0, fill.collect());
        return vec![(false, drop), fill];
    }
    if let Some(&(switch, lid)) = chosen.first().filter(|_| rng.below(4) == 0) {
        tables.set(switch, lid, 255);
    }
    let mut steps = vec![(false, Vec::new())];
    let mut chosen = chosen.into_iter();
    while left > 0 {
        left -= 1;
        let anywhere = (
            SwitchIdx(below(rng, fabric.switches().len()) as u32),
            pick(rng, &lids_of(lids)),
        );
        let (switch, lid) = match chosen.next() {
            Some(next) if rng.below(8) > 0 => next,
            _ => anywhere,
        };
        let ways = support::neighbours(fabric, switch);
        let egress = match rng.below(8) {
            0 => 255,
            1 if !ways.is_empty() => pick(rng, &ways).0.get(),
            _ => after.get(switch, lid),
        };
        let (_, step) = steps.last_mut().unwrap();
        if !step
            .iter()
            .any(|write: &Write| (write.switch, write.lid) == (switch, lid))
        {
            step.push(Write { switch, lid, egress });
        }
        if steps.len() < 4 && rng.below(2) == 0 {
            steps.push((rng.below(3) == 0, Vec::new()));
        }
    }
    steps
}

fn lids_of(lids: &Lids) -> Vec<Lid> {
    lids.by_lid().map(|(lid, _)| lid).collect()
}

/// Returns, for each stretch between two waits, the first step with a cycle, and each later step with a cycle in a
/// smaller class of traffic.
fn firsts(verdicts: &[Option<Traffic>], steps: &[(bool, Vec<Write>)]) -> Vec<(u32, Traffic)> {
    let mut found = Vec::new();
    let mut worst = None;
    for (step, verdict) in (0..).zip(verdicts) {
        if step > 0 && steps[step - 1].0 {
            worst = None;
        }
        if let Some(traffic) = *verdict
            && worst.is_none_or(|worst| traffic < worst)
        {
            found.push((step as u32, traffic));
            worst = Some(traffic);
        }
    }
    found
}

fn traffic_of(finding: &PhaseFinding) -> Traffic {
    match finding.fault {
        PhaseFault::MixedCycle { traffic, .. } | PhaseFault::MixedLoop { traffic, .. } => traffic,
        _ => panic!("{finding}"),
    }
}

fn found(case: &Case) -> Vec<PhaseFinding> {
    match prove(case.subject(), None, &case.proposal(), &options()) {
        Ok(proof) => {
            assert_eq!(proof.warnings, []);
            Vec::new()
        }
        Err(refusal) => refusal.findings,
    }
}

#[test]
fn nobody_finds_more_by_trying_every_order() {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut count = |what| *seen.entry(what).or_insert(0) += 1;
    for number in 0..4_000 {
        let case = random_case(&mut Seed(30).nth(number).rng());
        let want = firsts(&case.brute().verdicts(), &case.steps);
        let found = found(&case);
        let steps = |steps: &mut dyn Iterator<Item = u32>| steps.collect::<BTreeSet<u32>>();
        let (found_in, cyclic) = (
            steps(&mut found.iter().map(|f| f.step)),
            steps(&mut want.iter().map(|w| w.0)),
        );
        assert_eq!(found_in, cyclic, "case {number}: {found:#?} {want:?}");
        for finding in &found {
            let smallest = want.iter().find(|w| w.0 == finding.step).unwrap().1;
            let is_loop = matches!(finding.fault, PhaseFault::MixedLoop { .. });
            assert!(
                traffic_of(finding) == smallest || is_loop,
                "case {number}: {finding} {want:?}"
            );
            if let PhaseFault::MixedCycle { length, .. } = finding.fault {
                check_cycle(&case, finding, length as usize, number);
            }
            count(if is_loop { "loop" } else { "cycle" });
        }
        count(match want.first() {
            None => "safe",
            Some((0, _)) => "cyclic before",
            Some(_) => "unsafe",
        });
    }
    println!("{seen:?}");
    for (what, least) in [
        ("safe", 1_500),
        ("unsafe", 800),
        ("cyclic before", 200),
        ("loop", 300),
        ("cycle", 1_000),
    ] {
        assert!(seen[what] >= least, "{seen:?}");
    }
}

/// Each step of a witness enters a switch by the link that the step before leaves by, on its lane, and names entries
/// that its LID has at some time.
fn check_cycle(case: &Case, finding: &PhaseFinding, length: usize, number: u64) {
    assert_eq!(finding.witness.len(), length, "case {number}: {finding:#?}");
    let fabric = &case.fabric;
    let next = finding.witness.iter().cycle().skip(1);
    for (mixed, next) in finding.witness.iter().zip(next) {
        let hop = &mixed.step.hop;
        let node = fabric.find(hop.switch.node_guid).unwrap();
        let egress = PortRef {
            node,
            port: support::port(hop.egress),
        };
        let entered = PortRef {
            node: fabric.find(next.step.hop.switch.node_guid).unwrap(),
            port: next.step.hop.ingress,
        };
        assert_eq!(fabric.peer(egress), Some(entered), "case {number}: {finding:#?}");
        assert_eq!(hop.vl, Some(next.step.from_vl), "case {number}: {finding:#?}");
        let (switch, lid) = (fabric.switch_index(node).unwrap(), mixed.step.lid);
        let written = case.steps.iter().take(finding.step as usize).flat_map(|step| &step.1);
        let mut entries = written.filter(|w| (w.switch, w.lid) == (switch, lid)).map(|w| w.egress);
        let is_known = case.tables.get(switch, lid) == hop.egress || entries.any(|entry| entry == hop.egress);
        assert!(is_known, "case {number}: {finding:#?}");
    }
}

/// The fewest waits, found by trying all combinations.
#[test]
fn as_few_waits_as_can_be() {
    let (mut seen, mut none) = ([0; 3], 0);
    for number in 0..25_000 {
        let mut case = random_case(&mut Seed(31).nth(number).rng());
        case.steps.retain(|step| !step.1.is_empty());
        let found = needs_wait(case.subject(), None, &case.proposal(), &options());
        // Few cases need a wait: all of those, and some of the others.
        if number % 16 > 0 && found.as_ref().map_or(true, Vec::is_empty) {
            continue;
        }
        let is_safe = |case: &mut Case, waits: u32| {
            (0..)
                .zip(&mut case.steps)
                .for_each(|(i, step)| step.0 = waits >> i & 1 == 1);
            case.brute().verdicts().iter().all(Option::is_none)
        };
        let mut choices: Vec<u32> = (0..1 << case.steps.len()).filter(|waits| waits & 1 == 0).collect();
        choices.sort_by_key(|waits| waits.count_ones());
        let fewest = choices.into_iter().find(|&waits| is_safe(&mut case, waits));
        match (fewest, found) {
            (None, Err(_)) => none += 1,
            (Some(fewest), Ok(found)) => {
                assert_eq!(
                    found.len() as u32,
                    fewest.count_ones(),
                    "case {number}: {found:?} {fewest:b}"
                );
                seen[found.len()] += 1;
                let waits = found.iter().fold(0, |waits, step| waits | 1 << (step - 1));
                assert!(is_safe(&mut case, waits), "case {number}: {found:?}");
                check_waits(&mut case, &found, number);
            }
            (fewest, found) => panic!("case {number}: {fewest:?} {found:?}"),
        }
    }
    println!("{seen:?} none {none}");
    assert!(seen[0] > 500 && seen[1] > 100 && none > 300, "{seen:?}, none {none}");
}

/// With a wait everywhere, unnecessary ones are named, and as few as possible remain.
fn check_waits(case: &mut Case, needed: &[u32], number: u64) {
    case.steps.iter_mut().for_each(|step| step.0 = true);
    let proof = prove(case.subject(), None, &case.proposal(), &options()).unwrap();
    let all: Vec<u32> = (1..=case.steps.len() as u32).collect();
    assert_eq!(proof.figures.waits, all, "case {number}");
    let left = proof.figures.waits.len() - proof.figures.waits_spare.len();
    assert!(
        left >= needed.len() && (needed.is_empty() == (left == 0)),
        "case {number}: {:?}",
        proof.figures
    );
}

/// A standing graph, built before or updated, changes no answer; neither do threads.
#[test]
fn standing_graphs_change_nothing() {
    let mut proved = 0;
    for number in 0..1_500 {
        let mut rng = Seed(32).nth(number).rng();
        let case = random_case(&mut rng);
        let plain = prove(case.subject(), None, &case.proposal(), &options());
        let standing = StandingTurns::new(case.subject(), Links::Active, Par::Sequential);
        assert!(standing == StandingTurns::new(case.subject(), Links::Active, Par::Rayon));
        assert_eq!(
            prove(case.subject(), Some(&standing), &case.proposal(), &options()),
            plain,
            "case {number}"
        );
        let threads = PhaseOptions {
            par: Par::Rayon,
            ..options()
        };
        assert_eq!(
            prove(case.subject(), None, &case.proposal(), &threads),
            plain,
            "case {number}"
        );
        proved += u32::from(plain.is_ok());
        // Some entries change: only their LIDs are counted anew.
        let mut tables = case.tables.clone();
        let mut lids = Vec::new();
        for write in case.steps.iter().flat_map(|step| &step.1) {
            tables.set(write.switch, write.lid, write.egress);
            lids.push(write.lid);
        }
        let after = Subject {
            tables: &tables,
            ..case.subject()
        };
        let mut moved = standing.clone();
        moved.replace(case.subject(), after, &lids);
        let built = StandingTurns::new(after, Links::Active, Par::Sequential);
        let none = Proposal::default();
        assert_eq!(
            prove(after, Some(&moved), &none, &options()),
            prove(after, Some(&built), &none, &options())
        );
        assert_eq!(moved.turns(), built.turns(), "case {number}");
    }
    assert!(proved > 500, "{proved}");
}

/// A cable between switches goes down.
fn lose_a_link(fabric: &mut Fabric, which: usize) {
    let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
    let links = fabric.links().filter(|link| is_switch(link.a) && is_switch(link.b));
    let links: Vec<_> = links.collect();
    if links.is_empty() {
        return;
    }
    let link = links[which % links.len()];
    for at in [link.a, link.b] {
        let port = fabric.port(at).unwrap().clone();
        let state = PortState::Down;
        fabric.set_port(at, LinkState { state, ..port.link }, port.settings);
    }
}

/// A quickly proved transition is safe without a wait, and a transition that is safe without a wait is proved quickly.
#[test]
fn quick_proofs_hold() {
    let (mut quick, mut safe) = (0, 0);
    for number in 0..20_000 {
        let mut case = random_case(&mut Seed(34).nth(number).rng());
        case.levels[1] = case.levels[0].clone();
        case.maps = [0, 1].map(|_| SlToVl::modulo(1 + (number % 2) as u8));
        case.steps.iter_mut().for_each(|step| step.0 = false);
        let standing = StandingTurns::new(case.subject(), Links::Active, Par::Sequential);
        if number % 3 == 0 {
            lose_a_link(&mut case.fabric, number as usize / 3);
        }
        let is_quick = prove_quickly(case.subject(), &standing, &case.proposal(), &options()).is_some();
        let is_safe = found(&case).is_empty();
        // Packets beyond a lost link are assumed to be still in flight.
        assert!(is_safe || !is_quick, "case {number}");
        assert!(is_quick || !is_safe || number % 3 == 0, "case {number}");
        quick += u32::from(is_quick);
        safe += u32::from(is_safe);
    }
    println!("{quick} quickly, {safe} safe");
    assert!(safe > 8_000 && quick * 10 > safe * 9, "{quick} of {safe}");
}

/// Pairs that may lose packets: those that do with some of the step's entries written and some not.
#[test]
fn pairs_that_lose_packets() {
    let (mut live, mut waiting, mut proved) = (0, 0, 0);
    for number in 0..3_000 {
        let case = random_case(&mut Seed(33).nth(number).rng());
        let Ok(proof) = prove(case.subject(), None, &case.proposal(), &options()) else {
            continue;
        };
        proved += 1;
        let mut after = case.tables.clone();
        for w in case.steps.iter().flat_map(|step| &step.1) {
            after.set(w.switch, w.lid, w.egress);
        }
        let mut tables = case.tables.clone();
        for ((_, writes), figures) in case.steps.iter().zip(&proof.figures.steps) {
            let mut mixes = mixes(&tables, writes);
            tables = mixes.pop().unwrap();
            mixes.push(tables.clone());
            let (mut want_live, mut want_waiting) = ((0, 0), (0, 0));
            for (from, to, lid, is_host) in pairs(&case) {
                let arrives = |tables: &Tables| arrives(&case.fabric, tables, from, to, lid);
                let is_touched = case.steps.iter().any(|step| step.1.iter().any(|w| w.lid == lid));
                if is_touched && arrives(&after) && !mixes.iter().all(arrives) {
                    let counted = if arrives(&case.tables) {
                        &mut want_live
                    } else {
                        &mut want_waiting
                    };
                    *(if is_host { &mut counted.0 } else { &mut counted.1 }) += 1;
                }
            }
            let got = |sources: Sources| (sources.hosts, sources.switches);
            assert_eq!(
                got(figures.live_dropped),
                want_live,
                "case {number} step {}",
                figures.step
            );
            assert_eq!(
                got(figures.waiting),
                want_waiting,
                "case {number} step {}",
                figures.step
            );
            assert_eq!(figures.live_examples.is_empty(), want_live == (0, 0), "case {number}");
            live += want_live.0;
            waiting += want_waiting.0;
        }
    }
    assert!(
        proved > 1_000 && live > 800 && waiting > 60,
        "{proved} {live} {waiting}"
    );
}

/// Returns the tables with each subset of these writes; the last tables have all of them.
fn mixes(tables: &Tables, writes: &[Write]) -> Vec<Tables> {
    let mix = |mix: u32| {
        let mut mixed = tables.clone();
        let chosen = writes.iter().enumerate().filter(|(i, _)| mix >> i & 1 == 1);
        chosen.for_each(|(_, w)| mixed.set(w.switch, w.lid, w.egress));
        mixed
    };
    (0..1_u32 << writes.len()).map(mix).collect()
}

/// Returns each pair of a source and a LID of another port: the switch where the source's packets enter, the LID's
/// owner, the LID, and whether the source is a host.
fn pairs(case: &Case) -> Vec<(NodeIdx, PortRef, Lid, bool)> {
    let fabric = &case.fabric;
    let enters = |at: PortRef| match fabric.switch_index(at.node) {
        Some(_) => Some(at.node),
        None => fabric.link_is_up(at).then(|| fabric.peer(at).unwrap().node),
    };
    let mut pairs = Vec::new();
    for (lid, owner) in case.lids.by_lid() {
        for (source, _) in fabric.end_ports().filter(|(source, _)| *source != owner) {
            let is_host = fabric.switch_index(source.node).is_none();
            pairs.extend(enters(source).map(|from| (from, owner, lid, is_host)));
        }
    }
    pairs
}

/// A link between switches, by the port where it begins.
type Hop = PortRef;

/// Returns the channels that packets pass from a switch on; if they loop, as many as there are switches.
fn hops(fabric: &Fabric, tables: &Tables, from: NodeIdx, lid: Lid) -> Vec<Hop> {
    let mut node = from;
    let mut found = Vec::new();
    while found.len() <= fabric.switches().len() {
        let Some(port) = PortNum::new(tables.get(fabric.switch_index(node).unwrap(), lid)) else {
            break;
        };
        let at = PortRef { node, port };
        let peer = fabric.peer(at).filter(|_| fabric.link_is_up(at));
        let Some(peer) = peer.filter(|peer| fabric.switch_index(peer.node).is_some()) else {
            break;
        };
        found.push(at);
        node = peer.node;
    }
    found
}

fn arrives(fabric: &Fabric, tables: &Tables, from: NodeIdx, to: PortRef, lid: Lid) -> bool {
    switches_to(fabric, tables, from, to, lid).is_some()
}

/// Returns the number of switches on the path from `from` to the port `to`; `None` if packets do not arrive there.
fn switches_to(fabric: &Fabric, tables: &Tables, from: NodeIdx, to: PortRef, lid: Lid) -> Option<u32> {
    let mut node = from;
    for passed in 1..=fabric.switches().len() as u32 + 1 {
        let port = PortNum::new(tables.get(fabric.switch_index(node)?, lid))?;
        let at = PortRef { node, port };
        if port == PortNum::MANAGEMENT || !fabric.link_is_up(at) {
            return (at == to).then_some(passed);
        }
        let peer = fabric.peer(at)?;
        if fabric.switch_index(peer.node).is_none() {
            return (peer == to).then_some(passed);
        }
        node = peer.node;
    }
    None
}
