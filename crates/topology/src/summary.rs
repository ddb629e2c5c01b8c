//! Counts of a fabric.

use std::collections::BTreeMap;
use std::fmt;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_types::{Idx, Lmc, NodeKind};
use serde::Serialize;

/// Numbers of nodes, cables and ports of a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Switches.
    pub switches: usize,
    /// Channel adapters, without aggregation nodes.
    pub hosts: usize,
    /// Aggregation nodes: channel adapters inside switches.
    pub aggregation_nodes: usize,
    /// Routers.
    pub routers: usize,
    /// Cables between switches.
    pub switch_links: usize,
    /// Number of all other cables.
    pub host_links: usize,
    /// External ports without a cable.
    pub uncabled_ports: usize,
    /// Number of external ports that are up, by width and speed such as `4xEDR`.
    pub ports_by_rate: BTreeMap<String, usize>,
    /// Connected components: 1 for a complete fabric. A node without cables is a component.
    pub components: usize,
}

impl Summary {
    /// Counts a fabric.
    #[must_use]
    pub fn of(fabric: &Fabric) -> Self {
        let mut summary = Self {
            components: components(fabric),
            ..Self::default()
        };
        for node in fabric.nodes().iter() {
            match node.kind {
                NodeKind::Switch => summary.switches += 1,
                NodeKind::Router => summary.routers += 1,
                NodeKind::Ca if node.is_aggregation_node() => summary.aggregation_nodes += 1,
                NodeKind::Ca => summary.hosts += 1,
            }
            for (_, port) in node.external_ports() {
                summary.uncabled_ports += usize::from(port.peer.is_none());
                if port.is_up() {
                    *summary.ports_by_rate.entry(port.link.rate.to_string()).or_default() += 1;
                }
            }
        }
        let is_switch = |at: PortRef| fabric.node(at.node).is_switch();
        for link in fabric.links() {
            if is_switch(link.a) && is_switch(link.b) {
                summary.switch_links += 1;
            } else {
                summary.host_links += 1;
            }
        }
        summary
    }

    /// Returns the number of LIDs that a subnet manager needs: one per switch, `2^lmc` per cabled port of every other
    /// node. A subnet has 49,151.
    #[must_use]
    pub fn lids_wanted(fabric: &Fabric, lmc: Lmc) -> usize {
        fabric
            .end_ports()
            .map(|(at, port)| match (fabric.node(at.node).is_switch(), port.peer) {
                (true, _) => 1,
                (false, Some(_)) => usize::from(lmc.lids()),
                (false, None) => 0,
            })
            .sum()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} switches, {} hosts", self.switches, self.hosts)?;
        for (count, what) in [(self.aggregation_nodes, "aggregation nodes"), (self.routers, "routers")] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        write!(
            f,
            "; {} links between switches, {} to hosts",
            self.switch_links, self.host_links
        )?;
        for (rate, count) in &self.ports_by_rate {
            write!(f, "; {count} ports {rate}")?;
        }
        write!(f, "; {} ports uncabled", self.uncabled_ports)?;
        if self.components > 1 {
            write!(f, "; in {} parts", self.components)?;
        }
        Ok(())
    }
}

fn components(fabric: &Fabric) -> usize {
    let mut seen = vec![false; fabric.nodes().len()];
    let (mut count, mut stack) = (0, Vec::new());
    for start in fabric.nodes().indices() {
        if std::mem::replace(&mut seen[start.to_usize()], true) {
            continue;
        }
        count += 1;
        stack.push(start);
        while let Some(idx) = stack.pop() {
            let peers = fabric.node(idx).external_ports().filter_map(|(_, port)| port.peer);
            for peer in peers {
                if !std::mem::replace(&mut seen[peer.node.to_usize()], true) {
                    stack.push(peer.node);
                }
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;

    #[test]
    fn figures_in_words() {
        let check = |spec: &str, want: &str| {
            let Ok(Spec::Generated(recipe)) = spec.parse() else {
                panic!("{spec}")
            };
            assert_eq!(Summary::of(&recipe.fabric().unwrap()).to_string(), want);
        };
        check(
            "mport:m=4,n=2,rate=4xEDR",
            "6 switches, 8 hosts; 8 links between switches, 8 to hosts; 32 ports 4xEDR; 0 ports uncabled",
        );
        check(
            "ring:switches=3,hosts=0,remove-links=2",
            "3 switches, 0 hosts; 1 links between switches, 0 to hosts; 2 ports 4xHDR; 4 ports uncabled; in 2 parts",
        );
    }
}
