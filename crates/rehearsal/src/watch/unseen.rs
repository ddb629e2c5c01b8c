//! What a manager cannot see and forwards all the same: switches whose agents are silent, links that let no management
//! packet pass.

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::NodeIdx;

use super::{Rule, Watcher};
use crate::manager::Manager;

impl Watcher {
    /// Why a circle of switches that a Set closed is not held against the manager that sent it.
    pub(super) fn circle_excuse(&self, chassis: &Chassis, nodes: &[NodeIdx], by: Option<&Manager>) -> Option<Rule> {
        if self.counting.is_some() {
            return self.circle_excuse_outside(self.now);
        }
        let life = by.and_then(|manager| manager.life.as_ref());
        let accepted = life.and_then(|life| life.accepted.as_ref());
        let is_seen =
            |&node: &NodeIdx| accepted.is_some_and(|plan| plan.fabric.find(chassis.node_guid(node)).is_some());
        (!nodes.iter().all(is_seen)).then_some(Rule::Unseen)
    }

    /// The same of channels, by the ports where they begin.
    pub(super) fn channels_excuse(&self, chassis: &Chassis, ports: &[PortIdx], by: Option<&Manager>) -> Option<Rule> {
        let nodes: Vec<NodeIdx> = ports.iter().map(|&port| chassis.wire(port).node()).collect();
        let life = by.and_then(|manager| manager.life.as_ref());
        let unseen = || {
            let heard = self.heard.get(&life.filter(|_| self.counting.is_none())?.client)?;
            let is_unseen = ports.iter().any(|&port| heard.is_unseen(chassis, port));
            is_unseen.then_some(Rule::UnseenLink)
        };
        self.circle_excuse(chassis, &nodes, by).or_else(unseen)
    }
}
