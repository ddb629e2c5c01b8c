//! The routes in force: where packets that leave by a port go next, and which pairs of hosts cross it.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, NO_PATH, Tables};
use selvedge_types::{Idx, Lid, PortNum};

use super::ahead::Ahead;
use crate::End;

/// A fabric with the LIDs and forwarding tables in force. The tables are those of a plan for this fabric: a switch that
/// they do not have drops all packets.
#[derive(Clone, Copy, Debug)]
pub struct Routes<'a> {
    /// Nodes and links.
    pub fabric: &'a Fabric,
    /// LIDs of end ports.
    pub lids: &'a Lids,
    /// Forwarding tables.
    pub tables: &'a Tables,
}

/// A source and one LID of a destination: all packets from one to the other take one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The host port that sends.
    pub from: End,
    /// The host port that receives.
    pub to: End,
    /// The LID of `to` that the packets have.
    pub lid: Lid,
}

/// What is known of the route from a switch to a LID.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leads {
    Unknown,
    /// The route is being followed.
    Open,
    /// The route crosses the link.
    Across,
    /// The route ends, or loops, without crossing the link.
    Elsewhere,
}

impl Routes<'_> {
    /// Returns the port in the fabric; `None` if the fabric does not have it.
    #[must_use]
    pub fn port(&self, end: End) -> Option<PortRef> {
        let at = PortRef {
            node: self.fabric.find(end.node)?,
            port: PortNum::new(end.port)?,
        };
        self.fabric.port(at).map(|_| at)
    }

    /// Returns a port by the GUID of its node.
    #[must_use]
    pub fn end(&self, at: PortRef) -> End {
        End {
            node: self.fabric.node(at.node).guid,
            port: at.port.get(),
        }
    }

    /// Returns the port in which packets arrive that leave by this one; `None` if the link is not up.
    #[must_use]
    pub fn peer(&self, at: PortRef) -> Option<PortRef> {
        self.fabric.peer(at).filter(|_| self.fabric.link_is_up(at))
    }

    /// Returns all ports with a LID that are no switch's, with each of their LIDs.
    pub(super) fn host_lids(&self) -> impl Iterator<Item = (Lid, PortRef)> {
        let lids = self.lids.by_lid();
        lids.filter(|(_, owner)| {
            self.fabric
                .nodes()
                .get(owner.node)
                .is_some_and(|node| !node.is_switch())
        })
    }

    /// Returns the port by which packets to a LID leave a switch; `None`: it drops or keeps them.
    pub(super) fn egress(&self, switch: SwitchIdx, lid: Lid) -> Option<PortRef> {
        if switch.to_usize() >= self.tables.switches() {
            return None;
        }
        let port = self.tables.get(switch, lid);
        let port = PortNum::new(port).filter(|num| num.get() != NO_PATH && *num != PortNum::MANAGEMENT)?;
        let node = *self.fabric.switches().get(switch)?;
        Some(PortRef { node, port })
    }

    /// Returns the LIDs of hosts to which packets leave by this port: by the tables of a switch; from a host to all
    /// LIDs but its own.
    fn lids_through(&self, at: PortRef) -> Vec<Lid> {
        let switch = self.fabric.switch_index(at.node);
        let leaves_here = |(lid, owner): &(Lid, PortRef)| match switch {
            Some(switch) => self.egress(switch, *lid) == Some(at),
            None => *owner != at,
        };
        self.host_lids().filter(leaves_here).map(|(lid, _)| lid).collect()
    }

    /// Returns the ports by which packets that leave by `at` may leave the next switch; `None` if they arrive at a host
    /// or the link is not up.
    #[must_use]
    pub fn next(&self, at: PortRef) -> Option<BTreeSet<PortRef>> {
        Ahead::new(self).next(at)
    }

    /// Returns the pairs of hosts with a route over the link of a port, in the direction in which the port sends: by
    /// source, then LID. Every host may send to every other; partitions are not considered.
    #[must_use]
    pub fn crossing(&self, end: End) -> Vec<Pair> {
        let Some(at) = self.port(end).filter(|at| self.peer(*at).is_some()) else {
            return Vec::new();
        };
        let sources = self.sources();
        let is_switch = self.fabric.switch_index(at.node).is_some();
        let mut pairs = Vec::new();
        let mut leads = vec![Leads::Unknown; self.fabric.switches().len()];
        for lid in self.lids_through(at) {
            let Some(owner) = self.lids.owner(lid) else { continue };
            let to = self.end(owner);
            leads.fill(Leads::Unknown);
            for (source, first) in &sources {
                let crosses = match is_switch {
                    true => self.leads_across(at, *first, lid, &mut leads),
                    false => *source == at,
                };
                if crosses && *source != owner {
                    let from = self.end(*source);
                    pairs.push(Pair { from, to, lid });
                }
            }
        }
        pairs.sort_unstable();
        pairs
    }

    /// Returns the ports of hosts with the switch of each.
    fn sources(&self) -> Vec<(PortRef, SwitchIdx)> {
        let ends = self.fabric.end_ports().map(|(at, _)| at);
        let hosts = ends.filter(|at| self.fabric.switch_index(at.node).is_none() && self.lids.range(*at).is_some());
        hosts
            .filter_map(|at| Some((at, self.fabric.switch_index(self.peer(at)?.node)?)))
            .collect()
    }

    /// True if the route from a switch to a LID leaves by the port `at`. What is found is noted for all switches of the
    /// route.
    fn leads_across(&self, at: PortRef, from: SwitchIdx, lid: Lid, leads: &mut [Leads]) -> bool {
        let mut path = Vec::new();
        let mut switch = from;
        let found = loop {
            match leads[switch.to_usize()] {
                Leads::Unknown => {}
                // The route comes back to a switch: it is a loop.
                Leads::Open => break Leads::Elsewhere,
                known => break known,
            }
            leads[switch.to_usize()] = Leads::Open;
            path.push(switch);
            let Some(egress) = self.egress(switch, lid) else {
                break Leads::Elsewhere;
            };
            if egress == at {
                break Leads::Across;
            }
            let next = self.peer(egress).and_then(|peer| self.fabric.switch_index(peer.node));
            let Some(next) = next else {
                break Leads::Elsewhere;
            };
            switch = next;
        };
        for switch in path {
            leads[switch.to_usize()] = found;
        }
        found == Leads::Across
    }
}
