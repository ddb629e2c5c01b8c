//! What the operator's list of places out of service means on a fabric.
//!
//! A link between switches is withdrawn in two steps. First the engines plan without it, while the fabric shows it as
//! it is: it still carries packets, and the judge proves the transition. Once that plan is in force and the packets of
//! older entries are gone, the link is left out of the inventory, like a link in flap quarantine. From then on no
//! repair, backup, rebalancing step or multicast tree can use it. An isolated link is disabled after that.
//!
//! A drained switch keeps one link, by which packets to its own LID reach it. With one link it cannot be on the path
//! between two other nodes.
//!
//! The packets of a host are forwarded by entries of switches that stay in service. So a host that is withdrawn is cut
//! off when the plan begins: its link is taken down before any entry changes, and the plan is made for a fabric in
//! which that link is down.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, LinkState, PortRef};
use selvedge_plan::{ChangeSet, LinkOrder, Op, OutOfService, Phase};
use selvedge_types::{PhysState, PortState};
use selvedge_verify::standing::wait_ns;

use crate::inventory::Inventory;
use crate::port_reason::PortReason;
pub use crate::withdrawn::{Withdrawn, ends_of, find_port, port_id, settled};

impl Inventory {
    /// Removes the links that the list names from the fabric of this inventory. Links of hosts are removed at once.
    /// Other links are removed if they carry no packets, or if `is_free` returns true: no entry in force leads over
    /// them.
    pub fn withdraw(&mut self, list: &OutOfService, is_free: impl Fn(PortRef) -> bool) {
        if list.is_empty() {
            return;
        }
        let withdrawn = Withdrawn::of(list, &self.fabric, self.local);
        let is_active = |at: PortRef| {
            let port = self.fabric.port(at);
            port.is_some_and(|port| port.link.state == PortState::Active)
        };
        let carries = |at: PortRef| is_active(at) && self.fabric.peer(at).is_some_and(is_active);
        let idle = withdrawn.idle.iter().copied().filter(|&at| !carries(at) || is_free(at));
        let out: BTreeSet<PortRef> = idle.chain(withdrawn.hosts.iter().copied()).collect();
        self.fabric = without(&self.fabric, &out);
        let agents = Arc::make_mut(&mut self.agents);
        for at in withdrawn.links.iter().chain(&withdrawn.hosts) {
            if let Some(agent) = agents.get_mut(at.node) {
                agent.troubles.insert(at.port, PortReason::OutOfService);
            }
        }
        // Each switch that was reached still is: `Withdrawn` keeps a link to it.
        let between: BTreeSet<PortRef> = out.difference(&withdrawn.hosts).copied().collect();
        let _ = self.lead_around(&between);
        self.withdrawn = Arc::new(withdrawn);
    }

    /// True if a link that is to be left out still carries packets, as far as is known.
    #[must_use]
    pub fn is_withdrawing(&self) -> bool {
        self.withdrawn.idle.iter().any(|&at| self.fabric.link_is_up(at))
    }

    /// Returns the fabric that routes are planned on: without the links that are withdrawn.
    #[must_use]
    pub fn in_service(&self) -> Arc<Fabric> {
        self.in_service_of(&self.fabric)
    }

    /// Does the same as [`Self::in_service`] for `fabric`, a copy of the snapshot with other changes.
    pub(crate) fn in_service_of(&self, fabric: &Arc<Fabric>) -> Arc<Fabric> {
        match self.is_withdrawing() {
            true => without(fabric, &self.withdrawn.idle),
            false => Arc::clone(fabric),
        }
    }

    /// True if a link must still be taken down, disabled or enabled, or no sweep has confirmed yet that it is.
    #[must_use]
    pub fn has_orders_left(&self) -> bool {
        let withdrawn = &self.withdrawn;
        let mut disable = withdrawn.disable.iter().filter(|at| withdrawn.links.contains(at));
        !withdrawn.poll.is_empty() || self.cuts().next().is_some() || disable.any(|&at| !self.is_disabled(at))
    }

