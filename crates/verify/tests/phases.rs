//! Transitions against a judge that tries every order.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

mod support;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_sim::{Par, Rng, Seed};
use selvedge_types::{Lid, Sl, Vl};
use selvedge_verify::phases::{
    Links, PhaseFault, PhaseFinding, PhaseOptions, PhaseStep, Proposal, Standing, Write, needs_wait, prove,
};
use selvedge_verify::{Severity, Subject, Traffic};

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
    Case { fabric, lids, tables, levels, maps, steps }
}

/// Mostly one level for all; else two, which some LIDs change.
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
    let every = lids.by_lid().flat_map(|(lid, _)| fabric.switches().indices().map(move |switch| (switch, lid)));
    let mut differ: Vec<(SwitchIdx, Lid)> = every.filter(|&(s, lid)| tables.get(s, lid) != after.get(s, lid)).collect();
    rng.shuffle(&mut differ);
    let mut left = 2 + below(rng, 4);
    let chosen: Vec<_> = differ.iter().copied().take(left).collect();
    // Some LIDs have moved wholly already, most have not.
    for &(switch, lid) in differ.iter().skip(left).filter(|(_, lid)| lid.0 % 4 == 0) {
        tables.set(switch, lid, after.get(switch, lid));
    }
    let mut steps = vec![(false, Vec::new())];
    let mut chosen = chosen.into_iter();
    while left > 0 {
        left -= 1;
        let anywhere = (SwitchIdx(below(rng, fabric.switches().len()) as u32), pick(rng, &lids_of(lids)));
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
        if !step.iter().any(|write: &Write| (write.switch, write.lid) == (switch, lid)) {
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

/// From one wait to the next, the first step of each traffic, smaller than those before.
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
        let cycles: BTreeSet<u32> = found.iter().map(|f| f.step).collect();
        assert_eq!(cycles.into_iter().collect::<Vec<_>>(), want.iter().map(|w| w.0).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), "case {number}: {found:#?} {want:?}");
        for finding in &found {
            let smallest = want.iter().filter(|w| w.0 == finding.step).map(|w| w.1).min().unwrap();
            let is_loop = matches!(finding.fault, PhaseFault::MixedLoop { .. });
            assert!(traffic_of(finding) == smallest || is_loop, "case {number}: {finding} {want:?}");
            if let PhaseFault::MixedCycle { length, .. } = finding.fault {
                assert_eq!(finding.witness.len(), length as usize, "case {number}: {finding:#?}");
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
}
