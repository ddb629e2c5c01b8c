//! A heat map: leaf switches × spine switches, each cell coloured by the worst of the links between them.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use selvedge_types::{Guid, NodeKind};

use crate::picture::scale::{colour, xml};
use crate::{End, Inventory};

/// A heat map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// The leaf switches: those with hosts. GUID and name, by name.
    pub leaves: Vec<(Guid, String)>,
    /// The other switches.
    pub spines: Vec<(Guid, String)>,
    /// By leaf and spine: share from the leaf up, and down to it, the largest of all links between them. Absent: no
    /// link between them is up.
    pub cells: BTreeMap<(Guid, Guid), (f64, f64)>,
}

/// Width and height of a cell, and of the margin with names, in pixels.
const CELL: usize = 14;
const MARGIN: usize = 110;

/// Returns the heat map of a fabric by a share of each sending port, such as its utilisation or XmitWait. Links between
/// two leaves, or two spines, are not in it.
#[must_use]
pub fn heat_map(inventory: &Inventory, share: impl Fn(End) -> Option<f64>) -> HeatMap {
    let is_switch = |guid: &Guid| {
        inventory
            .nodes
            .get(guid)
            .is_some_and(|node| node.kind == NodeKind::Switch)
    };
    let is_leaf = |guid: &Guid| {
        let ports = inventory.nodes.get(guid).map(|node| &node.ports);
        ports.is_some_and(|ports| {
            ports
                .iter()
                .filter_map(|port| port.peer)
                .any(|peer| !is_switch(&peer.node))
        })
    };
    let mut map = HeatMap::default();
    for (guid, node) in inventory.nodes.iter().filter(|(guid, _)| is_switch(guid)) {
        let list = if is_leaf(guid) {
            &mut map.leaves
        } else {
            &mut map.spines
        };
        list.push((*guid, node.description.clone()));
    }
    for list in [&mut map.leaves, &mut map.spines] {
        list.sort_by_cached_key(|(guid, name)| (natural(name), *guid));
    }
    for (leaf, _) in &map.leaves {
        let node = &inventory.nodes[leaf];
        for port in node.ports.iter().filter(|port| port.is_up()) {
            let Some(peer) = port.peer.filter(|peer| is_switch(&peer.node) && !is_leaf(&peer.node)) else {
                continue;
            };
            let up = share(End {
                node: *leaf,
                port: port.num,
            });
            let cell = map.cells.entry((*leaf, peer.node)).or_default();
            cell.0 = cell.0.max(up.unwrap_or(0.0));
            cell.1 = cell.1.max(share(peer).unwrap_or(0.0));
        }
    }
    map
}

/// Returns a key in which numbers count by their value: `leaf 2` before `leaf 10`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0_u64)];
    let mut was_digit = false;
    for c in name.chars() {
        if was_digit && !c.is_ascii_digit() {
            parts.push((String::new(), 0));
        }
        was_digit = c.is_ascii_digit();
        let Some((text, number)) = parts.last_mut() else {
            continue;
        };
        match c.to_digit(10) {
            Some(digit) => *number = number.saturating_mul(10).saturating_add(u64::from(digit)),
            None => text.push(c),
        }
    }
    parts
}

impl HeatMap {
    /// Draws it as SVG: a row for each leaf, a column for each spine. The upper left half of a cell is the way up from
    /// the leaf, the lower right half the way down to it. `what` is what the colours show.
    #[must_use]
    pub fn svg(&self, what: &str) -> String {
        let (width, height) = (
            // The legend with its last word may be wider than the map.
            MARGIN + (CELL * self.spines.len() + 20).max(190),
            MARGIN + CELL * self.leaves.len() + 50,
        );
        let mut svg = String::new();
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"10\">\n<title>{}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>",
            xml(what)
        );
        for (column, (_, name)) in self.spines.iter().enumerate() {
            let x = MARGIN + column * CELL + CELL - 3;
            let y = MARGIN - 6;
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" transform=\"rotate(-90 {x} {y})\">{}</text>",
                short(name)
            );
        }
        for (row, (leaf, name)) in self.leaves.iter().enumerate() {
            let y = MARGIN + row * CELL;
            let (x, below) = (MARGIN - 6, y + CELL - 3);
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{below}\" text-anchor=\"end\">{}</text>",
                short(name)
            );
            for (column, (spine, far)) in self.spines.iter().enumerate() {
                let x = MARGIN + column * CELL;
                self.cell(&mut svg, (x, y), (*leaf, name), (*spine, far));
            }
        }
        legend(&mut svg, MARGIN + CELL * self.leaves.len() + 20, what);
        svg.push_str("</svg>\n");
        svg
    }

    fn cell(&self, svg: &mut String, (x, y): (usize, usize), leaf: (Guid, &str), spine: (Guid, &str)) {
        let (right, bottom) = (x + CELL - 1, y + CELL - 1);
        let Some((up, down)) = self.cells.get(&(leaf.0, spine.0)) else {
            let side = CELL - 1;
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill=\"#eeeeee\"/>"
            );
            return;
        };
        let title = format!(
            "{} - {}: {:.1} % up, {:.1} % down",
            leaf.1,
            spine.1,
            100.0 * up,
            100.0 * down
        );
        let _ = writeln!(
            svg,
            "<g><title>{}</title><path d=\"M{x} {y}H{right}L{x} {bottom}z\" fill=\"{}\"/>\
             <path d=\"M{right} {y}V{bottom}H{x}z\" fill=\"{}\"/></g>",
            xml(&title),
            colour(*up),
            colour(*down)
        );
    }
}

/// Returns the beginning of a name that fits into the margin.
fn short(name: &str) -> String {
    const CHARS_MAX: usize = 18;
    let kept: String = name.chars().take(CHARS_MAX).collect();
    xml(&kept)
}

fn legend(svg: &mut String, y: usize, what: &str) {
    let below = y + 12;
    for step in 0..=10 {
        let x = MARGIN + 12 * step;
        let fill = colour(step as f64 / 10.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{fill}\"/>"
        );
    }
    let (start, end, under) = (MARGIN - 6, MARGIN + 138, below - 2);
    let _ = writeln!(
        svg,
        "<text x=\"{start}\" y=\"{under}\" text-anchor=\"end\">{} 0 %</text>",
        xml(what)
    );
    let _ = writeln!(svg, "<text x=\"{end}\" y=\"{under}\">100 %</text>");
}
