//! Transitions between the tables of any two engines, on complete and damaged fabrics: the judge proves each.

use crate::bench;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bench::{Bench, set};
use selvedge_fabric::{Fabric, FabricBuilder, LinkState, PortRef, PortSettings};
use selvedge_plan::{ChangeSet, LaneTables, Op, ServiceLevels, SlToVl, Tables, UnderWay, changes};
use selvedge_planner::way::{self, WayOptions};
use selvedge_routing::Engine;
use selvedge_sim::{Par, Rng, Seed};
use selvedge_types::{LidRange, PortState};
use selvedge_verify::phases::{self, Links, Passage, Past, PhaseOptions, Proposal, newcomers_may_meet, passage};
use selvedge_verify::{JudgeOptions, Kind, Severity, Subject, Total, verify};

fn bench(spec: &str) -> Bench {
    bench::bench(spec).unwrap()
}

impl Bench {
    fn by(&self, engine: Engine, previous: Option<&Tables>) -> Option<Tables> {
        self.route(engine, previous, Par::Sequential)
    }

    /// Cuts links between switches that leave every switch connected.
    fn cut(&mut self, rng: &mut Rng, count: usize) {
        for _ in 0..count {
            let cables: Vec<_> = self
                .fabric
                .links()
                .filter(|l| self.is_between(l.a) && self.is_between(l.b))
                .collect();
            let cable = cables[usize::try_from(rng.below(cables.len() as u64)).unwrap()];
            [cable.a, cable.b]
                .into_iter()
                .for_each(|at| set(&mut self.fabric, at, PortState::Down));
        }
    }

    /// Returns the transition between two sets of tables, and the judge's result.
    fn way(&self, from: &Tables, to: Tables) -> (ChangeSet, Passage) {
        let (installed, plan) = (self.installed(from), self.plan(to));
        let changes = way::propose(&self.fabric, &installed, &plan, &WayOptions::default());
        let passage = passage(
            &self.fabric,
            &installed,
            &plan,
            &changes,
            None,
            &JudgeOptions::default(),
        );
        (changes, passage)
    }
}

/// Sets of each phase; `+`: after a wait.
fn shape(changes: &ChangeSet) -> String {
    let phase = |phase: &selvedge_plan::Phase| {
        let wait = if phase.wait_before_ns > 0 { "+" } else { "" };
        format!("{wait}{}", phase.ops.len())
    };
    changes.phases.iter().map(phase).collect::<Vec<_>>().join(" ")
}

/// Returns a word for the judge's result; waits must be long enough.
fn word(what: &str, changes: &ChangeSet, passage: &Passage) -> &'static str {
    match passage {
        Passage::Still => "still",
        Passage::Quick(_) => "quick",
        Passage::Proved(proof) => {
            let figures = &proof.figures;
            assert_eq!(figures.waits_short, [0_u32; 0], "{what}");
            let waits = changes.phases.iter().filter(|phase| phase.wait_before_ns > 0).count();
            assert_eq!(figures.waits.len(), waits, "{what}");
            "proved"
        }
        Passage::Inherited(_) => "inherited",
        Passage::Refused(_) => "refused",
    }
}

fn check(spec: &str, from: Engine, to: Engine, want: &str) {
    let bench = bench(spec);
    let (old, new) = (bench.by(from, None).unwrap(), bench.by(to, None).unwrap());
    let (changes, passage) = bench.way(&old, new);
    let what = format!("{spec} {from:?} {to:?}");
    if let Passage::Proved(proof) = &passage {
        assert_eq!(proof.figures.waits_spare, [0_u32; 0], "{what}");
    }
    let got = format!("{} {}", word(&what, &changes, &passage), shape(&changes));
    assert_eq!(got, want, "{what}");
}

