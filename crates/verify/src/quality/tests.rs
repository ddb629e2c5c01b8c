//! Broken tables, one for each rule, and 1,000 seeded corruptions.

use std::sync::Arc;

use selvedge_plan::qos::{Compiled, Hardware, PathRules};
use selvedge_plan::{ArbBlock, LaneTables, ServiceLevels};
use selvedge_sim::{Rng, Seed};

use super::*;
use crate::support;

fn sl(number: u8) -> Sl {
    Sl::new(number).unwrap()
}

fn vl(number: u8) -> Vl {
    Vl::new(number).unwrap()
}

fn block(entries: &[(u8, u8)]) -> Option<ArbBlock> {
    let mut block = ArbBlock::default();
    for (turn, &(lane, weight)) in block.turns.iter_mut().zip(entries) {
        *turn = (vl(lane), weight);
    }
    Some(block)
}

fn promise(class: &str, level: u8, share: Option<u8>, latency: Latency, mtu: Mtu) -> Promise {
    Promise {
        class: class.to_owned(),
        levels: vec![sl(level)],
        share,
        latency,
        mtu,
        is_bounded: true,
        except: BTreeSet::new(),
    }
}

/// Returns two switches with a host each and eight lanes, and a plan with three classes: `bulk` with 70 % on SL 0,
/// `store` with 30 % on SL 1, `fast` with low latency and 10 % of the link on SL 2.
fn start() -> (Fabric, Plan) {
    let mut net = support::Net::new(2, 4);
    net.link(0, 1).host(0).host(1);
    let keys: Vec<_> = net.builder().nodes().map(|(key, _)| key).collect();
    for key in keys {
        let node = net.builder().node_mut(key);
        let ports: Vec<PortNum> = node.all_ports().map(|(port, _)| port).collect();
        for port in ports {
            node.port_mut(port).unwrap().capability.mask = 1 << 6;
        }
    }
    let fabric = net.finish(PortState::Active);
    let lids = support::lids(&fabric, 0);
    let tables = support::minhop(&fabric, &lids);
    let mut plan = support::plan(&fabric, lids, tables);
    let lanes = PortLanes {
        row: Some(std::array::from_fn(|level| vl(if level < 3 { level as u8 } else { 0 }))),
        rows: BTreeMap::new(),
        blocks: [block(&[(0, 224), (1, 96)]), None, block(&[(2, 1)]), None],
        high_limit: 0,
    };
    let ports = plan.ports.keys().filter(|at| at.port != PortNum::MANAGEMENT);
    let qos = PlannedQos {
        ports: ports.map(|at| (*at, lanes.clone())).collect(),
        rules: PathRules::Classes(Arc::new(Compiled {
            hardware: Hardware {
                lanes: 8,
                vl_arb_high: 8,
                vl_arb_low: 8,
                mtu: Mtu::B2048,
            },
            layers: 1,
            classes: Vec::new(),
            default: 0,
            groups: BTreeMap::new(),
        })),
        promises: vec![
            promise("bulk", 0, Some(70), Latency::Normal, Mtu::B2048),
            promise("store", 1, Some(30), Latency::Normal, Mtu::B2048),
            promise("fast", 2, Some(10), Latency::Low, Mtu::B256),
        ],
    };
    plan.lane_tables = Some(LaneTables {
        lanes: 1,
        copies: None,
        levels: ServiceLevels::default(),
        qos: Some(Arc::new(qos)),
    });
    (fabric, plan)
}

fn qos_of(plan: &mut Plan) -> &mut PlannedQos {
    Arc::make_mut(plan.lane_tables.as_mut().unwrap().qos.as_mut().unwrap())
}

/// Returns the tables of the first host's port.
fn first(plan: &mut Plan) -> &mut PortLanes {
    qos_of(plan).ports.values_mut().next().unwrap()
}

