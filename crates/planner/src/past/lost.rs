//! Links that carried packets and no longer do. Packets that had crossed them may still be in flight.

use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::LostLink;
use selvedge_types::{Guid, PortNum, PortState};

/// A [`LostLink`] with GUIDs instead of switch numbers, because these change in every sweep. If a host sent on the
/// link, there is no switch at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lost {
    from: Option<Guid>,
    port: u8,
    to: Guid,
    into: u8,
}

impl Lost {
    /// Returns the link with the switch numbers of a fabric. `None` if packets cross it again, or if the switch that it
    /// entered is gone.
    pub(super) fn in_fabric(&self, fabric: &Fabric) -> Option<LostLink> {
        let (link, is_back) = self.found_in(fabric)?;
        (!is_back).then_some(link)
    }

    /// Returns the link, and whether packets cross it again. `None` if the switch that it entered is gone.
    pub(super) fn found_in(&self, fabric: &Fabric) -> Option<(LostLink, bool)> {
        let switch = |guid| fabric.switch_index(fabric.find(guid)?);
        let link = LostLink {
            from: self.from.and_then(switch),
            port: self.port,
            to: switch(self.to)?,
            into: self.into,
        };
        let end = |switch, port| {
            let node = *fabric.switches().get(switch)?;
            PortNum::new(port).map(|port| PortRef { node, port })
        };
        let leaves = link.from.and_then(|from| end(from, link.port));
        let enters = end(link.to, link.into)?;
        let far = fabric.peer(enters).filter(|&far| carries(fabric, far, enters));
        let is_back = match self.from {
            Some(_) => leaves.is_some() && far == leaves,
            // Any host that is there now sends as the former one did.
            None => far.is_some_and(|far| fabric.switch_index(far.node).is_none()),
        };
        Some((link, is_back))
    }
}

/// Returns the links into switches that carried packets in `before` and no longer do, and the links of senders that no
/// sweep has found. This includes links into a switch that the last sweep did not find: packets that the switch has
/// received are still in it when it is found again.
pub(super) fn lost_since(before: &Arc<Fabric>, now: &Fabric) -> Vec<Lost> {
    match std::ptr::eq(Arc::as_ptr(before), now) {
        true => Vec::new(),
        false => names_of_lost(before, now).chain(unseen_senders(before, now)).collect(),
    }
}

/// Returns the links into switches that carried packets before and do not now.
pub fn lost(before: &Fabric, now: &Fabric) -> Vec<LostLink> {
    names_of_lost(before, now)
        .filter_map(|link| link.in_fabric(now))
        .collect()
}

fn is_active(fabric: &Fabric, at: PortRef) -> bool {
    fabric.port(at).is_some_and(|port| port.link.state == PortState::Active)
}

fn carries(fabric: &Fabric, from: PortRef, to: PortRef) -> bool {
    is_active(fabric, from) && is_active(fabric, to)
}

/// Returns the ports of switches, each with the port at the other end of its cable.
fn switch_ports(fabric: &Fabric) -> impl Iterator<Item = (PortRef, Option<PortRef>)> {
    fabric.switches().iter().flat_map(|&node| {
        let ports = fabric.node(node).external_ports();
        ports.map(move |(port, seen)| (PortRef { node, port }, seen.peer))
    })
}

fn names_of_lost<'a>(before: &'a Fabric, now: &'a Fabric) -> impl Iterator<Item = Lost> + 'a {
    let guid = |at: PortRef| before.node(at.node).guid;
    let end = move |at: PortRef| {
        // Nearly always the switch numbers are the same.
        let is_numbered_alike = now.nodes().get(at.node).is_some_and(|node| node.guid == guid(at));
        let node = match is_numbered_alike {
            true => at.node,
            false => now.find(guid(at))?,
        };
        Some(PortRef { node, port: at.port })
    };
    switch_ports(before).filter_map(move |(to, peer)| {
        let from = peer.filter(|&from| carries(before, from, to))?;
        let stays = end(from)
            .zip(end(to))
            .is_some_and(|(leaves, enters)| now.peer(leaves) == Some(enters) && carries(now, leaves, enters));
        (!stays).then(|| Lost {
            from: before.switch_index(from.node).map(|_| guid(from)),
            port: from.port.get(),
            to: guid(to),
            into: to.port.get(),
        })
    })
}

/// Returns the links into switches on which an unknown node may have sent, and which no longer count as the link of a
/// host.
///
/// An ACTIVE port without an answering node behind it counts as a port to a host, which sends. This ends when the port
/// is known to lead to a switch, or has gone down. But the unknown node may have sent until now, even if no sweep has
/// found it yet.
fn unseen_senders<'a>(before: &'a Fabric, now: &'a Fabric) -> impl Iterator<Item = Lost> + 'a {
    let unseen = switch_ports(before).filter(|&(at, peer)| peer.is_none() && is_active(before, at));
    unseen.filter_map(|(PortRef { node, port }, _)| {
        let to = before.node(node).guid;
        let node = now.find(to)?;
        let seen = now.port(PortRef { node, port })?;
        let is_of_switch = seen.peer.is_some_and(|peer| now.switch_index(peer.node).is_some());
        let counts = seen.link.state == PortState::Active && !is_of_switch;
        let (from, port) = (None, port.get());
        (!counts).then_some(Lost {
            from,
            port,
            to,
            into: port,
        })
    })
}