#[test]
fn engines_follow_one_another() {
    let ring = "ring:switches=6,hosts=1";
    check(ring, Engine::UpDn, Engine::UpDn, "still ");
    // Two switches may change at once, the others not: one wait, because a ring has no other path.
    check(ring, Engine::UpDn, Engine::Weave, "proved 2 5 +5");
    // The tables in force can deadlock: entries are dropped first, so that no dependency is added.
    check(ring, Engine::MinHop, Engine::UpDn, "inherited 4 +4");
    // The new tables can deadlock: there is no safe transition, and the judge refuses it.
    check(ring, Engine::UpDn, Engine::MinHop, "refused 4 +4");
    // Up and down whatever is mixed: one step.
    let tree = "karytree:k=4,n=2";
    check(tree, Engine::UpDn, Engine::FatTree, "proved 4");
    check(tree, Engine::FatTree, Engine::UpDn, "proved 4");
    check("karytree:k=3,n=3", Engine::UpDn, Engine::FatTree, "proved 18");
    // Detours of switches' own LIDs turn against the others: the nearest first.
    check("karytree:k=3,n=3", Engine::UpDn, Engine::MinHop, "proved 12 3");
}

/// Every lost link of a tree is repaired without a wait, and without unnecessary packet loss.
#[test]
fn repairs_of_trees_need_no_wait() {
    for spec in ["karytree:k=4,n=2", "karytree:k=3,n=3", "sx6536"] {
        let whole = bench(spec);
        let old = whole.by(Engine::FatTree, None).unwrap();
        let links = whole.fabric.links();
        let cables: Vec<_> = links
            .filter(|l| whole.is_between(l.a) && whole.is_between(l.b))
            .collect();
        for cable in cables.iter().step_by(cables.len().div_ceil(24)) {
            let mut damaged = whole.clone();
            for at in [cable.a, cable.b] {
                set(&mut damaged.fabric, at, PortState::Down);
            }
            let new = damaged.by(Engine::FatTree, Some(&old)).unwrap();
            let (changes, passage) = damaged.way(&old, new);
            let what = format!("{spec} {}: {}", damaged.fabric.port_name(cable.a), shape(&changes));
            assert_eq!(word(&what, &changes, &passage), "proved", "{what}");
            assert!(changes.phases.iter().all(|phase| phase.wait_before_ns == 0), "{what}");
            let Passage::Proved(proof) = passage else {
                panic!("{what}")
            };
            assert!(
                proof.figures.steps.iter().all(|step| step.live_dropped.hosts == 0),
                "{what}"
            );
        }
    }
}

const ENGINES: [Engine; 4] = [Engine::UpDn, Engine::MinHop, Engine::FatTree, Engine::Weave];

impl Bench {
    fn is_free_of_cycles(&self, tables: &Tables) -> bool {
        let (levels, map) = (ServiceLevels::default(), SlToVl::default());
        let subject = Subject::tables(&self.fabric, &self.lids, tables, &levels, &map);
        let verdict = verify(subject, &JudgeOptions::default());
        let cycles = [Kind::HostCycle, Kind::AgentCycle, Kind::Loop];
        let is_cycle = |total: &Total| cycles.contains(&total.kind) && total.severity == Severity::Error;
        !verdict.totals.iter().any(is_cycle)
    }
}

/// Complete and damaged fabrics, from any engine's tables to any other's: a transition is refused only if the new
/// tables can deadlock themselves, and inherited only if the old ones can.
#[test]
fn every_way_is_proved() {
    let specs = [
        "ring:switches=6,hosts=1",
        "torus:4x4,hosts=1",
        "karytree:k=3,n=3",
        "random:switches=12,degree=3,hosts=1,seed=3",
        "random:switches=16,degree=4,hosts=1,seed=4",
    ];
    let mut seen = BTreeMap::new();
    for (number, spec) in (0..).zip(specs) {
        for cuts in 0..3 {
            let whole = bench(spec);
            let mut damaged = whole.clone();
            damaged.cut(&mut Seed(1).nth(number * 10 + cuts).rng(), cuts as usize);
            for (from, to) in ENGINES.into_iter().flat_map(|from| ENGINES.map(|to| (from, to))) {
                let Some(old) = whole.by(from, None) else { continue };
                let Some(new) = damaged.by(to, Some(&old)) else {
                    continue;
                };
                let (changes, passage) = damaged.way(&old, new.clone());
                let what = format!("{spec} cuts {cuts} {from:?} {to:?}");
                let said = word(&what, &changes, &passage);
                *seen.entry(said).or_insert(0) += 1;
                match said {
                    "refused" => assert!(!damaged.is_free_of_cycles(&new), "{what}: {passage:#?}"),
                    "inherited" => assert!(!damaged.is_free_of_cycles(&old), "{what}: {passage:#?}"),
                    _ => {}
                }
            }
        }
    }
    println!("{seen:?}");
    assert!(
        seen["proved"] > 80 && seen["inherited"] > 5 && seen["refused"] > 5,
        "{seen:?}"
    );
}

