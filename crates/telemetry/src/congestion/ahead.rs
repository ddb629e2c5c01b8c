//! Where packets that leave by a port go next, for all ports of a fabric at once: each table is read once.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{PortRef, SwitchIdx};
use selvedge_types::{Lid, PortNum};

use super::Routes;
use crate::PortSet;

/// What a switch does with the LIDs of hosts.
#[derive(Debug, Default)]
struct Forwards {
    /// By the port by which packets leave: the ports by which they leave the next switch.
    next: BTreeMap<PortNum, PortSet>,
    /// By the same port: how many LIDs leave by it.
    lids: BTreeMap<PortNum, u32>,
}

/// The next ports of all ports, found once for each switch.
#[derive(Debug)]
pub(super) struct Ahead<'a> {
    routes: &'a Routes<'a>,
    /// LIDs of hosts with their owners.
    lids: Vec<(Lid, PortRef)>,
    switches: BTreeMap<SwitchIdx, Forwards>,
}

impl<'a> Ahead<'a> {
    pub(super) fn new(routes: &'a Routes<'a>) -> Self {
        Self {
            lids: routes.host_lids().collect(),
            routes,
            switches: BTreeMap::new(),
        }
    }

    /// Returns the ports by which packets that leave by `at` may leave the next switch; `None` if they arrive at a host
    /// or the link is not up.
    pub(super) fn next(&mut self, at: PortRef) -> Option<BTreeSet<PortRef>> {
        let peer = self.routes.peer(at)?;
        let next = self.routes.fabric.switch_index(peer.node)?;
        let ports: Vec<PortNum> = match self.routes.fabric.switch_index(at.node) {
            Some(own) => {
                let set = self.forwards(own).next.get(&at.port).copied().unwrap_or_default();
                set.iter().filter_map(PortNum::new).collect()
            }
            // A host sends to all LIDs but its own.
            None => {
                let own: Vec<Lid> = self
                    .lids
                    .iter()
                    .filter(|(_, of)| *of == at)
                    .map(|(lid, _)| *lid)
                    .collect();
                let routes = self.routes;
                let back: Vec<PortNum> = own
                    .iter()
                    .filter_map(|lid| Some(routes.egress(next, *lid)?.port))
                    .collect();
                let count = |port: &PortNum| back.iter().filter(|back| *back == port).count() as u32;
                let lids = self.forwards(next).lids.iter();
                lids.filter(|(port, lids)| **lids > count(port))
                    .map(|(port, _)| *port)
                    .collect()
            }
        };
        let at_next = |port| PortRef { node: peer.node, port };
        Some(ports.into_iter().map(at_next).collect())
    }

    fn forwards(&mut self, switch: SwitchIdx) -> &Forwards {
        let (routes, lids) = (self.routes, &self.lids);
        self.switches.entry(switch).or_insert_with(|| {
            let mut forwards = Forwards::default();
            let mut peers: BTreeMap<PortNum, Option<SwitchIdx>> = BTreeMap::new();
            for (lid, _) in lids {
                let Some(at) = routes.egress(switch, *lid) else {
                    continue;
                };
                *forwards.lids.entry(at.port).or_default() += 1;
                let peer = peers.entry(at.port).or_insert_with(|| {
                    let peer = routes.peer(at)?;
                    routes.fabric.switch_index(peer.node)
                });
                if let Some(next) = peer.and_then(|next| routes.egress(next, *lid)) {
                    forwards.next.entry(at.port).or_default().insert(next.port.get());
                }
            }
            forwards
        })
    }
}
