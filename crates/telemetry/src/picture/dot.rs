//! Connections with their loads and errors as a Graphviz graph. Source of the form: Sandia, OpenFabrics Alliance
//! Workshop 2017.

use core::fmt::Write as _;

use selvedge_types::NodeKind;

use crate::picture::scale::{colour, quoted};
use crate::{End, Inventory};

/// What is drawn at one end of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkLoad {
    /// Share of the link that the port sends, 0 to 1; `None`: not known.
    pub utilisation: Option<f64>,
    /// Share of the time in which the port waits to send, 0 to 1.
    pub wait: Option<f64>,
    /// Errors that the port counted.
    pub errors: u64,
}

/// Most links with labels: beside more, labels hide the links, so that they are tooltips of an SVG instead.
const LABELS_MAX: usize = 60;

/// Returns the graph of all links, each drawn once. The line's colour is that of the busier direction, its width grows
/// with the wait, links with errors are dashed, and links that are down are dotted. Labels show which ports are
/// connected and what both directions carry. Without `with_hosts`, only switches are drawn.
#[must_use]
pub fn connections(inventory: &Inventory, load: impl Fn(End) -> LinkLoad, with_hosts: bool) -> String {
    let is_drawn = |end: &End| {
        let node = inventory.nodes.get(&end.node);
        node.is_some_and(|node| with_hosts || node.kind == NodeKind::Switch)
    };
    let mut text = String::from(
        "graph fabric {\n  rankdir=TB;\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n  edge \
         [fontname=\"sans-serif\", fontsize=8];\n",
    );
    for (guid, node) in &inventory.nodes {
        let end = End { node: *guid, port: 0 };
        if !is_drawn(&end) {
            continue;
        }
        let shape = if node.kind == NodeKind::Switch {
            ""
        } else {
            ", shape=ellipse"
        };
        let name = if node.description.is_empty() {
            guid.to_string()
        } else {
            quoted(&node.description)
        };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "  \"{guid}\" [label=\"{name}\"{shape}];");
    }
    let mut links = Vec::new();
    for (guid, node) in &inventory.nodes {
        for port in &node.ports {
            let a = End {
                node: *guid,
                port: port.num,
            };
            let Some(b) = port.peer.filter(|b| is_drawn(&a) && is_drawn(b)) else {
                continue;
            };
            let is_listed_there = b < a && inventory.port(b).is_some_and(|far| far.peer == Some(a));
            if !is_listed_there {
                links.push((a, b, port.is_up()));
            }
        }
    }
    let label = if links.len() > LABELS_MAX { "tooltip" } else { "label" };
    if links.len() > LABELS_MAX {
        text.push_str("  ranksep=4; nodesep=0.1; splines=line;\n");
    }
    for (a, b, is_up) in links {
        edge(&mut text, label, (a, load(a)), (b, load(b)), is_up);
    }
    text.push_str("}\n");
    text
}

fn edge(text: &mut String, name: &str, (a, at_a): (End, LinkLoad), (b, at_b): (End, LinkLoad), is_up: bool) {
    let most = |of: fn(&LinkLoad) -> Option<f64>| [at_a, at_b].iter().filter_map(of).reduce(f64::max);
    let (utilisation, wait) = (most(|load| load.utilisation), most(|load| load.wait));
    let errors = at_a.errors.saturating_add(at_b.errors);
    let style = match (is_up, errors) {
        (false, _) => "dotted",
        (true, 0) => "solid",
        (true, _) => "dashed",
    };
    // A line in the lightest colour would not be seen on white.
    let colour = utilisation.map_or_else(|| "#888888".to_owned(), |share| colour(0.15 + 0.85 * share));
    let width = 1.0 + 4.0 * wait.unwrap_or(0.0);
    let way = |load: LinkLoad| {
        load.utilisation
            .map_or_else(|| "?".to_owned(), |share| format!("{:.0}%", 100.0 * share))
    };
    let mut label = format!("{}:{} {}/{}", a.port, b.port, way(at_a), way(at_b));
    if errors > 0 {
        let _ = write!(label, " {errors} errors");
    }
    let _ = writeln!(
        text,
        "  \"{}\" -- \"{}\" [{name}=\"{label}\", style={style}, color=\"{colour}\", penwidth={width:.1}];",
        a.node, b.node
    );
}