/// Recent tables of another engine count: overwriting dropped entries needs the rest of the wait.
#[test]
fn packets_of_a_moment_ago_count() {
    let bench = bench("ring:switches=6,hosts=1");
    let [old, new] = [Engine::UpDn, Engine::Weave].map(|engine| bench.by(engine, None).unwrap());
    let dropped = Tables::new(old.switches(), old.top());
    let blocks = |tables: &Tables| {
        let switches = tables.switch_indices();
        switches.map(|s| (s, 0, *tables.block(s, 0))).collect::<Vec<_>>()
    };
    let check = |age_ns: u64, want: &str| {
        let mut installed = bench.installed(&dropped);
        installed.under_way = Some(Arc::new(UnderWay {
            before: blocks(&old),
            phases: vec![blocks(&dropped)],
            age_ns,
            ..UnderWay::default()
        }));
        let plan = bench.plan(new.clone());
        let judge = |changes: &ChangeSet| {
            passage(
                &bench.fabric,
                &installed,
                &plan,
                changes,
                None,
                &JudgeOptions::default(),
            )
        };
        let mut changes = way::propose(&bench.fabric, &installed, &plan, &WayOptions::default());
        let said = judge(&changes);
        assert!(matches!(said, Passage::Proved(_)), "{said:#?}");
        let waits: Vec<u64> = changes
            .phases
            .iter()
            .map(|phase| phase.wait_before_ns / 1_000_000_000)
            .collect();
        assert_eq!(format!("{waits:?}"), want, "{age_ns}");
        if waits != [0] {
            // Without it the judge refuses.
            changes.phases.iter_mut().for_each(|phase| phase.wait_before_ns = 0);
            let said = judge(&changes);
            assert!(matches!(said, Passage::Refused(_)), "{said:#?}");
        }
    };
    // Some may be written at once.
    check(0, "[0, 1]");
    check(1_000_000_000, "[0, 1]");
}

/// No entry changes, and a host joins. If packets of recent entries could form a cycle with packets from or to the
/// host, it joins after a wait.
#[test]
fn who_comes_does_not_meet_packets_of_a_moment_ago() {
    let bench = bench("ring:switches=6,hosts=1");
    let [old, new] = [Engine::UpDn, Engine::Weave].map(|engine| bench.by(engine, None).unwrap());
    let before: Vec<_> = old.switch_indices().map(|s| (s, 0, *old.block(s, 0))).collect();
    let check = |before: &[_], age_ns: u64, want: &[u64], is_let_in: bool| {
        let mut bench = bench.clone();
        let host = bench
            .fabric
            .end_ports()
            .map(|(at, _)| at)
            .find(|&at| !bench.is_between(at));
        let host = host.unwrap();
        let far = bench.fabric.peer(host).unwrap();
        let mut plan = bench.plan(new.clone());
        for at in [host, far] {
            plan.ports.insert(at, bench.fabric.port(at).unwrap().settings);
            set(&mut bench.fabric, at, PortState::Init);
        }
        let mut installed = bench.installed(&new);
        installed.under_way = Some(Arc::new(UnderWay {
            before: before.to_vec(),
            phases: Vec::new(),
            age_ns,
            ..UnderWay::default()
        }));
        let mut changes = way::propose(&bench.fabric, &installed, &plan, &WayOptions::default());
        let is_table = |op: &Op| matches!(op, Op::Lft { .. });
        assert!(!changes.phases.iter().flat_map(|phase| &phase.ops).any(is_table));
        let judge = |changes: &ChangeSet| {
            let options = JudgeOptions::default();
            passage(&bench.fabric, &installed, &plan, changes, None, &options)
        };
        let said = judge(&changes);
        assert!(matches!(said, Passage::Still), "{said:#?}");
        let waits = |changes: &ChangeSet| -> Vec<u64> {
            let waits = changes
                .phases
                .iter()
                .map(|phase| phase.wait_before_ns.div_ceil(1_000_000));
            waits.filter(|wait| *wait > 0).collect()
        };
        assert_eq!(waits(&changes), want, "{age_ns}");
        // A shorter wait does not count.
        changes.phases.iter_mut().for_each(|phase| phase.wait_before_ns /= 2);
        let said = judge(&changes);
        assert_eq!(matches!(said, Passage::Still), is_let_in, "{said:#?}");
    };
    check(&before, 0, &[2_148], false);
    check(&before, 1_000_000_000, &[1_148], false);
    check(&before, 3_000_000_000, &[], true);
    // Not every earlier entry closes a cycle.
    check(&before[1..2], 0, &[], true);
}

