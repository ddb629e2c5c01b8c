//! A fabric to measure, in every form that a run needs.

use std::collections::{BTreeMap, VecDeque};

use selvedge_conformance::NetSize;
use selvedge_fabric::{Fabric, NodeIdx};
use selvedge_topology::{Format, NodeNames, Spec, write};
use selvedge_types::PortNum;
use selvedge_wire::DirectedRoute;

use crate::error::BenchError;

/// A fabric to measure.
#[derive(Debug)]
pub struct Case {
    /// The specification as given: `sx6536`, `karytree:k=12,n=3`.
    pub spec: String,
    /// The fabric.
    pub fabric: Fabric,
    /// The fabric as ibsim's net file.
    pub net: String,
    /// The size with which ibsim must be started.
    pub size: NetSize,
    /// The host at which managers run.
    pub host: NodeIdx,
}

impl Case {
    /// Returns the fabric that `spec` generates; managers run at its first host.
    pub fn new(spec: &str) -> Result<Self, BenchError> {
        let Spec::Generated(recipe) = spec.parse()? else {
            return Err(BenchError::NoCase {
                spec: spec.to_owned(),
                problem: "it is a file",
            });
        };
        Self::of(spec, recipe.fabric()?)
    }

    /// Returns a case of a fabric under a name; managers run at its first host that has a cable.
    pub fn of(spec: &str, fabric: Fabric) -> Result<Self, BenchError> {
        let problem = |problem| BenchError::NoCase {
            spec: spec.to_owned(),
            problem,
        };
        let net = write(&fabric, Format::IbsimNet, &NodeNames::default());
        let cabled = |node: NodeIdx| fabric.node(node).end_ports().any(|(_, port)| port.peer.is_some());
        let mut hosts = fabric.nodes().indices().filter(|&node| !fabric.node(node).is_switch());
        let host = hosts
            .find(|&node| cabled(node))
            .ok_or_else(|| problem("no host is cabled"))?;
        let mut size = NetSize::of(&net);
        // A bring-up with LMC 0 assigns one LID per end port; ibsim clears as much memory as requested.
        size.linear_cap = (fabric.end_ports().count() + 64)
            .next_multiple_of(64)
            .clamp(1024, 0xC000);
        Ok(Self {
            spec: spec.to_owned(),
            net,
            size,
            host,
            fabric,
        })
    }

    /// Returns the name of the host at which managers run.
    #[must_use]
    pub fn host_name(&self) -> &str {
        &self.fabric.node(self.host).description
    }

    /// A shortest directed route from the host to every node, nearest first.
    #[must_use]
    pub fn routes(&self) -> Vec<(NodeIdx, DirectedRoute)> {
        let mut found = BTreeMap::from([(self.host, DirectedRoute::LOCAL)]);
        let mut order = vec![(self.host, DirectedRoute::LOCAL)];
        let mut queue = VecDeque::from([self.host]);
        while let Some(node) = queue.pop_front() {
            let here = self.fabric.node(node);
            // Only switches forward; and our own host lets us out.
            if !here.is_switch() && node != self.host {
                continue;
            }
            let route = found[&node];
            for (port, peer) in here.external_ports().filter_map(|(num, port)| Some((num, port.peer?))) {
                let Some(further) = route.then(port).filter(|_| !found.contains_key(&peer.node)) else {
                    continue;
                };
                found.insert(peer.node, further);
                order.push((peer.node, further));
                queue.push_back(peer.node);
            }
        }
        order
    }

    /// The port by which the host is cabled.
    #[must_use]
    pub fn host_port(&self) -> PortNum {
        let mut ports = self.fabric.node(self.host).end_ports();
        ports
            .find(|(_, port)| port.peer.is_some())
            .map(|(num, _)| num)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_reached_by_a_shortest_route() {
        let check = |spec: &str, depths: &[usize]| {
            let case = Case::new(spec).unwrap();
            let mut found = vec![0; depths.len()];
            case.routes()
                .iter()
                .for_each(|(_, route)| found[usize::from(route.hops())] += 1);
            assert_eq!(found, depths, "{spec}");
        };
        // Nodes by hops: the host, its leaf, the leaf's neighbours, and so on.
        check("single:ports=8,hosts=4", &[1, 1, 3]);
        check("karytree:k=2,n=2", &[1, 1, 1 + 2, 1, 2]);
        check("sx6536", &[1, 1, 17 + 9, 17, 17 * 18]);
    }

    #[test]
    fn files_and_empty_fabrics_are_refused() {
        let check = |spec: &str, want: &str| {
            let text = Case::new(spec).unwrap_err().to_string();
            assert!(text.contains(want), "{text}");
        };
        check("./some.net", "SLV-BENCH-0001");
        check("ring:switches=3,hosts=0", "no host is cabled");
        check("karytree:k=2", "SLV-TOPOLOGY");
    }
}
