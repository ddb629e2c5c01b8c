//! Checks that no LID belongs to two ports that reach each other.

use std::collections::BTreeSet;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::PortRef;
use selvedge_types::Lid;

use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::masters::masters;
use super::names::port_name;
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::manager::Life;
use crate::subnet::Subnets;

/// LIDs that two ports held at the last check. The fabric had them at the start, so no manager made these conflicts.
#[derive(Debug, Default)]
pub(super) struct LidsUnique(BTreeSet<(PortIdx, Lid)>);

impl Check for LidsUnique {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        let chassis = ctx.chassis();
        match *seen {
            Seen::Event {
                changes,
                are_lids_unique,
                ..
            } if changes.are_cables_moved || changes.are_lids_changed => {
                let twice = match are_lids_unique {
                    true => Vec::new(),
                    false => held_twice(chassis, ctx.subnets),
                };
                self.none_new(ctx, &twice, changes.are_cables_moved)
            }
            Seen::ForeignSet => {
                self.0 = sides(&held_twice(chassis, ctx.subnets));
                Ok(())
            }
            Seen::Content { life, at } => {
                let mut twice = held_twice(chassis, ctx.subnets).into_iter();
                let is_here = |c: &Conflict| ctx.subnets.connected(c.first, at) && is_known(chassis, life, c);
                twice
                    .find(is_here)
                    .map_or(Ok(()), |conflict| Err(conflict.violation(chassis)))
            }
            _ => Ok(()),
        }
    }
}

impl LidsUnique {
    /// Fails if a Set makes a LID conflict between two ports that its manager knows. Moved cables may join two ports
    /// with one LID: that conflict is allowed until the manager has found it. Two masters that do not know of each
    /// other may cause a conflict too.
    fn none_new(&mut self, scene: &Scene<'_>, twice: &[Conflict], are_cables_moved: bool) -> Result<(), Violation> {
        let chassis = scene.chassis();
        let before = std::mem::replace(&mut self.0, sides(twice));
        let mut masters = masters(scene.managers).map(|(_, life)| life);
        if let (Some(master), None, false) = (masters.next(), masters.next(), are_cables_moved) {
            let is_old = |c: &&Conflict| sides(&[**c]).is_subset(&before);
            let mut new = twice.iter().filter(|c| !is_old(c));
            if let Some(conflict) = new.find(|c| is_known(chassis, master, c) && was_seen(chassis, master, c)) {
                return Err(conflict.violation(chassis));
            }
        }
        Ok(())
    }
}

/// Two live ports of one subnet that hold the same LID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Conflict {
    first: PortIdx,
    second: PortIdx,
    lid: Lid,
}

impl Conflict {
    fn violation(self, chassis: &Chassis) -> Violation {
        let [first, second] = [self.first, self.second].map(|port| port_name(chassis, port));
        Violation::LidTwice {
            lid: self.lid,
            first,
            second,
        }
    }
}

/// Returns the ports of conflicts, each with its LID. If one of three ports gets another LID, the conflict of the other
/// two does not count as new.
fn sides(conflicts: &[Conflict]) -> BTreeSet<(PortIdx, Lid)> {
    conflicts
        .iter()
        .flat_map(|c| [(c.first, c.lid), (c.second, c.lid)])
        .collect()
}

/// Returns every pair of neighbours among the live ports that hold one LID.
fn held_twice(chassis: &Chassis, subnets: &Subnets) -> Vec<Conflict> {
    let mut held: Vec<(PortIdx, Lid, PortIdx)> = Vec::new();
    for &port in subnets.live() {
        let range = chassis.port(port).settings().lids;
        if range.base.is_unicast() {
            held.extend(range.iter().map(|lid| (subnets.group(port), lid, port)));
        }
    }
    held.sort_unstable();
    let same = |pair: &&[(PortIdx, Lid, PortIdx)]| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1);
    let pairs = held.windows(2).filter(same);
    pairs
        .map(|pair| Conflict {
            first: pair[0].2,
            second: pair[1].2,
            lid: pair[0].1,
        })
        .collect()
}

/// True if the manager's plan includes both ports. A manager cannot know the LID of a port that did not answer it.
fn is_known(chassis: &Chassis, life: &Life, conflict: &Conflict) -> bool {
    let Some(accepted) = life.plans.accepted() else {
        return false;
    };
    let knows = |port: PortIdx| {
        let at = chassis.port_ref(port);
        let node = accepted.fabric.find(chassis.node_guid(at.node));
        node.is_some_and(|node| accepted.plan.lids.base(PortRef { node, port: at.port }).is_some())
    };
    knows(conflict.first) && knows(conflict.second)
}

/// True if the manager had read the LID at one of the two ports before it gave the LID to the other. Otherwise another
/// manager has set it since: a master that was cut off while it sent Sets, or the manager that took over.
fn was_seen(chassis: &Chassis, life: &Life, conflict: &Conflict) -> bool {
    let Some(accepted) = life.plans.accepted() else {
        return false;
    };
    [conflict.first, conflict.second].into_iter().any(|port| {
        let at = chassis.port_ref(port);
        let node = accepted.fabric.find(chassis.node_guid(at.node));
        let seen = node.and_then(|node| accepted.fabric.port(PortRef { node, port: at.port }));
        seen.is_some_and(|port| port.settings.lids.iter().any(|lid| lid == conflict.lid))
    })
}