/// Hosts that are proved to use the same turns as others make a transition no less safe.
#[test]
fn who_goes_as_others_closes_no_circle() {
    // By fabric: the number of hosts with that proof, and the number of all hosts.
    let check = |spec: &str, [old, new]: [Engine; 2], want: (usize, usize)| {
        let whole = bench(spec);
        let [old, new] = [old, new].map(|engine| whole.by(engine, None).unwrap());
        let ends = whole.fabric.end_ports().map(|(at, _)| at);
        let hosts: Vec<PortRef> = ends.filter(|at| whole.fabric.switch_index(at.node).is_none()).collect();
        let said = hosts.iter().filter(|&&host| {
            let mut bench = whole.clone();
            let mut plan = bench.plan(new.clone());
            for at in [host, bench.fabric.peer(host).unwrap()] {
                plan.ports.insert(at, bench.fabric.port(at).unwrap().settings);
                set(&mut bench.fabric, at, PortState::Init);
            }
            // Packets to it follow only the current entries.
            let (mut before, lid) = (old.clone(), bench.lids.base(host).unwrap());
            let switches = before.switch_indices();
            switches.for_each(|switch| before.set(switch, lid, new.get(switch, lid)));
            let blocks = before.switch_indices().flat_map(|switch| {
                let all = (0..before.blocks()).map(move |block| (switch, block));
                all.collect::<Vec<_>>()
            });
            let mut installed = bench.installed(&new);
            installed.under_way = Some(Arc::new(UnderWay {
                before: blocks
                    .map(|(switch, block)| (switch, block as u16, *before.block(switch, block)))
                    .collect(),
                ..UnderWay::default()
            }));
            let changes = changes(&bench.fabric, &installed, &plan);
            let past = Past::new(&installed, &new).unwrap();
            let is_said = !newcomers_may_meet(Subject::plan(&bench.fabric, &plan), &past, &changes);
            let levels = (&plan.service_levels, &plan.sl_to_vl);
            let first = Subject::tables(&bench.fabric, &plan.lids, &past.tables, levels.0, levels.1);
            let steps = past.steps.clone();
            let proposal = Proposal {
                steps,
                ..Proposal::default()
            };
            let word = |links| {
                let options = PhaseOptions {
                    links,
                    ..PhaseOptions::default()
                };
                phases::word(first, None, (&proposal, 0), &options)
            };
            assert!(
                !is_said || word(Links::Trained) == word(Links::Active),
                "{spec} {host:?}"
            );
            is_said
        });
        assert_eq!((said.count(), hosts.len()), want, "{spec}");
    };
    check("karytree:k=4,n=2", [Engine::UpDn, Engine::FatTree], (12, 16));
    check("karytree:k=3,n=3", [Engine::UpDn, Engine::FatTree], (24, 27));
    check("torus:3x3,hosts=2", [Engine::UpDn, Engine::Weave], (10, 18));
    check("torus:3x3,hosts=2", [Engine::MinHop, Engine::UpDn], (6, 18));
    check(
        "random:switches=12,degree=3,hosts=2,seed=3",
        [Engine::Weave, Engine::UpDn],
        (22, 24),
    );
}

