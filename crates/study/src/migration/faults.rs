//! What happens to the fabric, in order of time: changes, drawn cuts, traces, and the manager's repairs.

use std::collections::BTreeMap;

use selvedge_api::MigrationFault;
use selvedge_dataplane::{Change, PS_PER_NS, Ps, Timed};
use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_tolerance::{Fault, Place};

use super::repair::Repairs;
use super::world::Act;
use super::{Question, cable, cables};
use crate::damage::switch_links;
use crate::error::StudyError;
use crate::in_force::InForce;

/// What is done to the fabric, by time.
pub(super) type Acts = Vec<(Ps, Act)>;

/// A change, and how it is called.
type Named = (Timed, String);

/// Returns everything that happens to the fabric, in order of time, and the faults of it.
pub(super) fn acts(question: &Question, force: &InForce) -> Result<(Acts, Vec<MigrationFault>), StudyError> {
    let mut repairs = Repairs::new(force);
    let (mut acts, mut faults) = (Vec::new(), Vec::new());
    for (Timed { at, change }, what) in changes(question, force)? {
        let mut fault = MigrationFault {
            at_ns: at / PS_PER_NS,
            what,
            ..MigrationFault::default()
        };
        if let (Change::Cut(cable), Some(time)) = (&change, question.repair) {
            match repairs.lose(*cable) {
                Ok(entries) => {
                    fault.entries = entries.len() as u64;
                    acts.push((at + time, Act::Entries(entries)));
                }
                Err(why) => fault.refused = Some(why.to_string()),
            }
        }
        faults.push(fault);
        acts.push((at, Act::Change(change)));
    }
    acts.sort_by_key(|(at, _)| *at);
    Ok((acts, faults))
}

/// Returns all changes in order of time.
fn changes(question: &Question, force: &InForce) -> Result<Vec<Named>, StudyError> {
    let mut changes: Vec<Named> = Vec::new();
    for (text, planned) in &question.changes {
        let timed = planned.timed(&force.routed.tables);
        changes.extend(timed.into_iter().map(|timed| (timed, text.clone())));
    }
    let fabric = &force.fabric;
    let mut rng = question.seed.child("cuts").rng();
    let between = switch_links(fabric);
    let mut left = between.clone();
    for &at in &question.faults.drawn {
        if left.is_empty() {
            return Err(StudyError::NoCable);
        }
        let cable = left.swap_remove(rng.below(left.len() as u64) as usize);
        changes.push(named(fabric, at, cable, false));
    }
    changes.extend(of_trace(fabric, question.faults.trace.faults(), &cables(fabric)));
    if let Some(mtbf) = question.faults.mtbf {
        if between.is_empty() {
            return Err(StudyError::NoCable);
        }
        let until = question.settings.duration_ns * PS_PER_NS;
        let drawn = mtbf.draw(question.seed, between.len() as u32, until)?;
        changes.extend(of_trace(fabric, drawn.faults(), &between));
    }
    changes.sort_by_key(|(timed, _)| timed.at);
    Ok(changes)
}

fn named(fabric: &Fabric, at: Ps, end: PortRef, up: bool) -> Named {
    let name = fabric.port_name(end);
    if up {
        let change = Change::Mend(end);
        return (Timed { at, change }, format!("mend {name}"));
    }
    let change = Change::Cut(end);
    (Timed { at, change }, format!("cut {name}"))
}

/// Returns cuts and mends of cables. A cable is whole again when each fault of it, and of both its nodes, has ended.
pub(super) fn of_trace(fabric: &Fabric, faults: &[Fault], links: &[PortRef]) -> Vec<Named> {
    let mut broken: BTreeMap<PortRef, u32> = BTreeMap::new();
    let mut changes = Vec::new();
    for fault in faults {
        let ends: Vec<PortRef> = match fault.place {
            Place::Link(number) => links.get(number as usize).copied().into_iter().collect(),
            Place::Node(node) => cables_of(fabric, NodeIdx(node)),
        };
        for end in ends.into_iter().map(|end| cable(fabric, end)) {
            let count = broken.entry(end).or_default();
            let was_up = *count == 0;
            *count = if fault.up { count.saturating_sub(1) } else { *count + 1 };
            if was_up != (*count == 0) {
                changes.push(named(fabric, fault.at, end, fault.up));
            }
        }
    }
    changes
}

fn cables_of(fabric: &Fabric, node: NodeIdx) -> Vec<PortRef> {
    let is_at = |end: PortRef| end.node == node;
    let links = fabric.links().filter(|link| is_at(link.a) || is_at(link.b));
    links.map(|link| link.a).collect()
}
