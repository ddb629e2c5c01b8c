//! Reads lane tables before a plan is made, where they are not known from the last one.

use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_mad::AgentId;
use selvedge_plan::HeldLanes;
use selvedge_planner::Inventory;
use selvedge_planner::lanes::carried;

use crate::config::Mode;
use crate::core::Sm;
use crate::stage::{Stage, Token};
use crate::{lane_smp, smp};

impl Sm {
    /// Lane tables of the last plan that are still as it left them.
    pub(crate) fn carried_lanes(&self, inventory: &Inventory) -> Arc<HeldLanes> {
        let fabric = &inventory.fabric;
        let (Some(old), Mode::Manage) = (&self.view.fabric, self.config.mode) else {
            return Arc::default();
        };
        let sm_lid = |fabric: &Fabric, at: PortRef| fabric.port(at).map(|port| port.settings.sm_lid);
        let is_ours = |at: PortRef| {
            let before = old.find(fabric.node(at.node).guid);
            let before = before.map(|node| PortRef { node, ..at });
            before.is_some_and(|before| sm_lid(old, before) == sm_lid(fabric, at))
        };
        carried(&self.view.installed, old, fabric, is_ours)
    }

    /// Keeps questions for lane tables open while tables are read.
    pub(crate) fn ask_for_lanes(&mut self) {
        let Stage::Reading { inventory, lanes, .. } = &mut self.stage else {
            return;
        };
        while self.exchange.open() < self.config.ready() {
            let Some(table) = lanes.pop() else { return };
            let at = table.port();
            let (attribute, modifier) = lane_smp::question(&inventory.fabric, table);
            let route = inventory.agents[at.node].route_to(at.port);
            if self.silent.is_silent(route) {
                continue;
            }
            let get = smp::get(attribute, modifier, route, self.config.policy.m_key);
            self.exchange.submit(AgentId(at.node.0), (Token::Lanes(table), get));
        }
    }
}
