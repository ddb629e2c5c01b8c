//! The ports that can be destinations, and the number of each, which decides its routes.

use selvedge_fabric::{Fabric, NodeIdx, PortRef, SwitchIdx};
use selvedge_types::{Idx, PortNum};

use super::net::{Host, Net};
use super::shape::{NONE, Shape};

/// An end port, seen from the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Not attached to a switch.
    Nowhere,
    /// At a leaf: index of the leaf in the order of leaves, topological number, egress at the leaf.
    Leaf { leaf: u32, number: u32, egress: u8 },
    /// At an upper switch: index in [`Uppers`].
    Upper { upper: u32 },
}

/// Destinations at upper switches: the switches themselves, and hosts (I/O nodes) on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Upper {
    pub switch: u32,
    pub egress: u8,
}

/// Targets of all end ports.
#[derive(Clone, Debug, Default)]
pub(super) struct Targets {
    /// By node: the index of its first port.
    first: Vec<u32>,
    target: Vec<Target>,
    pub uppers: Vec<Upper>,
}

impl Targets {
    /// Numbers the hosts: leaf by leaf in the order of leaves, within a leaf by port. If any leaf has a host at some
    /// port number, this port gets a number on every leaf. So the numbers of other hosts do not change when a host
    /// comes or goes.
    pub fn new(fabric: &Fabric, net: &Net, shape: &Shape) -> Self {
        let mut targets = Self::default();
        for node in fabric.nodes().iter() {
            let at = u32::try_from(targets.target.len()).unwrap_or(u32::MAX);
            targets.first.push(at);
            let ports = usize::from(node.port_count()) + 1;
            // Only port 0 of a switch can have a LID.
            let ports = if node.is_switch() { 1 } else { ports };
            targets.target.resize(targets.target.len() + ports, Target::Nowhere);
        }
        let mut numberings = [true, false].map(|compute| Numbering::new(net, shape, compute));
        for (leaf, &s) in shape.leaves.iter().enumerate() {
            let leaf = u32::try_from(leaf).unwrap_or(u32::MAX);
            for host in net.hosts.get(s as usize) {
                let number = numberings[usize::from(!host.compute)].number(net, s as usize, leaf, host);
                targets.put_leaf(host.at, leaf, number, host.egress);
            }
            numberings
                .iter_mut()
                .for_each(|n| n.pass(&net.nominal_ports[s as usize]));
            if (s as usize) < net.real {
                targets.put_leaf(own_port(fabric, s), leaf, leaf, 0);
            }
        }
        for s in (0..net.real).filter(|&s| shape.level[s] > 0) {
            let switch = u32::try_from(s).unwrap_or(NONE);
            targets.put_upper(own_port(fabric, switch), Upper { switch, egress: 0 });
        }
        for s in (0..net.real).filter(|&s| shape.level[s] > 0) {
            let switch = u32::try_from(s).unwrap_or(NONE);
            for host in net.hosts.get(s) {
                let egress = host.egress;
                targets.put_upper(host.at, Upper { switch, egress });
            }
        }
        targets
    }

    /// The target at an end port; `None` if it is no end port of this fabric.
    #[inline]
    pub fn get(&self, port: PortRef) -> Option<Target> {
        let node = port.node.0 as usize;
        let first = *self.first.get(node)? as usize;
        let end = self.first.get(node + 1).map_or(self.target.len(), |&end| end as usize);
        self.target
            .get(first + port.port.index())
            .copied()
            .filter(|_| first + port.port.index() < end)
    }

    /// Returns every end port with its target.
    pub fn iter(&self) -> impl Iterator<Item = (PortRef, Target)> + '_ {
        let end = |node: usize| self.first.get(node + 1).map_or(self.target.len(), |&end| end as usize);
        let of_node = self
            .first
            .iter()
            .enumerate()
            .map(move |(node, &first)| (node, first as usize, end(node)));
        of_node.flat_map(move |(node, first, end)| {
            let targets = self.target.get(first..end).unwrap_or_default().iter().zip(0..=u8::MAX);
            targets.filter_map(move |(&target, port)| {
                let (node, port) = (NodeIdx(u32::try_from(node).ok()?), PortNum::new(port)?);
                Some((PortRef { node, port }, target))
            })
        })
    }

    fn put_leaf(&mut self, at: PortRef, leaf: u32, number: u32, egress: u8) {
        self.put(at, Target::Leaf { leaf, number, egress });
    }

    fn put_upper(&mut self, at: PortRef, upper: Upper) {
        let place = u32::try_from(self.uppers.len()).unwrap_or(u32::MAX);
        self.uppers.push(upper);
        self.put(at, Target::Upper { upper: place });
    }

    fn put(&mut self, at: PortRef, target: Target) {
        let place = self.first[at.node.0 as usize] as usize + at.port.index();
        if let Some(slot) = self.target.get_mut(place) {
            *slot = target;
        }
    }
}

fn own_port(fabric: &Fabric, switch: u32) -> PortRef {
    PortRef {
        node: fabric.switches()[SwitchIdx::from_usize(switch as usize)],
        port: PortNum::MANAGEMENT,
    }
}

/// Numbers the hosts of leaves: compute nodes on their own and other hosts on their own, so that both are balanced.
struct Numbering {
    compute: bool,
    /// For each port number its index among the hosts of a leaf, and the number of indices of a leaf. `None`: hosts are
    /// numbered consecutively, because the leaves differ so much that with numbers by port a few planes would carry
    /// most of the load.
    by_port: Option<(Vec<u32>, u32)>,
    /// Number of hosts on the leaves before this one.
    before: u32,
}

impl Numbering {
    fn new(net: &Net, shape: &Shape, compute: bool) -> Self {
        /// Share of the numbers that must be hosts for numbering by port.
        const FULL: (usize, usize) = (3, 4);
        let mut used = [false; 256];
        let mut hosts = 0;
        for &s in &shape.leaves {
            for &(port, _) in net.nominal_ports[s as usize].iter().filter(|p| p.1 == compute) {
                used[usize::from(port)] = true;
                hosts += 1;
            }
        }
        let count = used.iter().filter(|u| **u).count();
        let is_even = hosts * FULL.1 >= count * shape.leaves.len() * FULL.0;
        let mut next = 0;
        let places = used.iter().map(|&u| {
            let at = next;
            next += u32::from(u);
            at
        });
        let places: Vec<u32> = places.collect();
        Self {
            compute,
            by_port: is_even.then_some((places, next)),
            before: 0,
        }
    }

    fn number(&self, net: &Net, switch: usize, leaf: u32, host: &Host) -> u32 {
        match &self.by_port {
            Some((places, count)) => leaf * count + places[usize::from(host.egress)],
            None => {
                let ports = net.nominal_ports[switch].iter();
                let lower = ports.filter(|p| p.1 == self.compute && p.0 < host.egress).count();
                self.before + u32::try_from(lower).unwrap_or(0)
            }
        }
    }

    /// Goes on to the next leaf.
    fn pass(&mut self, ports: &[(u8, bool)]) {
        let mine = ports.iter().filter(|p| p.1 == self.compute).count();
        self.before += u32::try_from(mine).unwrap_or(0);
    }
}
