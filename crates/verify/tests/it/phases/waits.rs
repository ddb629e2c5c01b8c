//! How long waits must be, compared with packets that go one hop in each lifetime.

use std::collections::BTreeSet;

use selvedge_fabric::PortRef;
use selvedge_plan::SlToVl;
use selvedge_sim::Seed;
use selvedge_types::Lid;
use selvedge_verify::Severity;
use selvedge_verify::phases::{PhaseOptions, PhaseStep, Proposal, Write, lifetimes_to_wait};

use super::{Case, DRAIN_NS, Hop, hops, mixes, options, pairs, random_case};

/// A step that writes, and a wait after it; what is written then does not matter.
fn write_then_wait(writes: Vec<Write>) -> Proposal<'static> {
    let step = |wait_before_ns, writes| PhaseStep { wait_before_ns, writes };
    Proposal {
        steps: vec![step(0, writes), step(DRAIN_NS, Vec::new())],
        service_levels: None,
        sl_to_vl: None,
    }
}

/// Packets forwarded by any mix of a step go one hop in each lifetime. After the computed lifetimes, each makes only
/// dependencies that current sources make too; one lifetime earlier, some packet does not.
#[test]
fn waits_last_as_long_as_packets_matter() {
    let (mut cases, mut longest, mut tight) = (0, 0, 0);
    for number in 0..4_000 {
        let mut case = random_case(&mut Seed(35).nth(number).rng());
        case.levels[1] = case.levels[0].clone();
        case.maps = [0, 1].map(|_| SlToVl::modulo(1));
        case.steps.truncate(1);
        case.steps[0].0 = false;
        let mut after = case.tables.clone();
        let writes = case.steps[0].1.clone();
        for w in &writes {
            after.set(w.switch, w.lid, w.egress);
        }
        let proposal = write_then_wait(writes.clone());
        let lenient = PhaseOptions {
            switch_pairs: Severity::Warning,
            ..options()
        };
        let Some(asked) = lifetimes_to_wait(case.subject(), &proposal, &lenient) else {
            continue;
        };
        assert_eq!(asked[0], 0);
        let fabric = &case.fabric;
        let turns = |hops: &[Hop]| hops.windows(2).map(|two| (two[0], two[1])).collect::<Vec<_>>();
        let senders = |case: &Case| {
            let pairs = pairs(case).into_iter();
            let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
            pairs
                .filter(move |(_, to, _, is_host)| *is_host || !is_switch(*to))
                .map(|(from, _, lid, _)| (from, lid))
        };
        let changed: BTreeSet<Lid> = writes.iter().map(|w| w.lid).collect();
        let (mut needed, mut goes_round) = (0, false);
        for lid in changed {
            let regular: BTreeSet<(Hop, Hop)> = senders(&case)
                .filter(|(_, of)| *of == lid)
                .flat_map(|(from, _)| turns(&hops(fabric, &after, from, lid)))
                .collect();
            for mix in mixes(&case.tables, &writes) {
                for (from, _) in senders(&case).filter(|(_, of)| *of == lid) {
                    let way = hops(fabric, &mix, from, lid);
                    goes_round |= way.len() > fabric.switches().len();
                    for (held, wanted) in turns(&way) {
                        // It waits for `wanted`; from its end on it meets the entries that are in force.
                        let mut on = vec![held, wanted];
                        on.extend(hops(fabric, &after, fabric.peer(wanted).unwrap().node, lid));
                        let last = turns(&on).iter().rposition(|turn| !regular.contains(turn));
                        needed = needed.max(last.map_or(0, |last| last as u32 + 1));
                    }
                }
            }
        }
        if goes_round || needed as usize >= fabric.switches().len() {
            continue;
        }
        assert!(asked[1] >= needed, "case {number}: {asked:?} {needed}");
        cases += 1;
        longest = longest.max(needed);
        tight += u32::from(asked[1] == needed.max(1));
    }
    println!("{cases} cases, {tight} tight, longest {longest}");
    assert!(
        cases > 1_000 && longest >= 2 && tight * 10 > cases * 8,
        "{cases} {longest} {tight}"
    );
}
