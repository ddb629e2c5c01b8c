//! A fabric as a Graphviz graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use selvedge_fabric::{Fabric, Node, NodeIdx};
use selvedge_types::Idx;

use crate::NodeNames;
use crate::text::printable;

/// How hosts are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DotHosts {
    /// Each host is a node of its own.
    Each,
    /// Each switch shows the number of its hosts: readable with hundreds of hosts.
    Folded,
}

/// Writes an undirected graph: switches as boxes, parallel cables as one line, which is wider the more cables there
/// are.
///
/// If switches have different distances from hosts, as in a tree, each distance is a rank with a fixed order. Otherwise
/// a spring layout is clearer.
#[must_use]
pub fn write_dot(fabric: &Fabric, names: &NodeNames, hosts: DotHosts) -> String {
    let is_drawn = |idx: NodeIdx| hosts == DotHosts::Each || fabric.node(idx).is_switch();
    let distances = distances(fabric);
    let edges = edges(fabric, &distances);
    let mut folded: BTreeMap<NodeIdx, usize> = BTreeMap::new();
    for (&(a, b), &count) in &edges {
        for (switch, other) in [(a, b), (b, a)] {
            if !is_drawn(other) {
                *folded.entry(switch).or_default() += count;
            }
        }
    }
    let mut ranks: BTreeMap<usize, Vec<NodeIdx>> = BTreeMap::new();
    for (idx, &distance) in fabric.nodes().indices().zip(&distances) {
        if is_drawn(idx) {
            ranks.entry(distance).or_default().push(idx);
        }
    }
    let has_ranks = {
        let switches = fabric.switches().iter().map(|idx| distances[idx.to_usize()]);
        switches.collect::<BTreeSet<_>>().len() > 1
    };
    let mut text = head(has_ranks, ranks.values().map(Vec::len).max().unwrap_or(0));
    for nodes in ranks.values() {
        text.push_str("  {\n");
        for &idx in nodes {
            let node = fabric.node(idx);
            let hosts = folded
                .get(&idx)
                .map_or_else(String::new, |n| format!("\\n{n} host ports"));
            let shape = if node.is_switch() { "" } else { ", shape=ellipse" };
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(
                text,
                "    n{} [label=\"{}{hosts}\"{shape}];",
                idx.0,
                label(names.label(node))
            );
        }
        if has_ranks {
            text.push_str("    rank=same;\n");
            for pair in nodes.windows(2) {
                let _ = writeln!(text, "    n{} -- n{} [style=invis];", pair[0].0, pair[1].0);
            }
        }
        text.push_str("  }\n");
    }
    for (&(a, b), &count) in edges.iter().filter(|&(&(a, b), _)| is_drawn(a) && is_drawn(b)) {
        let width = if count > 1 {
            format!(" [penwidth={count}, tooltip=\"{count} cables\"]")
        } else {
            String::new()
        };
        let _ = writeln!(text, "  n{} -- n{}{width};", a.0, b.0);
    }
    text.push_str("}\n");
    text
}

/// Writes the attributes of the graph. `widest` is the number of nodes in the widest rank.
fn head(has_ranks: bool, widest: usize) -> String {
    let layout = if has_ranks {
        // The wider a rank, the flatter its lines: more height separates them.
        let quarters = widest.clamp(2, 40);
        format!("rankdir=BT; ranksep={}.{:02};", quarters / 4, quarters % 4 * 25)
    } else {
        "layout=neato; overlap=false;".to_owned()
    };
    // Nodes are drawn over the lines, so that no line crosses a name.
    let node = "shape=box, style=filled, fillcolor=white, fontsize=10";
    format!("graph fabric {{\n  {layout} splines=line; outputorder=edgesfirst;\n  node [{node}];\n")
}

/// Returns the number of cables between each pair of nodes. The node nearer to hosts comes first and is drawn lower.
fn edges(fabric: &Fabric, distances: &[usize]) -> BTreeMap<(NodeIdx, NodeIdx), usize> {
    let mut edges = BTreeMap::new();
    let place = |idx: NodeIdx| (distances[idx.to_usize()], idx);
    for link in fabric.links() {
        let (a, b) = (link.a.node, link.b.node);
        let pair = if place(a) <= place(b) { (a, b) } else { (b, a) };
        *edges.entry(pair).or_default() += 1;
    }
    edges
}

/// Returns each node's distance from the nearest host. Nodes that no host reaches come last. Aggregation nodes do not
/// count as hosts, because they are inside switches of any rank.
fn distances(fabric: &Fabric) -> Vec<usize> {
    let mut distance = vec![None; fabric.nodes().len()];
    let mut queue: VecDeque<NodeIdx> = VecDeque::new();
    let is_host = |node: &Node| !node.is_switch() && !node.is_aggregation_node();
    for (idx, _) in fabric.nodes().iter_enumerated().filter(|(_, n)| is_host(n)) {
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
    distance.into_iter().map(|d| d.unwrap_or(usize::MAX)).collect()
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
        let lines = text.lines().filter(|line| !line.starts_with("  node"));
        assert_eq!(lines.map(str::trim).collect::<Vec<_>>().join("\n"), want, "{spec}");
    }

    #[test]
    fn trees_have_ranks() {
        let folded = r#"graph fabric {
rankdir=BT; ranksep=0.50; splines=line; outputorder=edgesfirst;
{
n0 [label="S-L1-0\n2 host ports"];
n1 [label="S-L1-1\n2 host ports"];
rank=same;
n0 -- n1 [style=invis];
}
{
n2 [label="S-L2-0"];
rank=same;
}
n0 -- n2 [penwidth=2, tooltip="2 cables"];
n1 -- n2 [penwidth=2, tooltip="2 cables"];
}"#;
        check("pgft:m=2x2,w=1x1,p=1x2", DotHosts::Folded, folded);
    }

    #[test]
    fn others_have_none() {
        let drawn = r#"graph fabric {
layout=neato; overlap=false; splines=line; outputorder=edgesfirst;
{
n1 [label="H-0", shape=ellipse];
}
{
n0 [label="S-0"];
}
n1 -- n0;
}"#;
        check("single:ports=2,hosts=1", DotHosts::Each, drawn);
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(label("a \"b\" \\ \n"), "a \\\"b\\\" \\\\  ");
    }
}
