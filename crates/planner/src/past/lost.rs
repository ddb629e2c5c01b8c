//! Links that carried packets and no longer do: packets that had crossed them may be under way.

use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::LostLink;
use selvedge_types::{Guid, PortNum, PortState};

/// A [`LostLink`] by GUID, as switches are numbered anew in every sweep; without a switch where it begins if a host
/// sent by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lost {
    from: Option<Guid>,
    port: u8,
    to: Guid,
    into: u8,
}

impl Lost {
    /// The link as a fabric numbers it; none if packets cross it again, or what it entered is gone.
    pub(super) fn in_fabric(&self, fabric: &Fabric) -> Option<LostLink> {
        let (link, is_back) = self.found_in(fabric)?;
        (!is_back).then_some(link)
    }

    /// The link, and whether packets cross it again; none if what it entered is gone.
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
            // Whatever host is there now sends as the other one did.
            None => far.is_some_and(|far| fabric.switch_index(far.node).is_none()),
        };
        Some((link, is_back))
    }
}

/// Links into switches that carried packets and do not now, as far as can be seen: of what is out of sight nobody
/// knows, and what it has taken in is still there when it comes back. And those of senders who were never seen.
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

/// Ports of switches, and what they are cabled to.
fn switch_ports(fabric: &Fabric) -> impl Iterator<Item = (PortRef, Option<PortRef>)> {
    fabric.switches().iter().flat_map(|&node| {
        let ports = fabric.node(node).external_ports();
        ports.map(move |(port, seen)| (PortRef { node, port }, seen.peer))
    })
}

fn names_of_lost<'a>(before: &'a Fabric, now: &'a Fabric) -> impl Iterator<Item = Lost> + 'a {
    let guid = |at: PortRef| before.node(at.node).guid;
    let end = move |at: PortRef| {
        // Nearly always they are numbered alike.
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

/// Links into switches by which somebody may have sent of whom nothing was known, and that count for nobody now. A port
/// that is ACTIVE, and behind which nobody answers, counts as one of a host, which sends. Once it is known to lead to a
/// switch, or has gone down, it does so no more; but whoever is behind it has sent until now, and may not be in sight
/// yet.
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
