//! Finds the planes of the whole fabric, and the number of host ports from which pairs are counted.
//!
//! A *plane* is a set of parts that would be one connected part if no link were missing. Hosts have one port in each
//! rail, so two rails have the same hosts and are separate planes. Parts that share no host are pieces of one plane.

use std::collections::BTreeSet;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_types::PortNum;

use crate::ground::Ground;

/// The planes of a fabric, and its host ports.
#[derive(Debug)]
pub struct Whole {
    /// Plane of each part: first the parts with switches, then pairs of hosts on one cable.
    pub plane_of: Vec<usize>,
    /// Host ports with a trained link, for each part.
    pub live_of_part: Vec<u64>,
    /// Host ports with a trained link, for each plane.
    pub live_of_plane: Vec<u64>,
    /// Unreachable host ports: cabled ports with a link that is down, and hosts without a cable.
    pub unlinked: u64,
}

impl Whole {
    /// Assigns the parts of a fabric to planes.
    pub fn new(ground: &Ground<'_>) -> Self {
        let mut ports_of: Vec<Vec<PortRef>> = vec![Vec::new(); ground.parts];
        for host in &ground.hosts {
            ports_of[ground.part[host.switch as usize] as usize].push(host.at);
        }
        ports_of.extend(ground.back_to_back.iter().map(|&(a, b)| vec![a, b]));
        let mut whole = Self {
            plane_of: vec![0; ports_of.len()],
            live_of_part: ports_of.iter().map(|ports| ports.len() as u64).collect(),
            live_of_plane: Vec::new(),
            unlinked: unlinked(ground),
        };
        let mut hosts_of_planes: Vec<BTreeSet<NodeIdx>> = vec![BTreeSet::new()];
        if ports_of.len() > 1 {
            // Rails follow port numbers: pieces of the first rail are joined before those of the next.
            let mut order: Vec<usize> = (0..ports_of.len()).collect();
            order.sort_by_key(|&part| ports_of[part].iter().map(|at| at.port).min());
            for part in order {
                let hosts: BTreeSet<NodeIdx> = ports_of[part].iter().map(|at| at.node).collect();
                let plane = hosts_of_planes.iter().position(|known| known.is_disjoint(&hosts));
                let plane = plane.unwrap_or(hosts_of_planes.len());
                match hosts_of_planes.get_mut(plane) {
                    Some(known) => known.extend(hosts),
                    None => hosts_of_planes.push(hosts),
                }
                whole.plane_of[part] = plane;
            }
        }
        whole.live_of_plane = vec![0; hosts_of_planes.len()];
        for (&plane, live) in whole.plane_of.iter().zip(&whole.live_of_part) {
            whole.live_of_plane[plane] += live;
        }
        whole
    }

    /// Returns the ordered pairs of different host ports of one plane, including unlinked ports.
    pub fn host_pairs(&self) -> u64 {
        let unlinked = std::iter::once(self.unlinked).chain(std::iter::repeat(0));
        let hosts = self.live_of_plane.iter().zip(unlinked);
        hosts.map(|(live, unlinked)| ordered_pairs(live + unlinked)).sum()
    }

    /// Returns the ordered pairs of linked host ports that are in the same plane but in different parts.
    pub fn pairs_apart(&self) -> u64 {
        let pairs = |hosts: &[u64]| hosts.iter().map(|&n| ordered_pairs(n)).sum::<u64>();
        pairs(&self.live_of_plane) - pairs(&self.live_of_part)
    }
}

/// Returns the number of ordered pairs of `n` objects.
const fn ordered_pairs(n: u64) -> u64 {
    n * n.saturating_sub(1)
}

fn unlinked(ground: &Ground<'_>) -> u64 {
    let fabric = ground.subject.fabric;
    let hosts = fabric.nodes().iter_enumerated().filter(|(_, node)| !node.is_switch());
    let of_host = hosts.map(|(idx, node)| {
        let is_up = |port: PortNum| fabric.link_is_up(PortRef { node: idx, port });
        let cabled = || node.external_ports().filter(|(_, port)| port.peer.is_some());
        let down = cabled().filter(|&(port, _)| !is_up(port)).count() as u64;
        match cabled().next() {
            Some(_) => down,
            None => 1,
        }
    });
    of_host.sum()
}

#[cfg(test)]
mod tests {
    use selvedge_types::{NodeKind, PortState};

    use crate::{Figures, JudgeOptions, Subject, support, verify};

    fn figures(net: support::Net) -> Figures {
        let fabric = net.finish(PortState::Active);
        let lids = support::lids(&fabric, 0);
        let tables = support::minhop(&fabric, &lids);
        let plan = support::plan(&fabric, lids, tables);
        verify(Subject::plan(&fabric, &plan), &JudgeOptions::default()).figures
    }

    fn check(net: support::Net, pairs: u64, reached: u64) {
        let found = figures(net);
        assert_eq!((found.host_pairs, found.host_pairs_reached), (pairs, reached));
    }

    /// Hosts with a port on each of two switches that no link joins; a third switch is free.
    fn rails(hosts: u64) -> support::Net {
        let mut net = support::Net::new(3, 8);
        let builder = net.builder();
        let switches: Vec<_> = builder.nodes().map(|(key, _)| key).take(2).collect();
        for host in 0..hosts {
            let guid = selvedge_types::Guid(0x9000 + 8 * host);
            let mut node = selvedge_fabric::Node::new(NodeKind::Ca, guid, 2, format!("r{host}"));
            for number in [1, 2] {
                let port = node.port_mut(support::port(number)).unwrap();
                port.guid = selvedge_types::Guid(guid.0 + u64::from(number));
            }
            let key = builder.add(node);
            for (number, &switch) in (1..).zip(&switches) {
                let there = support::port(1 + host as u8);
                builder.link((key, support::port(number)), (switch, there)).unwrap();
            }
        }
        net
    }

    #[test]
    fn pairs_are_counted_against_all_hosts() {
        let mut net = support::Net::new(2, 8);
        net.host(0).host(0).host(1);
        check(net, 3 * 2, 2);
        // Three pieces, one of them without hosts.
        let mut net = support::Net::new(4, 8);
        net.link(0, 1).host(0).host(1).host(2).host(2);
        check(net, 4 * 3, 4);
    }

    #[test]
    fn rails_are_no_pieces() {
        check(rails(3), 2 * 3 * 2, 2 * 3 * 2);
        // A host with one port, alone on a third switch: a piece of the first rail.
        let mut net = rails(3);
        net.host(2);
        check(net, 4 * 3 + 3 * 2, 2 * 3 * 2);
    }

    #[test]
    fn hosts_without_a_link_count() {
        let mut net = support::Net::new(1, 4);
        net.host(0).host(0).host(0).down(0, support::port(3));
        check(net, 3 * 2, 2);
    }
}
