//! Previews a change of the operator's list of places out of service.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_plan::out_of_service::Place;
use selvedge_plan::{OutOfService, Plan};
use selvedge_routing::{Difference, difference};
use selvedge_verify::Load;

use crate::event::PlanEvent;
use crate::fabric_plan::PlanResult;
use crate::held::with_top;
use crate::inventory::{Inventory, link_state};
use crate::withdrawn::{Withdrawn, ends_of};

/// The effects of a changed list on the fabric, before a plan is made.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Ports of hosts that are cut off and were not before.
    pub cut: Vec<PortRef>,
    /// Hosts with a port in `cut` that have no other port that is up and in service.
    pub alone: Vec<NodeIdx>,
    /// Switches that can be reached only over the places in question.
    pub behind: Vec<NodeIdx>,
    /// Ports of hosts that are attached to these switches.
    pub hosts_behind: Vec<PortRef>,
}

/// The plan for a changed list of places out of service, compared with the plan in force.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Difference from the tables in force.
    pub changed: Difference,
    /// Host pairs on links with the tables in force.
    pub before: Load,
    /// Host pairs on links with the new tables.
    pub after: Load,
    /// Sets of the plan.
    pub sets: usize,
    /// Engine that made the tables.
    pub engine: String,
}

impl Inventory {
    /// Returns the inventory with all links as its agents reported them: nothing is withdrawn.
    #[must_use]
    pub fn as_found(&self) -> Self {
        let mut found = self.clone();
        for &at in self.withdrawn.idle.iter().chain(&self.withdrawn.hosts) {
            if let (Some(info), Some(port)) = (self.port_info(at), self.fabric.port(at)) {
                Arc::make_mut(&mut found.fabric).set_port(at, link_state(info), port.settings);
            }
        }
        found.withdrawn = Arc::default();
        found
    }

    /// Returns the effects of a list that replaces the present one. `places` are its new entries.
    #[must_use]
    pub fn effects(&self, list: &OutOfService, places: &[Place]) -> Effects {
        let found = self.as_found();
        let fabric = &found.fabric;
        let withdrawn = Withdrawn::of(list, fabric, self.local);
        let is_host = |at: &PortRef| fabric.switch_index(at.node).is_none();
        let is_cut = |at: &PortRef| is_host(at) && !self.withdrawn.hosts.contains(at);
        let cut: Vec<PortRef> = withdrawn.hosts.iter().copied().filter(is_cut).collect();
        let is_connected = |&node: &NodeIdx| {
            let mut ports = fabric
                .node(node)
                .external_ports()
                .map(|(port, _)| PortRef { node, port });
            ports.any(|at| fabric.link_is_up(at) && !withdrawn.hosts.contains(&at))
        };
        let nodes: BTreeSet<NodeIdx> = cut.iter().map(|at| at.node).collect();
        let alone = nodes.into_iter().filter(|node| !is_connected(node)).collect();
        let ends: BTreeSet<PortRef> = places
            .iter()
            .flat_map(|&place| ends_of(fabric, place))
            .map(|(near, _)| near)
            .collect();
        let is_needed = withdrawn
            .needed
            .iter()
            .any(|at| ends.contains(at) || fabric.peer(*at).is_some_and(|far| ends.contains(&far)));
        let behind = if is_needed { beyond(&found, list) } else { Vec::new() };
        let attached = |node: NodeIdx| fabric.node(node).external_ports().filter_map(|(_, port)| port.peer);
        let hosts_behind = behind.iter().flat_map(|&node| attached(node)).filter(is_host).collect();
        Effects {
            cut,
            alone,
            behind,
            hosts_behind,
        }
    }
}

/// Returns the switches in service that cannot be reached without the places of a list.
fn beyond(found: &Inventory, list: &OutOfService) -> Vec<NodeIdx> {
    let fabric = &found.fabric;
    let listed = list.iter().flat_map(|(&place, _)| ends_of(fabric, place));
    let out: BTreeSet<PortRef> = listed.flat_map(|(near, far)| [near, far]).collect();
    let drained: BTreeSet<NodeIdx> = list
        .iter()
        .filter_map(|(place, _)| match place {
            Place::Switch(guid) => fabric.find(*guid),
            Place::Link(..) | Place::Port(_) => None,
        })
        .collect();
    let all = found.ways_around(&BTreeSet::new(), &BTreeSet::new());
    let left = found.ways_around(&out, &BTreeSet::new());
    let switches = fabric.switches().iter().copied();
    switches
        .filter(|&node| all[node].is_some() && left[node].is_none() && !drained.contains(&node))
        .collect()
}

/// Compares the plan in force with the first plan that a changed list leads to. `before` is the load of links with
/// the plan in force.
///
/// # Errors
///
/// If no plan is accepted, returns the reason for each engine.
pub fn compare(plan: &Plan, before: Load, result: &PlanResult) -> Result<Compared, String> {
    let Some(outcome) = &result.outcome else {
        let refused = result.events.iter().filter_map(|event| match event {
            PlanEvent::Refused { engine, why } => Some(format!("{engine}: {why}")),
            PlanEvent::OutOfLids { .. } | PlanEvent::NoPlan => Some(event.to_string()),
            _ => None,
        });
        return Err(refused.collect::<Vec<_>>().join("; "));
    };
    let fabric = &outcome.inventory.fabric;
    let new = with_top(outcome.plan.tables.clone(), plan.tables.top());
    let is_same_shape = plan.tables.switches() == fabric.switches().len();
    let changed = match is_same_shape {
        true => difference(fabric, &plan.lids, &plan.tables, &new),
        false => Difference::default(),
    };
    Ok(Compared {
        changed,
        before,
        after: outcome.verdict.figures.load,
        sets: outcome.changes.value().count().total(),
        engine: outcome.plan.engine.0.clone(),
    })
}