/// Breaks the tables of a plan and compares the texts of the findings, and whether they are errors.
fn check(edit: impl FnOnce(&mut Plan), want: &[(Severity, &str)]) {
    let (fabric, mut plan) = start();
    edit(&mut plan);
    let found = findings(&fabric, &plan);
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), want.len(), "{texts:?}");
    for ((finding, text), (severity, part)) in found.iter().zip(&texts).zip(want) {
        assert_eq!(
            (finding.severity, finding.code),
            (*severity, "SLV-JUDGE-0049"),
            "{text}"
        );
        assert!(text.contains(part), "{text}");
    }
}

const ERROR: Severity = Severity::Error;
const WARNING: Severity = Severity::Warning;

#[test]
fn tables_that_keep_all_promises_have_no_finding() {
    check(|_| {}, &[]);
    check(|plan| plan.lane_tables = None, &[]);
}

#[test]
fn a_port_without_tables_and_a_limit_that_is_not_the_tables() {
    check(
        |plan| drop(qos_of(plan).ports.pop_first()),
        &[(ERROR, "the plan's quality of service has no tables for it")],
    );
    check(
        |plan| first(plan).row = None,
        &[(ERROR, "has no tables for it"), (ERROR, "shares a lane with SL")],
    );
    check(
        |plan| plan.ports.values_mut().last().unwrap().vl_high_limit = 9,
        &[(ERROR, "VLHighLimit is planned as 9, its arbitration tables need 0")],
    );
}

#[test]
fn a_level_with_a_promise_has_a_lane_that_is_served() {
    let row = |level: usize, lane: u8| move |plan: &mut Plan| first(plan).row.as_mut().unwrap()[level] = vl(lane);
    check(
        row(1, 15),
        &[(ERROR, "SL 1 is mapped to VL 15, and paths have this SL")],
    );
    check(
        row(1, 8),
        &[(ERROR, "SL 1 is put on VL 8, which its link does not have")],
    );
    check(
        row(1, 3),
        &[(ERROR, "SL 1 is put on VL 3, which its arbiter never serves")],
    );
    // Levels without a promise: dropping them is the operator's wish, an unserved lane is only worth a warning.
    check(row(9, 15), &[]);
    check(
        row(9, 3),
        &[(WARNING, "SL 9 is put on VL 3, which its arbiter never serves")],
    );
    check(
        row(9, 8),
        &[(ERROR, "SL 9 is put on VL 8, which its link does not have")],
    );
    // A row for one ingress port counts like the others.
    let one = |plan: &mut Plan| {
        let lanes = first(plan);
        let mut row = lanes.row.unwrap();
        row[2] = vl(15);
        lanes.rows.insert(PortNum::MANAGEMENT, row);
    };
    check(one, &[(ERROR, "SL 2 is mapped to VL 15")]);
}

#[test]
fn a_lane_behind_unbounded_high_priority_starves() {
    let unbounded = |plan: &mut Plan| {
        let at = *qos_of(plan).ports.keys().next().unwrap();
        first(plan).high_limit = 255;
        plan.ports.get_mut(&at).unwrap().vl_high_limit = 255;
    };
    let text = "with VLHighLimit 255, SL 0 on VL 0 is sent only while VL 2 of high priority has no packet";
    check(unbounded, &[(ERROR, text)]);
    // As OpenSM's settings may want it: a warning.
    let wanted = |plan: &mut Plan| {
        unbounded(plan);
        qos_of(plan)
            .promises
            .iter_mut()
            .for_each(|promise| promise.is_bounded = false);
    };
    check(wanted, &[(WARNING, text)]);
    // High priority that no packet uses starves nothing.
    let unused = |plan: &mut Plan| {
        unbounded(plan);
        let lanes = first(plan);
        lanes.blocks[2] = block(&[(3, 1)]);
        lanes.row.as_mut().unwrap()[2] = vl(0);
        qos_of(plan).promises.pop();
    };
    check(unused, &[]);
}

