//! Why a port is not ACTIVE: every such port is explained, or counted as a defect.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, NodeIdx, Port, PortRef};
use selvedge_types::{PhysState, PortNum, PortState};

use crate::config::Mode;
use crate::inventory::Inventory;
use crate::view::{PortReason, PortReport};

/// What went wrong on the way.
#[derive(Clone, Debug)]
pub struct Failures {
    /// Ports whose Set failed.
    pub ports: BTreeSet<PortRef>,
    /// Nodes of which another Set failed: their ports are not activated.
    pub nodes: BTreeSet<NodeIdx>,
    /// Why nothing was sent at all.
    pub nothing_sent: Option<NothingSent>,
}

/// Why a sweep ended without a Set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NothingSent {
    /// Ports are guarded by another M_Key than this one.
    MKey(u64),
    /// No plan was accepted.
    NoPlan,
}

impl Failures {
    /// Nothing went wrong.
    pub const fn none() -> Self {
        Self {
            ports: BTreeSet::new(),
            nodes: BTreeSet::new(),
            nothing_sent: None,
        }
    }

    /// Nothing was sent.
    pub fn nothing_sent(why: NothingSent) -> Self {
        Self {
            nothing_sent: Some(why),
            ..Self::none()
        }
    }
}

/// Every external port that is not ACTIVE, with its reason.
pub fn ports(fabric: &Fabric, inventory: &Inventory, mode: Mode, failures: &Failures) -> Vec<PortReport> {
    let mut reports = Vec::new();
    for (node, n) in fabric.nodes().iter_enumerated() {
        for (num, port) in n.external_ports().filter(|(_, p)| p.link.state != PortState::Active) {
            let at = PortRef { node, port: num };
            reports.push(PortReport {
                port: at,
                reason: reason(fabric, inventory, mode, failures, at, port),
            });
        }
    }
    reports
}

fn reason(
    fabric: &Fabric,
    inventory: &Inventory,
    mode: Mode,
    failures: &Failures,
    at: PortRef,
    port: &Port,
) -> PortReason {
    let trouble = inventory
        .agents
        .get(at.node)
        .and_then(|a| a.troubles.get(&at.port).copied());
    if trouble.is_none() && inventory.port_info(at).is_none() {
        return PortReason::NotSeen;
    }
    if trouble == Some(PortReason::LeftOut) {
        return PortReason::LeftOut;
    }
    match port.link.phys {
        PhysState::Disabled => return PortReason::Disabled,
        PhysState::Sleep | PhysState::Polling | PhysState::PhyTest => return PortReason::NoLink,
        PhysState::Training | PhysState::Recovery => return PortReason::Training,
        PhysState::LinkUp if port.link.state == PortState::Down => return PortReason::NoLink,
        PhysState::LinkUp => {}
    }
    let failed = |end: PortRef| failures.ports.contains(&end) || failures.nodes.contains(&end.node);
    if let Some(trouble) = trouble {
        trouble
    } else if let Some(why) = failures.nothing_sent {
        match why {
            NothingSent::MKey(key) if guarded(port, key) => PortReason::MKey,
            NothingSent::MKey(_) => PortReason::NotOurs,
            NothingSent::NoPlan => PortReason::NoPlan,
        }
    } else if failed(at) || port.peer.is_some_and(failed) {
        PortReason::SetFailed
    } else if mode != Mode::Manage {
        PortReason::NotOurs
    } else if port.peer.is_some() && !fabric.link_is_up(at) {
        PortReason::Training
    } else {
        PortReason::Unexplained
    }
}

/// True if the port's agent will refuse our Sets.
fn guarded(port: &Port, key: u64) -> bool {
    match port.settings.m_key {
        // With protection bits set, agents show 0 to askers without the key.
        0 => port.settings.m_key_protect != 0,
        held => held != key,
    }
}

/// The ports whose M_Key is not `key`, in words; `None` if there is none. Where most ports have our key, one that has
/// the LIDs we gave it (`ours`) is not counted: nobody else took the fabric over, but a bit was flipped on the way of a
/// Set, and the port can be had back.
pub fn foreign_m_keys(fabric: &Fabric, key: u64, ours: impl Fn(&Port) -> bool) -> Option<String> {
    let named_max = 5;
    let in_use = |(at, port): &(PortRef, &Port)| at.port == PortNum::MANAGEMENT || port.is_up();
    let (mut foreign, free): (Vec<_>, Vec<_>) = fabric
        .end_ports()
        .filter(in_use)
        .partition(|(_, port)| guarded(port, key));
    if foreign.len() < free.len() {
        foreign.retain(|(_, port)| !ours(port));
    }
    let foreign: Vec<PortRef> = foreign.into_iter().map(|(at, _)| at).collect();
    let names: Vec<String> = foreign.iter().take(named_max).map(|&at| fabric.port_name(at)).collect();
    match foreign.len() {
        0 => None,
        count if count <= named_max => Some(names.join(", ")),
        count => Some(format!("{} and {} more", names.join(", "), count - named_max)),
    }
}
