//! Connects the withdrawal of links with the rest of the manager.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::PortRef;
use selvedge_health::OutOfService as NotMissed;
use selvedge_plan::OutOfService;
use selvedge_plan::out_of_service::{Place, Service};
use selvedge_planner::Inventory;
use selvedge_planner::out_of_service::{find_port, port_id, settled};

use super::Sm;
use crate::commit::Held;
use crate::config::Mode;
use crate::election::Role;
use crate::event::SweepReason;
use crate::io::Output;
use crate::milestone::Milestone;
use crate::withdrawal::{Effect, In, Withdrawal};

impl Sm {
    /// Hands an input to the withdrawal of links, and carries out its effects.
    pub(crate) fn tell_withdrawal(&mut self, input: In) {
        let mut effects = Vec::new();
        self.withdrawal.handle(self.now, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Sweep => {
                    self.want_sweep_unless_due(SweepReason::OutOfService);
                }
            }
        }
    }

    /// Removes the links that the operator has taken out of service from the inventory of a sweep.
    pub(super) fn take_out_of_service(&mut self, inventory: &mut Inventory) {
        let list = Arc::clone(&self.policy_to_plan().out_of_service);
        self.leave_out_of_service(&list, inventory);
    }

    /// Removes the links of a list from an inventory that has them all. A link that carries packets stays in it until
    /// the plan in force and its multicast trees no longer use the link, and packets of older entries are gone. A plan
    /// no longer uses the link if it was made without the link and all switches hold its entries. (While a plan waits
    /// for packets, entries of the plan before it still lead over the link.) A link that was left out before stays so.
    pub(super) fn leave_out_of_service(&mut self, list: &OutOfService, inventory: &mut Inventory) {
        if list.is_empty() {
            return;
        }
        let has_packets = self.under_way(&inventory.fabric).is_some();
        let held = self.in_force.held();
        let before = self.in_force.inventory().filter(|_| held != Held::No);
        let are_off = held == Held::Whole && !has_packets;
        let copied_to = self.multicast.copies().ports(&inventory.fabric);
        let is_copied_to = |at: PortRef| {
            copied_to.contains(&at) || inventory.fabric.peer(at).is_some_and(|far| copied_to.contains(&far))
        };
        let free: BTreeSet<PortRef> = before.map_or_else(BTreeSet::new, |before| {
            let idle = before.withdrawn.idle.iter().copied();
            let free = idle.filter(|&at| are_off || !before.fabric.link_is_up(at));
            let free = free.filter_map(|at| find_port(&inventory.fabric, port_id(&before.fabric, at)));
            free.filter(|&at| !is_copied_to(at)).collect()
        });
        inventory.withdraw(list, |at| free.contains(&at));
    }

    /// Updates the list of places out of service after a plan was accepted that sends no Set: adds the ports that the
    /// plan disables, and removes the places that are back in service. If the list is only proposed, this happens when
    /// it comes into force.
    pub(super) fn settle_out_of_service(&mut self, inventory: &Inventory, out: &mut Vec<Output>) {
        let before = &self.config.policy.out_of_service;
        if before.is_empty() || self.config.mode != Mode::Manage || self.changes.wanted().is_some() {
            return;
        }
        let Some(after) = settled(before, &inventory.fabric, &inventory.withdrawn.disable) else {
            return;
        };
        let (before, after) = (Arc::clone(before), Arc::new(after));
        Arc::make_mut(&mut self.config.policy).out_of_service = Arc::clone(&after);
        out.push(Output::Milestone(Milestone::OutOfService { before, after }));
    }

    /// Handles a new list from the master of this standby.
    pub(super) fn follow_list(&mut self, after: Arc<OutOfService>, out: &mut Vec<Output>) {
        let mut policy = self.wanted_policy();
        let before = Arc::clone(&policy.out_of_service);
        if self.role() != Role::Standby || before == after {
            return;
        }
        Arc::make_mut(&mut policy).out_of_service = Arc::clone(&after);
        out.push(Output::Milestone(Milestone::OutOfService { before, after }));
        self.propose(policy, out);
    }

    /// Notes that a plan is in force: another sweep may have to leave out links or disable ports.
    pub(super) fn withdraw_after_apply(&mut self) {
        let inventory = self.inventory.as_ref();
        let is_pending = inventory.is_some_and(|inventory| inventory.is_withdrawing() || inventory.has_orders_left());
        let has_failed = self.in_force.failed() > 0;
        self.tell_withdrawal(In::Applied { is_pending, has_failed });
    }

    /// Called when the timer is due.
    pub(super) fn withdraw_if_due(&mut self) {
        let Some(inventory) = self.inventory.clone() else {
            // Nothing is in reach: the next plan in force sets the timer again.
            return self.tell_withdrawal(In::Applied {
                is_pending: false,
                has_failed: false,
            });
        };
        let has_packets = self.under_way(&inventory.fabric).is_some();
        self.tell_withdrawal(In::Due { has_packets });
    }

    /// Returns the places that are out of service, for the health report: their nodes and links do not count as
    /// missing.
    pub(super) fn places_out_of_service(&self) -> Arc<NotMissed> {
        let list = &self.config.policy.out_of_service;
        if list.is_empty() {
            return Arc::default();
        }
        let mut out = NotMissed::default();
        for (place, notice) in list.iter().filter(|(_, notice)| notice.service != Service::Enable) {
            let ends = match *place {
                Place::Switch(guid) => {
                    out.nodes.insert(guid);
                    Vec::new()
                }
                Place::Link(a, b) => vec![a, b],
                Place::Port(id) => {
                    let inventory = self.in_force.inventory();
                    let is_switch = inventory.is_some_and(|inventory| {
                        let node = inventory.fabric.find(id.node);
                        node.is_some_and(|node| inventory.fabric.node(node).is_switch())
                    });
                    out.nodes.extend((!is_switch).then_some(id.node));
                    vec![id]
                }
            };
            let ends = ends.into_iter().chain(notice.disabled.iter().copied());
            out.ports.extend(ends.map(|id| (id.node, id.port)));
        }
        Arc::new(out)
    }

    /// Returns the withdrawal of links, for queries.
    pub(crate) const fn withdrawal(&self) -> &Withdrawal {
        &self.withdrawal
    }
}
