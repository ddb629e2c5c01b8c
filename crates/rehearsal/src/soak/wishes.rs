//! Checks the end of a schedule with changes: the hardware must agree with the last changes of the operator.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::Policy;
use selvedge_plan::out_of_service::{Place, Service};
use selvedge_planner::out_of_service::{Withdrawn, find_port, port_id};
use selvedge_sm::{Role, View};
use selvedge_types::{PhysState, PortNum};

use super::world::World;
use crate::ManagerId;
use crate::observed::Observed;

/// How long a manager keeps former M_Keys after another manager has asked with one. Source: `docs/keys.md`.
pub(super) const KEPT_FOR_OTHERS: Duration = Duration::from_secs(60);

impl World<'_> {
    /// True if a master remembers former M_Keys although all ports have the present one.
    pub(super) fn are_former_keys_kept(&self) -> bool {
        let ids = self.managers.ids().iter();
        let mut masters = ids.filter_map(|&id| Some((id, self.rehearsal.view(id)?)));
        self.schedule.setup.changes
            && masters.any(|(id, view)| {
                let is_well = view.role == Role::Master && view.is_up() && view.facts.m_key_foreign.is_none();
                is_well && self.former_keys(id, &view).is_some()
            })
    }

    /// Returns the ports of a subnet that no packet of a host may cross.
    pub(super) fn kept_off(&self, view: &View, fabric: &Fabric) -> BTreeSet<PortRef> {
        self.withdrawn(view, fabric).kept_off()
    }

    /// Returns what the operator's list means for a subnet in its current state.
    fn withdrawn(&self, view: &View, fabric: &Fabric) -> Withdrawn {
        let list = &self.operator.policy.out_of_service;
        let own = view.inventory.as_ref().filter(|_| !list.is_empty());
        let own = own.and_then(|of| find_port(fabric, port_id(&of.fabric, of.local)));
        own.map_or_else(Withdrawn::default, |own| Withdrawn::of(list, fabric, own))
    }

    /// Returns the first difference between a subnet with this master and the operator's wishes.
    pub(super) fn unlike_wishes(&self, id: ManagerId, view: &View, observed: &Observed) -> Option<String> {
        if !self.schedule.setup.changes {
            return None;
        }
        let (wanted, fabric) = (&*self.operator.policy, &observed.fabric);
        if !view.policy.as_ref().is_some_and(|policy| is_alike(policy, wanted)) {
            let keys = view
                .policy
                .as_ref()
                .map(|policy| wanted.changed_from(policy).join(", "));
            let last = view.policy_changes.last().map_or("none", |change| change.state.name());
            let keys = keys.unwrap_or_default();
            return Some(format!(
                "manager {} has another policy than the operator wants (different keys: {keys}; last change: {last})",
                id.0
            ));
        }
        let withdrawn = self.withdrawn(view, fabric);
        let kept_off = withdrawn.kept_off();
        // A host that is out of service keeps its settings.
        let is_host = |at: &PortRef| !fabric.node(at.node).is_switch();
        crossing(observed, &kept_off)
            .or_else(|| not_disabled(fabric, &withdrawn))
            .or_else(|| not_enabled(fabric, wanted))
            .or_else(|| other_key(fabric, wanted.m_key, &kept_off))
            .or_else(|| self.former_keys(id, view).filter(|_| !kept_off.iter().any(is_host)))
    }

    /// Returns the former keys that the manager still remembers although no port that might hold one is missing.
    fn former_keys(&self, id: ManagerId, view: &View) -> Option<String> {
        let mut list = self.operator.policy.out_of_service.iter();
        let is_isolated = list.any(|(_, notice)| notice.service == Service::Isolate);
        let absent = &view.facts.absent;
        let is_missing = !(absent.nodes.is_empty() && absent.links.is_empty() && absent.silent.is_empty());
        let stored = self.rehearsal.stored(id)?.m_keys.len();
        (!is_isolated && !is_missing && stored > 1)
            .then(|| format!("nothing is missing, and manager {} remembers {stored} M_Keys", id.0))
    }
}