#[test]
fn classes_have_lanes_priority_and_share() {
    let weights = |low: &'static [(u8, u8)], high: &'static [(u8, u8)]| {
        move |plan: &mut Plan| {
            let lanes = first(plan);
            (lanes.blocks[0], lanes.blocks[2]) = (block(low), block(high));
        }
    };
    let share = "class store is promised 30 %, and its weights give it 27 %";
    check(weights(&[(0, 255), (1, 96)], &[(2, 1)]), &[(ERROR, share)]);
    check(
        weights(&[(0, 192), (1, 96)], &[(2, 1)]),
        &[(ERROR, "class bulk is promised 70 %, and its weights give it 66 %")],
    );
    // The same share in more entries.
    check(weights(&[(0, 128), (1, 96), (0, 96)], &[(2, 1)]), &[]);
    check(
        weights(&[(0, 224), (1, 96), (2, 32)], &[]),
        &[(
            ERROR,
            "class fast is to have low latency, and has a lane without entry of high priority",
        )],
    );
    let small = |plan: &mut Plan| qos_of(plan).promises[2].share = Some(11);
    check(
        small,
        &[(ERROR, "class fast is promised 11 %, and its weights give it 10 %"); 6],
    );
    let together = |plan: &mut Plan| first(plan).row.as_mut().unwrap()[1] = vl(0);
    check(
        together,
        &[(ERROR, "class bulk shares a lane with SL 1 of another class")],
    );
    // At an excepted port, share and priority do not hold, but lanes and turns do.
    let except = |plan: &mut Plan| {
        let at = *qos_of(plan).ports.keys().next().unwrap();
        for promise in &mut qos_of(plan).promises {
            promise.except.insert(at);
        }
    };
    check(
        |plan| {
            except(plan);
            weights(&[(0, 255), (1, 96)], &[(2, 1)])(plan);
        },
        &[],
    );
    check(
        |plan| {
            except(plan);
            weights(&[(0, 255)], &[(2, 1)])(plan);
        },
        &[(ERROR, "SL 1 is put on VL 1, which its arbiter never serves")],
    );
}

#[test]
fn layers_of_routing_never_share_a_lane() {
    let layered = |plan: &mut Plan| {
        let qos = qos_of(plan);
        qos.promises.truncate(2);
        qos.promises[0].levels = vec![sl(0), sl(1)];
        qos.promises[1].levels = vec![sl(2), sl(3)];
        for lanes in qos.ports.values_mut() {
            lanes.row = Some(std::array::from_fn(|level| vl(level as u8 % 4)));
            lanes.blocks[0] = block(&[(0, 224), (1, 224), (2, 96), (3, 96)]);
            lanes.blocks[2] = None;
        }
    };
    check(layered, &[]);
    let mixed = |plan: &mut Plan| {
        layered(plan);
        let at = *qos_of(plan).ports.keys().next().unwrap();
        first(plan).row.as_mut().unwrap().swap(1, 2);
        // Even where shares do not hold.
        for promise in &mut qos_of(plan).promises {
            promise.except.insert(at);
        }
    };
    check(mixed, &[]);
    let mixed = |plan: &mut Plan| {
        mixed(plan);
        first(plan).row.as_mut().unwrap()[3] = vl(0);
    };
    check(
        mixed,
        &[(ERROR, "SL 0 and SL 3 of another layer of routing share VL 0")],
    );
}

/// While rows change, old rows must not put a layer on a lane that the new rows give to another layer.
#[test]
fn former_rows_keep_the_layers_apart_too() {
    let (fabric, mut plan) = start();
    let qos = qos_of(&mut plan);
    qos.promises.truncate(1);
    qos.promises[0].levels = vec![sl(0), sl(1)];
    plan.lanes = 2;
    let at = *qos_of(&mut plan).ports.keys().next().unwrap();
    let former_with = |lanes: [u8; 2]| {
        let mut held = HeldLanes::default();
        let row = std::array::from_fn(|level| vl(lanes[level % 2]));
        let node = fabric.node(at.node);
        held.learn_rows(
            node.guid,
            at.port,
            selvedge_plan::LaneRows::FromAll,
            node.port_count(),
            row,
        );
        former(&fabric, &plan, &held).len()
    };
    assert_eq!(former_with([0, 1]), 0);
    assert_eq!(former_with([2, 3]), 0);
    assert_eq!(former_with([2, 0]), 1);
    assert_eq!(former_with([1, 0]), 1);
    assert_eq!(former(&fabric, &plan, &HeldLanes::default()), []);
    plan.lanes = 1;
    assert_eq!(former(&fabric, &plan, &HeldLanes::default()), []);
}

