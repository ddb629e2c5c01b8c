//! The switches and links of a tree: the live ones, and those that are known to be missing.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, NodeIdx, PortRef, SwitchIdx};
use selvedge_graph::Lists;
use selvedge_types::{Guid, Idx, NodeKind};

use crate::options::HostLists;

/// One end of a link between two switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The switch at the other end.
    pub peer: u32,
    /// The port at this end.
    pub port: u8,
    /// False for a link that belongs to the tree but is down.
    pub alive: bool,
}

/// A live host port behind a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// The switch's port.
    pub egress: u8,
    /// The host's port.
    pub at: PortRef,
    /// True for a compute node.
    pub compute: bool,
}

/// The switches of a tree. The first `real` ones are those of the fabric; the others exist only in the nominal fabric,
/// so they are missing now.
#[derive(Clone, Debug, Default)]
pub(super) struct Net {
    pub real: usize,
    pub guid: Vec<Guid>,
    pub links: Lists<Link>,
    pub hosts: Lists<Host>,
    /// By switch: the number of compute nodes that should be attached; at least the number that is attached now. It
    /// decides which switches are leaves.
    pub nominal_hosts: Vec<usize>,
    /// Ports of hosts that should be attached, ascending, each with a flag for compute nodes.
    pub nominal_ports: Vec<Vec<(u8, bool)>>,
}

impl Net {
    /// Collects the switches and links of `fabric`, and those that only `nominal` has.
    pub fn new(fabric: &Fabric, nominal: Option<&Fabric>, lists: &HostLists) -> Self {
        let real = fabric.switches().len();
        let mut net = Self {
            real,
            guid: fabric.switches().iter().map(|&n| fabric.node(n).guid).collect(),
            ..Self::default()
        };
        let kinds = Kinds::new(lists);
        let mut links: Vec<Vec<Link>> = Vec::with_capacity(real);
        for (at, &node) in fabric.switches().iter_enumerated() {
            let (mine, hosts) = read_switch(fabric, at, node, &kinds);
            net.nominal_ports
                .push(hosts.iter().map(|h| (h.egress, h.compute)).collect());
            net.hosts.push(hosts);
            links.push(mine);
        }
        if let Some(nominal) = nominal {
            net.remember(fabric, nominal, &kinds, &mut links);
        }
        let compute = |ports: &Vec<(u8, bool)>| ports.iter().filter(|p| p.1).count();
        net.nominal_hosts = net.nominal_ports.iter().map(compute).collect();
        for mut mine in links {
            mine.sort_unstable_by_key(|l| l.port);
            net.links.push(mine);
        }
        net
    }

    /// Returns the number of switches, including missing ones.
    pub fn total(&self) -> usize {
        self.guid.len()
    }

    fn remember(&mut self, fabric: &Fabric, nominal: &Fabric, kinds: &Kinds, links: &mut Vec<Vec<Link>>) {
        let mut index = Vec::with_capacity(nominal.switches().len());
        for &node in nominal.switches().iter() {
            let guid = nominal.node(node).guid;
            let here = fabric.find(guid).and_then(|n| fabric.switch_index(n));
            let i = here.map_or(self.guid.len(), Idx::to_usize);
            if here.is_none() {
                self.guid.push(guid);
                self.nominal_ports.push(Vec::new());
                self.hosts.push([]);
                links.push(Vec::new());
            }
            index.push(i);
        }
        // Read before links are added: a port that is in use again hides the link that was there.
        let used: Vec<[u64; 4]> = links.iter().map(|mine| port_set(mine)).collect();
        let is_used = |switch: usize, port: u8| used[switch][usize::from(port) / 64] >> (port % 64) & 1 == 1;
        for (at, &node) in nominal.switches().iter_enumerated() {
            let (mine, hosts) = read_switch(nominal, at, node, kinds);
            let from = index[at.to_usize()];
            let ports = &mut self.nominal_ports[from];
            ports.extend(hosts.iter().map(|h| (h.egress, h.compute)));
            ports.sort_by_key(|p| p.0);
            ports.dedup_by_key(|p| p.0);
            for link in mine {
                let to = index[link.peer as usize];
                let far = SwitchIdx(link.peer);
                let back = nominal
                    .peer(PortRef {
                        node,
                        port: selvedge_types::PortNum::new(link.port).unwrap_or_default(),
                    })
                    .filter(|p| nominal.switch_index(p.node) == Some(far));
                let free = back.is_some_and(|b| !is_used(to, b.port.get())) && !is_used(from, link.port);
                if free {
                    links[from].push(Link {
                        peer: u32::try_from(to).unwrap_or(u32::MAX),
                        port: link.port,
                        alive: false,
                    });
                }
            }
        }
    }
}

/// The hosts that are compute nodes, and those that are I/O nodes.
struct Kinds {
    compute: BTreeSet<Guid>,
    io: BTreeSet<Guid>,
}

impl Kinds {
    fn new(lists: &HostLists) -> Self {
        Self {
            compute: lists.compute.iter().copied().collect(),
            io: lists.io.iter().copied().collect(),
        }
    }

    fn is_compute(&self, fabric: &Fabric, port: PortRef) -> bool {
        if self.compute.is_empty() && self.io.is_empty() {
            return true;
        }
        let guid = fabric.port(port).map(|p| p.guid).unwrap_or_default();
        !self.io.contains(&guid) && (self.compute.is_empty() || self.compute.contains(&guid))
    }
}

fn port_set(links: &[Link]) -> [u64; 4] {
    let mut set = [0; 4];
    for link in links {
        set[usize::from(link.port) / 64] |= 1 << (link.port % 64);
    }
    set
}

/// Links to other switches, and live host ports, of one switch. A cable with an end that is not up is a dead link.
fn read_switch(fabric: &Fabric, at: SwitchIdx, node: NodeIdx, kinds: &Kinds) -> (Vec<Link>, Vec<Host>) {
    let (mut links, mut hosts) = (Vec::new(), Vec::new());
    for (port, seen) in fabric.node(node).external_ports() {
        let Some(peer) = seen.peer else { continue };
        let alive = fabric.link_is_up(PortRef { node, port });
        match fabric.switch_index(peer.node) {
            Some(to) if to != at => links.push(Link {
                peer: to.0,
                port: port.get(),
                alive,
            }),
            None if alive && fabric.node(peer.node).kind != NodeKind::Switch => hosts.push(Host {
                egress: port.get(),
                at: peer,
                compute: kinds.is_compute(fabric, peer),
            }),
            Some(_) | None => {}
        }
    }
    (links, hosts)
}