/// True if two policies differ at most in entries that a manager adds to the list: ports that it has disabled, and
/// places that are back in service.
fn is_alike(policy: &Policy, wanted: &Policy) -> bool {
    let listed = |of: &Policy| -> Vec<(Place, Service)> {
        let places = of.out_of_service.iter().map(|(place, notice)| (*place, notice.service));
        places.filter(|(_, service)| *service != Service::Enable).collect()
    };
    let others = Policy {
        out_of_service: Arc::clone(&wanted.out_of_service),
        ..policy.clone()
    };
    others == *wanted && listed(policy) == listed(wanted)
}

/// Names a packet between two hosts that crosses a port which is out of service.
fn crossing(observed: &Observed, kept_off: &BTreeSet<PortRef>) -> Option<String> {
    if kept_off.is_empty() {
        return None;
    }
    let fabric = &observed.fabric;
    let is_host = |at: PortRef| fabric.switch_index(at.node).is_none();
    let ends = fabric.end_ports().map(|(at, _)| at);
    let is_used = |at: PortRef| fabric.link_is_up(at) && !kept_off.contains(&at);
    let hosts: Vec<PortRef> = ends.filter(|at| is_host(*at) && is_used(*at)).collect();
    let to_hosts = observed.lids.by_lid().filter(|(_, owner)| hosts.contains(owner));
    for (lid, owner) in to_hosts {
        for &from in hosts.iter().filter(|from| **from != owner) {
            let mut at = fabric.peer(from)?;
            // A loop is found by the judge.
            for _ in 0..=fabric.switches().len() {
                let Some(switch) = fabric.switch_index(at.node) else {
                    break;
                };
                let Some(port) = PortNum::new(observed.tables.get(switch, lid)) else {
                    break;
                };
                let out = PortRef { node: at.node, port };
                if kept_off.contains(&out) {
                    let (from, out) = (fabric.port_name(from), fabric.port_name(out));
                    return Some(format!(
                        "packets from {from} to LID {lid} cross {out}, which is out of service"
                    ));
                }
                let Some(far) = fabric.peer(out) else { break };
                at = far;
            }
        }
    }
    None
}

/// Names a port that should be disabled and is not.
fn not_disabled(fabric: &Fabric, withdrawn: &Withdrawn) -> Option<String> {
    let at = withdrawn.disable.first()?;
    Some(format!("{} is isolated and not disabled", fabric.port_name(*at)))
}

/// Returns a port that is disabled although no place is isolated. (If a cable was moved, the port may have been
/// isolated together with another port.)
fn not_enabled(fabric: &Fabric, wanted: &Policy) -> Option<String> {
    let mut list = wanted.out_of_service.iter();
    if list.any(|(_, notice)| notice.service == Service::Isolate) {
        return None;
    }
    let nodes = fabric.nodes().iter_enumerated();
    let mut ports = nodes.flat_map(|(node, n)| n.external_ports().map(move |(port, p)| (PortRef { node, port }, p)));
    let (at, _) = ports.find(|(_, port)| port.link.phys == PhysState::Disabled)?;
    Some(format!("{} is in service and disabled", fabric.port_name(at)))
}

/// Returns a port that is in service with an M_Key other than this one.
fn other_key(fabric: &Fabric, wanted: u64, kept_off: &BTreeSet<PortRef>) -> Option<String> {
    let is_used = |at: PortRef| at.port == PortNum::MANAGEMENT || fabric.link_is_up(at);
    let mut ends = fabric.end_ports().filter(|(at, _)| is_used(*at));
    let (at, _) = ends.find(|(at, port)| port.settings.m_key != wanted && !kept_off.contains(at))?;
    Some(format!("{} has another M_Key than the policy", fabric.port_name(at)))
}
