//! Judges partition enforcement by switches: only at ports to hosts, with exactly the P_Keys of the host, and only
//! after the P_Keys are written.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{ChangeSet, Op, Plan};
use selvedge_types::{PKey, PortState};

use crate::finding::{Fault, Finding, Place, Severity, Unlike};

/// Returns all findings about partition enforcement.
pub fn findings(fabric: &Fabric, plan: &Plan, changes: &ChangeSet) -> Vec<Finding> {
    let mut found = Vec::new();
    let enforcing = plan.ports.iter().filter(|(_, settings)| settings.enforcement != 0);
    for (&at, _) in enforcing.filter(|(at, _)| fabric.switch_index(at.node).is_some()) {
        if let Some(why) = unlike(fabric, plan, at) {
            let port = Place::port(fabric, at);
            found.push(Finding::new(Severity::Error, Fault::Enforcement { port, why }));
        }
    }
    early(fabric, changes, &mut found);
    found
}

/// Returns how the P_Keys that pass at a switch port differ from those of the host behind it. `None` if they do not
/// differ.
///
/// A limited P_Key passes if the table has the full P_Key of its partition. Source: IBA vol 1 §10.9.3.
fn unlike(fabric: &Fabric, plan: &Plan, at: PortRef) -> Option<Unlike> {
    let host = fabric.peer(at).filter(|host| fabric.switch_index(host.node).is_none());
    let host = host.and_then(|host| plan.end_ports.get(&host));
    let (Some(host), Some(table)) = (host, plan.end_ports.get(&at)) else {
        return Some(Unlike::NoHost);
    };
    let keys =
        |keys: &[PKey]| -> BTreeSet<u16> { keys.iter().map(|key| key.0).filter(|key| key & 0x7FFF != 0).collect() };
    let (held, passing) = (keys(&host.pkeys), keys(&table.pkeys));
    let missing = held
        .iter()
        .find(|&&key| !passing.contains(&key) && !passing.contains(&(key | 0x8000)));
    let beyond = passing.iter().find(|key| !held.contains(key));
    missing
        .map(|key| Unlike::Missing(PKey(*key)))
        .or_else(|| beyond.map(|key| Unlike::Beyond(PKey(*key))))
}

/// Finds ports with traffic that begin to enforce partitions before their P_Keys are written.
fn early(fabric: &Fabric, changes: &ChangeSet, found: &mut Vec<Finding>) {
    let ops = || {
        let phases = changes.phases.iter().zip(0_u32..);
        phases.flat_map(|(phase, number)| phase.ops.iter().map(move |op| (op, number)))
    };
    for (op, phase) in ops() {
        let Op::Port { port: at, settings, .. } = op else {
            continue;
        };
        let begins = fabric.port(*at).is_some_and(|seen| {
            seen.link.state == PortState::Active && settings.enforcement & !seen.settings.enforcement != 0
        });
        if !begins {
            continue;
        }
        let written =
            ops().find(|(other, number)| *number >= phase && matches!(other, Op::PKeys { port, .. } if port == at));
        if let Some((_, written_in)) = written {
            let port = Place::port(fabric, *at);
            let fault = Fault::EarlyEnforcement {
                port,
                phase,
                written_in,
            };
            found.push(Finding::new(Severity::Error, fault));
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::PortSettings;
    use selvedge_plan::{Installed, PartEnforce, changes};

    use super::*;
    use crate::{support, transition};

    /// Compares the codes of the findings with the expected ones. The fabric is two switches with a host each; the
    /// first switch enforces partitions. The callback edits the plan and the change set.
    fn check(
        state: PortState,
        edit: impl FnOnce(&mut Plan, PortRef),
        edit_set: impl FnOnce(&mut ChangeSet),
        want: &[&str],
    ) {
        let mut net = support::Net::new(2, 4);
        net.link(0, 1).host(0).host(1);
        let fabric = net.finish(state);
        let lids = support::lids(&fabric, 0);
        let tables = support::minhop(&fabric, &lids);
        let mut plan = support::plan(&fabric, lids, tables);
        let is_host = |at: &PortRef| fabric.switch_index(at.node).is_none();
        let host = plan.end_ports.keys().copied().find(is_host).unwrap();
        plan.end_ports.get_mut(&host).unwrap().pkeys = vec![PKey(0x7FFF), PKey(0x8001), PKey(0), PKey(0x0001)];
        let at = fabric.peer(host).unwrap();
        plan.ports.get_mut(&at).unwrap().enforcement = PartEnforce::Both.bits();
        let pkeys = vec![PKey(0x7FFF), PKey(0x8001)];
        plan.end_ports.insert(at, selvedge_plan::EndPortPlan { pkeys });
        edit(&mut plan, at);
        let installed = Installed::unknown(2);
        let mut set = changes(&fabric, &installed, &plan);
        edit_set(&mut set);
        let found = transition::findings(&fabric, &installed, &plan, &set);
        let codes: Vec<_> = found.iter().map(|f| &f.code["SLV-JUDGE-".len()..]).collect();
        assert_eq!(codes, want, "{found:?}");
    }

    #[test]
    fn the_keys_of_the_host_pass_and_no_others() {
        let table = |keys: &'static [u16]| {
            move |plan: &mut Plan, at: PortRef| {
                plan.end_ports.get_mut(&at).unwrap().pkeys = keys.iter().map(|key| PKey(*key)).collect();
            }
        };
        let is = |edit: &dyn Fn(&mut Plan, PortRef), want: &[&str]| check(PortState::Init, edit, |_| {}, want);
        is(&|_, _| {}, &[]);
        is(&table(&[0x8001, 0x7FFF]), &[]);
        is(&table(&[0x7FFF]), &["0037"]);
        is(&table(&[0x7FFF, 0x0001]), &["0037"]);
        is(&table(&[0x7FFF, 0x8001, 0x8002]), &["0037"]);
        is(&table(&[0xFFFF, 0x8001]), &["0037"]);
        is(&|plan, at| drop(plan.end_ports.remove(&at)), &["0037"]);
        let between = |plan: &mut Plan, at: PortRef| {
            let other = plan
                .ports
                .keys()
                .copied()
                .find(|port| port.node == at.node && port.port != at.port && port.port.get() > 0);
            plan.ports.get_mut(&other.unwrap()).unwrap().enforcement = PortSettings::ENFORCE_IN;
        };
        is(&between, &["0037"]);
    }

    #[test]
    fn keys_are_there_before_a_live_port_enforces_them() {
        let at_once = |set: &mut ChangeSet| {
            let last = set.phases.len() - 1;
            let ops = std::mem::take(&mut set.phases[last].ops);
            set.phases[0].ops.extend(ops);
            set.phases.retain(|phase| !phase.ops.is_empty());
        };
        check(PortState::Active, |_, _| {}, |_| {}, &[]);
        check(PortState::Active, |_, _| {}, at_once, &["0038"]);
    }
}