    /// True if a sweep is yet to find that the link of a port is taken down, or disabled.
    #[must_use]
    pub fn has_order_left_at(&self, near: PortRef) -> bool {
        let is_left = self.withdrawn.disable.contains(&near) && !self.is_disabled(near);
        is_left || self.cuts().any(|(at, _)| at == near)
    }

    /// Adds the Sets that take links down or enable ports again to a change set. Hosts are cut off first, and their
    /// packets have drained before entries change. Links between switches are disabled when no entry leads over them,
    /// and, by `copies_to`, no multicast copies go over them.
    pub(crate) fn order_links(&self, changes: &mut ChangeSet, copies_to: impl Fn(PortRef) -> bool) {
        let withdrawn = &self.withdrawn;
        let cut: Vec<Op> = self.cuts().map(|(port, order)| Op::Link { port, order }).collect();
        if !cut.is_empty() {
            if let Some(next) = changes.phases.first_mut() {
                next.wait_before_ns = next.wait_before_ns.max(wait_ns(&self.fabric).unwrap_or(0));
            }
            changes
                .phases
                .insert(0, phase("cut off hosts that are out of service", cut));
        }
        let between = withdrawn
            .disable
            .iter()
            .copied()
            .filter(|at| withdrawn.links.contains(at));
        let between = between.filter(|&at| !self.is_withdrawing() && !self.is_disabled(at) && !copies_to(at));
        let disable = between.map(|port| Op::Link {
            port,
            order: LinkOrder::Disable,
        });
        let poll = withdrawn.poll.iter().map(|&port| Op::Link {
            port,
            order: LinkOrder::Poll,
        });
        let last: Vec<Op> = disable.chain(poll).collect();
        if !last.is_empty() {
            changes.phases.push(phase("disable and enable ports", last));
        }
    }

    /// Returns the ports of switches to hosts that must be cut off and were not when the sweep read them, each with the
    /// order for its link.
    fn cuts(&self) -> impl Iterator<Item = (PortRef, LinkOrder)> + '_ {
        let withdrawn = &self.withdrawn;
        let is_switch = |at: PortRef| self.fabric.switch_index(at.node).is_some();
        let hosts = withdrawn.hosts.iter().copied().filter(move |&at| is_switch(at));
        hosts.filter_map(|port| match withdrawn.disable.contains(&port) {
            true => (!self.is_disabled(port)).then_some((port, LinkOrder::Disable)),
            false => self.carries_data(port).then_some((port, LinkOrder::Down)),
        })
    }

    /// True if a port was last read as disabled, or never.
    fn is_disabled(&self, at: PortRef) -> bool {
        let info = self.port_info(at);
        info.is_none_or(|info| info.phys_state == Some(PhysState::Disabled))
    }

    /// True if the port of a switch, or the host behind it, was last seen ARMED or ACTIVE.
    fn carries_data(&self, port: PortRef) -> bool {
        let ends = [Some(port), self.fabric.peer(port)];
        let mut infos = ends.into_iter().flatten().filter_map(|at| self.port_info(at));
        infos.any(|info| matches!(info.state, Some(PortState::Armed | PortState::Active)))
    }
}

const fn phase(label: &'static str, ops: Vec<Op>) -> Phase {
    Phase {
        label,
        wait_before_ns: 0,
        ops,
    }
}

/// Returns the fabric with the links at these ends set to down.
fn without(fabric: &Arc<Fabric>, ends: &BTreeSet<PortRef>) -> Arc<Fabric> {
    let mut less = Arc::clone(fabric);
    for &at in ends {
        if let Some(port) = fabric.port(at) {
            let (link, settings) = (port.link, port.settings);
            let link = LinkState {
                state: PortState::Down,
                ..link
            };
            Arc::make_mut(&mut less).set_port(at, link, settings);
        }
    }
    less
}
