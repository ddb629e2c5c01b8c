//! Hop counts from every switch to every switch, through each port.

use std::collections::VecDeque;
use std::fmt::Write as _;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::Lids;
use selvedge_types::{Idx, Lid, PortNum};

use super::{Sink, switches};

/// Stands for no path.
pub(super) const NO_WAY: u8 = 255;

/// The fewest hops between switches over links that are up, counted as in OpenSM's `minhop`.
#[derive(Clone, Debug)]
pub struct HopCounts {
    /// Rows by target, then by switch.
    hops: Vec<u8>,
    /// By switch: the switch behind each port, from port 0.
    behind: Vec<Vec<Option<SwitchIdx>>>,
}

impl HopCounts {
    /// Counts the hops.
    #[must_use]
    pub fn new(fabric: &Fabric) -> Self {
        let behind: Vec<Vec<Option<SwitchIdx>>> = fabric
            .switches()
            .iter()
            .map(|&node| {
                let at = |port| PortRef { node, port };
                let switch = |port| {
                    let peer = fabric.peer(at(port)).filter(|_| fabric.link_is_up(at(port)))?;
                    fabric.switch_index(peer.node).filter(|_| peer.node != node)
                };
                let ports = fabric.node(node).all_ports();
                ports.map(|(port, _)| switch(port)).collect()
            })
            .collect();
        let count = behind.len();
        let mut hops = vec![NO_WAY; count * count];
        for (target, row) in hops.chunks_mut(count.max(1)).enumerate() {
            fill(row, target, &behind);
        }
        Self { hops, behind }
    }

    /// Returns the fewest hops to another switch; 255: no path.
    #[must_use]
    pub fn least(&self, from: SwitchIdx, to: SwitchIdx) -> u8 {
        let at = to.to_usize() * self.behind.len() + from.to_usize();
        self.hops.get(at).copied().unwrap_or(NO_WAY)
    }

    /// Returns the fewest hops through a port of the first switch; for port 0 the fewest of all.
    #[must_use]
    pub fn by(&self, from: SwitchIdx, port: PortNum, to: SwitchIdx) -> u8 {
        if port == PortNum::MANAGEMENT {
            return self.least(from, to);
        }
        let behind = self
            .behind
            .get(from.to_usize())
            .and_then(|ports| ports.get(port.index()));
        let next = behind.copied().flatten();
        next.map_or(NO_WAY, |next| self.least(next, to).saturating_add(1))
    }
}

/// Fills in the hops from all switches to one. Every cable works in both directions.
fn fill(row: &mut [u8], target: usize, behind: &[Vec<Option<SwitchIdx>>]) {
    row[target] = 0;
    let mut todo = VecDeque::from([target]);
    while let Some(at) = todo.pop_front() {
        let next = row[at].saturating_add(1).min(NO_WAY - 1);
        for switch in behind[at].iter().flatten() {
            if row[switch.to_usize()] == NO_WAY {
                row[switch.to_usize()] = next;
                todo.push_back(switch.to_usize());
            }
        }
    }
}

/// Writes `opensm-lid-matrix.dump`, which OpenSM's `file` engine reads (`lid_matrix_dump_file`).
///
/// The hop counts are those of `minhop`: to switches, over all cables. OpenSM engines that forbid turns write fewer
/// paths.
pub fn write_hops(fabric: &Fabric, lids: &Lids, hops: &HopCounts, sink: Sink<'_>) {
    let targets: Vec<(Lid, SwitchIdx, PortRef)> = lids
        .by_lid()
        .filter_map(|(lid, at)| Some((lid, fabric.switch_index(at.node)?, at)))
        .filter(|&(lid, _, at)| lids.base(at) == Some(lid))
        .collect();
    let mut text = String::new();
    for switch in switches(fabric) {
        let node = fabric.switch(switch);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "Switch: guid {}", node.guid);
        for &(lid, target, at) in &targets {
            if hops.least(switch, target) == NO_WAY {
                continue;
            }
            let _ = write!(text, "{:#06x}:", lid.0);
            for (port, _) in node.all_ports() {
                let _ = write!(text, " {:02x}", hops.by(switch, port, target));
            }
            let guid = fabric.port(at).map(|port| port.guid).unwrap_or_default();
            let _ = writeln!(text, " # portguid {guid}");
        }
        sink(&text);
        text.clear();
    }
}
