//! Judges what a plan does with places that are out of service: no packet of a host may cross them, and only their
//! links may be taken down.
//!
//! Packets are followed from every switch with hosts to every LID of a host. The ports that packets must not use are an
//! input, and no code is shared with the routing engines.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{ChangeSet, LinkOrder, NO_PATH, Op, Plan};
use selvedge_types::{Idx, IdxVec, Lid, PortNum};

use crate::finding::{Attribute, Fault, Finding, Place, Severity};

/// Returns the findings about a plan and the change set that leads to it, for these ports to keep off.
pub fn findings(fabric: &Fabric, plan: &Plan, changes: &ChangeSet, kept_off: &BTreeSet<PortRef>) -> Vec<Finding> {
    let mut found = orders(fabric, changes, kept_off);
    if kept_off.is_empty() {
        return found;
    }
    for (port, (lids, first)) in crossings(fabric, plan, kept_off) {
        let port = Place::port(fabric, port);
        found.push(Finding::new(Severity::Error, Fault::OutOfService { port, lids, first }));
    }
    found
}

/// Returns the ports out of service by which packets of hosts leave, each with the number of LIDs and the first LID.
fn crossings(fabric: &Fabric, plan: &Plan, kept_off: &BTreeSet<PortRef>) -> BTreeMap<PortRef, (u64, Lid)> {
    let mut crossed: BTreeMap<PortRef, (u64, Lid)> = BTreeMap::new();
    let has_hosts = |switch: SwitchIdx| {
        let node = fabric.switches()[switch];
        let mut ports = fabric
            .node(node)
            .external_ports()
            .map(|(port, _)| PortRef { node, port });
        ports.any(|at| {
            fabric.link_is_up(at)
                && fabric
                    .peer(at)
                    .is_some_and(|far| fabric.switch_index(far.node).is_none())
        })
    };
    let senders: Vec<SwitchIdx> = fabric
        .switches()
        .indices()
        .filter(|&switch| has_hosts(switch))
        .collect();
    for (lid, owner) in plan.lids.by_lid() {
        if fabric.switch_index(owner.node).is_some() {
            continue;
        }
        let mut seen = IdxVec::filled(false, fabric.switches().len());
        for &sender in &senders {
            let mut at = Some(sender);
            while let Some(switch) = at.filter(|&switch| !std::mem::replace(&mut seen[switch], true)) {
                let out = way_out(fabric, plan, switch, lid);
                if let Some(out) = out.filter(|out| kept_off.contains(out)) {
                    crossed.entry(out).or_insert((0, lid)).0 += 1;
                }
                let far = out.and_then(|out| fabric.peer(out));
                at = far.and_then(|far| fabric.switch_index(far.node));
            }
        }
    }
    crossed
}

/// Returns the port by which packets to a LID leave a switch over a link that is up.
fn way_out(fabric: &Fabric, plan: &Plan, switch: SwitchIdx, lid: Lid) -> Option<PortRef> {
    if switch.to_usize() >= plan.tables.switches() {
        return None;
    }
    let entry = Some(plan.tables.get(switch, lid)).filter(|entry| *entry != NO_PATH)?;
    let port = PortNum::new(entry).filter(|port| *port != PortNum::MANAGEMENT)?;
    let node = fabric.switches()[switch];
    Some(PortRef { node, port }).filter(|&out| fabric.link_is_up(out))
}

/// Returns findings about Sets that take links down or enable ports. A link that is in service must stay up. A link
/// between switches may be disabled only after the last table is written, and only a port without a link may be
/// enabled.
fn orders(fabric: &Fabric, changes: &ChangeSet, kept_off: &BTreeSet<PortRef>) -> Vec<Finding> {
    let writes = |op: &Op| matches!(op, Op::Lft { .. });
    let last = changes.phases.iter().rposition(|phase| phase.ops.iter().any(writes));
    let mut found = Vec::new();
    for (number, phase) in changes.phases.iter().enumerate() {
        for op in &phase.ops {
            let Op::Link { port, order } = *op else { continue };
            let is_up = fabric.link_is_up(port);
            let is_late = last.is_none_or(|last| number > last);
            let is_legal = match order {
                LinkOrder::Down => kept_off.contains(&port) && !is_up,
                LinkOrder::Disable => kept_off.contains(&port) && (!is_up || is_late),
                LinkOrder::Poll => !is_up,
            };
            if !is_legal {
                let fault = Fault::ChangeBeyond {
                    place: Place::port(fabric, port),
                    attribute: Attribute::PortState,
                };
                found.push(Finding::new(Severity::Error, fault));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use selvedge_plan::Phase;
    use selvedge_types::PortState;

    use super::*;
    use crate::support;

    /// Two switches with a link and a host each.
    fn pair() -> (Fabric, Plan) {
        let mut net = support::Net::new(2, 4);
        net.link(0, 1).host(0).host(1);
        let fabric = net.finish(PortState::Active);
        let lids = support::lids(&fabric, 0);
        let tables = support::minhop(&fabric, &lids);
        let plan = support::plan(&fabric, lids, tables);
        (fabric, plan)
    }

    /// Returns a port of the first switch that leads to the other one.
    fn between(fabric: &Fabric) -> PortRef {
        let links = fabric.links().map(|link| link.a);
        let mut links = links.filter(|at| {
            let ends = [Some(*at), fabric.peer(*at)];
            ends.into_iter()
                .flatten()
                .all(|end| fabric.switch_index(end.node).is_some())
        });
        links.next().unwrap()
    }

    #[test]
    fn packets_of_hosts_that_cross_are_found() {
        let (fabric, plan) = pair();
        let at = between(&fabric);
        let far = fabric.peer(at).unwrap();
        let check = |kept_off: &[PortRef], want: &[&str]| {
            let kept_off = kept_off.iter().copied().collect();
            let found = findings(&fabric, &plan, &ChangeSet::default(), &kept_off);
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found.len(), want.len(), "{found:?}");
            for (found, want) in found.iter().zip(want) {
                assert!(found.contains(want), "{found} has no {want}");
            }
        };
        check(&[], &[]);
        check(&[at], &["SLV-JUDGE-0048"]);
        check(&[at, far], &["packets to 1 LIDs", "packets to 1 LIDs"]);
    }

    #[test]
    fn links_in_service_are_never_taken_down() {
        let (fabric, plan) = pair();
        let at = between(&fabric);
        let check = |order: LinkOrder, is_listed: bool, is_last: bool, want: usize| {
            let order = Phase {
                label: "",
                wait_before_ns: 0,
                ops: vec![Op::Link { port: at, order }],
            };
            let data = *plan.tables.block(SwitchIdx(0), 0);
            let node = fabric.switches()[SwitchIdx(0)];
            let tables = Phase {
                label: "",
                wait_before_ns: 0,
                ops: vec![Op::Lft { node, block: 0, data }],
            };
            let phases = if is_last {
                vec![tables, order]
            } else {
                vec![order, tables]
            };
            let changes = ChangeSet {
                phases,
                ..ChangeSet::default()
            };
            let kept_off: BTreeSet<PortRef> = is_listed.then_some(at).into_iter().collect();
            let found = orders(&fabric, &changes, &kept_off);
            assert_eq!(found.len(), want, "{changes:?} {is_listed}: {found:?}");
        };
        check(LinkOrder::Disable, true, true, 0);
        check(LinkOrder::Disable, true, false, 1);
        check(LinkOrder::Disable, false, true, 1);
        // Packets of hosts could still be waiting for it.
        check(LinkOrder::Down, true, true, 1);
        check(LinkOrder::Poll, true, true, 1);
    }
}
