//! Checks that routes stay unchanged if each of their entries is as planned.

use selvedge_chassis::Chassis;
use selvedge_types::Lid;

use super::delta::{Changed, Delta};
use super::matters;
use super::picture::Picture;
use crate::Violation;
use crate::checkers::ledger::Ledger;
use crate::checkers::names::node_name;
use crate::checkers::rules::{Checker, Rule};
use crate::checkers::seen::Scene;
use crate::manager::{AcceptedPlan, Manager};

/// Fails if a Set changed a live route although every entry of the route was as its manager's plan has it.
pub(super) fn untouched_stay(
    scene: &Scene<'_>,
    picture: &Picture,
    delta: &Delta,
    (by, excuse): (Option<&Manager>, Option<Rule>),
    found: &mut Ledger,
) -> Result<(), Violation> {
    let Some(accepted) = by.and_then(|manager| manager.life.as_ref()?.plans.accepted()) else {
        return Ok(());
    };
    for changed in &delta.changed {
        let Some(violation) = touched(scene.chassis(), accepted, picture, *changed) else {
            continue;
        };
        let checker = match violation {
            Violation::RouteLost { .. } => Checker::Routes,
            _ => Checker::Untouched,
        };
        found.judge(checker, excuse, || violation)?;
    }
    Ok(())
}

/// Returns the violation, if a changed entry took part in a route that was as planned.
fn touched(chassis: &Chassis, accepted: &AcceptedPlan, picture: &Picture, changed: Changed) -> Option<Violation> {
    let (lid, at) = (changed.lid, changed.at);
    let planned = |at: u8, lid: Lid| {
        let node = accepted.fabric.find(chassis.node_guid(picture.switch(at.into())?))?;
        Some(accepted.plan.tables.get(accepted.fabric.switch_index(node)?, lid))
    };
    if planned(at, lid) != Some(changed.was) {
        return None;
    }
    let ways = picture.ways_before(lid, changed.from);
    let is_planned = |way: &Vec<(u8, u8)>| way.iter().all(|&(at, port)| planned(at, lid) == Some(port));
    let passes = |way: &Vec<(u8, u8)>| way.iter().any(|&(switch, _)| switch == at);
    let counts = |way: &&Vec<(u8, u8)>| passes(way) && is_planned(way) && matters(picture, chassis, lid, 1 << way[0].0);
    let first = ways.iter().find(counts)?[0].0;
    let place = |at: u8| {
        let node = picture.switch(at.into());
        node.map_or_else(String::new, |node| node_name(chassis, node))
    };
    let (was, now) = (changed.was, picture.entry(at, lid));
    let (from, at) = (place(first), format!("{} (entry {was} to {now})", place(at)));
    Some(match picture.delivered(lid) & 1 << first == 0 {
        true => Violation::RouteLost { lid, from, at },
        false => Violation::RouteMoved { lid, from, at },
    })
}
