//! What `weave` does with tables in force when the fabric changes.

use crate::common;
use std::sync::Arc;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{Lids, SlToVl, Tables};
use selvedge_routing::{Engine, Note, Options, Routed, WeaveOptions, carry_over, lanes_in_force};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::Lid;
use selvedge_verify::{JudgeOptions, Subject, verify};

fn generated(spec: &str) -> Fabric {
    let Ok(Spec::Generated(recipe)) = spec.parse() else {
        panic!("{spec}: no generator")
    };
    recipe.fabric().unwrap()
}

fn route(fabric: &Fabric, lids: &Lids, lanes: u8) -> Routed {
    let options = Options {
        lanes: Some(lanes),
        ..Options::default()
    };
    Engine::Weave
        .route(fabric, lids, &options, Seed(0), Par::Sequential)
        .unwrap()
}

/// Routes a fabric that was `old` before, with the routing in force then.
fn repair(old: &Fabric, before: &Routed, fabric: &Fabric, lids: &Lids) -> Routed {
    let options = Options {
        lanes: Some(before.lanes),
        previous: Some(Arc::new(carry_over(old, &before.tables, fabric))),
        weave: WeaveOptions {
            previous_levels: Some(Arc::new(before.service_levels.clone())),
            ..WeaveOptions::default()
        },
        ..Options::default()
    };
    Engine::Weave
        .route(fabric, lids, &options, Seed(0), Par::Sequential)
        .unwrap()
}

/// The extent of the repair: LIDs extended, LIDs routed again, lanes, entries; `None` if everything was routed again.
fn repaired(routed: &Routed) -> Option<[usize; 4]> {
    routed.notes.iter().find_map(|note| match *note {
        Note::Repaired {
            extended,
            rerouted,
            rewoven,
            entries,
        } => Some([extended, rerouted, rewoven, entries]),
        _ => None,
    })
}

fn assert_judged(name: &str, fabric: &Fabric, lids: &Lids, routed: &Routed) {
    let sl_to_vl = SlToVl::modulo(routed.lanes);
    let subject = Subject::tables(fabric, lids, &routed.tables, &routed.service_levels, &sl_to_vl);
    let verdict = verify(subject, &JudgeOptions::default());
    let errors: Vec<String> = verdict.errors().take(3).map(ToString::to_string).collect();
    assert_eq!(errors, Vec::<String>::new(), "{name}");
    let lost = &verdict.figures.pairs;
    assert_eq!((lost.black_hole, lost.looped, lost.lane_drop), (0, 0, 0), "{name}");
}

/// True if the column of a LID leads from every switch over links that are up.
fn is_unaffected(fabric: &Fabric, lids: &Lids, tables: &Tables, lid: Lid) -> bool {
    let is_up = |s: SwitchIdx| {
        let egress = tables.get(s, lid);
        let out = selvedge_fabric::PortRef {
            node: fabric.switches()[s],
            port: common::port(egress.min(254)),
        };
        egress == 0 || egress != 255 && fabric.link_is_up(out)
    };
    lids.owner(lid).is_some() && tables.switch_indices().all(is_up)
}

/// Loses some links; returns whether no lane had to be routed again.
fn check(name: &str, whole: &Fabric, lmc: u8, lanes: u8, lost: impl Fn(usize) -> bool) -> Option<bool> {
    let lids = common::number(whole, lmc);
    let before = route(whole, &lids, lanes);
    let fabric = common::without(whole, lost);
    let after = repair(whole, &before, &fabric, &lids);
    assert_judged(name, &fabric, &lids, &after);
    let all = || (1..=lids.top().0).map(Lid);
    let unaffected: Vec<Lid> = all()
        .filter(|&lid| is_unaffected(&fabric, &lids, &before.tables, lid))
        .collect();
    if unaffected.len() == all().filter(|&lid| lids.owner(lid).is_some()).count() {
        return None;
    }
    for (at, range) in lids.iter() {
        // Also where everything had to be routed again.
        let (lid, before) = (range.base, before.service_levels.to(range.base));
        assert_eq!(after.service_levels.to(lid), before, "{name}: SL of {lid} of {at:?}");
    }
    let is_local = repaired(&after).unwrap()[2] == 0;
    for &lid in unaffected.iter().filter(|_| is_local) {
        for s in before.tables.switch_indices() {
            let (was, is) = (before.tables.get(s, lid), after.tables.get(s, lid));
            assert_eq!(was, is, "{name}: LID {lid} had lost nothing, {s:?}");
        }
    }
    Some(is_local)
}

