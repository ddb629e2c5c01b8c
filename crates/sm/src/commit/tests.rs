//! Checks how the plan in force changes with each input.

use selvedge_fabric::PortSettings;

use super::*;
use crate::made::{empty_plan, inventory, outcome, row};

fn of(known: &[u32], entry: u8) -> Installed {
    let mut installed = Installed::unknown(2);
    for &switch in known {
        installed.learn(SwitchIdx(switch), 0, [entry; BLOCK_LIDS]);
    }
    installed
}

fn told(in_force: &mut InForce, input: In<'_>) -> Vec<Effect> {
    let ctx = Ctx {
        mode: Mode::Manage,
        policy: &Arc::default(),
        found: None,
    };
    let mut effects = Vec::new();
    in_force.handle(&ctx, input, &mut effects);
    effects
}

/// One Set was acknowledged, and so many failed.
fn sent(failed: usize, tables_failed: bool) -> Sent {
    Sent {
        acknowledged: 1,
        failed,
        tables_failed,
    }
}

#[test]
fn a_table_that_is_not_as_it_was_written_is_noticed_once() {
    let check = |read: Installed, want: bool| {
        let inventory = Arc::new(inventory(row()));
        let mut in_force = InForce::made(empty_plan(), Some(Arc::clone(&inventory)), of(&[0, 1], 1));
        let mut is_astray = || !told(&mut in_force, In::Read(&inventory.fabric, &read)).is_empty();
        assert_eq!(is_astray(), want);
        // Another sweep may take the place of this one before anything is planned.
        assert!(!is_astray());
    };
    check(of(&[0, 1], 1), false);
    check(of(&[1], 2), true);
    // No answer came for it: its contents count as before.
    check(of(&[0], 1), false);
}

#[test]
fn a_plan_that_was_left_half_way_is_aimed_at_until_one_is_applied_or_dropped() {
    let outcome = outcome();
    let fabric = &outcome.inventory.fabric;
    let applied = In::Applied {
        outcome: &outcome,
        fabric,
        declined: BTreeMap::new(),
        sent: sent(0, false),
    };
    for (end, has_plan) in [(applied, true), (In::Dropped, false)] {
        let mut in_force = InForce::default();
        let plan = &outcome.plan;
        told(&mut in_force, In::Planned { keeps_found: true });
        told(&mut in_force, In::LeftHalfWay { plan, fabric });
        assert!(in_force.plan().is_none() && in_force.aim().unwrap().keeps_found);
        told(&mut in_force, end);
        assert_eq!((in_force.plan().is_some(), in_force.aim().is_some()), (has_plan, false));
    }
}

#[test]
fn switches_hold_a_plan_in_force_unless_their_sets_failed_or_the_next_plan_was_interrupted() {
    let outcome = outcome();
    let (plan, fabric) = (&outcome.plan, &outcome.inventory.fabric);
    let applied = |failed: usize, tables_failed: bool| In::Applied {
        outcome: &outcome,
        fabric,
        declined: BTreeMap::new(),
        sent: sent(failed, tables_failed),
    };
    let mut in_force = InForce::default();
    let mut held_after = |input: In<'_>| {
        told(&mut in_force, input);
        in_force.held()
    };
    assert_eq!(held_after(In::Accepted(&outcome)), Held::No);
    assert_eq!(held_after(applied(0, false)), Held::Whole);
    assert_eq!(held_after(In::LeftHalfWay { plan, fabric }), Held::InPart);
    assert_eq!(held_after(In::Accepted(&outcome)), Held::InPart, "no Set of it is sent");
    assert_eq!(held_after(applied(0, false)), Held::Whole);
    assert_eq!(held_after(applied(1, true)), Held::InPart);
    // A port that refuses its PortInfo keeps no link of other switches in use.
    assert_eq!(held_after(applied(1, false)), Held::Whole);
    assert_eq!(held_after(In::Dropped), Held::No);
}

#[test]
fn the_judge_is_heard_before_a_plan_is_in_force() {
    let outcome = outcome();
    let mut in_force = InForce::default();
    told(&mut in_force, In::Sent(sent(2, true)));
    told(&mut in_force, In::Accepted(&outcome));
    assert!(in_force.verdict().is_some() && in_force.plan().is_none());
    let change = in_force.change();
    assert_eq!((change.acknowledged, change.failed), (0, 0));
    assert_eq!(change.count, outcome.changes.value().count());
}

#[test]
fn a_plan_that_stays_is_in_force_although_another_was_refused() {
    let refused = || NoPlan::Refused {
        why: "credit loop".into(),
        verdict: None,
    };
    let inventory = Arc::new(inventory(row()));
    let mut in_force = InForce::made(empty_plan(), Some(inventory), of(&[0, 1], 1));
    let policy = Arc::default();
    assert!(in_force.as_aim(&policy).is_some());
    told(&mut in_force, In::Stays(refused()));
    assert!(in_force.plan().is_some() && in_force.no_plan().is_some());
    told(&mut in_force, In::Accepted(&outcome()));
    assert!(in_force.no_plan().is_none());
    told(&mut in_force, In::NothingSent(refused()));
    assert!(in_force.plan().is_none() && in_force.as_aim(&policy).is_none());
}

#[test]
fn a_locked_port_is_known_until_it_takes_a_set() {
    let outcome = outcome();
    let applied = |fabric| In::Applied {
        outcome: &outcome,
        fabric,
        declined: BTreeMap::new(),
        sent: sent(0, false),
    };
    let open = &*outcome.inventory.fabric;
    let mut locked = open.clone();
    let host = open
        .end_ports()
        .find(|(_, port)| port.is_up())
        .map(|(at, _)| at)
        .unwrap();
    let (link, settings) = open.port(host).map(|port| (port.link, port.settings)).unwrap();
    let hidden = PortSettings {
        m_key_protect: 1,
        ..settings
    };
    locked.set_port(host, link, hidden);
    let mut in_force = InForce::default();
    told(&mut in_force, In::Locked(report::locked(&locked).map(Into::into)));
    assert_eq!(in_force.locked().map(AsRef::as_ref), Some(&*open.port_name(host)));
    told(&mut in_force, applied(&locked));
    assert!(in_force.locked().is_some(), "its Set failed");
    told(&mut in_force, applied(open));
    assert_eq!(in_force.locked(), None);
}
