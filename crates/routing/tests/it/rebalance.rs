//! Steps back to balance: after each step all routes arrive, the budget of blocks is kept, the goal is nearer, and no
//! link is fuller than the busiest one was.

use crate::common::tree::{make, with_previous};
use selvedge_fabric::{Fabric, LinkState, PortRef};
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, Options, difference, goal_for, step_towards};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Lid, LidRange, PortState};
use selvedge_verify::{Figures, JudgeOptions, Subject, verify};

fn lids(fabric: &Fabric) -> Lids {
    let mut lids = Lids::new();
    for ((at, _), lid) in fabric.end_ports().zip(1..) {
        lids.insert(at, LidRange::single(Lid(lid))).unwrap();
    }
    lids
}

fn without(fabric: &Fabric, cut: &[PortRef]) -> Fabric {
    let mut damaged = fabric.clone();
    for &at in cut {
        for end in [Some(at), fabric.peer(at)].into_iter().flatten() {
            let settings = fabric.port(end).unwrap().settings;
            let state = PortState::Down;
            damaged.set_port(
                end,
                LinkState {
                    state,
                    ..LinkState::default()
                },
                settings,
            );
        }
    }
    damaged
}

fn judged(what: &str, fabric: &Fabric, lids: &Lids, tables: &Tables) -> Figures {
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    let verdict = verify(
        Subject::tables(fabric, lids, tables, &levels, &lanes),
        &JudgeOptions::default(),
    );
    assert!(verdict.is_ok(), "{what}: {:?}", verdict.errors().next());
    verdict.figures
}

fn links_between_switches(fabric: &Fabric) -> Vec<PortRef> {
    let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
    let links = fabric.links().filter(|l| is_switch(l.a) && is_switch(l.b));
    links.map(|l| l.a).collect()
}

/// Loses links, repairs, gets the links back, and continues in steps to the tables that the engine makes from scratch.
fn check(spec: &str, engine: &str, cut: &[usize], budget: usize) -> usize {
    let fabric = make(spec);
    let lids = lids(&fabric);
    let engine: Engine = engine.parse().unwrap();
    let links = links_between_switches(&fabric);
    let cut: Vec<PortRef> = cut.iter().map(|&i| links[i % links.len()]).collect();
    let route = |fabric: &Fabric, options: &Options| {
        let options = Options {
            lanes: Some(1),
            ..options.clone()
        };
        engine
            .route(fabric, &lids, &options, Seed(0), Par::Sequential)
            .unwrap()
            .tables
    };
    let whole = route(&fabric, &Options::default());
    let damaged = without(&fabric, &cut);
    let mut tables = route(&damaged, &with_previous(&whole));
    let goal = goal_for(&fabric, &lids, &tables, &whole);
    assert_eq!(goal, whole, "{spec}: the tables of before are the goal");
    let mut max = judged(spec, &fabric, &lids, &tables).load.max;
    let mut left = difference(&fabric, &lids, &tables, &goal);
    let mut steps = 0;
    while left.entries > 0 {
        let what = format!("{spec}, step {steps}");
        let step = step_towards(&fabric, &lids, (&tables, &goal), budget, Par::Sequential);
        let step = step.unwrap_or_else(|| panic!("{what}: stuck with {left:?}"));
        assert!(step.changed.blocks <= budget, "{what}: {:?}", step.changed);
        assert_eq!(
            step.changed,
            difference(&fabric, &lids, &tables, &step.tables),
            "{what}"
        );
        assert!(step.left.entries < left.entries, "{what}: no nearer");
        for switch in step.tables.switch_indices() {
            for block in 0..goal.blocks() {
                let rows = [&tables, &step.tables, &goal].map(|t| t.block(switch, block));
                let is_either = (0..64).all(|i| rows[1][i] == rows[0][i] || rows[1][i] == rows[2][i]);
                assert!(is_either, "{what}: an entry that is neither old nor the goal's");
            }
        }
        let now = judged(&what, &fabric, &lids, &step.tables).load.max;
        assert!(now <= max, "{what}: the busiest link carries {now}, before {max}");
        (tables, left, max) = (step.tables, step.left, now);
        steps += 1;
    }
    assert_eq!(tables, goal);
    let fresh = judged(spec, &fabric, &lids, &whole).load.max;
    assert_eq!(max, fresh, "{spec}: as good as made afresh");
    steps
}

#[test]
fn steps_lead_back_within_their_budget() {
    // 36 switches: a lost link of a leaf moves up to 18 blocks or so.
    assert!(check("karytree:k=6,n=3", "fat-tree", &[0], 10) > 1);
    assert!(check("karytree:k=6,n=3", "fat-tree", &[3, 77, 140], 10) > 1);
    assert_eq!(check("karytree:k=6,n=3", "fat-tree", &[0], 10_000), 1);
    check("sx6536", "fat-tree", &[0, 60, 111], 4);
}

#[test]
fn a_budget_of_one_block_is_enough_where_links_have_room() {
    assert!(check("karytree:k=4,n=2", "fat-tree", &[1], 1) > 1);
}

#[test]
fn the_same_on_any_number_of_threads() {
    let fabric = make("karytree:k=4,n=3");
    let lids = lids(&fabric);
    let links = links_between_switches(&fabric);
    let damaged = without(&fabric, &links[..2]);
    let route = |fabric: &Fabric, options: &Options| {
        let routed = Engine::FatTree.route(fabric, &lids, options, Seed(0), Par::Sequential);
        routed.unwrap().tables
    };
    let whole = route(&fabric, &Options::default());
    let tables = route(&damaged, &with_previous(&whole));
    let [one, many] = [Par::Sequential, Par::Rayon]
        .map(|par| step_towards(&fabric, &lids, (&tables, &whole), 3, par).unwrap().tables);
    assert_eq!(one, many);
    assert_ne!(one, tables);
}

#[test]
fn ports_without_a_link_keep_their_entries() {
    let fabric = make("karytree:k=4,n=2");
    let lids = lids(&fabric);
    let host = lids
        .iter()
        .find(|(at, _)| fabric.switch_index(at.node).is_none())
        .unwrap();
    let gone = without(&fabric, &[host.0]);
    let route = Engine::FatTree.route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential);
    let tables = route.unwrap().tables;
    let wanted = Tables::new(tables.switches(), tables.top());
    let goal = goal_for(&gone, &lids, &tables, &wanted);
    assert_eq!(goal, tables, "nobody is made worse off");
}