#[test]
fn many_lost_links_move_only_what_they_must() {
    let mut local = Vec::new();
    for seed in 0..100_u64 {
        let lanes = [1, 2, 4, 8, 15][usize::try_from(seed).unwrap() % 5];
        let lmc = u8::try_from(seed % 3).unwrap();
        let fabric = common::random(Seed(seed));
        for lost in 0..3 {
            let pick = |link: usize| (link as u64 * 31 + seed).is_multiple_of(7 + lost);
            local.extend(check(&format!("seed {seed}, lost {lost}"), &fabric, lmc, lanes, pick));
        }
    }
    assert_mostly(&local, 85);
}

#[test]
fn a_lost_link_moves_only_what_it_must() {
    let mut local = Vec::new();
    for seed in 21..=26 {
        let spec = format!("random:switches=48,degree=4,hosts=2,seed={seed}");
        let fabric = generated(&spec);
        for lanes in [1, 2, 4] {
            for lost in [5, 40, 77] {
                local.extend(check(&spec, &fabric, 0, lanes, |link| link == lost));
            }
        }
    }
    assert_mostly(&local, 95);
}

fn assert_mostly(local: &[bool], percent: usize) {
    let yes = local.iter().filter(|&&local| local).count();
    let all = local.len();
    assert!(yes * 100 >= all * percent, "{yes} of {all} needed no lane anew");
}

#[test]
fn nothing_changes_where_nothing_was_lost() {
    for spec in ["random:switches=24,degree=4,hosts=2", "torus:4x4", "karytree:k=3,n=3"] {
        let fabric = generated(spec);
        let lids = common::number(&fabric, 1);
        let before = route(&fabric, &lids, 4);
        let after = repair(&fabric, &before, &fabric, &lids);
        assert_eq!(repaired(&after), Some([0; 4]), "{spec}");
        assert!(
            after.tables == before.tables && after.service_levels == before.service_levels,
            "{spec}"
        );
    }
}

#[test]
fn a_new_switch_and_its_hosts_are_woven_in() {
    let build = |more: bool| {
        let mut net = common::Net::default();
        let ring: Vec<_> = (0..6).map(|i| net.switch(10 + i, 8)).collect();
        for (i, &s) in ring.iter().enumerate() {
            net.link(s, ring[(i + 1) % 6]);
            net.host(s);
        }
        net.link(ring[0], ring[3]);
        if more {
            let s = net.switch(99, 8);
            net.link(s, ring[1]);
            net.link(s, ring[4]);
            net.host(s);
        }
        net.finish()
    };
    let (old, new) = (build(false), build(true));
    for lanes in [1, 2] {
        let before = route(&old, &common::number(&old, 0), lanes);
        // The new ones have LIDs after all others.
        let mut lids = Lids::new();
        let mut next = old.end_ports().count() as u16;
        for (at, _) in new.end_ports() {
            let port = new.port(at).unwrap().guid;
            let known = old.find_port(port).and_then(|at| common::number(&old, 0).range(at));
            let range = known.unwrap_or_else(|| {
                next += 1;
                selvedge_types::LidRange {
                    base: Lid(next),
                    lmc: selvedge_types::Lmc::ZERO,
                }
            });
            lids.insert(at, range).unwrap();
        }
        let after = repair(&old, &before, &new, &lids);
        assert_judged("new switch", &new, &lids, &after);
        assert!(repaired(&after).is_some(), "{:?}", after.notes);
        let carried = carry_over(&old, &before.tables, &new);
        for lid in (1..=before.tables.top().0).map(Lid) {
            let s = |s: &SwitchIdx| new.switch(*s).guid.0 != 99;
            for s in carried.switch_indices().filter(s) {
                assert_eq!(carried.get(s, lid), after.tables.get(s, lid), "LID {lid}, {s:?}");
            }
        }
    }
}

#[test]
fn tables_that_deadlock_are_routed_again_on_the_same_lanes() {
    let fabric = common::ring(6);
    let lids = common::number(&fabric, 0);
    let minhop = Engine::MinHop
        .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
        .unwrap();
    let after = repair(&fabric, &minhop, &fabric, &lids);
    assert!(after.notes.contains(&Note::NotRepaired));
    assert_judged("ring", &fabric, &lids, &after);
}

#[test]
fn lanes_in_force_are_those_of_the_switches() {
    let fabric = generated("random:switches=16,degree=3,hosts=1");
    let lids = common::number(&fabric, 0);
    let routed = route(&fabric, &lids, 4);
    let lanes = lanes_in_force(&fabric, &lids, &routed.service_levels);
    assert_eq!(lanes.len(), 16);
    for (at, range) in lids.iter() {
        let home = common::switch_of(&fabric, at).unwrap();
        assert_eq!(
            lanes[&fabric.switch(home).guid],
            routed.service_levels.to(range.base).get()
        );
    }
}