/// Returns this fabric with SLtoVLMappingTables at all ports.
fn with_lane_tables(fabric: &Fabric) -> Fabric {
    let mut builder = FabricBuilder::new();
    let nodes = fabric.nodes().iter();
    let keys: Vec<_> = nodes.map(|node| builder.add(node.clone())).collect();
    for (node, &key) in fabric.nodes().indices().zip(&keys) {
        for (num, _) in fabric.node(node).all_ports() {
            builder.node_mut(key).port_mut(num).unwrap().capability.mask |= 1 << 6;
        }
    }
    let key = |end: PortRef| (keys[end.node.0 as usize], end.port);
    for link in fabric.links() {
        builder.link(key(link.a), key(link.b)).unwrap();
    }
    builder.finish().unwrap()
}

/// If the tables in force loop, ports get their LIDs, and links their lanes, after the transition out of the loop. Rows
/// that use these lanes come later still, and before anything is activated.
#[test]
fn rows_come_after_the_lanes_of_their_links_on_the_way_out_too() {
    let mut bench = bench("ring:switches=4,hosts=1");
    bench.fabric = with_lane_tables(&bench.fabric);
    let good = bench.by(Engine::UpDn, None).unwrap();
    let host = bench
        .fabric
        .end_ports()
        .map(|(at, _)| at)
        .find(|&at| !bench.is_between(at))
        .unwrap();
    let lid = bench.lids.base(host).unwrap();
    let far = bench.fabric.peer(host).unwrap();
    // Two neighbouring switches other than the host's send its packets to each other.
    let others = |at: PortRef| bench.is_between(at) && at.node != far.node;
    let cable = bench
        .fabric
        .links()
        .find(|link| others(link.a) && others(link.b))
        .unwrap();
    let mut circle = good.clone();
    for at in [cable.a, cable.b] {
        circle.set(bench.fabric.switch_index(at.node).unwrap(), lid, at.port.get());
    }
    let mut plan = bench.plan(good);
    plan.lane_tables = Some(LaneTables {
        lanes: 2,
        copies: None,
        levels: ServiceLevels::default(),
        qos: None,
    });
    // The host comes anew, with one lane and without a LID.
    for (at, lids) in [(host, LidRange::single(lid)), (far, LidRange::default())] {
        let seen = bench.fabric.port(at).unwrap();
        let with = |oper_vls, lids| PortSettings {
            oper_vls,
            lids,
            ..seen.settings
        };
        let (link, held) = (seen.link, with(1, LidRange::default()));
        plan.ports.insert(at, with(2, lids));
        let state = PortState::Init;
        bench.fabric.set_port(at, LinkState { state, ..link }, held);
    }
    let installed = bench.installed(&circle);
    let changes = way::propose(&bench.fabric, &installed, &plan, &WayOptions::default());
    let place = |is_it: &dyn Fn(&Op) -> bool| {
        let holds = |phase: &selvedge_plan::Phase| phase.ops.iter().any(is_it);
        let first = changes.phases.iter().position(holds);
        (first, changes.phases.iter().rposition(holds))
    };
    let (_, table) = place(&|op| matches!(op, Op::Lft { .. }));
    let (lids, _) = place(&|op| matches!(op, Op::Port { port, .. } if *port == host));
    let (first, last) = place(&|op| matches!(op, Op::SlToVl { .. }));
    let (active, _) = place(&|op| {
        matches!(
            op,
            Op::Port {
                state: Some(PortState::Active),
                ..
            }
        )
    });
    let order = [table, lids, first];
    assert!(
        order.iter().all(Option::is_some) && order.is_sorted_by(|a, b| a < b),
        "{changes:#?}"
    );
    assert!(last < active, "{changes:#?}");
}
