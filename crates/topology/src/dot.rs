//! A fabric as a Graphviz graph.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use selvedge_fabric::{Fabric, NodeIdx};
use selvedge_types::Idx;

use crate::NodeNames;
use crate::text::printable;

/// How hosts are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DotHosts {
    /// Each as a node of its own.
    Each,
    /// As a number on their switch: readable for hundreds.
    Folded,
}

/// An undirected graph: switches as boxes in ranks by their distance from hosts, parallel cables as one edge with
/// their number.
#[must_use]
pub fn write_dot(fabric: &Fabric, names: &NodeNames, hosts: DotHosts) -> String {
    let mut text = String::from("graph fabric {\n  rankdir=BT;\n  node [shape=box, fontsize=10];\n");
    let is_drawn = |idx: NodeIdx| hosts == DotHosts::Each || fabric.node(idx).is_switch();
    let edges = edges(fabric);
    let mut folded: BTreeMap<NodeIdx, usize> = BTreeMap::new();
    for (&(a, b), &count) in &edges {
        for (switch, other) in [(a, b), (b, a)] {
            if !is_drawn(other) {
                *folded.entry(switch).or_default() += count;
            }
        }
    }
    // Writing to a String cannot fail.
    let mut ranks: BTreeMap<usize, Vec<NodeIdx>> = BTreeMap::new();
    for (idx, distance) in distances(fabric).into_iter().filter(|&(idx, _)| is_drawn(idx)) {
        ranks.entry(distance).or_default().push(idx);
    }
    for nodes in ranks.values() {
        text.push_str("  { rank=same;\n");
        for &idx in nodes {
            let node = fabric.node(idx);
            let hosts = folded
                .get(&idx)
                .map_or_else(String::new, |n| format!("\\n{n} host ports"));
            let shape = if node.is_switch() { "" } else { ", shape=ellipse" };
            let _ = writeln!(
                text,
                "    n{} [label=\"{}{hosts}\"{shape}];",
                idx.0,
                label(names.label(node))
            );
        }
        text.push_str("  }\n");
    }
    for (&(a, b), &count) in edges.iter().filter(|&(&(a, b), _)| is_drawn(a) && is_drawn(b)) {
        let number = if count > 1 {
            format!(" [label=\"{count}\"]")
        } else {
            String::new()
        };
        let _ = writeln!(text, "  n{} -- n{}{number};", a.0, b.0);
    }
    text.push_str("}\n");
    text
}

/// Cables between each pair of nodes.
fn edges(fabric: &Fabric) -> BTreeMap<(NodeIdx, NodeIdx), usize> {
    let mut edges = BTreeMap::new();
    for link in fabric.links() {
        let pair = (link.a.node.min(link.b.node), link.a.node.max(link.b.node));
        *edges.entry(pair).or_default() += 1;
    }
    edges
}

/// Each node's distance from the nearest host; what no host reaches comes last.
fn distances(fabric: &Fabric) -> Vec<(NodeIdx, usize)> {
    let mut distance = vec![None; fabric.nodes().len()];
    let mut queue: VecDeque<NodeIdx> = VecDeque::new();
    for (idx, _) in fabric.nodes().iter_enumerated().filter(|(_, n)| !n.is_switch()) {
        distance[idx.to_usize()] = Some(0);
        queue.push_back(idx);
    }
    while let Some(idx) = queue.pop_front() {
        let next = distance[idx.to_usize()].map_or(0, |d| d + 1);
        for peer in fabric.node(idx).external_ports().filter_map(|(_, port)| port.peer) {
            let slot = &mut distance[peer.node.to_usize()];
            if slot.is_none() {
                *slot = Some(next);
                queue.push_back(peer.node);
            }
        }
    }
    let all = fabric.nodes().indices().zip(distance);
    all.map(|(idx, d)| (idx, d.unwrap_or(usize::MAX))).collect()
}

fn label(name: &str) -> String {
    let clean = name.chars().map(printable);
    clean
        .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;

    fn check(spec: &str, hosts: DotHosts, want: &str) {
        let Ok(Spec::Generated(recipe)) = spec.parse() else {
            panic!("{spec}")
        };
        let text = write_dot(&recipe.fabric().unwrap(), &NodeNames::default(), hosts);
        let body: Vec<&str> = text.lines().skip(3).map(str::trim).collect();
        assert_eq!(body.join("\n"), want, "{spec}");
    }

    #[test]
    fn hosts_are_folded_or_drawn() {
        let folded = r#"{ rank=same;
n0 [label="S-L1-0\n2 host ports"];
n1 [label="S-L1-1\n2 host ports"];
}
{ rank=same;
n2 [label="S-L2-0"];
}
n0 -- n2 [label="2"];
n1 -- n2 [label="2"];
}"#;
        check("pgft:m=2x2,w=1x1,p=1x2", DotHosts::Folded, folded);
        let drawn = r#"{ rank=same;
n1 [label="H-0", shape=ellipse];
}
{ rank=same;
n0 [label="S-0"];
}
n0 -- n1;
}"#;
        check("single:ports=2,hosts=1", DotHosts::Each, drawn);
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(label("a \"b\" \\ \n"), "a \\\"b\\\" \\\\  ");
    }
}
