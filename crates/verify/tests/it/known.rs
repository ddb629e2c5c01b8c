//! Cases with a known answer.

use crate::support;
use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Installed, NO_PATH, ServiceLevels, SlToVl, Tables, changes};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Lid, PortState, Sl};
use selvedge_verify::{JudgeOptions, Kind, Severity, Subject, Verdict, judge, verify};

fn verdict(fabric: &Fabric, tables: impl Fn(&Fabric, &selvedge_plan::Lids) -> Tables) -> Verdict {
    let lids = support::lids(fabric, 0);
    let plan = support::plan(fabric, lids.clone(), tables(fabric, &lids));
    verify(Subject::plan(fabric, &plan), &JudgeOptions::default())
}

fn kinds(verdict: &Verdict) -> Vec<(&'static str, Severity)> {
    verdict.totals.iter().map(|t| (t.kind.name(), t.severity)).collect()
}

fn updown(fabric: &Fabric, lids: &selvedge_plan::Lids) -> Tables {
    support::updown(fabric, lids, SwitchIdx(0))
}

#[test]
fn shortest_ways_on_a_ring_are_cyclic() {
    for switches in 5..12 {
        let found = kinds(&verdict(&support::ring(switches, 1), support::minhop));
        assert_eq!(found, [("host-cycle", Severity::Error)], "{switches}");
    }
}

/// Packets to LIDs without an owner follow the entries, and fill links like others.
#[test]
fn entries_of_lids_that_nobody_owns_count() {
    let check = |has_entries: bool, want: &[(&str, Severity)]| {
        let fabric = support::ring(6, 1);
        let mut lids = support::lids(&fabric, 0);
        let (mut tables, shortest) = (updown(&fabric, &lids), support::minhop(&fabric, &lids));
        // The highest LID keeps its owner: packets to LIDs above LinearFDBTop are dropped at once.
        let top = lids.top();
        let is_left_out = |lid: Lid, at: PortRef| !fabric.node(at.node).is_switch() && lid < top;
        for (lid, at) in lids.clone().by_lid().filter(|&(lid, at)| is_left_out(lid, at)) {
            lids.remove(at);
            for switch in fabric.switches().indices() {
                let entry = shortest.get(switch, lid);
                tables.set(switch, lid, if has_entries { entry } else { NO_PATH });
            }
        }
        let plan = support::plan(&fabric, lids, tables);
        let mut found = kinds(&verify(Subject::plan(&fabric, &plan), &JudgeOptions::default()));
        found.retain(|(kind, _)| *kind != "lid-missing");
        assert_eq!(found, want);
    };
    check(
        true,
        &[("host-cycle", Severity::Error), ("stray-entries", Severity::Warning)],
    );
    check(false, &[]);
}

#[test]
fn one_thread_or_many_say_the_same() {
    let mut rng = Seed(6).rng();
    let fabric = support::random(40, 60, 80, 6, |n| usize::try_from(rng.below(n as u64)).unwrap());
    let lids = support::lids(&fabric, 2);
    let mut tables = support::minhop(&fabric, &lids);
    for _ in 0..400 {
        let lid = Lid(1 + rng.below(u64::from(lids.top().0)) as u16);
        tables.set(SwitchIdx(rng.below(40) as u32), lid, rng.below(30) as u8);
    }
    let mut plan = support::plan(&fabric, lids, tables);
    let levels = (0..500_u16).map(|i| Sl::new((i % 5) as u8).unwrap());
    plan.service_levels = ServiceLevels::PerDestination(levels.collect());
    plan.sl_to_vl = SlToVl::modulo(3);
    let say = |par, findings_max| {
        let options = JudgeOptions {
            par,
            findings_max,
            ..JudgeOptions::default()
        };
        serde_json::to_string(&verify(Subject::plan(&fabric, &plan), &options)).unwrap()
    };
    for findings_max in [0, 1, 7, usize::MAX] {
        assert_eq!(say(Par::Sequential, findings_max), say(Par::Rayon, findings_max));
    }
    let few = verify(
        Subject::plan(&fabric, &plan),
        &JudgeOptions {
            findings_max: 1,
            ..JudgeOptions::default()
        },
    );
    let all = verify(
        Subject::plan(&fabric, &plan),
        &JudgeOptions {
            findings_max: usize::MAX,
            ..JudgeOptions::default()
        },
    );
    assert_eq!(few.totals, all.totals, "what is not listed is counted");
    assert!(few.findings.len() < all.findings.len());
}

#[test]
fn accepted_findings_stay_as_warnings() {
    let fabric = support::ring(6, 1);
    let lids = support::lids(&fabric, 0);
    let plan = support::plan(&fabric, lids.clone(), support::minhop(&fabric, &lids));
    let installed = Installed::unknown(6);
    let try_judge = |options: &JudgeOptions| {
        let set = changes(&fabric, &installed, &plan);
        judge(&fabric, &installed, &plan, set, options)
    };
    let refusal = try_judge(&JudgeOptions::default()).unwrap_err().to_string();
    assert!(refusal.starts_with("SLV-JUDGE-0200"), "{refusal}");
    assert!(refusal.contains("SLV-JUDGE-0006"), "{refusal}");
    let options = JudgeOptions {
        accept: [Kind::HostCycle].into(),
        ..JudgeOptions::default()
    };
    let judged = try_judge(&options).unwrap();
    let cycle = &judged.verdict().findings[0];
    assert!(cycle.accepted);
    assert_eq!(cycle.severity, Severity::Warning);
    assert!(!judged.value().is_empty());
}

#[test]
fn figures_of_a_tree() {
    // 4 leaves of 3 hosts, 3 spines, one host of each leaf per spine: 9 senders on each up link share 3 spines.
    let figures = verdict(&support::tree(4, 3, 3), support::minhop).figures;
    assert_eq!((figures.host_ports, figures.switches, figures.parts), (12, 7, 1));
    assert_eq!((figures.host_pairs, figures.host_pairs_reached), (132, 132));
    assert_eq!(figures.hops, [24, 0, 108]);
    assert_eq!((figures.hops_max, figures.hops_mean), (2, 2.0));
    assert_eq!(figures.channels, 24);
    assert_eq!((figures.load.max, figures.load.mean, figures.load.sd), (9, 9.0, 0.0));
    assert_eq!(figures.lanes.len(), 1);
}

#[test]
fn odd_fabrics() {
    let check = |fabric: &Fabric, want: &[(&str, Severity)]| {
        assert_eq!(kinds(&verdict(fabric, updown)), want);
    };
    // No node, one switch, one switch with one host, switches without hosts.
    check(&support::Net::new(0, 0).finish(PortState::Init), &[]);
    check(&support::Net::new(1, 4).finish(PortState::Init), &[]);
    let mut net = support::Net::new(1, 254);
    net.host(0);
    check(&net.finish(PortState::Init), &[]);
    check(&support::ring(4, 0), &[]);
    // Two parts.
    let mut net = support::Net::new(2, 4);
    net.host(0).host(0).host(1);
    check(
        &net.finish(PortState::Init),
        &[("separated", Severity::Warning), ("host-alone", Severity::Warning)],
    );
    // A switch with a cable to itself.
    let mut net = support::Net::new(1, 4);
    net.link(0, 0).host(0).host(0);
    check(&net.finish(PortState::Init), &[]);
}
