//! End ports that join during a change set: they send or receive only from some phase on. Examples are a host with a
//! link that the change set activates, and a port that gets new LIDs.
//!
//! The proof counts them from the start, which is stricter than necessary. They may close a cycle with packets of
//! earlier steps, or a cycle may have existed before. Neither does harm if those packets are gone when the new ports
//! join. So if there is a wait before the phase in which they join, the proof begins a step of its own after this wait.
//! The step has no entries if none change after the wait.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{ChangeSet, Op, Phase};
use selvedge_types::{LidRange, PortNum, PortState};

use super::{PhaseStep, Proposal};

/// Returns the host ports that join in some phase. `None` if a port joins that is unknown or not a host port.
pub(super) fn hosts(fabric: &Fabric, changes: &ChangeSet) -> Option<BTreeSet<PortRef>> {
    let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
    let mut hosts = BTreeSet::new();
    for op in changes.phases.iter().flat_map(|phase| &phase.ops) {
        let Op::Port { port, .. } = op else { continue };
        if !brings(fabric, op) {
            continue;
        }
        match fabric.peer(*port) {
            _ if !is_switch(*port) => drop(hosts.insert(*port)),
            Some(peer) if !is_switch(peer) => drop(hosts.insert(peer)),
            // Entries over a link between switches are handled by `Wake`.
            Some(_) => {}
            None => return None,
        }
    }
    Some(hosts)
}

/// True if a port joins.
#[must_use]
pub fn come(fabric: &Fabric, changes: &ChangeSet) -> bool {
    hosts(fabric, changes).is_none_or(|hosts| !hosts.is_empty())
}

/// True if a Set gives an end port LIDs that it does not have, so that packets are sent to them from then on.
#[must_use]
pub fn gives_lids(fabric: &Fabric, op: &Op) -> bool {
    let Op::Port { port, settings, .. } = op else {
        return false;
    };
    let is_external = port.port != PortNum::MANAGEMENT && fabric.node(port.node).is_switch();
    let held = fabric.port(*port).map(|port| port.settings.lids);
    let is_new = |held: LidRange| settings.lids.iter().any(|lid| lid.is_unicast() && !held.contains(lid));
    !is_external && held.is_some_and(is_new)
}

/// Adds a step without writes for a wait that only joining ports need: no entry changes after it, or none at all.
pub(super) fn add_their_wait(proposal: &mut Proposal<'_>, fabric: &Fabric, changes: &ChangeSet) {
    let wait_before_ns = waited(&changes.phases).saturating_sub(waited_of(&proposal.steps));
    if (wait_before_ns > 0 || proposal.steps.is_empty()) && first(fabric, changes).is_some() {
        let writes = Vec::new();
        proposal.steps.push(PhaseStep { wait_before_ns, writes });
    }
}

/// Returns how many steps of a proposal (with the waits before them) are over when the first port joins or the first
/// link between switches is activated. The last change before the proposal was acknowledged `age_ns` ago. `as_met`
/// converts phases into steps, with the entries that packets can meet.
pub(super) fn joins(
    (proposal, age_ns): (&Proposal<'_>, u64),
    fabric: &Fabric,
    changes: &ChangeSet,
    as_met: impl FnOnce(&ChangeSet) -> Vec<PhaseStep>,
) -> Option<usize> {
    let first = first(fabric, changes)?;
    let before = as_met(&ChangeSet {
        generation: changes.generation,
        phases: changes.phases[..first].to_vec(),
    });
    let pending_ns = waited(&changes.phases[..=first]).saturating_sub(waited_of(&before));
    // Waits after they have joined do not count.
    let next = proposal.steps.get(before.len());
    let is_all = next.is_some_and(|next| next.wait_before_ns == pending_ns);
    let has_aged = before.is_empty() && age_ns > 0;
    Some(before.len() + usize::from(is_all && (pending_ns > 0 || has_aged)))
}

/// True if one of the steps before the new ports join has a wait, so that earlier packets are gone by then. The first
/// `taken` steps have been done already and do not count.
pub(super) fn come_late((proposal, taken): (&Proposal<'_>, usize), joins: usize) -> bool {
    let before = proposal.steps.iter().skip(taken).take(joins);
    before.into_iter().any(|step| step.wait_before_ns > 0)
}

/// True if a Set makes a port join or activates a link.
fn brings(fabric: &Fabric, op: &Op) -> bool {
    let activates = matches!(op, Op::Port { state, .. } if *state == Some(PortState::Active));
    activates || gives_lids(fabric, op)
}

/// Returns the first phase that makes a port join or activates a link.
fn first(fabric: &Fabric, changes: &ChangeSet) -> Option<usize> {
    let brings = |op: &Op| brings(fabric, op);
    changes.phases.iter().position(|phase| phase.ops.iter().any(brings))
}

fn waited(phases: &[Phase]) -> u64 {
    let waits = phases.iter().map(|phase| phase.wait_before_ns);
    waits.fold(0, u64::saturating_add)
}

fn waited_of(steps: &[PhaseStep]) -> u64 {
    let waits = steps.iter().map(|step| step.wait_before_ns);
    waits.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node, PortSettings};
    use selvedge_types::{Guid, Lid, Lmc, NodeKind};

    use super::*;

    #[test]
    fn lids_that_a_port_does_not_hold_are_given() {
        let lids = |base: u16, lmc| LidRange {
            base: Lid(base),
            lmc: Lmc::new(lmc).unwrap(),
        };
        let check = |kind, port: u8, wanted: LidRange, want: bool| {
            let mut node = Node::new(kind, Guid(1), 2, "n".to_owned());
            let number = PortNum::new(port).unwrap();
            node.port_mut(number).unwrap().settings.lids = lids(8, 1);
            let mut b = FabricBuilder::new();
            b.add(node);
            let fabric = b.finish().unwrap();
            let port = PortRef {
                node: fabric.find(Guid(1)).unwrap(),
                port: number,
            };
            let settings = PortSettings {
                lids: wanted,
                ..PortSettings::default()
            };
            let op = Op::Port {
                port,
                settings,
                state: None,
            };
            assert_eq!(gives_lids(&fabric, &op), want, "{kind:?} {wanted:?}");
        };
        check(NodeKind::Ca, 1, lids(8, 1), false);
        check(NodeKind::Ca, 1, lids(9, 0), false);
        check(NodeKind::Ca, 1, lids(8, 2), true);
        check(NodeKind::Ca, 1, lids(7, 0), true);
        check(NodeKind::Switch, 0, lids(7, 0), true);
        // Only port 0 of a switch has LIDs.
        check(NodeKind::Switch, 1, lids(7, 0), false);
    }
}