/// Corrupts a row. Returns parts of the texts of findings that it may cause; none: it breaks no rule.
fn corrupt_row(lanes: &mut PortLanes, kind: u64, rng: &mut Rng) -> &'static [&'static str] {
    let level = rng.below(3) as usize;
    let row = lanes.row.as_mut().unwrap();
    match kind {
        0 => {
            row[level] = Vl::MANAGEMENT;
            &["mapped to VL 15"]
        }
        1 => {
            row[level] = vl(8 + rng.below(7) as u8);
            &["link does not have"]
        }
        2 => {
            let other = (level + 1 + rng.below(3) as usize) % 4;
            row[level] = vl(other as u8);
            &["never serves", "shares a lane", "without entry of high"]
        }
        _ => {
            // A level without a promise.
            let lane = [0, 1, 2, 15][rng.below(4) as usize];
            row[3 + rng.below(13) as usize] = vl(lane);
            &[]
        }
    }
}

/// Corrupts an arbitration table, as [`corrupt_row`] a row.
fn corrupt_weights(lanes: &mut PortLanes, kind: u64, rng: &mut Rng) -> &'static [&'static str] {
    let low = lanes.blocks[0].as_mut().unwrap();
    match kind {
        4 => {
            // A packet more, or some less, for one of the two normal classes.
            let turn = &mut low.turns[rng.below(2) as usize];
            let packets = 1 + rng.below(3) as u8;
            turn.1 = match rng.below(2) {
                0 => turn.1.saturating_sub(32 * packets),
                _ => turn.1.saturating_add(31),
            };
            &["is promised", "never serves"]
        }
        5 => {
            low.turns[2] = (vl(rng.below(4) as u8), 33 + rng.below(222) as u8);
            &["is promised"]
        }
        _ => {
            lanes.blocks[2] = block(&[(2, 1), (rng.below(2) as u8, 1 + rng.below(255) as u8)]);
            &["class fast is promised 10 %"]
        }
    }
}

/// Corrupts one value in the tables of one port. Returns the kind of corruption, and what [`corrupt_row`] returns.
fn corrupt(plan: &mut Plan, rng: &mut Rng) -> (u64, &'static [&'static str]) {
    let ports: Vec<PortRef> = qos_of(plan).ports.keys().copied().collect();
    let at = ports[rng.below(ports.len() as u64) as usize];
    let lanes = qos_of(plan).ports.get_mut(&at).unwrap();
    let kind = rng.below(9);
    let faults: &[&str] = match kind {
        0..=3 => corrupt_row(lanes, kind, rng),
        4..=6 => corrupt_weights(lanes, kind, rng),
        7 => {
            lanes.high_limit = 255;
            plan.ports.get_mut(&at).unwrap().vl_high_limit = 255;
            &["VLHighLimit 255"]
        }
        _ => {
            plan.ports.get_mut(&at).unwrap().vl_high_limit = 1 + rng.below(255) as u8;
            &["VLHighLimit is planned as"]
        }
    };
    (kind, faults)
}

/// A thousand corruptions by seed: each that breaks a rule is found, with a fault of that rule, and nothing is found
/// where no rule is broken.
#[test]
fn a_thousand_seeded_corruptions_are_caught() {
    let mut caught = BTreeMap::new();
    for seed in 0..1_000 {
        let (fabric, mut plan) = start();
        let (kind, faults) = corrupt(&mut plan, &mut Seed(seed).rng());
        let texts: Vec<String> = findings(&fabric, &plan).iter().map(ToString::to_string).collect();
        let is_expected = |text: &String| faults.iter().any(|fault| text.contains(fault));
        assert!(texts.iter().all(is_expected), "seed {seed}, kind {kind}: {texts:?}");
        assert_eq!(
            texts.is_empty(),
            faults.is_empty(),
            "seed {seed}, kind {kind}: {texts:?}"
        );
        *caught.entry(kind).or_insert(0) += 1;
    }
    assert!(
        caught.len() == 9 && caught.values().all(|count| *count > 60),
        "{caught:?}"
    );
}
